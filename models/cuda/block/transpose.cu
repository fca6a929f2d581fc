/* Blocks made of others for one halo pass: all edges from their other ends. Edges are put in the order of their
 * columns, of one column in that of their types, then of their rows, by passes over 8 bits each that keep the order
 * of equals (a radix sort).
 */
#include "models/cuda/kernel.h"

extern "C" {
#include "models/cuda/block/sample.h"
#include "models/cuda/block/scan.h"
#include "models/cuda/schedule.h"
}

#define DIGITS CUDA_ORDER_DIGITS
#define WARPS (BLOCK_THREADS / WARP)

/* Edges that a block of threads puts in order at once, a warp so many of them one after another. */
#define TILE CUDA_ORDER_TILE
#define WARP_EDGES (TILE / WARPS)

/* What is looked at in a pass: 8 bits of types or columns. */
struct pass {
    const int64_t *indptr;
    int64_t n_row, n_tile;
    const uint16_t *types; /* NULL: columns */
    const uint32_t *cols;
    int64_t shift;
};

static __device__ __forceinline__ int64_t edges_of(const struct pass &p)
{
    return p.indptr[p.n_row] - p.indptr[0];
}

/* The digit of the edge that is number i now; from NULL: edges are as in the block. */
template <typename ID>
static __device__ __forceinline__ unsigned digit_of(const struct pass &p, const ID *from, int64_t i)
{
    const int64_t e = p.indptr[0] + (from != NULL ? (int64_t)from[i] : i);
    return (p.types != NULL ? (unsigned)p.types[e] : p.cols[e]) >> p.shift & (DIGITS - 1);
}

/* The lanes with this lane's digit; all lanes call it, those without one pass DIGITS. */
static __device__ __forceinline__ unsigned equals_of(unsigned digit)
{
    unsigned equal = ALL_LANES;
    for (int bit = 0; bit < 9; bit++) {
        const bool is_set = (digit >> bit & 1U) != 0;
        const unsigned set = __ballot_sync(ALL_LANES, is_set);
        equal &= is_set ? set : ~set;
    }
    return equal;
}

/* counts[warp][digit] of one warp's edges of a tile, in shared memory. */
template <typename ID>
static __device__ __forceinline__ void warp_count(const struct pass &p, const ID *from, int64_t n, int64_t first,
                                                  unsigned *count)
{
    const int lane = (int)threadIdx.x % WARP;
    for (int d = lane; d < DIGITS; d += WARP) {
        count[d] = 0;
    }
    __syncwarp(ALL_LANES);
    for (int64_t at = first; at < first + WARP_EDGES; at += WARP) {
        const unsigned digit = at + lane < n ? digit_of(p, from, at + lane) : DIGITS, equal = equals_of(digit);
        if (digit < DIGITS && __ffs((int)equal) - 1 == lane) {
            count[digit] += (unsigned)__popc(equal);
        }
        __syncwarp(ALL_LANES);
    }
}

/* count[digit · n_tile + tile] */
template <typename ID>
__global__ void __launch_bounds__(BLOCK_THREADS) digits_count(const struct pass p, const ID *from, int64_t *count)
{
    SHARED(unsigned, counts, (WARPS * DIGITS));
    const int64_t n = edges_of(p);
    const int warp = (int)threadIdx.x / WARP;
    for (int64_t tile = blockIdx.x; tile < p.n_tile; tile += gridDim.x) {
        warp_count(p, from, n, tile * TILE + warp * WARP_EDGES, counts + warp * DIGITS);
        __syncthreads();
        for (int d = (int)threadIdx.x; d < DIGITS; d += BLOCK_THREADS) {
            int64_t sum = 0;
            for (int w = 0; w < WARPS; w++) {
                sum += counts[w * DIGITS + d];
            }
            count[d * p.n_tile + tile] = sum;
        }
        __syncthreads();
    }
}

/* before[digit · n_tile + tile]: edges with lower digits, and those with this one in tiles before. */
template <typename ID>
__global__ void __launch_bounds__(BLOCK_THREADS)
    digits_put(const struct pass p, const ID *from, const int64_t *before, ID *to)
{
    SHARED(unsigned, counts, (WARPS * DIGITS));
    const int64_t n = edges_of(p);
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    unsigned *mine = counts + warp * DIGITS;
    for (int64_t tile = blockIdx.x; tile < p.n_tile; tile += gridDim.x) {
        const int64_t first = tile * TILE + warp * WARP_EDGES;
        warp_count(p, from, n, first, mine);
        __syncthreads();
        for (int d = (int)threadIdx.x; d < DIGITS; d += BLOCK_THREADS) { /* counts become those of the warps before */
            unsigned sum = 0;
            for (int w = 0; w < WARPS; w++) {
                const unsigned here = counts[w * DIGITS + d];
                counts[w * DIGITS + d] = sum;
                sum += here;
            }
        }
        __syncthreads();
        for (int64_t at = first; at < first + WARP_EDGES; at += WARP) {
            const int64_t i = at + lane;
            const unsigned digit = i < n ? digit_of(p, from, i) : DIGITS, equal = equals_of(digit);
            const unsigned count = digit < DIGITS ? mine[digit] : 0;
            __syncwarp(ALL_LANES);
            if (digit < DIGITS) {
                const int64_t place = before[digit * p.n_tile + tile] + count + __popc(equal & ((1U << lane) - 1));
                to[place] = from != NULL ? from[i] : (ID)i;
                if (__ffs((int)equal) - 1 == lane) {
                    mine[digit] = count + (unsigned)__popc(equal);
                }
            }
            __syncwarp(ALL_LANES);
        }
        __syncthreads();
    }
}

