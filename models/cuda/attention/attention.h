/* Shared by the passes of an attention: a group of lanes processes one head of one row, with its columns spread over
 * the lanes.
 *
 *   score    e_ij at one head                           keys and queries
 *   add      leaky(key_j + query_i)                     one number per head
 *   mlp      Σ_c att_c · leaky(value_jc + query_ic)     no keys
 *   dot      scale · ⟨key_j, query_i⟩                   keys as wide as values
 *   cosine   key_j · ⟨value_j, query_i⟩                 keys: one number per head
 *
 * Order   a row's edges as the block has them, its edge to itself first, a few at a time, each a step of the running
 *         softmax; a product over columns first within a lane, then over the lanes of the group in one tree. The same
 *         in all passes, so that backward finds forward's scores. Heads of more columns than a group holds are taken
 *         in chunks of columns, each with all of the products. Of add each lane makes the score of one edge, all of
 *         them relative to the greatest, and the edge to itself comes last (attention_add.h).
 */
#ifndef MODELS_CUDA_ATTENTION_H
#define MODELS_CUDA_ATTENTION_H

#include "models/cuda/functions.h"
#include "models/cuda/vector.h"

extern "C" {
#include "models/cuda/schedule.h"
}

struct cuda_edge_features {
    int64_t n_column;            /* 0: edges without features; the rest is unused */
    const float *weight, *table; /* device_attention's edge; the block's edge_table */
    const uint32_t *rows;        /* the block's edge_rows */
};

/* Which edges dropout keeps. */
struct cuda_edge_draws {
    uint32_t threshold; /* 0: all */
    float keep_scale;
    struct random_key key;
    const struct device_now *now;
    const uint32_t *row_node, *col_node;
};

/* One pass over a block, whose rows are destinations or sources. */
struct cuda_attention {
    int64_t n_row;
    int64_t n_most; /* edges of a row at most: the groups of a block share longer ones */
    const uint32_t *rows;
    const int64_t *indptr;
    const uint32_t *cols;
    const struct cuda_schedule *schedule;
    bool begin, with_self; /* with_self: and the rows begin */
    bool last;
    bool rows_are_sources;
    bool aligned; /* four columns of any row can be read at once, and both numbers of a softmax */
    int64_t n_head, n_column;
    struct { /* of rows of one number per head, and of one per column; both in a word could look like an address */
        uint32_t head, zero, wide, zero_too;
    } bytes;
    float slope, scale, shift;
    const float *att;
    struct cuda_edge_features more;
    struct cuda_edge_draws drop;
    struct device_attention_source source, self_source;
    struct device_attention_target target, self_target;
};

/* Blocks of threads and what they share out: all heads of all rows (or of ranges of them), and of all shares of the
 * long rows. */
struct cuda_attention_grid {
    cudaStream_t stream;
    /* heads have whole fours of columns: lanes divide only these, so that no bit depends on the place of rows */
    bool fours;
    int64_t n_range, range_rows;
    int64_t n_share; /* 0: there are no long rows */
};

struct cuda_attention cuda_attention_make(const struct device_attention_rows *rows, bool rows_are_sources);
struct cuda_attention_grid cuda_attention_grid_make(struct device *device, const struct device_attention_rows *rows,
                                                    bool with_att);

/* grad (+)= Σ of a parameter's partial gradients, in their order: n_part × width. */
void cuda_attention_parts_add(cudaStream_t stream, int64_t n_part, int64_t width, const double *part, bool begin,
                              float *grad);

/* The passes where edges have features (attention_edges.cu). */
extern "C" void cuda_attention_edges_forward(struct device *device, const struct device_attention_rows *rows,
                                             const struct device_attention_state *state, float *out);
extern "C" void cuda_attention_edges_query(struct device *device, const struct device_attention_rows *rows,
                                           void *scratch, float *grad_query, float *grad_att, float *grad_edge);
extern "C" void cuda_attention_edges_source(struct device *device, const struct device_attention_rows *rows,
                                            float *grad_value, float *grad_key);

