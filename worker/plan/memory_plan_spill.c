/* What of a plan lies in files, and how much of it has to be in memory at one time: the most that one step uses of one part. */
#include "worker/plan/memory_plan.h"
#include "worker/plan/uses.h"

#include <stdlib.h>

struct spilling {
    const struct memory_plan_input *in;
    struct memory_plan *plan;
    int64_t least;
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t room_bytes(const struct memory_room *room)
{
    return room->n_scratch + room->n_fetch + room->n_pack;
}

static int64_t sent_rows(const struct memory_plan_input *in, int32_t i, int d)
{
    int64_t n = 0;
    for (int32_t q = 0; q < in->n_part; q++) {
        n += in->own[i].travel.give[d][q];
    }
    return n;
}

static int64_t grad_bytes(const struct memory_plan_part *own, const struct value *value)
{
    return memory_plan_rows_own(own, value->level) * value->width * (int64_t)sizeof(float);
}

static int64_t use_bytes(const struct spilling *s, const struct use *use, int32_t i)
{
    const struct program *program = s->in->program;
    const struct memory_plan_part *own = &s->in->own[i];
    int64_t n = own->n_own;
    switch (use->kind) {
    case USE_VALUE:
        return (program->value[use->index].is_sparse ? own->n_feature_value + own->n_embedded
                                                     : n * program->value[use->index].width) *
               4;
    case USE_GRAD:
        return grad_bytes(own, &program->value[use->index]);
    case USE_KEPT: {
        const struct op *op = &program->op[use->index];
        const struct global_def *global = op_defs[op->kind].global;
        return global != NULL ? global->n_whole(program, op) * (int64_t)sizeof(double)
                              : n * op_kept_width(program, op, use->k) * 4;
    }
    case USE_TEMP:
        return grad_bytes(own, &program->value[program->op[use->index].in[use->k]]);
    case USE_ROOM:
        return room_bytes(use->index < 0 ? &s->plan->score_room : &s->plan->room[use->index][use->k]);
    case USE_CSR:
        return (n + 1) * 8 + (own->n_feature_value + 2 * own->n_embedded) * 4;
    case USE_NODES:
        return n * 4;
    case USE_LABELS:
        return n * (1 + 4 * program->value[program->logits].width);
    case USE_BLOCKS:
        return own->n_bytes - memory_plan_features(s->in, i);
    case USE_SENT:
        return sent_rows(s->in, i, use->index) * 4;
    }
    return 0;
}

/* What one part needs in a step, and the next part, whose arrays are read ahead. `held`: by the round around it. */
static void step_count(struct spilling *s, const struct uses *uses, int64_t held)
{
    int64_t before = 0;
    for (int32_t i = 0; i < s->in->n_own_part; i++) {
        int64_t now = 0;
        for (int u = 0; u < uses->n; u++) {
            now += spill_held_bytes(use_bytes(s, &uses->use[u], i));
        }
        s->least = larger(s->least, held + before + now);
        before = now;
    }
}

static void round_count(struct spilling *s, int index, const struct aggregate_round *round, enum memory_room_use use)
{
    const struct memory_plan_input *in = s->in;
    const struct op *op = &in->program->op[index];
    int64_t row_bytes = aggregate_payload_width(in->program, op, round) * (int64_t)sizeof(float), rows = 0, most = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        for (int32_t q = 0; q < in->n_part; q++) {
            int64_t n = q != in->own[i].travel.part ? travel_rows_out(&in->own[i].travel, q, round->travel, PROGRAM_LEVEL_ALL)
                                                    : 0;
            rows += n;
            most = larger(most, n);
        }
    }
    s->plan->n_spill_payload = larger(s->plan->n_spill_payload, rows * row_bytes);
    /* The round's room, the payload in use and the next one, and the pieces that are being sent. */
    int64_t piece = most * row_bytes < MEMORY_PACK_BYTES ? most * row_bytes : MEMORY_PACK_BYTES;
    int64_t sending = s->plan->n_pack_slot * spill_held_bytes(piece);
    int64_t held = spill_held_bytes(room_bytes(&s->plan->room[index][use])) + 2 * spill_held_bytes(most * row_bytes) + sending;
    struct uses uses;
    uses_pack(in->program, s->plan, index, round, &uses);
    step_count(s, &uses, held);
    uses_round(in->program, s->plan, index, round, &uses);
    step_count(s, &uses, held);
}

static void aggregate_count(struct spilling *s, int index)
{
    const struct program *program = s->in->program;
    const struct aggregate_def *def = &aggregate_defs[program->op[index].aggregate];
    struct uses uses;
    round_count(s, index, &def->forward, MEMORY_ROOM_FORWARD);
    if (!program->value[program->op[index].out].needs_grad) {
        return;
    }
    uses_begin(program, s->plan, index, &uses);
    step_count(s, &uses, 0);
    for (int k = 0; k < AGGREGATE_N_BACKWARD && def->backward[k].run != NULL; k++) {
        round_count(s, index, &def->backward[k], MEMORY_ROOM_BACKWARD);
    }
    uses_join(program, s->plan, index, &uses);
    step_count(s, &uses, 0);
}

static void op_count(struct spilling *s, int index)
{
    const struct program *program = s->in->program;
    struct uses uses;
    uses_forward(program, s->plan, index, &uses);
    step_count(s, &uses, 0);
    if (program->value[program->op[index].out].needs_grad) {
        uses_backward(program, s->plan, index, NULL, &uses);
        step_count(s, &uses, 0);
    }
}

/* Whole chunks, as the files hold. */
static int64_t whole(int64_t n_bytes)
{
    return (n_bytes + SPILL_CHUNK - 1) / SPILL_CHUNK * SPILL_CHUNK;
}

void memory_plan_spill(const struct memory_plan_input *in, struct memory_plan *plan)
{
    struct spilling s = {.in = in, .plan = plan};
    struct uses uses;
    for (int i = 0; i < in->program->n_op; i++) {
        (in->program->op[i].kind == OP_KIND_AGGREGATE ? aggregate_count : op_count)(&s, i);
    }
    uses_loss(in->program, true, &uses);
    step_count(&s, &uses, 0);
    plan->n_spill_bytes = whole(plan->n_arena_bytes) + whole(plan->n_spill_payload);
    for (int32_t i = 0; i < in->n_own_part; i++) {
        int64_t expanded = memory_plan_expanded(in, i);
        int64_t copy, copies = memory_plan_copies(in, i, &copy);
        plan->n_spill_bytes += whole(in->own[i].n_bytes) + whole(expanded) + in->own[i].travel.n_level * whole(copies);
        s.least = larger(s.least, whole(in->own[i].n_bytes) + whole(larger(expanded, copy))); /* while it is made ready */
    }
    plan->n_spill_least = s.least < plan->n_spill_bytes ? s.least : plan->n_spill_bytes;
    int64_t left = memory_plan_budget(in->job) - memory_plan_total(plan);
    left = left < plan->n_spill_bytes ? left : plan->n_spill_bytes;
    plan->bytes[MEMORY_SPILL] = larger(left, plan->n_spill_least);
}
