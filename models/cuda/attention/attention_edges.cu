/* Attention over edges with features f, D numbers each, rows of the block's table: all passes, a warp for a head of a
 * row.
 *
 *   add      x = key_j + query_i + ⟨v, f⟩             e = leaky(x)
 *   mlp      x_c = value_jc + query_ic + ⟨W_c, f⟩      e = Σ_c att_c · leaky(x_c)
 *   dot      e = scale · ⟨key_j | f, query_i⟩          what is weighted: value_j | f
 *
 * The rest is attention.h's: scores, dropout, the running softmax, one edge after another. A head's columns are taken
 * CHUNK at a time, each chunk with all of the products. Gradients of v, W and att have a pass of their own over the
 * same edges: a warp adds up some of their numbers over a range of rows, in registers, and the ranges' sums are added
 * in their order. No loops: they have features as other edges do.
 */
#include "models/cuda/attention/attention.h"

extern "C" {
#include "models/cuda/sizes.h"
}

#include <math.h>

#define PER_LANE 4
#define CHUNK (PER_LANE * WARP)
#define FEATURES 4 /* of them a warp sums up W's gradient at a time */

/* So many edges of a row have sums of their own: one sum over all of a hub's edges would lose digits. */
#define SUM_EDGES 1024

/* Columns of outputs, and of queries that are as wide. */
template <int SCORE> static __device__ __forceinline__ int columns_of(const struct cuda_attention &a)
{
    return (int)a.n_column + (SCORE == DEVICE_SCORE_DOT ? (int)a.more.n_column : 0);
}

/* Numbers per head and row of queries. */
template <int SCORE> static __device__ __forceinline__ int query_columns(const struct cuda_attention &a)
{
    return SCORE == DEVICE_SCORE_ADD ? 1 : columns_of<SCORE>(a);
}

/* Both ends of an edge at one head, and its features. */
struct ends {
    const float *value, *key, *query, *grad_out, *softmax, *f;
    float mu;
};

/* Edge number e of the block, which is one of the row's. */
template <int SCORE>
static __device__ __forceinline__ struct ends ends_of(const struct cuda_attention &a, const struct head_row &r,
                                                      const struct edge &edge, int64_t e)
{
    const int64_t source = a.rows_are_sources ? r.own : edge.head, target = a.rows_are_sources ? edge.head : r.own;
    const int64_t per_key = SCORE == DEVICE_SCORE_DOT ? a.n_column : 1;
    struct ends to;
    to.value = a.source.value + source * a.n_column;
    to.key = SCORE == DEVICE_SCORE_MLP ? NULL : a.source.key + source * per_key;
    to.query = a.target.query + target * query_columns<SCORE>(a);
    to.grad_out = a.target.grad_out + target * columns_of<SCORE>(a);
    to.softmax = a.target.softmax + 2 * target;
    to.f = a.more.table + (int64_t)__ldg(a.more.rows + e) * a.more.n_column;
    to.mu = edge.mu;
    return to;
}

/* mlp: what leaky is of, in column c of head h */
static __device__ __forceinline__ float column_sum(const struct cuda_attention &a, int h, const struct ends &at,
                                                   int c)
{
    float x = at.value[c] + at.query[c];
    ROLLED for (int d = 0; d < (int)a.more.n_column; d++)
    {
        x = fmaf(__ldg(a.more.weight + ((int64_t)d * a.n_head + h) * a.n_column + c), __ldg(at.f + d), x);
    }
    return x;
}

/* The product that a score is made of, in all lanes. */
template <int SCORE>
static __device__ __forceinline__ float product_of(const struct cuda_attention &a, int h, const struct ends &at)
{
    const int lane = group_lane<WARP>();
    float sum = 0.0F;
    ROLLED for (int c = lane; c < (int)a.n_column && SCORE != DEVICE_SCORE_ADD; c += WARP)
    {
        if (SCORE == DEVICE_SCORE_MLP) {
            const float x = column_sum(a, h, at, c);
            sum = fmaf(__ldg(a.att + (int64_t)h * a.n_column + c) * leaky_slope(x, a.slope), x, sum);
        } else {
            sum = fmaf(at.key[c], at.query[c], sum);
        }
    }
    ROLLED for (int d = lane; d < (int)a.more.n_column && SCORE != DEVICE_SCORE_MLP; d += WARP)
    {
        const float by = SCORE == DEVICE_SCORE_ADD ? __ldg(a.more.weight + (int64_t)h * a.more.n_column + d)
                                                   : at.query[a.n_column + d];
        sum = fmaf(by, __ldg(at.f + d), sum);
    }
    sum = group_sum<WARP>(sum);
    return SCORE == DEVICE_SCORE_ADD ? at.key[0] + at.query[0] + sum : sum;
}

