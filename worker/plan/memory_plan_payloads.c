/* Payloads of halo passes: which jobs send lists that are not a pair's own, how many payloads each pass has, their
 * slots, and what is kept of them from one epoch to the next. */
#include "protocol/base/amounts.h"
#include "worker/plan/memory_plan.h"
#include "worker/rows/part_hop.h"

#include <stdlib.h>

#define WORKSPACE_ALIGN 64

bool memory_plan_covers(const struct job *job, const struct program *program)
{
    /* A library's sum of a row may depend on the other rows of its block, of which a cover leaves some out. */
    bool own = job->model.kernel == JOB_KERNEL_OWN, any = false;
    bool covers = own && job->exchange.cover && !job->exchange.plain && !program_is_lossy(program) &&
                  program->precision == JOB_PRECISION_FP32; /* sums are not rounded */
    for (int i = 0; i < program->n_op && covers; i++) {
        const struct op *op = &program->op[i];
        bool aggregates = op->kind == OP_KIND_AGGREGATE;
        covers = !aggregates || aggregate_defs[op->aggregate]->is_linear;
        any = any || (aggregates && program->value[op->in[0]].hop != PROGRAM_HOP_HALO);
    }
    return covers && any;
}

uint32_t memory_plan_hops(const struct program *program, enum part_direction d, int32_t n_hop)
{
    uint32_t hops = 0;
    for (int32_t hop = 0; hop < n_hop; hop++) {
        hops |= (part_hop_travels(program, d, hop) ? UINT32_C(1) : 0) << hop;
    }
    return hops;
}

bool memory_plan_dedups(const struct job *job, const struct program *program, int32_t n_part, uint32_t n_rank,
                        bool covered)
{
    bool shares = n_rank > 1 && (covered || (uint32_t)n_part > n_rank) && !job->exchange.plain &&
                  !memory_plan_spills(job) && !program->lossy.stale;
    for (int i = 0; i < program->n_op && shares; i++) {
        const struct op *op = &program->op[i];
        shares = op->kind != OP_KIND_AGGREGATE || !aggregate_defs[op->aggregate]->sums_in_workspace;
    }
    return shares;
}

bool memory_plan_scatters(const struct program *program)
{
    bool scatters = program_is_lossy(program);
    for (int i = 0; i < program->n_op && !scatters; i++) {
        const struct op *op = &program->op[i];
        scatters = op->kind == OP_KIND_AGGREGATE && aggregate_returns(program, op->aggregate);
    }
    return scatters;
}

/* All payloads of a halo pass at once, each in its own place. */
static void slots_at_once(const struct halo_route_totals *list, struct memory_payloads *r)
{
    bool asks = r->n_ask_row_bytes > 0; /* for each payload that is fetched, rows are served, too */
    r->n_fetch_slot = list->received.n;
    r->n_pack_slot = list->sent.n + (asks ? list->received.n : 0);
    r->n_fetch_bytes = list->received.n_row * r->n_row_bytes;
    r->n_pack_bytes = list->sent.n_row * r->n_row_bytes + list->received.n_row * r->n_ask_row_bytes;
}

/* As many as the credit allows. */
static void slots_in_turn(const struct halo_route_totals *list, int64_t credit, bool whole, struct memory_payloads *r)
{
    bool asks = r->n_ask_row_bytes > 0;
    int64_t n_pack = credit,
            most = larger(list->sent.most_row * r->n_row_bytes, list->received.most_row * r->n_ask_row_bytes);
    r->n_fetch_slot_bytes = round_up(list->received.most_row * r->n_row_bytes, WORKSPACE_ALIGN);
    r->n_pack_slot_bytes = round_up(most, WORKSPACE_ALIGN);
    if (!whole && r->n_pack_slot_bytes > MEMORY_PACK_BYTES) {
        r->n_pack_slot_bytes = round_up(larger(MEMORY_PACK_BYTES, r->n_row_bytes), WORKSPACE_ALIGN);
        n_pack = MEMORY_PACK_SLOTS;
    }
    r->n_fetch_slot = (int32_t)smaller(list->received.n, credit);
    r->n_pack_slot = (int32_t)smaller(list->sent.n + (asks ? list->received.n : 0), n_pack);
    r->n_fetch_bytes = r->n_fetch_slot * r->n_fetch_slot_bytes;
    r->n_pack_bytes = r->n_pack_slot * r->n_pack_slot_bytes;
}

/* Slots of one halo pass. A payload is received in one piece of memory, since blocks read all of it; it is sent in
 * pieces, where they are rows as they lie. */
static struct memory_payloads payload_slots(const struct memory_plan *plan, const struct job *job,
                                            const struct program *program, const struct step *step, int32_t hop)
{
    const struct halo_route_totals *list = memory_plan_halo(plan, step->halo->direction, hop);
    const struct op *op = &program->op[step->op];
    int64_t credit = job->exchange.prefetch + 1;
    struct memory_payloads r = {
        .n_row_bytes = halo_row_bytes_most(program, op, step->halo, step->lossy),
        .n_ask_row_bytes = halo_ask_bytes_most(program, op, step->halo, step->lossy),
    };
    if (job->exchange.schedule == JOB_SCHEDULE_HALO) {
        slots_at_once(list, &r);
    } else {
        slots_in_turn(list, credit, step->halo->direction == HALO_DIRECTION_RETURN, &r);
    }
    if (r.n_ask_row_bytes > 0) {
        r.n_ask_slot = (int32_t)smaller(list->sent.n, credit);
        r.n_ask_slot_bytes = round_up(list->sent.most_row * r.n_ask_row_bytes, WORKSPACE_ALIGN);
    }
    return r;
}

