/* Attention forward: state of a row and head while its edges come, m = -inf, s = 0, out = 0 before the first:
 *   m' = max(m, max_i e_i)    c = exp(m - m')    w_i = exp(e_i - m')
 *   s' = c s + Σ_i w_i        out' = c out + Σ_i μ_i w_i value_i
 * GAT in training has two sums more, over the edges with key + query > 0 alone (positive, positive_weight).
 *
 * source  Milakov & Gimelshein, arXiv 1805.02867 (online softmax)
 */
#include "models/cuda/attention/attention.h"

#include <math.h>

/* Where a row's state is; positive NULL: not wanted. */
struct forward_state {
    float *softmax, *out, *positive, *positive_weight;
};

/* Sums of columns: of add, two. */
template <int SCORE> constexpr int n_wide = SCORE == DEVICE_SCORE_ADD ? 2 : 1;

template <int SCORE, typename S> using forward_sums = sums<S, n_wide<SCORE>>;

template <typename S>
static __device__ __forceinline__ void columns_load(const struct cuda_attention &a, const struct head_row &r,
                                                    const float *x, float to[S::N])
{
    for (int i = 0; i < S::N; i++) {
        const int c = lane_column<S>(r.column) + i / S::W * S::LANES * S::W + i % S::W;
        to[i] = c < (int)a.n_column ? x[r.own * a.n_column + c] : 0.0F;
    }
}

template <int SCORE, typename S>
static __device__ __forceinline__ forward_sums<SCORE, S>
state_load(const struct cuda_attention &a, const struct forward_state &to, const struct head_row &r, bool empty)
{
    forward_sums<SCORE, S> s(-CUDART_INF_F);
    if (empty) {
        return s;
    }
    s.row_max = to.softmax[2 * r.own];
    s.norm = to.softmax[2 * r.own + 1];
    columns_load<S>(a, r, to.out, s.wide[0]);
    if (SCORE == DEVICE_SCORE_ADD && to.positive != NULL) {
        columns_load<S>(a, r, to.positive, s.wide[n_wide<SCORE> - 1]);
        s.narrow = to.positive_weight[r.own];
    }
    return s;
}

/* What is one number is written with the last columns, before which all others have begun from it. */
template <int SCORE, typename S>
static __device__ __forceinline__ void state_store(const struct cuda_attention &a, const struct forward_state &to,
                                                   const struct head_row &r, const forward_sums<SCORE, S> &s)
{
    const bool positive = SCORE == DEVICE_SCORE_ADD && to.positive != NULL;
    columns_write<S>(a, s.wide[0], r.column, to.out + r.own * a.n_column);
    if (positive) {
        columns_write<S>(a, s.wide[n_wide<SCORE> - 1], r.column, to.positive + r.own * a.n_column);
    }
    __syncwarp(group_mask<S::LANES>()); /* all lanes have read it */
    if (group_lane<S::LANES>() == 0 && r.column + S::COLUMNS >= (int)a.n_column) {
        to.softmax[2 * r.own] = s.row_max;
        to.softmax[2 * r.own + 1] = s.norm;
        if (positive) {
            to.positive_weight[r.own] = s.narrow;
        }
    }
}

