/* Maxima over neighbours with their places, and their gradients. */
#include "models/cuda/vector.h"

extern "C" {
#include "models/cuda/schedule.h"
}

/* Edges whose rows are on their way at a time, and columns of a lane. */
#define AHEAD 4
#define COLUMNS 2

/* Groups of a block that process a long row together. */
#define GROUPS 16

/* Blocks for units of the schedule at most. */
#define UNIT_BLOCKS 4096

struct max {
    int64_t n_row;
    int64_t n_most; /* edges of a row at most: longer ones are long */
    const uint32_t *rows;
    const int64_t *indptr;
    const uint32_t *cols;
    const struct cuda_schedule *schedule;
    int64_t arg_base;
    bool begin;
    const float *self; /* with begin: start from the own row, at place arg_base + row; NULL: start empty */
    int64_t f;
    const float *x;
    float *out;
    uint32_t *arg;
};

/* The greatest so far in this lane's columns; column k is the first one's, k · LANES further on. */
struct greatest {
    float best[COLUMNS];
    uint32_t place[COLUMNS];

    __device__ __forceinline__ void add(int k, float value, uint32_t at)
    {
        const bool takes = value > best[k] || isnan(value); /* a later equal value does not replace an earlier one */
        place[k] = takes ? at : place[k];
        best[k] = takes ? value : best[k];
    }
};

static __device__ __forceinline__ struct greatest greatest_none()
{
    struct greatest g;
    for (int k = 0; k < COLUMNS; k++) {
        g.best[k] = -CUDART_INF_F;
        g.place[k] = UINT32_MAX;
    }
    return g;
}

/* This lane's first column. */
template <int LANES> static __device__ __forceinline__ int64_t lane_column()
{
    return (int64_t)blockIdx.y * LANES * COLUMNS + group_lane<LANES>();
}

template <int LANES>
static __device__ __forceinline__ struct greatest greatest_start(const struct max &m, int64_t row)
{
    struct greatest g = greatest_none();
    for (int k = 0; k < COLUMNS; k++) {
        const int64_t c = lane_column<LANES>() + k * LANES, i = row * m.f + c;
        if (c < m.f && !m.begin) {
            g.best[k] = m.out[i];
            g.place[k] = m.arg[i];
        } else if (c < m.f && m.self != NULL) {
            g.best[k] = m.self[i];
            g.place[k] = (uint32_t)(m.arg_base + row);
        }
    }
    return g;
}

template <int LANES>
static __device__ __forceinline__ void edges_max(const struct max &m, int64_t begin, int64_t end, struct greatest *g)
{
    const int l = group_lane<LANES>();
    for (int64_t at = begin; at < end; at += LANES) {
        const int n = (int)(end - at < LANES ? end - at : LANES);
        const uint32_t col = l < n ? __ldcs(m.cols + at + l) : 0;
        for (int e = 0; e < n; e += AHEAD) {
            float row[AHEAD][COLUMNS];
            uint32_t c[AHEAD];
            for (int i = 0; i < AHEAD; i++) {
                c[i] = __shfl_sync(group_mask<LANES>(), col, e + i, LANES);
                for (int k = 0; k < COLUMNS; k++) {
                    const int64_t column = lane_column<LANES>() + k * LANES;
                    const bool there = e + i < n && column < m.f;
                    row[i][k] = there ? __ldg(m.x + (int64_t)c[i] * m.f + column) : -CUDART_INF_F;
                }
            }
            for (int i = 0; i < AHEAD; i++) {
                for (int k = 0; k < COLUMNS; k++) {
                    g->add(k, row[i][k], (uint32_t)m.arg_base + c[i]);
                }
            }
        }
    }
}

template <int LANES>
static __device__ __forceinline__ void greatest_store(const struct max &m, int64_t row, const struct greatest &g)
{
    for (int k = 0; k < COLUMNS; k++) {
        const int64_t c = lane_column<LANES>() + k * LANES;
        if (c < m.f) {
            m.out[row * m.f + c] = g.best[k];
            m.arg[row * m.f + c] = g.place[k];
        }
    }
}