/* indptr[c]: the first edge with column c or behind it. */
template <typename ID>
__global__ void __launch_bounds__(BLOCK_THREADS)
    columns_begin(const struct cuda_edges block, const ID *order, int64_t *indptr)
{
    const int64_t begin = block.indptr[0], n = block.indptr[block.n_row] - begin;
    for (int64_t c = grid_thread(); c <= block.n_col; c += grid_threads()) {
        int64_t low = 0, high = n;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if ((int64_t)block.cols[begin + (int64_t)order[middle]] < c) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        indptr[c] = low;
    }
}

/* The row of an edge: the last that begins at it or before, and has edges. */
static __device__ __forceinline__ int64_t row_of(const struct cuda_edges &block, int64_t e)
{
    int64_t low = 0, high = block.n_row;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (block.indptr[middle] <= e) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

template <typename ID>
__global__ void __launch_bounds__(BLOCK_THREADS)
    edges_put(const struct cuda_edges block, const ID *order, const struct cuda_made to)
{
    const int64_t begin = block.indptr[0], n = block.indptr[block.n_row] - begin;
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) {
        const int64_t e = begin + (int64_t)order[i], r = row_of(block, e);
        to.cols[i] = block.rows != NULL ? block.rows[r] : (uint32_t)r;
        if (to.weights != NULL) {
            to.weights[i] = block.weights[e];
        }
        if (to.types != NULL) {
            to.types[i] = block.types[e];
        }
    }
}

/* Columns that are less than n have so many bits that are looked at. */
static int column_bits(int64_t n)
{
    int bits = 0;
    while (bits < 32 && ((int64_t)1 << bits) < n) {
        bits += 8;
    }
    return bits;
}

/* Put the edges in order; the last pass writes to order[0]. */
template <typename ID>
static void edges_order(struct device *device, const struct device_block *block, ID *const order[2], int64_t *count,
                        void *scan)
{
    cudaStream_t stream = cuda_stream(device);
    const int n_type_pass = block->types != NULL ? 2 : 0, n_column_pass = column_bits(block->n_col) / 8;
    const int n_pass = n_type_pass + (n_column_pass > 0 ? n_column_pass : 1);
    struct pass p = {block->indptr, block->n_row, cuda_order_places_make(block->n_edge).n_tile, NULL, block->cols, 0};
    const ID *from = NULL;
    for (int k = 0; k < n_pass; k++) {
        ID *to = order[(n_pass - 1 - k) % 2];
        p.types = k < n_type_pass ? block->types : NULL;
        p.shift = 8 * (k < n_type_pass ? k : k - n_type_pass);
        LAUNCH(digits_count<ID>, grid_size(p.n_tile, 1), BLOCK_THREADS, stream, p, from, count);
        cuda_scan(device, DIGITS * p.n_tile, count, scan);
        LAUNCH(digits_put<ID>, grid_size(p.n_tile, 1), BLOCK_THREADS, stream, p, from, (const int64_t *)count, to);
        from = to;
    }
}

template <typename ID>
static void transpose(struct device *device, const struct device_block *block, const struct cuda_made *to)
{
    cudaStream_t stream = cuda_stream(device);
    const struct cuda_order_places at = cuda_order_places_make(block->n_edge);
    ID *second = sizeof(ID) == sizeof *to->cols ? (ID *)(void *)to->cols : (ID *)(void *)(to->work + at.second);
    ID *const order[2] = {(ID *)(void *)to->work, second};
    edges_order(device, block, order, (int64_t *)(void *)(to->work + at.count), to->work + at.scan);
    LAUNCH(columns_begin<ID>, grid_size(block->n_col + 1, BLOCK_THREADS), BLOCK_THREADS, stream,
           cuda_edges_make(block), (const ID *)order[0], to->indptr);
    LAUNCH(edges_put<ID>, grid_size(block->n_edge, BLOCK_THREADS), BLOCK_THREADS, stream, cuda_edges_make(block),
           (const ID *)order[0], *to);
}

extern "C" void cuda_block_transpose(struct device *device, const struct device_block *block, int64_t n_own,
                                     void *scratch, struct device_block *out)
{
    const int64_t n_row = block->n_col, n_edge = block->n_edge;
    const struct cuda_made to = cuda_made_place(n_row, block->n_row, n_edge, block->weights != NULL,
                                                block->types != NULL, (char *)scratch);
    if (n_edge <= (int64_t)UINT32_MAX) {
        transpose<uint32_t>(device, block, &to);
    } else {
        transpose<int64_t>(device, block, &to);
    }
    *out = cuda_made_block(&to, n_row, n_own, n_edge);
    out->edge_table = block->edge_table;
    out->schedule = cuda_schedule_make(device, n_row, n_edge, to.indptr, to.schedule);
}
