/* Feature rows in CSR: their product with a weight, the weight's gradient, dropout of the stored values. */
#include "models/reference/reference.h"

void reference_csr_linear_forward(struct device *device, const struct device_csr *csr, const float *values,
                                  int64_t f_out, const float *w, const float *bias, void *scratch, float *y)
{
    (void)device;
    (void)scratch;
    const float *x = values != NULL ? values : csr->values;
    for (int64_t r = 0; r < csr->n_row; r++) {
        for (int64_t o = 0; o < f_out; o++) {
            double sum = bias != NULL ? bias[o] : 0.0;
            for (int64_t e = csr->indptr[r]; e < csr->indptr[r + 1]; e++) {
                sum += (double)x[e] * w[o * csr->n_col + csr->cols[e]];
            }
            y[r * f_out + o] = (float)sum;
        }
    }
}

/* Row o of grad_w at a time: Σ_r grad_y[r, o] · X[r, :]; scratch holds that row in double. */
void reference_csr_linear_backward_weight(struct device *device, const struct device_csr *csr, const float *values,
                                          int64_t f_out, const float *grad_y, void *scratch, float *grad_w)
{
    (void)device;
    const float *x = values != NULL ? values : csr->values;
    double *sum = scratch;
    for (int64_t o = 0; o < f_out; o++) {
        for (int64_t c = 0; c < csr->n_col; c++) {
            sum[c] = 0.0;
        }
        for (int64_t r = 0; r < csr->n_row; r++) {
            for (int64_t e = csr->indptr[r]; e < csr->indptr[r + 1]; e++) {
                sum[csr->cols[e]] += (double)x[e] * grad_y[r * f_out + o];
            }
        }
        for (int64_t c = 0; c < csr->n_col; c++) {
            grad_w[o * csr->n_col + c] = (float)sum[c];
        }
    }
}

size_t reference_csr_linear_scratch(int64_t n_col, int64_t f_out)
{
    (void)f_out;
    return (size_t)n_col * sizeof(double);
}

void reference_csr_embed_forward(struct device *device, const struct device_csr *csr, const float *values, int64_t f,
                                 const float *table, float *y)
{
    (void)device;
    for (int64_t k = 0; k < csr->n_embedded; k++) {
        for (int64_t c = 0; c < f; c++) {
            float *to = &y[csr->embedded_rows[k] * f + c];
            *to = (float)(*to + (values != NULL ? (double)values[csr->n_value + k] : 1.0) * table[k * f + c]);
        }
    }
}

void reference_csr_embed_backward(struct device *device, const struct device_csr *csr, const float *values, int64_t f,
                                  const float *grad_y, float *grad_table)
{
    (void)device;
    for (int64_t k = 0; k < csr->n_embedded; k++) {
        for (int64_t c = 0; c < f; c++) {
            grad_table[k * f + c] = (values != NULL ? values[csr->n_value + k] : 1.0f) *
                                    grad_y[csr->embedded_rows[k] * f + c];
        }
    }
}

/* The number of a shared column among all. */
static uint32_t column_of(const struct device_csr *csr, uint32_t shared)
{
    return csr->embedded != NULL ? (uint32_t)embedded_column(csr->embedded, shared) : shared;
}

static float drop(const struct device_activate *activate, uint32_t row, uint32_t column, float value)
{
    const struct random_key key = device_key(&activate->key, activate->now);
    bool dropped = activate->p > 0.0 &&
                   random_u32(&key, activate->node[row], column) < random_drop_threshold(activate->p);
    return dropped ? 0.0f : (float)(value * (1.0 / (1.0 - activate->p)));
}

void reference_csr_dropout(struct device *device, const struct device_csr *csr,
                           const struct device_activate *activate, float *out)
{
    (void)device;
    for (int64_t r = 0; r < csr->n_row; r++) {
        for (int64_t e = csr->indptr[r]; e < csr->indptr[r + 1]; e++) {
            out[e] = drop(activate, (uint32_t)r, column_of(csr, csr->cols[e]), csr->values[e]);
        }
    }
    for (int64_t k = 0; k < csr->n_embedded; k++) {
        out[csr->n_value + k] = drop(activate, csr->embedded_rows[k], csr->embedded_columns[k], 1.0f);
    }
}

void reference_csr_dense(struct device *device, const struct device_csr *csr, float *out)
{
    int64_t width = csr->n_col + (csr->embedded != NULL ? embedded_count(csr->embedded) : 0);
    reference_fill_zero(device, out, (size_t)(csr->n_row * width) * sizeof *out);
    for (int64_t r = 0; r < csr->n_row; r++) {
        for (int64_t e = csr->indptr[r]; e < csr->indptr[r + 1]; e++) {
            out[r * width + column_of(csr, csr->cols[e])] = csr->values[e];
        }
    }
    for (int64_t k = 0; k < csr->n_embedded; k++) {
        out[csr->embedded_rows[k] * width + csr->embedded_columns[k]] = 1.0f;
    }
}
