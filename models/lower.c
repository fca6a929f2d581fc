/* From a program to lists of steps: which steps there are, in which order, and what each touches. */
#include "models/step.h"

#include "protocol/log.h"
#include "protocol/memory.h"

#include <stdlib.h>

struct lowering {
    const struct program *program;
    struct step_lists *out;
    struct step_list *list; /* being written */
    bool *written;          /* n_value: its gradient is there */
    int *n_reader;          /* n_value: ops that have yet to add to its gradient */
    int *maker;             /* n_value: the op that makes it; -1: the features */
    int n_ready;
    int *ready; /* n_op: ops whose output's gradient is complete */
};

/* --- operands --- */

/* Add an operand; of a role that is there already, the two uses together. */
static void operand_add(struct step *step, const struct step_operand *operand)
{
    for (int k = 0; k < step->n_operand; k++) {
        struct step_operand *there = &step->operand[k];
        if (there->role == operand->role && there->array == operand->array && there->index == operand->index) {
            there->access = there->access == operand->access ? there->access : STEP_ACCESS_UPDATE;
            there->packing = there->packing || operand->packing;
            there->running = there->running || operand->running;
            return;
        }
    }
    ASSERT(step->n_operand < STEP_N_OPERAND);
    step->operand[step->n_operand++] = *operand;
}

static void value_operand(int value, struct step_operand *out)
{
    out->array = STEP_ARRAY_VALUE;
    out->index = value;
    out->hop = PROGRAM_HOP_ALL; /* evaluations use the same arrays, of all rows */
}

static bool is_among(enum op_role role, enum op_role first, int n)
{
    return role >= first && (int)role < (int)first + n;
}

/* Is the gradient of in[k] there already, from ops before or from an input before it that is the same value? */
static bool grad_is_written(const struct lowering *l, const struct op *op, int k)
{
    for (int j = 0; j < k; j++) {
        if (op->in[j] == op->in[k]) {
            return true;
        }
    }
    return l->written[op->in[k]];
}

/* The gradient of in[k], where it is wanted: a fresh one where an aggregate finds one that it cannot add to. */
static bool grad_in_operand(const struct lowering *l, const struct step *step, int k, struct step_operand *out)
{
    const struct op *op = &l->program->op[step->op];
    int in = op->in[k];
    if (in < 0 || !l->program->value[in].needs_grad) {
        return false;
    }
    out->hop = l->program->value[in].hop;
    if (op->kind == OP_KIND_AGGREGATE && grad_is_written(l, op, k)) {
        out->array = STEP_ARRAY_FRESH;
        out->index = step->op;
        out->k = k;
        return true;
    }
    out->array = STEP_ARRAY_GRAD;
    out->index = in;
    if (out->access == STEP_ACCESS_WRITE && grad_is_written(l, op, k)) {
        out->access = STEP_ACCESS_UPDATE;
    }
    return true;
}

static bool param_operand(const struct program *program, const struct op *op, enum op_role role, struct step_operand *out)
{
    bool state = is_among(role, OP_ROLE_STATE_0, OP_N_PARAM), grad = is_among(role, OP_ROLE_GRAD_PARAM_0, OP_N_PARAM);
    int param = state  ? op->state[role - OP_ROLE_STATE_0]
                : grad ? op->param[role - OP_ROLE_GRAD_PARAM_0]
                       : op->param[role - OP_ROLE_PARAM_0];
    if (param < 0 || (grad && !program->param[param].trains)) {
        return false;
    }
    out->array = grad ? STEP_ARRAY_GRAD_PARAMETER : STEP_ARRAY_PARAMETER;
    out->index = param;
    return true;
}

/* Embeddings lie beside the weight that a linear map multiplies the sparse features with. */
static bool embedding_operand(const struct program *program, const struct op *op, bool grad, struct step_operand *out)
{
    int param = op->param[0];
    if (op->kind != OP_KIND_LINEAR || program->param[param].embedding_at < 0 || (grad && !program->param[param].trains)) {
        return false;
    }
    out->array = grad ? STEP_ARRAY_GRAD_EMBEDDING : STEP_ARRAY_EMBEDDING;
    out->index = param;
    return true;
}

