/* The rows of op_defs[] and aggregate_defs[]: one file per op, with its functions and the roles that they read and
 * write. */
#ifndef MODELS_OPS_OPS_H
#define MODELS_OPS_OPS_H

#include "models/program/op.h"

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
extern const struct op_def op_head_widen, op_head_narrow;
extern const struct op_def op_head_mean;
extern const struct op_def op_relation_row;
extern const struct op_def op_rows;

/* Columns of the op's output. */
static inline int64_t op_width(const struct op_call *call)
{
    return call->program->value[call->op->out].width;
}

/* dx_k (+)= factor · dy, where a gradient of in[k] is wanted that does not lie on dy already. */
void op_give(const struct op_call *call, int k, float factor);

/* Bytes that sums over rows of the output take. */
size_t op_column_bytes(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);

/* Where only a weight's gradient (parameter 0) reads the input: that, or nothing where it is not trained. */
op_roles weight_backward_reads(const struct program *program, const struct op *op);

extern const struct aggregate_def aggregate_sum;
extern const struct aggregate_def aggregate_mean;
extern const struct aggregate_def aggregate_gcn;
extern const struct aggregate_def aggregate_max;
extern const struct aggregate_def aggregate_gat;
extern const struct aggregate_def aggregate_gat_edges;
extern const struct aggregate_def aggregate_gatv2;
extern const struct aggregate_def aggregate_dot;
extern const struct aggregate_def aggregate_cosine;
extern const struct aggregate_def aggregate_relation;
extern const struct aggregate_def aggregate_relation_rows;
extern const struct aggregate_def aggregate_relation_rows_mixed;
extern const struct aggregate_def aggregate_edges, aggregate_edges_mean, aggregate_edges_norm,
    aggregate_edges_softmax;

/* The scales of a mean, and of GCN. */
float aggregate_mean_scale(double degree, bool self);
float aggregate_gcn_scale(double degree, bool self);

/* RETURN of a sum: gradients from other parts are added; on the diagonal the aggregate's pass OUT, or `own`, computes
 * them from own rows' edges. */
void aggregate_return(const struct op_call *call);
void aggregate_return_by(const struct op_call *call, void (*own)(const struct op_call *call));

/* One block's contribution to a linear aggregate: to_i (+)= row_i ([self_i own_i] + Σ_j a_ij col_j payload_j), row_i
 * with the last block; NULL: 1. Likewise of payload rows, for their owner: packed_j = row_j Σ_i a_ij col_i dy_i. */
void aggregate_linear(const struct op_call *call, const float *col, const float *self, const float *row);
void aggregate_linear_pack(const struct op_call *call, const float *col, const float *row);

/* Of aggregate_linear, for blocks of up to n columns. */
size_t aggregate_linear_workspace(const struct program *program, const struct op *op, const struct device_ops *ops,
                                  int64_t n);

/* Rows one way, gradients of the output the other way, over the transposed blocks; of sampled rows, their gradients.
 * joined: whether these join (halo_pass.joins) */
#define AGGREGATE_LINEAR_PASSES(joined, on_way_in, on_way_out, made_to_return)                                       \
    .workspace = aggregate_linear_workspace,                                                                         \
    .forward = {.direction = HALO_DIRECTION_IN,                                                                      \
                .n_piece = 1,                                                                                        \
                .piece = {OP_ROLE_IN_0},                                                                             \
                .joins = (joined),                                                                                   \
                .access = {.writes = OP_ROLES(OUT)},                                                                 \
                .run = (on_way_in)},                                                                                 \
    .backward = {{.direction = HALO_DIRECTION_OUT,                                                                   \
                  .n_piece = 1,                                                                                      \
                  .piece = {OP_ROLE_GRAD_OUT},                                                                       \
                  .joins = (joined),                                                                                 \
                  .access = {.writes = OP_ROLES(GRAD_IN_0)},                                                         \
                  .run = (on_way_out)}},                                                                             \
    .sampled = AGGREGATE_SAMPLED_WEIGHED,                                                                            \
    .sampled_backward = {{.direction = HALO_DIRECTION_RETURN,                                                        \
                          .n_piece = 1,                                                                              \
                          .piece = {OP_ROLE_GRAD_IN_0},                                                              \
                          .access = {.reads = OP_ROLES(GRAD_OUT), .writes = OP_ROLES(GRAD_IN_0)},                    \
                          .run = aggregate_return,                                                                   \
                          .pack = (made_to_return),                                                                  \
                          .pack_reads = OP_ROLES(GRAD_OUT),                                                          \
                          .transposed = true}}

/* The same for an aggregate with a parameter, whose gradient is computed from `in` where the gradient of out arrives,
 * or from sampled rows that travel a second time; sampled_reads: other roles that this reads. */
#define AGGREGATE_PARAM_PASSES(on_way_in, on_way_out, on_sampled, sampled_reads, on_return, made_to_return)          \
    .forward = {.direction = HALO_DIRECTION_IN,                                                                      \
                .n_piece = 1,                                                                                        \
                .piece = {OP_ROLE_IN_0},                                                                             \
                .access = {.reads = OP_ROLES_PARAM, .writes = OP_ROLES(OUT)},                                        \
                .run = (on_way_in)},                                                                                 \
    .backward = {{.direction = HALO_DIRECTION_OUT,                                                                   \
                  .n_piece = 1,                                                                                      \
                  .piece = {OP_ROLE_GRAD_OUT},                                                                       \
                  .access = {.reads = OP_ROLES(IN_0) | OP_ROLES_PARAM,                                               \
                             .writes = OP_ROLES(GRAD_IN_0) | OP_ROLES_GRAD_PARAM},                                   \
                  .run = (on_way_out)}},                                                                             \
    .sampled = AGGREGATE_SAMPLED_WEIGHED,                                                                            \
    .sampled_backward = {{.direction = HALO_DIRECTION_IN,                                                            \
                          .n_piece = 1,                                                                              \
                          .piece = {OP_ROLE_IN_0},                                                                   \
                          .access = {.reads = OP_ROLES(GRAD_OUT) | (sampled_reads), .writes = OP_ROLES_GRAD_PARAM},  \
                          .run = (on_sampled)},                                                                      \
                         {.direction = HALO_DIRECTION_RETURN,                                                        \
                          .n_piece = 1,                                                                              \
                          .piece = {OP_ROLE_GRAD_IN_0},                                                              \
                          .access = {.reads = OP_ROLES(GRAD_OUT) | OP_ROLES_PARAM, .writes = OP_ROLES(GRAD_IN_0)},   \
                          .run = (on_return),                                                                        \
                          .pack = (made_to_return),                                                                  \
                          .pack_reads = OP_ROLES(GRAD_OUT) | OP_ROLES_PARAM,                                         \
                          .transposed = true}}

#endif
