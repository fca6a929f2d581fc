/* One sum over neighbours, as its kernels take it; for aggregate.cu and aggregate_long.cu. */
#ifndef MODELS_CUDA_SUM_H
#define MODELS_CUDA_SUM_H

#include "models/cuda/vector.h"

extern "C" {
#include "models/cuda/schedule.h"
}

/* Where sums of pieces are joined: nowhere; each DEVICE_PIECE_EDGES edges; at DEVICE_BORDER; at DEVICE_MARKS. */
enum sum_borders { BORDERS_NONE, BORDERS_PIECES, BORDERS_MARKED, BORDERS_ALL };

/* out[row] = row_scale · (start + Σ weight · x[col]), start: self_scale · self, or out[row], or 0. */
struct cuda_sum {
    int64_t n_row;
    int64_t n_most; /* edges of a row at most: longer ones are for cuda_sum_long, which leaves out the others */
    const uint32_t *rows;
    const int64_t *indptr;
    const uint32_t *cols;
    const float *weights, *col_scale; /* NULL: 1 */
    int64_t f;
    const void *x; /* and self: floats or BF16 */
    bool is_bf16;
    int64_t stride;           /* elements of a row of BF16 */
    uint32_t row_bytes, zero; /* zero: with another number the word could look like a pointer to host memory */
    int64_t n_each, step;     /* rows of a block of threads, and that it takes at once */
    bool begin;               /* start from self or 0, not from out */
    bool apart;               /* start from 0 and add what is at out at the end */
    enum sum_borders borders;
    const void *self;
    const float *self_scale, *row_scale;
    float *out;
    const struct cuda_schedule *schedule;
    const struct cuda_unit *units; /* rows are those of these units; NULL: the block's */
};

/* The rows of more edges than n_most, of n_edge edges in all at most. fours: rows can be taken by fours. */
void cuda_sum_long(cudaStream_t stream, const struct cuda_sum *sum, int64_t n_edge, bool fours);

static __device__ __forceinline__ float edge_weight(const struct cuda_sum &s, int64_t e, uint32_t col)
{
    const float weight = s.weights != NULL ? __ldcs(s.weights + e) : 1.0F;
    return s.col_scale != NULL ? weight * __ldg(s.col_scale + col) : weight;
}

/* What a row is scaled by. */
struct sum_scales {
    float self, row;
};

static __device__ __forceinline__ struct sum_scales sum_scales_of(const struct cuda_sum &s, int64_t row)
{
    struct sum_scales scales;
    scales.self = s.self != NULL && s.self_scale != NULL ? s.self_scale[row] : 1.0F;
    scales.row = s.row_scale != NULL ? s.row_scale[row] : 1.0F;
    return scales;
}

/* Element (row, column) of x or self. */
template <bool BF16>
static __device__ __forceinline__ int64_t sum_place(const struct cuda_sum &s, int64_t row, int64_t column)
{
    return row * (BF16 ? s.stride : s.f) + column;
}

/* What the sum of some columns of a row starts from. */
template <typename T, bool BF16>
static __device__ __forceinline__ T sum_start(const struct cuda_sum &s, int64_t row, int64_t column, float self_scale)
{
    if (!s.begin) {
        return s.apart ? vector_of<T>(0.0F) : vector_load<T>(s.out + row * s.f + column);
    }
    if (s.self == NULL) {
        return vector_of<T>(0.0F);
    }
    const T self = element_read<T, BF16>(s.self, sum_place<BF16>(s, row, column));
    return s.self_scale != NULL ? vector_scale(self_scale, self) : self;
}

template <typename T>
static __device__ __forceinline__ void sum_finish(const struct cuda_sum &s, int64_t row, int64_t column,
                                                  float row_scale, T sum)
{
    float *out = s.out + row * s.f + column;
    if (s.apart) {
        sum = vector_add(vector_load<T>(out), sum);
    }
    vector_store(out, s.row_scale != NULL ? vector_scale(row_scale, sum) : sum);
}

#endif
