/* Mistakes of one text, reported together: a reader goes on after each, and fails at its end with all of them. And
 * names: their place in a list, and the valid one that is nearest to a mistyped one.
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

/* The place of a name in a list of n; -1: it has no such name. */
int name_find(const char *const names[], int n, const char *name);

/* Edits (insert, delete, replace, swap neighbours; letter case ignored) that turn one name into the other.
 * source  Damerau 1964, in the optimal-string-alignment form */
int name_distance(const char *a, const char *b);

/* Largest edit distance of a name that counts as a typing error. */
int name_slip(const char *name);

/* The first of the offered names with the least distance; NULL: no offered name is near enough. */
struct nearest {
    const char *name, *best;
    int distance; /* of best, or what it must be less than */
};
void nearest_init(const char *name, struct nearest *out);
void nearest_offer(struct nearest *nearest, const char *offered);

#endif
