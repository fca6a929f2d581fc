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

struct generation generation_open(struct walk *w, const bool *region);
void generation_close(struct generation *g);

/* The value of an operation of the tile; other operations of nodes are rows that it reads. What a tile does not
 * compute is the walk's mistake. */
struct code_value generate(struct generation *g, int32_t op);

/* Is the operation element by element? */
bool generate_is_element(enum vertex_op_kind kind);

#endif