/* α, and the gradient de of the score. */
struct edge_gradient {
    float product, alpha, de;
};

template <int SCORE>
static __device__ __forceinline__ struct edge_gradient gradient_of(const struct cuda_attention &a, int h,
                                                                   const struct ends &at)
{
    struct edge_gradient to;
    float g = 0.0F;
    ROLLED for (int c = group_lane<WARP>(); c < columns_of<SCORE>(a); c += WARP)
    {
        g = fmaf(at.grad_out[c], c < (int)a.n_column ? at.value[c] : __ldg(at.f + c - (int)a.n_column), g);
    }
    g = group_sum<WARP>(g);
    to.product = product_of<SCORE>(a, h, at);
    to.alpha = fixed_exp(attention_score<SCORE>(a, to.product, 0.0F) - at.softmax[0]);
    to.de = to.alpha * fmaf(at.softmax[1], -1.0F, at.mu * g);
    return to;
}

/* A walk over the edges of a row, on which all lanes of the warp are at the same edge. */
struct walk {
    int64_t first; /* of the batch */
    int k;         /* the next edge's place in it */
    struct batch batch;
};

static __device__ __forceinline__ struct walk walk_of(const struct head_row &r)
{
    struct walk w = {};
    w.first = r.begin;
    return w;
}

/* The next edge, if there is one. */
template <int SCORE>
static __device__ __forceinline__ bool walk_next(const struct cuda_attention &a, const struct head_row &r,
                                                 struct walk *w, struct ends *at)
{
    if (w->k == w->batch.n) {
        w->first += w->batch.n;
        if (w->first >= r.end) {
            return false;
        }
        w->batch = batch_load<WARP>(a, r, w->first, r.end);
        w->k = 0;
    }
    *at = ends_of<SCORE>(a, r, edge_make<WARP>(a, r, w->batch, w->first, w->k), w->first + w->k);
    w->k++;
    return true;
}

/* Column i of those that this lane has of a chunk. */
static __device__ __forceinline__ int chunk_column(int chunk, int i)
{
    return chunk + i * WARP + group_lane<WARP>();
}

/* A row's sums so far, and those of its last edges, all of the same row max. */
struct edges_sums {
    float norm, norm_all;
    float wide[PER_LANE], wide_all[PER_LANE];

    __device__ __forceinline__ void scale(float by)
    {
        norm *= by;
        norm_all *= by;
        for (int j = 0; j < PER_LANE; j++) {
            wide[j] *= by;
            wide_all[j] *= by;
        }
    }

    __device__ __forceinline__ void fold()
    {
        norm_all += norm;
        norm = 0.0F;
        for (int j = 0; j < PER_LANE; j++) {
            wide_all[j] += wide[j];
            wide[j] = 0.0F;
        }
    }
};

/* m' = max(m, e), s' = c s + w, out' = c out + μ w (value | f) with c = exp(m - m'), w = exp(e - m'), edge after
 * edge */
template <int SCORE>
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
    forward_edges(const struct cuda_attention a, float *softmax, float *out)
{
    const int width = columns_of<SCORE>(a);
    for (int64_t i = grid_group<WARP>(); i < a.n_row * a.n_head; i += grid_groups<WARP>()) {
        int h;
        const int64_t row = divide(i, (int)a.n_head, &h);
        const struct head_row r = head_row_make(a, row, h);
        float row_max = -CUDART_INF_F;
        struct edges_sums sums = {};
        for (int chunk = 0; chunk < width; chunk += CHUNK) {
            sums = {};
            row_max = a.begin ? -CUDART_INF_F : softmax[2 * r.own];
            sums.norm_all = a.begin ? 0.0F : softmax[2 * r.own + 1];
            for (int j = 0; j < PER_LANE && !a.begin; j++) {
                const int c = chunk_column(chunk, j);
                sums.wide_all[j] = c < width ? out[r.own * width + c] : 0.0F;
            }
            struct walk w = walk_of(r);
            struct ends at;
            while (walk_next<SCORE>(a, r, &w, &at)) {
                const float score = attention_score<SCORE>(a, product_of<SCORE>(a, h, at), 0.0F),
                            greatest = fmaxf(row_max, score);
                if (row_max != greatest) {
                    sums.scale(fixed_exp(row_max - greatest));
                    row_max = greatest;
                }
                const float weight = fixed_exp(score - row_max);
                sums.norm += weight;
                for (int j = 0; j < PER_LANE; j++) {
                    const int c = chunk_column(chunk, j);
                    const float x = c < (int)a.n_column ? at.value[c]
                                    : c < width         ? __ldg(at.f + c - (int)a.n_column)
                                                        : 0.0F;
                    sums.wide[j] = fmaf(weight * at.mu, x, sums.wide[j]);
                }
                if ((w.first - r.begin + w.k) % SUM_EDGES == 0) {
                    sums.fold();
                }
            }
            sums.fold();
            for (int j = 0; j < PER_LANE; j++) {
                const int c = chunk_column(chunk, j);
                if (c < width) {
                    out[r.own * width + c] = sums.wide_all[j];
                }
            }
        }
        __syncwarp(ALL_LANES); /* all lanes have read the state */
        if (group_lane<WARP>() == 0) {
            softmax[2 * r.own] = row_max;
            softmax[2 * r.own + 1] = sums.norm_all;
        }
    }
}

