/* Element-by-element maps, in steps of rows; the loops with draws or activations are the kernels'. */
#include "models/cpu/cpu.h"

#include <math.h>

/* With the current key of its draws. */
static struct device_activate activate_now(const struct device_activate *activate)
{
    struct device_activate out = *activate;
    out.key = device_key(&activate->key, activate->now);
    return out;
}

void cpu_activate_forward(struct device *device, int64_t n, int64_t f, const struct device_activate *activate,
                          const float *x, float *y)
{
    const struct cpu_device *cpu = cpu_device(device);
    const struct device_activate now = activate_now(activate);
    int64_t step = cpu_step_rows(f);
    CPU_LOOP_DYNAMIC(
        cpu, n * f >= CPU_PARALLEL_MIN, for (int64_t first = 0; first < n; first += step) {
            cpu->kernels->activate_forward(&now, f, first, first + step < n ? first + step : n, x, y);
        });
}

void cpu_activate_backward(struct device *device, int64_t n, int64_t f, const struct device_activate *activate,
                           const float *x, const float *y, const float *grad_y, bool add, float *grad_x)
{
    const struct cpu_device *cpu = cpu_device(device);
    const struct device_activate now = activate_now(activate);
    int64_t step = cpu_step_rows(f);
    CPU_LOOP_DYNAMIC(
        cpu, n * f >= CPU_PARALLEL_MIN, for (int64_t first = 0; first < n; first += step) {
            int64_t end = first + step < n ? first + step : n;
            cpu->kernels->activate_backward(&now, f, first, end, x, y, grad_y, add, grad_x);
        });
}

void cpu_bias_add(struct device *device, int64_t n, int64_t f, const float *x, const float *bias, float *y)
{
    CPU_LOOP(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n; r++) {
            for (int64_t c = 0; c < f; c++) {
                y[r * f + c] = x[r * f + c] + bias[c];
            }
        });
}

void cpu_axpby(struct device *device, int64_t n_value, float a, const float *eps, const float *x, float b,
               const float *y, float *out)
{
    a = eps != NULL ? a + eps[0] : a;
    if (y == NULL) {
        CPU_LOOP(
            cpu_device(device), n_value >= CPU_PARALLEL_MIN,
            for (int64_t i = 0; i < n_value; i++) { out[i] = a * x[i]; });
        return;
    }
    CPU_LOOP(
        cpu_device(device), n_value >= CPU_PARALLEL_MIN,
        for (int64_t i = 0; i < n_value; i++) { out[i] = a * x[i] + b * y[i]; });
}

void cpu_columns_copy(struct device *device, int64_t n, int64_t f, const float *from, int64_t from_width, float *to,
                      int64_t to_width, bool add)
{
    CPU_LOOP(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n; r++) {
            const float *x = from + r * from_width;
            float *y = to + r * to_width;
            for (int64_t c = 0; c < f; c++) {
                y[c] = add ? y[c] + x[c] : x[c];
            }
        });
}

void cpu_max_forward(struct device *device, int64_t n_value, const float *x, const float *y, float *out)
{
    CPU_LOOP(
        cpu_device(device), n_value >= CPU_PARALLEL_MIN,
        for (int64_t i = 0; i < n_value; i++) { out[i] = x[i] >= y[i] || isnan(x[i]) ? x[i] : y[i]; });
}

/* grad (+)= grad_out where x is out, or where it is not */
static void max_backward_one(struct cpu_device *cpu, int64_t n_value, const float *x, const float *out,
                             const float *grad_out, bool equal, bool add, float *grad)
{
    CPU_LOOP(
        cpu, n_value >= CPU_PARALLEL_MIN, for (int64_t i = 0; i < n_value; i++) {
            float share = (x[i] == out[i]) == equal ? grad_out[i] : 0.0f;
            grad[i] = add ? grad[i] + share : share;
        });
}

void cpu_max_backward(struct device *device, int64_t n_value, const float *x, const float *out, const float *grad_out,
                      bool add_x, float *grad_x, bool add_y, float *grad_y)
{
    struct cpu_device *cpu = cpu_device(device);
    if (grad_x != NULL) {
        max_backward_one(cpu, n_value, x, out, grad_out, true, add_x, grad_x);
    }
    if (grad_y != NULL) {
        max_backward_one(cpu, n_value, x, out, grad_out, false, add_y, grad_y);
    }
}
