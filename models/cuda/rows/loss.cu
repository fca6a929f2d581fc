/* Losses, their gradients and counts: each row in double by the lanes of a warp, sums over rows in chunks combined in
 * order. */
#include "models/cuda/functions.h"
#include "models/cuda/rows/block_sum.h"

/* Row r is drawn when its draw is below the threshold. */
struct draws {
    uint64_t threshold;
    struct random_key key;
    const struct device_now *now;
    const uint32_t *node;
};

static draws draws_of(const struct device_draw *drawn)
{
    draws out = {drawn->p > 0.0 ? random_drop_threshold(drawn->p) : 0, drawn->key, drawn->now, drawn->node};
    return out;
}

static __device__ __forceinline__ bool is_drawn(const draws &drawn, int64_t r)
{
    const uint32_t epoch = drawn.now != nullptr ? drawn.now->epoch : drawn.key.epoch;
    return drawn.threshold != 0 && draw_quad(drawn.key, epoch, drawn.node[r], 0).x < drawn.threshold;
}

/* --- losses --- */

/* A loss, as its kernel takes it. */
struct scoring {
    int64_t n, c, rows; /* rows of a chunk */
    const float *logits;
    const void *labels;
    const float *weights; /* nullptr: 1 */
    double smoothing;
    const uint8_t *row_split;
    double delta;
    uint64_t split, loss, draws; /* words alone: arguments of kernels have no holes */
    struct draws drawn;
    const struct device_now *now;
    float *grad;
};

/* d mean loss / d loss, as device_loss_scale has it. */
static __device__ __forceinline__ float loss_scale(const scoring &how)
{
    return (float)(1.0 / (how.now->n_loss_row > 0.0 ? how.now->n_loss_row : 1.0));
}

/* The first of a row's greatest logits, in all lanes. */
template <int LANES>
static __device__ __forceinline__ int64_t row_best(int64_t c, const float *z, bool there, float *greatest)
{
    const int lane = (int)threadIdx.x % LANES;
    float best = there && lane < c ? z[lane] : -CUDART_INF_F;
    int64_t at = lane;
    for (int64_t k = lane + LANES; there && k < c; k += LANES) {
        if (z[k] > best) {
            best = z[k];
            at = k;
        }
    }
    for (int apart = LANES / 2; apart > 0; apart /= 2) {
        const float other = __shfl_xor_sync(ALL_LANES, best, apart, WARP);
        const int64_t other_at = __shfl_xor_sync(ALL_LANES, at, apart, WARP);
        if (other > best || (other == best && other_at < at)) {
            best = other;
            at = other_at;
        }
    }
    *greatest = best;
    return at;
}

/* With weights and smoothing: class k counts share_k = ε/c w_k, and class `label` (1 − ε) w more; `sum` is of
 * exponentials. */
template <int LANES>
static __device__ __forceinline__ void cross_entropy_shares(const scoring &how, int64_t r, int64_t label,
                                                            float greatest, double sum, struct device_score *score)
{
    const int lane = (int)threadIdx.x % LANES;
    const bool counts = label >= 0;
    const float *z = how.logits + r * how.c;
    const double each = how.smoothing / (double)how.c;
    const double weight = counts && how.weights != nullptr ? (double)how.weights[label] : 1.0,
                 own = (1.0 - how.smoothing) * weight;
    double shares = 0.0, shared = 0.0;
    for (int64_t k = lane; counts && k < how.c; k += LANES) {
        const double share = how.weights != nullptr ? each * (double)how.weights[k] : each;
        shares += share;
        shared += share * ((double)z[k] - greatest);
    }
    shares = lanes_sum<LANES>(shares);
    shared = lanes_sum<LANES>(shared);
    for (int64_t k = lane; counts && how.grad != nullptr && k < how.c; k += LANES) {
        const double share = how.weights != nullptr ? each * (double)how.weights[k] : each;
        const double p = exp_of_negative((double)z[k] - greatest) / sum;
        how.grad[r * how.c + k] = (float)(loss_scale(how) *
                                          ((own + shares) * p - (k == label ? own + share : share)));
    }
    if (counts && lane == 0) {
        score->loss += (own + shares) * log_above_one(sum) - own * ((double)z[label] - greatest) - shared;
        score->weight += weight;
    }
}

