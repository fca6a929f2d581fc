/* Sums over rows, in the chunks and the order of models/cpu/dense.c. */
#include "models/cuda/dense/columns.h"
#include "models/cuda/quads.h"
#include "models/cuda/vector.h"

/* --- columns --- */

__global__ void __launch_bounds__(BLOCK_THREADS)
    chunks_finish(int64_t n_chunk, int64_t stride, int64_t f, const double *partial, bool add, float *out)
{
    for (int64_t c = grid_thread(); c < f; c += grid_threads()) {
        double sum = add ? (double)out[c] : 0.0;
        for (int64_t i = 0; i < n_chunk; i++) {
            sum += partial[i * stride + c];
        }
        out[c] = (float)sum;
    }
}

void columns_finish(struct device *device, int64_t n_chunk, int64_t stride, int64_t f, const double *partial,
                    bool add, float *out)
{
    if (f > 0) {
        LAUNCH(chunks_finish, dim3(grid_size(f, BLOCK_THREADS)), dim3(BLOCK_THREADS), cuda_stream(device), n_chunk,
               stride, f, partial, add, out);
    }
}

template <bool BF16> struct element_terms {
    int64_t step; /* numbers from a row to the next */
    const void *x;
    __device__ void operator()(int64_t, int64_t r, int64_t c, double term[1]) const
    {
        term[0] = (double)element_read<float, BF16>(x, r * step + c);
    }
};

/* Of a row with a factor for each of its n_head heads. */
struct factor_terms {
    int64_t f, n_head, n_column;
    const float *x, *factor;
    __device__ void operator()(int64_t, int64_t r, int64_t c, double term[1]) const
    {
        const double g = (double)__ldg(factor + r * n_head + (unsigned)c / (unsigned)n_column);
        term[0] = g * (double)__ldg(x + r * f + c);
    }
};

extern "C" void cuda_column_sum(struct device *device, const struct device_column_sum *how, float *out)
{
    const int64_t n = how->n, f = how->f;
    if (how->factor != nullptr) {
        const factor_terms terms = {f, how->n_head, f / how->n_head, how->x, how->factor};
        columns_launch<1>(device, n, f, terms, (double *)how->scratch);
    } else if (cuda_bf16(device, how->x) > 0) {
        const element_terms<true> terms = {cuda_row_step(device, how->x, f), how->x};
        columns_launch<1>(device, n, f, terms, (double *)how->scratch);
    } else {
        const element_terms<false> terms = {f, how->x};
        columns_launch<1>(device, n, f, terms, (double *)how->scratch);
    }
    columns_finish(device, row_n_chunk(n), f, f, (const double *)how->scratch, how->add, out);
}

/* --- one sum of all products --- */

/* Lanes of the sum of a chunk, each a thread's. */
#define DOT_LANES 16
/* Products that a block keeps: 32 KiB of them. */
#define DOT_TERMS 4096

/* partial[chunk] = Σ x·y over its n_value values: lane l adds values l, l + 16, …, lane 0 then those behind the last
 * sixteen, and then come the lanes, in order. Products of floats are exact in double. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    dots_add(int64_t n_value, int64_t chunk_values, int64_t n_chunk, const float *x, const float *y, double *partial)
{
    SHARED(double, kept, DOT_TERMS);
    const int t = (int)threadIdx.x;
    for (int64_t chunk = blockIdx.x; chunk < n_chunk; chunk += gridDim.x) {
        const int64_t first = chunk * chunk_values,
                      end = first + chunk_values < n_value ? first + chunk_values : n_value;
        double sum = 0.0;
        for (int64_t at = first; at < end; at += DOT_TERMS) {
            const int n = end - at < DOT_TERMS ? (int)(end - at) : DOT_TERMS, whole = n - n % DOT_LANES;
            for (int i = t; i < DOT_TERMS; i += BLOCK_THREADS) {
                if (i < n) {
                    kept[i] = (double)__ldg(x + at + i) * (double)__ldg(y + at + i);
                }
            }
            __syncthreads();
            for (int i = t; t < DOT_LANES && i < whole; i += DOT_LANES) {
                sum += kept[i];
            }
            for (int i = whole; t == 0 && i < n; i++) {
                sum += kept[i];
            }
            __syncthreads();
        }
        if (t < DOT_LANES) {
            kept[t] = sum;
        }
        __syncthreads();
        if (t == 0) {
            double all = 0.0;
            for (int i = 0; i < DOT_LANES; i++) {
                all += kept[i];
            }
            partial[chunk] = all;
        }
        __syncthreads();
    }
}

extern "C" void cuda_dot(struct device *device, int64_t n, int64_t f, const float *x, const float *y, void *scratch,
                         bool add, float *out)
{
    const int64_t n_chunk = row_n_chunk(n);
    if (n_chunk > 0) {
        LAUNCH(dots_add, dim3(grid_size(n_chunk, 1)), dim3(BLOCK_THREADS), cuda_stream(device), n * f,
               row_chunk_rows(n) * f, n_chunk, x, y, (double *)scratch);
    }
    columns_finish(device, n_chunk, 1, 1, (const double *)scratch, add, out);
}

/* --- squares of two arrays and of their difference --- */

