/* The work of one attention layer of GAT over a graph that is its own transpose, step by step. */
#ifndef TESTS_GPU_LAYER_H
#define TESTS_GPU_LAYER_H

#include "tests/gpu/bench/figure.h"

struct layer {
    struct device_block block;
    struct device_attention how;
    int64_t n, width; /* width: heads × columns, of the input, too */
    const float *input, *grad_out, *w, *att[2];
    float *x, *key, *query, *out, *grad_x, *grad_key, *grad_query, *grad_input, *grad_w, *grad_att[2];
    struct device_attention_state state;
    void *scratch;
};

/* Takes all of its memory. whole: with the linear map, its gradients and those of the attention vectors. f's reason:
 * it cannot be. */
void layer_open(struct figure *f, const struct graph *graph, int64_t n_head, int64_t n_column, bool whole,
                struct layer *out);

/* The sparse work alone: softmax and weighted sum, and their gradients. */
void layer_attention_forward(struct figure *f, void *layer);
void layer_attention_backward(struct figure *f, void *layer);

/* All that PyTorch Geometric's GATConv does, forward and backward. */
void layer_whole(struct figure *f, void *layer);

#endif