/* --- shapes: LANES lanes hold N floats each of a head, in VECTORS loads of W floats --- */

template <int WIDTH, int GROUP, int LOADS> struct shape {
    static constexpr int W = WIDTH, LANES = GROUP, VECTORS = LOADS, N = W * VECTORS, COLUMNS = LANES * N;
    /* Edges whose rows are on their way at a time. */
    static constexpr int AHEAD = VECTORS > 1 ? 2 : 4;
    /* Groups of a block that take a long row together. */
    static constexpr int GROUPS = VECTORS > 1 ? 256 / LANES : 512 / LANES < 32 ? 512 / LANES : 32;
};

/* --- columns of a head --- */

/* Columns first_column … of a head are worked on; vector v of a lane begins S::LANES · S::W · v behind its first. */
template <typename S> static __device__ __forceinline__ int lane_column(int first_column)
{
    return first_column + group_lane<S::LANES>() * S::W;
}

/* to = the S::W floats at x. ALIGNED: as the passes' argument is. */
template <typename S, bool ALIGNED> static __device__ __forceinline__ void vector_take(const float *x, float *to)
{
    if (S::W == 4) {
        const float4 four = ALIGNED ? vector_read<float4>(x)
                                    : make_float4(__ldg(x), __ldg(x + 1), __ldg(x + 2), __ldg(x + 3));
        to[0] = four.x;
        to[1 % S::W] = four.y;
        to[2 % S::W] = four.z;
        to[3 % S::W] = four.w;
    } else {
        to[0] = vector_read<float>(x);
    }
}

/* to = this lane's columns of a head that begins at x; 0 past the last column, or where there is nothing to read. */
template <typename S, bool ALIGNED>
static __device__ __forceinline__ void columns_read(const struct cuda_attention &a, const float *x, int first_column,
                                                    bool there, float to[S::N])
{
    for (int i = 0; i < S::N; i++) {
        to[i] = 0.0F;
    }
    for (int v = 0; v < S::VECTORS; v++) {
        const int c = lane_column<S>(first_column) + v * S::LANES * S::W;
        if (there && c < (int)a.n_column) {
            vector_take<S, ALIGNED>(x + c, to + v * S::W);
        }
    }
}

template <typename S>
static __device__ __forceinline__ void columns_write(const struct cuda_attention &a, const float from[S::N],
                                                     int first_column, float *x)
{
    const int first = lane_column<S>(first_column);
    const bool at_once = S::W == 4 && (uintptr_t)x % sizeof(float4) == 0; /* columns are whole fours */
    for (int v = 0; v < S::VECTORS; v++) {
        const int c = first + v * S::LANES * S::W;
        if (at_once && c < (int)a.n_column) {
            vector_store(x + c, make_float4(from[v * S::W], from[v * S::W + 1 % S::W], from[v * S::W + 2 % S::W],
                                            from[v * S::W + 3 % S::W]));
            continue;
        }
        for (int i = 0; i < S::W && c < (int)a.n_column; i++) {
            x[c + i] = from[v * S::W + i];
        }
    }
}

/* Likewise, from memory that the kernel may have written, and wherever it lies. */
template <typename S>
static __device__ __forceinline__ void columns_load(const struct cuda_attention &a, const float *x, int first_column,
                                                    float to[S::N])
{
    const bool at_once = S::W == 4 && (uintptr_t)x % sizeof(float4) == 0;
    for (int v = 0; v < S::VECTORS; v++) {
        const int c = lane_column<S>(first_column) + v * S::LANES * S::W;
        const bool there = c < (int)a.n_column;
        const float4 four = at_once && there ? vector_load<float4>(x + c) : vector_fill<float4>(0.0F);
        const float all[4] = {four.x, four.y, four.z, four.w};
        for (int i = 0; i < S::W; i++) {
            to[v * S::W + i] = at_once || !there ? all[i] : x[c + i];
        }
    }
}