/* to (+)= sum, of width numbers a head */
static __device__ __forceinline__ void chunk_store(const struct cuda_attention &a, const struct head_row &r,
                                                   int width, int chunk, const float sum[PER_LANE], float *to)
{
    for (int j = 0; j < PER_LANE; j++) {
        const int c = chunk_column(chunk, j);
        float *x = to + r.own * width + c;
        if (c < width) {
            *x = a.begin ? sum[j] : *x + sum[j];
        }
    }
}

/* add: grad_query_i = Σ_j de · leaky'(x) · mlp: of column c Σ_j de · att_c · leaky'(x_c) · dot: Σ_j scale · de ·
 * (key_j | f) */
template <int SCORE>
__global__ void __launch_bounds__(BLOCK_THREADS, 2) query_edges(const struct cuda_attention a, float *grad_query)
{
    const int width = query_columns<SCORE>(a);
    for (int64_t i = grid_group<WARP>(); i < a.n_row * a.n_head; i += grid_groups<WARP>()) {
        int h;
        const int64_t row = divide(i, (int)a.n_head, &h);
        const struct head_row r = head_row_make(a, row, h);
        for (int chunk = 0; chunk < width; chunk += CHUNK) {
            float sum[PER_LANE] = {};
            struct walk w = walk_of(r);
            struct ends at;
            while (walk_next<SCORE>(a, r, &w, &at)) {
                const struct edge_gradient by = gradient_of<SCORE>(a, h, at);
                for (int j = 0; j < PER_LANE; j++) {
                    const int c = chunk_column(chunk, j);
                    if (c >= width) {
                        continue;
                    }
                    if (SCORE == DEVICE_SCORE_ADD) {
                        sum[j] = fmaf(by.de, leaky_slope(by.product, a.slope), sum[j]);
                    } else if (SCORE == DEVICE_SCORE_MLP) {
                        const float att = __ldg(a.att + (int64_t)h * a.n_column + c);
                        sum[j] = fmaf(att * leaky_slope(column_sum(a, h, at, c), a.slope), by.de, sum[j]);
                    } else {
                        sum[j] = fmaf(by.de * a.scale, c < (int)a.n_column ? at.key[c] : at.f[c - (int)a.n_column],
                                      sum[j]);
                    }
                }
            }
            chunk_store(a, r, width, chunk, sum, grad_query);
        }
    }
}

/* Where a range's sums go: of att (NULL: not wanted) and of what a.more.weight is, doubles, range after range. */
struct parameter_sums {
    double *att, *edge;
    int64_t n_range, range_rows;
};

/* add: grad_v = Σ_ij de · leaky'(x) · f. A warp takes a head of a range, CHUNK numbers of v at a time. */
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
    vector_edges(const struct cuda_attention a, const struct parameter_sums to)
{
    const int n_more = (int)a.more.n_column;
    for (int64_t i = grid_group<WARP>(); i < to.n_range * a.n_head; i += grid_groups<WARP>()) {
        int h;
        const int64_t range = divide(i, (int)a.n_head, &h), end = (range + 1) * to.range_rows;
        for (int chunk = 0; chunk < n_more; chunk += CHUNK) {
            double total[PER_LANE] = {};
            for (int64_t row = range * to.range_rows; row < (end < a.n_row ? end : a.n_row); row++) {
                const struct head_row r = head_row_make(a, row, h);
                float sum[PER_LANE] = {};
                struct walk w = walk_of(r);
                struct ends at;
                while (walk_next<DEVICE_SCORE_ADD>(a, r, &w, &at)) {
                    const struct edge_gradient by = gradient_of<DEVICE_SCORE_ADD>(a, h, at);
                    for (int j = 0; j < PER_LANE; j++) {
                        const int d = chunk_column(chunk, j);
                        sum[j] = fmaf(by.de * leaky_slope(by.product, a.slope), d < n_more ? __ldg(at.f + d) : 0.0F,
                                      sum[j]);
                    }
                }
                for (int j = 0; j < PER_LANE; j++) {
                    total[j] += (double)sum[j];
                }
            }
            for (int j = 0; j < PER_LANE; j++) {
                const int d = chunk_column(chunk, j);
                if (d < n_more) {
                    to.edge[(range * a.n_head + h) * n_more + d] = total[j];
                }
            }
        }
    }
}

