/* The bytes that a rank receives in an epoch and in an evaluation, by layer and sender: the payloads of each halo
 * pass, one after another as the trainer fetches them, and what sums over parts add. */
#include "worker/plan/memory_plan.h"

#include <math.h>
#include <stdlib.h>

static void add(const struct memory_plan_input *in, struct memory_plan *plan, int row, uint32_t peer, int64_t n_bytes)
{
    plan->wire.traffic[(size_t)row * in->n_rank + peer] += n_bytes;
}

void memory_plan_traffic_begin(const struct memory_plan_input *in, struct memory_plan *plan)
{
    struct level_stage stages[LEVEL_STAGES_MOST];
    plan->wire.traffic = memory_alloc((size_t)traffic_n_row(program_n_layer(in->program)) * in->n_rank,
                                      sizeof *plan->wire.traffic);
    plan->wire.n_stage = level_stages(in->job, stages);
    plan->wire.stage = memory_alloc((size_t)plan->wire.n_stage, sizeof *plan->wire.stage);
    for (int s = 0; s < plan->wire.n_stage; s++) {
        plan->wire.stage[s].of = stages[s];
    }
}

/* Bytes of a row as it travels, or of a row that it is made of. */
static int64_t row_bytes(const struct memory_plan_input *in, const struct step *step, bool asked,
                         const struct level *level)
{
    const struct op *op = &in->program->op[step->op];
    const struct level *coded = step->lossy ? level : NULL;
    return asked ? halo_ask_bytes(in->program, op, step->halo, coded)
                 : halo_row_bytes(in->program, op, step->halo, coded);
}

/* From or to another rank. */
struct payload {
    uint32_t peer;
    int64_t n_row; /* all rows of its pair */
    bool asked;    /* rows that gradients are made of */
    bool stale; /* an epoch's rows for the next one: a run that is not the epoch's step sends none, but in epoch 0 */
};

/* What a payload of a stage takes in an epoch without comparison, and what a comparison adds. */
struct stage_bytes {
    int64_t n, n_again;
};

static struct stage_bytes stage_bytes(const struct memory_plan_input *in, const struct step *step,
                                      const struct payload *payload, const struct level *level)
{
    const bool sampled = in->program->lossy.samples && step->lossy;
    const struct level exact = level_exact();
    const int64_t n_exact = payload->n_row * row_bytes(in, step, payload->asked, &exact);
    int64_t n = payload->n_row * row_bytes(in, step, payload->asked, level);
    n = sampled ? llround((double)n * level->sampling) : n;
    return (struct stage_bytes){
        .n = n, .n_again = in->job->exchange.guard_every == 0 ? 0 : n_exact - (payload->stale ? n : 0)};
}

/* What a payload takes in an epoch: of sampled rows the mean; the mean over the stages, each of which gets its own,
 * and epochs that compare gradients the exact rows on top. */
static int64_t expected(const struct memory_plan_input *in, struct memory_plan *plan, enum step_phase phase,
                        const struct step *step, const struct payload *payload)
{
    double sum = 0.0, n_epoch = 0.0;
    int64_t n_again = 0;
    if (phase != STEP_PHASE_TRAIN) {
        const struct level exact = level_exact();
        return payload->n_row * row_bytes(in, step, payload->asked, &exact);
    }
    for (int s = 0; s < plan->wire.n_stage; s++) {
        struct memory_stage *stage = &plan->wire.stage[s];
        const struct stage_bytes bytes = stage_bytes(in, step, payload, &stage->of.level);
        bool first = payload->stale && stage->of.epoch == 0 && stage->of.n_guard > 0 && level_guards(in->job, 0);
        double weight = stage->of.n_epoch > 0 ? (double)stage->of.n_epoch : 1.0;
        stage->n_wire_bytes += bytes.n;
        n_again = bytes.n_again > n_again ? bytes.n_again : n_again;
        sum += weight * (double)bytes.n + (double)stage->of.n_guard * (double)bytes.n_again +
               (first ? (double)bytes.n : 0.0);
        n_epoch += weight;
    }
    plan->wire.n_guard += n_again;
    return llround(sum / n_epoch);
}

/* Rows that payloads of gradients are made of, asked of the parts that take these. */
static int64_t asked_add(const struct memory_plan_input *in, struct memory_plan *plan, enum step_phase phase,
                         const struct step *step, int32_t hop)
{
    int row = traffic_row(program_layer(in->program, step->op), TRAFFIC_BACKWARD);
    int64_t sum = 0;
    for (int32_t i = 0; step->halo->n_ask > 0 && i < in->n_own_part; i++) {
        const struct part_rows rows = halo_rows_out(in->own[i].halo, step->halo->direction, hop);
        for (int32_t k = 0; k < rows.pairs->n_pair; k++) {
            uint32_t peer = in->rank_of_part[rows.pairs->pair[k].part];
            if (peer != in->rank) {
                const struct payload payload = {.peer = peer, .n_row = part_rows_at(&rows, k), .asked = true};
                int64_t n_bytes = expected(in, plan, phase, step, &payload);
                add(in, plan, row, peer, n_bytes);
                sum += n_bytes;
            }
        }
    }
    return sum;
}