/* mask: of the lanes that come here, whole groups. */
template <int LANES, typename X>
static __device__ __forceinline__ X group_sum(X x, unsigned mask = group_mask<LANES>())
{
    for (int d = LANES / 2; d > 0; d /= 2) {
        x += __shfl_xor_sync(mask, x, d, LANES);
    }
    return x;
}

template <int LANES> static __device__ __forceinline__ float group_max(float x, unsigned mask)
{
    for (int d = LANES / 2; d > 0; d /= 2) {
        x = fmaxf(x, __shfl_xor_sync(mask, x, d, LANES));
    }
    return x;
}

/* --- numbers --- */

static __device__ __forceinline__ float leaky_slope(float x, float slope)
{
    return x > 0.0F ? 1.0F : slope;
}

/* The end of a softmax of which s = Σ exp(e - row_max) is at least 1, or 0 in a row without edges: what its sums are
 * multiplied by, and L, there +inf, so that exp(score - L) is 0. */
static __device__ __forceinline__ float softmax_scale(float s)
{
    return s == 0.0F ? 0.0F : 1.0F / s;
}

static __device__ __forceinline__ float softmax_log_sum(float row_max, float s)
{
    return s == 0.0F ? CUDART_INF_F : row_max + (float)log_above_one((double)s);
}

/* What one column adds to an edge's product: mine · far, of mlp att · leaky(mine + far). */
template <int SCORE>
static __device__ __forceinline__ float product_add(float slope, float mine, float far, float att, float sum)
{
    if (SCORE != DEVICE_SCORE_MLP) {
        return fmaf(mine, far, sum);
    }
    const float x = mine + far;
    return fmaf(x > 0.0F ? att : att * slope, x, sum);
}

/* One end of an edge, of which this lane holds some columns: all of the head's begin at `all`. */
template <typename S> struct end_columns {
    const float *all;
    float x[S::N];
};

/* This lane's share of a product over all columns of a head; att: of mlp, else unused. */
template <int SCORE, typename S>
static __device__ __forceinline__ float lane_product(const struct cuda_attention &a, const end_columns<S> &mine,
                                                     const end_columns<S> &att, const float *far_all,
                                                     const float far[S::N])
{
    float sum = 0.0F;
    if constexpr (S::VECTORS > 1) {
        if ((int)a.n_column > S::COLUMNS) {
            for (int c = group_lane<S::LANES>(); c < (int)a.n_column && far_all != NULL; c += S::LANES) {
                const float by = SCORE == DEVICE_SCORE_MLP ? __ldg(att.all + c) : 0.0F;
                sum = product_add<SCORE>(a.slope, __ldg(mine.all + c), __ldg(far_all + c), by, sum);
            }
            return sum;
        }
    }
    for (int i = 0; i < S::N; i++) {
        sum = product_add<SCORE>(a.slope, mine.x[i], far[i], SCORE == DEVICE_SCORE_MLP ? att.x[i] : 0.0F, sum);
    }
    return sum;
}

/* The score of an edge with this product (of add: key + query). */
template <int SCORE>
static __device__ __forceinline__ float attention_score(const struct cuda_attention &a, float product, float key)
{
    const float by = SCORE == DEVICE_SCORE_ADD      ? leaky_slope(product, a.slope)
                     : SCORE == DEVICE_SCORE_DOT    ? a.scale
                     : SCORE == DEVICE_SCORE_COSINE ? key
                                                    : 1.0F;
    return product * by + a.shift;
}

/* --- a head of a row, and its edges --- */

struct head_row {
    int64_t row;               /* the own row */
    int64_t own;               /* number of the head among those of all own rows */
    int64_t first, begin, end; /* edges: the edge to itself, where there is one, then those of the block */
    int h;
    int column; /* the first of those that are worked on */
};

static __device__ __forceinline__ struct head_row head_row_make(const struct cuda_attention &a, int64_t r, int h)
{
    struct head_row head;
    head.row = own_row(a.rows, r);
    head.own = head.row * a.n_head + h;
    head.begin = a.indptr[r];
    head.end = a.indptr[r + 1];
    head.first = head.begin - (a.with_self ? 1 : 0);
    head.h = h;
    head.column = 0;
    return head;
}