/* −log softmax(z)[label] = log Σ exp(z − max) − (z[label] − max); gradient softmax − one-hot. Sums are lane 0's. */
template <int LANES>
static __device__ __forceinline__ void cross_entropy_row(const scoring &how, int64_t r, bool there,
                                                         struct device_score *score)
{
    const int lane = (int)threadIdx.x % LANES;
    const float *z = how.logits + r * how.c;
    const int64_t label = there ? ((const int32_t *)how.labels)[r] : -1;
    const bool counts = label >= 0;
    float greatest;
    const int64_t best = row_best<LANES>(how.c, z, counts, &greatest);
    double sum = 0.0;
    for (int64_t k = lane; counts && k < how.c; k += LANES) {
        sum += exp_of_negative((double)z[k] - greatest);
    }
    sum = lanes_sum<LANES>(sum);
    if (counts && lane == 0) {
        score->n_correct += best == label ? 1.0 : 0.0;
        score->n_row += 1.0;
    }
    if (how.weights != nullptr || how.smoothing != 0.0) {
        cross_entropy_shares<LANES>(how, r, label, greatest, sum, score);
        return;
    }
    for (int64_t k = lane; counts && how.grad != nullptr && k < how.c; k += LANES) {
        const double share = exp_of_negative((double)z[k] - greatest) / sum;
        how.grad[r * how.c + k] = (float)(loss_scale(how) * (share - (k == label ? 1.0 : 0.0)));
    }
    if (counts && lane == 0) {
        score->loss += log_above_one(sum) - ((double)z[label] - greatest);
        score->weight += 1.0;
    }
}

/* Σ over known classes of max(z, 0) − z·t + log(1 + exp(−|z|)); gradient sigmoid(z) − t. Each lane adds up its own
 * classes. With weights positives count w − 1 times log(1 + exp(−z)) = max(−z, 0) + log(1 + exp(−|z|)) more. */
template <int LANES>
static __device__ __forceinline__ void bce_row(const scoring &how, int64_t r, bool there, struct device_score *score)
{
    const int lane = (int)threadIdx.x % LANES;
    const float *z = how.logits + r * how.c, *target = (const float *)how.labels + r * how.c;
    double n_own = 0.0;
    for (int64_t k = lane; there && k < how.c; k += LANES) {
        if (isnan(target[k])) {
            continue;
        }
        const double logit = z[k], small = exp_of_negative(-fabs(logit));
        const bool truth = target[k] > 0.5F;
        n_own += 1.0;
        const double more = how.weights != nullptr ? ((double)how.weights[k] - 1.0) * target[k] : 0.0;
        score->loss += fmax(logit, 0.0) - logit * target[k] + log_of_one_and(small);
        if (more != 0.0) {
            score->loss += more * (fmax(-logit, 0.0) + log_of_one_and(small));
        }
        score->n_true_positive += logit > 0.0 && truth ? 1.0 : 0.0;
        score->n_false_positive += logit > 0.0 && !truth ? 1.0 : 0.0;
        score->n_false_negative += !(logit > 0.0) && truth ? 1.0 : 0.0;
        if (how.grad != nullptr) {
            const double sigmoid = (logit >= 0.0 ? 1.0 : small) / (1.0 + small);
            how.grad[r * how.c + k] = (float)(loss_scale(how) * (sigmoid - target[k] - more * (1.0 - sigmoid)));
        }
    }
    const double n_known = lanes_sum<LANES>(n_own);
    if (lane == 0) {
        score->n_row += n_known > 0.0 ? 1.0 : 0.0;
        score->weight += n_known;
    }
}

/* Loss and its derivative for an error e. */
static __device__ __forceinline__ double error_loss(const scoring &how, double e, double *slope)
{
    const double size = fabs(e), sign = e > 0.0 ? 1.0 : e < 0.0 ? -1.0 : 0.0;
    if (how.loss == DEVICE_LOSS_MSE) {
        *slope = 2.0 * e;
        return e * e;
    }
    if (how.loss == DEVICE_LOSS_MAE) {
        *slope = sign;
        return size;
    }
    *slope = size <= how.delta ? e : how.delta * sign;
    return size <= how.delta ? 0.5 * e * e : how.delta * (size - 0.5 * how.delta);
}

