#include "worker/halo/halo.h"

#include "worker/halo/source.h"
#include "worker/route/merged.h"
#include "worker/route/sample.h"
#include "worker/route/sample_dedup.h"
#include "worker/state/pin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct halo *halo_open(struct trainer *t)
{
    struct halo *h = memory_alloc(1, sizeof *h);
    h->trainer = t;
    h->walk = memory_alloc((size_t)t->own.n, sizeof *h->walk);
    h->fetch.slot = memory_alloc((size_t)t->plan.payloads.n_fetch_slot, sizeof *h->fetch.slot);
    h->sent.piece = memory_alloc((size_t)t->plan.payloads.n_pack_slot, sizeof *h->sent.piece);
    h->owners = own_parts_owners(&t->own);
    h->owners.dedup = dedup_counts(t->routes.dedup);
    h->asked = memory_alloc((size_t)t->plan.payloads.n_ask_slot, sizeof *h->asked);
    halo_routes_open(&h->owners, &h->routes);
    memory_count(MEMORY_STRUCTURE, halo_routes_bytes(&h->owners));
    return h;
}

void halo_close(struct halo *h)
{
    if (h != NULL) {
        free(h->walk);
        free(h->fetch.slot);
        free(h->sent.piece);
        h->owners.dedup = dedup_counts(h->trainer->routes.dedup);
        memory_count(MEMORY_STRUCTURE, -halo_routes_bytes(&h->owners));
        halo_routes_close(&h->routes);
        free(h->asked);
        free(h);
    }
}

struct part_rows halo_rows_received(const struct halo *h, int32_t i)
{
    return halo_owners_in(&h->owners, i, h->step->stored ? HALO_DIRECTION_IN : h->pass->direction, h->hop.travelling);
}

struct part_rows halo_rows_sent(const struct halo *h, int32_t i)
{
    return halo_owners_out(&h->owners, i, h->pass->direction, h->hop.travelling);
}

struct halo_route halo_route_at(const struct halo *h, int32_t i, int32_t k)
{
    const struct part_rows sent = halo_rows_sent(h, i);
    return (struct halo_route){.from = h->trainer->own.number[i],
                               .to = sent.pairs->pair[k].part,
                               .i = i,
                               .k = k,
                               .n_row = part_rows_at(&sent, k)};
}

struct halo_pair halo_pair(const struct halo *h, int32_t i, int32_t k)
{
    int32_t q = halo_rows_received(h, i).pairs->pair[k].part;
    return (struct halo_pair){.i = i, .k = k, .q = q, .j = h->trainer->own.index[q]};
}

float halo_factor(const struct halo *h)
{
    bool weighted = h->sample != NULL && aggregate_defs[h->op->aggregate]->sampled == AGGREGATE_SAMPLED_WEIGHED;
    return weighted ? (float)sample_factor(h->sample) : 1.0F;
}

float halo_shift(const struct halo *h)
{
    bool shifted = h->sample != NULL && aggregate_defs[h->op->aggregate]->sampled == AGGREGATE_SAMPLED_SHIFTED;
    return shifted ? (float)log(sample_factor(h->sample)) : 0.0F;
}

char *halo_workspace(const struct halo *h, int64_t offset)
{
    return (char *)trainer_operand(h->trainer, step_operand(h->step, OP_ROLE_WORKSPACE), 0) + offset;
}

const float *halo_own_rows(const struct halo *h, int k, int32_t i)
{
    const struct step_operand *rows = k < h->pass->n_piece ? step_operand(h->step, h->pass->piece[k]) : NULL;
    return rows != NULL ? trainer_operand(h->trainer, rows, i) : NULL;
}

/* Rows are destinations of in-edges, or sources. */
static void hops_find(struct halo *h)
{
    const struct trainer *t = h->trainer;
    h->hop.blocks = h->hop.rows = h->hop.travelling = h->hop.listed = PROGRAM_HOP_ALL;
    if (!t->run.training) {
        return;
    }
    h->hop.blocks = t->program.value[h->op->out].hop;
    h->hop.rows = h->pass->direction == HALO_DIRECTION_IN ? h->hop.blocks : program_hop_before(h->hop.blocks);
    if (!h->step->stored) { /* else all halo rows are there */
        h->hop.travelling = halo_pass_hop(&t->program, h->op, h->pass);
        h->hop.listed = halo_list_hop(h->owners.dedup, &t->program, h->op, h->pass);
    }
}

