/* From a program to lists of steps: the steps and their order. lower_operands.c has their operands. */
#include "models/steps/lowering.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

/* --- steps of one op --- */

static void op_forward(const struct lowering *l, int op, bool recomputed, struct step *out)
{
    const struct op_def *def = op_defs[l->program->op[op].kind];
    *out = (struct step){.kind = STEP_KIND_FORWARD, .op = op, .recomputed = recomputed};
    lowering_roles(l, out, OP_ROLES_IN | OP_ROLES_PARAM | OP_ROLES(EMBEDDING) | def->also_reads,
                   OP_ROLES(OUT) | OP_ROLES_SAVED | OP_ROLES(WORKSPACE));
}

void step_forward(const struct program *program, int op, struct step *out)
{
    const struct lowering l = {.program = program};
    op_forward(&l, op, true, out);
}

/* The reduced sums of all parts, before a global op runs on each. `sums`: of each part. An evaluation has no sums,
 * except for running statistics if training sees only samples. */
static void global_lower(struct lowering *l, int op, bool backward, bool sums)
{
    const struct global_def *global = op_defs[l->program->op[op].kind]->global;
    if (global == NULL) {
        return;
    }
    const struct global_pass *pass = backward ? &global->backward : &global->forward;
    if (sums) {
        struct step partial = {.kind = STEP_KIND_PARTIAL, .op = op, .backward = backward};
        lowering_roles(l, &partial, pass->partial_access.reads, pass->partial_access.writes | OP_ROLES(SUM));
        step_append(l->list, &partial);
    }
    struct step total = {.kind = STEP_KIND_TOTAL, .op = op, .backward = backward};
    op_roles statistics = OP_ROLES(STATISTICS), changes = pass->total_changes;
    lowering_roles(l, &total, changes | (backward ? statistics : 0) | (sums ? OP_ROLES(SUM) : 0),
                   statistics | (sums ? changes | OP_ROLES(SUM) : 0));
    step_append(l->list, &total);
}

/* Directions of blocks, as the structure's operands are numbered. */
enum { BLOCKS_IN, BLOCKS_OUT };

static int block_direction(const struct halo_pass *pass)
{
    return pass->direction == HALO_DIRECTION_OUT ? BLOCKS_OUT : BLOCKS_IN;
}

static void structure_add(struct step *step, enum step_array array, int direction, int32_t hop,
                          struct lowering_use use)
{
    const struct step_operand operand = {.array = array,
                                         .element = STEP_ELEMENT_BYTES,
                                         .role = array == STEP_ARRAY_BLOCKS ? OP_ROLE_BLOCKS : OP_ROLE_SENDING,
                                         .index = direction,
                                         .hop = hop,
                                         .packing = use.packing,
                                         .running = use.running};
    lowering_operand(step, &operand);
}

/* A RETURN pass makes payloads from the roles that its pack reads, also the own part's, and from the requested
 * rows. */
static void return_lower(struct lowering *l, struct step *step)
{
    const struct halo_pass *halo = step->halo;
    op_roles reads = halo->pack_reads;
    for (int k = 0; k < halo->n_ask; k++) {
        reads |= (op_roles)1 << halo->ask[k];
    }
    for (int role = 0; role < OP_ROLE_N; role++) {
        if (reads >> role & 1) {
            lowering_role(l, step, (enum op_role)role, (struct lowering_use){.packing = true, .running = true});
        }
    }
    if (halo->transposed) {
        structure_add(step, STEP_ARRAY_BLOCKS, BLOCKS_OUT, l->program->value[l->program->op[step->op].out].hop,
                      (struct lowering_use){.running = true});
    }
}

/* Halo rows of the value replace rows of other parts, also for the resulting gradients: nothing is packed. */
static void stored_lower(struct lowering *l, int op, int pass, const struct halo_pass *halo)
{
    const struct op *what = &l->program->op[op];
    int32_t hop = l->program->value[what->out].hop;
    struct step step = {
        .kind = STEP_KIND_HALO, .op = op, .backward = pass > 0, .pass = pass, .halo = halo, .stored = true};
    const struct lowering_use running = {.running = true};
    op_roles scale = aggregate_defs[what->aggregate]->scale != NULL ? OP_ROLES(SCALE) : 0;
    op_roles rows = halo->pack_reads;
    for (int k = 0; k < halo->n_piece && halo->direction != HALO_DIRECTION_RETURN; k++) {
        rows |= (op_roles)1 << halo->piece[k];
    }
    lowering_role(l, &step, OP_ROLE_NODE, running);
    lowering_roles(l, &step, halo->access.reads | scale | rows, halo->access.writes);
    structure_add(&step, STEP_ARRAY_BLOCKS, BLOCKS_IN, hop, running);
    if (halo->transposed) {
        structure_add(&step, STEP_ARRAY_BLOCKS, BLOCKS_OUT, hop, running);
    }
    lowering_role(l, &step, OP_ROLE_WORKSPACE, (struct lowering_use){.access = STEP_ACCESS_WRITE});
    step_append(l->list, &step);
}

