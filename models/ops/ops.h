/* The rows of op_defs[] and aggregate_defs[]: one file per op, with its functions and what they read and write. */
#ifndef MODELS_OPS_OPS_H
#define MODELS_OPS_OPS_H

#include "models/op.h"

extern const struct op_def op_linear;
extern const struct op_def op_bias;
extern const struct op_def op_activate;
extern const struct op_def op_layer_norm;
extern const struct op_def op_batch_norm;
extern const struct op_def op_add;
extern const struct op_def op_labels;
extern const struct op_def op_concat;
extern const struct op_def op_max;
extern const struct op_def op_eps_add;
extern const struct op_def op_inverse_norm;
extern const struct op_def op_row_scale;
extern const struct op_def op_head_dot;
extern const struct op_def op_head_mean;

extern const struct aggregate_def aggregate_sum;
extern const struct aggregate_def aggregate_mean;
extern const struct aggregate_def aggregate_gcn;
extern const struct aggregate_def aggregate_max;
extern const struct aggregate_def aggregate_gat;
extern const struct aggregate_def aggregate_gatv2;
extern const struct aggregate_def aggregate_dot;
extern const struct aggregate_def aggregate_cosine;
extern const struct aggregate_def aggregate_relation;

/* Rows one way, gradients of the output the other way, over the transposed blocks. */
#define AGGREGATE_LINEAR_PASSES(on_way_in, on_way_out)                                                                         \
    .forward = {.direction = HALO_DIRECTION_IN,                                                                                \
                .n_piece = 1,                                                                                                  \
                .piece = {OP_ROLE_IN_0},                                                                                       \
                .access = {.writes = OP_ROLES(OUT)},                                                                           \
                .run = (on_way_in)},                                                                                           \
    .backward = {{.direction = HALO_DIRECTION_OUT,                                                                             \
                  .n_piece = 1,                                                                                                \
                  .piece = {OP_ROLE_GRAD_OUT},                                                                                 \
                  .access = {.writes = OP_ROLES(GRAD_IN_0)},                                                                   \
                  .run = (on_way_out)}}

#endif
