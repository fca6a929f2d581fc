/* The most that is alive at any time, as a choice between plans sees it. */
#ifndef WORKER_PEAK_H
#define WORKER_PEAK_H

#include "worker/plan/memory_plan.h"

struct peak {
    int64_t n_bytes; /* the peak: what no placement can go below */
    /* Nearly the peak alone, but a choice that lowers one of several equal peaks counts as well. To be compared with
     * those of the same unit. */
    double weight;
};

/* Below this share of the weight a choice is not worth its price. */
#define PEAK_GAIN_LEAST 0.01

/* Of a plan as its steps are now.
 *
 *   unit    bytes that the weight is in, for numbers near 1; 0: the peak itself
 *   cost    of liveness_load
 */
struct peak peak_find(const struct program *program, const struct memory_plan *plan, int64_t unit);

/* Does the arena fit so many bytes? Places it where its peak does. */
bool peak_fits(const struct program *program, struct memory_plan *plan, const struct peak *peak,
               int64_t n_arena_most);

#endif
