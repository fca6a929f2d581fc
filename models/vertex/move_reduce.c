/* Reductions by their terms and without factors: sums and means of terms that aggregates sum, and of what all edges
 * of a node have in common; maxima and minima through functions that do not decrease. */
#include "models/vertex/move_state.h"

static struct vertex_op node_op(enum vertex_op_kind kind, const struct vertex_op *like, int32_t a, int32_t b)
{
    return move_op(kind, VERTEX_PLACE_NODE, like, a, b);
}

int32_t move_number(struct moving *m, const struct vertex_op *like, double value)
{
    struct vertex_op op = move_op(VERTEX_OP_NUMBER, VERTEX_PLACE_WEIGHT, like, -1, -1);
    op.shape = (struct vertex_shape){1, {1}};
    op.number[0] = value;
    return move_append(m, op);
}

int32_t move_degree(struct moving *m, const struct vertex_op *like)
{
    struct vertex_op op = node_op(VERTEX_OP_DEGREE, like, -1, -1);
    op.shape = (struct vertex_shape){1, {1}};
    return move_append(m, op);
}

/* x where the node has in-edges, else 0 */
static int32_t gated(struct moving *m, int32_t x)
{
    const struct vertex_op like = *move_at(m, x);
    return move_append(m, node_op(VERTEX_OP_GATE, &like, x, move_degree(m, &like)));
}

/* --- sums and means --- */

/* A row of the source, or times its edge's weight or norm: an aggregate sums it. */
static bool is_plain(const struct moving *m, int32_t op)
{
    const struct vertex_op *of = move_at(m, op);
    for (int k = 0; k < 2 && of->kind == VERTEX_OP_MULTIPLY; k++) {
        enum vertex_op_kind factor = move_at(m, of->in[k])->kind;
        if (factor == VERTEX_OP_EDGE_WEIGHT || factor == VERTEX_OP_EDGE_NORM) {
            return move_at(m, of->in[1 - k])->kind == VERTEX_OP_SOURCE;
        }
    }
    return of->kind == VERTEX_OP_SOURCE;
}

/* The same for all edges of a node: its row as the destination, a weight, a number. */
static bool is_common(const struct moving *m, int32_t op)
{
    return move_at(m, op)->kind == VERTEX_OP_TARGET || move_at(m, op)->place == VERTEX_PLACE_WEIGHT;
}

/* That row at nodes. */
static int32_t common(const struct moving *m, int32_t op)
{
    return move_at(m, op)->kind == VERTEX_OP_TARGET ? move_at(m, op)->in[0] : op;
}

/* The operands that a sum or mean is taken of instead of their row: the terms of a sum, what a common factor
 * multiplies. */
static void terms_of(const struct moving *m, const struct vertex_op *row, bool takes[2])
{
    const bool sums = row->kind == VERTEX_OP_ADD || row->kind == VERTEX_OP_SUBTRACT;
    const bool over = row->kind == VERTEX_OP_DIVIDE, times = row->kind == VERTEX_OP_MULTIPLY;
    const int32_t a = row->in[0], b = row->in[1];
    takes[0] = takes[1] = false;
    if (sums && move_at(m, a)->place == VERTEX_PLACE_EDGE && move_at(m, b)->place == VERTEX_PLACE_EDGE) {
        bool pays = is_plain(m, a) || is_plain(m, b) || is_common(m, a) || is_common(m, b);
        takes[0] = takes[1] = pays && vertex_shape_equal(&move_at(m, a)->shape, &move_at(m, b)->shape);
    } else if ((over && move_at(m, b)->kind == VERTEX_OP_NUMBER) || (times && is_common(m, b))) {
        takes[0] = move_at(m, a)->place == VERTEX_PLACE_EDGE;
    } else if (times && is_common(m, a)) {
        takes[1] = move_at(m, b)->place == VERTEX_PLACE_EDGE;
    }
}

static int32_t summed(struct moving *m, struct vertex_op reduce)
{
    struct vertex_op out = *move_at(m, reduce.in[0]);
    bool takes[2];
    if (out.kind == VERTEX_OP_TARGET) {
        return reduce.kind == VERTEX_OP_MEAN
                   ? gated(m, out.in[0])
                   : move_append(m, node_op(VERTEX_OP_MULTIPLY, &out, out.in[0], move_degree(m, &out)));
    }
    terms_of(m, &out, takes);
    if (!takes[0] && !takes[1]) {
        return move_append(m, reduce);
    }
    out.place = VERTEX_PLACE_NODE;
    for (int k = 0; k < 2; k++) {
        struct vertex_op term = reduce;
        term.in[0] = out.in[k];
        term.shape = move_at(m, out.in[k])->shape;
        out.in[k] = takes[k] ? move_reduced(m, term) : common(m, out.in[k]);
    }
    return move_append(m, out);
}

/* --- maxima and minima --- */

