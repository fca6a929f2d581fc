/* Attention: arguments of its passes, and the work on rows without edges between them. */
#include "models/cuda/attention/attention.h"

#include <math.h>

/* A row of more edges than these is shared by the groups of a block. */
#define GROUPS_EDGES 1024

/* Blocks for shares of the long rows at most. */
#define SHARES_MOST 4096

/* Lanes that take a head of a row. */
#define HEAD_LANES 8

static bool are_aligned(const struct device_attention_rows *rows)
{
    const int64_t f = rows->how->n_column;
    const bool narrow_query = rows->how->score == DEVICE_SCORE_ADD,
               narrow_key = narrow_query || rows->how->score == DEVICE_SCORE_COSINE;
    const struct device_attention_source *source[] = {&rows->source, &rows->self_source};
    const struct device_attention_target *target[] = {&rows->target, &rows->self_target};
    bool aligned = by_fours(f, rows->how->att, NULL, NULL);
    for (int i = 0; i < (rows->with_self ? 2 : 1); i++) {
        aligned = aligned && by_fours(f, source[i]->value, narrow_key ? NULL : source[i]->key, NULL) &&
                  by_fours(f, narrow_query ? NULL : target[i]->query, target[i]->grad_out, NULL) &&
                  (uintptr_t)target[i]->softmax % sizeof(float2) == 0;
    }
    return aligned;
}

struct cuda_attention cuda_attention_of(const struct device_attention_rows *rows, bool rows_are_sources)
{
    const struct device_attention *how = rows->how;
    const struct device_block *block = rows->block;
    struct cuda_attention a = {};
    a.n_row = block->n_row;
    a.n_most = block->schedule != NULL ? GROUPS_EDGES : INT64_MAX;
    a.rows = block->rows;
    a.indptr = block->indptr;
    a.cols = block->cols;
    a.schedule = (const struct cuda_schedule *)block->schedule;
    a.begin = rows->begin;
    a.with_self = rows->begin && rows->with_self;
    a.rows_are_sources = rows_are_sources;
    a.aligned = are_aligned(rows);
    a.n_head = how->n_head;
    a.n_column = how->n_column;
    a.slope = how->slope;
    a.scale = how->scale;
    a.shift = how->shift;
    a.att = how->att;
    a.more.n_column = how->n_edge_column;
    a.more.weight = how->edge;
    a.more.table = block->edge_table;
    a.more.rows = block->edge_rows;
    a.drop.threshold = random_drop_threshold(how->p);
    a.drop.keep_scale = (float)(1.0 / (1.0 - how->p));
    a.drop.key = how->key;
    a.drop.now = how->now;
    a.drop.row_node = how->row_node;
    a.drop.col_node = how->col_node;
    a.source = rows->source;
    a.self_source = a.with_self ? rows->self_source : rows->source;
    a.target = rows->target;
    a.self_target = a.with_self ? rows->self_target : rows->target;
    return a;
}

struct cuda_attention_grid cuda_attention_grid_of(struct device *device, const struct device_attention_rows *rows,
                                                  bool with_att)
{
    const struct device_block *block = rows->block;
    const int64_t most = cuda_units_most(block->n_edge), shares = most < SHARES_MOST ? most : SHARES_MOST;
    struct cuda_attention_grid on = {};
    on.stream = cuda_stream(device);
    on.fours = rows->how->n_column % 4 == 0;
    on.range_rows = with_att ? (block->n_row + CUDA_ATT_RANGES - 1) / CUDA_ATT_RANGES : 1;
    on.range_rows = on.range_rows > 1 ? on.range_rows : 1;
    on.n_range = (block->n_row + on.range_rows - 1) / on.range_rows;
    on.n_share = block->schedule == NULL ? 0 : with_att ? CUDA_ATT_SHARES : shares > 1 ? shares : 1;
    return on;
}

template <bool FOURS> static __device__ __forceinline__ void columns_scale(float scale, float *x)
{
    if (FOURS) {
        vector_store(x, vector_scale(scale, vector_load<float4>(x)));
    } else {
        *x *= scale;
    }
}

