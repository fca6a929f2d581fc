#include "worker/plan/uses.h"

#include "protocol/log.h"

static void use_add(struct uses *uses, enum use_kind kind, int index, int k, enum spill_access access)
{
    ASSERT(uses->n < USES_MOST);
    uses->use[uses->n++] = (struct use){.kind = kind, .index = index, .k = k, .access = access};
}

static void use_value(const struct program *program, struct uses *uses, int value, enum spill_access access)
{
    if (value < 0) {
        return;
    }
    use_add(uses, USE_VALUE, value, 0, access);
    if (program->value[value].is_sparse) {
        use_add(uses, USE_CSR, 0, 0, SPILL_READ);
    }
}

static void use_inputs(const struct program *program, struct uses *uses, const struct op *op)
{
    for (int k = 0; k < OP_N_IN; k++) {
        use_value(program, uses, op->in[k], SPILL_READ);
    }
}

/* The first n kept arrays. */
static void use_kept(const struct memory_plan *plan, struct uses *uses, int op, int n, enum spill_access access)
{
    for (int k = 0; k < n; k++) {
        if (plan->kept_at[op][k] >= 0) {
            use_add(uses, USE_KEPT, op, k, access);
        }
    }
}

static void use_grad(const struct program *program, struct uses *uses, int value, enum spill_access access)
{
    if (program->value[value].needs_grad) {
        use_add(uses, USE_GRAD, value, 0, access);
    }
}

static bool has_begin(const struct op *op)
{
    return op->kind == OP_KIND_AGGREGATE && aggregate_defs[op->aggregate].backward_begin != NULL;
}

/* What backward reads of the inputs, and of the output. */
static void use_saved(const struct program *program, struct uses *uses, const struct op *op, bool in, bool out)
{
    for (int k = 0; in && k < OP_N_IN; k++) {
        if (op->in[k] >= 0 && op_keeps_in(program, op, k)) {
            use_value(program, uses, op->in[k], SPILL_READ);
        }
    }
    if (out && op_keeps_out(program, op)) {
        use_value(program, uses, op->out, SPILL_READ);
    }
}

static void use_gradients_in(const struct program *program, const struct memory_plan *plan, struct uses *uses, int index,
                             const bool *only, enum spill_access access)
{
    const struct op *op = &program->op[index];
    for (int k = 0; k < OP_N_IN; k++) {
        if (op->in[k] < 0 || !program->value[op->in[k]].needs_grad || (only != NULL && !only[k])) {
            continue;
        }
        if (plan->temp_at[index][k] >= 0) {
            use_add(uses, USE_TEMP, index, k, access);
        } else {
            use_add(uses, USE_GRAD, op->in[k], 0, access);
        }
    }
}

/* --- dense and global ops --- */

static void use_room(const struct memory_plan *plan, struct uses *uses, int op, enum memory_room_use use)
{
    if (plan->room[op][use].at >= 0) {
        use_add(uses, USE_ROOM, op, use, SPILL_WRITE);
    }
}

/* What dropout is drawn by, and labels that go in. */
static void use_nodes(const struct op *op, struct uses *uses)
{
    bool labels = op->kind == OP_KIND_LABELS;
    if (op->dropout > 0.0 || labels) {
        use_add(uses, USE_NODES, 0, 0, SPILL_READ);
    }
    if (labels) {
        use_add(uses, USE_LABELS, 0, 0, SPILL_READ);
    }
}

static enum spill_access kept_access(const struct op *op)
{
    return op_defs[op->kind].global != NULL ? SPILL_READ : SPILL_WRITE;
}

void uses_forward(const struct program *program, const struct memory_plan *plan, int index, struct uses *out)
{
    const struct op *op = &program->op[index];
    out->n = 0;
    use_inputs(program, out, op);
    use_value(program, out, op->out, SPILL_WRITE);
    use_kept(plan, out, index, AGGREGATE_N_KEPT, kept_access(op));
    use_room(plan, out, index, MEMORY_ROOM_FORWARD);
    use_nodes(op, out);
}

void uses_backward(const struct program *program, const struct memory_plan *plan, int index, const bool *add, struct uses *out)
{
    const struct op *op = &program->op[index];
    out->n = 0;
    use_saved(program, out, op, true, true);
    use_kept(plan, out, index, AGGREGATE_N_KEPT, SPILL_READ);
    use_grad(program, out, op->out, SPILL_READ);
    for (int k = 0; k < OP_N_IN; k++) {
        if (op->in[k] >= 0) {
            use_grad(program, out, op->in[k], add != NULL && !add[k] ? SPILL_WRITE : SPILL_UPDATE);
        }
    }
    use_room(plan, out, index, MEMORY_ROOM_BACKWARD);
    use_nodes(op, out);
}

void uses_partial(const struct program *program, const struct memory_plan *plan, int index, bool backward, struct uses *out)
{
    const struct op *op = &program->op[index];
    out->n = 0;
    use_inputs(program, out, op);
    use_kept(plan, out, index, AGGREGATE_N_KEPT, SPILL_READ);
    if (backward) {
        use_grad(program, out, op->out, SPILL_READ);
    }
    use_room(plan, out, index, backward ? MEMORY_ROOM_BACKWARD : MEMORY_ROOM_FORWARD);
    use_nodes(op, out);
}