static bool structure_operand(const struct op *op, enum op_role role, struct step_operand *out)
{
    static const enum step_array arrays[OP_ROLE_N] = {
        [OP_ROLE_NODE] = STEP_ARRAY_NODE, [OP_ROLE_LABELS] = STEP_ARRAY_LABELS, [OP_ROLE_SCALE] = STEP_ARRAY_SCALE};
    out->array = arrays[role];
    out->element = STEP_ELEMENT_BYTES;
    bool drawn = op->dropout > 0.0 || op->kind == OP_KIND_AGGREGATE;
    return role != OP_ROLE_NODE || drawn;
}

/* The array that plays a role for the step's op. false: the op has none. */
static bool operand_find(const struct lowering *l, const struct step *step, enum op_role role, struct step_operand *out)
{
    const struct program *program = l->program;
    const struct op *op = &program->op[step->op];
    if (is_among(role, OP_ROLE_IN_0, OP_N_IN)) {
        int in = op->in[role - OP_ROLE_IN_0];
        value_operand(in, out);
        return in >= 0;
    }
    if (is_among(role, OP_ROLE_SAVED_0, OP_N_SAVED)) {
        out->array = STEP_ARRAY_SAVED;
        out->index = step->op;
        out->k = (int)role - OP_ROLE_SAVED_0;
        out->hop = PROGRAM_HOP_ALL;
        return op_saved_width(program, op, out->k) > 0;
    }
    if (is_among(role, OP_ROLE_GRAD_IN_0, OP_N_IN)) {
        return grad_in_operand(l, step, (int)role - OP_ROLE_GRAD_IN_0, out);
    }
    if (is_among(role, OP_ROLE_PARAM_0, 3 * OP_N_PARAM)) {
        return param_operand(program, op, role, out);
    }
    switch (role) {
    case OP_ROLE_OUT:
        value_operand(op->out, out);
        return true;
    case OP_ROLE_GRAD_OUT:
        out->array = STEP_ARRAY_GRAD;
        out->index = op->out;
        out->hop = program->value[op->out].hop;
        return program->value[op->out].needs_grad;
    case OP_ROLE_EMBEDDING:
    case OP_ROLE_GRAD_EMBEDDING:
        return embedding_operand(program, op, role == OP_ROLE_GRAD_EMBEDDING, out);
    case OP_ROLE_STATISTICS:
    case OP_ROLE_SUM:
        out->array = role == OP_ROLE_SUM ? STEP_ARRAY_SUM : STEP_ARRAY_STATISTICS;
        out->element = STEP_ELEMENT_FLOAT64;
        out->index = step->op;
        return true;
    case OP_ROLE_WORKSPACE:
        out->array = STEP_ARRAY_WORKSPACE;
        out->element = STEP_ELEMENT_BYTES;
        out->index = step->op;
        out->k = step->backward;
        return op->kind == OP_KIND_AGGREGATE || op_defs[op->kind]->workspace != NULL; /* of payloads, or scratch */
    default:
        return structure_operand(op, role, out);
    }
}

struct use {
    enum step_access access;
    bool packing, running;
};

static void role_add(const struct lowering *l, struct step *step, enum op_role role, struct use use)
{
    struct step_operand operand = {
        .role = role, .access = use.access, .packing = use.packing, .running = use.running, .hop = PROGRAM_HOP_ALL};
    if (!operand_find(l, step, role, &operand)) {
        return;
    }
    operand_add(step, &operand);
    bool value = operand.array == STEP_ARRAY_VALUE;
    if (value && l->program->value[operand.index].is_sparse) {
        const struct step_operand csr = {
            .array = STEP_ARRAY_CSR, .element = STEP_ELEMENT_BYTES, .role = OP_ROLE_CSR, .running = use.running};
        operand_add(step, &csr);
    }
}

/* Sets of roles while the step runs on a part: what is in both is updated. */
static void roles_add(const struct lowering *l, struct step *step, op_roles reads, op_roles writes)
{
    for (int role = 0; role < OP_ROLE_N; role++) {
        bool read = reads >> role & 1, write = writes >> role & 1;
        if (read || write) {
            struct use use = {.access = !write ? STEP_ACCESS_READ
                                        : read ? STEP_ACCESS_UPDATE
                                               : STEP_ACCESS_WRITE,
                              .running = true};
            role_add(l, step, (enum op_role)role, use);
        }
    }
}

