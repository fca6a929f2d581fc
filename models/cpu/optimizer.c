/* One step of SGD, Adam and AdamW: torch.optim's order of operations in float, its bias corrections in double; and
 * the factor that clips all gradients. */
#include "models/cpu/cpu.h"

#include <math.h>

static float clip_of(const struct device_step *how)
{
    return how->clip != NULL ? (float)*how->clip : 1.0f;
}

/* 1: infinite or not a number. From the bits, so that loops stay vectors. */
static uint32_t is_not_finite(float x)
{
    union {
        float value;
        uint32_t bits;
    } both = {.value = x};
    return (both.bits & 0x7f800000U) == 0x7f800000U;
}

/* source  torch.optim.SGD: g += wd·w · m = momentum·m + g · w −= lr·m (m starts at zero) */
static uint32_t sgd(const struct cpu_device *device, const struct device_step *how, int64_t n_value,
                    const float *grad, float *w, float *m)
{
    const float lr = (float)how->now->lr, decay = (float)how->weight_decay, momentum = (float)how->momentum,
                clip = clip_of(how);
    uint32_t found = 0;
    CPU_LOOP_AS(
        "omp parallel for num_threads(n_loop_thread) reduction(| : found)", device, n_value >= CPU_PARALLEL_MIN,
        for (int64_t i = 0; i < n_value; i++) {
            float g = grad[i] * clip + decay * w[i];
            if (momentum != 0.0f) {
                g = momentum * m[i] + g;
                m[i] = g;
            }
            w[i] -= lr * g;
            found |= is_not_finite(w[i]);
        });
    return found;
}

/* source  torch.optim.Adam and AdamW: m += (1−β₁)(g−m) · v = β₂v + (1−β₂)g² · w −= lr/(1−β₁ᵗ) · m / (√v/√(1−β₂ᵗ) +
 *         ε) */
static uint32_t adam(const struct cpu_device *device, const struct device_step *how, int64_t n_value,
                     const float *grad, float *w, float *m, float *v)
{
    const struct device_now *now = how->now;
    const bool decoupled = how->optimizer == DEVICE_OPTIMIZER_ADAMW;
    const float decay = decoupled ? 0.0f : (float)how->weight_decay;
    const float keep = decoupled ? (float)(1.0 - now->lr * how->weight_decay) : 1.0f;
    const float first = (float)(1.0 - how->beta1), beta2 = (float)how->beta2, second = (float)(1.0 - how->beta2);
    const float step = (float)(now->lr / now->correction_1);
    const float root = (float)sqrt(now->correction_2), epsilon = (float)how->epsilon, clip = clip_of(how);
    uint32_t found = 0;
    CPU_LOOP_AS(
        "omp parallel for num_threads(n_loop_thread) reduction(| : found)", device, n_value >= CPU_PARALLEL_MIN,
        for (int64_t i = 0; i < n_value; i++) {
            float weight = w[i] * keep;
            float g = grad[i] * clip + decay * weight;
            m[i] += first * (g - m[i]);
            v[i] = beta2 * v[i] + second * g * g;
            w[i] = weight - step * (m[i] / (sqrtf(v[i]) / root + epsilon));
            found |= is_not_finite(w[i]);
        });
    return found;
}

/* Some weight is not finite: is a gradient? Such a one leaves no weight that is. */
static void not_finite_note(const struct device_step *how, int64_t n_value, const float *grad)
{
    int64_t i = 0;
    while (i < n_value && isfinite(grad[i])) {
        i++;
    }
    uint32_t found = i < n_value ? how->gradient : how->weight;
    *how->not_finite = found > *how->not_finite ? found : *how->not_finite;
}

void cpu_step(struct device *device, const struct device_step *how, int64_t n_value, const float *grad, float *w,
              float *m, float *v)
{
    if (how->loss != NULL && !isfinite(*how->loss)) {
        return;
    }
    bool is_sgd = how->optimizer == DEVICE_OPTIMIZER_SGD;
    uint32_t found = is_sgd ? sgd(cpu_device(device), how, n_value, grad, w, m)
                            : adam(cpu_device(device), how, n_value, grad, w, m, v);
    if (found != 0 && how->not_finite != NULL) {
        not_finite_note(how, n_value, grad);
    }
}

/* Independent sums keep the adders busy: element i goes to sum i mod LANES, and then the sums are added, in order. */
#define LANES 256

void cpu_squares_add(struct device *device, int64_t n, const float *x, double *sum)
{
    (void)device;
    double lane[LANES] = {0.0}, all = 0.0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            lane[j] += (double)x[i + j] * x[i + j];
        }
    }
    for (int j = 0; i + j < n; j++) {
        lane[j] += (double)x[i + j] * x[i + j];
    }
    for (int j = 0; j < LANES; j++) {
        all += lane[j];
    }
    *sum += all;
}
