/* Sums by relation. A row's edges of one type are a run, u = Σ_e weight · x[col]; then
 *   relation_sum   out[row, b] += comp[type, b] · u        relation_dot   grad_comp[type, b] += ⟨u, y[row, b]⟩
 *   picks          out[row] += Σ_b comp[type, b] · u_b, u_b of the columns x[col, b]; without comp of the type's own
 *                  b
 * A group of lanes takes a row, edge after edge, whatever its length.
 */
#include "models/cuda/dense/columns.h"
#include "models/cuda/vector.h"

/* Edges whose rows are on their way at a time. */
#define AHEAD 4

/* Columns of a lane in relation_dot. */
#define DOT_COLUMNS 2

struct relation {
    int64_t n_row;
    const uint32_t *rows;
    const int64_t *indptr;
    const uint32_t *cols;
    const uint16_t *types;
    const float *weights;
    int64_t n_relation, n_base, f, stride;
    const float *x, *comp;
};

static struct relation relation_of(const struct device_relation *how)
{
    const struct device_block *block = how->block;
    return {block->n_row,    block->rows, block->indptr, block->cols, block->types, block->weights,
            how->n_relation, how->n_base, how->f,        how->stride, how->x,       how->comp};
}

/* out[row, b] += comp[type, b] · u over this lane's columns; without comp only the type's own b. */
template <typename T>
static __device__ __forceinline__ void run_mix(const struct relation &s, int64_t row, int64_t type, int64_t column,
                                               T u, float *out)
{
    const int64_t first = s.comp != NULL ? 0 : type, end = s.comp != NULL ? s.n_base : type + 1;
    for (int64_t b = first; b < end && column < s.f; b++) {
        const float factor = s.comp != NULL ? __ldg(s.comp + type * s.n_base + b) : 1.0F;
        float *to = out + (row * s.n_base + b) * s.f + column;
        vector_store(to, vector_add(vector_load<T>(to), vector_scale(factor, u)));
    }
}

/* blockIdx.y: which columns. */
template <typename T, int LANES>
__global__ void __launch_bounds__(BLOCK_THREADS, 2) relation_rows(const struct relation s, float *out)
{
    const unsigned mask = group_mask<LANES>();
    const int l = group_lane<LANES>();
    const int64_t column = ((int64_t)blockIdx.y * LANES + l) * width_of<T>;
    for (int64_t r = grid_group<LANES>(); r < s.n_row; r += grid_groups<LANES>()) {
        const int64_t begin = s.indptr[r], end = s.indptr[r + 1], row = own_row(s.rows, r);
        T u = vector_fill<T>(0.0F);
        int run = -1;
        for (int64_t at = begin; at < end; at += LANES) {
            const int n = (int)(end - at < LANES ? end - at : LANES);
            const uint32_t col = l < n ? __ldcs(s.cols + at + l) : 0;
            const float weight = l < n && s.weights != NULL ? __ldcs(s.weights + at + l) : 1.0F;
            const int type = l < n ? (int)__ldg(s.types + at + l) : 0;
            for (int e = 0; e < n; e += AHEAD) {
                T x[AHEAD];
                float w[AHEAD];
                int t[AHEAD];
                for (int k = 0; k < AHEAD; k++) {
                    const uint32_t c = __shfl_sync(mask, col, e + k, LANES);
                    w[k] = __shfl_sync(mask, weight, e + k, LANES);
                    t[k] = __shfl_sync(mask, type, e + k, LANES);
                    const bool there = e + k < n && column < s.f;
                    x[k] = there ? vector_read<T>(s.x + (int64_t)c * s.stride + column) : vector_fill<T>(0.0F);
                }
                for (int k = 0; k < AHEAD && e + k < n; k++) {
                    if (t[k] != run && run >= 0) {
                        run_mix<T>(s, row, run, column, u, out);
                        u = vector_fill<T>(0.0F);
                    }
                    run = t[k];
                    u = vector_fma(w[k], x[k], u);
                }
            }
        }
        if (run >= 0) {
            run_mix<T>(s, row, run, column, u, out);
        }
    }
}

static __device__ __forceinline__ int64_t run_end(const struct relation &s, int64_t e, int64_t end)
{
    int64_t last = e + 1;
    while (last < end && s.types[last] == s.types[e]) {
        last++;
    }
    return last;
}

/* sum + Σ_b comp[type, b] · u_b over this lane's columns of a run's edges e … next-1; without comp the type's own b
 * alone. */
template <typename T>
static __device__ __forceinline__ T run_pick(const struct relation &s, int64_t e, int64_t next, int64_t column, T sum)
{
    const int64_t type = __ldg(s.types + e), first = s.comp != NULL ? 0 : type,
                  end = s.comp != NULL ? s.n_base : type + 1;
    for (int64_t b = first; b < end; b++) {
        const float factor = s.comp != NULL ? __ldg(s.comp + type * s.n_base + b) : 1.0F;
        T u = vector_fill<T>(0.0F);
        for (int64_t at = e; at < next; at++) {
            const float *x = s.x + (int64_t)__ldg(s.cols + at) * s.stride + b * s.f + column;
            u = vector_fma(s.weights != NULL ? __ldg(s.weights + at) : 1.0F, vector_read<T>(x), u);
        }
        sum = vector_add(sum, vector_scale(factor, u));
    }
    return sum;
}

