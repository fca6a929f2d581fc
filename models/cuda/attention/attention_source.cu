/* Gradients of rows as sources, from their out-edges:
 *   g_ij = ⟨grad_out_i, value_j⟩   α_ij = exp(e_ij - L_i)   de_ij = α_ij (μ_ij g_ij - D_i)
 *   grad_value_j = Σ_i μ α grad_out_i  and of
 *   add      grad_key_j = Σ_i de · leaky'(x), x = key_j + query_i: as value_j is the row's own,
 *            = ⟨value_j, Σ_i leaky'(x) μ α grad_out_i⟩ - Σ_i leaky'(x) α D_i
 *   mlp      grad_value_jc += Σ_i de · att_c · leaky'(x_c), x = value_j + query_i
 *   dot      grad_key_j = Σ_i scale · de · query_i
 *   cosine   grad_key_j = Σ_i de · x, x = ⟨value_j, query_i⟩ · grad_value_j += Σ_i key_j · de · query_i
 */
#include "models/cuda/attention/attention_add.h"

/* Where gradients go; key as the source's. */
struct source_gradients {
    float *value, *key;
};

template <int SCORE, typename S> struct source : pass_base<sums<S, SCORE == DEVICE_SCORE_DOT ? 2 : 1>> {
    using Shape = S;
    using To = source_gradients;
    /* Sums of columns: grad_value, and of dot grad_key. */
    static constexpr int N_WIDE = SCORE == DEVICE_SCORE_DOT ? 2 : 1;
    using Sums = sums<S, N_WIDE>;
    static constexpr int BLOCKS = 2;
    using Kept = kept_nothing;

    /* The row's own numbers; mine: what the score reads of it, where that is a row. */
    struct Own {
        end_columns<S> value, keys, att;
        float key;
    };

    template <bool ALIGNED>
    static __device__ __forceinline__ Own own_load(const struct cuda_attention &a, const To &,
                                                   const struct head_row &r)
    {
        Own own;
        own.value.all = a.source.value + r.own * a.n_column;
        columns_read<S, ALIGNED>(a, own.value.all, r.column, true, own.value.x);
        own.att.all = own.keys.all = NULL;
        own.key = 0.0F;
        if (SCORE == DEVICE_SCORE_MLP) {
            own.att.all = a.att + (int64_t)r.h * a.n_column;
            columns_read<S, ALIGNED>(a, own.att.all, r.column, true, own.att.x);
        } else if (SCORE == DEVICE_SCORE_DOT) {
            own.keys.all = a.source.key + r.own * a.n_column;
            columns_read<S, ALIGNED>(a, own.keys.all, r.column, true, own.keys.x);
        } else {
            own.key = a.source.key[r.own];
        }
        return own;
    }

    /* Some edges' rows at their destinations: gradients, and queries but of add. */
    struct Edges {
        static constexpr int AHEAD = 2;
        struct edge edge[AHEAD];
        float grad_out[AHEAD][S::N], query[AHEAD][S::N];
        float product[AHEAD], g[AHEAD], log_sum[AHEAD], d[AHEAD];

        template <bool ALIGNED>
        __device__ __forceinline__ void load(const struct cuda_attention &a, const struct head_row &r, const Own &own)
        {
            for (int k = 0; k < AHEAD; k++) {
                const struct device_attention_target &from = edge[k].is_self ? a.self_target : a.target;
                const bool there = edge[k].there;
                const float *grads = there ? from.grad_out + edge[k].head * a.n_column : NULL;
                columns_read<S, ALIGNED>(a, grads, r.column, there, grad_out[k]);
                log_sum[k] = there ? __ldg(from.softmax + 2 * edge[k].head) : 0.0F;
                d[k] = there ? __ldg(from.softmax + 2 * edge[k].head + 1) : 0.0F;
                const float *queries = there ? from.query + edge[k].head * a.n_column : NULL;
                const end_columns<S> &mine = SCORE == DEVICE_SCORE_DOT ? own.keys : own.value;
                columns_read<S, ALIGNED>(a, queries, r.column, there, query[k]);
                product[k] = lane_product<SCORE, S>(a, mine, own.att, queries, query[k]);
                g[k] = lane_product<DEVICE_SCORE_DOT, S>(a, own.value, own.att, grads, grad_out[k]);
            }
            for (int k = 0; k < AHEAD; k++) {
                product[k] = group_sum<S::LANES>(product[k]);
                g[k] = group_sum<S::LANES>(g[k]);
            }
        }

        __device__ __forceinline__ void add(const struct cuda_attention &a, const Own &own, Sums *s) const
        {
            for (int k = 0; k < AHEAD; k++) {
                const float alpha = edge[k].there
                                        ? fixed_exp(attention_score<SCORE>(a, product[k], own.key) - log_sum[k])
                                        : 0.0F;
                const float weight = edge[k].mu * alpha, de = alpha * fmaf(d[k], -1.0F, edge[k].mu * g[k]);
                const float by = SCORE == DEVICE_SCORE_DOT      ? de * a.scale
                                 : SCORE == DEVICE_SCORE_COSINE ? de * own.key
                                                                : de;
                s->narrow += SCORE == DEVICE_SCORE_COSINE ? de * product[k] : 0.0F;
                for (int i = 0; i < S::N; i++) {
                    const float far = query[k][i];
                    s->wide[0][i] = fmaf(weight, grad_out[k][i], s->wide[0][i]);
                    if (SCORE == DEVICE_SCORE_MLP) {
                        s->wide[0][i] = fmaf(own.att.x[i] * leaky_slope(own.value.x[i] + far, a.slope), by,
                                             s->wide[0][i]);
                    } else { /* dot's grad_key, cosine's grad_value */
                        s->wide[N_WIDE - 1][i] = fmaf(by, far, s->wide[N_WIDE - 1][i]);
                    }
                }
            }
        }
    };

    static __device__ __forceinline__ void store(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, const Sums &s, Kept *)
    {
        row_add<S>(a, r, s.wide[0], to.value);
        if (SCORE == DEVICE_SCORE_DOT) {
            row_add<S>(a, r, s.wide[N_WIDE - 1], to.key);
        } else if (SCORE != DEVICE_SCORE_MLP && r.column == 0 && group_lane<S::LANES>() == 0) {
            to.key[r.own] = a.begin ? s.narrow : to.key[r.own] + s.narrow;
        }
    }
};

