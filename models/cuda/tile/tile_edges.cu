/* Tile programs over edges: a warp takes a row of the block, some of its edges at a time, in the block's order. Its
 * results stay in the row of the output, which goes on over blocks. */
#include "models/cuda/tile/tile_run.h"

static __device__ __forceinline__ float *out_at(const struct cuda_tile &tile, const struct cuda_tile_result &r,
                                                int64_t row)
{
    return tile.to[r.target] + row * r.width + r.at;
}

/* NULL: nothing is saved */
static __device__ __forceinline__ float *saved_at(const struct cuda_tile &tile, const struct cuda_tile_result &r,
                                                  int64_t row)
{
    return tile.saved != NULL ? tile.saved + row * tile.n_saved + r.kept : NULL;
}

/* --- a row's results before its first edge --- */

static __device__ __forceinline__ void result_begin(const struct cuda_tile &tile, const struct cuda_tile_result &r,
                                                    int64_t row)
{
    const bool picks = r.reduction == TILE_REDUCTION_MAX || r.reduction == TILE_REDUCTION_MIN;
    const bool is_softmax = r.reduction == TILE_REDUCTION_SOFTMAX;
    const float start = picks && r.reduction == TILE_REDUCTION_MIN         ? CUDART_INF_F
                        : picks || r.reduction == TILE_REDUCTION_LOGSUMEXP ? -CUDART_INF_F
                                                                           : 0.0F;
    float *out = out_at(tile, r, row), *saved = saved_at(tile, r, row);
    for (int c = group_lane<WARP>(); c < r.n; c += WARP) {
        out[c] = start;
        if (picks || r.reduction == TILE_REDUCTION_LOGSUMEXP) {
            saved[c] = picks ? __uint_as_float(UINT32_MAX) : 0.0F;
        }
    }
    for (int j = group_lane<WARP>(); is_softmax && j < r.n_with; j += WARP) { /* sums, greatest scores */
        saved[j] = 0.0F;
        saved[r.n_with + j] = -CUDART_INF_F;
    }
    __syncwarp(ALL_LANES);
}

/* Columns of a target that no result writes are 0. */
static __device__ __forceinline__ void row_begin(const struct cuda_tile &tile, int64_t row)
{
    for (int target = 0; target < TILE_TARGET_N; target++) {
        if (tile.to[target] != NULL) {
            floats_zero(tile.to[target] + row * tile.width[target], (int)tile.width[target]);
        }
    }
    __syncwarp(ALL_LANES);
    for (int k = 0; k < (int)tile.program.n_result; k++) {
        const struct cuda_tile_result &r = tile.program.result[k];
        if (r.target != TILE_TARGET_PARAM && r.reduction != TILE_REDUCTION_SUM) {
            result_begin(tile, r, row);
        }
    }
}

/* --- a run's values are added to its row --- */

static __device__ __forceinline__ void sum_add(const struct cuda_tile &tile, const struct tile_run &run,
                                               const struct cuda_tile_result &r, const struct tile_leaving &l)
{
    float *out = out_at(tile, r, run.row);
    for (int c = group_lane<WARP>(); c < r.n; c += WARP) {
        const int j = c / l.n_column;
        float sum = out[c];
        for (int t = 0; t < run.n; t++) {
            sum = fmaf(tile.factor, l.of(t, c, j), sum);
        }
        out[c] = sum;
    }
}

/* The greatest, or least, with the node id of its source; what is not a number is both. */
static __device__ __forceinline__ void best_pick(const struct cuda_tile &tile, const struct tile_run &run,
                                                 const struct cuda_tile_result &r, const struct tile_leaving &l)
{
    const bool greatest = r.reduction == TILE_REDUCTION_MAX;
    float *out = out_at(tile, r, run.row), *saved = saved_at(tile, r, run.row);
    for (int c = group_lane<WARP>(); c < r.n; c += WARP) {
        float best = out[c];
        int winner = -1;
        for (int t = 0; t < run.n; t++) {
            const float value = l.from[t][c];
            if ((greatest ? value > best : value < best) || isnan(value)) {
                best = value;
                winner = t;
            }
        }
        if (winner >= 0) {
            out[c] = best;
            saved[c] = __uint_as_float(source_node(tile, run, winner));
        }
    }
}