/* Own rows travel and are read on the diagonal; payloads are packed from the rows that other parts receive. */
static void halo_lower(struct lowering *l, int op, int pass, const struct halo_pass *halo)
{
    const struct op *what = &l->program->op[op];
    if (program_reads_stored(l->program, what)) {
        stored_lower(l, op, pass, halo);
        return;
    }
    int32_t hop = l->program->value[what->out].hop;
    struct step step = {
        .kind = STEP_KIND_HALO, .op = op, .backward = pass > 0, .pass = pass, .halo = halo, .lossy = l->lossy};
    bool returns = halo->direction == HALO_DIRECTION_RETURN;
    for (int k = 0; k < halo->n_piece && !returns; k++) {
        lowering_role(l, &step, halo->piece[k], (struct lowering_use){.packing = true, .running = true});
    }
    op_roles scale = aggregate_defs[what->aggregate]->scale != NULL ? OP_ROLES(SCALE) : 0;
    bool coded = l->lossy && program_codes(l->program); /* rows are rounded by their node ids */
    lowering_role(l, &step, OP_ROLE_NODE, (struct lowering_use){.packing = coded, .running = true});
    lowering_roles(l, &step, halo->access.reads | scale, halo->access.writes);
    if (returns) {
        return_lower(l, &step);
    }
    structure_add(&step, STEP_ARRAY_BLOCKS, block_direction(halo), hop,
                  (struct lowering_use){.packing = returns, .running = true});
    structure_add(&step, STEP_ARRAY_SENDING, block_direction(halo), hop,
                  (struct lowering_use){.packing = !returns, .running = returns});
    lowering_role(l, &step, OP_ROLE_WORKSPACE, (struct lowering_use){.access = STEP_ACCESS_WRITE});
    step_append(l->list, &step);
}

static void forward_lower(struct lowering *l, bool is_static, bool evaluates)
{
    for (int i = 0; i < l->program->n_op; i++) {
        const struct op *op = &l->program->op[i];
        if (op->is_static != is_static) {
            continue;
        }
        if (op->kind == OP_KIND_AGGREGATE) {
            halo_lower(l, i, 0, &aggregate_defs[op->aggregate]->forward);
            continue;
        }
        bool exact = program_rows_differ(l->program) &&
                     op_keeps_statistics(op); /* running statistics of samples would be useless */
        global_lower(l, i, false, !is_static && (!evaluates || exact));
        struct step step;
        op_forward(l, i, false, &step);
        step_append(l->list, &step);
    }
}

static void params_written(struct lowering *l, const struct op *op)
{
    for (int k = 0; k < OP_N_PARAM; k++) {
        if (op->param[k] >= 0) {
            l->param_written[op->param[k]] = true;
        }
    }
}

static void dense_backward_lower(struct lowering *l, int i)
{
    const struct op_def *def = op_defs[l->program->op[i].kind];
    op_roles reads = OP_ROLES(GRAD_OUT) | OP_ROLES_SAVED | OP_ROLES_PARAM | def->also_reads;
    op_roles writes = OP_ROLES_GRAD_IN | OP_ROLES_GRAD_PARAM | OP_ROLES(GRAD_EMBEDDING) | OP_ROLES(WORKSPACE);
    if (def->global != NULL) {
        writes &= ~(def->global->backward.partial_access.writes & OP_ROLES_GRAD_PARAM); /* made there */
    }
    global_lower(l, i, true, true);
    struct step step = {.kind = STEP_KIND_BACKWARD, .op = i, .backward = true};
    op_roles saved = op_backward_reads(l->program, &l->program->op[i]);
    lowering_roles(l, &step, saved & OP_ROLES(OUT), 0);
    lowering_roles(l, &step, (saved & OP_ROLES_IN) | reads, writes);
    params_written(l, &l->program->op[i]);
    step_append(l->list, &step);
}

/* A pass that returns gradients has nothing to do where no input wants one. */
static bool is_wanted(const struct program *program, const struct op *op, const struct halo_pass *pass)
{
    bool key = op->in[1] >= 0 && program->value[op->in[1]].needs_grad;
    if (op->aggregate >= AGGREGATE_KIND_EDGES) {
        bool of_targets = pass->direction == HALO_DIRECTION_IN;
        const struct tile *tile = &program->tile[op->tile + (of_targets ? OP_TILE_BACKWARD : OP_TILE_OF_SOURCES)];
        return tile->n_result > 0 || tile->target[of_targets ? TILE_TARGET_GRAD_IN_2 : TILE_TARGET_GRAD_IN_0] > 0;
    }
    return pass->direction != HALO_DIRECTION_RETURN || program->value[op->in[0]].needs_grad || key;
}