/* --- steps of one op --- */

static void op_forward(const struct lowering *l, int op, bool recomputed, struct step *out)
{
    const struct op_def *def = op_defs[l->program->op[op].kind];
    *out = (struct step){.kind = STEP_KIND_FORWARD, .op = op, .recomputed = recomputed};
    roles_add(l, out, OP_ROLES_IN | OP_ROLES_PARAM | OP_ROLES(EMBEDDING) | def->also_reads,
              OP_ROLES(OUT) | OP_ROLES_SAVED | OP_ROLES(WORKSPACE));
}

void step_forward(const struct program *program, int op, struct step *out)
{
    const struct lowering l = {.program = program};
    op_forward(&l, op, true, out);
}

/* What all parts' rows say, before a global op runs on each. `sums`: of each part; an evaluation has none. */
static void global_lower(struct lowering *l, int op, bool backward, bool sums)
{
    const struct global_def *global = op_defs[l->program->op[op].kind]->global;
    if (global == NULL) {
        return;
    }
    const struct global_pass *pass = backward ? &global->backward : &global->forward;
    if (sums) {
        struct step partial = {.kind = STEP_KIND_PARTIAL, .op = op, .backward = backward};
        roles_add(l, &partial, pass->partial_access.reads, pass->partial_access.writes | OP_ROLES(SUM));
        step_append(l->list, &partial);
    }
    struct step total = {.kind = STEP_KIND_TOTAL, .op = op, .backward = backward};
    op_roles statistics = OP_ROLES(STATISTICS), changes = pass->total_changes;
    roles_add(l, &total, changes | (backward ? statistics : 0) | (sums ? OP_ROLES(SUM) : 0),
              statistics | (sums ? changes | OP_ROLES(SUM) : 0));
    step_append(l->list, &total);
}

static int block_direction(const struct halo_pass *pass)
{
    return pass->direction == HALO_DIRECTION_OUT;
}

static void structure_add(struct step *step, enum step_array array, int direction, int32_t hop, struct use use)
{
    const struct step_operand operand = {.array = array,
                                         .element = STEP_ELEMENT_BYTES,
                                         .role = array == STEP_ARRAY_BLOCKS ? OP_ROLE_BLOCKS : OP_ROLE_SENDING,
                                         .index = direction,
                                         .hop = hop,
                                         .packing = use.packing,
                                         .running = use.running};
    operand_add(step, &operand);
}

/* Own rows travel and are read on the diagonal; payloads are packed from the rows that others take. */
static void halo_lower(struct lowering *l, int op, int pass, const struct halo_pass *halo)
{
    const struct op *what = &l->program->op[op];
    int32_t hop = l->program->value[what->out].hop;
    struct step step = {.kind = STEP_KIND_HALO, .op = op, .backward = pass > 0, .pass = pass, .halo = halo};
    for (int k = 0; k < halo->n_piece; k++) {
        role_add(l, &step, halo->piece[k], (struct use){.packing = true, .running = true});
    }
    op_roles scale = aggregate_defs[what->aggregate]->scale != NULL ? OP_ROLES(SCALE) : 0;
    roles_add(l, &step, halo->access.reads | OP_ROLES(NODE) | scale, halo->access.writes);
    bool returns = halo->direction == HALO_DIRECTION_RETURN;
    for (int role = 0; role < OP_ROLE_N; role++) {
        if (halo->pack_reads >> role & 1) {
            role_add(l, &step, (enum op_role)role, (struct use){.packing = true, .running = true}); /* to itself, too */
        }
    }
    structure_add(&step, STEP_ARRAY_BLOCKS, block_direction(halo), hop, (struct use){.packing = returns, .running = true});
    structure_add(&step, STEP_ARRAY_SENDING, block_direction(halo), hop, (struct use){.packing = !returns, .running = returns});
    role_add(l, &step, OP_ROLE_WORKSPACE, (struct use){.access = STEP_ACCESS_WRITE});
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
        global_lower(l, i, false, !evaluates && !is_static);
        struct step step;
        op_forward(l, i, false, &step);
        step_append(l->list, &step);
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
    roles_add(l, &step, saved & OP_ROLES(OUT), 0);
    roles_add(l, &step, (saved & OP_ROLES_IN) | reads, writes);
    step_append(l->list, &step);
}