/* Of score j, after the run. */
static __device__ __forceinline__ float greatest_of(const struct cuda_tile &tile, const struct tile_run &run,
                                                    const float *const *scores, int j, float greatest)
{
    ROLLED for (int t = 0; t < run.n; t++)
    {
        const float x = scores[t][j] + tile.shift;
        greatest = x > greatest ? x : greatest;
    }
    return greatest;
}

/* Of a greatest score: 0 instead of -inf, so that scores of -inf weigh 0. */
static __device__ __forceinline__ float subtracted(float most)
{
    return most > -CUDART_INF_F ? most : 0.0F;
}

/* Σ y exp(s - m) with m the greatest score so far: c Σ + Σ_t y_t exp(s_t - m') with c = exp(m - m') and m' the
 * greatest after the run. Columns of a score make its exponentials again. */
static __device__ __forceinline__ void weighted_add(const struct cuda_tile &tile, const struct tile_run &run,
                                                    const struct cuda_tile_result &r, const struct tile_leaving &l,
                                                    const float *greatest)
{
    float *out = out_at(tile, r, run.row);
    for (int c = group_lane<WARP>(); c < r.n; c += WARP) {
        const int j = c / l.n_column;
        const float most = subtracted(greatest_of(tile, run, l.with, j, greatest[j]));
        float sum = out[c] * fixed_exp(greatest[j] - most);
        ROLLED for (int t = 0; t < run.n; t++)
        {
            sum = fmaf(fixed_exp(l.with[t][j] + tile.shift - most), l.from[t][c], sum);
        }
        out[c] = sum;
    }
    __syncwarp(ALL_LANES); /* all have read the greatest */
}

/* LOGSUMEXP, SOFTMAX: Σ exp(s - m) of n scores, likewise. */
static __device__ __forceinline__ void exponentials_add(const struct cuda_tile &tile, const struct tile_run &run,
                                                        const float *const *scores, int n, float *greatest,
                                                        float *sums)
{
    for (int j = group_lane<WARP>(); j < n; j += WARP) {
        const float most = greatest_of(tile, run, scores, j, greatest[j]), by = subtracted(most);
        float sum = sums[j] * fixed_exp(greatest[j] - by);
        ROLLED for (int t = 0; t < run.n; t++)
        {
            sum += fixed_exp(scores[t][j] + tile.shift - by);
        }
        sums[j] = sum;
        greatest[j] = most;
    }
}

static __device__ __forceinline__ void result_add(const struct cuda_tile &tile, const struct tile_run &run,
                                                  const struct cuda_tile_result &r)
{
    const struct tile_leaving l = leaving_make(tile, run, r);
    float *saved = saved_at(tile, r, run.row);
    switch (r.reduction) {
    case TILE_REDUCTION_SUM:
        sum_add(tile, run, r, l);
        break;
    case TILE_REDUCTION_LOGSUMEXP:
        exponentials_add(tile, run, l.from, r.n, out_at(tile, r, run.row), saved);
        break;
    case TILE_REDUCTION_SOFTMAX:
        weighted_add(tile, run, r, l, saved + r.n_with);
        exponentials_add(tile, run, l.with, r.n_with, saved + r.n_with, saved);
        break;
    default:
        best_pick(tile, run, r, l);
        break;
    }
    __syncwarp(ALL_LANES);
}

/* --- rows --- */

/* The edges of row r of the block. */
static __device__ __forceinline__ void row_run(const struct cuda_tile &tile, struct tile_run *run, int64_t r,
                                               int64_t range)
{
    const int64_t end = tile.block.indptr[r + 1];
    run->row = own_row(tile.block.rows, r);
    run->self = tile.with_self != 0;
    if (tile.begin != 0) {
        row_begin(tile, run->row);
    }
    for (run->edge = tile.block.indptr[r] - (run->self ? 1 : 0); run->edge < end; run->edge += run->n) {
        run->n = (int)(end - run->edge < tile.n_run ? end - run->edge : tile.n_run);
        instructions_run(tile, *run);
        for (int k = 0; k < (int)tile.program.n_result; k++) {
            const struct cuda_tile_result &to = tile.program.result[k];
            if (to.target == TILE_TARGET_PARAM) {
                param_add(tile, *run, to, range);
            } else {
                result_add(tile, *run, to);
            }
        }
        run->self = false;
    }
}

