/* A walk from a trace's returned operation to its inputs, which appends ops on the way. Shared by emit*.c. */
#ifndef MODELS_VERTEX_WALK_H
#define MODELS_VERTEX_WALK_H

#include "models/vertex/emit.h"
#include "models/vertex/match.h"

struct walk {
    struct vertex_emission *to;
    const struct vertex_trace *trace;
    struct program *program;
    enum status status;       /* of the first mistake; nothing is appended after it */
    int32_t *n_use;           /* by operation, of those that the result reads */
    int *value;               /* by operation; -1: not appended yet */
    int *param;               /* by weight */
    bool *by_tile;            /* by operation: no op but a tile program computes it */
    bool *relates;            /* by operation: a relation's product, or a sum that has one among its terms */
    struct walk_place *place; /* by reduction that is a tile program */
};

/* Columns of a value that are a reduction's row. */
struct walk_place {
    int value; /* or one of these */
    int64_t at;
};
enum { WALK_PLACE_NONE = -1, WALK_PLACE_SOON = -2 };

/* Reductions that one aggregate makes, side by side. */
#define WALK_GROUP_MOST 8
struct walk_group {
    int n;
    int32_t op[WALK_GROUP_MOST];
};

/* A value, and a bias that is still to be added to it; -1: nothing is. */
struct open_value {
    int value, bias;
};

static inline const struct vertex_op *walk_at(const struct walk *w, int32_t op)
{
    return &w->trace->op[op];
}

static inline bool walk_is(const struct walk *w, int32_t op, enum vertex_op_kind kind)
{
    return op >= 0 && walk_at(w, op)->kind == kind;
}

/* Is it a relation's product, and no sum? */
static inline bool walk_is_relation(const struct walk *w, int32_t op)
{
    return w->relates[op] && !walk_is(w, op, VERTEX_OP_ADD) && !walk_is(w, op, VERTEX_OP_SUBTRACT);
}

/* Is there no mistake so far? */
static inline bool walk_goes_on(const struct walk *w)
{
    return w->status == STATUS_OK;
}

/* emit.c: the first mistake; a value that has to be dense; the parameter of a weight, -1 for -1 */
int walk_refuse(struct walk *w, int32_t op, const char *why);
int walk_dense(struct walk *w, int value);
int walk_weight(const struct walk *w, int32_t op);

/* emit.c: the value of an operation of nodes, appended once; and its value without a bias, with the one given in it
 * where walk_takes_bias. */
int walk_value(struct walk *w, int32_t op);
struct open_value walk_open(struct walk *w, int32_t op, int bias);

/* emit_linear.c: is it v.x, with a column for each node and nothing else? */
bool walk_is_one_hot(const struct walk *w, int32_t op);
/* Linear maps before or after sums, and GIN's sum (1 + eps) · x + Σ x_j */
bool walk_is_sum(const struct walk *w, int32_t op, struct match_sum *out);
int walk_aggregate(struct walk *w, int x, enum aggregate_kind kind);
struct open_value walk_linear(struct walk *w, int32_t op, int bias);
struct open_value walk_sum(struct walk *w, int32_t op, int bias);
bool walk_takes_bias(const struct walk *w, int32_t op);
bool walk_match_gin(const struct walk *w, int32_t op, int32_t *eps_out, int32_t *x_out,
                    enum aggregate_kind *kind_out);
int walk_eps_add(struct walk *w, int eps, int x, int sum);

/* emit_tile.c: operations of nodes that no op computes, as one op of rows with what it alone reads; and reductions of
 * edges */
int walk_rows(struct walk *w, int32_t op);
/* Can it be part of that: does it give each node's numbers from that node's, and weights? */
bool walk_is_row(const struct walk *w, int32_t op);
/* Is it a linear map by some columns of its weight? */
bool walk_is_part(const struct walk *w, int32_t op);
int walk_edges(struct walk *w, int32_t op);
/* emit.c: is it one that walk_edges reduces? */
bool walk_is_edges(const struct walk *w, int32_t op);
/* Where its row lies: appended once, with its group. */
struct walk_place walk_reduced(struct walk *w, int32_t op);
/* These columns as a value of their own. */
int walk_columns(struct walk *w, int32_t op);
/* emit_group.c: append what reductions this one depends on, so that they find their groups before it; those that are
 * made with it, which is the first; and the softmax in `op` = softmax(s) · m, where m has no part of it, and nothing
 * reads e.norm; -1: not found. */
void walk_group_below(struct walk *w, int32_t op);
void walk_group(const struct walk *w, int32_t op, struct walk_group *out);
int32_t walk_softmax(const struct walk *w, int32_t op);
int walk_degree(struct walk *w);

/* emit_terms.c: sums of rows, and multiples */
struct open_value walk_add(struct walk *w, int32_t op);
bool walk_is_multiple(const struct walk *w, int32_t op);

#endif
