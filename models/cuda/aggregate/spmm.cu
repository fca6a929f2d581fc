/* What is around a sum by cuSPARSE: its matrix's arrays before, scales and additions after. */
#include "models/cuda/quads.h"

extern "C" {
#include "models/cuda/aggregate/spmm.h"
}

__global__ void __launch_bounds__(BLOCK_THREADS) offsets_fill(int64_t n_row, const int64_t *indptr, int32_t *out)
{
    for (int64_t r = grid_thread(); r <= n_row; r += grid_threads()) {
        out[r] = (int32_t)indptr[r];
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    values_fill(int64_t n_edge, const uint32_t *cols, const float *weights, const float *scale, float *out)
{
    for (int64_t e = grid_thread(); e < n_edge; e += grid_threads()) {
        const float weight = weights != NULL ? weights[e] : 1.0F;
        out[e] = scale != NULL ? weight * scale[cols[e]] : weight;
    }
}

struct end_map {
    struct cuda_spmm_end how;

    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        const int64_t row = how.rows != NULL ? (int64_t)how.rows[r] : r;
        struct quad sum = quad_load<VECTOR>(how.sum + r * how.f + c, n);
        if (how.adds != 0) {
            const struct quad there = quad_load<VECTOR>(how.out + row * how.f + c, n);
            for (int k = 0; k < 4; k++) {
                sum.v[k] = there.v[k] + sum.v[k];
            }
        } else if (how.self != NULL) {
            const struct quad self = quad_load<VECTOR>(how.self + row * how.f + c, n);
            const float scale = how.self_scale != NULL ? how.self_scale[row] : 1.0F;
            for (int k = 0; k < 4; k++) {
                sum.v[k] = fmaf(scale, self.v[k], sum.v[k]);
            }
        }
        const float scale = how.row_scale != NULL ? how.row_scale[row] : 1.0F;
        for (int k = 0; k < 4; k++) {
            sum.v[k] = scale * sum.v[k];
        }
        quad_store<VECTOR>(how.out + row * how.f + c, n, sum);
    }
};

extern "C" void cuda_spmm_offsets(struct device *device, int64_t n_row, const int64_t *indptr, int32_t *out)
{
    LAUNCH(offsets_fill, grid_size(n_row + 1, BLOCK_THREADS), BLOCK_THREADS, cuda_stream(device), n_row, indptr, out);
}

extern "C" void cuda_spmm_values(struct device *device, int64_t n_edge, const uint32_t *cols, const float *weights,
                                 const float *scale, float *out)
{
    LAUNCH(values_fill, grid_size(n_edge, BLOCK_THREADS), BLOCK_THREADS, cuda_stream(device), n_edge, cols, weights,
           scale, out);
}

extern "C" void cuda_spmm_finish(struct device *device, const struct cuda_spmm_end *how)
{
    const bool aligned = how->f % 4 == 0 && quad_aligned(how->sum) && quad_aligned(how->out) &&
                         quad_aligned(how->self);
    quads_launch(device, how->n_row, how->f, aligned, end_map{*how});
}
