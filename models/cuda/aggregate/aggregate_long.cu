/* Sums over the edges of long rows: a block of threads loads a few columns of the rows of many edges, and one warp
 * adds them in the order of the edges. Hub rows: piece by piece, pieces are then added in order.
 */
#include "models/cuda/aggregate/sum.h"

/* Edges and columns that a block loads at once. */
#define TILE_EDGES 128
#define TILE_COLUMNS 32

/* Blocks for units at most. */
#define UNIT_BLOCKS 4096

/* One thread's loads of a tile: the same columns of every STEP-th edge. */
template <typename T> struct brought {
    static constexpr int LANES = TILE_COLUMNS / width_of<T>, STEP = BLOCK_THREADS / LANES, N = TILE_EDGES / STEP;
    T x[N];
    float weight[N]; /* only first lane */
    uint32_t border; /* bit k: at edge k, likewise */

    __device__ __forceinline__ void load(const struct cuda_sum &s, int64_t at, int64_t end, int64_t column)
    {
        const int l = (int)threadIdx.x % LANES, first = (int)threadIdx.x / LANES;
        border = 0;
        for (int k = 0; k < N; k++) {
            const int64_t e = at + first + k * STEP;
            const uint32_t marked = e < end ? __ldcs(s.cols + e) : 0,
                           col = s.bordered ? marked & ~DEVICE_BORDER : marked;
            const int64_t c = column + (int64_t)l * width_of<T>;
            x[k] = e < end && c < s.f ? vector_read<T>(s.x + (int64_t)col * s.f + c) : vector_of<T>(0.0F);
            weight[k] = e < end && l == 0 ? edge_weight(s, e, col) : 0.0F;
            border |= col != marked ? 1U << k : 0U;
        }
    }

    __device__ __forceinline__ void put(float *tile, float *weights, uint32_t *borders) const
    {
        const int l = (int)threadIdx.x % LANES, first = (int)threadIdx.x / LANES;
        for (int k = 0; k < N; k++) {
            const int e = first + k * STEP;
            vector_store(tile + e * TILE_COLUMNS + l * width_of<T>, x[k]);
            if (l == 0) {
                weights[e] = weight[k];
                borders[e] = border >> k & 1U;
            }
        }
    }
};

/* Where the sum of a unit's columns from `column` on starts and goes to: of column + lane. */
static __device__ __forceinline__ void unit_finish(const struct cuda_sum &s, const struct cuda_unit &unit,
                                                   int64_t column, int64_t first_column, float sum)
{
    if (unit.partial < 0) {
        sum_finish(s, own_row(s.rows, unit.row), column, sum);
        return;
    }
    float *partial = (float *)((char *)(uintptr_t)s.schedule + s.schedule->partial_at);
    partial[unit.partial * CUDA_PARTIAL_COLUMNS + column - first_column] = sum;
}

/* The sum of one unit over TILE_COLUMNS columns by one block; warp 0 adds, a column a lane. */
template <typename T>
static __device__ void unit_sum(const struct cuda_sum &s, const struct cuda_unit &unit, int64_t column,
                                int64_t first_column)
{
    SHARED(float, tile, 2 * TILE_EDGES * TILE_COLUMNS);
    SHARED(float, weights, 2 * TILE_EDGES);
    SHARED(uint32_t, borders, 2 * TILE_EDGES);
    const int64_t mine = column + (int64_t)threadIdx.x;
    const bool adds = threadIdx.x < WARP && mine < s.f, bordered = s.bordered && unit.partial < 0;
    float sum = adds && unit.partial < 0 ? sum_start<float>(s, own_row(s.rows, unit.row), mine) : 0.0F, alone = 0.0F;
    bool is_alone = false;
    brought<T> next;
    next.load(s, unit.begin, unit.end, column);
    int half = 0;
    for (int64_t at = unit.begin; at < unit.end; at += TILE_EDGES, half = 1 - half) {
        const int n = (int)(unit.end - at < TILE_EDGES ? unit.end - at : TILE_EDGES);
        next.put(tile + half * TILE_EDGES * TILE_COLUMNS, weights + half * TILE_EDGES, borders + half * TILE_EDGES);
        __syncthreads(); /* and all have added the half that is written next: two halves need one barrier */
        next.load(s, at + TILE_EDGES, unit.end, column);
        const float *x = tile + half * TILE_EDGES * TILE_COLUMNS + threadIdx.x;
        for (int e = 0; e < n && adds; e++) {
            const float weight = weights[half * TILE_EDGES + e];
            if (bordered && borders[half * TILE_EDGES + e] != 0) {
                sum = is_alone ? sum + alone : sum;
                alone = 0.0F;
                is_alone = true;
            }
            if (is_alone) {
                alone = fmaf(weight, x[e * TILE_COLUMNS], alone);
            } else {
                sum = fmaf(weight, x[e * TILE_COLUMNS], sum);
            }
        }
    }
    if (adds) {
        unit_finish(s, unit, mine, first_column, is_alone ? sum + alone : sum);
    }
    __syncthreads(); /* before the next unit's first half is written */
}

