/* Sums over neighbours: a few lanes of a warp, as many as a row's columns fill with loads of 16 bytes, take some rows
 * one behind another. Their edges are one stream: the values of four edges are on their way at a time, also where one
 * row ends and the next begins. Long rows: aggregate_long.cu.
 */
#include "models/cuda/aggregate/sum.h"

extern "C" {
#include "models/cuda/aggregate/spmm.h"
}

/* Edges whose rows are on their way at a time. */
#define AHEAD 4

/* Threads of a block: few, since a block's place is free only when its longest rows are done. */
#define ROW_THREADS 128

/* Rows that a group takes one behind another at most; and the rows of a block from which on it takes so many, as then
 * there are enough groups for every place of a GPU. */
#define ROWS_MOST 8
#define ROWS_MANY ((int64_t)1 << 15)

/* A row's running sum. In a bordered block the edges after a border are summed separately, up to the next border. */
template <typename T, bool BORDERED> struct row_sum {
    T sum, alone;
    bool is_alone;

    __device__ __forceinline__ void border()
    {
        sum = is_alone ? vector_add(sum, alone) : sum;
        alone = vector_of<T>(0.0F);
        is_alone = true;
    }

    __device__ __forceinline__ void add(float weight, T x)
    {
        if (BORDERED && is_alone) {
            alone = vector_fma(weight, x, alone);
        } else {
            sum = vector_fma(weight, x, sum);
        }
    }
};

/* Some rows of the block that a group takes one behind another; lane r holds what belongs to row r. */
template <int LANES> struct rows_held {
    int64_t first;
    int n;
    uint32_t own; /* the own row */
    struct sum_scales scales;

    __device__ __forceinline__ rows_held(const struct cuda_sum &s, int64_t first_row)
    {
        const int l = group_lane<LANES>();
        first = first_row;
        n = (int)(s.n_row - first < s.n_each ? s.n_row - first : s.n_each);
        own = (uint32_t)own_row(s.rows, first + (l < n ? l : n - 1));
        scales = sum_scales_of(s, own);
    }

    template <typename X> static __device__ __forceinline__ X of(int r, X mine)
    {
        return __shfl_sync(group_mask<LANES>(), mine, r, LANES);
    }

    /* Bit r: row r is long. */
    __device__ __forceinline__ unsigned longs(const struct cuda_sum &s) const
    {
        const int l = group_lane<LANES>();
        const bool is_long = l < n && s.indptr[first + l + 1] - s.indptr[first + l] > s.n_most;
        return __ballot_sync(group_mask<LANES>(), is_long) >> (threadIdx.x % WARP / LANES * LANES);
    }
};

/* The sum of rows of a stream, one behind another; edges count from the stream's first. */
template <typename T, int LANES, bool BORDERED, bool BF16> struct stream {
    const struct cuda_sum &s;
    const rows_held<LANES> &rows;
    int64_t column; /* this lane's */
    int64_t begin;
    int r, last;  /* the row that is being summed; the last one */
    int end, all; /* its edges end here; all of them do. A lane has the ends of its own row in `ends` */
    int ends;
    row_sum<T, BORDERED> sum;
    T next; /* what the next row starts from, on its way */

    __device__ __forceinline__ stream(const struct cuda_sum &sum_, const rows_held<LANES> &held, int64_t column_,
                                      int first, int last_)
        : s(sum_), rows(held), column(column_), last(last_)
    {
        const int l = group_lane<LANES>();
        begin = s.indptr[rows.first + first];
        ends = l >= first && l <= last ? (int)(s.indptr[rows.first + l + 1] - begin) : 0;
        all = rows.of(last, ends);
        fetch(first);
        row_begin(first);
    }

    __device__ __forceinline__ void fetch(int row)
    {
        const int64_t own = (int64_t)rows.of(row, rows.own);
        const float scale = rows.of(row, rows.scales.self);
        next = column < s.f ? sum_start<T, BF16>(s, own, column, scale) : vector_of<T>(0.0F);
    }

    __device__ __forceinline__ void row_begin(int row)
    {
        r = row;
        end = rows.of(row, ends);
        sum.is_alone = false;
        sum.sum = next;
        if (r < last) {
            fetch(r + 1);
        }
    }

    __device__ __forceinline__ void row_finish()
    {
        const int64_t own = (int64_t)rows.of(r, rows.own);
        const float scale = rows.of(r, rows.scales.row);
        if (BORDERED && sum.is_alone) {
            sum.border();
        }
        if (column < s.f) {
            sum_finish(s, own, column, scale, sum.sum);
        }
    }

    /* Add the next LANES edges, from `at` on: each lane reads one edge, all add its row. */
    template <bool WEIGHTED> __device__ __forceinline__ void batch_add(int at)
    {
        const unsigned mask = group_mask<LANES>();
        const int l = group_lane<LANES>(), n = all - at < LANES ? all - at : LANES;
        const uint32_t col = l < n ? __ldcs(s.cols + begin + at + l) : 0;
        const float weight = WEIGHTED && l < n ? edge_weight(s, begin + at + l, BORDERED ? col & ~DEVICE_BORDER : col)
                                               : 0.0F;
        ROLLED
        for (int e = 0; e < n; e += AHEAD) {
            T row[AHEAD];
            bool border[AHEAD];
            for (int k = 0; k < AHEAD; k++) {
                const uint32_t c = __shfl_sync(mask, col, e + k, LANES);
                const int64_t x = sum_place<BF16>(s, BORDERED ? c & ~DEVICE_BORDER : c, column);
                border[k] = BORDERED && (c & DEVICE_BORDER) != 0;
                row[k] = e + k < n && column < s.f ? element_read<T, BF16>(s.x, x) : vector_of<T>(0.0F);
            }
            for (int k = 0; k < AHEAD && e + k < n; k++) {
                while (at + e + k >= end) {
                    row_finish();
                    row_begin(r + 1);
                }
                if (border[k]) {
                    sum.border();
                }
                sum.add(WEIGHTED ? __shfl_sync(mask, weight, e + k, LANES) : 1.0F, row[k]);
            }
        }
    }

    template <bool WEIGHTED> __device__ __forceinline__ void add()
    {
        for (int at = 0; at < all; at += LANES) {
            batch_add<WEIGHTED>(at);
        }
        row_finish();
        while (r < last) { /* rows without edges */
            row_begin(r + 1);
            row_finish();
        }
    }
};

