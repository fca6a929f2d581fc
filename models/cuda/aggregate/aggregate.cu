/* Sums over neighbours: a few lanes of a warp, as many as a row's columns fill with loads of 16 bytes, take some rows
 * one behind another. They bring a row's next edges to shared memory, a lane some of them each, and ask for the rows
 * of AHEAD edges before they add the first. Behind a row's last edge is this edge once more, which is read and not
 * added: loads do not depend on where a row ends. Long rows: aggregate_long.cu.
 */
#include "models/cuda/aggregate/sum.h"

extern "C" {
#include "models/cuda/aggregate/spmm.h"
}

#include <type_traits>

/* Edges whose rows are on their way at a time. */
#define AHEAD 8

/* Threads of a block: few, since a block's place is free only when its longest rows are done. */
#define ROW_THREADS 128

/* Rows that a group takes one behind another; and the rows of a block from which on it takes so many, as then there
 * are enough groups for every place of a GPU. */
#define ROWS_MOST 8
#define ROWS_MANY ((int64_t)1 << 15)

/* These groups also take units, by UNIT_WARPS blocks of one warp: all of a row's edges, at most UNIT_MOST and a
 * UNIT_SHARE-th of the block's, so that none waits long for another; for a fifth of aggregate_long.cu's instructions.
 * Not groups of less than half a warp, which would wait for the longest of them. */
#define UNIT_WARPS 4096
#define UNIT_MOST 4096
#define UNIT_SHARE 4096

/* Where x does not stay in the L2 cache and each of its rows is read often enough, sums run in panels of columns, all
 * rows of one before the next one's (D78): of PANEL_LANES lanes, 256 bytes of a row. */
#define CACHE_BYTES ((int64_t)25 << 20)
#define PANEL_EDGES 4
#define PANEL_LANES 16

/* How LANES lanes read a row: each by LOADS loads of a RAW, which holds the columns of one T, or of two. */
template <typename T_, typename RAW_, int LANES_, int LOADS_> struct reading {
    typedef T_ T;
    typedef RAW_ RAW;
    static constexpr uint32_t MARKS = DEVICE_BORDER;
    static constexpr bool BF16 = !std::is_same<T, RAW>::value, WIDE = sizeof(RAW) > sizeof(float);
    static constexpr int LANES = LANES_, LOADS = LOADS_, COLUMNS = (int)sizeof(RAW) / (BF16 ? 2 : 4),
                         PARTS = COLUMNS / width_of<T>, N = LOADS * PARTS;
    /* Edges of a group in shared memory; quads of them from one group to the next, so that groups begin in different
     * banks, and from the columns to the weights. */
    static constexpr int HELD = LANES < 16 ? 16 : 32, QUADS = (HELD + LANES % WARP) / 4,
                         WEIGHTS = ROW_THREADS / LANES * QUADS;

    /* The first column of this thread's n-th T. */
    static __device__ __forceinline__ uint32_t column(uint32_t n)
    {
        const uint32_t load = blockIdx.y * LOADS + n / PARTS;
        return (load * LANES + threadIdx.x % LANES) * COLUMNS + n % PARTS * width_of<T>;
    }
};

/* The same of rows in which DEVICE_BACK is set, too: a border has more to do. */
template <class R> struct in_pieces : R {
    static constexpr uint32_t MARKS = DEVICE_MARKS;
};

template <typename T> static __device__ __forceinline__ void widen(T x, T *to)
{
    *to = x;
}

static __device__ __forceinline__ void widen(uint16_t x, float *to)
{
    *to = __uint_as_float((uint32_t)x << 16);
}

static __device__ __forceinline__ void widen(uint2 x, float4 *to)
{
    *to = make_float4(__uint_as_float(x.x << 16), __uint_as_float(x.x & 0xffff0000U), __uint_as_float(x.y << 16),
                      __uint_as_float(x.y & 0xffff0000U));
}

static __device__ __forceinline__ void widen(uint4 x, float4 *to)
{
    widen(uint2{x.x, x.y}, to);
    widen(uint2{x.z, x.w}, to + 1);
}

/* A row's running sum. In bordered rows what follows a border is summed separately, up to the next border, or goes on
 * with the row's sum. `before` and, of pieces behind a border, `block` begin as -0, which added to any number gives
 * this number. */
