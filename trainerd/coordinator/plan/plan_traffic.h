/* Bytes between workers, by layer and by pair, as they are planned and as they were counted: in words and as JSON. */
#ifndef TRAINERD_PLAN_TRAFFIC_H
#define TRAINERD_PLAN_TRAFFIC_H

#include "protocol/wire/traffic.h"
#include "trainerd/coordinator/plan/plan.h"

#include <jansson.h>

/* What the workers counted since they were started. */
struct plan_measured {
    struct traffic_head head; /* the same of every worker */
    uint64_t *table;          /* n_worker tables of protocol/wire/traffic.h, by receiver; NULL: nothing was counted */
};

/* An epoch's bytes of all workers layer by layer; of few workers also from each to each. */
void plan_traffic_print(const struct plan_input *input, const struct plan *plan, FILE *file);

/* {"layers": […], "reduce": …, "reduce_evaluate": …, "pairs": […]}: "pairs" where there are not too many numbers. */
json_t *plan_traffic_json(const struct program *program, const struct plan *plan);

/* Of each exact exchange what the job would receive, which is cheapest, and which is the job's. */
void plan_exact_print(const struct plan_input *input, const struct plan *plan, FILE *file);
json_t *plan_exact_json(const struct plan_exact *exact);

/* {"epochs": …, "evaluations": …, "planned": …, "measured": …}: both as above, the latter means over those epochs and
 * evaluations, null without such. */
json_t *plan_traffic_compared(const struct program *program, const struct plan *plan,
                              const struct plan_measured *measured);

#endif
