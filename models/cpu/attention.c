/* Attention over neighbours: even ranges of rows to whichever thread is free; hub rows: attention_hub.c. */
#include "models/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* Partial gradients of att, each over the same rows whoever adds them. */
#define ATT_PARTIALS 128

static struct cpu_attention attention_over(enum cpu_attention_pass pass, const struct device_block *block,
                                           const struct device_attention *how, bool begin, bool with_self)
{
    return (struct cpu_attention){
        .pass = pass,
        .how = how,
        .block = block,
        .begin = begin,
        .with_self = begin && with_self,
        .end_head = how->n_head,
        .threshold = random_drop_threshold(how->p),
        .keep_scale = (float)(1.0 / (1.0 - how->p)),
    };
}

static bool is_parallel(const struct cpu_attention *a)
{
    return (a->block->n_row + a->block->n_edge) * a->how->n_head * a->how->n_column >= CPU_PARALLEL_MIN;
}

/* grad_att: n_slot sets of n_head · n_column, or NULL; a range's set depends on its number alone. */
static void run_rows(const struct cpu_device *device, const struct cpu_attention *a, int64_t n_slot, double *grad_att)
{
    const struct cpu_schedule *schedule = a->block->schedule;
    const int64_t n_range = schedule->n_range, width = a->how->n_head * a->how->n_column;
    cpu_attention_hub(device, a, n_slot, grad_att);
    n_slot = n_slot < n_range ? n_slot : n_range;
#pragma omp parallel for num_threads(device->n_thread) schedule(dynamic) if (is_parallel(a))
    for (int64_t slot = 0; slot < n_slot; slot++) {
        double *sum = grad_att != NULL ? grad_att + slot * width : NULL;
        for (int64_t i = slot * n_range / n_slot; i < (slot + 1) * n_range / n_slot; i++) {
            device->kernels->attention_rows(a, schedule->range[2 * i], schedule->range[2 * i + 1], sum);
        }
    }
}

void cpu_attention_forward(struct device *device, const struct device_block *block, const struct device_attention *how,
                           bool begin, const struct device_attention_source *self,
                           const struct device_attention_source *payload, const float *query,
                           const struct device_attention_state *state, float *out)
{
    struct cpu_attention a = attention_over(CPU_ATTENTION_FORWARD, block, how, begin, self != NULL);
    a.source = *payload;
    a.self_source = a.with_self ? *self : *payload;
    a.target.query = query;
    a.state = state;
    a.out = out;
    a.own_reads[0] = how->score == DEVICE_SCORE_ADD ? NULL : query;
    a.own_writes[0] = out;
    a.own_writes[1] = how->score == DEVICE_SCORE_ADD ? state->positive : NULL;
    run_rows(cpu_device(device), &a, INT64_MAX, NULL);
}

static void scale_columns(int64_t n, float scale, float *x)
{
    for (int64_t c = 0; c < n; c++) {
        x[c] *= scale;
    }
}

void cpu_attention_finish(struct device *device, int64_t n, const struct device_attention *how,
                          const struct device_attention_state *state, float *out)
{
    int64_t n_column = how->n_column, n_head = n * how->n_head;
#pragma omp parallel for num_threads(cpu_device(device)->n_thread) if (n_head * n_column >= CPU_PARALLEL_MIN)
    for (int64_t i = 0; i < n_head; i++) {
        float *softmax = state->softmax + 2 * i;
        float scale = softmax[1] == 0.0f ? 0.0f : 1.0f / softmax[1];
        scale_columns(n_column, scale, out + i * n_column);
        if (state->positive != NULL) {
            scale_columns(n_column, scale, state->positive + i * n_column);
            state->positive_weight[i] *= scale;
        }
        softmax[0] = softmax[1] == 0.0f ? INFINITY : softmax[0] + logf(softmax[1]);
        softmax[1] = 0.0f;
    }
}

void cpu_attention_backward_begin(struct device *device, int64_t n, const struct device_attention *how, const float *grad_out,
                                  const float *out, const struct device_attention_state *state, bool add, float *grad_query)
{
    const struct cpu_device *cpu = cpu_device(device);
    const struct cpu_attention_begin begin = {how, grad_out, out, state, add, grad_query};
    int64_t step = cpu_step_rows(how->n_head * how->n_column);
#pragma omp parallel for num_threads(cpu->n_thread) if (n * how->n_head * how->n_column >= CPU_PARALLEL_MIN)
    for (int64_t first = 0; first < n; first += step) {
        cpu->kernels->attention_begin(&begin, first, first + step < n ? first + step : n);
    }
}

void cpu_attention_backward_query(struct device *device, const struct device_block *block, const struct device_attention *how,
                                  bool begin, const struct device_attention_source *self,
                                  const struct device_attention_source *payload, const struct device_attention_target *own,
                                  void *scratch, float *grad_query, float *grad_att)
{
    struct cpu_attention a = attention_over(CPU_ATTENTION_QUERY, block, how, begin, self != NULL);
    a.source = *payload;
    a.self_source = a.with_self ? *self : *payload;
    a.target = *own;
    a.grad_query = grad_query;
    a.own_reads[0] = own->query;
    a.own_reads[1] = own->grad_out;
    a.own_writes[0] = grad_query;
    const struct cpu_schedule *schedule = block->schedule;
    int64_t width = how->n_head * how->n_column;
    int64_t n_unit = schedule->n_range > schedule->n_piece ? schedule->n_range : schedule->n_piece;
    int64_t n_part = n_unit < ATT_PARTIALS ? n_unit : ATT_PARTIALS;
    double *partial = grad_att != NULL ? scratch : NULL;
    if (partial != NULL) {
        memset(partial, 0, (size_t)(n_part * width) * sizeof *partial);
    }
    run_rows(cpu_device(device), &a, n_part, partial);
    for (int64_t c = 0; grad_att != NULL && c < width; c++) {
        double sum = begin ? 0.0 : grad_att[c];
        for (int64_t i = 0; i < n_part; i++) {
            sum += partial[i * width + c];
        }
        grad_att[c] = (float)sum;
    }
}

size_t cpu_attention_scratch(int64_t n_row, const struct device_attention *how)
{
    (void)n_row;
    return how->score == DEVICE_SCORE_MLP ? (size_t)(ATT_PARTIALS * how->n_head * how->n_column) * sizeof(double) : 0;
}

void cpu_attention_backward_source(struct device *device, const struct device_block *block, const struct device_attention *how,
                                   bool begin, const struct device_attention_target *self,
                                   const struct device_attention_target *payload, const struct device_attention_source *own,
                                   float *grad_value, float *grad_key)
{
    struct cpu_attention a = attention_over(CPU_ATTENTION_SOURCE, block, how, begin, self != NULL);
    a.rows_are_sources = true;
    a.source = *own;
    a.target = *payload;
    a.self_target = a.with_self ? *self : *payload;
    a.grad_value = grad_value;
    a.grad_key = grad_key;
    a.own_reads[0] = own->value;
    a.own_reads[1] = how->score == DEVICE_SCORE_DOT ? own->key : NULL;
    a.own_writes[0] = grad_value;
    a.own_writes[1] = how->score == DEVICE_SCORE_DOT ? grad_key : NULL;
    run_rows(cpu_device(device), &a, INT64_MAX, NULL);
}
