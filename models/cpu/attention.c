/* Attention and products head by head: the reference's loops, on the calling thread. */
#include "models/cpu/cpu.h"
#include "models/reference/reference.h"

void cpu_attention_forward(struct device *device, const struct device_block *block, const struct device_attention *how,
                           bool begin, const struct device_attention_source *self,
                           const struct device_attention_source *payload, const float *query,
                           const struct device_attention_state *state, float *out)
{
    reference_attention_forward(device, block, how, begin, self, payload, query, state, out);
}

void cpu_attention_finish(struct device *device, int64_t n, const struct device_attention *how,
                          const struct device_attention_state *state, float *out)
{
    reference_attention_finish(device, n, how, state, out);
}

void cpu_attention_backward_begin(struct device *device, int64_t n, const struct device_attention *how,
                                  const float *grad_out, const float *out, const struct device_attention_state *state,
                                  bool add, float *grad_query)
{
    reference_attention_backward_begin(device, n, how, grad_out, out, state, add, grad_query);
}

void cpu_attention_backward_query(struct device *device, const struct device_block *block,
                                  const struct device_attention *how, bool begin,
                                  const struct device_attention_source *self,
                                  const struct device_attention_source *payload,
                                  const struct device_attention_target *own, void *scratch, float *grad_query,
                                  float *grad_att)
{
    reference_attention_backward_query(device, block, how, begin, self, payload, own, scratch, grad_query, grad_att);
}

size_t cpu_attention_scratch(int64_t n_row, const struct device_attention *how)
{
    return reference_attention_scratch(n_row, how);
}

void cpu_attention_backward_source(struct device *device, const struct device_block *block,
                                   const struct device_attention *how, bool begin,
                                   const struct device_attention_target *self,
                                   const struct device_attention_target *payload,
                                   const struct device_attention_source *own, float *grad_value, float *grad_key)
{
    reference_attention_backward_source(device, block, how, begin, self, payload, own, grad_value, grad_key);
}

void cpu_head_dot(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *x, const float *w,
                  float *out)
{
    reference_head_dot(device, n, n_head, n_column, x, w, out);
}

void cpu_head_dot_backward_input(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *w,
                                 const float *grad, bool add, float *grad_x)
{
    reference_head_dot_backward_input(device, n, n_head, n_column, w, grad, add, grad_x);
}

void cpu_head_dot_backward_weight(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *x,
                                  const float *grad, void *scratch, float *grad_w)
{
    reference_head_dot_backward_weight(device, n, n_head, n_column, x, grad, scratch, grad_w);
}

void cpu_head_mean(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *x, float *out)
{
    reference_head_mean(device, n, n_head, n_column, x, out);
}

void cpu_head_mean_backward(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *grad,
                            bool add, float *grad_x)
{
    reference_head_mean_backward(device, n, n_head, n_column, grad, add, grad_x);
}
