/* Mistakes of one text, reported together: a reader goes on after each, and fails at its end with all of them.
 *
 * Independent of the kind of text. Each line of the reason is one mistake.
 */
#ifndef PROTOCOL_MISTAKES_H
#define PROTOCOL_MISTAKES_H

#include "protocol/base/status.h"

#include <stddef.h>

struct mistakes {
    enum status status; /* of the first */
    size_t n, n_left_out, at;
    char text[STATUS_REASON_BYTES];
};

/* Record this thread's last failure; STATUS_OK records nothing. */
void mistakes_take(struct mistakes *mistakes, enum status status);

/* STATUS_OK without a mistake, else the first one's status with a line for each as the reason; mistakes beyond the
 * buffer are counted. */
enum status mistakes_end(struct mistakes *mistakes);

#endif
