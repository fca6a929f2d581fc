/* Operations on their way to nodes. Shared by move*.c. */
#ifndef MODELS_VERTEX_MOVE_STATE_H
#define MODELS_VERTEX_MOVE_STATE_H

#include "models/vertex/move.h"

/* An operation of edges becomes two, with up to three for each of its reductions, var and std eight: no more than 16
 * for each in all. Linear maps, which become up to three for each part, are split while there are no more than
 * MOVE_N_SPLIT. */
#define MOVE_N_SPLIT 32768
#define MOVE_N_ROOM(n_op) (MOVE_N_SPLIT + 16 * ((size_t)(n_op) + 16))
#define MOVE_N_MADE 4

struct moving {
    struct vertex_trace *out;
    bool moves; /* false: what has no op, or tile program, becomes others, and all else stays */
    int32_t n_room;
    bool divides; /* means are sums over numbers of in-edges */
    void *same;   /* finds an equal operation (tsearch) */
    int32_t *to;  /* by operation of the trace before: the one that it has become */
    /* by operation of edges: its sum, mean, maximum, minimum, as they are made; 0: not made yet */
    int32_t *made[MOVE_N_MADE];
};

static inline const struct vertex_op *move_at(const struct moving *m, int32_t op)
{
    return &m->out->op[op];
}

/* An operation of a and b, -1 where it has no such, with another one's shape and place in the text. */
static inline struct vertex_op move_op(enum vertex_op_kind kind, enum vertex_place place,
                                       const struct vertex_op *like, int32_t a, int32_t b)
{
    return (struct vertex_op){
        .kind = kind, .place = place, .shape = like->shape, .in = {a, b, -1}, .relation = -1, .at = like->at};
}

/* Append an operation, or find an equal one. */
int32_t move_append(struct moving *m, struct vertex_op op);

/* move_reduce.c: a number, and the in-edges of each node; a reduction, whose operand has been moved; var or std, by
 * means */
int32_t move_number(struct moving *m, const struct vertex_op *like, double value);
int32_t move_degree(struct moving *m, const struct vertex_op *like);
int32_t move_reduced(struct moving *m, struct vertex_op reduce);
int32_t move_variance(struct moving *m, struct vertex_op reduce);

#endif
