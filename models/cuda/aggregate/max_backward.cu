/* Gradients of maxima: grad_x[place] = Σ of grad_out over the rows whose maximum came from there, in the order of the
 * rows.
 *
 * Several rows may have their maximum at one place, and only `arg` shows which. A warp processes one column and one
 * range of places, and walks all rows in order. Rows with a place in its range are put into a queue, and 32 of them
 * are added at a time; the first lane of a place adds all lanes with that place. Each place belongs to one warp, so
 * that the number of ranges changes no bit.
 */
#include "models/cuda/kernel.h"

/* Warps of a block: as many neighbouring columns, which share what is brought from memory. */
#define WARPS (BLOCK_THREADS / WARP)

/* Warps that a GPU should have, and places of a range at least. */
#define WARPS_WANTED 4096
#define PLACES_MIN 256

/* Windows of WARP rows whose places are on their way at a time. */
#define AHEAD 4

/* Rows whose place is in range, as they come: up to 31 that wait, and 32 that come. All in shared memory. */
struct queue {
    uint32_t *place; /* 2 · WARP */
    int64_t *from;   /* 2 · WARP: which element of grad_out */
    float *grad;     /* WARP */
    int n;
};

/* Add the first n numbers of a queue, WARP at most, in their order. */
static __device__ __forceinline__ void queue_add(const struct queue &q, int n, int64_t f, int64_t column,
                                                 const float *grad_out, float *grad_x)
{
    const int lane = (int)threadIdx.x % WARP;
    const uint32_t mine = q.place[lane];
    float *to = grad_x + (int64_t)mine * f + column;
    bool is_first = lane < n;
    q.grad[lane] = lane < n ? __ldg(grad_out + q.from[lane]) : 0.0F;
    __syncwarp(ALL_LANES);
    for (int i = 0; i < lane; i++) {
        is_first = is_first && q.place[i] != mine;
    }
    if (is_first) {
        float sum = *to;
        for (int i = lane; i < n; i++) {
            sum = q.place[i] == mine ? sum + q.grad[i] : sum;
        }
        *to = sum;
    }
    __syncwarp(ALL_LANES); /* the next ones read what is written, and the queue is written */
}

/* Put the lanes' rows behind those that wait, and add as soon as there are WARP of them. */
static __device__ __forceinline__ void queue_put(struct queue *q, bool is_mine, uint32_t place, int64_t from,
                                                 int64_t f, int64_t column, const float *grad_out, float *grad_x)
{
    const int lane = (int)threadIdx.x % WARP;
    const unsigned all = __ballot_sync(ALL_LANES, is_mine);
    if (is_mine) {
        const int at = q->n + __popc(all & ((1U << lane) - 1));
        q->place[at] = place;
        q->from[at] = from;
    }
    q->n += __popc(all);
    __syncwarp(ALL_LANES);
    if (q->n >= WARP) {
        queue_add(*q, WARP, f, column, grad_out, grad_x);
        const uint32_t later_place = q->place[WARP + lane];
        const int64_t later_from = q->from[WARP + lane];
        q->place[lane] = later_place;
        q->from[lane] = later_from;
        q->n -= WARP;
        __syncwarp(ALL_LANES);
    }
}

/* blockIdx.x: which WARPS columns · blockIdx.y: which range of places. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    places_add(int64_t n_row, const uint32_t *rows, int64_t n_place, int64_t range, uint32_t arg_base, int64_t f,
               const uint32_t *arg, const float *grad_out, float *grad_x)
{
    SHARED(uint32_t, place, (2 * WARP * WARPS));
    SHARED(int64_t, from, (2 * WARP * WARPS));
    SHARED(float, grad, (WARP * WARPS));
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const int64_t column = (int64_t)blockIdx.x * WARPS + warp, first = (int64_t)blockIdx.y * range;
    const int64_t last = first + range < n_place ? first + range : n_place;
    struct queue q = {place + 2 * WARP * warp, from + 2 * WARP * warp, grad + WARP * warp, 0};
    q.place[lane] = q.place[WARP + lane] = 0;
    q.from[lane] = q.from[WARP + lane] = 0;
    __syncwarp(ALL_LANES);
    if (column >= f) {
        return;
    }
    for (int64_t at = 0; at < n_row; at += AHEAD * WARP) {
        int64_t element[AHEAD];
        uint32_t here[AHEAD];
        for (int k = 0; k < AHEAD; k++) {
            const int64_t r = at + k * WARP + lane, row = r >= n_row     ? 0
                                                          : rows != NULL ? (int64_t)__ldg(rows + r)
                                                                         : r;
            element[k] = row * f + column;
            here[k] = r < n_row ? __ldg(arg + element[k]) - arg_base
                                : UINT32_MAX; /* wraps to a large number below arg_base */
        }
        for (int k = 0; k < AHEAD; k++) {
            const bool there = at + k * WARP + lane < n_row;
            const bool is_mine = there && (int64_t)here[k] >= first && (int64_t)here[k] < last;
            queue_put(&q, is_mine, here[k], element[k], f, column, grad_out, grad_x);
        }
    }
    queue_add(q, q.n, f, column, grad_out, grad_x);
}

extern "C" void cuda_aggregate_max_backward(struct device *device, const struct device_block *block,
                                            uint32_t arg_base, int64_t f, const uint32_t *arg, const float *grad_out,
                                            float *grad_x)
{
    const int64_t n_place = block->n_col;
    cuda_fill_zero(device, grad_x, (size_t)(n_place * f) * sizeof *grad_x);
    if (block->n_row == 0 || n_place == 0 || f == 0) {
        return;
    }
    const int64_t n_wanted = (WARPS_WANTED + f - 1) / f, n_most = (n_place + PLACES_MIN - 1) / PLACES_MIN;
    const int64_t n_range = n_wanted < n_most ? n_wanted : n_most, range = (n_place + n_range - 1) / n_range;
    const dim3 grid((unsigned)((f + WARPS - 1) / WARPS), (unsigned)((n_place + range - 1) / range));
    LAUNCH(places_add, grid, BLOCK_THREADS, cuda_stream(device), block->n_row, block->rows, n_place, range, arg_base,
           f, arg, grad_out, grad_x);
}
