#include "models/vertex/move_state.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>

/* Σ / max(1, in-edges) */
static int32_t divided(struct moving *m, struct vertex_op mean)
{
    const int32_t degree = move_degree(m, &mean), one = move_number(m, &mean, 1.0);
    struct vertex_op most = move_op(VERTEX_OP_MAXIMUM, VERTEX_PLACE_NODE, &mean, degree, one), sum = mean,
                     over = mean;
    most.shape = move_at(m, one)->shape;
    sum.kind = VERTEX_OP_SUM;
    over.kind = VERTEX_OP_DIVIDE;
    over.in[0] = move_append(m, sum);
    over.in[1] = move_append(m, most);
    return move_append(m, over);
}

int32_t move_append(struct moving *m, struct vertex_op op)
{
    if (op.kind == VERTEX_OP_MEAN && op.relation < 0 && m->divides) {
        return divided(m, op);
    }
    int32_t at = vertex_op_add(m->out, &m->same, &op);
    ASSERT(at < m->n_room);
    return at;
}

/* Does the operation give each row's result from that row, and weights? Factors that are known before training stay,
 * and leave the sum. */
static bool is_by_row(const struct moving *m, const struct vertex_op *op)
{
    const enum vertex_op_kind kind = op->kind;
    for (int k = 0; k < 2; k++) {
        bool is_number = op->in[k] >= 0 && move_at(m, op->in[k])->kind == VERTEX_OP_NUMBER;
        if (is_number && (kind == VERTEX_OP_MULTIPLY || (kind == VERTEX_OP_DIVIDE && k == 1))) {
            return false;
        }
    }
    bool reduces = kind >= VERTEX_OP_SUM, leaf = kind <= VERTEX_OP_NUMBER;
    return !reduces && !leaf && kind != VERTEX_OP_SOFTMAX && kind != VERTEX_OP_DROPOUT;
}

/* The end at which all operands of an operation of edges are, SOURCE or TARGET; N: they are not at one. */
static enum vertex_op_kind end_of(const struct moving *m, const struct vertex_op *op)
{
    enum vertex_op_kind end = VERTEX_OP_N;
    for (int k = 0; k < VERTEX_N_IN; k++) {
        if (op->in[k] < 0 || move_at(m, op->in[k])->place == VERTEX_PLACE_WEIGHT) {
            continue;
        }
        enum vertex_op_kind kind = move_at(m, op->in[k])->kind;
        bool is_end = kind == VERTEX_OP_SOURCE || kind == VERTEX_OP_TARGET;
        if (!is_end || (end != VERTEX_OP_N && end != kind)) {
            return VERTEX_OP_N;
        }
        end = kind;
    }
    return end;
}

/* f(e.src.a, …) as e.src.f(a, …) */
static int32_t to_nodes(struct moving *m, struct vertex_op op, enum vertex_op_kind end)
{
    struct vertex_op node = op;
    node.place = VERTEX_PLACE_NODE;
    for (int k = 0; k < VERTEX_N_IN; k++) {
        if (op.in[k] >= 0 && move_at(m, op.in[k])->place != VERTEX_PLACE_WEIGHT) {
            node.in[k] = move_at(m, op.in[k])->in[0];
        }
    }
    return move_append(m, move_op(end, VERTEX_PLACE_EDGE, &op, move_append(m, node), -1));
}

/* --- linear maps of what both ends have --- */

/* A linear map that is split: of `op`, from its weight's column `first` on. */
struct split {
    struct vertex_op map;
    int32_t bias;  /* waits for the first part at an end that is added; -1: it has been, or there was none */
    int n_visited; /* operations; one that is a part several times counts as often */
};

#define N_VISITED_MOST 64

/* Is some part of a row at one end? Sums and joined columns have parts. */
static bool has_end(const struct moving *m, int32_t op, int *n_visited)
{
    const struct vertex_op *of = move_at(m, op);
    if (of->kind == VERTEX_OP_SOURCE || of->kind == VERTEX_OP_TARGET) {
        return true;
    }
    bool sums = of->kind == VERTEX_OP_ADD || of->kind == VERTEX_OP_SUBTRACT;
    if (of->place != VERTEX_PLACE_EDGE || (!sums && of->kind != VERTEX_OP_CONCAT) || ++*n_visited > N_VISITED_MOST) {
        return false;
    }
    return has_end(m, of->in[0], n_visited) || has_end(m, of->in[1], n_visited);
}

/* The map of one part, which is computed where the part is. */
static int32_t part_mapped(struct moving *m, struct split *s, int32_t part, int64_t first, bool subtracts)
{
    struct vertex_op map = s->map;
    const enum vertex_op_kind kind = move_at(m, part)->kind;
    const bool is_end = kind == VERTEX_OP_SOURCE || kind == VERTEX_OP_TARGET;
    map.in[0] = part;
    map.in[2] = is_end && !subtracts ? s->bias : -1;
    map.number[0] = (double)first;
    s->bias = is_end && !subtracts ? -1 : s->bias;
    return is_end ? to_nodes(m, map, kind) : move_append(m, map);
}