/* Some edges' rows, and the numbers from which their scores are made. */
template <int SCORE, typename S> struct some_edges {
    struct edge edge[S::AHEAD];
    float value[S::AHEAD][S::N];
    float product[S::AHEAD], score[S::AHEAD];

    __device__ __forceinline__ void load(const struct cuda_attention &a, const struct head_row &r,
                                         const end_columns<S> &query, const end_columns<S> &att, float own)
    {
        float key[S::AHEAD];
        for (int k = 0; k < S::AHEAD; k++) {
            const struct device_attention_source &from = edge[k].is_self ? a.self_source : a.source;
            const float *values = from.value + edge[k].head * a.n_column, *keys = NULL;
            columns_read<S>(a, values, r.column, edge[k].there, value[k]);
            product[k] = key[k] = 0.0F;
            if (SCORE == DEVICE_SCORE_ADD || SCORE == DEVICE_SCORE_COSINE) {
                key[k] = edge[k].there ? __ldg(from.key + edge[k].head) : 0.0F;
            }
            if (SCORE == DEVICE_SCORE_DOT) {
                float far[S::N];
                keys = from.key + edge[k].head * a.n_column;
                columns_read<S>(a, keys, r.column, edge[k].there, far);
                product[k] = lane_product<SCORE, S>(a, query, att, edge[k].there ? keys : NULL, far);
            } else if (SCORE != DEVICE_SCORE_ADD) {
                product[k] = lane_product<SCORE, S>(a, query, att, edge[k].there ? values : NULL, value[k]);
            }
        }
        for (int k = 0; k < S::AHEAD; k++) {
            product[k] = SCORE == DEVICE_SCORE_ADD ? key[k] + own : group_sum<S::LANES>(product[k]);
            score[k] = edge[k].there ? score_of<SCORE>(a, product[k], key[k]) : -CUDART_INF_F;
        }
    }

    /* One step of the softmax. */
    __device__ __forceinline__ void add(bool positive, forward_sums<SCORE, S> *s) const
    {
        float row_max = s->row_max;
        for (int k = 0; k < S::AHEAD; k++) {
            row_max = fmaxf(row_max, score[k]);
        }
        if (row_max != s->row_max) {
            const float scale = exp_of(s->row_max - row_max);
            s->row_max = row_max;
            s->norm *= scale;
            s->narrow *= scale;
            for (int i = 0; i < n_wide<SCORE> * S::N; i++) {
                s->wide[i / S::N][i % S::N] *= scale;
            }
        }
        for (int k = 0; k < S::AHEAD; k++) {
            const float weight = edge[k].there ? exp_of(score[k] - row_max) : 0.0F, by = weight * edge[k].mu;
            const bool is_positive = SCORE == DEVICE_SCORE_ADD && positive && product[k] > 0.0F;
            s->norm += weight;
            s->narrow += is_positive ? weight : 0.0F;
            for (int i = 0; i < S::N; i++) {
                s->wide[0][i] = fmaf(by, value[k][i], s->wide[0][i]);
                if (is_positive) {
                    s->wide[n_wide<SCORE> - 1][i] = fmaf(by, value[k][i], s->wide[n_wide<SCORE> - 1][i]);
                }
            }
        }
    }
};

template <int SCORE, typename S>
static __device__ __forceinline__ void edges_forward(const struct cuda_attention &a, const struct head_row &r,
                                                     int64_t begin, int64_t end, bool positive,
                                                     forward_sums<SCORE, S> *s)
{
    end_columns<S> query = {}, att = {};
    float own = 0.0F;
    if (SCORE == DEVICE_SCORE_ADD) {
        own = a.target.query[r.own];
    } else {
        query.all = a.target.query + r.own * a.n_column;
        columns_read<S>(a, query.all, r.column, true, query.x);
    }
    if (SCORE == DEVICE_SCORE_MLP) {
        att.all = a.att + (int64_t)r.h * a.n_column;
        columns_read<S>(a, att.all, r.column, true, att.x);
    }
    for (int64_t at = begin; at < end; at += S::LANES) {
        const struct batch batch = batch_load<S::LANES>(a, r, at, end);
        for (int k = 0; k < batch.n; k += S::AHEAD) {
            some_edges<SCORE, S> edges;
            for (int i = 0; i < S::AHEAD; i++) {
                edges.edge[i] = edge_of<S::LANES>(a, r, batch, at, k + i);
            }
            edges.load(a, r, query, att, own);
            edges.add(positive, s);
        }
    }
}

