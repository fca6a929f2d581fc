/* Feature rows in CSR: their product with a weight, the weight's gradient, dropout of the stored values. */
#include "models/reference/reference.h"

/* y = X wᵀ + bias */
static void product(const struct device_csr *csr, const struct device_csr_linear *how, float *y)
{
    const float *x = how->values != NULL ? how->values : csr->values;
    for (int64_t r = 0; r < csr->n_row; r++) {
        for (int64_t o = 0; o < how->f_out; o++) {
            double sum = how->bias != NULL ? how->bias[o] : 0.0;
            for (int64_t e = csr->indptr[r]; e < csr->indptr[r + 1]; e++) {
                sum += (double)x[e] * how->w[o * csr->n_col + csr->cols[e]];
            }
            y[r * how->f_out + o] = (float)sum;
        }
    }
}

/* The value of the k-th row with a column of its own. */
static double own_value(const struct device_csr *csr, const struct device_csr_linear *how, int64_t k)
{
    return how->values != NULL ? how->values[csr->n_value + k] : 1.0;
}

void reference_csr_forward(struct device *device, const struct device_csr *csr, const struct device_csr_linear *how,
                           float *y)
{
    (void)device;
    const int64_t f = how->f_out;
    if (how->w != NULL) {
        product(csr, how, y);
    }
    for (int64_t k = 0; how->table != NULL && k < csr->n_embedded; k++) {
        for (int64_t c = 0; c < f; c++) {
            float *to = &y[csr->embedded_rows[k] * f + c];
            *to = (float)(*to + own_value(csr, how, k) * how->table[k * f + c]);
        }
    }
}

/* Row o of grad_w at a time: Σ_r grad_y[r, o] · X[r, :]; scratch holds that row in double. */
static void product_backward(const struct device_csr *csr, const struct device_csr_linear *how, const float *grad_y,
                             float *grad_w)
{
    const int64_t f_out = how->f_out;
    const float *x = how->values != NULL ? how->values : csr->values;
    double *sum = how->scratch;
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

void reference_csr_backward(struct device *device, const struct device_csr *csr, const struct device_csr_linear *how,
                            const float *grad_y, float *grad_w, float *grad_table)
{
    (void)device;
    const int64_t f = how->f_out;
    if (grad_w != NULL) {
        product_backward(csr, how, grad_y, grad_w);
    }
    for (int64_t k = 0; grad_table != NULL && k < csr->n_embedded; k++) {
        for (int64_t c = 0; c < f; c++) {
            grad_table[k * f + c] = (float)own_value(csr, how, k) * grad_y[csr->embedded_rows[k] * f + c];
        }
    }
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
            out[e] = drop(activate, (uint32_t)r, device_csr_column(csr, csr->cols[e]), csr->values[e]);
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
            out[r * width + device_csr_column(csr, csr->cols[e])] = csr->values[e];
        }
    }
    for (int64_t k = 0; k < csr->n_embedded; k++) {
        out[csr->embedded_rows[k] * width + csr->embedded_columns[k]] = 1.0f;
    }
}
