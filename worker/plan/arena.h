/* Arrays that share one piece of memory: when each is alive, and where it lies so that no two meet.
 *
 * Knows times and bytes and nothing of programs. An array may be alive several times over, in the same place: what is
 * dropped and made again.
 */
#ifndef WORKER_ARENA_H
#define WORKER_ARENA_H

#include <stdbool.h>
#include <stdint.h>

/* More spans than this grow together: safe, and rare. */
#define LIFE_N_SPAN 8

struct life_span {
    int first, last; /* both included */
};

struct life {
    int64_t n_bytes;
    int n_span;
    struct life_span span[LIFE_N_SPAN]; /* ascending, apart */
    int64_t at;                         /* arena_place */
};

/* Made at this time, which is not before any other of this life. */
void life_begin(struct life *life, int at);

/* Alive until this time; from this time on if it never was. */
void life_touch(struct life *life, int at);

/* a is alive whenever b is, too. */
void life_join(struct life *a, const struct life *b);

bool life_meets(const struct life *a, const struct life *b);

/* Give every life its place.
 *
 *   life    n of them, reordered
 *   returns the end of the highest
 *   cost    quadratic in n
 */
int64_t arena_place(struct life **life, int n);

#endif
