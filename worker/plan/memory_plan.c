#include "worker/plan/memory_plan.h"

#include "worker/plan/recompute.h"
#include "worker/run/part_level.h"

#include <stdlib.h>

#define ROW_ALIGN 16
#define ROOM_ALIGN 64

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void rows_lay_out(const struct memory_plan_input *in, struct memory_plan *plan)
{
    plan->row_begin = memory_alloc((size_t)in->n_own_part, sizeof *plan->row_begin);
    plan->value_begin = memory_alloc((size_t)in->n_own_part, sizeof *plan->value_begin);
    plan->embedding_begin = memory_alloc((size_t)in->n_own_part, sizeof *plan->embedding_begin);
    for (int32_t i = 0; i < in->n_own_part; i++) {
        plan->row_begin[i] = plan->n_row;
        plan->value_begin[i] = plan->n_sparse_value;
        plan->embedding_begin[i] = plan->n_embedding;
        plan->n_row += round_up(in->own[i].n_own, ROW_ALIGN);
        plan->n_sparse_value += round_up(in->own[i].n_feature_value + in->own[i].n_embedded, ROW_ALIGN);
        plan->n_embedding += round_up(in->own[i].n_embedded * in->program->n_embedding, ROW_ALIGN);
    }
    plan->n_level = in->own[0].travel.n_level;
    plan->n_own_part = in->n_own_part;
    plan->row_begin_level = memory_alloc((size_t)plan->n_level * (size_t)in->n_own_part, sizeof *plan->row_begin_level);
    for (int32_t level = 0; level < plan->n_level; level++) {
        int64_t *n_row = &plan->n_row_level[level];
        for (int32_t i = 0; i < in->n_own_part; i++) {
            plan->row_begin_level[level * (int64_t)in->n_own_part + i] = *n_row;
            *n_row += round_up(in->own[i].n_own_level[level], ROW_ALIGN);
        }
        *n_row = larger(*n_row, ROW_ALIGN); /* an array has a place, though it may have no rows */
    }
}

int64_t memory_plan_rows(const struct memory_plan *plan, int32_t level)
{
    return level < plan->n_level ? plan->n_row_level[level] : plan->n_row;
}

int64_t memory_plan_row_begin(const struct memory_plan *plan, int32_t level, int32_t i)
{
    return level < plan->n_level ? plan->row_begin_level[level * (int64_t)plan->n_own_part + i] : plan->row_begin[i];
}

int64_t memory_plan_rows_own(const struct memory_plan_part *own, int32_t level)
{
    return level < own->travel.n_level ? own->n_own_level[level] : own->n_own;
}

/* Scratch of one op on the largest part that needs it. */
static int64_t op_scratch(const struct memory_plan_input *in, const struct op *op)
{
    const struct op_def *def = &op_defs[op->kind];
    int64_t most = 0;
    for (int32_t i = 0; def->scratch != NULL && i < in->n_own_part; i++) {
        most = larger(most, (int64_t)def->scratch(in->program, op, in->ops, in->own[i].n_own));
    }
    return most;
}

/* Its own, or that of payloads between parts of this rank, both ways. */
static int64_t aggregate_scratch(const struct memory_plan_input *in, const struct op *op)
{
    const struct aggregate_def *def = &aggregate_defs[op->aggregate];
    int64_t rows = 0, most = 0;
    for (int32_t i = 0; def->scratch != NULL && i < in->n_own_part; i++) {
        most = larger(most, (int64_t)def->scratch(in->program, op, in->ops, in->own[i].n_own));
    }
    if (!aggregate_returns(op->aggregate)) {
        return most;
    }
    for (int32_t i = 0; i < in->n_own_part; i++) {
        rows = larger(rows, in->own[i].n_own);
        for (int32_t q = 0; q < in->n_part; q++) {
            rows = larger(rows, in->own[i].travel.take[PART_DIRECTION_IN][q]);
            rows = larger(rows, in->own[i].travel.give[PART_DIRECTION_IN][q]);
        }
    }
    return larger(most, rows * in->program->value[op->in[0]].width * (int64_t)sizeof(float));
}

/* Slots of one round. Payloads that come are taken whole, since blocks are; those that go leave in pieces, where they are
 * rows as they lie. */