/* The work on own rows, the passes, and the adding of fresh gradients to others. */
static void aggregate_backward_lower(struct lowering *l, int i)
{
    const struct op *op = &l->program->op[i];
    const struct aggregate_def *def = aggregate_defs[op->aggregate];
    bool stored = l->program->value[op->in[0]].hop ==
                  PROGRAM_HOP_HALO; /* gradients of halo rows are made as those that return */
    const struct halo_pass *backward = stored ? def->sampled_backward : aggregate_backward(l->program, op->aggregate);
    if (def->backward_begin != NULL) {
        struct step begin = {.kind = STEP_KIND_BEGIN, .op = i, .backward = true};
        lowering_roles(l, &begin, def->begin_access.reads, def->begin_access.writes);
        step_append(l->list, &begin);
    }
    for (int k = 0; k < OP_N_BACKWARD; k++) {
        if (backward[k].run != NULL && is_wanted(l->program, op, &backward[k])) {
            halo_lower(l, i, 1 + k, &backward[k]);
        }
    }
    params_written(l, op);
    struct step join = {.kind = STEP_KIND_JOIN, .op = i, .backward = true};
    for (int k = 0; k < OP_N_IN; k++) {
        struct step_operand fresh = {.role = OP_ROLE_GRAD_IN_0 + k, .running = true};
        if (lowering_grad_in(l, &join, k, &fresh) && fresh.array == STEP_ARRAY_FRESH) {
            const struct step_operand grad = {.array = STEP_ARRAY_GRAD,
                                              .role = OP_ROLE_IN_0 + k,
                                              .access = STEP_ACCESS_UPDATE,
                                              .index = op->in[k],
                                              .hop = fresh.hop,
                                              .running = true};
            lowering_operand(&join, &fresh);
            lowering_operand(&join, &grad);
        }
    }
    if (join.n_operand > 0) {
        step_append(l->list, &join);
    }
}

/* --- the order of backward --- */

/* The op that made the value is ready when all its users have added to its gradient. */
static void ready_add(struct lowering *l, int value)
{
    int maker = l->maker[value];
    if (maker >= 0 && l->n_reader[value] == 0 && l->program->value[l->program->op[maker].out].needs_grad) {
        l->ready[l->n_ready++] = maker;
    }
}

/* Of the ops that could come next: one that needs no memory; then an aggregate, whose passes need the most and should
 * end before other gradients begin; among several the last. The order depends only on the program, since it shows in
 * the bits. */
static int op_next(struct lowering *l)
{
    int best = 0, best_rank = -1;
    for (int r = 0; r < l->n_ready; r++) {
        const struct op *op = &l->program->op[l->ready[r]];
        int rank = op_defs[op->kind]->in_place ? 2 : op->kind == OP_KIND_AGGREGATE ? 1 : 0;
        if (rank > best_rank || (rank == best_rank && l->ready[r] > l->ready[best])) {
            best = r;
            best_rank = rank;
        }
    }
    int op = l->ready[best];
    l->ready[best] = l->ready[--l->n_ready];
    return op;
}

static void backward_lower(struct lowering *l)
{
    const struct program *program = l->program;
    for (int v = 0; v < program->n_value; v++) {
        l->maker[v] = -1;
    }
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        l->maker[op->out] = i;
        for (int k = 0; k < OP_N_IN; k++) {
            if (op->in[k] >= 0 && program->value[op->out].needs_grad) {
                l->n_reader[op->in[k]]++;
            }
        }
    }
    l->written[program->logits] = true;
    ready_add(l, program->logits);
    while (l->n_ready > 0) {
        int i = op_next(l);
        const struct op *op = &program->op[i];
        (op->kind == OP_KIND_AGGREGATE ? aggregate_backward_lower : dense_backward_lower)(l, i);
        for (int k = 0; k < OP_N_IN; k++) {
            if (op->in[k] >= 0) {
                l->written[op->in[k]] = true;
                l->n_reader[op->in[k]]--;
                ready_add(l, op->in[k]);
            }
        }
    }
}

/* --- phases --- */