template <typename T, int LANES, bool WEIGHTED, bool BORDERED, bool BF16>
__global__ void __launch_bounds__(ROW_THREADS, BORDERED ? 7 : 8) sum_rows(const struct cuda_sum s)
{
    const int64_t column = ((int64_t)blockIdx.y * LANES + group_lane<LANES>()) * width_of<T>;
    for (int64_t i = grid_group<LANES>() * s.n_each; i < s.n_row; i += grid_groups<LANES>() * s.n_each) {
        const rows_held<LANES> rows(s, i);
        const unsigned longs = rows.longs(s);
        for (int first = 0, end; first < rows.n; first = end + 1) { /* rows between long ones */
            for (end = first; end < rows.n && (longs >> end & 1U) == 0; end++) {
            }
            if (end > first) {
                stream<T, LANES, BORDERED, BF16>(s, rows, column, first, end - 1).template add<WEIGHTED>();
            }
        }
    }
}

template <typename T, int LANES, bool BF16>
static void rows_launch_of(cudaStream_t stream, const dim3 &grid, const struct cuda_sum &s)
{
    if (s.bordered) {
        LAUNCH((sum_rows<T, LANES, true, true, BF16>), grid, ROW_THREADS, stream, s);
    } else if (s.weights != NULL || s.col_scale != NULL) {
        LAUNCH((sum_rows<T, LANES, true, false, BF16>), grid, ROW_THREADS, stream, s);
    } else {
        LAUNCH((sum_rows<T, LANES, false, false, BF16>), grid, ROW_THREADS, stream, s);
    }
}

template <typename T, int LANES> static void rows_launch(cudaStream_t stream, struct cuda_sum s)
{
    const int64_t width = (int64_t)LANES * width_of<T>;
    s.n_each = s.n_row < ROWS_MANY ? 1 : LANES < ROWS_MOST ? LANES : ROWS_MOST;
    const dim3 grid(grid_of((s.n_row + s.n_each - 1) / s.n_each, ROW_THREADS / LANES),
                    (unsigned)((s.f + width - 1) / width));
    if (s.is_bf16) {
        rows_launch_of<T, LANES, true>(stream, grid, s);
    } else {
        rows_launch_of<T, LANES, false>(stream, grid, s);
    }
}

/* Lanes that process a row's columns at once; several warps process a wide row. */
static void launch(cudaStream_t stream, const struct cuda_sum &s, bool fours)
{
    const int64_t n = fours ? s.f / 4 : s.f;
    if (fours) {
        n <= 4    ? rows_launch<float4, 4>(stream, s)
        : n <= 8  ? rows_launch<float4, 8>(stream, s)
        : n <= 16 ? rows_launch<float4, 16>(stream, s)
                  : rows_launch<float4, 32>(stream, s);
    } else {
        n <= 4    ? rows_launch<float, 4>(stream, s)
        : n <= 16 ? rows_launch<float, 16>(stream, s)
                  : rows_launch<float, 32>(stream, s);
    }
}

extern "C" void cuda_aggregate_sum(struct device *device, const struct device_block *block,
                                   const struct device_aggregate *how, int64_t f, const void *x, float *out)
{
    const bool fours = by_fours(f, x, out, how->begin ? how->self : NULL);
    struct cuda_sum sum = {};
    sum.n_row = block->n_row;
    sum.n_most = block->schedule != NULL ? CUDA_LONG_EDGES : INT64_MAX;
    sum.rows = block->rows;
    sum.indptr = block->indptr;
    sum.cols = block->cols;
    sum.weights = block->types == NULL ? block->weights : NULL;
    sum.col_scale = how->col_scale;
    sum.f = f;
    sum.x = x;
    sum.is_bf16 = how->is_bf16;
    sum.stride = (f + 1) / 2 * 2;
    sum.begin = how->begin;
    sum.apart = how->apart;
    sum.bordered = block->bordered;
    sum.self = how->begin ? how->self : NULL;
    sum.self_scale = how->self_scale;
    sum.row_scale = how->finish ? how->row_scale : NULL;
    sum.out = out;
    sum.schedule = (const struct cuda_schedule *)block->schedule;
    if (f == 0 || block->n_row == 0 || (!how->is_bf16 && cuda_spmm(device, block, how, f, (const float *)x, out))) {
        return;
    }
    if (sum.schedule != NULL) {
        cuda_sum_long(cuda_stream(device), &sum, block->n_edge, fours);
    }
    launch(cuda_stream(device), sum, fours);
}