static struct memory_round round_slots(const struct memory_plan *plan, const struct job *job, const struct program *program,
                                       const struct op *op, const struct aggregate_round *round, int32_t level)
{
    const struct travel_list *list = memory_plan_travel(plan, round->travel, level);
    int64_t row_bytes = aggregate_payload_width(program, op, round) * (int64_t)sizeof(float);
    struct memory_round r = {.n_row_bytes = row_bytes, .n_fetch_slot = list->n_fetch, .n_pack_slot = list->n_serve};
    if (job->exchange.schedule == JOB_SCHEDULE_HALO) {
        r.n_fetch_bytes = list->n_fetch_row * row_bytes;
        r.n_pack_bytes = list->n_serve_row * row_bytes;
        return r;
    }
    int64_t credit = job->exchange.prefetch + 1, n_pack = credit;
    r.n_fetch_slot_bytes = round_up(list->most_fetch_row * row_bytes, ROOM_ALIGN);
    r.n_pack_slot_bytes = round_up(list->most_serve_row * row_bytes, ROOM_ALIGN);
    if (round->travel != TRAVEL_RETURN && r.n_pack_slot_bytes > MEMORY_PACK_BYTES) {
        r.n_pack_slot_bytes = round_up(larger(MEMORY_PACK_BYTES, row_bytes), ROOM_ALIGN);
        n_pack = MEMORY_PACK_SLOTS;
    }
    r.n_fetch_slot = (int32_t)smaller(r.n_fetch_slot, credit);
    r.n_pack_slot = (int32_t)smaller(r.n_pack_slot, n_pack);
    r.n_fetch_bytes = r.n_fetch_slot * r.n_fetch_slot_bytes;
    r.n_pack_bytes = r.n_pack_slot * r.n_pack_slot_bytes;
    return r;
}

struct memory_round memory_plan_round(const struct memory_plan *plan, const struct job *job, const struct program *program,
                                      const struct op *op, const struct aggregate_round *round, int32_t level)
{
    struct memory_round r = round_slots(plan, job, program, op, round, level);
    if (memory_plan_spills(job)) {
        /* They leave from where they lie. */
        r.n_pack_slot = (int32_t)smaller(memory_plan_travel(plan, round->travel, level)->n_serve, MEMORY_PACK_SLOTS);
        r.n_pack_slot_bytes = r.n_pack_bytes = 0;
    }
    return r;
}

/* Room for one round of rows of a level; returns the bytes that come. */
static int64_t round_room(const struct memory_plan_input *in, struct memory_plan *plan, const struct op *op,
                          const struct aggregate_round *round, int32_t level, struct memory_room *room)
{
    struct memory_round r = memory_plan_round(plan, in->job, in->program, op, round, level);
    plan->n_fetch_slot = (int32_t)larger(plan->n_fetch_slot, r.n_fetch_slot);
    plan->n_pack_slot = (int32_t)larger(plan->n_pack_slot, r.n_pack_slot);
    room->n_fetch = larger(room->n_fetch, round_up(r.n_fetch_bytes, ROOM_ALIGN));
    room->n_pack = larger(room->n_pack, round_up(r.n_pack_bytes, ROOM_ALIGN));
    return memory_plan_travel(plan, round->travel, level)->n_fetch_row * r.n_row_bytes;
}

/* Training takes the rows that count; evaluation, and what runs once, takes all. */
static void round_plan(const struct memory_plan_input *in, struct memory_plan *plan, const struct op *op,
                       const struct aggregate_round *round, struct memory_room *room)
{
    if (!op->is_static) {
        plan->n_wire_bytes += round_room(in, plan, op, round, aggregate_travel_level(in->program, op, round), room);
    }
    if (round == &aggregate_defs[op->aggregate].forward) {
        int64_t n_bytes = round_room(in, plan, op, round, PROGRAM_LEVEL_ALL, room);
        plan->n_wire_evaluate += op->is_static ? 0 : n_bytes;
    }
}

