/* Double sums over a row in eight lanes, a thread each: lane l adds columns l, l + 8, …, lane 0 then the columns
 * behind the last eight, and the lanes are added 4 apart, then 1, then 2: the order of models/cpu/rows.c and norm.c.
 *
 * A warp has four rows at a time; all of its threads take part, also where there are no rows left:
 *     for (first = row_lanes_first(); first < n; first += row_lanes_step()) { r = first + row_lanes_row(); … r < n …
 *     }
 */
#ifndef MODELS_CUDA_ROW_LANES_H
#define MODELS_CUDA_ROW_LANES_H

#include "models/cuda/kernel.h"

#define ROW_LANES 8
/* Rows that a block has at a time. */
#define ROW_LANES_ROWS (BLOCK_THREADS / ROW_LANES)

/* The warp's first row, in the first round. */
static __device__ __forceinline__ int64_t row_lanes_first()
{
    return grid_thread() / WARP * (WARP / ROW_LANES);
}

static __device__ __forceinline__ int64_t row_lanes_step()
{
    return grid_threads() / ROW_LANES;
}

static __device__ __forceinline__ int row_lane()
{
    return (int)(threadIdx.x % ROW_LANES);
}

static __device__ __forceinline__ int row_lanes_row()
{
    return (int)(threadIdx.x % WARP) / ROW_LANES;
}

/* Σ_c term(c), in all lanes; `there`: is there such a row? */
template <class Term> static __device__ __forceinline__ double row_lanes_sum(int64_t f, bool there, const Term &term)
{
    const int lane = row_lane();
    const int64_t whole = there ? f - f % ROW_LANES : 0;
    double sum = 0.0;
    int64_t c = lane;
    for (; c + 3 * ROW_LANES < whole; c += 4 * ROW_LANES) { /* four loads are on their way at a time */
        const double a = term(c), b = term(c + ROW_LANES), d = term(c + 2 * ROW_LANES), e = term(c + 3 * ROW_LANES);
        sum += a;
        sum += b;
        sum += d;
        sum += e;
    }
    for (; c < whole; c += ROW_LANES) {
        sum += term(c);
    }
    for (int64_t rest = whole; there && lane == 0 && rest < f; rest++) {
        sum += term(rest);
    }
    sum += __shfl_xor_sync(ALL_LANES, sum, 4, WARP);
    sum += __shfl_xor_sync(ALL_LANES, sum, 1, WARP);
    sum += __shfl_xor_sync(ALL_LANES, sum, 2, WARP);
    return sum;
}

#endif
