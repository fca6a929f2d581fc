/* The steps of a plan: what each is, and what it needs. `--plan --steps` answers with them why a job does not fit. */
#ifndef TRAINERD_PLAN_STEPS_H
#define TRAINERD_PLAN_STEPS_H

#include "trainerd/coordinator/plan/plan.h"
#include "worker/plan/memory_plan.h"

#include <jansson.h>

/* List the steps of one worker's plan: n_step, step, peak and n_arena of *out, which owns them. */
void plan_steps_build(const struct memory_plan_input *input, const struct memory_plan *plan, struct plan_worker *out);

/* The steps of the worker with the largest plan, one line each, the peak marked. */
void plan_steps_print(const struct plan *plan, FILE *file);

/* The steps of one worker, an array of objects. */
json_t *plan_steps_json(const struct plan_worker *worker);

#endif