template <class R, bool BORDERED> struct row_sum {
    typedef typename R::T T;
    static constexpr bool PIECES = R::MARKS == DEVICE_MARKS;
    T sum[R::N], before[R::N], block[R::N];
    float scale;

    __device__ __forceinline__ row_sum(const struct cuda_sum &s, int64_t row, bool is_taken)
    {
        const struct sum_scales scales = sum_scales_read(s, row);
        scale = scales.row;
        for (int n = 0; n < R::N; n++) {
            sum[n] = is_taken && R::column(n) < s.f ? sum_start<T, R::BF16>(s, row, R::column(n), scales.self)
                                                    : vector_fill<T>(0.0F);
            before[n] = block[n] = vector_fill<T>(-0.0F);
        }
    }

    __device__ __forceinline__ void border(uint32_t mark)
    {
        const bool goes_on = PIECES && (mark & DEVICE_BORDER) == 0,
                   in_block = PIECES && (mark & DEVICE_MARKS) == DEVICE_MARKS;
        for (int n = 0; n < R::N; n++) {
            block[n] = PIECES ? vector_add(block[n], sum[n]) : sum[n];
            sum[n] = vector_fill<T>(0.0F);
            if (!in_block) {
                before[n] = vector_add(before[n], block[n]);
                block[n] = vector_fill<T>(-0.0F);
            }
            if (goes_on) {
                sum[n] = before[n];
                before[n] = vector_fill<T>(-0.0F);
            }
        }
    }

    __device__ __forceinline__ void add(float weight, const typename R::RAW x[R::LOADS])
    {
        for (int n = 0; n < R::N; n++) {
            T part[R::PARTS];
            widen(x[n / R::PARTS], part);
            sum[n] = vector_fma(weight, part[n % R::PARTS], sum[n]);
        }
    }

    __device__ __forceinline__ void finish(const struct cuda_sum &s, int64_t row) const
    {
        const float by = BORDERED ? sum_scales_read(s, row).row : scale; /* kept, it would be one register too many */
        for (int n = 0; n < R::N; n++) {
            const T last = BORDERED && PIECES ? vector_add(block[n], sum[n]) : sum[n];
            if (R::column(n) < s.f) {
                sum_finish(s, row, R::column(n), by, BORDERED ? vector_add(before[n], last) : last);
            }
        }
    }
};

/* Edges of a row in shared memory: columns, marked where there is a border, and weights. */
template <class R, bool WEIGHTED, bool BORDERED> struct row_edges {
    typedef typename R::RAW RAW;
    uint4 *cols;
    uintptr_t x[R::LOADS]; /* this lane's columns of row 0; behind the last column those before it */

    __device__ __forceinline__ row_edges(const struct cuda_sum &s, uint4 *shared)
    {
        cols = shared + threadIdx.x / R::LANES * R::QUADS;
        for (int l = 0; l < R::LOADS; l++) {
            const int64_t column = R::column(l * R::PARTS), last = s.f - R::COLUMNS;
            x[l] = (uintptr_t)s.x + (uintptr_t)(column < last ? column : last) * sizeof(RAW) / R::COLUMNS;
        }
    }

    /* Store HELD columns from edge `first` on; n of them exist, and the last one is repeated behind them. at: of
     * the row's first edge */
    __device__ __forceinline__ void put(const struct cuda_sum &s, int64_t first, uint32_t n, const int64_t *at) const
    {
        for (int l = group_lane<R::LANES>(); l < R::HELD; l += R::LANES) {
            const uint32_t i = (uint32_t)l < n ? (uint32_t)l : n - 1;
            const int64_t e = first + i;
            uint32_t col = __ldcs(s.cols + e), mark = 0;
            if (BORDERED) {
                const bool begins = ((uint32_t)e - (uint32_t)*at) % DEVICE_PIECE_EDGES == 0;
                mark = s.borders >= BORDERS_MARKED ? col & R::MARKS : begins ? DEVICE_BORDER : 0;
                col &= ~mark;
            }
            ((uint32_t *)cols)[l] = (R::WIDE ? col * (s.row_bytes / (uint32_t)sizeof(RAW)) : col) | mark;
            if (WEIGHTED) {
                ((float *)(cols + R::WEIGHTS))[l] = edge_weight(s, e, col);
            }
        }
    }

    /* Add AHEAD of them, or the first n. */
    template <bool ALL>
    __device__ __forceinline__ void add(const struct cuda_sum &s, const uint4 *at, int n,
                                        row_sum<R, BORDERED> *sum) const
    {
        const uint32_t *col = (const uint32_t *)at;
        /* volatile: read early, weights would take the registers of rows */
        typedef typename std::conditional<(R::PARTS > 1), volatile float, float>::type factor;
        const factor *weight = (const factor *)(at + R::WEIGHTS);
        RAW row[AHEAD][R::LOADS];
        for (int i = 0; i < AHEAD; i++) {
            const uint64_t place = BORDERED ? col[i] & ~R::MARKS : col[i];
            for (int l = 0; l < R::LOADS; l++) {
                row[i][l] = __ldg((const RAW *)(x[l] + place * (R::WIDE ? sizeof(RAW) : s.row_bytes)));
            }
        }
        for (int i = 0; i < AHEAD; i++) {
            if (ALL || i < n) {
                if (BORDERED && (col[i] & R::MARKS) != 0) {
                    sum->border(col[i]);
                }
                sum->add(WEIGHTED ? weight[i] : 1.0F, row[i]);
            }
        }
    }
};

