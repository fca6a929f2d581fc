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

struct cuda_attention cuda_attention_make(const struct device_attention_rows *rows, bool rows_are_sources)
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
    a.last = rows->last;
    a.rows_are_sources = rows_are_sources;
    a.aligned = are_aligned(rows);
    a.n_head = how->n_head;
    a.n_column = how->n_column;
    a.bytes = {(uint32_t)(how->n_head * 4), 0, (uint32_t)(how->n_head * how->n_column * 4), 0};
    a.slope = how->slope;
    a.scale = how->scale;
    a.shift = how->shift;
    a.att = how->att;
    a.more = {how->n_edge_column, how->edge, block->edge_table, block->edge_rows};
    a.drop = {random_drop_threshold(how->p),
              (float)(1.0 / (1.0 - how->p)),
              how->key,
              how->now,
              how->row_node,
              how->col_node};
    a.source = rows->source;
    a.self_source = a.with_self ? rows->self_source : rows->source;
    a.target = rows->target;
    a.self_target = a.with_self ? rows->self_target : rows->target;
    return a;
}

struct cuda_attention_grid cuda_attention_grid_make(struct device *device, const struct device_attention_rows *rows,
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

/* out = out / s, L = m + ln s, but where forward has done it (s = 0, and not a row max of -inf). A lane looks at a
 * head, all then take those of them that are left. */
template <typename T>
__global__ void __launch_bounds__(BLOCK_THREADS)
    finish_heads(int64_t n, int n_column, struct device_attention_state state, float *out)
{
    const int l = group_lane<WARP>();
    for (int64_t first = grid_group<WARP>() * WARP; first < n; first += grid_groups<WARP>() * WARP) {
        const int64_t i = first + l < n ? first + l : n - 1;
        const float2 softmax = vector_load<float2>(state.softmax + 2 * i); /* row max, s */
        const float scale = softmax_scale(softmax.y);
        const bool is_left = first + l < n && !(softmax.y == 0.0F && softmax.x != -CUDART_INF_F);
        __syncwarp(ALL_LANES); /* the last head is read by several lanes */
        if (is_left) {
            vector_store(state.softmax + 2 * i, make_float2(softmax_log_sum(softmax.x, softmax.y), 0.0F));
        }
        if (is_left && state.positive != NULL) {
            state.positive_weight[i] *= scale;
        }
        for (unsigned left = __ballot_sync(ALL_LANES, is_left); left != 0; left &= left - 1) {
            const int head = __ffs((int)left) - 1;
            const float by = __shfl_sync(ALL_LANES, scale, head, WARP);
            float *const sums[] = {out, state.positive};
            for (int k = 0; k < 2 && sums[k] != NULL; k++) {
                for (int c = l * width_of<T>; c < n_column; c += WARP * width_of<T>) {
                    float *x = sums[k] + (first + head) * n_column + c;
                    vector_store(x, vector_scale(by, vector_load<T>(x)));
                }
            }
        }
    }
}

/* D = ⟨grad_out, out⟩ · add: grad_query (+)= (1 - slope) · (⟨grad_out, positive⟩ - D · positive_weight), positive
 * NULL: not add. The softmax does not change when all its scores move by the same, so Σ_j de_ij = 0: only the edges
 * with x > 0 are left, whose slope differs from the others' by 1 - slope. Columns read at once are added in float. */
template <typename S, bool ALIGNED>
__global__ void __launch_bounds__(BLOCK_THREADS)
    begin_heads(int64_t n, int n_column, float slope, const float *grad_out, const float *out,
                struct device_attention_state state, bool add, float *grad_query)
{
    const int l = group_lane<HEAD_LANES>();
    for (int64_t i = grid_group<HEAD_LANES>(); i < n; i += grid_groups<HEAD_LANES>()) {
        double d = 0.0, positive = 0.0;
        for (int64_t c = i * n_column + l * S::W; c < (i + 1) * n_column; c += HEAD_LANES * S::W) {
            float grad[S::W], all[S::W], some[S::W] = {}, d_here = 0.0F, positive_here = 0.0F;
            vector_take<S, ALIGNED>(grad_out + c, grad);
            vector_take<S, ALIGNED>(out + c, all);
            if (state.positive != NULL) {
                vector_take<S, ALIGNED>(state.positive + c, some);
            }
            for (int k = 0; k < S::W; k++) {
                d_here = fmaf(grad[k], all[k], d_here);
                positive_here = fmaf(grad[k], some[k], positive_here);
            }
            d += (double)d_here;
            positive += (double)positive_here;
        }
        d = group_sum<HEAD_LANES>(d);
        positive = group_sum<HEAD_LANES>(positive);
        if (l > 0) {
            continue;
        }
        state.softmax[2 * i + 1] = (float)d;
        if (state.positive != NULL) {
            const float grad = (float)((1.0 - (double)slope) * (positive - d * (double)state.positive_weight[i]));
            grad_query[i] = add ? grad_query[i] + grad : grad;
        }
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    parts_add(int64_t n_part, int64_t width, const double *part, bool begin, float *grad)
{
    for (int64_t c = grid_thread(); c < width; c += grid_threads()) {
        double sum = begin ? 0.0 : (double)grad[c];
        for (int64_t i = 0; i < n_part; i++) {
            sum += part[i * width + c];
        }
        grad[c] = (float)sum;
    }
}

void cuda_attention_parts_add(cudaStream_t stream, int64_t n_part, int64_t width, const double *part, bool begin,
                              float *grad)
{
    LAUNCH(parts_add, grid_size(width, WARP), WARP, stream, n_part, width, part, begin, grad);
}

extern "C" void cuda_attention_finish(struct device *device, int64_t n, const struct device_attention *how,
                                      const struct device_attention_state *state, float *out)
{
    const int64_t n_head = n * how->n_head, n_column = device_attention_columns(how);
    const auto heads = by_fours(n_column, out, state->positive, NULL) ? finish_heads<float4> : finish_heads<float>;
    LAUNCH(heads, grid_size(n_head, BLOCK_THREADS), BLOCK_THREADS, cuda_stream(device), n_head, (int)n_column, *state,
           out);
}

extern "C" void cuda_attention_backward_begin(struct device *device, int64_t n, const struct device_attention *how,
                                              const float *grad_out, const float *out,
                                              const struct device_attention_state *state, bool add, float *grad_query)
{
    const int64_t n_head = n * how->n_head, n_column = device_attention_columns(how);
    struct device_attention_state read = *state;
    read.positive = how->score == DEVICE_SCORE_ADD ? state->positive : NULL;
    const auto heads = n_column % 4 != 0                                  ? begin_heads<shape<1, 1, 1>, true>
                       : by_fours(n_column, grad_out, out, read.positive) ? begin_heads<shape<4, 1, 1>, true>
                                                                          : begin_heads<shape<4, 1, 1>, false>;
    LAUNCH(heads, grid_size(n_head, BLOCK_THREADS / HEAD_LANES), BLOCK_THREADS, cuda_stream(device), n_head,
           (int)n_column, how->slope, grad_out, out, read, add, grad_query);
}
