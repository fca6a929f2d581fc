/* Rows seen as heads of columns: a product of each head with a vector of its own, and the mean over heads. */
#include "models/reference/reference.h"

void reference_head_dot(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *x,
                        const float *w, float *out)
{
    (void)device;
    for (int64_t i = 0; i < n * n_head; i++) {
        out[i] = (float)reference_product(n_column, x + i * n_column, w + i % n_head * n_column);
    }
}

void reference_head_dot_backward_input(struct device *device, int64_t n, int64_t n_head, int64_t n_column,
                                       const float *w, const float *grad, bool add, float *grad_x)
{
    (void)device;
    for (int64_t i = 0; i < n * n_head; i++) {
        for (int64_t c = 0; c < n_column; c++) {
            double product = (double)grad[i] * w[i % n_head * n_column + c];
            grad_x[i * n_column + c] = (float)(add ? grad_x[i * n_column + c] + product : product);
        }
    }
}

static void mean_backward(int64_t n, int64_t n_head, int64_t n_column, const float *grad, bool add, float *grad_x)
{
    for (int64_t i = 0; i < n * n_head; i++) {
        for (int64_t c = 0; c < n_column; c++) {
            double share = grad[i / n_head * n_column + c] / (double)n_head;
            grad_x[i * n_column + c] = (float)(add ? grad_x[i * n_column + c] + share : share);
        }
    }
}

void reference_head_mean(struct device *device, int64_t n, int64_t n_head, int64_t n_column, bool backward,
                         const float *from, bool add, float *to)
{
    (void)device;
    if (backward) {
        mean_backward(n, n_head, n_column, from, add, to);
        return;
    }
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < n_column; c++) {
            double sum = 0.0;
            for (int64_t h = 0; h < n_head; h++) {
                sum += from[(r * n_head + h) * n_column + c];
            }
            to[r * n_column + c] = (float)(sum / (double)n_head);
        }
    }
}