/* The own row of the i-th unit, or row of the block. */
static __device__ __forceinline__ int64_t item_row(const struct cuda_sum &s, uint32_t i)
{
    return own_row(s.rows, s.units != NULL ? s.units[i].row : i);
}

/* blockIdx.y: which columns. Blocks begin in order of blockIdx.x first: all rows of some columns before the next. The
 * groups of a warp go from row to row together. */
template <class R, bool WEIGHTED, bool BORDERED>
__global__ void __launch_bounds__(ROW_THREADS, BORDERED ? 7 : 8) sum_rows(const struct cuda_sum s)
{
    SHARED(uint4, shared, 2 * R::WEIGHTS);
    const struct row_edges<R, WEIGHTED, BORDERED> edges(s, shared);
    const uint32_t n_each = (uint32_t)s.n_each, first = blockIdx.x * n_each;
    const uint32_t n_item = (uint32_t)(s.units != NULL ? s.schedule->n_unit : s.n_row);
    const uint32_t end = s.units != NULL || n_item - first < n_each ? n_item : first + n_each;
    for (uint32_t base = first; base < end; base += (uint32_t)s.step) {
        const uint32_t i = base + threadIdx.x / R::LANES;
        const bool is_there = i < end, is_unit = s.units != NULL;
        const int64_t begin = !is_there ? 0 : is_unit ? s.units[i].begin : s.indptr[i];
        const uint32_t n = (uint32_t)((!is_there ? 0 : is_unit ? s.units[i].end : s.indptr[i + 1]) - begin);
        const bool is_taken = is_there && n <= s.n_most && (!is_unit || s.units[i].partial < 0);
        struct row_sum<R, BORDERED> sum(s, is_there ? item_row(s, i) : 0, is_taken);
        int64_t e = is_taken ? begin : INT64_MIN; /* below 0 it remains */
        for (uint32_t left = is_taken ? n : 0; __any_sync(ALL_LANES, left > 0); e += R::HELD) {
            if (left > 0) {
                edges.put(s, e, left, is_unit ? &s.units[i].begin : &s.indptr[i]);
            }
            __syncwarp(ALL_LANES);
            const uint4 *at = edges.cols;
            int n_held = left < R::HELD ? (int)left : R::HELD;
            left -= (uint32_t)n_held;
            ROLLED
            for (; n_held >= AHEAD; n_held -= AHEAD, at += AHEAD / 4) {
                edges.template add<true>(s, at, n_held, &sum);
            }
            if (n_held > 0) {
                edges.template add<false>(s, at, n_held, &sum);
            }
            __syncwarp(ALL_LANES);
        }
        if (e >= 0) {
            sum.finish(s, item_row(s, i)); /* once more: kept, it would take registers of rows on their way */
        }
    }
}

template <class R>
static void kernel_launch(cudaStream_t stream, int64_t n_block, int n_thread, const struct cuda_sum &s)
{
    const int64_t width = R::LANES * R::LOADS * R::COLUMNS;
    const dim3 grid((unsigned)n_block, (unsigned)((s.f + width - 1) / width));
    if constexpr (R::PARTS == 1) { /* else there are not registers enough */
        if (s.borders != BORDERS_NONE) {
            LAUNCH((sum_rows<R, true, true>), grid, n_thread, stream, s);
            return;
        }
    }
    if constexpr (R::MARKS == DEVICE_BORDER) {
        if (s.weights != NULL || s.col_scale != NULL) {
            LAUNCH((sum_rows<R, true, false>), grid, n_thread, stream, s);
        } else {
            LAUNCH((sum_rows<R, false, false>), grid, n_thread, stream, s);
        }
    }
}

template <typename T, typename RAW, int LANES, int LOADS>
static void rows_launch(cudaStream_t stream, struct cuda_sum s)
{
    typedef struct reading<T, RAW, LANES, LOADS> R;
    if (s.units != NULL) {
        s.n_each = WARP / LANES;
        s.step = UNIT_WARPS * s.n_each;
        if constexpr (R::PARTS == 1 && R::WIDE) {
            (s.borders == BORDERS_ALL ? kernel_launch<in_pieces<R>> : kernel_launch<R>)(stream, UNIT_WARPS, WARP, s);
        }
        return;
    }
    s.step = ROW_THREADS / LANES;
    s.n_each = s.step * (s.n_row < ROWS_MANY ? 1 : ROWS_MOST);
    kernel_launch<R>(stream, (s.n_row + s.n_each - 1) / s.n_each, ROW_THREADS, s);
}

