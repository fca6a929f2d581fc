/* What scoring pairs of nodes takes: rows of all other ranks' parts, one part's after the other, and drawn pairs. */
#include "models/steps/scorer.h"
#include "protocol/base/amounts.h"
#include "worker/pairs/pairs_ends.h"
#include "worker/pairs/pairs_routes.h"
#include "worker/plan/memory_plan.h"

#include <stdlib.h>

#define WORKSPACE_ALIGN 64

static int64_t part_bytes(const struct memory_plan_input *in, int32_t q)
{
    const struct program *program = in->program;
    return pairs_part_rows(in->links, q) * program->value[program->logits].width * (int64_t)sizeof(float);
}

int64_t memory_plan_between(const struct memory_plan_input *in, int32_t i, int32_t q)
{
    bool inverse = in->program->n_scored > 0 && in->program->n_scored < in->program->n_relation;
    return pairs_ends_between(in->links, in->own[i].halo, inverse, q);
}

int64_t memory_plan_sent(const struct pairs_draw *draw, int64_t n_between, int32_t p, int32_t q)
{
    return n_between + pairs_ends_most(draw, p, q);
}

static int64_t put(struct memory_plan *plan, int64_t n_bytes)
{
    int64_t at = plan->links.n_block_bytes;
    plan->links.n_block_bytes += round_up(n_bytes, WORKSPACE_ALIGN);
    return at;
}

/* The most pairs that any own part has with another one: with an edge, drawn, and sent by a part of another rank. */
struct most {
    int64_t n_edge, n_drawn, n_sent, n_row;
};

static struct most most_of(const struct memory_plan_input *in)
{
    const struct pairs_draw *draw = in->links;
    struct most out = {0};
    for (int32_t i = 0; i < in->n_own_part; i++) {
        const int32_t p = in->own[i].halo->part;
        out.n_row = larger(out.n_row, pairs_part_rows(draw, p));
        for (int32_t q = 0; q < in->n_part; q++) {
            const int64_t n_between = memory_plan_between(in, i, q);
            const int64_t n_here = larger(memory_plan_sent(draw, n_between, p, q),
                                          memory_plan_sent(draw, n_between, q, p));
            out.n_edge = larger(out.n_edge, n_between);
            out.n_drawn = larger(out.n_drawn, n_here);
            out.n_sent = larger(out.n_sent, in->rank_of_part[q] != in->rank ? n_here : 0);
        }
    }
    return out;
}

/* Pairs of edges' ends: of all own parts a number each, and what two parts tell each other. */
static void ends_plan(const struct memory_plan_input *in, const struct most *most, struct memory_plan *plan)
{
    int64_t n_score = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        n_score += in->links->n_end[in->own[i].halo->part] * (1 + in->links->negatives);
    }
    plan->links.n_item = most->n_drawn;
    plan->links.slopes_at = put(plan, n_score * (int64_t)sizeof(float));
    plan->links.sent_at = put(plan, most->n_sent * (int64_t)sizeof(struct pairs_item));
    plan->links.n_come_bytes = round_up(most->n_sent * (int64_t)sizeof(struct pairs_item), WORKSPACE_ALIGN);
    plan->links.come_at = put(plan, MEMORY_LINKS_COME * plan->links.n_come_bytes);
}

/* Uniform pairs; where a decoder's program takes them by the batch, also those with an edge. */
static void uniform_plan(const struct memory_plan_input *in, const struct most *most, struct memory_plan *plan)
{
    int32_t *own = memory_alloc((size_t)in->n_own_part, sizeof *own);
    int64_t n_drawn = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        own[i] = in->own[i].halo->part;
        for (int32_t q = 0; q < in->n_part; q++) {
            int32_t a = own[i] < q ? own[i] : q, b = own[i] < q ? q : own[i];
            n_drawn = larger(n_drawn, (a == b ? 2 : 1) * pairs_draw_most(in->links, a, b));
        }
    }
    plan->links.drawn_at = put(plan, (int64_t)pairs_draw_bytes(in->links, in->n_own_part, own));
    free(own);
    if (in->program->scorer != NULL) {
        plan->links.n_item = larger(most->n_edge, n_drawn);
    }
}

static void pairs_plan(const struct memory_plan_input *in, struct memory_plan *plan)
{
    const struct most most = most_of(in);
    (in->links->of_ends ? ends_plan : uniform_plan)(in, &most, plan);
    if (plan->links.n_item > 0) {
        plan->links.items_at = put(plan, plan->links.n_item * (int64_t)sizeof(struct pairs_item));
        plan->links.list_at = put(plan, (int64_t)pairs_list_bytes(most.n_row, plan->links.n_item));
    }
    plan->bytes[MEMORY_STRUCTURE] += memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_STRUCTURE,
                                                     plan->links.n_block_bytes);
    int64_t n_group = 1;
    for (int32_t i = 0; i < in->n_own_part && in->links->of_ends; i++) {
        n_group = larger(n_group, in->links->n_end[in->own[i].halo->part]);
    }
    int64_t scratch = (int64_t)DEVICE_BYTES(in->ops, LOSS, n_group);
    if (in->program->scorer != NULL) {
        plan->links.n_decoder_bytes = round_up(scorer_bytes(in->program, in->ops, true), WORKSPACE_ALIGN);
    }
    plan->loss_workspace.n_scratch = round_up(larger(plan->loss_workspace.n_scratch, scratch), WORKSPACE_ALIGN) +
                                     plan->links.n_decoder_bytes;
}

/* Bytes that a part of another rank sends own parts. */
static int64_t sent_bytes(const struct memory_plan_input *in, int32_t q)
{
    int64_t n = 0;
    for (int32_t i = 0; i < in->n_own_part && in->links->of_ends; i++) {
        n += memory_plan_sent(in->links, memory_plan_between(in, i, q), q, in->own[i].halo->part);
    }
    return n * (int64_t)sizeof(struct pairs_item);
}

void memory_plan_links(const struct memory_plan_input *in, struct memory_plan *plan)
{
    if (in->links == NULL) {
        return;
    }
    const struct pairs_span ends = pairs_span_make(in->rank_of_part, in->n_part, in->rank);
    const int n_walk = in->links->of_ends ? 2 : 1;
    int32_t n_taken = pairs_n_received(in->rank_of_part, in->n_part, in->rank);
    int64_t credit = in->job->exchange.schedule == JOB_SCHEDULE_HALO ? n_taken : in->job->exchange.prefetch + 1;
    plan->links.n_slot = (int32_t)smaller(n_taken, credit);
    for (int32_t q = 0; q < in->n_part; q++) {
        uint32_t peer = in->rank_of_part[q];
        int n = peer == in->rank ? 0 : (int)pairs_receives(&ends, q, 0) + (int)pairs_receives(&ends, q, 1);
        if (n > 0) {
            memory_plan_traffic_add(in, peer, n_walk * n * part_bytes(in, q) + sent_bytes(in, q), plan);
            plan->links.n_slot_bytes = larger(plan->links.n_slot_bytes, round_up(part_bytes(in, q), WORKSPACE_ALIGN));
        }
    }
    plan->loss_workspace.n_fetch = plan->links.n_slot * plan->links.n_slot_bytes;
    pairs_plan(in, plan);
}
