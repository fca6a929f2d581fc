#include "protocol/base/mistakes.h"

#include <stdio.h>
#include <string.h>

#define COUNT_BYTES 64 /* for the last line, if mistakes are left out */

void mistakes_take(struct mistakes *mistakes, enum status status)
{
    if (status == STATUS_OK) {
        return;
    }
    mistakes->status = mistakes->n == 0 ? status : mistakes->status;
    mistakes->n++;
    size_t n = strlen(status_reason());
    if (mistakes->n_left_out > 0 || mistakes->at + n + COUNT_BYTES >= sizeof mistakes->text) {
        mistakes->n_left_out++;
        return;
    }
    mistakes->at += (size_t)snprintf(mistakes->text + mistakes->at, sizeof mistakes->text - mistakes->at, "%s%s",
                                     mistakes->at > 0 ? "\n" : "", status_reason());
}

enum status mistakes_end(struct mistakes *mistakes)
{
    if (mistakes->n == 0) {
        return STATUS_OK;
    }
    if (mistakes->n_left_out > 0) {
        snprintf(mistakes->text + mistakes->at, sizeof mistakes->text - mistakes->at, "\n%zu more mistake%s",
                 mistakes->n_left_out, mistakes->n_left_out == 1 ? "" : "s");
    }
    return status_fail_lines(mistakes->status, mistakes->text);
}