template <int SCORE, typename S>
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
    forward_rows(const struct cuda_attention a, const struct forward_state to)
{
    for (int64_t i = grid_group<S::LANES>(); i < a.n_row * a.n_head; i += grid_groups<S::LANES>()) {
        int h;
        const int64_t row = divide(i, (int)a.n_head, &h);
        struct head_row r = head_row_of(a, row, h);
        if (r.end - r.begin > a.n_most) {
            continue;
        }
        for (; r.column < (int)a.n_column; r.column += S::COLUMNS) {
            forward_sums<SCORE, S> s = state_load<SCORE, S>(a, to, r, a.begin);
            edges_forward<SCORE, S>(a, r, r.first, r.end, to.positive != NULL, &s);
            state_store<SCORE, S>(a, to, r, s);
        }
    }
}

/* Long rows: the groups of a block take a slice of the edges each. */
template <int SCORE, typename S>
__global__ void __launch_bounds__(S::GROUPS *S::LANES, 1)
    forward_long(const struct cuda_attention a, const struct forward_state to, int64_t n_share)
{
    SHARED(float, kept, (S::GROUPS * forward_sums<SCORE, S>::FLOATS));
    const struct cuda_unit *unit = CUDA_UNITS(a.schedule);
    for (int64_t i = blockIdx.x; i < n_share * a.n_head; i += gridDim.x) {
        int h;
        int64_t u, last, begin, end;
        share_units(a, divide(i, (int)a.n_head, &h), n_share, &u, &last);
        for (; u < last; u++) {
            if (!begins_row(a, unit[u])) {
                continue;
            }
            struct head_row r = head_row_of(a, unit[u].row, h);
            group_slice<S>(r, &begin, &end);
            for (; r.column < (int)a.n_column; r.column += S::COLUMNS) {
                forward_sums<SCORE, S> s = state_load<SCORE, S>(a, to, r, a.begin || threadIdx.x >= S::LANES);
                edges_forward<SCORE, S>(a, r, begin, end, to.positive != NULL, &s);
                groups_join(kept, &s);
                if (threadIdx.x < S::LANES) {
                    state_store<SCORE, S>(a, to, r, s);
                }
            }
        }
    }
}

template <int SCORE, typename S>
static void launch(const struct cuda_attention_grid &on, const struct cuda_attention &a,
                   const struct forward_state &to)
{
    const unsigned grid = grid_of(a.n_row * a.n_head, BLOCK_THREADS / S::LANES);
    LAUNCH((forward_rows<SCORE, S>), grid, BLOCK_THREADS, on.stream, a, to);
    if (on.n_share > 0) {
        LAUNCH((forward_long<SCORE, S>), grid_of(on.n_share * a.n_head, 1), S::GROUPS * S::LANES, on.stream, a, to,
               on.n_share);
    }
}

extern "C" void cuda_attention_forward(struct device *device, const struct device_attention_rows *rows,
                                       const struct device_attention_state *state, float *out)
{
    if (rows->how->n_edge_column > 0) {
        cuda_attention_edges_forward(device, rows, state, out);
        return;
    }
    const struct cuda_attention a = cuda_attention_of(rows, false);
    const struct cuda_attention_grid on = cuda_attention_grid_of(device, rows, false);
    const struct forward_state to = {
        state->softmax, out, rows->how->score == DEVICE_SCORE_ADD ? state->positive : NULL, state->positive_weight};
    if (a.n_row == 0 || a.n_head == 0) {
        return;
    }
    switch (rows->how->score) {
    case DEVICE_SCORE_ADD:
        CUDA_BY_SHAPE(launch, DEVICE_SCORE_ADD, on.fours, a.n_column, on, a, to);
        break;
    case DEVICE_SCORE_MLP:
        CUDA_BY_SHAPE(launch, DEVICE_SCORE_MLP, on.fours, a.n_column, on, a, to);
        break;
    case DEVICE_SCORE_DOT:
        CUDA_BY_SHAPE(launch, DEVICE_SCORE_DOT, on.fours, a.n_column, on, a, to);
        break;
    case DEVICE_SCORE_COSINE:
        CUDA_BY_SHAPE(launch, DEVICE_SCORE_COSINE, on.fours, a.n_column, on, a, to);
        break;
    }
}
