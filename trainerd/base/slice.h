/* A slice of the loop's time: long work does as much as fits into a slice, then waits for its next turn. */
#ifndef TRAINERD_DAEMON_SLICE_H
#define TRAINERD_DAEMON_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#define SLICE_NS 15000000 /* besides a wait for the disk */

struct slice {
    uint64_t (*now_ns)(void);
    uint64_t begun_ns;
};

static inline struct slice slice_begin(uint64_t (*now_ns)(void))
{
    return (struct slice){now_ns, now_ns()};
}

static inline bool slice_has_time(const struct slice *slice)
{
    return slice->now_ns() - slice->begun_ns < SLICE_NS;
}

#endif
