/* Attention forward: state of a row and head while its edges come, m = -inf, s = 0, out = 0 before the first:
 *   m' = max(m, max_i e_i)    c = exp(m - m')    w_i = exp(e_i - m')
 *   s' = c s + Σ_i w_i        out' = c out + Σ_i μ_i w_i value_i
 * GAT in training has two sums more, over the edges with key + query > 0 alone (positive, positive_weight).
 *
 * source  Milakov & Gimelshein, arXiv 1805.02867 (online softmax)
 */
#include "models/cuda/attention/attention_pass.h"

#include <math.h>

/* Where a row's state is; positive NULL: not wanted. */
struct forward_state {
    float *softmax, *out, *positive, *positive_weight;
};

template <typename S>
static __device__ __forceinline__ void columns_load(const struct cuda_attention &a, const struct head_row &r,
                                                    const float *x, float to[S::N])
{
    for (int i = 0; i < S::N; i++) {
        const int c = lane_column<S>(r.column) + i / S::W * S::LANES * S::W + i % S::W;
        to[i] = c < (int)a.n_column ? x[r.own * a.n_column + c] : 0.0F;
    }
}

template <int SCORE, typename S> struct forward {
    using Shape = S;
    using To = forward_state;
    static constexpr int N_WIDE = SCORE == DEVICE_SCORE_ADD ? 2 : 1; /* sums of columns */
    using Sums = sums<S, N_WIDE>;
    struct Kept {
    };

    /* The row's own numbers: a query of columns, or of add one number. */
    struct Own {
        end_columns<S> query, att;
        float number;
        bool positive; /* sums over edges with key + query > 0 are wanted */
    };

    static __device__ __forceinline__ Own own_load(const struct cuda_attention &a, const To &to,
                                                   const struct head_row &r)
    {
        Own own = {};
        own.positive = to.positive != NULL;
        if (SCORE == DEVICE_SCORE_ADD) {
            own.number = a.target.query[r.own];
        } else {
            own.query.all = a.target.query + r.own * a.n_column;
            columns_read<S>(a, own.query.all, r.column, true, own.query.x);
        }
        if (SCORE == DEVICE_SCORE_MLP) {
            own.att.all = a.att + (int64_t)r.h * a.n_column;
            columns_read<S>(a, own.att.all, r.column, true, own.att.x);
        }
        return own;
    }

    /* Some edges' rows, and the numbers from which their scores are made. */
    struct Edges {
        static constexpr int AHEAD = S::AHEAD;
        struct edge edge[AHEAD];
        float value[AHEAD][S::N];
        float product[AHEAD], score[AHEAD];

        __device__ __forceinline__ void load(const struct cuda_attention &a, const struct head_row &r, const Own &own)
        {
            float key[AHEAD];
            for (int k = 0; k < AHEAD; k++) {
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
                    product[k] = lane_product<SCORE, S>(a, own.query, own.att, edge[k].there ? keys : NULL, far);
                } else if (SCORE != DEVICE_SCORE_ADD) {
                    product[k] = lane_product<SCORE, S>(a, own.query, own.att, edge[k].there ? values : NULL,
                                                        value[k]);
                }
            }
            for (int k = 0; k < AHEAD; k++) {
                product[k] = SCORE == DEVICE_SCORE_ADD ? key[k] + own.number : group_sum<S::LANES>(product[k]);
                score[k] = edge[k].there ? score_of<SCORE>(a, product[k], key[k]) : -CUDART_INF_F;
            }
        }

        /* One step of the softmax. */
        __device__ __forceinline__ void add(const struct cuda_attention &, const Own &own, Sums *s) const
        {
            float row_max = s->row_max;
            for (int k = 0; k < AHEAD; k++) {
                row_max = fmaxf(row_max, score[k]);
            }
            if (row_max != s->row_max) {
                const float scale = exp_of(s->row_max - row_max);
                s->row_max = row_max;
                s->norm *= scale;
                s->narrow *= scale;
                for (int i = 0; i < N_WIDE * S::N; i++) {
                    s->wide[i / S::N][i % S::N] *= scale;
                }
            }
            for (int k = 0; k < AHEAD; k++) {
                const float weight = edge[k].there ? exp_of(score[k] - row_max) : 0.0F, by = weight * edge[k].mu;
                const bool is_positive = SCORE == DEVICE_SCORE_ADD && own.positive && product[k] > 0.0F;
                s->norm += weight;
                s->narrow += is_positive ? weight : 0.0F;
                for (int i = 0; i < S::N; i++) {
                    s->wide[0][i] = fmaf(by, value[k][i], s->wide[0][i]);
                    if (is_positive) {
                        s->wide[N_WIDE - 1][i] = fmaf(by, value[k][i], s->wide[N_WIDE - 1][i]);
                    }
                }
            }
        }
    };

    static __device__ __forceinline__ Sums start(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, bool empty)
    {
        Sums s(-CUDART_INF_F);
        if (empty) {
            return s;
        }
        s.row_max = to.softmax[2 * r.own];
        s.norm = to.softmax[2 * r.own + 1];
        columns_load<S>(a, r, to.out, s.wide[0]);
        if (SCORE == DEVICE_SCORE_ADD && to.positive != NULL) {
            columns_load<S>(a, r, to.positive, s.wide[N_WIDE - 1]);
            s.narrow = to.positive_weight[r.own];
        }
        return s;
    }

    /* What is one number is written with the last columns, before which all others have begun from it. */
    static __device__ __forceinline__ void store(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, const Sums &s, Kept *)
    {
        const bool positive = SCORE == DEVICE_SCORE_ADD && to.positive != NULL;
        columns_write<S>(a, s.wide[0], r.column, to.out + r.own * a.n_column);
        if (positive) {
            columns_write<S>(a, s.wide[N_WIDE - 1], r.column, to.positive + r.own * a.n_column);
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

    static __device__ __forceinline__ void finish(const struct cuda_attention &, const To &, int64_t, int, int,
                                                  const Kept &)
    {
    }
};

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
    pass_launch<forward, true>(rows->how->score, on, a, to, to);
}
