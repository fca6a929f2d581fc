/* The bytes that a rank receives in an epoch and in an evaluation, by layer and sender: the payloads of each halo pass, one after
 * another as the trainer fetches them, and what sums over parts add. */
#include "worker/plan/memory_plan.h"

#include <math.h>
#include <stdlib.h>

static void add(const struct memory_plan_input *in, struct memory_plan *plan, int row, uint32_t peer, int64_t n_bytes)
{
    plan->traffic[(size_t)row * in->n_rank + peer] += n_bytes;
}

/* What a payload of so many bytes from or to this peer, all rows of its pair, takes of them in an epoch: of sampled rows the mean. */
static int64_t expected(const struct memory_plan_input *in, enum step_phase phase, const struct step *step, uint32_t peer,
                        int64_t n_bytes)
{
    bool sampled = in->program->samples && step->lossy && phase == STEP_PHASE_TRAIN;
    bool near = ranks_are_near(in->machine_of_rank, in->rank, peer);
    return sampled ? llround((double)n_bytes * job_sampling(in->job, near)) : n_bytes;
}

/* Rows that payloads of gradients are made of, asked of the parts that take these. */
static int64_t asked_add(const struct memory_plan_input *in, struct memory_plan *plan, enum step_phase phase,
                         const struct step *step, int32_t hop, int64_t n_row_bytes)
{
    int row = traffic_row(program_layer(in->program, step->op), TRAFFIC_BACKWARD);
    int64_t sum = 0;
    for (int32_t i = 0; n_row_bytes > 0 && i < in->n_own_part; i++) {
        const struct part_rows rows = halo_rows_out(in->own[i].halo, step->halo->direction, hop);
        for (int32_t k = 0; k < rows.pairs->n_pair; k++) {
            uint32_t peer = in->rank_of_part[rows.pairs->pair[k].part];
            if (peer != in->rank) {
                int64_t n_bytes = expected(in, phase, step, peer, part_rows_at(&rows, k) * n_row_bytes);
                add(in, plan, row, peer, n_bytes);
                sum += n_bytes;
            }
        }
    }
    return sum;
}

void memory_plan_traffic(const struct memory_plan_input *in, enum step_phase phase, const struct step *step, int32_t hop,
                         const struct memory_payloads *payloads, struct memory_plan *plan)
{
    bool kept = memory_plan_keeps(in->program, step) && step->backward && step->halo->direction == HALO_DIRECTION_IN;
    if (phase == STEP_PHASE_STATIC || kept) { /* what is kept came with forward's */
        return;
    }
    const struct part_halo **own = memory_alloc((size_t)in->n_own_part, sizeof *own);
    for (int32_t i = 0; i < in->n_own_part; i++) {
        own[i] = in->own[i].halo;
    }
    const struct halo_owners owners = {
        .n_own_part = in->n_own_part, .own = own, .rank_of_part = in->rank_of_part, .rank = in->rank, .shared = in->shared};
    enum traffic_what what = phase == STEP_PHASE_EVALUATE ? TRAFFIC_EVALUATE
                             : step->backward             ? TRAFFIC_BACKWARD
                                                          : TRAFFIC_FORWARD;
    int row = traffic_row(program_layer(in->program, step->op), what);
    struct halo_cursor cursor = {0};
    struct halo_fetch fetch;
    int64_t sum = 0;
    while (halo_fetch_next(&owners, step->halo->direction, hop, &cursor, &fetch)) {
        uint32_t peer = in->rank_of_part[fetch.from];
        int64_t n_bytes = expected(in, phase, step, peer, fetch.n_row * payloads->n_row_bytes);
        add(in, plan, row, peer, n_bytes);
        sum += n_bytes;
    }
    sum += asked_add(in, plan, phase, step, hop, payloads->n_ask_row_bytes);
    *(phase == STEP_PHASE_TRAIN ? &plan->n_wire_bytes : &plan->n_wire_evaluate) += sum;
    free(own);
}

/* They climb a tree in which a part hangs below its number without the lowest bit; gradients, and what global ops need, then go down to
 * every other rank, along a tree over ranks. */
void memory_plan_traffic_sums(const struct memory_plan_input *in, struct memory_plan *plan)
{
    int n_layer = program_n_layer(in->program), train = traffic_row_sums(n_layer, 0), evaluate = traffic_row_sums(n_layer, 1);
    for (int32_t part = 1; part < in->n_part; part++) {
        uint32_t peer = in->rank_of_part[part];
        if (in->rank_of_part[part & (part - 1)] == in->rank && peer != in->rank) {
            add(in, plan, train, peer, plan->n_reduced_bytes);
            add(in, plan, evaluate, peer, MEMORY_PLAN_N_SUM * (int64_t)sizeof(double) + plan->n_reduced_evaluate);
        }
    }
    if (in->rank > 0) {
        add(in, plan, train, in->rank & (in->rank - 1), plan->n_reduced_bytes);
        add(in, plan, evaluate, in->rank & (in->rank - 1), plan->n_reduced_evaluate);
    }
}
