/* Sums by relation. A row's edges of one type are a run, u = Σ_e weight · x[col], which the kernels of sums gather;
 * then
 *   relation_sum   out[row, b] += comp[type, b] · u        relation_dot   grad_comp[type, b] += ⟨u, y[row, b]⟩
 *   picks          out[row] += Σ_b comp[type, b] · u_b, u_b of the columns x[col, b]; without comp of the type's own
 *                  b */
#include "models/cpu/cpu.h"

#include <string.h>

/* Rows of one partial sum of relation_dot: a function only of n, at most 32 chunks. */
#define DOT_ROWS_MIN 256

static int64_t dot_rows(int64_t n)
{
    int64_t rows = (n + CPU_RELATION_CHUNKS - 1) / CPU_RELATION_CHUNKS;
    return rows > DOT_ROWS_MIN ? rows : DOT_ROWS_MIN;
}

/* One call of relation_sum or relation_dot. */
struct relation_call {
    const struct device_block *block;
    const struct cpu_kernels *kernels;
    struct cpu_sum sum;
    int64_t n_base, f;
    bool picks;
    const float *comp;
    float *out;
};

static struct relation_call call_of(struct device *device, const struct device_relation *how, float *out)
{
    return (struct relation_call){.block = how->block,
                                  .kernels = cpu_device(device)->kernels,
                                  .sum = {.cols = how->block->cols,
                                          .n_edge = cpu_n_edge(how->block),
                                          .kind = CPU_WEIGHT_EDGE,
                                          .weight = how->block->weights,
                                          .x = how->x,
                                          .x_stride = how->stride},
                                  .n_base = how->n_base,
                                  .f = how->f,
                                  .picks = how->picks,
                                  .comp = how->comp,
                                  .out = out};
}

/* out[row, b] += comp[type, b] · u over some columns; without comp only the type's own b. */
static void run_mix(const struct relation_call *s, int64_t row, int64_t type, int64_t column, int64_t n,
                    const float *u)
{
    int64_t first = s->comp != NULL ? 0 : type, end = s->comp != NULL ? s->n_base : type + 1;
    for (int64_t b = first; b < end; b++) {
        float factor = s->comp != NULL ? s->comp[type * s->n_base + b] : 1.0f;
        float *to = s->out + (row * s->n_base + b) * s->f + column;
        for (int64_t c = 0; c < n; c++) {
            to[c] += factor * u[c];
        }
    }
}

/* out[row] += Σ_b comp[type, b] · u_b over a run's edges e … next-1; without comp only the type's own b. */
static void run_pick(const struct relation_call *s, int64_t row, int64_t e, int64_t next)
{
    float u[CPU_PARTIAL_COLUMNS];
    int64_t type = s->block->types[e], first = s->comp != NULL ? 0 : type,
            end = s->comp != NULL ? s->n_base : type + 1;
    for (int64_t b = first; b < end; b++) {
        float factor = s->comp != NULL ? s->comp[type * s->n_base + b] : 1.0f;
        for (int64_t column = 0; column < s->f; column += CPU_PARTIAL_COLUMNS) {
            int64_t n = s->f - column < CPU_PARTIAL_COLUMNS ? s->f - column : CPU_PARTIAL_COLUMNS;
            float *to = s->out + row * s->f + column;
            s->kernels->sum_piece(&s->sum, e, next, b * s->f + column, n, u);
            for (int64_t c = 0; c < n; c++) {
                to[c] += factor * u[c];
            }
        }
    }
}

/* Not the reference's, which tests compare with. */
static double dot(int64_t n, const float *x, const float *y)
{
    double sum = 0.0;
    for (int64_t c = 0; c < n; c++) {
        sum += (double)x[c] * y[c];
    }
    return sum;
}