void uses_whole(int op, struct uses *out)
{
    out->n = 0;
    use_add(out, USE_KEPT, op, 0, SPILL_UPDATE);
}

/* --- aggregates --- */

static int direction(const struct aggregate_round *round)
{
    return round->travel == TRAVEL_OUT ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
}

/* Own rows of the arrays that travel. */
static void use_pieces(const struct program *program, struct uses *uses, int index, const struct aggregate_round *round)
{
    const struct op *op = &program->op[index];
    for (int k = 0; k < AGGREGATE_N_PIECE; k++) {
        enum aggregate_rows piece = round->piece[k];
        if (aggregate_piece_width(program, op, piece) == 0) {
            continue;
        }
        if (piece == AGGREGATE_ROWS_GRAD_OUT) {
            use_grad(program, uses, op->out, SPILL_READ);
        } else if (piece == AGGREGATE_ROWS_KEPT_0) {
            use_add(uses, USE_KEPT, index, 0, SPILL_READ);
        } else {
            use_value(program, uses, op->in[piece - AGGREGATE_ROWS_IN_0], SPILL_READ);
        }
    }
}

void uses_round(const struct program *program, const struct memory_plan *plan, int index, const struct aggregate_round *round,
                struct uses *out)
{
    const struct op *op = &program->op[index];
    const struct aggregate_def *def = &aggregate_defs[op->aggregate];
    out->n = 0;
    use_pieces(program, out, index, round);
    if (round == &def->forward) {
        use_inputs(program, out, op);
        use_value(program, out, op->out, SPILL_WRITE);
        use_kept(plan, out, index, AGGREGATE_N_KEPT, SPILL_WRITE);
    } else {
        /* A round of several may leave a gradient to another. */
        bool overwrites = op->in[1] < 0 && op->in[2] < 0;
        use_saved(program, out, op, true, !has_begin(op));
        use_kept(plan, out, index, has_begin(op) ? def->n_kept_round : AGGREGATE_N_KEPT, SPILL_READ);
        use_grad(program, out, op->out, SPILL_READ);
        use_gradients_in(program, plan, out, index, NULL, overwrites ? SPILL_WRITE : SPILL_UPDATE);
    }
    use_add(out, USE_NODES, 0, 0, SPILL_READ);
    use_add(out, USE_BLOCKS, direction(round), program->value[op->out].level, SPILL_READ);
    use_add(out, USE_SENT, PART_DIRECTION_IN, 0, SPILL_READ);
}

void uses_pack(const struct program *program, const struct memory_plan *plan, int index, const struct aggregate_round *round,
               struct uses *out)
{
    out->n = 0;
    if (round->travel != TRAVEL_RETURN) {
        use_pieces(program, out, index, round);
        use_add(out, USE_SENT, direction(round), 0, SPILL_READ);
        return;
    }
    use_kept(plan, out, index, AGGREGATE_N_KEPT, SPILL_READ);
    use_grad(program, out, program->op[index].out, SPILL_READ);
    use_add(out, USE_BLOCKS, PART_DIRECTION_IN, program->value[program->op[index].out].level, SPILL_READ);
}

void uses_room(int op, enum memory_room_use use, struct uses *out)
{
    out->n = 0;
    use_add(out, USE_ROOM, op, use, SPILL_WRITE);
}

void uses_begin(const struct program *program, const struct memory_plan *plan, int index, struct uses *out)
{
    const struct op *op = &program->op[index];
    out->n = 0;
    use_saved(program, out, op, false, true);
    use_kept(plan, out, index, AGGREGATE_N_KEPT, SPILL_UPDATE);
    use_grad(program, out, op->out, SPILL_READ);
    use_gradients_in(program, plan, out, index, aggregate_defs[op->aggregate].begin_grad_in, SPILL_UPDATE);
}

void uses_join(const struct program *program, const struct memory_plan *plan, int index, struct uses *out)
{
    const struct op *op = &program->op[index];
    out->n = 0;
    for (int k = 0; k < OP_N_IN; k++) {
        if (op->in[k] >= 0 && plan->temp_at[index][k] >= 0) {
            use_add(out, USE_TEMP, index, k, SPILL_READ);
            use_grad(program, out, op->in[k], SPILL_UPDATE);
        }
    }
}

void uses_loss(const struct program *program, bool grad, struct uses *out)
{
    out->n = 0;
    use_value(program, out, program->logits, SPILL_READ);
    use_add(out, USE_LABELS, 0, 0, SPILL_READ);
    if (program->labels >= 0) {
        use_add(out, USE_NODES, 0, 0, SPILL_READ);
    }
    use_add(out, USE_ROOM, -1, 0, SPILL_WRITE);
    if (grad) {
        use_grad(program, out, program->logits, SPILL_WRITE);
    }
}