template <typename S> struct source_add {
    using Shape = S;
    using To = source_gradients;
    static constexpr bool SOURCES = true;

    /* grad_key: D's share is added with the first columns. */
    static __device__ __forceinline__ void store(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, const sums<S, 2> &s, bool writes)
    {
        const double slope = (double)a.slope;
        float value[S::N];
        double product = 0.0;
        columns_load<S>(a, a.source.value + r.own * a.n_column, r.column, value);
        for (int i = 0; i < S::N; i++) {
            const double all = (double)s.wide[0][i], positive = (double)s.wide[1][i];
            product += (slope * all + (1.0 - slope) * positive) * (double)value[i];
        }
        product = group_sum<S::LANES>(product, ALL_LANES);
        if (writes) {
            row_add<S>(a, r, s.wide[0], to.value);
        }
        if (writes && group_lane<S::LANES>() == 0) {
            const bool first = r.column == 0;
            const float grad = (float)(first ? product - (double)s.narrow : product);
            to.key[r.own] = a.begin && first ? grad : to.key[r.own] + grad;
        }
    }
};

extern "C" void cuda_attention_backward_source(struct device *device, const struct device_attention_rows *rows,
                                               float *grad_value, float *grad_key)
{
    if (rows->how->n_edge_column > 0) {
        cuda_attention_edges_source(device, rows, grad_value, grad_key);
        return;
    }
    const struct cuda_attention a = cuda_attention_make(rows, true);
    const struct cuda_attention_grid on = cuda_attention_grid_make(device, rows, false);
    const struct source_gradients to = {grad_value, grad_key};
    if (rows->how->score == DEVICE_SCORE_ADD) {
        add_launch<source_add>(on, a, to);
    } else {
        pass_launch<source>(rows->how->score, on, a, to, to);
    }
}