static void travel_plan(const struct memory_plan_input *in, struct memory_plan *plan)
{
    struct travel_part *own = memory_alloc((size_t)in->n_own_part, sizeof *own);
    for (int32_t i = 0; i < in->n_own_part; i++) {
        own[i] = in->own[i].travel;
    }
    plan->travel = memory_alloc((size_t)plan->n_level + 1, sizeof *plan->travel);
    for (int32_t level = 0; level <= plan->n_level; level++) {
        for (int t = 0; t < TRAVEL_N; t++) {
            travel_list_build(own, in->n_own_part, in->n_part, in->rank_of_part, in->rank, (enum travel)t, level,
                              &plan->travel[level][t]);
        }
    }
    free(own);
}

const struct travel_list *memory_plan_travel(const struct memory_plan *plan, enum travel travel, int32_t level)
{
    return &plan->travel[level < plan->n_level ? level : plan->n_level][travel];
}

static void rooms_plan(const struct memory_plan_input *in, struct memory_plan *plan)
{
    const struct program *program = in->program;
    plan->room = memory_alloc((size_t)program->n_op, sizeof *plan->room);
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        bool aggregate = op->kind == OP_KIND_AGGREGATE;
        struct memory_room *forward = &plan->room[i][MEMORY_ROOM_FORWARD], *backward = &plan->room[i][MEMORY_ROOM_BACKWARD];
        forward->n_scratch = round_up(aggregate ? aggregate_scratch(in, op) : op_scratch(in, op), ROOM_ALIGN);
        backward->n_scratch = forward->n_scratch;
        if (!aggregate) {
            continue;
        }
        const struct aggregate_def *def = &aggregate_defs[op->aggregate];
        round_plan(in, plan, op, &def->forward, forward);
        for (int k = 0; k < AGGREGATE_N_BACKWARD && program->value[op->out].needs_grad; k++) {
            if (def->backward[k].run != NULL) {
                round_plan(in, plan, op, &def->backward[k], backward);
            }
        }
    }
    int64_t score = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        score = larger(score, (int64_t)in->ops->score_scratch(in->own[i].n_own));
    }
    plan->score_room.n_scratch = round_up(score, ROOM_ALIGN);
}

static int64_t parameters_bytes(const struct memory_plan_input *in, struct memory_plan *plan)
{
    int64_t one = in->program->n_weight * (int64_t)sizeof(float);
    plan->n_gradient_bytes = one + MEMORY_PLAN_N_SUM * (int64_t)sizeof(double);
    plan->n_reduced_bytes = plan->n_gradient_bytes;
    for (int i = 0; i < in->program->n_op; i++) {
        const struct op *op = &in->program->op[i];
        const struct global_def *global = op_defs[op->kind].global;
        int64_t n_bytes = global != NULL ? global->n_sum(in->program, op) * (int64_t)sizeof(double) : 0;
        plan->n_global_bytes = larger(plan->n_global_bytes, n_bytes);
        plan->n_reduced_bytes += n_bytes * (in->program->value[op->out].needs_grad ? 2 : 1);
    }
    int64_t bytes = one + in->n_own_part * plan->n_gradient_bytes;
    if (in->rank == 0) {
        bytes += one; /* the best weights so far */
    }
    bytes += in->n_own_part * plan->n_global_bytes;
    if (in->n_rank > 1) {
        bytes += plan->n_gradient_bytes + plan->n_global_bytes; /* another rank's branch of the tree */
    }
    bool adam = in->job->train.optimizer != JOB_OPTIMIZER_SGD;
    int64_t n_moment = adam ? 2 : in->job->train.momentum > 0;
    /* Embeddings: present, gradient, and best on every rank. */
    return bytes + n_moment * one + (3 + n_moment) * plan->n_embedding * (int64_t)sizeof(float);
}

int64_t memory_plan_features(const struct memory_plan_input *in, int32_t i)
{
    const struct memory_plan_part *own = &in->own[i];
    int64_t width = in->program->value[0].width;
    return in->sparse_features ? (own->n_own + 1) * 8 + (own->n_feature_value + own->n_embedded) * 8 : own->n_own * width * 4;
}

int64_t memory_plan_expanded(const struct memory_plan_input *in, int32_t i)
{
    const struct value *features = &in->program->value[0];
    return in->sparse_features && !features->is_sparse ? in->own[i].n_own * features->width * (int64_t)sizeof(float) : 0;
}

