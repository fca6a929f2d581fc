/* The parts of an executor: who owns what, blocks of edges between parts, and the device arrays of one part. */
#ifndef TESTS_SUPPORT_EXECUTOR_PARTS_H
#define TESTS_SUPPORT_EXECUTOR_PARTS_H

#include "partition/part/part.h"
#include "tests/support/executor.h"

/* One pair of parts in one direction of travel: the edges, and the sender's rows that travel. */
struct executor_block {
    struct device_block block; /* device arrays */
    uint32_t *payload_rows;    /* block.n_col own rows of the sender */
    uint32_t *payload_node;    /* and their nodes */
    float *col_scale[AGGREGATE_KIND_N];
    uint32_t arg_base;
    int64_t halo_row; /* in-edges of a program with halo rows: those of the part before this block's payload rows */
    /* Of in-edges between parts in a program that samples: the payload rows that are drawn, */
    uint32_t *host_rows, *host_node; /* block.n_col: as payload_rows and payload_node */
    int64_t n_kept;
    uint32_t *kept;      /* n_kept: their places */
    uint32_t *kept_rows; /* n_kept: their rows at the sender */
    uint32_t *kept_node; /* n_kept */
    float *kept_scale[AGGREGATE_KIND_N];
};

struct executor_part {
    int64_t n_own, n_halo;
    uint32_t *node; /* n_own + n_halo: host */
    uint32_t *node_device;
    uint32_t *embedded_column; /* csr.n_embedded: host */
    struct op_labels labels;
    const float *class_weights;                     /* NULL: 1 each */
    struct executor_block *block[PART_DIRECTION_N]; /* n_part */
    float *row_scale[AGGREGATE_KIND_N];
    struct device_csr csr, csr_halo;     /* of own rows; with halo rows */
    float **value, **grad;               /* n_value; grad NULL where none is needed */
    float *(*saved)[OP_N_SAVED];         /* n_op */
    float *fresh[OP_N_IN];               /* n_own × the widest value */
    float *grad_param;                   /* n_weight */
    float *embeddings, *grad_embeddings; /* csr.n_embedded × n_embedding */
};

struct executor {
    struct executor_setup setup;
    struct device *device;
    const struct device_ops *ops;
    struct executor_part *part;
    float *weights; /* device */
    void *workspace;
    struct device_now *now;     /* device */
    struct device_score *score; /* device */
    struct step_lists steps;
    double loss;
    double **statistics; /* n_op: global ops alone, for all parts together */
    double *sum[2];      /* of the widest global op: all parts' so far, one part's */
    float *payload;      /* rows of the widest round */
    float *asked;        /* likewise, of what gradients that return are made of */
    void *picked[2];     /* scratch for a sampled block, and for a transposed one */
    struct device_block block[2];
    struct executor_array *arrays; /* all device memory, newest first */
};

/* Zeroed device memory, or a copy of host memory; given back by executor_close. Of steps' operands device_strict opens only the
 * listed ones. */
void *executor_operand(struct executor *executor, size_t n_bytes);
void *executor_array(struct executor *executor, size_t n_bytes);
void *executor_upload(struct executor *executor, const void *from, size_t n_bytes);

/* Where the program samples: draw which of a block's payload rows travel. */
void executor_block_draw(struct executor *executor, struct executor_block *block);

/* Cut the graph into the setup's parts and put structure, features, labels and scales on the device. */
void executor_parts_open(struct executor *executor);
void executor_parts_close(struct executor *executor);

/* A part's labels, splits and node ids on the device, as the objective takes them; and the weight of all parts' training rows. */
void executor_labels_open(struct executor *executor, struct executor_part *part);
double executor_loss_weight(const struct executor *executor);

/* Rows of a part's array that has those of a hop. */
int64_t executor_rows(const struct executor_part *part, int32_t hop);

/* A halo pass whose payload rows are halo rows: of part i. */
void executor_halo_stored(struct executor *executor, const struct step *step, int i);

/* Where an operand lies, of a part; an op's call on it. */
void *executor_operand_at(const struct executor *executor, const struct step_operand *operand,
                          const struct executor_part *part);
struct op_call executor_call(struct executor *executor, const struct step *step, struct executor_part *part);

/* Weights of the plain program to where this one has them; a part's gradients added up the other way. */
void executor_weights_put(struct executor *executor, const float *weights);
void executor_gradients_add(struct executor *executor, const struct executor_part *part, double *sum);

#endif