static void loss_lower(struct lowering *l, enum step_kind kind)
{
    const struct program *program = l->program;
    int logits = program->logits;
    struct step step = {.kind = kind, .op = -1};
    const struct step_operand all[] = {
        {.array = STEP_ARRAY_VALUE, .role = OP_ROLE_IN_0, .index = logits, .hop = PROGRAM_HOP_ALL, .running = true},
        {.array = STEP_ARRAY_LABELS, .element = STEP_ELEMENT_BYTES, .role = OP_ROLE_LABELS, .running = true},
        {.array = STEP_ARRAY_WORKSPACE,
         .element = STEP_ELEMENT_BYTES,
         .role = OP_ROLE_WORKSPACE,
         .access = STEP_ACCESS_WRITE,
         .index = -1,
         .running = true},
        {.array = STEP_ARRAY_SUM,
         .element = STEP_ELEMENT_FLOAT64,
         .role = OP_ROLE_SUM,
         .access = STEP_ACCESS_WRITE,
         .index = -1,
         .running = true},
        {.array = STEP_ARRAY_GRAD,
         .role = OP_ROLE_GRAD_IN_0,
         .access = STEP_ACCESS_WRITE,
         .index = logits,
         .hop = program->value[logits].hop,
         .running = true},
    };
    int n = sizeof all / sizeof *all - (kind == STEP_KIND_SCORE ? 1 : 0);
    for (int k = 0; k < n; k++) {
        lowering_operand(&step, &all[k]);
    }
    if (kind == STEP_KIND_SCORE && program->kept >= 0 && program->kept != logits) { /* it also stays until the end */
        const struct step_operand kept = {.array = STEP_ARRAY_VALUE,
                                          .role = OP_ROLE_IN_1,
                                          .index = program->kept,
                                          .hop = PROGRAM_HOP_ALL,
                                          .running = true};
        lowering_operand(&step, &kept);
    }
    if (program->labels >= 0) {
        const struct step_operand node = {
            .array = STEP_ARRAY_NODE, .element = STEP_ELEMENT_BYTES, .role = OP_ROLE_NODE, .running = true};
        const struct step_operand drawn = {.array = STEP_ARRAY_STATISTICS,
                                           .element = STEP_ELEMENT_FLOAT64,
                                           .role = OP_ROLE_STATISTICS,
                                           .index = program->labels,
                                           .running = true};
        lowering_operand(&step, &node);
        lowering_operand(&step, &drawn);
    }
    step_append(l->list, &step);
}

/* Sums over parts; with the gradients of all parameters, which then step. */
static void end_lower(struct lowering *l, bool trains)
{
    const struct step_operand sum = {.array = STEP_ARRAY_SUM,
                                     .element = STEP_ELEMENT_FLOAT64,
                                     .role = OP_ROLE_SUM,
                                     .access = STEP_ACCESS_UPDATE,
                                     .index = -1};
    struct step_operand grad = {
        .array = STEP_ARRAY_GRAD_PARAMETER, .role = OP_ROLE_GRAD_PARAM_0, .access = STEP_ACCESS_UPDATE, .index = -1};
    const struct step_operand param = {
        .array = STEP_ARRAY_PARAMETER, .role = OP_ROLE_PARAM_0, .access = STEP_ACCESS_UPDATE, .index = -1};
    struct step reduce = {.kind = STEP_KIND_REDUCE, .op = -1}, update = {.kind = STEP_KIND_UPDATE, .op = -1};
    lowering_operand(&reduce, &sum);
    if (trains) {
        lowering_operand(&reduce, &grad);
    }
    step_append(l->list, &reduce);
    if (trains) {
        grad.access = STEP_ACCESS_READ;
        lowering_operand(&update, &param);
        lowering_operand(&update, &grad);
        step_append(l->list, &update);
    }
}

void step_lists_lower(const struct program *program, struct step_lists *out)
{
    size_t n_value = (size_t)program->n_value;
    struct lowering l = {.program = program,
                         .written = memory_alloc(n_value, sizeof *l.written),
                         .param_written = memory_alloc((size_t)program->n_param, sizeof *l.param_written),
                         .n_reader = memory_alloc(n_value, sizeof *l.n_reader),
                         .maker = memory_alloc(n_value, sizeof *l.maker),
                         .ready = memory_alloc((size_t)program->n_op, sizeof *l.ready)};
    *out = (struct step_lists){0};
    l.list = &out->phase[STEP_PHASE_STATIC];
    forward_lower(&l, true, true);
    l.list = &out->phase[STEP_PHASE_TRAIN];
    l.lossy = program_is_lossy(program);
    if (!program->forward_only) {
        forward_lower(&l, false, false);
        loss_lower(&l, STEP_KIND_LOSS);
        backward_lower(&l);
        end_lower(&l, true);
    }
    l.list = &out->phase[STEP_PHASE_EVALUATE];
    l.lossy = false;
    forward_lower(&l, false, true);
    loss_lower(&l, STEP_KIND_SCORE);
    end_lower(&l, false);
    step_lists_finish(program, out);
    free(l.written);
    free(l.param_written);
    free(l.n_reader);
    free(l.maker);
    free(l.ready);
}
