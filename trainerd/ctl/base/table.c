#include "trainerd/ctl/base/table.h"

#include <stdint.h>

#define OPTION(id, name, letter, value, words, help) {name, letter, value, CTL_WORDS_##words, help},
#define COMMAND(...)
const struct ctl_option_row ctl_options[CTL_OPTION_N] = {
#include "trainerd/ctl/base/commands.def"
};

#define OPTION(...)
#define COMMAND(name, run, operands, words, least, most, options, help, more)                                        \
    {#name, operands, CTL_WORDS_##words, least, most, help, more},
const struct ctl_command_row ctl_commands[CTL_COMMAND_N] = {
#include "trainerd/ctl/base/commands.def"
};

_Static_assert(CTL_OPTION_N <= 64, "an option is a bit of 64");

bool ctl_owns(enum ctl_command command, enum ctl_option option)
{
    /* The names of options in commands.def: enumerators would be of an int's width. */
#define OPTION(id, name, letter, value, words, help) const uint64_t id = UINT64_C(1) << CTL_OPTION_##id;
#define COMMAND(...)
#include "trainerd/ctl/base/commands.def"
    uint64_t owned = 0;
    (void)JSON; /* no command's own */
    (void)HELP;
    switch (command) {
#define OPTION(...)
#define COMMAND(name, run, operands, words, least, most, options, help, more)                                        \
    case CTL_COMMAND_##name:                                                                                         \
        owned = options;                                                                                             \
        break;
#include "trainerd/ctl/base/commands.def"
    case CTL_COMMAND_N:
        break;
    }
    return (owned >> option & 1) != 0;
}

bool ctl_takes(enum ctl_command command, enum ctl_option option)
{
    return option <= CTL_OPTION_HELP || ctl_owns(command, option);
}
