/* Sums by relation over a block's neighbours, and their products with other rows. */
#include "models/reference/reference.h"

/* u[c] = Σ weight · x[col, c] over a run */
static double run_sum(const struct device_block *block, int64_t begin, int64_t end, int64_t stride, const float *x,
                      int64_t c)
{
    double sum = 0.0;
    for (int64_t e = begin; e < end; e++) {
        sum += (double)block->weights[e] * x[block->cols[e] * stride + c];
    }
    return sum;
}

static void rows_mix(const struct device_relation *how, float *out)
{
    const struct device_block *block = how->block;
    const float *comp = how->comp;
    int64_t n_base = how->n_base, f = how->f;
    for (int64_t r = 0; r < block->n_row; r++) {
        int64_t row = device_listed(block->rows, r), end = block->indptr[r + 1];
        for (int64_t e = block->indptr[r], next; e < end; e = next) {
            int64_t type = block->types[e], first = comp != NULL ? 0 : type, last = comp != NULL ? n_base : type + 1;
            next = device_relation_end(block, e, end);
            for (int64_t c = 0; c < f; c++) {
                double u = run_sum(block, e, next, how->stride, how->x, c);
                for (int64_t b = first; b < last; b++) {
                    float *to = &out[(row * n_base + b) * f + c];
                    *to = (float)(*to + (comp != NULL ? comp[type * n_base + b] * u : u));
                }
            }
        }
    }
}

static void rows_pick(const struct device_relation *how, float *out)
{
    const struct device_block *block = how->block;
    const float *comp = how->comp;
    int64_t n_base = how->n_base, f = how->f;
    for (int64_t r = 0; r < block->n_row; r++) {
        int64_t end = block->indptr[r + 1];
        float *to = &out[device_listed(block->rows, r) * f];
        for (int64_t e = block->indptr[r], next; e < end; e = next) {
            int64_t type = block->types[e], first = comp != NULL ? 0 : type, last = comp != NULL ? n_base : type + 1;
            next = device_relation_end(block, e, end);
            for (int64_t at = first * f; at < last * f; at++) {
                double u = run_sum(block, e, next, how->stride, how->x, at);
                to[at % f] = (float)(to[at % f] + (comp != NULL ? comp[type * n_base + at / f] * u : u));
            }
        }
    }
}

void reference_relation_sum(struct device *device, const struct device_relation *how, float *out)
{
    (void)device;
    (how->picks ? rows_pick : rows_mix)(how, out);
}

void reference_relation_dot(struct device *device, const struct device_relation *how, const float *y, bool add,
                            void *scratch, float *grad_comp)
{
    (void)device;
    const struct device_block *block = how->block;
    int64_t n_base = how->n_base, f = how->f, n = how->n_relation * n_base;
    double *sum = scratch;
    for (int64_t i = 0; i < n; i++) {
        sum[i] = add ? grad_comp[i] : 0.0;
    }
    for (int64_t r = 0; r < block->n_row; r++) {
        int64_t row = device_listed(block->rows, r), end = block->indptr[r + 1];
        for (int64_t e = block->indptr[r], next; e < end; e = next) {
            next = device_relation_end(block, e, end);
            for (int64_t c = 0; c < f; c++) {
                double u = run_sum(block, e, next, how->stride, how->x, c);
                for (int64_t b = 0; b < n_base; b++) {
                    sum[block->types[e] * n_base + b] += u * y[(row * n_base + b) * f + c];
                }
            }
        }
    }
    for (int64_t i = 0; i < n; i++) {
        grad_comp[i] = (float)sum[i];
    }
}

void reference_swap_axes(struct device *device, int64_t a, int64_t b, int64_t c, const float *x, float *out)
{
    (void)device;
    for (int64_t i = 0; i < a * b * c; i++) {
        int64_t from_a = i / c / b, from_b = i / c % b;
        out[(from_b * a + from_a) * c + i % c] = x[i];
    }
}
