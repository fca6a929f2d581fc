/* Attention forward: state of a row and head while its edges come, m = -inf, s = 0, out = 0 before the first:
 *   m' = max(m, max_i e_i)    c = exp(m - m')    w_i = exp(e_i - m')
 *   s' = c s + Σ_i w_i        out' = c out + Σ_i μ_i w_i value_i
 * GAT in training has two sums more, over the edges with key + query > 0 alone (positive, positive_weight).
 *
 * source  Milakov & Gimelshein, arXiv 1805.02867 (online softmax)
 */
#include "models/cuda/attention/attention_add.h"

#include <math.h>

/* Where a row's state is; positive NULL: not wanted. */
struct forward_state {
    float *softmax, *out, *positive, *positive_weight;
};

/* --- what all scores share --- */

/* The sums that blocks before have left; empty: none have. */
template <typename S, class SUMS>
static __device__ __forceinline__ SUMS state_load(const struct cuda_attention &a, const struct forward_state &to,
                                                  const struct head_row &r, bool empty)
{
    SUMS s(-CUDART_INF_F);
    if (empty) {
        return s;
    }
    s.row_max = to.softmax[2 * r.own];
    s.norm = to.softmax[2 * r.own + 1];
    columns_load<S>(a, to.out + r.own * a.n_column, r.column, s.wide[0]);
    return s;
}

/* What is one number is written with the last columns, before which all others have begun from it. */
template <typename S, class SUMS>
static __device__ __forceinline__ void state_store(const struct cuda_attention &a, const struct forward_state &to,
                                                   const struct head_row &r, const SUMS &s)
{
    columns_write<S>(a, s.wide[0], r.column, to.out + r.own * a.n_column);
    __syncwarp(group_mask<S::LANES>()); /* all lanes have read it */
    if (group_lane<S::LANES>() == 0 && r.column + S::COLUMNS >= (int)a.n_column) {
        to.softmax[2 * r.own] = s.row_max;
        to.softmax[2 * r.own + 1] = s.norm;
    }
}

/* A greater row max scales the sums so far. */
template <typename S, class SUMS> static __device__ __forceinline__ void sums_scale(float row_max, SUMS *s)
{
    if (row_max != s->row_max) {
        const float scale = exp_of(s->row_max - row_max);
        s->row_max = row_max;
        s->norm *= scale;
        s->narrow *= scale;
        for (int i = 0; i < SUMS::N_WIDE * S::N; i++) {
            s->wide[i / S::N][i % S::N] *= scale;
        }
    }
}

/* --- scores that are products over columns --- */

template <int SCORE, typename S> struct forward {
    using Shape = S;
    using To = forward_state;
    static constexpr int BLOCKS = 2;
    using Sums = sums<S, 1>;
    struct Kept {
    };

    /* The row's own numbers. */
    struct Own {
        end_columns<S> query, att;
    };

    template <bool ALIGNED>
    static __device__ __forceinline__ Own own_load(const struct cuda_attention &a, const To &,
                                                   const struct head_row &r)
    {
        Own own = {};
        own.query.all = a.target.query + r.own * a.n_column;
        columns_read<S, ALIGNED>(a, own.query.all, r.column, true, own.query.x);
        if (SCORE == DEVICE_SCORE_MLP) {
            own.att.all = a.att + (int64_t)r.h * a.n_column;
            columns_read<S, ALIGNED>(a, own.att.all, r.column, true, own.att.x);
        }
        return own;
    }

    /* Some edges' rows, and the numbers from which their scores are made. */
    struct Edges {
        static constexpr int AHEAD = S::AHEAD;
        struct edge edge[AHEAD];
        float value[AHEAD][S::N];
        float product[AHEAD], score[AHEAD];

        template <bool ALIGNED>
        __device__ __forceinline__ void load(const struct cuda_attention &a, const struct head_row &r, const Own &own)
        {
            float key[AHEAD];
            for (int k = 0; k < AHEAD; k++) {
                const struct device_attention_source &from = edge[k].is_self ? a.self_source : a.source;
                const float *values = from.value + edge[k].head * a.n_column, *keys = NULL;
                columns_read<S, ALIGNED>(a, values, r.column, edge[k].there, value[k]);
                key[k] = SCORE == DEVICE_SCORE_COSINE && edge[k].there ? __ldg(from.key + edge[k].head) : 0.0F;
                if (SCORE == DEVICE_SCORE_DOT) {
                    float far[S::N];
                    keys = from.key + edge[k].head * a.n_column;
                    columns_read<S, ALIGNED>(a, keys, r.column, edge[k].there, far);
                    product[k] = lane_product<SCORE, S>(a, own.query, own.att, edge[k].there ? keys : NULL, far);
                } else {
                    product[k] = lane_product<SCORE, S>(a, own.query, own.att, edge[k].there ? values : NULL,
                                                        value[k]);
                }
            }
            for (int k = 0; k < AHEAD; k++) {
                product[k] = group_sum<S::LANES>(product[k]);
                score[k] = edge[k].there ? score_of<SCORE>(a, product[k], key[k]) : -CUDART_INF_F;
            }
        }

        /* One step of the softmax. */
        __device__ __forceinline__ void add(const struct cuda_attention &, const Own &, Sums *s) const
        {
            float row_max = s->row_max;
            for (int k = 0; k < AHEAD; k++) {
                row_max = fmaxf(row_max, score[k]);
            }
            sums_scale<S>(row_max, s);
            for (int k = 0; k < AHEAD; k++) {
                const float weight = edge[k].there ? exp_of(score[k] - row_max) : 0.0F, by = weight * edge[k].mu;
                s->norm += weight;
                for (int i = 0; i < S::N; i++) {
                    s->wide[0][i] = fmaf(by, value[k][i], s->wide[0][i]);
                }
            }
        }
    };

    template <bool ALIGNED>
    static __device__ __forceinline__ void walk(const struct cuda_attention &a, const To &to,
                                                const struct head_row &r, int64_t begin, int64_t end, Sums *s)
    {
        edges_walk<forward, ALIGNED>(a, to, r, begin, end, s);
    }

    static __device__ __forceinline__ Sums start(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, bool empty)
    {
        return state_load<S, Sums>(a, to, r, empty);
    }

    static __device__ __forceinline__ void store(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, const Sums &s, Kept *)
    {
        state_store<S>(a, to, r, s);
    }

    static __device__ __forceinline__ void finish(const struct cuda_attention &, const To &, int64_t, int, int,
                                                  const Kept &)
    {
    }
};