/* Rows first … last-1 of relation_sum; or sum[type, b] += ⟨u, y[row, b]⟩ over them, in double (sum NULL: none). */
static void rows_walk(const struct relation_call *s, const float *y, int64_t first, int64_t last, double *sum)
{
    float u[CPU_PARTIAL_COLUMNS];
    for (int64_t r = first; r < last; r++) {
        int64_t row = device_listed(s->block->rows, r), end = s->block->indptr[r + 1];
        for (int64_t e = s->block->indptr[r], next; e < end; e = next) {
            next = device_relation_end(s->block, e, end);
            if (s->picks && sum == NULL) {
                run_pick(s, row, e, next);
                continue;
            }
            for (int64_t column = 0; column < s->f; column += CPU_PARTIAL_COLUMNS) {
                int64_t n = s->f - column < CPU_PARTIAL_COLUMNS ? s->f - column : CPU_PARTIAL_COLUMNS;
                s->kernels->sum_piece(&s->sum, e, next, column, n, u);
                if (sum == NULL) {
                    run_mix(s, row, s->block->types[e], column, n, u);
                }
                for (int64_t b = 0; b < s->n_base && sum != NULL; b++) {
                    const float *of = y + (row * s->n_base + b) * s->f + column;
                    sum[s->block->types[e] * s->n_base + b] += dot(n, u, of);
                }
            }
        }
    }
}

void cpu_relation_sum(struct device *device, const struct device_relation *how, float *out)
{
    const struct device_block *block = how->block;
    struct cpu_small_schedule small;
    const struct cpu_schedule *schedule = cpu_block_schedule(block, &small);
    const struct relation_call s = call_of(device, how, out);
    bool parallel = cpu_n_edge(block) * how->f >= CPU_PARALLEL_MIN;
    CPU_LOOP_DYNAMIC(
        cpu_device(device), parallel, for (int64_t i = 0; i < schedule->n_range; i++) {
            rows_walk(&s, NULL, schedule->range[2 * i], schedule->range[2 * i + 1], NULL);
            cpu_between(cpu_device(device));
        });
    /* A hub row is not cut into pieces: one thread for each row. */
    CPU_LOOP_DYNAMIC(
        cpu_device(device), schedule->n_piece > 0, for (int64_t p = 0; p < schedule->n_piece; p++) {
            int64_t row = schedule->piece[p].row;
            if (p == 0 || schedule->piece[p - 1].row != row) {
                rows_walk(&s, NULL, row, row + 1, NULL);
            }
        });
}

void cpu_relation_dot(struct device *device, const struct device_relation *how, const float *y, bool add,
                      void *scratch, float *grad_comp)
{
    const struct device_block *block = how->block;
    const struct relation_call s = call_of(device, how, NULL);
    int64_t rows = dot_rows(block->n_row), n_chunk = (block->n_row + rows - 1) / rows,
            n = how->n_relation * how->n_base;
    bool parallel = cpu_n_edge(block) * how->f >= CPU_PARALLEL_MIN;
    double *partial = scratch;
    CPU_LOOP_DYNAMIC(
        cpu_device(device), parallel, for (int64_t k = 0; k < n_chunk; k++) {
            int64_t last = (k + 1) * rows < block->n_row ? (k + 1) * rows : block->n_row;
            memset(partial + k * n, 0, (size_t)n * sizeof *partial);
            rows_walk(&s, y, k * rows, last, partial + k * n);
        });
    for (int64_t i = 0; i < n; i++) {
        double sum = add ? grad_comp[i] : 0.0;
        for (int64_t k = 0; k < n_chunk; k++) {
            sum += partial[k * n + i];
        }
        grad_comp[i] = (float)sum;
    }
}

void cpu_swap_axes(struct device *device, int64_t a, int64_t b, int64_t c, const float *x, float *out)
{
    CPU_LOOP(
        cpu_device(device), a * b * c >= CPU_PARALLEL_MIN, for (int64_t j = 0; j < b; j++) {
            for (int64_t i = 0; i < a; i++) {
                memcpy(out + (j * a + i) * c, x + (i * b + j) * c, (size_t)c * sizeof *out);
            }
        });
}
