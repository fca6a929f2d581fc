/* Gradients of an attention's queries, from in-edges (of add no edge is needed, unless edges have features:
 * attention_edges.cu), and of mlp's att:
 *   g_ij = ⟨grad_out_i, value_j⟩   α_ij = exp(e_ij - L_i)   de_ij = α_ij (μ_ij g_ij - D_i), the gradient of e_ij
 *   mlp      grad_query_ic = Σ_j de · att_c · leaky'(x_c)    grad_att_c = Σ_ij de · leaky(x_c), x = value_j + query_i
 *   dot      grad_query_i = Σ_j scale · de · key_j
 *   cosine   grad_query_i = Σ_j key_j · de · value_j
 *
 * source  Dao et al., NeurIPS 2022 (D)
 */
#include "models/cuda/attention/attention_pass.h"

/* Where gradients go. Of att each range of rows and each share of the long ones has a sum of its own, n_head ·
 * n_column doubles. */
struct query_gradients {
    float *query;
    double *att; /* NULL: not wanted */
};

template <int SCORE, typename S> struct query : pass_base<sums<S, SCORE == DEVICE_SCORE_MLP ? 2 : 1>> {
    using Shape = S;
    using To = query_gradients;
    /* Sums of columns: grad_query, and of mlp a row's share of grad_att. */
    static constexpr int N_WIDE = SCORE == DEVICE_SCORE_MLP ? 2 : 1;
    using Sums = sums<S, N_WIDE>;
    static constexpr int BLOCKS = 2;
    struct Kept {
        double att[S::N];
    };

    /* The row's own numbers. */
    struct Own {
        end_columns<S> query, att, grad_out;
        float log_sum, d; /* L, D */
    };

    template <bool ALIGNED>
    static __device__ __forceinline__ Own own_load(const struct cuda_attention &a, const To &,
                                                   const struct head_row &r)
    {
        Own own;
        own.query.all = a.target.query + r.own * a.n_column;
        own.grad_out.all = a.target.grad_out + r.own * a.n_column;
        columns_read<S, ALIGNED>(a, own.query.all, r.column, true, own.query.x);
        columns_read<S, ALIGNED>(a, own.grad_out.all, r.column, true, own.grad_out.x);
        own.att.all = NULL;
        if (SCORE == DEVICE_SCORE_MLP) {
            own.att.all = a.att + (int64_t)r.h * a.n_column;
            columns_read<S, ALIGNED>(a, own.att.all, r.column, true, own.att.x);
        }
        own.log_sum = a.target.softmax[2 * r.own];
        own.d = a.target.softmax[2 * r.own + 1];
        return own;
    }

    /* Some edges' rows: values, and of dot keys. */
    struct Edges {
        static constexpr int AHEAD = SCORE == DEVICE_SCORE_MLP && S::N > 4 ? 1
                                                                           : 2; /* two would not fit the registers */
        struct edge edge[AHEAD];
        float value[AHEAD][S::N], keys[SCORE == DEVICE_SCORE_DOT ? AHEAD : 1][S::N];
        float key[AHEAD], product[AHEAD], g[AHEAD];

        template <bool ALIGNED>
        __device__ __forceinline__ void load(const struct cuda_attention &a, const struct head_row &r, const Own &own)
        {
            const end_columns<S> &att = own.att;
            for (int k = 0; k < AHEAD; k++) {
                const struct device_attention_source &from = edge[k].is_self ? a.self_source : a.source;
                const float *values = edge[k].there ? from.value + edge[k].head * a.n_column : NULL;
                columns_read<S, ALIGNED>(a, values, r.column, edge[k].there, value[k]);
                key[k] = 0.0F;
                if (SCORE == DEVICE_SCORE_DOT) {
                    const float *all = edge[k].there ? from.key + edge[k].head * a.n_column : NULL;
                    columns_read<S, ALIGNED>(a, all, r.column, edge[k].there, keys[k]);
                    product[k] = lane_product<SCORE, S>(a, own.query, att, all, keys[k]);
                } else {
                    product[k] = lane_product<SCORE, S>(a, own.query, att, values, value[k]);
                }
                if (SCORE == DEVICE_SCORE_COSINE) {
                    key[k] = edge[k].there ? __ldg(from.key + edge[k].head) : 0.0F;
                }
                g[k] = lane_product<DEVICE_SCORE_DOT, S>(a, own.grad_out, att, values, value[k]);
            }
            for (int k = 0; k < AHEAD; k++) {
                product[k] = group_sum<S::LANES>(product[k]);
                g[k] = group_sum<S::LANES>(g[k]);
            }
        }

        __device__ __forceinline__ void add(const struct cuda_attention &a, const Own &own, Sums *s) const
        {
            for (int k = 0; k < AHEAD; k++) {
                const float alpha = fixed_exp(attention_score<SCORE>(a, product[k], key[k]) - own.log_sum);
                const float rest = fmaf(own.d, -1.0F, edge[k].mu * g[k]), de = edge[k].there ? alpha * rest : 0.0F;
                const float by = SCORE == DEVICE_SCORE_DOT      ? de * a.scale
                                 : SCORE == DEVICE_SCORE_COSINE ? de * key[k]
                                                                : de;
                for (int i = 0; i < S::N; i++) {
                    if (SCORE == DEVICE_SCORE_MLP) {
                        const float x = own.query.x[i] + value[k][i], slope = leaky_slope(x, a.slope);
                        s->wide[0][i] = fmaf(own.att.x[i] * slope, by, s->wide[0][i]);
                        s->wide[N_WIDE - 1][i] = fmaf(x * slope, by, s->wide[N_WIDE - 1][i]);
                    } else {
                        const float x = SCORE == DEVICE_SCORE_DOT ? keys[SCORE == DEVICE_SCORE_DOT ? k : 0][i]
                                                                  : value[k][i];
                        s->wide[0][i] = fmaf(by, x, s->wide[0][i]);
                    }
                }
            }
        }
    };

    /* grad_query (+)= the row's sum; att += its share. */
    static __device__ __forceinline__ void store(const struct cuda_attention &a, const To &to,
                                                 const struct head_row &r, const Sums &s, Kept *kept)
    {
        row_add<S>(a, r, s.wide[0], to.query);
        for (int i = 0; i < S::N; i++) {
            kept->att[i] += SCORE == DEVICE_SCORE_MLP ? (double)s.wide[N_WIDE - 1][i] : 0.0;
        }
    }

    static __device__ __forceinline__ void finish(const struct cuda_attention &a, const To &to, int64_t part, int h,
                                                  int column, const Kept &kept)
    {
        if (SCORE == DEVICE_SCORE_MLP && to.att != NULL) {
            for (int i = 0; i < S::N; i++) {
                const int c = lane_column<S>(column) + i / S::W * S::LANES * S::W + i % S::W;
                if (c < (int)a.n_column) {
                    to.att[(part * a.n_head + h) * a.n_column + c] = kept.att[i];
                }
            }
        }
    }
};

extern "C" void cuda_attention_backward_query(struct device *device, const struct device_attention_rows *rows,
                                              void *scratch, float *grad_query, float *grad_att, float *grad_edge)
{
    if (rows->how->n_edge_column > 0) {
        cuda_attention_edges_query(device, rows, scratch, grad_query, grad_att, grad_edge);
        return;
    }
    const struct cuda_attention a = cuda_attention_make(rows, false);
    const struct cuda_attention_grid on = cuda_attention_grid_make(device, rows, grad_att != NULL);
    const struct query_gradients to = {grad_query, grad_att != NULL ? (double *)scratch : NULL};
    const int64_t width = (int64_t)a.n_head * a.n_column;
    struct query_gradients shares = to;
    if (to.att != NULL) {
        shares.att += on.n_range * width;
    }
    if (rows->how->score != DEVICE_SCORE_ADD) { /* of add backward_begin has done it */
        pass_launch<query>(rows->how->score, on, a, to, shares);
    }
    if (grad_att != NULL) {
        cuda_attention_parts_add(on.stream, on.n_range + on.n_share, width, to.att, rows->begin, grad_att);
    }
}
