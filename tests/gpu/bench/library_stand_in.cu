/* What stands in the place of cuSPARSE in emulated builds. */
#include "models/cuda/kernel.h"

extern "C" {
#include "tests/gpu/bench/library.h"
}

#ifdef CUDA_EMULATED

__global__ void elements_sum(int64_t n_row, const int64_t *indptr, const uint32_t *cols, int64_t n_column, const float *x,
                             float *out)
{
    for (int64_t i = grid_thread(); i < n_row * n_column; i += grid_threads()) {
        const int64_t r = i / n_column, c = i % n_column;
        float sum = 0.0F;
        for (int64_t e = indptr[r]; e < indptr[r + 1]; e++) {
            sum += x[(int64_t)cols[e] * n_column + c];
        }
        out[i] = sum;
    }
}

extern "C" void library_stand_in(struct figure *f, const struct device_block *block, int64_t n_column, const float *x,
                                 float *out)
{
    LAUNCH(elements_sum, grid_of(block->n_row * n_column, BLOCK_THREADS), BLOCK_THREADS, cuda_stream(f->device), block->n_row,
           block->indptr, block->cols, n_column, x, out);
}

#endif
