/* trainctl's command line, read by the table. */
#ifndef TRAINERD_CTL_ARGUMENTS_H
#define TRAINERD_CTL_ARGUMENTS_H

#include "protocol/status.h"
#include "trainerd/ctl/table.h"

#include <stdbool.h>
#include <stddef.h>

struct ctl_arguments {
    enum ctl_command command;
    const char *value[CTL_OPTION_N]; /* "" for an option that takes none; NULL: not given */
    const char **set;                /* n_set values of --set */
    size_t n_set;
    char **operand; /* n_operand, of argv */
    int n_operand;
};

/* Read the command line; options may stand anywhere.
 *
 *   owns    borrows argv, whose order it changes; the caller owns *out: ctl_arguments_release, also after an error
 *   errors  STATUS_USAGE what is wrong, and what was expected
 */
enum status ctl_arguments_read(int argc, char **argv, struct ctl_arguments *out);
void ctl_arguments_release(struct ctl_arguments *arguments);

/* Was the option given? */
bool ctl_given(const struct ctl_arguments *arguments, enum ctl_option option);
/* The option's value as a whole number; `otherwise` when it was not given.
 * errors  STATUS_USAGE it is none in this range */
enum status ctl_int(const struct ctl_arguments *arguments, enum ctl_option option, long long least, long long most,
                    long long otherwise, long long *out);

#endif