/* What own rows alone say, the passes, and where fresh gradients join others. */
static void aggregate_backward_lower(struct lowering *l, int i)
{
    const struct op *op = &l->program->op[i];
    const struct aggregate_def *def = aggregate_defs[op->aggregate];
    if (def->backward_begin != NULL) {
        struct step begin = {.kind = STEP_KIND_BEGIN, .op = i, .backward = true};
        roles_add(l, &begin, def->begin_access.reads, def->begin_access.writes);
        step_append(l->list, &begin);
    }
    for (int k = 0; k < OP_N_BACKWARD; k++) {
        if (def->backward[k].run != NULL) {
            halo_lower(l, i, 1 + k, &def->backward[k]);
        }
    }
    struct step join = {.kind = STEP_KIND_JOIN, .op = i, .backward = true};
    for (int k = 0; k < OP_N_IN; k++) {
        struct step_operand fresh = {.role = OP_ROLE_GRAD_IN_0 + k, .running = true};
        if (grad_in_operand(l, &join, k, &fresh) && fresh.array == STEP_ARRAY_FRESH) {
            const struct step_operand grad = {.array = STEP_ARRAY_GRAD,
                                              .role = OP_ROLE_IN_0 + k,
                                              .access = STEP_ACCESS_UPDATE,
                                              .index = op->in[k],
                                              .hop = fresh.hop,
                                              .running = true};
            operand_add(&join, &fresh);
            operand_add(&join, &grad);
        }
    }
    if (join.n_operand > 0) {
        step_append(l->list, &join);
    }
}

/* --- the order of backward --- */

/* The op that made the value is ready when all that add to its gradient have done so. */
static void ready_add(struct lowering *l, int value)
{
    int maker = l->maker[value];
    if (maker >= 0 && l->n_reader[value] == 0 && l->program->value[l->program->op[maker].out].needs_grad) {
        l->ready[l->n_ready++] = maker;
    }
}

/* Of the ops that could come next: one that takes no memory, then an aggregate, whose passes need most of it and are best over
 * before other gradients begin; of several the last. The order is the program's alone: it shows in the bits. */
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
        operand_add(&step, &all[k]);
    }
    if (program->labels >= 0) {
        const struct step_operand node = {
            .array = STEP_ARRAY_NODE, .element = STEP_ELEMENT_BYTES, .role = OP_ROLE_NODE, .running = true};
        const struct step_operand drawn = {.array = STEP_ARRAY_STATISTICS,
                                           .element = STEP_ELEMENT_FLOAT64,
                                           .role = OP_ROLE_STATISTICS,
                                           .index = program->labels,
                                           .running = true};
        operand_add(&step, &node);
        operand_add(&step, &drawn);
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
    operand_add(&reduce, &sum);
    if (trains) {
        operand_add(&reduce, &grad);
    }
    step_append(l->list, &reduce);
    if (trains) {
        grad.access = STEP_ACCESS_READ;
        operand_add(&update, &param);
        operand_add(&update, &grad);
        step_append(l->list, &update);
    }
}

void step_lists_lower(const struct program *program, struct step_lists *out)
{
    size_t n_value = (size_t)program->n_value;
    struct lowering l = {.program = program,
                         .out = out,
                         .written = memory_alloc(n_value, sizeof *l.written),
                         .n_reader = memory_alloc(n_value, sizeof *l.n_reader),
                         .maker = memory_alloc(n_value, sizeof *l.maker),
                         .ready = memory_alloc((size_t)program->n_op, sizeof *l.ready)};
    *out = (struct step_lists){0};
    l.list = &out->phase[STEP_PHASE_STATIC];
    forward_lower(&l, true, true);
    l.list = &out->phase[STEP_PHASE_TRAIN];
    forward_lower(&l, false, false);
    loss_lower(&l, STEP_KIND_LOSS);
    backward_lower(&l);
    end_lower(&l, true);
    l.list = &out->phase[STEP_PHASE_EVALUATE];
    forward_lower(&l, false, true);
    loss_lower(&l, STEP_KIND_SCORE);
    end_lower(&l, false);
    step_lists_time(out);
    free(l.written);
    free(l.n_reader);
    free(l.maker);
    free(l.ready);
}
