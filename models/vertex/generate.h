/* From operations of a trace to those of a tile program: each once, with the rows and weights that it reads. */
#ifndef MODELS_VERTEX_GENERATE_H
#define MODELS_VERTEX_GENERATE_H

#include "models/vertex/code.h"
#include "models/vertex/walk.h"

struct generation {
    struct walk *walk;
    struct code code;
    struct code_value *value; /* by operation */
    bool *there;
    const bool *region; /* of nodes: operations that are part of the tile; NULL: it is over edges */
    int param[TILE_N_PARAM], n_param;
    bool reads_norm;
    double dropout; /* the probability of a draw; 0: nothing is drawn */
};

/* Heads × columns of a row or weight: a weight of one row's heads has one dimension more. */
static inline void generation_shape(const struct vertex_shape *shape, int64_t *n_head, int64_t *n_column)
{
    *n_column = shape->dim[shape->n_dim - 1];
    *n_head = shape->n_dim > 1 ? shape->dim[shape->n_dim - 2] : 1;
}

struct generation generation_open(struct walk *w, const bool *region);
void generation_close(struct generation *g);

/* The value of an operation of the tile; other operations of nodes are rows that it reads. What a tile does not
 * compute is the walk's mistake. */
struct code_value generate(struct generation *g, int32_t op);

/* emit_tile.c: leaves of an end, from the first on, side by side as one value of the program, whose rows the tile
 * knows as `rows`; -1: the end has no leaf. */
int generation_join(struct generation *g, enum tile_rows end, enum tile_rows rows, int first);
/* The tile of some code, over this op's inputs; `at`: what a mistake is told of. */
bool generation_tile(struct generation *g, int32_t at, const struct code *code, const struct op *op,
                     struct tile *out);
/* Append the op with its tiles, which it takes over. */
int generation_append(struct generation *g, struct op *op, struct tile tile[OP_N_TILE], int64_t width);

/* Is the operation element by element? */
bool generate_is_element(enum vertex_op_kind kind);

#endif