/* subtracts: it is taken off, and so would be a bias. */
static int32_t row_mapped(struct moving *m, struct split *s, int32_t row, int64_t first, bool subtracts)
{
    const struct vertex_op of = *move_at(m, row);
    bool sums = of.kind == VERTEX_OP_ADD || of.kind == VERTEX_OP_SUBTRACT;
    int n_visited = 0;
    if (sums) {
        sums = vertex_shape_equal(&move_at(m, of.in[0])->shape, &of.shape) &&
               vertex_shape_equal(&move_at(m, of.in[1])->shape, &of.shape) &&
               move_at(m, of.in[0])->place == VERTEX_PLACE_EDGE && move_at(m, of.in[1])->place == VERTEX_PLACE_EDGE;
    }
    if (++s->n_visited > N_VISITED_MOST || (!sums && of.kind != VERTEX_OP_CONCAT) || of.shape.n_dim > 1 ||
        !has_end(m, row, &n_visited)) {
        return part_mapped(m, s, row, first, subtracts);
    }
    int64_t second = first + (sums ? 0 : move_at(m, of.in[0])->shape.dim[0]);
    int32_t a = row_mapped(m, s, of.in[0], first, subtracts);
    int32_t b = row_mapped(m, s, of.in[1], second, subtracts != (of.kind == VERTEX_OP_SUBTRACT));
    return move_append(m, move_op(sums ? of.kind : VERTEX_OP_ADD, VERTEX_PLACE_EDGE, &s->map, a, b));
}

/* linear(concat(e.dst.a, e.src.b - e.dst.a, …)) as the sum of its parts' products, those of nodes at nodes. */
static int32_t split_map(struct moving *m, struct vertex_op op)
{
    struct split s = {.map = op, .bias = op.in[2]};
    int32_t out = row_mapped(m, &s, op.in[0], 0, false);
    return s.bias < 0 ? out : move_append(m, move_op(VERTEX_OP_ADD, VERTEX_PLACE_EDGE, &op, out, s.bias));
}

static bool is_split(const struct moving *m, const struct vertex_op *op)
{
    bool matrix = op->kind == VERTEX_OP_PRODUCT && move_at(m, op->in[1])->kind == VERTEX_OP_PARAMETER &&
                  move_at(m, op->in[1])->shape.n_dim == 2 && op->shape.n_dim == 1;
    int n_visited = 0;
    bool has_room = m->out->n_op < MOVE_N_SPLIT; /* a text may have many maps of many parts */
    return has_room && op->place == VERTEX_PLACE_EDGE && (op->kind == VERTEX_OP_LINEAR || matrix) &&
           has_end(m, op->in[0], &n_visited);
}

static struct vertex_op with_operands(const struct moving *m, struct vertex_op op)
{
    for (int k = 0; k < VERTEX_N_IN; k++) {
        op.in[k] = op.in[k] >= 0 ? m->to[op.in[k]] : -1;
    }
    return op;
}

static int32_t copied(struct moving *m, struct vertex_op op)
{
    op = with_operands(m, op);
    return op.kind == VERTEX_OP_VAR || op.kind == VERTEX_OP_STD ? move_variance(m, op) : move_append(m, op);
}

static int32_t moved(struct moving *m, struct vertex_op op)
{
    op = with_operands(m, op);
    if (op.kind >= VERTEX_OP_SUM) {
        return move_reduced(m, op);
    }
    if (is_split(m, &op) && end_of(m, &op) == VERTEX_OP_N) {
        return split_map(m, op);
    }
    enum vertex_op_kind end = op.place == VERTEX_PLACE_EDGE && is_by_row(m, &op) ? end_of(m, &op) : VERTEX_OP_N;
    return end != VERTEX_OP_N ? to_nodes(m, op, end) : move_append(m, op);
}

void vertex_move(const struct vertex_trace *trace, bool moves, bool divides, struct vertex_trace *out)
{
    const size_t n_room = MOVE_N_ROOM(trace->n_op);
    struct moving m = {.out = out,
                       .moves = moves,
                       .divides = divides,
                       .n_room = (int32_t)n_room,
                       .to = memory_alloc((size_t)trace->n_op + 1, sizeof *m.to)};
    for (int k = 0; k < MOVE_N_MADE; k++) {
        m.made[k] = memory_alloc(n_room, sizeof **m.made);
    }
    *out = (struct vertex_trace){.n_weight = trace->n_weight,
                                 .n_output = trace->n_output,
                                 .weight = memory_alloc((size_t)trace->n_weight + 1, sizeof *out->weight),
                                 .output = memory_alloc((size_t)trace->n_output + 1, sizeof *out->output),
                                 .complete = trace->complete};
    for (int32_t i = 0; i < trace->n_weight; i++) {
        out->weight[i] = trace->weight[i];
    }
    for (int32_t i = 0; i < trace->n_op; i++) {
        m.to[i] = moves ? moved(&m, trace->op[i]) : copied(&m, trace->op[i]);
    }
    for (int32_t i = 0; i < trace->n_output; i++) {
        out->output[i] = trace->output[i];
        out->output[i].op = m.to[trace->output[i].op];
    }
    out->out = m.to[trace->out];
    vertex_ops_forget(&m.same);
    for (int k = 0; k < MOVE_N_MADE; k++) {
        free(m.made[k]);
    }
    free(m.to);
}