/* Does it not decrease? keeps: and is it 0 at 0, what a node without in-edges has. */
static bool is_monotone(const struct vertex_op *f, bool *keeps)
{
    switch (f->kind) {
    case VERTEX_OP_RELU:
    case VERTEX_OP_ELU:
    case VERTEX_OP_TANH:
        *keeps = true;
        return true;
    case VERTEX_OP_LEAKY_RELU:
        *keeps = true;
        return f->number[0] >= 0.0;
    case VERTEX_OP_SIGMOID:
    case VERTEX_OP_SOFTPLUS:
    case VERTEX_OP_EXP:
        *keeps = false;
        return true;
    case VERTEX_OP_CLAMP:
        *keeps = f->number[0] <= 0.0 && f->number[1] >= 0.0;
        return true;
    default:
        return false;
    }
}

/* The greatest or least of a row, where a node has in-edges; *keeps: else 0, too. */
static int32_t best(struct moving *m, struct vertex_op reduce, bool *keeps)
{
    const struct vertex_op row = *move_at(m, reduce.in[0]);
    struct vertex_op out = node_op(row.kind, &row, row.in[0], row.in[1]);
    bool zero = true, adds = row.kind == VERTEX_OP_ADD, minus = row.kind == VERTEX_OP_SUBTRACT;
    out.number[0] = row.number[0];
    out.number[1] = row.number[1];
    int k = -1; /* the operand that it is taken of */
    *keeps = true;
    if (is_monotone(&row, &zero)) {
        k = 0;
    } else if (adds || minus) {
        k = is_common(m, row.in[1]) ? 0 : is_common(m, row.in[0]) ? 1 : -1;
        zero = false;
    } else if (row.kind == VERTEX_OP_MULTIPLY) {
        for (int i = 0; i < 2; i++) {
            const struct vertex_op *factor = move_at(m, row.in[i]);
            k = factor->kind == VERTEX_OP_NUMBER && factor->number[0] > 0.0 ? 1 - i : k;
        }
    }
    if (k < 0 || move_at(m, row.in[k])->place != VERTEX_PLACE_EDGE) {
        return move_append(m, reduce);
    }
    struct vertex_op term = reduce;
    term.in[0] = row.in[k];
    term.shape = move_at(m, row.in[k])->shape;
    if (minus && k == 1) {
        term.kind = reduce.kind == VERTEX_OP_MAX ? VERTEX_OP_MIN : VERTEX_OP_MAX;
    }
    out.in[k] = best(m, term, keeps);
    out.in[1 - k] = row.in[1 - k] >= 0 ? common(m, row.in[1 - k]) : -1;
    *keeps = *keeps && zero;
    return move_append(m, out);
}

static int32_t bested(struct moving *m, struct vertex_op reduce)
{
    bool keeps;
    int32_t out = best(m, reduce, &keeps);
    return keeps ? out : gated(m, out);
}

/* --- var, std --- */

static int32_t edge_op(struct moving *m, enum vertex_op_kind kind, const struct vertex_op *like, int32_t a, int32_t b,
                       double value)
{
    struct vertex_op op = move_op(kind, VERTEX_PLACE_EDGE, like, a, b);
    op.number[0] = value;
    return move_append(m, op);
}

/* var: the mean of (m - mean(m))²; std: its root, and 0 where var is 1e-5 at most, as PyTorch Geometric has it */
int32_t move_variance(struct moving *m, struct vertex_op reduce)
{
    const struct vertex_op row = *move_at(m, reduce.in[0]);
    struct vertex_op mean = reduce, squares = reduce;
    mean.kind = squares.kind = VERTEX_OP_MEAN;
    int32_t middle = m->moves ? move_reduced(m, mean) : move_append(m, mean);
    int32_t distance = edge_op(m, VERTEX_OP_SUBTRACT, &row, reduce.in[0],
                               edge_op(m, VERTEX_OP_TARGET, &row, middle, -1, 0.0), 0.0);
    squares.in[0] = edge_op(m, VERTEX_OP_POWER, &row, distance, -1, 2.0);
    int32_t var = move_append(m, squares);
    if (reduce.kind == VERTEX_OP_VAR) {
        return var;
    }
    struct vertex_op least = node_op(VERTEX_OP_MAXIMUM, &row, var, move_number(m, &row, 1e-5));
    struct vertex_op root = node_op(VERTEX_OP_SQRT, &row, move_append(m, least), -1);
    struct vertex_op over = node_op(VERTEX_OP_SUBTRACT, &row, var, move_number(m, &row, 1e-5));
    int32_t std = move_append(m, root);
    return move_append(m, node_op(VERTEX_OP_GATE, &row, std, move_append(m, over)));
}

int32_t move_reduced(struct moving *m, struct vertex_op reduce)
{
    int k = reduce.kind - VERTEX_OP_SUM; /* SUM, MEAN, MAX, MIN */
    if (reduce.relation >= 0) {
        return move_append(m, reduce);
    }
    if (k >= MOVE_N_MADE) {
        return move_variance(m, reduce);
    }
    int32_t *made = &m->made[k][reduce.in[0]];
    if (*made == 0) {
        *made = k < 2 ? summed(m, reduce) : bested(m, reduce);
    }
    return *made;
}