/* Elements whose squares a block keeps: 24 KiB of them. */
#define COMPARE_TERMS 1024
#define COMPARE_SUMS 3

/* sums[k] += its squares, one element after another: three threads add what all have made. */
__global__ void __launch_bounds__(BLOCK_THREADS) compare(int64_t n, const float *a, const float *b, double *sums)
{
    SHARED(double, kept, COMPARE_SUMS *COMPARE_TERMS);
    const int t = (int)threadIdx.x, k = t / WARP;
    double sum = 0.0;
    for (int64_t at = 0; at < n; at += COMPARE_TERMS) {
        const int n_term = n - at < COMPARE_TERMS ? (int)(n - at) : COMPARE_TERMS;
        for (int i = t; i < n_term; i += BLOCK_THREADS) {
            const double x = (double)a[at + i], y = (double)b[at + i], error = x - y;
            kept[i] = x * x;
            kept[COMPARE_TERMS + i] = y * y;
            kept[2 * COMPARE_TERMS + i] = error * error;
        }
        __syncthreads();
        for (int i = 0; t % WARP == 0 && k < COMPARE_SUMS && i < n_term; i++) {
            sum += kept[k * COMPARE_TERMS + i];
        }
        __syncthreads();
    }
    if (t % WARP == 0 && k < COMPARE_SUMS) {
        sums[k] += sum;
    }
}

extern "C" void cuda_floats_compare(struct device *device, int64_t n, const float *a, const float *b, double *sums)
{
    if (n > 0) {
        LAUNCH(compare, dim3(1), dim3(BLOCK_THREADS), cuda_stream(device), n, a, b, sums);
    }
}

/* --- sums over chunks of floats --- */

/* out (+)= chunk 0 + chunk 1 + …, one after another; out may be chunk 0 */
struct chunks_map {
    int64_t n_value, n_chunk, add;
    const float *chunk;
    float *out;
    template <bool VECTOR> __device__ void quad(int64_t, int64_t c, int n) const
    {
        struct quad sum = quad_load<VECTOR>(add != 0 ? out + c : chunk + c, n);
        for (int64_t i = add != 0 ? 0 : 1; i < n_chunk; i++) {
            const struct quad share = quad_load<VECTOR>(chunk + i * n_value + c, n);
            for (int k = 0; k < 4; k++) {
                sum.v[k] = sum.v[k] + share.v[k];
            }
        }
        quad_store<VECTOR>(out + c, n, sum);
    }
};

extern "C" void cuda_chunks_sum(struct device *device, int64_t n_value, int64_t n_chunk, const float *chunk, bool add,
                                float *out)
{
    const chunks_map map = {n_value, n_chunk, add, chunk, out};
    quads_launch(device, 1, n_value, n_value % 4 == 0 && quad_aligned(chunk) && quad_aligned(out), map);
}

extern "C" void cuda_chunks_add(struct device *device, int64_t n_value, int64_t n_chunk, const float *chunk,
                                float *out)
{
    cuda_chunks_sum(device, n_value, n_chunk, chunk, false, out);
}