bool memory_plan_spills(const struct job *job)
{
    return job->memory.spill[0] != '\0';
}

/* What lies in files when parts are spilled: the encoded parts, and what is made of them edge by edge or value by value. */
static void parts_plan(const struct memory_plan_input *in, bool in_place, struct memory_plan *plan)
{
    for (int32_t i = 0; i < in->n_own_part; i++) {
        const struct memory_plan_part *own = &in->own[i];
        int64_t features = memory_plan_features(in, i), copies = own->symmetric ? 1 : 2;
        plan->bytes[MEMORY_FEATURES] += features + memory_plan_expanded(in, i);
        plan->bytes[MEMORY_STRUCTURE] += own->n_bytes - features;
        plan->bytes[MEMORY_STRUCTURE] += in_place ? copies * own->n_local_edge * (int64_t)sizeof(uint32_t) : 0;
    }
}

/* What training walks of an own part's blocks at one level, besides the blocks themselves; *copy_out: edges picked out. */
static int64_t level_bytes(const struct memory_plan_input *in, const struct memory_plan_part *own, int32_t level,
                           int64_t *copy_out)
{
    int64_t n_bytes = 0, n_target = own->n_own_level[level];
    int32_t before = program_level_before(level);
    *copy_out = 0;
    if (part_level_used(in->program, PART_DIRECTION_IN, level)) {
        n_bytes += (int64_t)in->ops->block_bytes(in->n_part, n_target, own->n_edge_level[PART_DIRECTION_IN][level]);
    }
    if (part_level_used(in->program, PART_DIRECTION_OUT, level)) {
        struct part_level_sizes sizes = {
            .n_part = in->n_part,
            .n_edge = part_level_edges(in->program, own->implied_loops, own->n_edge_level[PART_DIRECTION_OUT][level], n_target),
            .n_row = memory_plan_rows_own(own, before),
            .typed = in->program->n_relation > 0,
            .weighted = own->weighted || in->program->n_relation > 0};
        for (int32_t q = 0; q < in->n_part; q++) {
            sizes.n_listed += travel_rows_out(&own->travel, q, TRAVEL_IN, before);
        }
        n_bytes += (int64_t)in->ops->block_bytes(in->n_part, sizes.n_row, sizes.n_edge);
        *copy_out = part_level_copy_bytes(&sizes);
    }
    return n_bytes;
}

int64_t memory_plan_copies(const struct memory_plan_input *in, int32_t i, int64_t *most_out)
{
    int64_t sum = 0, copy;
    *most_out = 0;
    for (int32_t level = 0; level < in->own[i].travel.n_level; level++) {
        level_bytes(in, &in->own[i], level, &copy);
        *most_out = larger(*most_out, copy);
        sum += copy;
    }
    return sum;
}

/* Structure: the encoded parts without their features, scales of rows and payload rows, the device's own schedules. */
static void structure_plan(const struct memory_plan_input *in, struct memory_plan *plan)
{
    const struct program *program = in->program;
    bool in_place = false, scaled = false;
    for (int i = 0; i < program->n_op; i++) {
        bool aggregates = program->op[i].kind == OP_KIND_AGGREGATE;
        in_place = in_place || (aggregates && !aggregate_returns(program->op[i].aggregate));
        scaled = scaled || (aggregates && aggregate_defs[program->op[i].aggregate].has_scale);
    }
    if (!memory_plan_spills(in->job)) {
        parts_plan(in, in_place, plan);
    }
    for (int32_t i = 0; i < in->n_own_part; i++) {
        const struct memory_plan_part *own = &in->own[i];
        if (in->sparse_features && program->value[0].is_sparse) {
            plan->bytes[MEMORY_FEATURES] += (int64_t)in->ops->csr_bytes(own->n_own, program_n_shared(program),
                                                                        own->n_feature_value);
        }
        if (scaled) {
            int64_t n_scale = own->n_own;
            for (int32_t q = 0; q < in->n_part; q++) {
                n_scale += own->travel.take[PART_DIRECTION_IN][q];
                n_scale += own->symmetric ? 0 : own->travel.take[PART_DIRECTION_OUT][q];
            }
            plan->bytes[MEMORY_STRUCTURE] += n_scale * (int64_t)sizeof(float);
        }
        plan->bytes[MEMORY_STRUCTURE] += (own->symmetric ? 1 : 2) *
                                         (int64_t)in->ops->block_bytes(in->n_part, own->n_own, own->n_edge);
        for (int32_t level = 0; level < own->travel.n_level; level++) {
            int64_t copy, n_bytes = level_bytes(in, own, level, &copy);
            plan->bytes[MEMORY_STRUCTURE] += n_bytes + (memory_plan_spills(in->job) ? 0 : copy);
        }
    }
}

