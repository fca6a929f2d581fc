/* Sums and maxima over a block's neighbours, and packing of payload rows. */
#include "models/reference/reference.h"

#include <math.h>
#include <string.h>

static double element(const struct device_aggregate *how, int64_t f, const void *x, int64_t row, int64_t c)
{
    return how->is_bf16 ? (double)reference_bf16(f, x, row, c) : (double)((const float *)x)[row * f + c];
}

void reference_aggregate_sum(struct device *device, const struct device_block *block,
                             const struct device_aggregate *how, int64_t f, const void *x, float *out)
{
    (void)device;
    for (int64_t r = 0; r < block->n_row; r++) {
        int64_t row = device_listed(block->rows, r);
        for (int64_t c = 0; c < f; c++) {
            double sum = how->begin || how->apart ? 0.0 : out[row * f + c];
            if (how->begin && how->self != NULL) {
                sum = element(how, f, how->self, row, c) *
                      (how->self_scale != NULL ? (double)how->self_scale[row] : 1.0);
            }
            for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
                int64_t col = block->cols[e];
                double weight = block->weights != NULL && block->types == NULL ? (double)block->weights[e] : 1.0;
                sum += element(how, f, x, col, c) * weight *
                       (how->col_scale != NULL ? (double)how->col_scale[col] : 1.0);
            }
            sum = how->apart ? out[row * f + c] + (double)(float)sum
                             : sum; /* a partial sum travels in single precision */
            out[row * f + c] = (float)(how->finish && how->row_scale != NULL ? sum * how->row_scale[row] : sum);
        }
    }
}

void reference_aggregate_max(struct device *device, const struct device_block *block, const struct device_max *how,
                             int64_t f, const float *x, float *out, uint32_t *arg)
{
    (void)device;
    for (int64_t r = 0; r < block->n_row; r++) {
        int64_t row = device_listed(block->rows, r);
        for (int64_t c = 0; c < f; c++) {
            float best = how->begin ? -INFINITY : out[row * f + c];
            uint32_t place = how->begin ? UINT32_MAX : arg[row * f + c];
            if (how->begin && how->self != NULL) {
                best = how->self[row * f + c];
                place = how->arg_base + (uint32_t)row;
            }
            for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
                float value = x[block->cols[e] * f + c];
                if (value > best || isnan(value)) {
                    best = value;
                    place = how->arg_base + block->cols[e];
                }
            }
            out[row * f + c] = best;
            arg[row * f + c] = place;
        }
    }
    for (int64_t i = 0; i < how->n_finish * f; i++) {
        if (arg[i] == UINT32_MAX) {
            out[i] = 0.0f;
        }
    }
}

void reference_aggregate_max_backward(struct device *device, const struct device_block *block, uint32_t arg_base,
                                      int64_t f, const uint32_t *arg, const float *grad_out, float *grad_x)
{
    reference_fill_zero(device, grad_x, (size_t)(block->n_col * f) * sizeof *grad_x);
    for (int64_t r = 0; r < block->n_row; r++) {
        int64_t row = device_listed(block->rows, r);
        for (int64_t c = 0; c < f; c++) {
            uint32_t place = arg[row * f + c] - arg_base; /* wraps to a large number below arg_base */
            if (place < block->n_col) {
                grad_x[place * f + c] += grad_out[row * f + c];
            }
        }
    }
}

void reference_rows_gather(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor,
                           const float *x, float *out)
{
    (void)device;
    for (int64_t r = 0; r < n_row; r++) {
        memcpy(out + r * f, x + rows[r] * f, (size_t)f * sizeof *out);
        for (int64_t c = 0; factor != 1.0F && c < f; c++) {
            out[r * f + c] *= factor;
        }
    }
}

void reference_rows_add(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor,
                        const float *x, float *out)
{
    (void)device;
    for (int64_t r = 0; r < n_row; r++) {
        for (int64_t c = 0; c < f; c++) {
            float *to = &out[device_listed(rows, r) * f + c];
            *to = (float)(*to + (double)factor * x[r * f + c]);
        }
    }
}
