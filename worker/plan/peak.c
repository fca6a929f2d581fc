#include "worker/plan/peak.h"

#include "worker/plan/liveness.h"

#include <math.h>
#include <stdlib.h>

/* So large that times far from the peak do not count. */
#define STEEPNESS 32.0

struct peak peak_find(const struct program *program, const struct memory_plan *plan, int64_t unit)
{
    int n_time = plan->steps.n_time;
    int64_t *load = memory_alloc((size_t)n_time, sizeof *load);
    struct peak peak = {.n_bytes = liveness_load(program, plan, load)};
    double one = (double)(unit > 0 ? unit : peak.n_bytes);
    for (int t = 0; t < n_time; t++) {
        peak.weight += pow((double)load[t] / one, STEEPNESS);
    }
    free(load);
    return peak;
}

bool peak_fits(const struct program *program, struct memory_plan *plan, const struct peak *peak, int64_t n_arena_most)
{
    if (peak->n_bytes > n_arena_most) {
        return false;
    }
    liveness_place(program, plan);
    return plan->arena.n_bytes <= n_arena_most;
}