/* x (+)= the row's sum over columns. */
template <typename S>
static __device__ __forceinline__ void row_add(const struct cuda_attention &a, const struct head_row &r,
                                               const float sum[S::N], float *x)
{
    float all[S::N];
    x += r.own * a.n_column;
    columns_load<S>(a, x, a.begin ? (int)a.n_column : r.column, all); /* nothing, where rows begin */
    for (int i = 0; i < S::N; i++) {
        all[i] = a.begin ? sum[i] : all[i] + sum[i];
    }
    columns_write<S>(a, all, r.column, x);
}

/* Quotient and rest; in 32 bits where that is enough. */
static __device__ __forceinline__ int64_t divide(int64_t i, int n, int *rest)
{
    const int64_t quotient = i <= (int64_t)UINT32_MAX ? (int64_t)((uint32_t)i / (uint32_t)n) : i / n;
    *rest = (int)(i - quotient * n);
    return quotient;
}

/* Edges at … of which each lane of the group has one. */
struct batch {
    int n;
    uint32_t col;  /* the lane's; of an edge to itself the own row */
    unsigned kept; /* bit k: dropout keeps edge k */
};

static __device__ __forceinline__ bool edge_is_kept(const struct cuda_attention &a, const struct head_row &r,
                                                    uint32_t col, bool is_self)
{
    const uint32_t own = __ldg(a.drop.row_node + r.row), other = is_self ? own : __ldg(a.drop.col_node + col);
    const uint32_t epoch = a.drop.now != NULL ? a.drop.now->epoch : a.drop.key.epoch;
    const uint32_t from = a.rows_are_sources ? own : other, to = a.rows_are_sources ? other : own;
    const uint32_t last = (uint32_t)a.drop.key.op | ((uint32_t)r.h / 4 & 0xffU) << 16 |
                          (uint32_t)a.drop.key.stream << 24;
    const uint4 draws = philox(make_uint4(from, to, epoch, last), (uint32_t)a.drop.key.seed,
                               (uint32_t)(a.drop.key.seed >> 32));
    return draw_at(draws, (unsigned)r.h % 4) >= a.drop.threshold;
}

/* Dropout's factor of an edge; MAY: there may be dropout. */
template <bool MAY>
static __device__ __forceinline__ float drop_factor(const struct cuda_attention &a, const struct head_row &r,
                                                    uint32_t col, bool is_self)
{
    const bool kept = !MAY || a.drop.threshold == 0 || edge_is_kept(a, r, col, is_self);
    return !MAY ? 1.0F : kept ? a.drop.keep_scale : 0.0F;
}

template <int LANES>
static __device__ __forceinline__ struct batch batch_load(const struct cuda_attention &a, const struct head_row &r,
                                                          int64_t at, int64_t end)
{
    const int64_t e = at + group_lane<LANES>();
    struct batch batch;
    batch.n = (int)(end - at < LANES ? end - at : LANES);
    batch.col = e >= end ? 0 : e < r.begin ? (uint32_t)r.row : __ldg(a.cols + e);
    batch.kept = 0;
    if (a.drop.threshold > 0) {
        const bool kept = e < end && edge_is_kept(a, r, batch.col, e < r.begin);
        batch.kept = __ballot_sync(group_mask<LANES>(), kept) >> (threadIdx.x % WARP / LANES * LANES);
    }
    return batch;
}

/* Edge k of a batch that begins at edge `at`. */
struct edge {
    bool there, is_self;
    int64_t head; /* number of the head among those of all rows at the other end */
    float mu;     /* dropout's factor */
};

template <int LANES>
static __device__ __forceinline__ struct edge edge_make(const struct cuda_attention &a, const struct head_row &r,
                                                        const struct batch &batch, int64_t at, int k)
{
    const uint32_t col = __shfl_sync(group_mask<LANES>(), batch.col, k, LANES);
    struct edge edge;
    edge.there = k < batch.n;
    edge.is_self = at + k < r.begin;
    edge.head = (int64_t)col * a.n_head + r.h;
    edge.mu = a.drop.threshold == 0 ? 1.0F : (batch.kept >> k & 1U) != 0 ? a.drop.keep_scale : 0.0F;
    return edge;
}

