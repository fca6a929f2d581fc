/* One step of SGD, Adam and AdamW, and the factor that clips gradients, with the same roundings as
 * models/cpu/optimizer.c. Values that change from step to step are in device memory. */
#include "models/cuda/kernel.h"

/* A step, as its kernels take it. */
struct rule {
    double weight_decay, beta1, beta2, epsilon, momentum;
    const struct device_now *now;
    const double *loss; /* if it is not finite nothing is stepped; NULL: always step */
    const double *clip; /* NULL: 1 */
    uint32_t *not_finite;
    uint32_t weight, gradient;
};

static __device__ __forceinline__ bool is_due(const rule &how)
{
    return how.loss == nullptr || isfinite(*how.loss);
}

static __device__ __forceinline__ float clip_of(const rule &how)
{
    return how.clip != nullptr ? (float)*how.clip : 1.0F;
}

/* Of a new weight. */
static __device__ __forceinline__ void look(const rule &how, float w, float grad)
{
    if (!isfinite(w) && how.not_finite != nullptr) {
        atomicMax(how.not_finite, isfinite(grad) ? how.weight : how.gradient);
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    sgd_step(const rule how, int64_t n_value, const float *grad, float *w, float *m)
{
    const float lr = (float)how.now->lr, decay = (float)how.weight_decay, momentum = (float)how.momentum,
                clip = clip_of(how);
    for (int64_t i = grid_thread(); is_due(how) && i < n_value; i += grid_threads()) {
        float g = grad[i] * clip + decay * w[i];
        if (momentum != 0.0F) {
            g = momentum * m[i] + g;
            m[i] = g;
        }
        w[i] = w[i] - lr * g;
        look(how, w[i], grad[i]);
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    adam_step(const rule how, bool decoupled, int64_t n_value, const float *grad, float *w, float *m, float *v)
{
    const struct device_now *now = how.now;
    const float decay = decoupled ? 0.0F : (float)how.weight_decay;
    const float keep = decoupled ? (float)(1.0 - now->lr * how.weight_decay) : 1.0F;
    const float first = (float)(1.0 - how.beta1), beta2 = (float)how.beta2, second = (float)(1.0 - how.beta2);
    const float step = (float)(now->lr / now->correction_1);
    const float root = (float)sqrt(now->correction_2), epsilon = (float)how.epsilon, clip = clip_of(how);
    for (int64_t i = grid_thread(); is_due(how) && i < n_value; i += grid_threads()) {
        const float weight = w[i] * keep;
        const float g = grad[i] * clip + decay * weight;
        const float m_new = m[i] + first * (g - m[i]);
        const float v_new = beta2 * v[i] + second * g * g;
        m[i] = m_new;
        v[i] = v_new;
        w[i] = weight - step * (m_new / (sqrtf(v_new) / root + epsilon));
        look(how, w[i], grad[i]);
    }
}

extern "C" void cuda_step(struct device *device, const struct device_step *how, int64_t n_value, const float *grad,
                          float *w, float *m, float *v)
{
    const rule rule = {how->weight_decay, how->beta1, how->beta2,      how->epsilon, how->momentum, how->now,
                       how->loss,         how->clip,  how->not_finite, how->weight,  how->gradient};
    const dim3 grid(grid_size(n_value, BLOCK_THREADS)), block(BLOCK_THREADS);
    if (n_value == 0) {
        return;
    }
    if (how->optimizer == DEVICE_OPTIMIZER_SGD) {
        LAUNCH(sgd_step, grid, block, cuda_stream(device), rule, n_value, grad, w, m);
    } else {
        LAUNCH(adam_step, grid, block, cuda_stream(device), rule, how->optimizer == DEVICE_OPTIMIZER_ADAMW, n_value,
               grad, w, m, v);
    }
}

/* One block: thread t adds up elements t, t + 256, …, and then thread 0 the threads' sums, in order. */
__global__ void __launch_bounds__(BLOCK_THREADS) squares(int64_t n, const float *x, double *sum)
{
    SHARED(double, kept, BLOCK_THREADS);
    double own = 0.0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK_THREADS) {
        own += (double)x[i] * (double)x[i];
    }
    kept[threadIdx.x] = own;
    __syncthreads();
    double all = 0.0;
    for (int t = 0; threadIdx.x == 0 && t < BLOCK_THREADS; t++) {
        all += kept[t];
    }
    if (threadIdx.x == 0) {
        *sum += all;
    }
}

extern "C" void cuda_squares_add(struct device *device, int64_t n, const float *x, double *sum)
{
    if (n > 0) {
        LAUNCH(squares, dim3(1), dim3(BLOCK_THREADS), cuda_stream(device), n, x, sum);
    }
}

__global__ void clip_finish(double most, const double *squares, struct device_now *now)
{
    const double norm = sqrt(*squares), factor = most / (norm + 1e-6);
    now->grad_norm = norm;
    now->clip = factor > 1.0 ? 1.0 : factor;
}

extern "C" void cuda_clip_factor(struct device *device, double most, const double *squares, struct device_now *now)
{
    LAUNCH(clip_finish, dim3(1), dim3(1), cuda_stream(device), most, squares, now);
}