/* mlp: of column c grad_att = Σ_ij de · leaky(x_c) and of its features d … d+FEATURES-1 grad_W = Σ_ij de · att_c ·
 * leaky'(x_c) · f. A warp takes a head of a range, as many columns as it has lanes at a time. */
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
    weight_edges(const struct cuda_attention a, const struct parameter_sums to)
{
    const int n_column = (int)a.n_column, n_more = (int)a.more.n_column;
    for (int64_t i = grid_group<WARP>(); i < to.n_range * a.n_head; i += grid_groups<WARP>()) {
        int h;
        const int64_t range = divide(i, (int)a.n_head, &h), end = (range + 1) * to.range_rows;
        for (int n = 0; n < (n_column + WARP - 1) / WARP * ((n_more + FEATURES - 1) / FEATURES); n++) {
            const int d = n / ((n_column + WARP - 1) / WARP) * FEATURES;
            const int c = n % ((n_column + WARP - 1) / WARP) * WARP + group_lane<WARP>();
            double total[FEATURES + 1] = {};
            for (int64_t row = range * to.range_rows; row < (end < a.n_row ? end : a.n_row); row++) {
                const struct head_row r = head_row_make(a, row, h);
                float sum[FEATURES + 1] = {};
                struct walk w = walk_of(r);
                struct ends at;
                while (walk_next<DEVICE_SCORE_MLP>(a, r, &w, &at)) {
                    const struct edge_gradient by = gradient_of<DEVICE_SCORE_MLP>(a, h, at);
                    const float x = c < n_column ? column_sum(a, h, at, c) : 0.0F, slope = leaky_slope(x, a.slope);
                    const float de = c < n_column ? by.de * __ldg(a.att + (int64_t)h * n_column + c) * slope : 0.0F;
                    for (int j = 0; j < FEATURES; j++) {
                        sum[j] = fmaf(de, d + j < n_more ? __ldg(at.f + d + j) : 0.0F, sum[j]);
                    }
                    sum[FEATURES] = fmaf(by.de, x * slope, sum[FEATURES]);
                }
                for (int j = 0; j <= FEATURES; j++) {
                    total[j] += (double)sum[j];
                }
            }
            for (int j = 0; j < FEATURES && c < n_column; j++) {
                if (d + j < n_more && to.edge != NULL) {
                    to.edge[((range * n_more + d + j) * a.n_head + h) * n_column + c] = total[j];
                }
            }
            if (d == 0 && c < n_column && to.att != NULL) {
                to.att[(range * a.n_head + h) * n_column + c] = total[FEATURES];
            }
        }
    }
}

/* grad_value_j = Σ_i μ α grad_out_i, and add: grad_key_j = Σ_i de · leaky'(x) · mlp: grad_value_jc += Σ_i de · att_c
 * · leaky'(x_c) dot: grad_key_j = Σ_i scale · de · query_i */
template <int SCORE>
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
    source_edges(const struct cuda_attention a, float *grad_value, float *grad_key)
{
    const int n_column = (int)a.n_column;
    for (int64_t i = grid_group<WARP>(); i < a.n_row * a.n_head; i += grid_groups<WARP>()) {
        int h;
        const int64_t row = divide(i, (int)a.n_head, &h);
        const struct head_row r = head_row_make(a, row, h);
        for (int chunk = 0; chunk < n_column; chunk += CHUNK) {
            float value[PER_LANE] = {}, key[PER_LANE] = {}, narrow = 0.0F;
            struct walk w = walk_of(r);
            struct ends at;
            while (walk_next<SCORE>(a, r, &w, &at)) {
                const struct edge_gradient by = gradient_of<SCORE>(a, h, at);
                narrow += by.de * leaky_slope(by.product, a.slope);
                for (int j = 0; j < PER_LANE; j++) {
                    const int c = chunk_column(chunk, j);
                    if (c >= n_column) {
                        continue;
                    }
                    value[j] = fmaf(at.mu * by.alpha, at.grad_out[c], value[j]);
                    if (SCORE == DEVICE_SCORE_MLP) {
                        const float att = __ldg(a.att + (int64_t)h * n_column + c);
                        value[j] = fmaf(att * leaky_slope(column_sum(a, h, at, c), a.slope), by.de, value[j]);
                    } else if (SCORE == DEVICE_SCORE_DOT) {
                        key[j] = fmaf(by.de * a.scale, at.query[c], key[j]);
                    }
                }
            }
            chunk_store(a, r, n_column, chunk, value, grad_value);
            if (SCORE == DEVICE_SCORE_DOT) {
                chunk_store(a, r, n_column, chunk, key, grad_key);
            } else if (SCORE == DEVICE_SCORE_ADD && chunk == 0 && group_lane<WARP>() == 0) {
                grad_key[r.own] = a.begin ? narrow : grad_key[r.own] + narrow;
            }
        }
    }
}

