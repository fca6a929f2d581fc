/* Sums over the edges of long rows that aggregate.cu does not take: a block of threads loads a few columns of many
 * edges' rows, and one warp adds them in the order of the edges. Hub rows: in pieces, which are then added in order.
 */
#include "models/cuda/aggregate/sum.h"

/* Edges and columns that a block loads at once: a thread reads the column and the weight of one edge. */
#define TILE_EDGES BLOCK_THREADS
static_assert(TILE_EDGES == DEVICE_PIECE_EDGES && CUDA_LONG_EDGES == DEVICE_PIECE_EDGES, "a tile is a piece");
#define TILE_COLUMNS 32

/* Edges whose numbers the adding warp reads from shared memory before it adds them. */
#define ADDED_EDGES 8

/* Blocks for units at most. */
#define UNIT_BLOCKS 4096

/* Blocks that share a multiprocessor's registers: 64 a thread do without marks, but for single columns of BF16. */
#define RESIDENT_BLOCKS(more) ((more) ? 3 : 4)

template <bool MARKED> static __device__ __forceinline__ uint32_t col_of(uint32_t col)
{
    return MARKED ? col & ~DEVICE_MARKS : col;
}

/* A tile's edges, in shared memory. */
struct tile_edges {
    uint32_t *cols; /* marked where there is a border */
    float *weights;
};

/* This thread's edge of a tile, on its way. */
template <bool MARKED> struct edge_brought {
    uint32_t col;
    float weight;

    __device__ __forceinline__ void load(const struct cuda_sum &s, int64_t at, int64_t end)
    {
        const int64_t e = at + threadIdx.x;
        col = e < end ? __ldcs(s.cols + e) : 0;
        weight = e < end ? edge_weight(s, e, col_of<MARKED>(col)) : 0.0F;
    }

    __device__ __forceinline__ void put(const struct tile_edges &to) const
    {
        to.cols[threadIdx.x] = col;
        to.weights[threadIdx.x] = weight;
    }
};

/* One thread's loads of a tile's rows: the same columns of every STEP-th edge. */
template <typename T, bool MARKED, bool BF16> struct rows_brought {
    static constexpr int LANES = TILE_COLUMNS / width_of<T>, STEP = BLOCK_THREADS / LANES, N = TILE_EDGES / STEP;
    T x[N];

    __device__ __forceinline__ void load(const struct cuda_sum &s, int64_t n, const uint32_t *cols, int64_t column)
    {
        const int first = (int)threadIdx.x / LANES;
        const int64_t c = column + (int64_t)((int)threadIdx.x % LANES) * width_of<T>;
        for (int k = 0; k < N; k++) {
            const int e = first + k * STEP;
            const uint32_t col = col_of<MARKED>(cols[e]);
            x[k] = e < n && c < s.f ? element_read<T, BF16>(s.x, sum_place<BF16>(s, col, c)) : vector_fill<T>(0.0F);
        }
    }

    __device__ __forceinline__ void put(float *tile) const
    {
        const int l = (int)threadIdx.x % LANES, first = (int)threadIdx.x / LANES;
        for (int k = 0; k < N; k++) {
            vector_store(tile + (first + k * STEP) * TILE_COLUMNS + l * width_of<T>, x[k]);
        }
    }
};

/* One column's sum. What follows a border is summed separately, up to the next one, or goes on: as row_sum of
 * aggregate.cu. */
struct column_sum {
    float sum, before, block;

    __device__ __forceinline__ void border(uint32_t mark)
    {
        const bool goes_on = mark == DEVICE_BACK, in_block = mark == DEVICE_MARKS;
        const float so_far = block + sum, joined = before + so_far;
        block = in_block ? so_far : -0.0F;
        before = in_block ? before : goes_on ? -0.0F : joined;
        sum = goes_on ? joined : 0.0F;
    }

    /* n edges of a tile, which is a piece unless columns are marked, one after another; x: the column's numbers */
    template <bool MARKED> __device__ __forceinline__ void add(int n, const struct tile_edges &edges, const float *x)
    {
        if (!MARKED) {
            border(DEVICE_BORDER);
        }
        for (int e = 0; e < n; e += ADDED_EDGES) {
            float value[ADDED_EDGES], weight[ADDED_EDGES];
            uint32_t col[ADDED_EDGES];
            for (int k = 0; k < ADDED_EDGES; k++) { /* behind the last edge there are zeros */
                value[k] = x[(e + k) * TILE_COLUMNS];
                weight[k] = edges.weights[e + k];
                col[k] = MARKED ? edges.cols[e + k] : 0;
            }
            for (int k = 0; k < ADDED_EDGES; k++) {
                if (MARKED && e + k < n && (col[k] & DEVICE_MARKS) != 0) {
                    border(col[k] & DEVICE_MARKS);
                }
                if (e + k < n) {
                    sum = fmaf(weight[k], value[k], sum);
                }
            }
        }
    }
};

/* Where the sum of a unit's columns from `column` on starts and goes to: of column + lane. */
static __device__ __forceinline__ void unit_finish(const struct cuda_sum &s, const struct cuda_unit &unit,
                                                   int64_t column, int64_t first_column, float row_scale, float sum)
{
    if (unit.partial < 0) {
        /* + 0: what an epilogue makes of the column before the unit is known would take registers */
        sum_finish(s, own_row(s.rows, unit.row), column + (unit.partial + 1), row_scale, sum);
        return;
    }
    float *partial = (float *)((char *)(uintptr_t)s.schedule + s.schedule->partial_at);
    partial[unit.partial * CUDA_PARTIAL_COLUMNS + column - first_column] = sum;
}