struct memory_payloads memory_plan_payloads(const struct memory_plan *plan, const struct job *job,
                                            const struct program *program, const struct step *step, int32_t hop)
{
    if (step->stored) {
        return (struct memory_payloads){0};
    }
    struct memory_payloads r = payload_slots(plan, job, program, step, hop);
    if (memory_plan_is_stale(program, step)) {
        return (struct memory_payloads){.n_row_bytes = r.n_row_bytes};
    }
    if (memory_plan_spills(job)) {
        /* They leave from where they lie. */
        r.n_pack_slot = (int32_t)smaller(memory_plan_halo(plan, step->halo->direction, hop)->sent.n,
                                         MEMORY_PACK_SLOTS);
        r.n_pack_slot_bytes = r.n_pack_bytes = 0;
    }
    return r;
}

struct halo_owners memory_plan_owners(const struct memory_plan_input *in)
{
    const struct part_halo **own = memory_alloc((size_t)in->n_own_part, sizeof *own);
    for (int32_t i = 0; i < in->n_own_part; i++) {
        own[i] = in->own[i].halo;
    }
    return (struct halo_owners){.n_own_part = in->n_own_part,
                                .own = own,
                                .rank_of_part = in->rank_of_part,
                                .rank = in->rank,
                                .dedup = in->dedup};
}

void memory_plan_halos(const struct memory_plan_input *in, struct memory_plan *plan)
{
    const struct halo_owners owners = memory_plan_owners(in);
    plan->payloads.n_route_bytes = halo_routes_bytes(&owners);
    plan->payloads.halo = memory_alloc((size_t)plan->n_hop + 1, sizeof *plan->payloads.halo);
    for (int32_t hop = 0; hop <= plan->n_hop; hop++) {
        for (int t = 0; t < HALO_DIRECTION_N; t++) {
            plan->payloads.halo[hop][t] = halo_routes_total(&owners, (enum halo_direction)t, hop);
        }
    }
    free(owners.own);
}

/* --- a sampled pass's blocks --- */

struct memory_sample memory_plan_sample(const struct memory_plan_input *in)
{
    struct memory_sample out = {0};
    bool samples = in->program->lossy.samples, typed = in->program->n_relation > 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        const struct part_pairs *pairs = &in->own[i].halo->pairs[PART_DIRECTION_IN];
        size_t each = sizeof(uint32_t) + (typed ? sizeof(uint16_t) : 0) +
                      (typed || in->own[i].weighted ? sizeof(float) : 0); /* of an edge */
        for (int32_t k = 0; k < pairs->n_pair; k++) {
            int64_t n_row = part_pair_rows(pairs, k), n_col = part_pair_cols(pairs, k),
                    n_edge = k != pairs->own ? part_pair_edges(pairs, k) : 0;
            if (n_edge > 0) {
                int64_t block = (int64_t)DEVICE_BYTES(in->ops, BLOCK_MADE, n_row, n_col, n_edge, each),
                        transposed = (int64_t)DEVICE_BYTES(in->ops, BLOCK_MADE, n_col, n_row, n_edge, each);
                int64_t numbers = round_up(n_col * (int64_t)sizeof(float), WORKSPACE_ALIGN);
                out.n_number_bytes = samples ? larger(out.n_number_bytes, numbers) : 0;
                out.n_block_bytes = samples ? larger(out.n_block_bytes, round_up(block, WORKSPACE_ALIGN)) : 0;
                out.n_transposed_bytes = larger(out.n_transposed_bytes, round_up(transposed, WORKSPACE_ALIGN));
            }
        }
    }
    return out;
}

/* --- from one epoch to the next --- */

void memory_plan_buffers(const struct memory_plan_input *in, struct memory_plan *plan)
{
    stale_list_build(in->program, &plan->steps.phase[STEP_PHASE_TRAIN], &plan->payloads.stale);
    feedback_list_build(in->program, &plan->steps.phase[STEP_PHASE_TRAIN], &plan->payloads.feedback);
    struct halo_owners owners = memory_plan_owners(in);
    owners.dedup = NULL; /* stale rows travel for each part */
    for (int32_t i = 0; i < in->n_own_part; i++) {
        int64_t stale = stale_list_floats(&plan->payloads.stale, owners.own[i]) * (int64_t)sizeof(float);
        int64_t places = stale_list_places(&plan->payloads.stale, owners.own[i]);
        plan->payloads.n_kept_bytes += memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_PAYLOADS, stale);
        plan->payloads.n_kept_bytes += feedback_list_bytes(&plan->payloads.feedback, owners.own[i]);
        plan->bytes[MEMORY_STRUCTURE] += memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_STRUCTURE, places);
    }
    int64_t routes = plan->payloads.stale.n * halo_routes_bytes(&owners);
    plan->bytes[MEMORY_STRUCTURE] += memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_STRUCTURE, routes);
    int64_t sent = stale_sent_bytes(&plan->payloads.stale, &owners);
    plan->payloads.n_kept_bytes += memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_PAYLOADS, sent);
    plan->bytes[MEMORY_PAYLOADS] = plan->payloads.n_kept_bytes;
    free(owners.own);
}

bool memory_plan_is_stale(const struct program *program, const struct step *step)
{
    return program->lossy.stale && step->lossy;
}

const struct halo_route_totals *memory_plan_halo(const struct memory_plan *plan, enum halo_direction direction,
                                                 int32_t hop)
{
    return &plan->payloads.halo[hop < plan->n_hop ? hop : plan->n_hop][direction];
}