/* --- add --- */

template <typename S> struct forward<DEVICE_SCORE_ADD, S> {
    using Shape = S;
    using To = forward_state;
    static constexpr int BLOCKS = S::VECTORS > 1 ? 2 : 3;
    using Sums = sums<S, 2>; /* over all edges, and over the positive ones */
    struct Kept {
    };
    using Own = float; /* the query */
    using Far = float; /* the key */

    static __device__ __forceinline__ Own own_load(const struct cuda_attention &a, const To &,
                                                   const struct head_row &r)
    {
        return a.target.query[r.own];
    }

    template <bool> static __device__ __forceinline__ Far far(const struct cuda_attention &a, int64_t head)
    {
        return __ldg(a.source.key + head);
    }

    static __device__ __forceinline__ float weigh(const struct cuda_attention &a, Own query, Far key, bool there,
                                                  bool kept, Sums *s)
    {
        const float x = key + query, score = there ? score_of<DEVICE_SCORE_ADD>(a, x, 0.0F) : -CUDART_INF_F;
        sums_scale<S>(fmaxf(s->row_max, group_max<S::LANES>(score)), s);
        const float weight = there ? exp_of(score - s->row_max) : 0.0F;
        s->norm += weight;
        s->narrow += x > 0.0F ? weight : 0.0F;
        return weight_signed(kept ? weight * a.drop.keep_scale : 0.0F, x > 0.0F);
    }

    /* The first edge, to itself: a softmax of one. */
    template <bool ALIGNED>
    static __device__ __forceinline__ void self_add(const struct cuda_attention &a, const To &to,
                                                    const struct head_row &r, Sums *s)
    {
        const float x = __ldg(a.self_source.key + r.own) + a.target.query[r.own];
        const bool kept = a.drop.threshold == 0 || edge_is_kept(a, r, (uint32_t)r.row, true), positive = x > 0.0F;
        float value[S::N];
        columns_read<S, ALIGNED>(a, a.self_source.value + r.own * a.n_column, r.column, true, value);
        s->row_max = score_of<DEVICE_SCORE_ADD>(a, x, 0.0F);
        s->norm = group_lane<S::LANES>() == 0 ? 1.0F + 0.0F * s->row_max : 0.0F; /* not a number stays one */
        s->narrow = positive ? s->norm : 0.0F;
        weighted_add<S>(weight_signed(kept ? a.drop.keep_scale : 0.0F, positive), to.positive != NULL, value, s);
    }

    template <bool ALIGNED>
    static __device__ __forceinline__ void walk(const struct cuda_attention &a, const To &to,
                                                const struct head_row &r, int64_t begin, int64_t end, Sums *s)
    {
        if (begin < r.begin) {
            self_add<ALIGNED>(a, to, r, s);
        }
        lanes_walk<forward, ALIGNED>(a, to, r, begin < r.begin ? r.begin : begin, end, a.source.value,
                                     to.positive != NULL, s);
        s->norm = group_sum<S::LANES>(s->norm);
        s->narrow = group_sum<S::LANES>(s->narrow);
    }

    /* The first lane has what is one number. */
    static __device__ __forceinline__ Sums start(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, bool empty)
    {
        const bool first = group_lane<S::LANES>() == 0;
        Sums s = state_load<S, Sums>(a, to, r, empty);
        s.norm = first ? s.norm : 0.0F;
        if (!empty && to.positive != NULL) {
            columns_load<S>(a, to.positive + r.own * a.n_column, r.column, s.wide[1]);
            s.narrow = first ? to.positive_weight[r.own] : 0.0F;
        }
        return s;
    }

    static __device__ __forceinline__ void store(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, const Sums &s, Kept *)
    {
        state_store<S>(a, to, r, s);
        if (to.positive != NULL) {
            columns_write<S>(a, s.wide[1], r.column, to.positive + r.own * a.n_column);
            if (group_lane<S::LANES>() == 0 && r.column + S::COLUMNS >= (int)a.n_column) {
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