#define LAUNCH_BY_SCORE(kernel, score, grid, stream, ...)                                                            \
    switch (score) {                                                                                                 \
    case DEVICE_SCORE_ADD:                                                                                           \
        LAUNCH(kernel<DEVICE_SCORE_ADD>, grid, BLOCK_THREADS, stream, __VA_ARGS__);                                  \
        break;                                                                                                       \
    case DEVICE_SCORE_MLP:                                                                                           \
        LAUNCH(kernel<DEVICE_SCORE_MLP>, grid, BLOCK_THREADS, stream, __VA_ARGS__);                                  \
        break;                                                                                                       \
    default:                                                                                                         \
        LAUNCH(kernel<DEVICE_SCORE_DOT>, grid, BLOCK_THREADS, stream, __VA_ARGS__);                                  \
        break;                                                                                                       \
    }

/* A warp for each head of each row. */
static unsigned heads_grid(const struct cuda_attention &a)
{
    return grid_size(a.n_row * a.n_head, BLOCK_THREADS / WARP);
}

extern "C" void cuda_attention_edges_forward(struct device *device, const struct device_attention_rows *rows,
                                             const struct device_attention_state *state, float *out)
{
    const struct cuda_attention a = cuda_attention_make(rows, false);
    LAUNCH_BY_SCORE(forward_edges, rows->how->score, heads_grid(a), cuda_stream(device), a, state->softmax, out)
}

extern "C" void cuda_attention_edges_query(struct device *device, const struct device_attention_rows *rows,
                                           void *scratch, float *grad_query, float *grad_att, float *grad_edge)
{
    const struct cuda_attention a = cuda_attention_make(rows, false);
    const int64_t n_att = rows->how->score == DEVICE_SCORE_MLP ? a.n_head * a.n_column : 0;
    const int64_t n_edge = device_attention_edge_floats(rows->how), n_range = cuda_attention_edge_ranges(a.n_row);
    struct parameter_sums to = {};
    to.n_range = n_range;
    to.range_rows = n_range > 0 ? (a.n_row + n_range - 1) / n_range : 1;
    to.att = grad_att != NULL ? (double *)scratch : NULL;
    to.edge = grad_edge != NULL ? (double *)scratch + n_range * n_att : NULL;
    LAUNCH_BY_SCORE(query_edges, rows->how->score, heads_grid(a), cuda_stream(device), a, grad_query)
    const unsigned grid = grid_size(n_range * a.n_head, BLOCK_THREADS / WARP);
    if (rows->how->score == DEVICE_SCORE_ADD && to.edge != NULL) {
        LAUNCH(vector_edges, grid, BLOCK_THREADS, cuda_stream(device), a, to);
    } else if (rows->how->score == DEVICE_SCORE_MLP && (to.att != NULL || to.edge != NULL)) {
        LAUNCH(weight_edges, grid, BLOCK_THREADS, cuda_stream(device), a, to);
    }
    if (to.att != NULL) {
        cuda_attention_parts_add(cuda_stream(device), n_range, n_att, to.att, rows->begin, grad_att);
    }
    if (to.edge != NULL) {
        cuda_attention_parts_add(cuda_stream(device), n_range, n_edge, to.edge, true, grad_edge);
    }
}

extern "C" void cuda_attention_edges_source(struct device *device, const struct device_attention_rows *rows,
                                            float *grad_value, float *grad_key)
{
    const struct cuda_attention a = cuda_attention_make(rows, true);
    LAUNCH_BY_SCORE(source_edges, rows->how->score, heads_grid(a), cuda_stream(device), a, grad_value, grad_key)
}