/* --- sums over edges, one after another and then of a row's groups --- */

/* Sums of a row's head, WIDE of them with a number per column. Softmaxes have a row max; other sums have 0 there, so
 * that they are joined by adding. */
template <typename S, int WIDE> struct sums {
    static constexpr int N_WIDE = WIDE;
    float row_max, norm;
    float narrow; /* one number per head */
    float wide[WIDE][S::N];

    __device__ __forceinline__ explicit sums(float row_max_) : row_max(row_max_), norm(0.0F), narrow(0.0F), wide{}
    {
    }

    /* To and from shared memory, where one group's sums take FLOATS. */
    static constexpr int FLOATS = S::LANES + WIDE * S::COLUMNS; /* so groups of a warp meet in no bank */

    __device__ __forceinline__ void keep(float *kept) const
    {
        if (group_lane<S::LANES>() == 0) {
            kept[0] = row_max;
            kept[1] = norm;
            kept[2] = narrow;
        }
        for (int i = 0; i < WIDE * S::N; i++) {
            kept[(1 + i) * S::LANES + group_lane<S::LANES>()] = wide[i / S::N][i % S::N];
        }
    }

    __device__ __forceinline__ explicit sums(const float *kept) : row_max(kept[0]), norm(kept[1]), narrow(kept[2])
    {
        for (int i = 0; i < WIDE * S::N; i++) {
            wide[i / S::N][i % S::N] = kept[(1 + i) * S::LANES + group_lane<S::LANES>()];
        }
    }

    /* Softmaxes of disjoint sets of edges join as they grow edge by edge:
     *   m = max(m₁, m₂)   s = s₁ exp(m₁ - m) + s₂ exp(m₂ - m)   and all sums likewise */
    __device__ __forceinline__ void join(const sums &from)
    {
        const float greatest = fmaxf(row_max, from.row_max);
        const float mine = row_max == greatest ? 1.0F : fixed_exp(row_max - greatest);
        const float other = from.row_max == greatest ? 1.0F : fixed_exp(from.row_max - greatest);
        row_max = greatest;
        norm = fmaf(mine, norm, other * from.norm);
        narrow = fmaf(mine, narrow, other * from.narrow);
        for (int i = 0; i < WIDE * S::N; i++) {
            float *x = &wide[i / S::N][i % S::N];
            *x = fmaf(mine, *x, other * from.wide[i / S::N][i % S::N]);
        }
    }
};

/* Join the sums of all groups of a block, in the order of the groups, into the first one's. All threads call it;
 * `kept` is shared. */
template <typename S, int WIDE> static __device__ __forceinline__ void groups_join(float *kept, sums<S, WIDE> *s)
{
    const int group = (int)threadIdx.x / S::LANES;
    __syncthreads();
    s->keep(kept + group * sums<S, WIDE>::FLOATS);
    __syncthreads();
    for (int g = 1; group == 0 && g < S::GROUPS; g++) {
        s->join(sums<S, WIDE>(kept + g * sums<S, WIDE>::FLOATS));
    }
}

/* The long rows that share number `share` of n_share has: units from *first to *end. */
static __device__ __forceinline__ void share_units(const struct cuda_attention &a, int64_t share, int64_t n_share,
                                                   int64_t *first, int64_t *end)
{
    *first = share * a.schedule->n_unit / n_share;
    *end = (share + 1) * a.schedule->n_unit / n_share;
}

/* Is a unit all of its row, or its first piece, and the row longer than n_most? A row is taken whole, at its first
 * unit. */
static __device__ __forceinline__ bool begins_long(const struct cuda_attention &a, const struct cuda_unit &unit)
{
    const int64_t begin = a.indptr[unit.row];
    return unit.begin == begin && a.indptr[unit.row + 1] - begin > a.n_most;
}

#endif