/* out = out / s, L = m + ln s; a row without edges (s = 0): out = 0, L = +inf, so that exp(score - L) is 0. */
template <bool FOURS>
__global__ void __launch_bounds__(BLOCK_THREADS)
    finish_heads(int64_t n, int n_column, struct device_attention_state state, float *out)
{
    constexpr int W = FOURS ? 4 : 1;
    const int l = group_lane<HEAD_LANES>();
    for (int64_t i = grid_group<HEAD_LANES>(); i < n; i += grid_groups<HEAD_LANES>()) {
        const float row_max = state.softmax[2 * i], sum = state.softmax[2 * i + 1],
                    scale = sum == 0.0F ? 0.0F : 1.0F / sum;
        for (int c = l * W; c < n_column; c += HEAD_LANES * W) {
            columns_scale<FOURS>(scale, out + i * n_column + c);
            if (state.positive != NULL) {
                columns_scale<FOURS>(scale, state.positive + i * n_column + c);
            }
        }
        __syncwarp(group_mask<HEAD_LANES>()); /* all have read the state */
        if (l == 0) {
            state.softmax[2 * i] = sum == 0.0F ? CUDART_INF_F : row_max + (float)log((double)sum);
            state.softmax[2 * i + 1] = 0.0F;
            if (state.positive != NULL) {
                state.positive_weight[i] *= scale;
            }
        }
    }
}

static __device__ __forceinline__ double group_dot(int n, const float *x, const float *y)
{
    const unsigned mask = group_mask<HEAD_LANES>();
    double sum = 0.0;
    for (int c = group_lane<HEAD_LANES>(); c < n; c += HEAD_LANES) {
        sum += (double)x[c] * (double)y[c];
    }
    for (int d = HEAD_LANES / 2; d > 0; d /= 2) {
        sum += __shfl_xor_sync(mask, sum, d, HEAD_LANES);
    }
    return sum;
}

/* D = ⟨grad_out, out⟩ · add: grad_query (+)= (1 - slope) · (⟨grad_out, positive⟩ - D · positive_weight), positive
 * NULL: not add. The softmax does not change when all its scores move by the same, so Σ_j de_ij = 0: only the edges
 * with x > 0 are left, whose slope differs from the others' by 1 - slope. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    begin_heads(int64_t n, int n_column, float slope, const float *grad_out, const float *out,
                struct device_attention_state state, bool add, float *grad_query)
{
    for (int64_t i = grid_group<HEAD_LANES>(); i < n; i += grid_groups<HEAD_LANES>()) {
        const int64_t at = i * n_column;
        const double d = group_dot(n_column, grad_out + at, out + at);
        const double positive = state.positive != NULL ? group_dot(n_column, grad_out + at, state.positive + at)
                                                       : 0.0;
        if (group_lane<HEAD_LANES>() > 0) {
            continue;
        }
        state.softmax[2 * i + 1] = (float)d;
        if (state.positive != NULL) {
            const float grad = (float)((1.0 - (double)slope) * (positive - d * (double)state.positive_weight[i]));
            grad_query[i] = add ? grad_query[i] + grad : grad;
        }
    }
}

extern "C" void cuda_attention_finish(struct device *device, int64_t n, const struct device_attention *how,
                                      const struct device_attention_state *state, float *out)
{
    const int64_t n_head = n * how->n_head, n_column = device_attention_columns(how);
    const unsigned grid = grid_of(n_head, BLOCK_THREADS / HEAD_LANES);
    if (by_fours(n_column, out, state->positive, NULL)) {
        LAUNCH(finish_heads<true>, grid, BLOCK_THREADS, cuda_stream(device), n_head, (int)n_column, *state, out);
    } else {
        LAUNCH(finish_heads<false>, grid, BLOCK_THREADS, cuda_stream(device), n_head, (int)n_column, *state, out);
    }
}

extern "C" void cuda_attention_backward_begin(struct device *device, int64_t n, const struct device_attention *how,
                                              const float *grad_out, const float *out,
                                              const struct device_attention_state *state, bool add, float *grad_query)
{
    const int64_t n_head = n * how->n_head;
    struct device_attention_state read = *state;
    read.positive = how->score == DEVICE_SCORE_ADD ? state->positive : NULL;
    LAUNCH(begin_heads, grid_of(n_head, BLOCK_THREADS / HEAD_LANES), BLOCK_THREADS, cuda_stream(device), n_head,
           (int)device_attention_columns(how), how->slope, grad_out, out, read, add, grad_query);
}