void halo_level(struct halo *h, const struct level *level)
{
    const struct program *program = &h->trainer->program;
    h->level = level;
    h->slots.n_row_bytes = halo_row_bytes(program, h->op, h->pass, level);
    h->slots.n_ask_row_bytes = halo_ask_bytes(program, h->op, h->pass, level);
    for (int k = 0; k < HALO_N_PIECE; k++) {
        h->bytes[k] = halo_piece_bytes(program, h->op, h->pass, k, level);
    }
}

static struct halo_sources sources_find(const struct halo *h)
{
    const struct trainer *t = h->trainer;
    const struct aggregate_def *aggregate = aggregate_defs[h->op->aggregate];
    if (h->step->stored) { /* forward, what linear maps make of own rows is read where it is */
        bool maps_own = memory_plan_maps_own(t->setup.job, &t->program, t->setup.n_rank);
        const struct payload_source *all = maps_own && !h->step->backward && aggregate->is_linear
                                               ? &source_in_place
                                               : &source_replicated;
        return (struct halo_sources){all, all, all};
    }
    bool diagonal_packs = h->pass->direction == HALO_DIRECTION_RETURN && !h->pass->transposed;
    struct halo_sources out = {.own = diagonal_packs ? &source_packed : &source_in_place, .remote = &source_fetched};
    if (memory_plan_is_stale(&t->program, h->step)) {
        out.local = out.remote = &source_stale;
    } else if (t->routes.payloads != NULL) {
        out.local = source_of_spill(h);
    } else { /* what returns, what forward's places count, and what is lossy, are payloads here, too */
        bool packs = program_is_lossy(&t->program) || aggregate_returns(&t->program, h->op->aggregate);
        out.local = packs ? &source_packed : &source_in_place;
    }
    return out;
}

static void pass_begin(struct trainer *t, const struct step *step)
{
    struct halo *h = t->routes.halo;
    bool keeps = memory_plan_is_stale(&t->program, step);
    h->step = step;
    h->op = &t->program.op[step->op];
    h->pass = step->halo;
    h->workspace = &t->plan.workspace[step->op][step->backward];
    bool shares = t->routes.dedup != NULL && !step->stored && h->pass->direction != HALO_DIRECTION_RETURN;
    h->sample = step->lossy ? t->routes.sample : NULL;
    h->owners.drawn = h->sample != NULL ? sample_drawn(h->sample) : NULL;
    h->owners.dedup = h->sample != NULL && shares ? sample_dedup_counts(sample_get_dedup(h->sample))
                                                  : dedup_counts(t->routes.dedup);
    h->dedup = shares ? h->owners.dedup : NULL;
    hops_find(h);
    h->slots = memory_plan_payloads(&t->plan, t->setup.job, &t->program, step, h->hop.listed);
    for (int k = 0; k < HALO_N_PIECE; k++) {
        h->width[k] = halo_piece_width(&t->program, h->op, h->pass, k);
    }
    halo_level(h, !step->lossy ? NULL : keeps && t->run.level.stale ? &t->run.level_before : &t->run.level);
    h->level_asked = h->level;
    h->routes.total = (struct halo_route_totals){0};
    if (!step->stored && !keeps) { /* else nothing is fetched for this pass itself */
        halo_routes_list(&h->owners, h->pass->direction, h->hop.listed, &h->routes);
    }
    h->fetch.n_credit = h->slots.n_fetch_slot;
    h->fetch.n_begun = h->fetch.n_used = 0;
    h->fetch.n_row = h->sent.n_bytes = 0;
    for (int32_t s = 0; s < h->slots.n_pack_slot; s++) {
        h->sent.piece[s] = (struct halo_packed){0};
    }
    device_mark free = t->ops->mark(t->device, DEVICE_LANE_IN), unread = t->ops->mark(t->device, DEVICE_LANE_COMPUTE);
    h->sent.ready = unread;
    for (int32_t s = 0; s < h->fetch.n_credit; s++) {
        h->fetch.slot[s].payload = (struct staged){.free = free, .unread = unread};
    }
    for (int32_t s = 0; s < h->slots.n_ask_slot; s++) {
        h->asked[s] = (struct halo_asked){.rows.free = free};
    }
    static const enum exchange_phase phases[] = {EXCHANGE_PHASE_FORWARD, EXCHANGE_PHASE_BACKWARD,
                                                 EXCHANGE_PHASE_BACKWARD_2};
    enum exchange_phase phase = t->run.phase == STEP_PHASE_STATIC     ? EXCHANGE_PHASE_STATIC
                                : t->run.phase == STEP_PHASE_EVALUATE ? EXCHANGE_PHASE_EVALUATE
                                                                      : phases[step->pass];
    h->key = (struct exchange_key){.epoch = trainer_key_epoch(t), .phase = (uint32_t)phase, .op = (uint16_t)step->op};
    h->source = sources_find(h);
    halo_serve(h);
}