template <int LANES> __global__ void __launch_bounds__(BLOCK_THREADS, 2) max_rows(const struct max m)
{
    for (int64_t r = grid_group<LANES>(); r < m.n_row; r += grid_groups<LANES>()) {
        const int64_t row = own_row(m.rows, r);
        if (m.indptr[r + 1] - m.indptr[r] <= m.n_most) {
            struct greatest g = greatest_start<LANES>(m, row);
            edges_max<LANES>(m, m.indptr[r], m.indptr[r + 1], &g);
            greatest_store<LANES>(m, row, g);
        }
    }
}

/* Long rows: the groups of a block take a slice of the edges each, and the first one takes theirs in order. */
template <int LANES> __global__ void __launch_bounds__(GROUPS *LANES, 1) max_long(const struct max m)
{
    SHARED(float, best, (GROUPS * LANES * COLUMNS));
    SHARED(uint32_t, place, (GROUPS * LANES * COLUMNS));
    const struct cuda_unit *unit = CUDA_UNITS(m.schedule);
    const int group = (int)threadIdx.x / LANES, l = group_lane<LANES>();
    for (int64_t u = blockIdx.x; u < m.schedule->n_unit; u += gridDim.x) {
        const int64_t r = unit[u].row, row = own_row(m.rows, r), begin = m.indptr[r], n = m.indptr[r + 1] - begin;
        if (unit[u].begin != begin) { /* a hub row is taken whole, at its first piece */
            continue;
        }
        struct greatest g = group == 0 ? greatest_start<LANES>(m, row) : greatest_none();
        edges_max<LANES>(m, begin + n * group / GROUPS, begin + n * (group + 1) / GROUPS, &g);
        __syncthreads();
        for (int k = 0; k < COLUMNS; k++) {
            best[(group * COLUMNS + k) * LANES + l] = g.best[k];
            place[(group * COLUMNS + k) * LANES + l] = g.place[k];
        }
        __syncthreads();
        if (group > 0) {
            continue;
        }
        for (int other = 1; other < GROUPS; other++) {
            for (int k = 0; k < COLUMNS; k++) {
                const int at = (other * COLUMNS + k) * LANES + l;
                g.add(k, best[at], place[at]);
            }
        }
        greatest_store<LANES>(m, row, g);
    }
}

template <int LANES> static void launch(cudaStream_t stream, const struct max &m, int64_t n_edge)
{
    const unsigned chunks = (unsigned)((m.f + LANES * COLUMNS - 1) / (LANES * COLUMNS));
    const int64_t most = cuda_units_most(n_edge);
    LAUNCH(max_rows<LANES>, dim3(grid_size(m.n_row, BLOCK_THREADS / LANES), chunks), BLOCK_THREADS, stream, m);
    if (m.schedule != NULL) {
        const dim3 blocks((unsigned)(most < 1 ? 1 : most < UNIT_BLOCKS ? most : UNIT_BLOCKS), chunks);
        LAUNCH(max_long<LANES>, blocks, GROUPS * LANES, stream, m);
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS) empty_clear(int64_t n_value, const uint32_t *arg, float *out)
{
    for (int64_t i = grid_thread(); i < n_value; i += grid_threads()) {
        if (arg[i] == UINT32_MAX) {
            out[i] = 0.0F;
        }
    }
}

extern "C" void cuda_aggregate_max(struct device *device, const struct device_block *block,
                                   const struct device_max *how, int64_t f, const float *x, float *out, uint32_t *arg)
{
    cudaStream_t stream = cuda_stream(device);
    struct max m = {};
    m.n_row = block->n_row;
    m.n_most = block->schedule != NULL ? CUDA_LONG_EDGES : INT64_MAX;
    m.rows = block->rows;
    m.indptr = block->indptr;
    m.cols = block->cols;
    m.schedule = (const struct cuda_schedule *)block->schedule;
    m.arg_base = how->arg_base;
    m.begin = how->begin;
    m.self = how->self;
    m.f = f;
    m.x = x;
    m.out = out;
    m.arg = arg;
    if (block->n_row == 0 || f == 0) {
        /* no rows */
    } else if (f <= 8) {
        launch<4>(stream, m, block->n_edge);
    } else if (f <= 32) {
        launch<16>(stream, m, block->n_edge);
    } else {
        launch<32>(stream, m, block->n_edge);
    }
    if (how->n_finish > 0) {
        LAUNCH(empty_clear, grid_size(how->n_finish * f, BLOCK_THREADS), BLOCK_THREADS, stream, how->n_finish * f,
               arg, out);
    }
}
