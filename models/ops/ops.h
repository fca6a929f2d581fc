/* The functions behind op_defs[] and aggregate_defs[]: one file per op, forward and backward next to each other. */
#ifndef MODELS_OPS_OPS_H
#define MODELS_OPS_OPS_H

#include "models/op.h"

void op_linear_forward(const struct op_call *call);
void op_linear_backward(const struct op_call *call);
size_t op_linear_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);

void op_bias_forward(const struct op_call *call);
void op_bias_backward(const struct op_call *call);
size_t op_bias_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);

void op_activate_forward(const struct op_call *call);
void op_activate_backward(const struct op_call *call);

void op_layer_norm_forward(const struct op_call *call);
void op_layer_norm_backward(const struct op_call *call);
size_t op_layer_norm_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);
int64_t op_layer_norm_aux_width(const struct program *program, const struct op *op);

void op_batch_norm_forward(const struct op_call *call);
void op_batch_norm_backward(const struct op_call *call);
size_t op_batch_norm_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);
extern const struct global_def op_batch_norm_global;

void op_add_forward(const struct op_call *call);
void op_add_backward(const struct op_call *call);

void op_labels_forward(const struct op_call *call);
void op_labels_backward(const struct op_call *call);
extern const struct global_def op_labels_global;

void op_concat_forward(const struct op_call *call);
void op_concat_backward(const struct op_call *call);

void op_max_forward(const struct op_call *call);
void op_max_backward(const struct op_call *call);

void op_eps_add_forward(const struct op_call *call);
void op_eps_add_backward(const struct op_call *call);
size_t op_eps_add_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);

void op_inverse_norm_forward(const struct op_call *call);
void op_inverse_norm_backward(const struct op_call *call);

void op_row_scale_forward(const struct op_call *call);
void op_row_scale_backward(const struct op_call *call);

void op_head_dot_forward(const struct op_call *call);
void op_head_dot_backward(const struct op_call *call);
size_t op_head_dot_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);

void op_head_mean_forward(const struct op_call *call);
void op_head_mean_backward(const struct op_call *call);

void aggregate_sum_forward(const struct aggregate_call *call);
void aggregate_sum_backward(const struct aggregate_call *call);

void aggregate_mean_forward(const struct aggregate_call *call);
void aggregate_mean_backward(const struct aggregate_call *call);
float aggregate_mean_scale(double degree, bool self);

void aggregate_gcn_propagate(const struct aggregate_call *call);
float aggregate_gcn_scale(double degree, bool self);

int64_t aggregate_max_kept_width(const struct program *program, const struct op *op, int k);
void aggregate_max_forward(const struct aggregate_call *call);
void aggregate_max_backward(const struct aggregate_call *call);
void aggregate_max_backward_pack(const struct aggregate_call *call);

int64_t attention_kept_width(const struct program *program, const struct op *op, int k);
size_t attention_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);
void attention_forward(const struct aggregate_call *call);
void attention_backward_begin(const struct aggregate_call *call);
void attention_backward_query(const struct aggregate_call *call);
void attention_backward_source(const struct aggregate_call *call);

void aggregate_relation_forward(const struct aggregate_call *call);
void aggregate_relation_backward(const struct aggregate_call *call);
size_t aggregate_relation_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);

#endif
