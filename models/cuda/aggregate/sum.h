/* One sum over neighbours, as its kernels take it; for aggregate.cu and aggregate_long.cu. */
#ifndef MODELS_CUDA_SUM_H
#define MODELS_CUDA_SUM_H

#include "models/cuda/quads.h"
#include "models/cuda/vector.h"

extern "C" {
#include "models/cuda/schedule.h"
}

/* Where sums of pieces are joined: nowhere; each DEVICE_PIECE_EDGES edges; at DEVICE_BORDER; at DEVICE_MARKS. */
enum sum_borders { BORDERS_NONE, BORDERS_PIECES, BORDERS_MARKED, BORDERS_ALL };

/* Where sums go, and what they become before (struct device_epilogue): this with begin, and not apart. */
struct sum_end {
    quad_rows to;
    int64_t is_there, rounds_sum, rounds_biased, kind; /* enum device_activation: arguments have no padding */
    const float *bias;
    float scale, zero;
    dropout drop;
};

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
    const struct cuda_schedule *schedule;
    struct sum_end end;
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

static __device__ __forceinline__ struct sum_scales sum_scales_read(const struct cuda_sum &s, int64_t row)
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
        return s.apart ? vector_fill<T>(0.0F) : vector_load<T>((const float *)s.end.to.at + row * s.f + column);
    }
    if (s.self == NULL) {
        return vector_fill<T>(0.0F);
    }
    const T self = element_read<T, BF16>(s.self, sum_place<BF16>(s, row, column));
    return s.self_scale != NULL ? vector_scale(self_scale, self) : self;
}

/* Numbers from a column of a row on; one of BF16 is half a word. */
template <typename T>
static __device__ __forceinline__ void epilogue_store(const struct cuda_sum &s, int64_t row, int64_t column, T sum)
{
    constexpr int N = width_of<T>;
    const struct sum_end &e = s.end;
    const bool drops = e.drop.threshold != 0;
    const uint4 draws = drops ? dropout_draws(e.drop, row, column) : uint4{0, 0, 0, 0};
    alignas(sizeof(T)) struct quad x;
    vector_store(x.v, sum);
    UNROLLED
    for (int k = 0; k < N; k++) {
        const volatile float *bias = e.bias; /* which is not read early, into registers */
        float value = e.rounds_sum != 0 ? codec_round(x.v[k]) : x.v[k];
        value = bias != NULL ? value + bias[column + k] : value;
        value = activate_simple(e.kind, e.rounds_biased != 0 ? codec_round(value) : value) * e.scale;
        x.v[k] = drops && draw_at(draws, (unsigned)(column + k) % 4) < e.drop.threshold ? 0.0F : value;
    }
    if (N > 1 || s.end.to.is_bf16 == 0) {
        s.end.to.put<(N > 1)>(row, column, N, false, x);
        return;
    }
    uint16_t *to = (uint16_t *)s.end.to.at + row * s.end.to.step + column;
    to[0] = codec_bf16_nearest(x.v[0]);
    if (column == s.f - 1 && s.f < s.end.to.step) {
        to[1] = 0;
    }
}

template <typename T>
static __device__ __forceinline__ void sum_finish(const struct cuda_sum &s, int64_t row, int64_t column,
                                                  float row_scale, T sum)
{
    float *out = (float *)s.end.to.at + row * s.f + column;
    if (s.apart) {
        sum = vector_add(vector_load<T>(out), sum);
    }
    sum = s.row_scale != NULL ? vector_scale(row_scale, sum) : sum;
    s.end.is_there != 0 ? epilogue_store(s, row, column, sum) : vector_store(out, sum);
}

#endif
