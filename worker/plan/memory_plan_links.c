/* What scoring pairs of nodes takes: rows of all other ranks' parts, one part's after the other, and drawn pairs. */
#include "worker/plan/memory_plan.h"
#include "worker/rows/amounts.h"
#include "worker/rows/link_routes.h"

#include <stdlib.h>

#define WORKSPACE_ALIGN 64

static int64_t part_bytes(const struct memory_plan_input *in, int32_t q)
{
    const struct program *program = in->program;
    int64_t n_row = in->links->begin[q + 1] - in->links->begin[q];
    return n_row * program->value[program->logits].width * (int64_t)sizeof(float);
}

static void drawn_plan(const struct memory_plan_input *in, struct memory_plan *plan)
{
    int32_t *own = memory_alloc((size_t)in->n_own_part, sizeof *own);
    for (int32_t i = 0; i < in->n_own_part; i++) {
        own[i] = in->own[i].halo->part;
    }
    plan->links.n_block_bytes = (int64_t)link_draw_bytes(in->links, in->n_own_part, own);
    plan->bytes[MEMORY_STRUCTURE] += memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_STRUCTURE,
                                                     plan->links.n_block_bytes);
    free(own);
}

void memory_plan_links(const struct memory_plan_input *in, struct memory_plan *plan)
{
    if (in->links == NULL) {
        return;
    }
    const struct link_ends ends = link_ends_of(in->rank_of_part, in->n_part, in->rank);
    int32_t n_taken = link_n_taken(in->rank_of_part, in->n_part, in->rank);
    int64_t credit = in->job->exchange.schedule == JOB_SCHEDULE_HALO ? n_taken : in->job->exchange.prefetch + 1;
    plan->links.n_slot = (int32_t)smaller(n_taken, credit);
    for (int32_t q = 0; q < in->n_part; q++) {
        uint32_t peer = in->rank_of_part[q];
        int n = peer == in->rank ? 0 : (int)link_takes(&ends, q, 0) + (int)link_takes(&ends, q, 1);
        if (n > 0) {
            memory_plan_traffic_add(in, peer, n * part_bytes(in, q), plan);
            plan->links.n_slot_bytes = larger(plan->links.n_slot_bytes, round_up(part_bytes(in, q), WORKSPACE_ALIGN));
        }
    }
    plan->loss_workspace.n_fetch = plan->links.n_slot * plan->links.n_slot_bytes;
    drawn_plan(in, plan);
}
