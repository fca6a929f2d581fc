/* Blocks made of others for one halo pass: the edges of listed columns. A bit for each edge says whether its column
 * is listed, and the number of such edges before each 32 of them is known: that is how many there are before any
 * edge, which makes both the places of the edges that stay and the ends of the rows.
 */
#include "models/cuda/kernel.h"

extern "C" {
#include "models/cuda/block/sample.h"
#include "models/cuda/block/scan.h"
#include "models/cuda/schedule.h"
}

#define NOT_KEPT UINT32_MAX

struct cuda_edges cuda_edges_make(const struct device_block *block)
{
    return {block->n_row, block->n_col, block->rows, block->indptr, block->cols, block->weights, block->types};
}

struct cuda_made cuda_made_place(int64_t n_row, int64_t n_col, int64_t n_edge, bool weighted, bool typed,
                                 char *scratch)
{
    const struct cuda_made_places at = cuda_made_places_make(n_row, n_col, n_edge, weighted, typed);
    struct cuda_made made = {};
    made.schedule = scratch;
    made.indptr = (int64_t *)(void *)(scratch + at.indptr);
    made.cols = (uint32_t *)(void *)(scratch + at.cols);
    made.weights = weighted ? (float *)(void *)(scratch + at.weights) : NULL;
    made.types = typed ? (uint16_t *)(void *)(scratch + at.types) : NULL;
    made.work = scratch + at.work;
    return made;
}

struct device_block cuda_made_block(const struct cuda_made *made, int64_t n_row, int64_t n_col, int64_t n_edge)
{
    struct device_block block = {};
    block.n_row = n_row;
    block.n_col = n_col;
    block.n_edge = n_edge;
    block.indptr = made->indptr;
    block.cols = made->cols;
    block.types = made->types;
    block.weights = made->weights;
    return block;
}

/* Which edges stay. */
struct picked {
    uint32_t *place; /* n_col: a column's place among those kept */
    uint32_t *bits;  /* of 32 edges each */
    int64_t *before; /* edges that stay before each 32 */
    void *scan;
};

static struct picked picked_place(const struct cuda_picked_places &at, char *work)
{
    return {(uint32_t *)(void *)work, (uint32_t *)(void *)(work + at.bits), (int64_t *)(void *)(work + at.before),
            work + at.scan};
}

__global__ void __launch_bounds__(BLOCK_THREADS) kept_put(int64_t n_kept, const uint32_t *kept, uint32_t *place)
{
    for (int64_t i = grid_thread(); i < n_kept; i += grid_threads()) {
        place[kept[i]] = (uint32_t)i;
    }
}

/* A warp for each word. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    edges_mark(int64_t n_row, const int64_t *indptr, const uint32_t *cols, int64_t n_word, const struct picked to)
{
    const int64_t begin = indptr[0], end = indptr[n_row];
    for (int64_t w = grid_thread() / WARP; w < n_word; w += grid_threads() / WARP) {
        const int64_t e = begin + w * WARP + threadIdx.x % WARP;
        const unsigned bits = __ballot_sync(ALL_LANES, e < end && to.place[cols[e]] != NOT_KEPT);
        if (threadIdx.x % WARP == 0) {
            to.bits[w] = bits;
            to.before[w] = __popc(bits);
        }
    }
}

/* Edges that stay before edge number i of the block. */
static __device__ __forceinline__ int64_t rank_of(const struct picked &from, int64_t i)
{
    return from.before[i / 32] + __popc(from.bits[i / 32] & ((1U << (i % 32)) - 1));
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    rows_end(int64_t n_row, const int64_t *indptr, const struct picked from, int64_t *to)
{
    for (int64_t r = grid_thread(); r <= n_row; r += grid_threads()) {
        to[r] = rank_of(from, indptr[r] - indptr[0]);
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    edges_pick(const struct cuda_edges block, const struct picked from, const struct cuda_made to)
{
    const int64_t begin = block.indptr[0], n = block.indptr[block.n_row] - begin;
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) {
        if ((from.bits[i / 32] >> (i % 32) & 1U) == 0) {
            continue;
        }
        const int64_t at = rank_of(from, i);
        to.cols[at] = from.place[block.cols[begin + i]];
        if (to.weights != NULL) {
            to.weights[at] = block.weights[begin + i];
        }
        if (to.types != NULL) {
            to.types[at] = block.types[begin + i];
        }
    }
}

extern "C" void cuda_block_sample(struct device *device, const struct device_block *block, int64_t n_kept,
                                  const uint32_t *kept, void *scratch, struct device_block *out)
{
    const int64_t n_row = block->n_row, n_edge = block->n_edge;
    const struct cuda_picked_places at = cuda_picked_places_make(block->n_col, n_edge);
    const struct cuda_made to = cuda_made_place(n_row, block->n_col, n_edge, block->weights != NULL,
                                                block->types != NULL, (char *)scratch);
    const struct picked picked = picked_place(at, to.work);
    cudaStream_t stream = cuda_stream(device);
    cuda_check(device, cudaMemsetAsync(picked.place, 0xff, (size_t)block->n_col * sizeof *picked.place, stream),
               "sampling a block");
    LAUNCH(kept_put, grid_size(n_kept, BLOCK_THREADS), BLOCK_THREADS, stream, n_kept, kept, picked.place);
    LAUNCH(edges_mark, grid_size(at.n_word, BLOCK_THREADS / WARP), BLOCK_THREADS, stream, n_row, block->indptr,
           block->cols, at.n_word, picked);
    cuda_scan(device, at.n_word, picked.before, picked.scan);
    LAUNCH(rows_end, grid_size(n_row + 1, BLOCK_THREADS), BLOCK_THREADS, stream, n_row, block->indptr, picked,
           to.indptr);
    LAUNCH(edges_pick, grid_size(n_edge, BLOCK_THREADS), BLOCK_THREADS, stream, cuda_edges_make(block), picked, to);
    *out = cuda_made_block(&to, n_row, n_kept, n_edge);
    out->rows = block->rows;
    out->edge_table = block->edge_table;
    out->schedule = cuda_schedule_make(device, n_row, n_edge, to.indptr, to.schedule);
}
