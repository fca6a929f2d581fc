/* Tile programs over rows, and what those over edges have in common with them: the program's way to the device, and
 * the sums of gradients. */
#include "models/cuda/tile/tile_run.h"

/* --- the program --- */

__global__ void __launch_bounds__(CUDA_TILE_WORDS)
    words_put(const struct cuda_tile_words words, int n_word, uint64_t *to)
{
    if ((int)threadIdx.x < n_word) {
        to[threadIdx.x] = words.word[threadIdx.x] ^ CUDA_TILE_TURNED;
    }
}

extern "C" void cuda_tile_put(struct device *device, const struct cuda_tile_words *words, int64_t n_word, void *to)
{
    LAUNCH(words_put, 1, CUDA_TILE_WORDS, cuda_stream(device), *words, (int)n_word, (uint64_t *)to);
}

/* --- gradients of weights --- */

/* A warp for each number: a lane adds every 32nd set, and the lanes are added in a tree. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    sets_sum(int64_t n_set, int64_t width, const double *sets, int64_t n, bool add, float *grad)
{
    for (int64_t i = grid_group<WARP>(); i < n; i += grid_groups<WARP>()) {
        double sum = 0.0;
        for (int64_t s = group_lane<WARP>(); s < n_set; s += WARP) {
            sum += sets[s * width + i];
        }
        for (int apart = WARP / 2; apart > 0; apart /= 2) {
            sum += __shfl_xor_sync(ALL_LANES, sum, apart, WARP);
        }
        if (group_lane<WARP>() == 0) {
            grad[i] = (float)((add ? (double)grad[i] : 0.0) + sum);
        }
    }
}

extern "C" void cuda_tile_sum(struct device *device, const struct cuda_tile *tile, int64_t at, int64_t n, bool add,
                              float *grad)
{
    LAUNCH(sets_sum, grid_size(n, BLOCK_THREADS / WARP), BLOCK_THREADS, cuda_stream(device), tile->sums.n_range,
           tile->sums.n_grad, (const double *)tile->sums.sets + at, n, add, grad);
}

/* --- rows --- */

/* Of a target that is not added to. */
static __device__ __forceinline__ void targets_zero(const struct cuda_tile &tile, const struct tile_run &run)
{
    for (int target = 0; target < TILE_TARGET_N; target++) {
        if (tile.to[target] != NULL && (tile.begin >> target & 1) != 0) {
            floats_zero(tile.to[target] + run.row * tile.width[target], run.n * (int)tile.width[target]);
        }
    }
    __syncwarp(ALL_LANES);
}

static __device__ __forceinline__ void rows_add(const struct cuda_tile &tile, const struct tile_run &run,
                                                const struct cuda_tile_result &r)
{
    const struct tile_leaving l = leaving_make(tile, run, r);
    for (int t = 0; t < run.n; t++) {
        float *to = tile.to[r.target] + (run.row + t) * r.width + r.at;
        for (int c = group_lane<WARP>(); c < r.n; c += WARP) {
            to[c] += l.of(t, c, c / l.n_column);
        }
    }
    __syncwarp(ALL_LANES);
}

__global__ void __launch_bounds__(TILE_THREADS, 3) rows_run(const struct cuda_tile tile)
{
    SHARED(float, floats, (CUDA_TILE_WARPS * CUDA_TILE_FLOATS));
    SHARED(const float *, rows, (CUDA_TILE_WARPS * 2 * WARP));
    struct tile_run run = tile_run_make(tile, floats, rows);
    for (int64_t range = grid_group<WARP>(); range < tile.sums.n_range; range += grid_groups<WARP>()) {
        set_begin(tile, range);
        const int64_t end = (range + 1) * tile.sums.range_rows < tile.block.n_row ? (range + 1) * tile.sums.range_rows
                                                                                  : tile.block.n_row;
        for (run.row = range * tile.sums.range_rows; run.row < end; run.row += run.n) {
            run.n = (int)(end - run.row < tile.n_run ? end - run.row : tile.n_run);
            targets_zero(tile, run);
            instructions_run(tile, run);
            for (int k = 0; k < (int)tile.program.n_result; k++) {
                const struct cuda_tile_result &r = tile.program.result[k];
                if (r.target == TILE_TARGET_PARAM) {
                    param_add(tile, run, r, range);
                } else {
                    rows_add(tile, run, r);
                }
            }
        }
    }
}

extern "C" void cuda_tile_rows(struct device *device, int64_t n, const struct device_tile *how)
{
    const struct cuda_tile tile = cuda_tile_open(device, n, how, NULL);
    LAUNCH(rows_run, grid_size(cuda_tile_warps(&tile), CUDA_TILE_WARPS), TILE_THREADS, cuda_stream(device), tile);
    cuda_tile_close(device, &tile, how);
}