/* Lanes that process a row's columns at once; several groups process a wide row. */
template <typename RAW> static void wide_launch(cudaStream_t stream, const struct cuda_sum &s, int64_t most)
{
    const int64_t n_load = s.row_bytes / (int64_t)sizeof(RAW), n = n_load < most ? n_load : most;
    n <= 4    ? rows_launch<float4, RAW, 4, 1>(stream, s)
    : n <= 8  ? rows_launch<float4, RAW, 8, 1>(stream, s)
    : n <= 16 ? rows_launch<float4, RAW, 16, 1>(stream, s)
              : rows_launch<float4, RAW, 32, 1>(stream, s);
}

template <typename RAW> static void narrow_launch(cudaStream_t stream, const struct cuda_sum &s)
{
    s.f <= 4    ? rows_launch<float, RAW, 4, 1>(stream, s)
    : s.f <= 16 ? rows_launch<float, RAW, 16, 1>(stream, s)
                : rows_launch<float, RAW, 16, 3>(stream, s);
}

/* The long rows that are units here. They are in pieces, for which eights have not registers enough. */
static void units_launch(cudaStream_t stream, struct cuda_sum s, int64_t most)
{
    s.units = CUDA_UNITS(s.schedule);
    if (s.n_most > CUDA_LONG_EDGES) {
        (s.is_bf16 ? wide_launch<uint2> : wide_launch<float4>)(stream, s, most);
    }
}

extern "C" void cuda_aggregate_sum(struct device *device, const struct device_block *block,
                                   const struct device_aggregate *how, int64_t f, const void *x, float *out)
{
    const bool fours = by_fours(f, x, out, how->begin ? how->self : NULL);
    struct cuda_sum sum = {};
    sum.n_row = block->n_row;
    sum.rows = block->rows;
    sum.indptr = block->indptr;
    sum.cols = block->cols;
    sum.weights = block->types == NULL ? block->weights : NULL;
    sum.col_scale = how->col_scale;
    sum.f = f;
    sum.x = x;
    sum.is_bf16 = how->is_bf16;
    sum.stride = (f + 1) / 2 * 2;
    sum.row_bytes = (uint32_t)(how->is_bf16 ? 2 * sum.stride : 4 * f);
    sum.begin = how->begin;
    sum.apart = how->apart;
    sum.borders = block->bordered ? BORDERS_MARKED : block->is_part ? BORDERS_PIECES : BORDERS_NONE;
    sum.n_most = UINT32_MAX;
    sum.self = how->begin ? how->self : NULL;
    sum.self_scale = how->self_scale;
    sum.row_scale = how->finish ? how->row_scale : NULL;
    const struct device_epilogue *e = &how->epilogue;
    sum.end = {{out, e->is_bf16 ? sum.stride : f, e->is_bf16},
               e->is_there,
               e->rounds_sum,
               e->rounds_biased,
               e->activate.activation,
               e->bias,
               (float)(1.0 / (1.0 - e->activate.p)),
               0,
               dropout_make(&e->activate)};
    sum.schedule = (const struct cuda_schedule *)block->schedule;
    if (f == 0 || block->n_row == 0 || (!how->is_bf16 && cuda_spmm(device, block, how, f, (const float *)x, out))) {
        return;
    }
    const bool eights = sum.is_bf16 && f % 8 == 0 && sum.borders == BORDERS_NONE;
    const int64_t n_load = sum.row_bytes / (sum.is_bf16 && !eights ? 8 : 16);
    /* Places of rows leave the bits of marks free. */
    const bool wide = fours && block->n_col * n_load < (block->marked ? DEVICE_BACK : DEVICE_BORDER);
    const bool panels = block->n_col * sum.row_bytes > CACHE_BYTES && block->n_edge >= PANEL_EDGES * block->n_col;
    if (sum.schedule != NULL) {
        const int64_t share = block->n_edge / UNIT_SHARE < UNIT_MOST ? block->n_edge / UNIT_SHARE : UNIT_MOST;
        sum.n_most = wide && n_load >= WARP / 2 && share > CUDA_LONG_EDGES ? share : CUDA_LONG_EDGES;
        struct cuda_sum units = sum;
        units.borders = block->marked ? BORDERS_ALL : block->bordered ? BORDERS_MARKED : BORDERS_PIECES;
        cuda_sum_long(cuda_stream(device), &units, block->n_edge, fours);
        units_launch(cuda_stream(device), units, panels ? PANEL_LANES : WARP);
        sum.n_most = CUDA_LONG_EDGES;
    }
    if (!wide) {
        (sum.is_bf16 ? narrow_launch<uint16_t> : narrow_launch<float>)(cuda_stream(device), sum);
    } else {
        const auto launch = !sum.is_bf16 ? wide_launch<float4> : eights ? wide_launch<uint4> : wide_launch<uint2>;
        launch(cuda_stream(device), sum, panels ? PANEL_LANES : WARP);
    }
}
