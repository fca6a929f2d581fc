/* One step of SGD, Adam and AdamW, as torch.optim defines them. */
#include "models/reference/reference.h"

#include <math.h>

/* source  torch.optim.SGD: g += wd·w · m = momentum·m + g · w −= lr·m (m starts at zero) */
static void sgd_step(const struct device_step *how, double grad, float *w, float *m)
{
    grad += how->weight_decay * *w;
    if (how->momentum != 0.0) {
        grad += how->momentum * *m;
        *m = (float)grad;
    }
    *w = (float)(*w - how->now->lr * grad);
}

/* source  Kingma & Ba, ICLR 2015, algorithm 1; Loshchilov & Hutter, ICLR 2019, algorithm 2 (decoupled decay) */
static void adam_step(const struct device_step *how, double grad, float *w, float *m, float *v)
{
    double weight = *w;
    if (how->optimizer == DEVICE_OPTIMIZER_ADAMW) {
        weight -= how->now->lr * how->weight_decay * weight;
    } else {
        grad += how->weight_decay * weight;
    }
    double first = how->beta1 * *m + (1.0 - how->beta1) * grad;
    double second = how->beta2 * *v + (1.0 - how->beta2) * grad * grad;
    double first_hat = first / how->now->correction_1;
    double second_hat = second / how->now->correction_2;
    *w = (float)(weight - how->now->lr * first_hat / (sqrt(second_hat) + how->epsilon));
    *m = (float)first;
    *v = (float)second;
}

void reference_squares_add(struct device *device, int64_t n, const float *x, double *sum)
{
    (void)device;
    for (int64_t i = 0; i < n; i++) {
        *sum += (double)x[i] * x[i];
    }
}

/* source  torch.nn.utils.clip_grad_norm_ */
void reference_clip_factor(struct device *device, double most, const double *squares, struct device_now *now)
{
    (void)device;
    double factor = most / (sqrt(*squares) + 1e-6);
    now->grad_norm = sqrt(*squares);
    now->clip = factor > 1.0 ? 1.0 : factor; /* NaN stays NaN */
}

void reference_step(struct device *device, const struct device_step *how, int64_t n_value, const float *grad,
                    float *w, float *m, float *v)
{
    (void)device;
    if (how->loss != NULL && !isfinite(*how->loss)) {
        return;
    }
    double clip = how->clip != NULL ? *how->clip : 1.0;
    uint32_t found = 0;
    for (int64_t i = 0; i < n_value; i++) {
        if (how->optimizer == DEVICE_OPTIMIZER_SGD) {
            sgd_step(how, clip * grad[i], &w[i], m != NULL ? &m[i] : NULL);
        } else {
            adam_step(how, clip * grad[i], &w[i], &m[i], &v[i]);
        }
        found = !isfinite(grad[i]) ? how->gradient : !isfinite(w[i]) && found == 0 ? how->weight : found;
    }
    if (how->not_finite != NULL && found > *how->not_finite) {
        *how->not_finite = found;
    }
}