void memory_plan_traffic(const struct memory_plan_input *in, enum step_phase phase, const struct step *step,
                         int32_t hop, struct memory_plan *plan)
{
    bool keeps = memory_plan_is_stale(in->program, step);
    if (phase == STEP_PHASE_STATIC || (keeps && step->backward && step->halo->direction == HALO_DIRECTION_IN)) {
        return; /* what is kept came with forward's */
    }
    const struct halo_owners owners = memory_plan_owners(in);
    enum traffic_what what = phase == STEP_PHASE_EVALUATE ? TRAFFIC_EVALUATE
                             : step->backward             ? TRAFFIC_BACKWARD
                                                          : TRAFFIC_FORWARD;
    int row = traffic_row(program_layer(in->program, step->op), what);
    struct halo_routes routes;
    int64_t sum = 0;
    halo_routes_open(&owners, &routes);
    halo_routes_list(&owners, step->halo->direction, hop, &routes);
    for (int32_t r = 0; r < routes.total.received.n; r++) {
        const struct halo_route *route = &routes.take[r];
        const struct payload payload = {.peer = in->rank_of_part[route->from], .n_row = route->n_row, .stale = keeps};
        int64_t n_bytes = expected(in, plan, phase, step, &payload);
        add(in, plan, row, payload.peer, n_bytes);
        sum += n_bytes;
    }
    halo_routes_close(&routes);
    sum += keeps ? 0 : asked_add(in, plan, phase, step, hop);
    *(phase == STEP_PHASE_TRAIN ? &plan->wire.n_train : &plan->wire.n_evaluate) += sum;
    free(owners.own);
}

void memory_plan_traffic_add(const struct memory_plan_input *in, uint32_t peer, int64_t n_bytes,
                             struct memory_plan *plan)
{
    int n_layer = program_n_layer(in->program);
    bool compares = in->job->exchange.guard_every > 0;
    double n_again = 0.0;
    for (int s = 0; s < plan->wire.n_stage; s++) {
        plan->wire.stage[s].n_wire_bytes += n_bytes;
        n_again += (double)plan->wire.stage[s].of.n_guard;
    }
    double share = compares && in->job->train.epochs > 0 ? n_again / (double)in->job->train.epochs : 0.0;
    int64_t mean = n_bytes + llround(share * (double)n_bytes);
    plan->wire.n_guard += compares ? n_bytes : 0;
    plan->wire.n_train += mean;
    add(in, plan, n_layer > 0 ? traffic_row(n_layer - 1, TRAFFIC_BACKWARD) : traffic_row_sums(0, 0), peer, mean);
}

/* Sums of a training epoch that come from this rank; of one that compares gradients twice, and those of
 * embeddings. */
static void sums_add(const struct memory_plan_input *in, struct memory_plan *plan, uint32_t peer)
{
    if (in->program->forward_only) {
        return;
    }
    int row = traffic_row_sums(program_n_layer(in->program), 0);
    int64_t n_guard = 0, n_embedded = in->program->n_embedding > 0 ? MEMORY_PLAN_N_SUM * (int64_t)sizeof(double) : 0;
    int64_t n_compared = in->job->exchange.guard_every > 0 ? plan->reduced.n_reduced_bytes + n_embedded : 0;
    for (int s = 0; s < plan->wire.n_stage; s++) {
        plan->wire.stage[s].n_wire_bytes += plan->reduced.n_reduced_bytes;
        n_guard += plan->wire.stage[s].of.n_guard;
    }
    double share = n_guard > 0 ? (double)n_guard / (double)in->job->train.epochs : 0.0;
    plan->wire.n_guard += n_compared;
    add(in, plan, row, peer, plan->reduced.n_reduced_bytes + llround(share * (double)n_compared));
}

/* They go up a tree in which a part's parent is its number without the lowest bit; gradients, and what global ops
 * need, then go down to every other rank, along a tree over ranks. */
void memory_plan_traffic_sums(const struct memory_plan_input *in, struct memory_plan *plan)
{
    int evaluate = traffic_row_sums(program_n_layer(in->program), 1);
    for (int32_t part = 1; part < in->n_part; part++) {
        uint32_t peer = in->rank_of_part[part];
        if (in->rank_of_part[part & (part - 1)] == in->rank && peer != in->rank) {
            sums_add(in, plan, peer);
            add(in, plan, evaluate, peer,
                MEMORY_PLAN_N_SUM * (int64_t)sizeof(double) + plan->reduced.n_reduced_evaluate);
        }
    }
    if (in->rank > 0) {
        sums_add(in, plan, in->rank & (in->rank - 1));
        add(in, plan, evaluate, in->rank & (in->rank - 1), plan->reduced.n_reduced_evaluate);
    }
}
