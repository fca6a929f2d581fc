/* Attention on a small dense graph: the direct computation in double, and the same through a device's operations.
 *
 * The truth walks a matrix of edges in three passes per row (greatest score, exponentials, sums) and knows neither
 * blocks nor running softmaxes nor devices. All nodes are both sources and destinations of one part.
 */
#ifndef TESTS_SUPPORT_ATTENTION_CASE_H
#define TESTS_SUPPORT_ATTENTION_CASE_H

#include "models/device/device.h"

/* Tensors by name; sizes depend on the kind of score, and are 0 for tensors that it does not have. */
enum attention_tensor {
    ATTENTION_VALUE,
    ATTENTION_KEY,
    ATTENTION_QUERY,
    ATTENTION_ATT,
    ATTENTION_EDGE,
    ATTENTION_OUT,
    ATTENTION_TENSOR_N
};

struct attention_case {
    struct device_attention how;
    int64_t n;   /* nodes */
    int n_block; /* columns are cut into this many consecutive blocks */
    bool with_self;
    bool forward_only;                /* as in evaluation: nothing is saved for backward, gradients are not written */
    uint8_t *edge;                    /* n × n: edge[i, j] for an edge j → i; no self loops */
    float *input[ATTENTION_TENSOR_N]; /* value, key, query, att, what how.edge is; OUT: the gradient of the output */
    float *feature;                   /* n × n × how.n_edge_column: of edge[i, j]; NULL without */
    uint32_t *node;                   /* dataset ids */
};

/* Random inputs; keys and queries (MLP: att) are `spread` times as wide. Row 3 of every seven has no edges, row 0
 * nearly all. */
void attention_case_init(struct attention_case *c, enum device_score_kind score, int64_t n, int64_t n_head,
                         int64_t n_column, double spread);
/* The same with n_edge_column features of each edge, which every score but a cosine reads. */
void attention_case_init_edges(struct attention_case *c, enum device_score_kind score, int64_t n, int64_t n_head,
                               int64_t n_column, int64_t n_edge_column, double spread);
void attention_case_release(struct attention_case *c);

int64_t attention_size(const struct attention_case *c, enum attention_tensor tensor);

/* Values of input and of gradient (at inputs), and out, all in double. */
struct attention_truth {
    double *input[ATTENTION_TENSOR_N];
    double *grad[ATTENTION_TENSOR_N]; /* OUT: the output itself */
};

void attention_truth_init(struct attention_truth *truth, const struct attention_case *c);
void attention_truth_release(struct attention_truth *truth);

/* ⟨grad_out, out⟩; fills in out. */
double attention_truth_forward(struct attention_truth *truth, const struct attention_case *c);
void attention_truth_backward(struct attention_truth *truth, const struct attention_case *c);

/* A device_run: context is a struct attention_case, out the gradients and output in the order of the enum. */
void attention_run(struct device *device, const void *context, float *out);

#endif
