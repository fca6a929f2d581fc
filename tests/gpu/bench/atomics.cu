#include "models/cuda/vector.h"

extern "C" {
#include "tests/gpu/bench/atomics.h"
}

#ifdef CUDA_EMULATED
static void add_to(float *to, float x) /* blocks run one after another */
{
    *to += x;
}
#else
static __device__ __forceinline__ void add_to(float *to, float x)
{
    atomicAdd(to, x);
}
#endif

/* The rows that pieces go to begin with 0. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    rows_clear(int64_t n_piece, const struct atomics_piece *piece, const int64_t *indptr, int64_t f, float *out)
{
    for (int64_t p = blockIdx.x; p < n_piece; p += gridDim.x) {
        if (piece[p].begin != indptr[piece[p].row]) {
            continue;
        }
        for (int64_t c = threadIdx.x; c < f; c += BLOCK_THREADS) {
            out[piece[p].row * f + c] = 0.0F;
        }
    }
}

/* A warp takes a piece, four columns a lane, the rows of four edges on their way. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    pieces_add(int64_t n_piece, const struct atomics_piece *piece, const uint32_t *cols, int64_t f, const float *x,
               float *out)
{
    const int64_t n_warp = (int64_t)gridDim.x * BLOCK_THREADS / WARP;
    for (int64_t p = grid_thread() / WARP; p < n_piece; p += n_warp) {
        for (int64_t c = (int64_t)(threadIdx.x % WARP) * 4; c < f; c += 4 * WARP) {
            float4 sum = vector_fill<float4>(0.0F);
            int64_t e = piece[p].begin;
            for (; e + 4 <= piece[p].end; e += 4) {
                float4 row[4];
                for (int k = 0; k < 4; k++) {
                    row[k] = vector_read<float4>(x + (int64_t)cols[e + k] * f + c);
                }
                for (int k = 0; k < 4; k++) {
                    sum = vector_add(sum, row[k]);
                }
            }
            for (; e < piece[p].end; e++) {
                sum = vector_add(sum, vector_read<float4>(x + (int64_t)cols[e] * f + c));
            }
            float *to = out + piece[p].row * f + c;
            add_to(to, sum.x);
            add_to(to + 1, sum.y);
            add_to(to + 2, sum.z);
            add_to(to + 3, sum.w);
        }
    }
}

extern "C" void atomics_launch(struct figure *f, const struct atomics_sum *s)
{
    cudaStream_t stream = cuda_stream(f->device);
    if (s->n_piece > 0) {
        LAUNCH(rows_clear, grid_size(s->n_piece, 1), BLOCK_THREADS, stream, s->n_piece, s->piece, s->block.indptr,
               s->f, s->out);
        LAUNCH(pieces_add, grid_size(s->n_piece, BLOCK_THREADS / WARP), BLOCK_THREADS, stream, s->n_piece, s->piece,
               s->block.cols, s->f, s->x, s->out);
    }
}