/* Regression: Σ over known labels. Each lane adds its own columns. */
template <int LANES>
static __device__ __forceinline__ void number_row(const scoring &how, int64_t r, bool there,
                                                  struct device_score *score)
{
    const int lane = (int)threadIdx.x % LANES;
    const float *z = how.logits + r * how.c, *target = (const float *)how.labels + r * how.c;
    double n_own = 0.0, slope;
    for (int64_t k = lane; there && k < how.c; k += LANES) {
        if (isnan(target[k])) {
            continue;
        }
        score->loss += error_loss(how, (double)z[k] - (double)target[k], &slope);
        n_own += 1.0;
        if (how.grad != nullptr) {
            how.grad[r * how.c + k] = (float)(loss_scale(how) * slope);
        }
    }
    const double n_known = lanes_sum<LANES>(n_own);
    if (lane == 0) {
        score->n_row += n_known > 0.0 ? 1.0 : 0.0;
        score->weight += n_known;
    }
}

static __device__ __forceinline__ void score_sum(double *kept, const struct device_score &own,
                                                 struct device_score *out)
{
    struct device_score sum;
    sum.loss = block_sum(kept, own.loss);
    sum.n_correct = block_sum(kept, own.n_correct);
    sum.n_true_positive = block_sum(kept, own.n_true_positive);
    sum.n_false_positive = block_sum(kept, own.n_false_positive);
    sum.n_false_negative = block_sum(kept, own.n_false_negative);
    sum.n_row = block_sum(kept, own.n_row);
    sum.weight = block_sum(kept, own.weight);
    if (threadIdx.x == 0) {
        *out = sum;
    }
}

static __device__ __forceinline__ struct device_score score_zero()
{
    struct device_score score = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    return score;
}

/* A block takes a chunk, LANES threads a row. */
template <int LANES>
__global__ void __launch_bounds__(BLOCK_THREADS)
    loss_chunks(const scoring how, int64_t n_chunk, struct device_score *partial)
{
    SHARED(double, kept, BLOCK_THREADS / WARP);
    const int lane = (int)threadIdx.x % LANES;
    for (int64_t chunk = blockIdx.x; chunk < n_chunk; chunk += gridDim.x) {
        const int64_t end = (chunk + 1) * how.rows < how.n ? (chunk + 1) * how.rows : how.n;
        struct device_score score = score_zero();
        for (int64_t first = chunk * how.rows; first < end; first += BLOCK_THREADS / LANES) {
            const int64_t r = first + (int)threadIdx.x / LANES;
            for (int64_t k = lane; how.grad != nullptr && r < end && k < how.c; k += LANES) {
                how.grad[r * how.c + k] = 0.0F;
            }
            const bool there = r < end && how.row_split[r] == how.split && (how.draws == 0 || is_drawn(how.drawn, r));
            if (how.loss == DEVICE_LOSS_BCE) {
                bce_row<LANES>(how, r, there, &score);
            } else if (how.loss != DEVICE_LOSS_CROSS_ENTROPY) {
                number_row<LANES>(how, r, there, &score);
            } else {
                cross_entropy_row<LANES>(how, r, there, &score);
            }
        }
        score_sum(kept, score, partial + chunk);
    }
}

/* One block: each thread adds up every 256th chunk. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    scores_add(int64_t n_chunk, const struct device_score *partial, struct device_score *score)
{
    SHARED(double, kept, BLOCK_THREADS / WARP);
    struct device_score sum = score_zero();
    for (int64_t i = threadIdx.x; i < n_chunk; i += BLOCK_THREADS) {
        sum.loss += partial[i].loss;
        sum.n_correct += partial[i].n_correct;
        sum.n_true_positive += partial[i].n_true_positive;
        sum.n_false_positive += partial[i].n_false_positive;
        sum.n_false_negative += partial[i].n_false_negative;
        sum.n_row += partial[i].n_row;
        sum.weight += partial[i].weight;
    }
    score_sum(kept, sum, score);
}

extern "C" void cuda_loss(struct device *device, const struct device_scoring *how, struct device_score *score)
{
    const int64_t n = how->n, rows = cuda_score_chunk_rows(n), n_chunk = (n + rows - 1) / rows;
    struct device_score *partial = (struct device_score *)how->scratch;
    const scoring scoring = {n,
                             how->c,
                             rows,
                             how->logits,
                             how->labels,
                             how->weights,
                             how->smoothing,
                             how->row_split,
                             how->delta,
                             how->split,
                             (uint64_t)how->loss,
                             how->drawn.p > 0.0,
                             draws_of(&how->drawn),
                             how->now,
                             how->grad};
    if (how->c <= 16) {
        LAUNCH(loss_chunks<8>, dim3(grid_size(n_chunk, 1)), dim3(BLOCK_THREADS), cuda_stream(device), scoring,
               n_chunk, partial);
    } else {
        LAUNCH(loss_chunks<32>, dim3(grid_size(n_chunk, 1)), dim3(BLOCK_THREADS), cuda_stream(device), scoring,
               n_chunk, partial);
    }
    LAUNCH(scores_add, dim3(1), dim3(BLOCK_THREADS), cuda_stream(device), n_chunk, partial, score);
}

/* --- labels as input --- */

