/* Attention forward: state of a row and head while its edges come, m = -inf, s = 0, out = 0 before the first:
 *   m' = max(m, max_i e_i)    c = exp(m - m')    w_i = exp(e_i - m')
 *   s' = c s + Σ_i w_i        out' = c out + Σ_i μ_i w_i value_i
 * of some edges i at a time; of the score `add`, whose greatest e_i follows from the keys, of all edges of a row that
 * a block has (D89). In the last block rows are divided by s, as cuda_attention_finish does with others.
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
    if (SUMS::N_WIDE > 1 && to.positive != NULL) {
        columns_load<S>(a, to.positive + r.own * a.n_column, r.column, s.wide[SUMS::N_WIDE - 1]);
        s.narrow = to.positive_weight[r.own];
    }
    return s;
}

/* What is one number is written with the last columns, before which all others have begun from it. All lanes of
 * `mask` call it; writes: the sums are those of this lane's row. */
template <typename S, class SUMS>
static __device__ __forceinline__ void state_store(const struct cuda_attention &a, const struct forward_state &to,
                                                   const struct head_row &r, SUMS s, unsigned mask, bool writes)
{
    const float scale = a.last ? softmax_scale(s.norm) : 1.0F;
    float *const wide[] = {to.out, to.positive};
    for (int k = 0; k < SUMS::N_WIDE && writes && wide[k] != NULL; k++) {
        for (int i = 0; i < S::N; i++) {
            s.wide[k][i] *= scale;
        }
        columns_write<S>(a, s.wide[k], r.column, wide[k] + r.own * a.n_column);
    }
    __syncwarp(mask); /* all lanes have read it */
    if (writes && group_lane<S::LANES>() == 0 && r.column + S::COLUMNS >= (int)a.n_column) {
        const float2 end = {softmax_log_sum(s.row_max, s.norm), 0.0F}, state = {s.row_max, s.norm};
        vector_store(to.softmax + 2 * r.own, a.last ? end : state);
        if (SUMS::N_WIDE > 1 && to.positive != NULL) {
            to.positive_weight[r.own] = s.narrow * scale;
        }
    }
}

/* A greater row max scales the sums so far. */
template <typename S, class SUMS> static __device__ __forceinline__ void sums_scale(float row_max, SUMS *s)
{
    if (row_max != s->row_max) {
        const float scale = fixed_exp(s->row_max - row_max);
        s->row_max = row_max;
        s->norm *= scale;
        for (int i = 0; i < SUMS::N_WIDE * S::N; i++) {
            s->wide[i / S::N][i % S::N] *= scale;
        }
    }
}

/* --- scores that are products over columns --- */

template <int SCORE, typename S> struct forward : pass_base<sums<S, 1>> {
    using Shape = S;
    using To = forward_state;
    static constexpr int BLOCKS = 2;
    using Sums = sums<S, 1>;
    using Kept = kept_nothing;

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
                score[k] = edge[k].there ? attention_score<SCORE>(a, product[k], key[k]) : -CUDART_INF_F;
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
                const float weight = edge[k].there ? fixed_exp(score[k] - row_max) : 0.0F, by = weight * edge[k].mu;
                s->norm += weight;
                for (int i = 0; i < S::N; i++) {
                    s->wide[0][i] = fmaf(by, value[k][i], s->wide[0][i]);
                }
            }
        }
    };

    static __device__ __forceinline__ Sums start(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, bool empty)
    {
        return state_load<S, Sums>(a, to, r, empty);
    }

    static __device__ __forceinline__ void store(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, const Sums &s, Kept *)
    {
        state_store<S>(a, to, r, s, group_mask<S::LANES>(), true);
    }
};

/* --- add --- */

template <typename S> struct forward_add {
    using Shape = S;
    using To = forward_state;
    static constexpr bool SOURCES = false;
    static constexpr int LOOKS = 3; /* keys that a lane reads at a time */

    /* The greatest score is that of the greatest or, where leaky falls, of the least key. */
    static __device__ __forceinline__ float look(const struct cuda_attention &a, const struct far_ends &ends,
                                                 const edge_slice<S> &slice, float query, float key)
    {
        const int l = group_lane<S::LANES>();
        float greatest = key, least = key;
        ROLLED
        for (int at = S::LANES; at < slice.most; at += LOOKS * S::LANES) {
            for (int k = 0; k < LOOKS; k++) {
                const float other = end_read<false, true>(a, ends, slice.col(at + k * S::LANES + l)).number;
                greatest = fmaxf(greatest, other);
                least = fminf(least, other);
            }
        }
        greatest = group_max<S::LANES>(greatest, ALL_LANES);
        least = -group_max<S::LANES>(-least, ALL_LANES);
        return fmaxf(add_score(a, greatest + query), add_score(a, least + query));
    }

    static __device__ __forceinline__ sums<S, 2> before(const struct cuda_attention &a, const To &to,
                                                        const struct head_row &r)
    {
        return state_load<S, sums<S, 2>>(a, to, r, false);
    }

    static __device__ __forceinline__ void store(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, const sums<S, 2> &s, bool writes)
    {
        state_store<S>(a, to, r, s, ALL_LANES, writes);
    }
};

extern "C" void cuda_attention_forward(struct device *device, const struct device_attention_rows *rows,
                                       const struct device_attention_state *state, float *out)
{
    if (rows->how->n_edge_column > 0) {
        cuda_attention_edges_forward(device, rows, state, out);
        return;
    }
    const struct cuda_attention a = cuda_attention_make(rows, false);
    const struct cuda_attention_grid on = cuda_attention_grid_make(device, rows, false);
    const struct forward_state to = {
        state->softmax, out, rows->how->score == DEVICE_SCORE_ADD ? state->positive : NULL, state->positive_weight};
    if (a.n_row == 0 || a.n_head == 0) {
        return;
    }
    if (rows->how->score == DEVICE_SCORE_ADD) {
        add_launch<forward_add>(on, a, to);
    } else {
        pass_launch<forward>(rows->how->score, on, a, to, to);
    }
}