/* blockIdx.y: which TILE_COLUMNS columns from first_column on. */
template <typename T>
__global__ void __launch_bounds__(BLOCK_THREADS) sum_units(const struct cuda_sum s, int64_t first_column)
{
    const struct cuda_unit *unit = CUDA_UNITS(s.schedule);
    for (int64_t u = blockIdx.x; u < s.schedule->n_unit; u += gridDim.x) {
        unit_sum<T>(s, unit[u], first_column + (int64_t)blockIdx.y * TILE_COLUMNS, first_column);
    }
}

/* Hub rows: out = scale · (start + piece 0 + piece 1 + …), apart out + (piece 0 + …). */
__global__ void __launch_bounds__(BLOCK_THREADS)
    sum_pieces(const struct cuda_sum s, int64_t first_column, int64_t n_column)
{
    const struct cuda_unit *unit = CUDA_UNITS(s.schedule);
    const float *partial = (const float *)((const char *)s.schedule + s.schedule->partial_at);
    for (int64_t u = blockIdx.x; u < s.schedule->n_unit; u += gridDim.x) {
        const int64_t r = unit[u].row, row = own_row(s.rows, r), end = s.indptr[r + 1];
        if (unit[u].partial < 0 || unit[u].begin != s.indptr[r]) {
            continue;
        }
        for (int64_t c = threadIdx.x; c < n_column; c += BLOCK_THREADS) {
            float sum = sum_start<float>(s, row, first_column + c);
            const float *piece = partial + unit[u].partial * CUDA_PARTIAL_COLUMNS + c;
            for (int64_t e = unit[u].begin; e < end; e += DEVICE_HUB_EDGES, piece += CUDA_PARTIAL_COLUMNS) {
                sum += *piece;
            }
            sum_finish(s, row, first_column + c, sum);
        }
    }
}

void cuda_sum_long(cudaStream_t stream, const struct cuda_sum *sum, int64_t n_edge, bool fours)
{
    const int64_t most = cuda_units_most(n_edge);
    const unsigned n_block = (unsigned)(most < 1 ? 1 : most < UNIT_BLOCKS ? most : UNIT_BLOCKS);
    for (int64_t column = 0; column < sum->f; column += CUDA_PARTIAL_COLUMNS) {
        const int64_t n = sum->f - column < CUDA_PARTIAL_COLUMNS ? sum->f - column : CUDA_PARTIAL_COLUMNS;
        const dim3 grid(n_block, (unsigned)((n + TILE_COLUMNS - 1) / TILE_COLUMNS));
        if (fours) {
            LAUNCH(sum_units<float4>, grid, BLOCK_THREADS, stream, *sum, column);
        } else {
            LAUNCH(sum_units<float>, grid, BLOCK_THREADS, stream, *sum, column);
        }
        LAUNCH(sum_pieces, n_block, BLOCK_THREADS, stream, *sum, column, n);
    }
}