/* Labels, as their kernels take them. */
struct label_rows {
    int64_t n, c;
    const int32_t *labels;
    const float *label_rows;
    const uint8_t *row_split;
    uint64_t split;
    struct draws drawn;
};

static label_rows labels_of(const struct device_labels *how)
{
    label_rows out = {how->n,         how->c,     how->labels,          how->label_rows,
                      how->row_split, how->split, draws_of(&how->drawn)};
    return out;
}

/* A warp a row. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    label_columns(const label_rows how, int64_t f, const float *x, float *out)
{
    const int64_t width = f + how.c;
    for (int64_t r = grid_thread() / WARP; r < how.n; r += grid_threads() / WARP) {
        const bool shown = how.row_split[r] == how.split && !is_drawn(how.drawn, r);
        for (int64_t k = (int)threadIdx.x % WARP; k < width; k += WARP) {
            float value = 0.0F;
            if (k < f) {
                value = x[r * f + k];
            } else if (shown) {
                const float label = how.labels != nullptr ? (how.labels[r] == k - f ? 1.0F : 0.0F)
                                                          : how.label_rows[r * how.c + k - f];
                value = isnan(label) ? 0.0F : label;
            }
            out[r * width + k] = value;
        }
    }
}

extern "C" void cuda_labels_append(struct device *device, const struct device_labels *how, int64_t f, const float *x,
                                   float *out)
{
    if (how->n > 0) {
        LAUNCH(label_columns, dim3(grid_size(how->n, BLOCK_THREADS / WARP)), dim3(BLOCK_THREADS), cuda_stream(device),
               labels_of(how), f, x, out);
    }
}

/* Whole numbers, whose order does not matter: the sum is one while it is added up, … A warp a row. */
__global__ void __launch_bounds__(BLOCK_THREADS) drawn_labels(const label_rows how, unsigned long long *count)
{
    const int lane = (int)threadIdx.x % WARP;
    double n_own = 0.0;
    for (int64_t r = grid_thread() / WARP; r < how.n; r += grid_threads() / WARP) {
        const bool drawn = how.row_split[r] == how.split && is_drawn(how.drawn, r);
        n_own += drawn && how.labels != nullptr && lane == 0 ? 1.0 : 0.0;
        for (int64_t k = lane; drawn && how.labels == nullptr && k < how.c; k += WARP) {
            n_own += isnan(how.label_rows[r * how.c + k]) ? 0.0 : 1.0;
        }
    }
    const double n = lanes_sum<WARP>(n_own);
    if (lane == 0 && n > 0.0) {
        atomicAdd(count, (unsigned long long)n);
    }
}

/* … and a double at the end. */
__global__ void count_finish(unsigned long long *from, double *to)
{
    const unsigned long long n = *from;
    *to = (double)n;
}

extern "C" void cuda_draw_count(struct device *device, const struct device_labels *how, double *count)
{
    unsigned long long *whole = (unsigned long long *)(void *)count;
    cuda_fill_zero(device, count, sizeof *count);
    LAUNCH(drawn_labels, dim3(grid_size(how->n, BLOCK_THREADS / WARP)), dim3(BLOCK_THREADS), cuda_stream(device),
           labels_of(how), whole);
    LAUNCH(count_finish, dim3(1), dim3(1), cuda_stream(device), whole, count);
}
