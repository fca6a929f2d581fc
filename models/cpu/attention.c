/* Attention over neighbours: the calls of the device table, each one pass of kernels_attention.inc.h over a block's
 * rows.
 *
 * One thread processes a row; the next free thread takes the next range of rows of even cost. attention_hub.c has the
 * rows that are too long for that.
 */
#include "models/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* Partial gradients of parameters: one for each of at most this many fixed sets of ranges, for any number of
 * threads. */
static struct cpu_attention attention_over(enum cpu_attention_pass pass, const struct device_attention_rows *rows)
{
    const struct device_attention *how = rows->how;
    bool with_self = rows->begin && rows->with_self;
    struct cpu_attention a = {
        .pass = pass,
        .how = how,
        .key = device_key(&how->key, how->now),
        .block = rows->block,
        .begin = rows->begin,
        .with_self = with_self,
        .end_head = how->n_head,
        .own.n_column = how->n_head * (pass == CPU_ATTENTION_SOURCE ? how->n_column : device_attention_columns(how)),
        .threshold = random_drop_threshold(how->p),
        .keep_scale = (float)(1.0 / (1.0 - how->p)),
        .source = rows->source,
        .self_source = with_self ? rows->self_source : rows->source,
        .target = rows->target,
        .self_target = with_self ? rows->self_target : rows->target,
    };
    for (int i = 0; i < CPU_ATTENTION_RUN; i++) {
        a.bias[i] = how->shift;
        a.bias[CPU_ATTENTION_RUN + i] = -INFINITY;
    }
    return a;
}

static bool is_parallel(const struct cpu_attention *a)
{
    return (a->block->n_row + cpu_n_edge(a->block)) * a->how->n_head * a->how->n_column >= CPU_PARALLEL_MIN;
}

/* Parts of a range, where no sum depends on the cut: a small block has two or three ranges, and a range at a time per
 * thread would leave the others waiting. */
#define RANGE_PARTS 4

/* Units of work of a pass: n sets of ranges, whose sums for parameters' gradients are together, or without sums the
 * parts of all ranges. */
struct units {
    const struct cpu_schedule *schedule;
    int64_t n;
    double *sums; /* n sets of cpu_attention_sums, or NULL */
};

static void run_unit(const struct cpu_device *device, const struct cpu_attention *a, const struct units *units,
                     int64_t unit)
{
    const int64_t *range = units->schedule->range, n_range = units->schedule->n_range;
    if (units->sums == NULL) {
        range += 2 * (unit / RANGE_PARTS);
        int64_t part = unit % RANGE_PARTS, n = range[1] - range[0];
        cpu_attention_rows(device, a, range[0] + part * n / RANGE_PARTS, range[0] + (part + 1) * n / RANGE_PARTS,
                           NULL);
        cpu_between(device);
        return;
    }
    for (int64_t i = unit * n_range / units->n; i < (unit + 1) * n_range / units->n; i++) {
        cpu_attention_rows(device, a, range[2 * i], range[2 * i + 1],
                           units->sums + unit * cpu_attention_sums(a->how));
        cpu_between(device);
    }
}

/* Hub rows first, then all ranges. sums: n_slot sets, or NULL; a range's set depends only on its number. */
static void run_rows(const struct cpu_device *device, const struct cpu_attention *a, int64_t n_slot, double *sums)
{
    struct cpu_small_schedule small;
    const struct cpu_schedule *schedule = cpu_block_schedule(a->block, &small);
    const int64_t n_range = schedule->n_range, n_set = n_slot < n_range ? n_slot : n_range;
    const struct units units = {schedule, sums != NULL ? n_set : n_range * RANGE_PARTS, sums};
    cpu_attention_hub(device, a, n_slot, sums);
    if (!is_parallel(a)) { /* a parallel region of one thread costs more than a small block */
        for (int64_t unit = 0; unit < units.n; unit++) {
            run_unit(device, a, &units, unit);
        }
        return;
    }
    CPU_LOOP_DYNAMIC(
        device, true, for (int64_t unit = 0; unit < units.n; unit++) { run_unit(device, a, &units, unit); });
}

void cpu_attention_forward(struct device *device, const struct device_attention_rows *rows,
                           const struct device_attention_state *state, float *out)
{
    struct cpu_attention a = attention_over(CPU_ATTENTION_FORWARD, rows);
    bool add = rows->how->score == DEVICE_SCORE_ADD;
    a.state = state;
    a.out = out;
    a.own.reads[0] = add ? NULL : rows->target.query;
    a.own.writes[0] = out;
    a.own.writes[1] = add ? state->positive : NULL;
    run_rows(cpu_device(device), &a, INT64_MAX, NULL);
}

