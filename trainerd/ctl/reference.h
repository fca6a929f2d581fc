/* Texts made from the table: help, completions, the man page. */
#ifndef TRAINERD_CTL_REFERENCE_H
#define TRAINERD_CTL_REFERENCE_H

#include "protocol/base/status.h"
#include "trainerd/ctl/base/table.h"

#include <jansson.h>
#include <stdio.h>

/* All commands / one with its options. */
void reference_help(FILE *file);
void reference_help_command(FILE *file, enum ctl_command command);

/* errors  STATUS_USAGE a shell that is not bash, zsh or fish */
enum status reference_completion(FILE *file, const char *shell);

/* trainctl(1), as troff. */
void reference_man(FILE *file);

/* The table itself. owns  the caller has the reference */
json_t *reference_json(void);

#endif
