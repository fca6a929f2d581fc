/* Sums over neighbours: a few lanes of a warp take a row, as many as its columns fill with loads of 16 bytes, and add
 * edge after edge while the rows of four edges are on their way. Long rows: aggregate_long.cu.
 */
#include "models/cuda/aggregate/sum.h"

extern "C" {
#include "models/cuda/aggregate/spmm.h"
}

/* Edges whose rows are on their way at a time. */
#define AHEAD 4

/* The columns of one lane of a group: vector v begins at column + v · LANES · width. */
template <typename T, int LANES, int VECTORS> struct columns {
    int64_t first;

    __device__ __forceinline__ columns()
    {
        first = ((int64_t)blockIdx.y * VECTORS * LANES + group_lane<LANES>()) * width_of<T>;
    }

    __device__ __forceinline__ int64_t at(int v) const
    {
        return first + (int64_t)v * LANES * width_of<T>;
    }
};

/* A row's running sum. In a bordered block the edges after a border are summed separately, up to the next border. */
template <typename T, int VECTORS, bool BORDERED> struct row_sum {
    T sum[VECTORS];
    T alone[BORDERED ? VECTORS : 1];
    bool is_alone;

    __device__ __forceinline__ void border()
    {
        for (int v = 0; BORDERED && v < VECTORS; v++) {
            sum[v] = is_alone ? vector_add(sum[v], alone[v]) : sum[v];
            alone[v] = vector_of<T>(0.0F);
        }
        is_alone = true;
    }

    __device__ __forceinline__ void add(int v, float weight, T x)
    {
        if (BORDERED && is_alone) {
            alone[BORDERED ? v : 0] = vector_fma(weight, x, alone[BORDERED ? v : 0]);
        } else {
            sum[v] = vector_fma(weight, x, sum[v]);
        }
    }
};

/* Add edges begin … end-1, one after another. */
template <typename T, int LANES, int VECTORS, bool WEIGHTED, bool BORDERED>
static __device__ __forceinline__ void edges_add(const struct cuda_sum &s, int64_t begin, int64_t end,
                                                 const columns<T, LANES, VECTORS> &column,
                                                 row_sum<T, VECTORS, BORDERED> *sum)
{
    const unsigned mask = group_mask<LANES>();
    const int l = group_lane<LANES>();
    for (int64_t at = begin; at < end; at += LANES) {
        const int n = (int)(end - at < LANES ? end - at : LANES);
        const uint32_t col = l < n ? __ldcs(s.cols + at + l) : 0;
        const float weight = WEIGHTED && l < n ? edge_weight(s, at + l, BORDERED ? col & ~DEVICE_BORDER : col) : 0.0F;
        for (int e = 0; e < n; e += AHEAD) {
            T row[AHEAD][VECTORS];
            uint32_t c[AHEAD];
            float w[AHEAD];
            for (int k = 0; k < AHEAD; k++) {
                c[k] = __shfl_sync(mask, col, e + k, LANES);
                w[k] = WEIGHTED ? __shfl_sync(mask, weight, e + k, LANES) : 1.0F;
                const float *x = s.x + (int64_t)(BORDERED ? c[k] & ~DEVICE_BORDER : c[k]) * s.f;
                for (int v = 0; v < VECTORS; v++) {
                    const bool there = e + k < n && column.at(v) < s.f;
                    row[k][v] = there ? vector_read<T>(x + column.at(v)) : vector_of<T>(0.0F);
                }
            }
            for (int k = 0; k < AHEAD && e + k < n; k++) {
                if (BORDERED && (c[k] & DEVICE_BORDER) != 0) {
                    sum->border();
                }
                for (int v = 0; v < VECTORS; v++) {
                    sum->add(v, w[k], row[k][v]);
                }
            }
        }
    }
}

template <typename T, int LANES, int VECTORS, bool WEIGHTED, bool BORDERED>
__global__ void __launch_bounds__(BLOCK_THREADS, 2) sum_rows(const struct cuda_sum s)
{
    const columns<T, LANES, VECTORS> column;
    for (int64_t r = grid_group<LANES>(); r < s.n_row; r += grid_groups<LANES>()) {
        const int64_t begin = s.indptr[r], end = s.indptr[r + 1], row = own_row(s.rows, r);
        if (end - begin > s.n_most) {
            continue;
        }
        row_sum<T, VECTORS, BORDERED> sum = {};
        for (int v = 0; v < VECTORS; v++) {
            sum.sum[v] = column.at(v) < s.f ? sum_start<T>(s, row, column.at(v)) : vector_of<T>(0.0F);
        }
        edges_add<T, LANES, VECTORS, WEIGHTED, BORDERED>(s, begin, end, column, &sum);
        if (BORDERED && sum.is_alone) {
            sum.border();
        }
        for (int v = 0; v < VECTORS; v++) {
            if (column.at(v) < s.f) {
                sum_finish(s, row, column.at(v), sum.sum[v]);
            }
        }
    }
}

template <typename T, int LANES, int VECTORS> static void rows_launch(cudaStream_t stream, const struct cuda_sum &s)
{
    const int64_t width = (int64_t)LANES * VECTORS * width_of<T>;
    const dim3 grid(grid_of(s.n_row, BLOCK_THREADS / LANES), (unsigned)((s.f + width - 1) / width));
    if (s.bordered) {
        LAUNCH((sum_rows<T, LANES, VECTORS, true, true>), grid, BLOCK_THREADS, stream, s);
    } else if (s.weights != NULL || s.col_scale != NULL) {
        LAUNCH((sum_rows<T, LANES, VECTORS, true, false>), grid, BLOCK_THREADS, stream, s);
    } else {
        LAUNCH((sum_rows<T, LANES, VECTORS, false, false>), grid, BLOCK_THREADS, stream, s);
    }
}

/* Lanes that process a row's columns at once; several warps process a wide row. */
static void launch(cudaStream_t stream, const struct cuda_sum &s, bool fours)
{
    const int64_t n = fours ? s.f / 4 : s.f;
    if (fours) {
        n <= 4    ? rows_launch<float4, 4, 1>(stream, s)
        : n <= 8  ? rows_launch<float4, 8, 1>(stream, s)
        : n <= 16 ? rows_launch<float4, 16, 1>(stream, s)
        : n <= 32 ? rows_launch<float4, 32, 1>(stream, s)
                  : rows_launch<float4, 32, 2>(stream, s);
    } else {
        n <= 4    ? rows_launch<float, 4, 1>(stream, s)
        : n <= 16 ? rows_launch<float, 16, 1>(stream, s)
        : n <= 32 ? rows_launch<float, 32, 1>(stream, s)
                  : rows_launch<float, 32, 4>(stream, s);
    }
}

extern "C" void cuda_aggregate_sum(struct device *device, const struct device_block *block,
                                   const struct device_aggregate *how, int64_t f, const float *x, float *out)
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
    sum.begin = how->begin;
    sum.apart = how->apart;
    sum.bordered = block->bordered;
    sum.self = how->begin ? how->self : NULL;
    sum.self_scale = how->self_scale;
    sum.row_scale = how->finish ? how->row_scale : NULL;
    sum.out = out;
    sum.schedule = (const struct cuda_schedule *)block->schedule;
    if (f == 0 || block->n_row == 0 || cuda_spmm(device, block, how, f, x, out)) {
        return;
    }
    launch(cuda_stream(device), sum, fours);
    if (sum.schedule != NULL) {
        cuda_sum_long(cuda_stream(device), &sum, block->n_edge, fours);
    }
}
