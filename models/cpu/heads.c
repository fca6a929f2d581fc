/* Rows seen as heads of columns: a product of each head with a vector of its own, and the mean over heads. */
#include "models/cpu/cpu.h"

#include <string.h>

void cpu_head_dot(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *x, const float *w,
                  float *out)
{
    const struct cpu_device *cpu = cpu_device(device);
    int64_t step = cpu_step_rows(n_head * n_column);
    CPU_LOOP(
        cpu, n * n_head * n_column >= CPU_PARALLEL_MIN, for (int64_t first = 0; first < n; first += step) {
            cpu->kernels->head_dot(n_head, n_column, x, w, first, first + step < n ? first + step : n, out);
        });
}

void cpu_head_dot_backward_input(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *w,
                                 const float *grad, bool add, float *grad_x)
{
    CPU_LOOP(
        cpu_device(device), n * n_head * n_column >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n; r++) {
            for (int64_t h = 0; h < n_head; h++) {
                float *to = grad_x + (r * n_head + h) * n_column, g = grad[r * n_head + h];
                for (int64_t c = 0; c < n_column; c++) {
                    float product = g * w[h * n_column + c];
                    to[c] = add ? to[c] + product : product;
                }
            }
        });
}

static void mean_forward(struct cpu_device *cpu, int64_t n, int64_t n_head, int64_t n_column, const float *x,
                         float *out)
{
    float share = 1.0f / (float)n_head;
    CPU_LOOP(
        cpu, n * n_head * n_column >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n; r++) {
            const float *row = x + r * n_head * n_column;
            float *to = out + r * n_column;
            memcpy(to, row, (size_t)n_column * sizeof *to);
            for (int64_t h = 1; h < n_head; h++) {
                for (int64_t c = 0; c < n_column; c++) {
                    to[c] += row[h * n_column + c];
                }
            }
            for (int64_t c = 0; c < n_column; c++) {
                to[c] *= share;
            }
        });
}

static void mean_backward(struct cpu_device *cpu, int64_t n, int64_t n_head, int64_t n_column, const float *grad,
                          bool add, float *grad_x)
{
    float share = 1.0f / (float)n_head;
    CPU_LOOP(
        cpu, n * n_head * n_column >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n; r++) {
            for (int64_t h = 0; h < n_head; h++) {
                float *to = grad_x + (r * n_head + h) * n_column;
                for (int64_t c = 0; c < n_column; c++) {
                    float part = share * grad[r * n_column + c];
                    to[c] = add ? to[c] + part : part;
                }
            }
        });
}

void cpu_head_mean(struct device *device, int64_t n, int64_t n_head, int64_t n_column, bool backward,
                   const float *from, bool add, float *to)
{
    if (backward) {
        mean_backward(cpu_device(device), n, n_head, n_column, from, add, to);
    } else {
        mean_forward(cpu_device(device), n, n_head, n_column, from, to);
    }
}
