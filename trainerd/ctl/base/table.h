/* trainctl's commands and options as a table, made from commands.def. Does not know what commands do. */
#ifndef TRAINERD_CTL_TABLE_H
#define TRAINERD_CTL_TABLE_H

#include <stdbool.h>

#define CTL_EXIT_CODES                                                                                               \
    "exit codes: 0 done, 1 training failed, 2 usage, 65 bad data, 66 missing input or no such job,\n"                \
    "            69 daemon or peer unavailable, 70 internal error, 71 out of memory,\n"                              \
    "            73 cannot create output, 74 I/O error, 75 interrupted, 78 bad job file\n"

/* A shell's completions of a word. */
enum ctl_words {
    CTL_WORDS_NONE,
    CTL_WORDS_JOB,
    CTL_WORDS_FILE,
    CTL_WORDS_FOLDER,
    CTL_WORDS_SHELL,
    CTL_WORDS_COMMAND
};

#define OPTION(id, name, letter, value, words, help) CTL_OPTION_##id,
#define COMMAND(...)
enum ctl_option {
#include "trainerd/ctl/base/commands.def"
    CTL_OPTION_N
};

#define OPTION(...)
#define COMMAND(name, ...) CTL_COMMAND_##name,
enum ctl_command {
#include "trainerd/ctl/base/commands.def"
    CTL_COMMAND_N
};

struct ctl_option_row {
    const char *name;
    char letter;       /* 0: none */
    const char *value; /* name of its value; "": it takes no value */
    enum ctl_words words;
    const char *help;
};

struct ctl_command_row {
    const char *name, *operands;
    enum ctl_words words;
    int n_least, n_most; /* operands */
    const char *help, *more;
};

extern const struct ctl_option_row ctl_options[CTL_OPTION_N];
extern const struct ctl_command_row ctl_commands[CTL_COMMAND_N];

/* Does the option go with the command? Some go with every one. / Is it the command's own: what its help tells? */
bool ctl_takes(enum ctl_command command, enum ctl_option option);
bool ctl_owns(enum ctl_command command, enum ctl_option option);

#endif
