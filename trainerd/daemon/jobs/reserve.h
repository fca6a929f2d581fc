/* Reserved disk space for the store: a file beside it, given up when the disk is full, and made again later.
 *
 * With it, jobs that are ended because they filled the disk are recorded, and so are all others meanwhile.
 */
#ifndef TRAINERD_DAEMON_RESERVE_H
#define TRAINERD_DAEMON_RESERVE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct reserve {
    char path[PATH_MAX];
    int64_t n_bytes; /* 0: none */
    bool is_held, has_warned;
};

/* Keep n_bytes in the folder, as `folder`/reserve. Without the space, a warning. */
void reserve_open(struct reserve *reserve, const char *folder, int64_t n_bytes);
/* Give the space up. false: no space is reserved */
bool reserve_release(struct reserve *reserve);
/* Take it again, where twice as much is free. */
void reserve_refill(struct reserve *reserve);

#endif