/* blockIdx.y: which columns. */
template <typename T, int LANES>
__global__ void __launch_bounds__(BLOCK_THREADS, 2) picked_rows(const struct relation s, float *out)
{
    const int64_t column = ((int64_t)blockIdx.y * LANES + group_lane<LANES>()) * width_of<T>;
    for (int64_t r = grid_group<LANES>(); r < s.n_row && column < s.f; r += grid_groups<LANES>()) {
        const int64_t begin = s.indptr[r], end = s.indptr[r + 1];
        float *to = out + own_row(s.rows, r) * s.f + column;
        T sum = begin < end ? vector_load<T>(to) : vector_fill<T>(0.0F);
        for (int64_t e = begin, next; e < end; e = next) {
            next = run_end(s, e, end);
            sum = run_pick<T>(s, e, next, column, sum);
        }
        if (begin < end) {
            vector_store(to, sum);
        }
    }
}

template <typename T, int LANES>
static void launch(cudaStream_t stream, const struct relation &s, bool picks, float *out)
{
    const int64_t width = (int64_t)LANES * width_of<T>;
    const dim3 grid(grid_size(s.n_row, BLOCK_THREADS / LANES), (unsigned)((s.f + width - 1) / width));
    if (picks) {
        LAUNCH((picked_rows<T, LANES>), grid, BLOCK_THREADS, stream, s, out);
    } else {
        LAUNCH((relation_rows<T, LANES>), grid, BLOCK_THREADS, stream, s, out);
    }
}

extern "C" void cuda_relation_sum(struct device *device, const struct device_relation *how, float *out)
{
    cudaStream_t stream = cuda_stream(device);
    const struct relation s = relation_of(how);
    if (s.n_row == 0 || s.f == 0) {
        return;
    }
    if (by_fours(s.f, s.x, out, NULL) && s.stride % 4 == 0) {
        s.f <= 16   ? launch<float4, 4>(stream, s, how->picks, out)
        : s.f <= 64 ? launch<float4, 16>(stream, s, how->picks, out)
                    : launch<float4, 32>(stream, s, how->picks, out);
    } else {
        s.f <= 4    ? launch<float, 4>(stream, s, how->picks, out)
        : s.f <= 16 ? launch<float, 16>(stream, s, how->picks, out)
                    : launch<float, 32>(stream, s, how->picks, out);
    }
}

/* u of a run, over the columns column + WARP · k of each lane. */
static __device__ __forceinline__ void run_sum(const struct relation &s, int64_t begin, int64_t end, int64_t column,
                                               float u[DOT_COLUMNS])
{
    for (int k = 0; k < DOT_COLUMNS; k++) {
        u[k] = 0.0F;
    }
    for (int64_t e = begin; e < end; e++) {
        const float *x = s.x + (int64_t)__ldg(s.cols + e) * s.stride;
        const float weight = s.weights != NULL ? __ldg(s.weights + e) : 1.0F;
        for (int k = 0; k < DOT_COLUMNS; k++) {
            const int64_t c = column + k * WARP;
            u[k] = c < s.f ? fmaf(weight, __ldg(x + c), u[k]) : 0.0F;
        }
    }
}

/* sum[b] += ⟨u, y[b]⟩ over the lanes' columns. */
static __device__ __forceinline__ void run_dot(const struct relation &s, const float u[DOT_COLUMNS], const float *y,
                                               int64_t column, double *sum)
{
    for (int64_t b = 0; b < s.n_base; b++) {
        double dot = 0.0;
        for (int k = 0; k < DOT_COLUMNS; k++) {
            const int64_t c = column + k * WARP;
            dot += c < s.f ? (double)u[k] * (double)__ldg(y + b * s.f + c) : 0.0;
        }
        for (int d = WARP / 2; d > 0; d /= 2) {
            dot += __shfl_xor_sync(ALL_LANES, dot, d, WARP);
        }
        if (threadIdx.x % WARP == 0) {
            sum[b] += dot;
        }
    }
}

/* A warp processes `rows` rows, one after another, with its own sums. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    dot_chunks(const struct relation s, int64_t n_chunk, int64_t rows, const float *y, double *partial)
{
    const int64_t n = s.n_relation * s.n_base;
    const int lane = (int)threadIdx.x % WARP;
    for (int64_t chunk = grid_group<WARP>(); chunk < n_chunk; chunk += grid_groups<WARP>()) {
        const int64_t last = (chunk + 1) * rows < s.n_row ? (chunk + 1) * rows : s.n_row;
        double *sum = partial + chunk * n;
        for (int64_t i = lane; i < n; i += WARP) {
            sum[i] = 0.0;
        }
        __syncwarp(ALL_LANES);
        for (int64_t r = chunk * rows; r < last; r++) {
            const int64_t row = own_row(s.rows, r), end = s.indptr[r + 1];
            for (int64_t e = s.indptr[r], next; e < end; e = next) {
                next = run_end(s, e, end);
                for (int64_t column = lane; column - lane < s.f; column += DOT_COLUMNS * WARP) {
                    float u[DOT_COLUMNS];
                    run_sum(s, e, next, column, u);
                    run_dot(s, u, y + row * s.n_base * s.f, column, sum + s.types[e] * s.n_base);
                }
            }
        }
    }
}

extern "C" void cuda_relation_dot(struct device *device, const struct device_relation *how, const float *y, bool add,
                                  void *scratch, float *grad_comp)
{
    cudaStream_t stream = cuda_stream(device);
    const struct relation s = relation_of(how);
    const int64_t n = s.n_relation * s.n_base, most = cuda_relation_chunks_most(n),
                  rows = s.n_row > most ? (s.n_row + most - 1) / most : 1;
    const int64_t n_chunk = (s.n_row + rows - 1) / rows;
    double *partial = (double *)scratch;
    LAUNCH(dot_chunks, grid_size(n_chunk, BLOCK_THREADS / WARP), BLOCK_THREADS, stream, s, n_chunk, rows, y, partial);
    columns_finish(device, n_chunk, n, n, partial, add, grad_comp);
}