/* The sum of one unit over TILE_COLUMNS columns by one block; warp 0 adds, a column a lane, while the rows of the
 * next tile and the edges of the one after it are on their way. */
template <typename T, bool MARKED, bool BF16>
static __device__ void unit_sum(const struct cuda_sum &s, const struct cuda_unit &unit, int64_t column,
                                int64_t first_column)
{
    SHARED(float, tile, TILE_EDGES *TILE_COLUMNS);
    SHARED(float, weights, 2 * TILE_EDGES);
    SHARED(uint32_t, cols, 2 * TILE_EDGES);
    struct tile_edges edges = {cols, weights}, edges_next = {cols + TILE_EDGES, weights + TILE_EDGES};
    const int64_t mine = column + (int64_t)threadIdx.x;
    const bool adds = threadIdx.x < WARP && mine < s.f, starts = adds && unit.partial < 0;
    const struct sum_scales scales = starts ? sum_scales_read(s, own_row(s.rows, unit.row)) : sum_scales{1.0F, 1.0F};
    struct column_sum sum = {0.0F, -0.0F, -0.0F};
    edge_brought<MARKED> edge;
    rows_brought<T, MARKED, BF16> rows;
    edge.load(s, unit.begin, unit.end);
    edge.put(edges);
    __syncthreads();
    rows.load(s, unit.end - unit.begin, edges.cols, column);
    edge.load(s, unit.begin + TILE_EDGES, unit.end);
    if (starts) {
        sum.sum = sum_start<float, BF16>(s, own_row(s.rows, unit.row), mine, scales.self);
    }
    for (int64_t at = unit.begin; at < unit.end; at += TILE_EDGES) {
        rows.put(tile);
        edge.put(edges_next);
        __syncthreads();
        rows.load(s, unit.end - at - TILE_EDGES, edges_next.cols, column);
        edge.load(s, at + 2 * TILE_EDGES, unit.end);
        if (adds) {
            const int n = (int)(unit.end - at < TILE_EDGES ? unit.end - at : TILE_EDGES);
            sum.template add<MARKED>(n, edges, tile + threadIdx.x);
        }
        __syncthreads(); /* before the tile and its edges are written again */
        const struct tile_edges done = edges;
        edges = edges_next;
        edges_next = done;
    }
    if (adds) {
        unit_finish(s, unit, mine, first_column, scales.row, sum.before + (sum.block + sum.sum));
    }
}

/* blockIdx.y: which TILE_COLUMNS columns from first_column on. */
template <typename T, bool MARKED, bool BF16>
__global__ void __launch_bounds__(BLOCK_THREADS, RESIDENT_BLOCKS(MARKED || (BF16 && width_of<T> == 1)))
    sum_units(const struct cuda_sum s, int64_t first_column)
{
    const struct cuda_unit *unit = CUDA_UNITS(s.schedule);
    for (int64_t u = blockIdx.x; u < s.schedule->n_unit; u += gridDim.x) {
        if (unit[u].partial < 0 && unit[u].end - unit[u].begin <= s.n_most) {
            continue;
        }
        unit_sum<T, MARKED, BF16>(s, unit[u], first_column + (int64_t)blockIdx.y * TILE_COLUMNS, first_column);
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
        const struct sum_scales scales = sum_scales_read(s, row);
        for (int64_t c = threadIdx.x; c < n_column; c += BLOCK_THREADS) {
            float sum = s.is_bf16 ? sum_start<float, true>(s, row, first_column + c, scales.self)
                                  : sum_start<float, false>(s, row, first_column + c, scales.self);
            const float *piece = partial + unit[u].partial * CUDA_PARTIAL_COLUMNS + c;
            for (int64_t e = unit[u].begin; e < end; e += DEVICE_HUB_EDGES, piece += CUDA_PARTIAL_COLUMNS) {
                sum += *piece;
            }
            sum_finish(s, row, first_column + c, scales.row, sum);
        }
    }
}

template <typename T, bool BF16>
static void units_launch(cudaStream_t stream, const dim3 &grid, const struct cuda_sum &s, int64_t first_column)
{
    if (s.borders >= BORDERS_MARKED) {
        LAUNCH((sum_units<T, true, BF16>), grid, BLOCK_THREADS, stream, s, first_column);
    } else {
        LAUNCH((sum_units<T, false, BF16>), grid, BLOCK_THREADS, stream, s, first_column);
    }
}

void cuda_sum_long(cudaStream_t stream, const struct cuda_sum *sum, int64_t n_edge, bool fours)
{
    const int64_t most = cuda_units_most(n_edge);
    const unsigned n_block = (unsigned)(most < 1 ? 1 : most < UNIT_BLOCKS ? most : UNIT_BLOCKS);
    for (int64_t column = 0; column < sum->f; column += CUDA_PARTIAL_COLUMNS) {
        const int64_t n = sum->f - column < CUDA_PARTIAL_COLUMNS ? sum->f - column : CUDA_PARTIAL_COLUMNS;
        const dim3 grid(n_block, (unsigned)((n + TILE_COLUMNS - 1) / TILE_COLUMNS));
        const auto launch = sum->is_bf16 ? fours ? units_launch<float4, true> : units_launch<float, true>
                            : fours ? units_launch<float4, false>
                                         : units_launch<float, false>;
        launch(stream, grid, *sum, column);
        LAUNCH(sum_pieces, n_block, BLOCK_THREADS, stream, *sum, column, n);
    }
}