/* Hops of the arrays that a sum reads and writes. */
static struct merged_hops merged_hops(const struct halo *h)
{
    bool to_sources = h->pass->direction == HALO_DIRECTION_OUT;
    enum op_role to = !h->step->backward ? OP_ROLE_OUT : to_sources ? OP_ROLE_GRAD_IN_0 : OP_ROLE_GRAD_IN_2;
    return (struct merged_hops){.of = h->hop.blocks,
                                .from = step_operand(h->step, h->pass->piece[0])->hop,
                                .to = step_operand(h->step, to)->hop};
}

/* All blocks as one, where sums go edge after edge over rows that lie in the arena; else false. */
static bool merged_find(const struct halo *h, struct device_block *out)
{
    const struct trainer *t = h->trainer;
    if (!halo_pass_joins(h->op, h->pass) || !memory_plan_merges(&t->plan, &t->program, h->op)) {
        return false;
    }
    const struct merged_hops hops = merged_hops(h);
    return merged_block(t->routes.merged, halo_edges(h->pass->direction), &hops, out);
}

/* All own parts at once, from where the first one's rows are. */
static void merged_run(struct halo *h, const struct device_block *block)
{
    const struct trainer *t = h->trainer;
    const struct merged_hops hops = merged_hops(h);
    struct op_call call = halo_call_begin(h, 0);
    call.n = memory_plan_rows(&t->plan, hops.to);
    call.pass.block = block;
    call.scale = merged_scale(t->routes.merged, hops.to);
    call.pass.col_scale = merged_scale(t->routes.merged, hops.from);
    call.node = call.pass.col_node = call.pass.epilogue.activate.node = merged_node(t->routes.merged);
    memcpy(call.pass.payload, call.pass.own, sizeof call.pass.payload);
    call.pass.payload_bf16 = call.pass.own_bf16;
    call.pass.order.first = call.pass.order.last = call.pass.order.only = true;
    h->pass->run(&call);
    for (int32_t i = 0; i < t->own.n && t->own.part[0].part->n_hop > 0; i++) {
        halo_gradients_end(t, h->step, i);
    }
}

/* All blocks, between what the sources of other parts' rows do around them. */
static enum status sources_run(struct halo *h)
{
    const struct payload_source *sources[] = {h->source.remote,
                                              h->source.local != h->source.remote ? h->source.local : NULL};
    enum status status = STATUS_OK;
    for (int s = 0; s < 2 && status == STATUS_OK; s++) {
        status = sources[s] != NULL && sources[s]->begin != NULL ? sources[s]->begin(h) : STATUS_OK;
    }
    if (status == STATUS_OK) { /* what waits, leaves before the own block runs */
        status = exchange_progress(h->trainer->setup.exchange);
    }
    status = status == STATUS_OK ? halo_walk(h) : status;
    for (int s = 0; s < 2 && status == STATUS_OK; s++) {
        status = sources[s] != NULL && sources[s]->end != NULL ? sources[s]->end(h) : STATUS_OK;
    }
    return status == STATUS_OK ? exchange_settle(h->trainer->setup.exchange) : status;
}

enum status halo_run(struct trainer *t, const struct step *step)
{
    struct halo *h = t->routes.halo;
    pass_begin(t, step);
    struct device_block merged;
    if (merged_find(h, &merged)) {
        merged_run(h, &merged);
        return exchange_settle(t->setup.exchange);
    }
    struct pin workspace = pin_open(t, step, PIN_USE_AROUND);
    enum status status = pin_begin(&workspace, 0);
    status = status == STATUS_OK ? sources_run(h) : status;
    pin_end(&workspace);
    return status;
}

enum status halo_begin(struct trainer *t, const struct step *step)
{
    const struct op *op = &t->program.op[step->op];
    struct pin pin = pin_open(t, step, PIN_USE_RUNNING);
    while (pin_next(&pin)) {
        struct op_call call = trainer_call(t, step, pin.part);
        aggregate_defs[op->aggregate]->backward_begin(&call);
        halo_gradients_end(t, step, pin.part);
    }
    return pin.status;
}
