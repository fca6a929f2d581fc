/* What training keeps of its payloads from one epoch to the next, in the plan: rows and gradients, or what rounding
 * lost of them. */
#include "worker/plan/memory_plan.h"

#include <stdlib.h>

void memory_plan_kept(const struct memory_plan_input *in, struct memory_plan *plan)
{
    kept_list_build(in->program, &plan->steps.phase[STEP_PHASE_TRAIN], &plan->payloads.kept);
    feedback_list_build(in->program, &plan->steps.phase[STEP_PHASE_TRAIN], &plan->payloads.feedback);
    const struct part_halo **own = memory_alloc((size_t)in->n_own_part, sizeof *own);
    for (int32_t i = 0; i < in->n_own_part; i++) {
        own[i] = in->own[i].halo;
        int64_t kept = kept_list_floats(&plan->payloads.kept, own[i]) * (int64_t)sizeof(float);
        int64_t places = kept_list_places(&plan->payloads.kept, own[i]);
        plan->payloads.n_kept_bytes += memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_PAYLOADS, kept);
        plan->payloads.n_kept_bytes += feedback_list_bytes(&plan->payloads.feedback, own[i]);
        plan->bytes[MEMORY_STRUCTURE] += memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_STRUCTURE, places);
    }
    const struct halo_owners owners = {
        .n_own_part = in->n_own_part, .own = own, .rank_of_part = in->rank_of_part, .rank = in->rank};
    int64_t routes = plan->payloads.kept.n * halo_routes_bytes(&owners);
    plan->bytes[MEMORY_STRUCTURE] += memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_STRUCTURE, routes);
    int64_t sent = kept_sent_bytes(&plan->payloads.kept, &owners);
    plan->payloads.n_kept_bytes += memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_PAYLOADS, sent);
    plan->bytes[MEMORY_PAYLOADS] = plan->payloads.n_kept_bytes;
    free(own);
}

bool memory_plan_keeps(const struct program *program, const struct step *step)
{
    return program->stale && step->lossy;
}