__global__ void __launch_bounds__(TILE_THREADS, 3) edges_run(const struct cuda_tile tile)
{
    SHARED(float, floats, (CUDA_TILE_WARPS * CUDA_TILE_FLOATS));
    SHARED(const float *, rows, (CUDA_TILE_WARPS * 2 * WARP));
    struct tile_run run = tile_run_make(tile, floats, rows);
    for (int64_t range = grid_group<WARP>(); range < tile.sums.n_range; range += grid_groups<WARP>()) {
        set_begin(tile, range);
        const int64_t end = (range + 1) * tile.sums.range_rows < tile.block.n_row ? (range + 1) * tile.sums.range_rows
                                                                                  : tile.block.n_row;
        for (int64_t r = range * tile.sums.range_rows; r < end; r++) {
            row_run(tile, &run, r, range);
        }
    }
}

/* --- after the last edge --- */

/* Σ y exp(s - m) and Σ exp(s - m) become the weighted mean, and m + log Σ. */
static __device__ __forceinline__ void softmax_end(const struct cuda_tile_result &r, float *out, float *saved)
{
    const int width = r.n / r.n_with;
    for (int c = group_lane<WARP>(); c < r.n; c += WARP) {
        out[c] = saved[c / width] == 0.0F ? 0.0F : out[c] / saved[c / width];
    }
    __syncwarp(ALL_LANES); /* all have read the sums */
    for (int j = group_lane<WARP>(); j < r.n_with; j += WARP) {
        const float sum = saved[j];
        saved[j] = sum == 0.0F ? 0.0F : saved[r.n_with + j] + (float)fixed_log((double)sum);
        saved[r.n_with + j] = 0.0F;
    }
}

/* A row without edges is 0. */
static __device__ __forceinline__ void result_end(const struct cuda_tile_result &r, float *out, float *saved,
                                                  float scale)
{
    for (int c = group_lane<WARP>(); c < r.n; c += WARP) {
        if (r.reduction == TILE_REDUCTION_LOGSUMEXP) {
            out[c] = saved[c] == 0.0F ? 0.0F : out[c] + (float)fixed_log((double)saved[c]);
            saved[c] = out[c];
        } else if (r.reduction != TILE_REDUCTION_SUM) {
            out[c] = isinf(out[c]) ? 0.0F : out[c];
        } else {
            out[c] *= scale;
        }
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS, 4) rows_end(const struct cuda_tile tile)
{
    for (int64_t row = grid_group<WARP>(); row < tile.block.n_finish; row += grid_groups<WARP>()) {
        const float scale = tile.scale != NULL ? tile.scale[row] : 1.0F;
        for (int k = 0; k < (int)tile.program.n_result; k++) {
            const struct cuda_tile_result &r = tile.program.result[k];
            if (r.target != TILE_TARGET_OUT) {
                continue;
            }
            float *out = out_at(tile, r, row), *saved = saved_at(tile, r, row);
            if (r.reduction == TILE_REDUCTION_SOFTMAX) {
                softmax_end(r, out, saved);
            } else if (r.reduction != TILE_REDUCTION_SUM || tile.scale != NULL) {
                result_end(r, out, saved, scale);
            }
            __syncwarp(ALL_LANES);
        }
    }
}

extern "C" void cuda_tile_edges(struct device *device, const struct device_tile_edges *how)
{
    const struct cuda_tile tile = cuda_tile_open(device, how->block->n_row, &how->of, how);
    LAUNCH(edges_run, grid_size(cuda_tile_warps(&tile), CUDA_TILE_WARPS), TILE_THREADS, cuda_stream(device), tile);
    if (how->n_finish > 0) {
        LAUNCH(rows_end, grid_size(how->n_finish, BLOCK_THREADS / WARP), BLOCK_THREADS, cuda_stream(device), tile);
    }
    cuda_tile_close(device, &tile, &how->of);
}