/* What is copied aside for the coordinator: the weights in the arena, one part's embeddings or logits. */
static int64_t staging_bytes(const struct memory_plan_input *in)
{
    const struct program *program = in->program;
    int64_t most = program->n_weight;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        most = larger(most, in->own[i].n_own * program->value[program->logits].width);
        most = larger(most, in->own[i].n_embedded * program->n_embedding);
    }
    return most * (int64_t)sizeof(float);
}

int64_t memory_plan_budget(const struct job *job)
{
    if (job->memory.limit > 0) {
        return job->memory.limit;
    }
    return memory_machine() / (job->workers.launcher == JOB_LAUNCHER_LOCAL ? job->workers.count : 1);
}

bool memory_plan_again(const struct memory_plan *plan, int op)
{
    for (int s = 0; s < plan->n_step; s++) {
        if (plan->step[s].kind == MEMORY_STEP_AGAIN && plan->step[s].op == op) {
            return true;
        }
    }
    return false;
}

/* The arena is one piece: what the largest room has of payloads, and the rest. */
static void arena_share(const struct program *program, struct memory_plan *plan)
{
    int64_t payloads = 0;
    for (int i = 0; i < program->n_op; i++) {
        for (int k = 0; k < MEMORY_ROOM_N; k++) {
            payloads = larger(payloads, plan->room[i][k].n_fetch + plan->room[i][k].n_pack);
        }
    }
    plan->bytes[MEMORY_PAYLOADS] = payloads;
    plan->bytes[MEMORY_ACTIVATIONS] = plan->n_arena_bytes - payloads;
}

void memory_plan_build(const struct memory_plan_input *in, struct memory_plan *out)
{
    *out = (struct memory_plan){0};
    rows_lay_out(in, out);
    travel_plan(in, out);
    rooms_plan(in, out);
    structure_plan(in, out);
    out->bytes[MEMORY_PARAMETERS] = parameters_bytes(in, out);
    out->bytes[MEMORY_OTHER] = staging_bytes(in);
    enum job_recompute how = (enum job_recompute)in->job->memory.recompute;
    int64_t left = memory_plan_budget(in->job) - memory_plan_total(out);
    recompute_plan(in->program, how, left, out);
    if (!memory_plan_spills(in->job)) {
        arena_share(in->program, out);
        return;
    }
    if (how == JOB_RECOMPUTE_AUTO && out->n_arena_bytes > left) {
        recompute_plan(in->program, JOB_RECOMPUTE_NEVER, left, out); /* what must be spilled may as well be spilled whole */
    }
    memory_plan_spill(in, out);
}

void memory_plan_release(struct memory_plan *plan)
{
    for (int32_t level = 0; plan->travel != NULL && level <= plan->n_level; level++) {
        for (int t = 0; t < TRAVEL_N; t++) {
            travel_list_release(&plan->travel[level][t]);
        }
    }
    free(plan->travel);
    free(plan->row_begin);
    free(plan->row_begin_level);
    free(plan->value_begin);
    free(plan->embedding_begin);
    free(plan->value_at);
    free(plan->grad_at);
    free(plan->kept_at);
    free(plan->temp_at);
    free(plan->room);
    free(plan->step);
    free(plan->ending);
    *plan = (struct memory_plan){0};
}

int64_t memory_plan_total(const struct memory_plan *plan)
{
    int64_t sum = 0;
    for (int c = 0; c < MEMORY_N; c++) {
        sum += plan->bytes[c];
    }
    return sum;
}
