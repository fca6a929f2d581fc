/* trainctl's command line, parsed by the table. */
#ifndef TRAINERD_CTL_ARGUMENTS_H
#define TRAINERD_CTL_ARGUMENTS_H

#include "protocol/base/status.h"
#include "trainerd/ctl/base/table.h"

#include <stdbool.h>
#include <stddef.h>

struct ctl_list {
    const char **value; /* n */
    size_t n;
};

struct ctl_arguments {
    enum ctl_command command;
    const char *value[CTL_OPTION_N];    /* "" for an option that takes none; NULL: not given */
    struct ctl_list list[CTL_OPTION_N]; /* all values of an option that may be repeated */
    char **operand;                     /* n_operand, of argv */
    int n_operand;
    int *exit_code_out; /* 0; a command that does not fail may set another exit code */
};

/* Parse the command line; options and operands may be mixed.
 *
 *   owns    borrows argv, whose order it changes; the caller owns *out: ctl_arguments_release, also after an error
 *   errors  STATUS_USAGE
 */
enum status ctl_arguments_read(int argc, char **argv, struct ctl_arguments *out);
void ctl_arguments_release(struct ctl_arguments *arguments);

/* The command of this name. errors  STATUS_USAGE with the nearest name */
enum status ctl_command_named(const char *name, enum ctl_command *out);

/* May the option be repeated? */
bool ctl_repeats(enum ctl_option option);

/* Was the option given? */
bool ctl_given(const struct ctl_arguments *arguments, enum ctl_option option);
/* The option's whole number; `otherwise` when it was not given. errors  STATUS_USAGE out of range */
enum status ctl_int(const struct ctl_arguments *arguments, enum ctl_option option, long long least, long long most,
                    long long otherwise, long long *out);

#endif