static void scale_columns(int64_t n, float scale, float *x)
{
    for (int64_t c = 0; c < n; c++) {
        x[c] *= scale;
    }
}

/* out = out / s, L = m + ln s; a row without edges (m = -inf): out = 0, L = +inf, so that exp(score - L) is 0. */
void cpu_attention_finish(struct device *device, int64_t n, const struct device_attention *how,
                          const struct device_attention_state *state, float *out)
{
    int64_t n_column = device_attention_columns(how), n_head = n * how->n_head;
    CPU_LOOP(
        cpu_device(device), n_head * n_column >= CPU_PARALLEL_MIN, for (int64_t i = 0; i < n_head; i++) {
            float *softmax = state->softmax + 2 * i;
            const bool any = softmax[0] != -INFINITY;
            float scale = any ? 1.0f / softmax[1] : 0.0f;
            scale_columns(n_column, scale, out + i * n_column);
            if (state->positive != NULL) {
                scale_columns(n_column, scale, state->positive + i * n_column);
                state->positive_weight[i] *= scale;
            }
            softmax[0] = any ? softmax[0] + logf(softmax[1]) : INFINITY;
            softmax[1] = 0.0f;
        });
}

void cpu_attention_backward_begin(struct device *device, int64_t n, const struct device_attention *how,
                                  const float *grad_out, const float *out, const struct device_attention_state *state,
                                  bool add, float *grad_query)
{
    const struct cpu_device *cpu = cpu_device(device);
    const struct cpu_attention_begin begin = {how, grad_out, out, state, add, grad_query};
    int64_t width = how->n_head * device_attention_columns(how), step = cpu_step_rows(width);
    CPU_LOOP(
        cpu, n * width >= CPU_PARALLEL_MIN, for (int64_t first = 0; first < n; first += step) {
            cpu->kernels->attention_begin(&begin, first, first + step < n ? first + step : n);
        });
}

/* grad (+)= Σ of the partial gradients, in their order: n of each set. */
static void combine(int64_t n_part, int64_t width, const double *partial, int64_t n, bool begin, float *grad)
{
    for (int64_t c = 0; c < n; c++) {
        double sum = begin ? 0.0 : grad[c];
        for (int64_t i = 0; i < n_part; i++) {
            sum += partial[i * width + c];
        }
        grad[c] = (float)sum;
    }
}

void cpu_attention_backward_query(struct device *device, const struct device_attention_rows *rows, void *scratch,
                                  float *grad_query, float *grad_att, float *grad_edge)
{
    struct cpu_attention a = attention_over(CPU_ATTENTION_QUERY, rows);
    bool add = rows->how->score == DEVICE_SCORE_ADD;
    a.grad_query = grad_query;
    a.own.reads[0] = add ? NULL : rows->target.query;
    a.own.reads[1] = rows->target.grad_out;
    a.own.writes[0] = add ? NULL : grad_query;
    struct cpu_small_schedule small;
    const struct cpu_schedule *schedule = cpu_block_schedule(rows->block, &small);
    int64_t width = cpu_attention_sums(rows->how), n_att = cpu_attention_att_sums(rows->how);
    int64_t n_unit = schedule->n_range > schedule->n_piece ? schedule->n_range : schedule->n_piece;
    int64_t n_part = n_unit < CPU_ATTENTION_PARTIALS ? n_unit : CPU_ATTENTION_PARTIALS;
    double *partial = grad_att != NULL || grad_edge != NULL ? scratch : NULL;
    if (partial != NULL) {
        memset(partial, 0, (size_t)(n_part * width) * sizeof *partial);
    }
    run_rows(cpu_device(device), &a, n_part, partial);
    if (grad_att != NULL) {
        combine(n_part, width, partial, n_att, rows->begin, grad_att);
    }
    if (grad_edge != NULL) {
        combine(n_part, width, partial + n_att, width - n_att, true, grad_edge);
    }
}

void cpu_attention_backward_source(struct device *device, const struct device_attention_rows *rows, float *grad_value,
                                   float *grad_key)
{
    struct cpu_attention a = attention_over(CPU_ATTENTION_SOURCE, rows);
    bool dot = rows->how->score == DEVICE_SCORE_DOT;
    a.rows_are_sources = true;
    a.grad_value = grad_value;
    a.grad_key = grad_key;
    a.own.reads[0] = rows->source.value;
    a.own.reads[1] = dot ? rows->source.key : NULL;
    a.own.writes[0] = grad_value;
    a.own.writes[1] = dot ? grad_key : NULL;
    run_rows(cpu_device(device), &a, INT64_MAX, NULL);
}
