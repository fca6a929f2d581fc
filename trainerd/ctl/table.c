#include "trainerd/ctl/table.h"

#define OPTION(id, name, letter, value, words, help) {name, letter, value, CTL_WORDS_##words, help},
#define COMMAND(name, operands, words, least, most, options, help, more)
const struct ctl_option_row ctl_options[CTL_OPTION_N] = {
#include "trainerd/ctl/commands.def"
};

/* Names of the option bits in commands.def. */
#define OPTION(id, name, letter, value, words, help) id = 1 << CTL_OPTION_##id,
#define COMMAND(name, operands, words, least, most, options, help, more)
enum {
#include "trainerd/ctl/commands.def"
    CTL_EVERYWHERE = TO | SECRET_FILE | FINGERPRINT | USER | JSON | HELP
};

#define OPTION(id, name, letter, value, words, help)
#define COMMAND(name, operands, words, least, most, options, help, more)                                                       \
    {#name, operands, CTL_WORDS_##words, least, most, (options) | CTL_EVERYWHERE, help, more},
const struct ctl_command_row ctl_commands[CTL_COMMAND_N] = {
#include "trainerd/ctl/commands.def"
};
