#include "models/vertex/move.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct moving {
    struct vertex_trace *out;
    void *same;  /* finds an equal operation (tsearch) */
    int32_t *to; /* by operation of the trace before: the one that it has become */
    /* by operation of edges: its sum, its mean, as they are made; 0: not made yet */
    int32_t *made[2];
};

/* An operation becomes two at most, each with a sum and a mean, which are of two operations at most. */
#define N_ROOM (10 * VERTEX_OP_MOST)

static const struct vertex_op *at(const struct moving *m, int32_t op)
{
    return &m->out->op[op];
}

/* Append an operation, or find an equal one. */
static int32_t append(struct moving *m, struct vertex_op op)
{
    struct vertex_op **found = tfind(&op, &m->same, vertex_op_compare);
    if (found != NULL && op.kind != VERTEX_OP_DROPOUT) {
        return (int32_t)(*found - m->out->op);
    }
    ASSERT(m->out->n_op < N_ROOM);
    struct vertex_op *added = &m->out->op[m->out->n_op];
    *added = op;
    if (found == NULL) {
        tsearch(added, &m->same, vertex_op_compare);
    }
    return m->out->n_op++;
}

/* Does the operation give each row's result from that row, and weights? Factors that are known before training stay,
 * and leave the sum. */
static bool is_by_row(const struct moving *m, const struct vertex_op *op)
{
    const enum vertex_op_kind kind = op->kind;
    for (int k = 0; k < 2; k++) {
        bool is_number = op->in[k] >= 0 && at(m, op->in[k])->kind == VERTEX_OP_NUMBER;
        if (is_number && (kind == VERTEX_OP_MULTIPLY || (kind == VERTEX_OP_DIVIDE && k == 1))) {
            return false;
        }
    }
    bool reduces = kind >= VERTEX_OP_SUM, leaf = kind <= VERTEX_OP_NUMBER, slices = kind == VERTEX_OP_SLICE_RELATION;
    return !reduces && !leaf && !slices && kind != VERTEX_OP_SOFTMAX && kind != VERTEX_OP_DROPOUT;
}

/* The end at which all operands of an operation of edges are, SOURCE or TARGET; N: they are not at one. */
static enum vertex_op_kind end_of(const struct moving *m, const struct vertex_op *op)
{
    enum vertex_op_kind end = VERTEX_OP_N;
    for (int k = 0; k < VERTEX_N_IN; k++) {
        if (op->in[k] < 0 || at(m, op->in[k])->place == VERTEX_PLACE_WEIGHT) {
            continue;
        }
        enum vertex_op_kind kind = at(m, op->in[k])->kind;
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
        if (op.in[k] >= 0 && at(m, op.in[k])->place != VERTEX_PLACE_WEIGHT) {
            node.in[k] = at(m, op.in[k])->in[0];
        }
    }
    struct vertex_op edge = {.kind = end, .place = VERTEX_PLACE_EDGE, .shape = op.shape, .relation = -1, .at = op.at};
    edge.in[0] = append(m, node);
    edge.in[1] = edge.in[2] = -1;
    return append(m, edge);
}

static int32_t reduced(struct moving *m, struct vertex_op reduce);

/* The operands that a sum or mean may be taken of instead of their row: the terms of a sum, the row of a multiple. */
static void terms_of(const struct moving *m, const struct vertex_op *row, bool takes[2])
{
    const struct vertex_op *a = row->in[0] >= 0 ? at(m, row->in[0]) : NULL,
                           *b = row->in[1] >= 0 ? at(m, row->in[1]) : NULL;
    bool sums = row->kind == VERTEX_OP_ADD || row->kind == VERTEX_OP_SUBTRACT;
    bool over = row->kind == VERTEX_OP_DIVIDE, times = row->kind == VERTEX_OP_MULTIPLY;
    takes[0] = takes[1] = false;
    if (sums && a->place == VERTEX_PLACE_EDGE && b->place == VERTEX_PLACE_EDGE) {
        takes[0] = takes[1] = vertex_shape_equal(&a->shape, &b->shape);
    } else if ((over || times) && b->kind == VERTEX_OP_NUMBER) {
        takes[0] = true;
    } else if (times && a->kind == VERTEX_OP_NUMBER) {
        takes[1] = true;
    }
}

/* Sums and means of a sum, and of a multiple, by their terms. */
static int32_t distribute(struct moving *m, struct vertex_op reduce)
{
    struct vertex_op out = *at(m, reduce.in[0]);
    bool takes[2];
    terms_of(m, &out, takes);
    if (!takes[0] && !takes[1]) {
        return append(m, reduce);
    }
    out.place = VERTEX_PLACE_NODE;
    for (int k = 0; k < 2; k++) {
        struct vertex_op term = reduce;
        term.in[0] = out.in[k];
        term.shape = at(m, out.in[k])->shape;
        out.in[k] = takes[k] ? reduced(m, term) : out.in[k];
    }
    return append(m, out);
}

static int32_t reduced(struct moving *m, struct vertex_op reduce)
{
    bool sums = reduce.kind == VERTEX_OP_SUM;
    if ((!sums && reduce.kind != VERTEX_OP_MEAN) || reduce.relation >= 0) {
        return append(m, reduce);
    }
    int32_t *made = &m->made[sums][reduce.in[0]];
    if (*made == 0) {
        *made = distribute(m, reduce);
    }
    return *made;
}

static int32_t moved(struct moving *m, struct vertex_op op)
{
    for (int k = 0; k < VERTEX_N_IN; k++) {
        op.in[k] = op.in[k] >= 0 ? m->to[op.in[k]] : -1;
    }
    if (op.kind >= VERTEX_OP_SUM) {
        return reduced(m, op);
    }
    enum vertex_op_kind end = op.place == VERTEX_PLACE_EDGE && is_by_row(m, &op) ? end_of(m, &op) : VERTEX_OP_N;
    return end != VERTEX_OP_N ? to_nodes(m, op, end) : append(m, op);
}

static void keep(void *op)
{
    (void)op;
}

void vertex_move(const struct vertex_trace *trace, struct vertex_trace *out)
{
    struct moving m = {.out = out, .to = memory_alloc((size_t)trace->n_op + 1, sizeof *m.to)};
    m.made[0] = memory_alloc(N_ROOM, sizeof **m.made);
    m.made[1] = memory_alloc(N_ROOM, sizeof **m.made);
    *out = (struct vertex_trace){.n_weight = trace->n_weight,
                                 .op = memory_alloc(N_ROOM, sizeof *out->op),
                                 .weight = memory_alloc((size_t)trace->n_weight + 1, sizeof *out->weight),
                                 .complete = trace->complete};
    memcpy(out->weight, trace->weight, (size_t)trace->n_weight * sizeof *out->weight);
    for (int32_t i = 0; i < trace->n_op; i++) {
        m.to[i] = moved(&m, trace->op[i]);
    }
    out->out = m.to[trace->out];
    tdestroy(m.same, keep);
    free(m.made[0]);
    free(m.made[1]);
    free(m.to);
}
