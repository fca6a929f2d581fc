/* Gradients of rows as sources, from their out-edges:
 *   g_ij = ⟨grad_out_i, value_j⟩   α_ij = exp(e_ij - L_i)   de_ij = α_ij (μ_ij g_ij - D_i)
 *   grad_value_j = Σ_i μ α grad_out_i  and of
 *   add      grad_key_j = Σ_i de · leaky'(x), x = key_j + query_i
 *   mlp      grad_value_jc += Σ_i de · att_c · leaky'(x_c), x = value_j + query_i
 *   dot      grad_key_j = Σ_i scale · de · query_i
 *   cosine   grad_key_j = Σ_i de · x, x = ⟨value_j, query_i⟩ · grad_value_j += Σ_i key_j · de · query_i
 */
#include "models/cuda/attention/attention.h"

/* Where gradients go; key as the source's. */
struct source_gradients {
    float *value, *key;
};

/* Sums of columns: grad_value, and of dot grad_key. */
template <int SCORE> constexpr int n_wide = SCORE == DEVICE_SCORE_DOT ? 2 : 1;

template <int SCORE, typename S> using source_sums = sums<S, n_wide<SCORE>>;

/* The row's own numbers; mine: what the score reads of it, where that is a row. */
template <typename S> struct own_source {
    end_columns<S> value, keys, att;
    float key;
};

template <int SCORE, typename S>
static __device__ __forceinline__ void own_load(const struct cuda_attention &a, const struct head_row &r,
                                                own_source<S> *own)
{
    own->value.all = a.source.value + r.own * a.n_column;
    columns_read<S>(a, own->value.all, r.column, true, own->value.x);
    own->att.all = own->keys.all = NULL;
    own->key = 0.0F;
    if (SCORE == DEVICE_SCORE_MLP) {
        own->att.all = a.att + (int64_t)r.h * a.n_column;
        columns_read<S>(a, own->att.all, r.column, true, own->att.x);
    } else if (SCORE == DEVICE_SCORE_DOT) {
        own->keys.all = a.source.key + r.own * a.n_column;
        columns_read<S>(a, own->keys.all, r.column, true, own->keys.x);
    } else {
        own->key = a.source.key[r.own];
    }
}

/* Some edges' rows at their destinations: gradients, and queries but of add. */
template <int SCORE, typename S> struct some_edges {
    static constexpr int AHEAD = SCORE == DEVICE_SCORE_ADD ? S::AHEAD : 2;
    struct edge edge[AHEAD];
    float grad_out[AHEAD][S::N], query[SCORE == DEVICE_SCORE_ADD ? 1 : AHEAD][S::N];
    float product[AHEAD], g[AHEAD], log_sum[AHEAD], d[AHEAD];

    __device__ __forceinline__ void load(const struct cuda_attention &a, const struct head_row &r,
                                         const own_source<S> &own)
    {
        for (int k = 0; k < AHEAD; k++) {
            const struct device_attention_target &from = edge[k].is_self ? a.self_target : a.target;
            const bool there = edge[k].there;
            const float *grads = there ? from.grad_out + edge[k].head * a.n_column : NULL;
            columns_read<S>(a, grads, r.column, there, grad_out[k]);
            log_sum[k] = there ? __ldg(from.softmax + 2 * edge[k].head) : 0.0F;
            d[k] = there ? __ldg(from.softmax + 2 * edge[k].head + 1) : 0.0F;
            if (SCORE == DEVICE_SCORE_ADD) {
                product[k] = there ? own.key + __ldg(from.query + edge[k].head) : 0.0F;
            } else {
                const int at = SCORE == DEVICE_SCORE_ADD ? 0 : k;
                const float *queries = there ? from.query + edge[k].head * a.n_column : NULL;
                const end_columns<S> &mine = SCORE == DEVICE_SCORE_DOT ? own.keys : own.value;
                columns_read<S>(a, queries, r.column, there, query[at]);
                product[k] = lane_product<SCORE, S>(a, mine, own.att, queries, query[at]);
            }
            g[k] = lane_product<DEVICE_SCORE_DOT, S>(a, own.value, own.att, grads, grad_out[k]);
        }
        for (int k = 0; k < AHEAD; k++) {
            product[k] = SCORE == DEVICE_SCORE_ADD ? product[k] : group_sum<S::LANES>(product[k]);
            g[k] = group_sum<S::LANES>(g[k]);
        }
    }

    __device__ __forceinline__ void add(const struct cuda_attention &a, const own_source<S> &own,
                                        source_sums<SCORE, S> *s) const
    {
        for (int k = 0; k < AHEAD; k++) {
            const float alpha = edge[k].there ? exp_of(score_of<SCORE>(a, product[k], own.key) - log_sum[k]) : 0.0F;
            const float weight = edge[k].mu * alpha, de = alpha * fmaf(d[k], -1.0F, edge[k].mu * g[k]);
            const float by = SCORE == DEVICE_SCORE_DOT      ? de * a.scale
                             : SCORE == DEVICE_SCORE_COSINE ? de * own.key
                                                            : de;
            s->narrow += SCORE == DEVICE_SCORE_ADD      ? de * leaky_slope(product[k], a.slope)
                         : SCORE == DEVICE_SCORE_COSINE ? de * product[k]
                                                        : 0.0F;
            for (int i = 0; i < S::N; i++) {
                const float far = query[SCORE == DEVICE_SCORE_ADD ? 0 : k][i];
                s->wide[0][i] = fmaf(weight, grad_out[k][i], s->wide[0][i]);
                if (SCORE == DEVICE_SCORE_MLP) {
                    s->wide[0][i] = fmaf(own.att.x[i] * leaky_slope(own.value.x[i] + far, a.slope), by,
                                         s->wide[0][i]);
                } else if (SCORE != DEVICE_SCORE_ADD) { /* dot's grad_key, cosine's grad_value */
                    s->wide[n_wide<SCORE> - 1][i] = fmaf(by, far, s->wide[n_wide<SCORE> - 1][i]);
                }
            }
        }
    }
};

template <int SCORE, typename S>
static __device__ __forceinline__ void edges_backward(const struct cuda_attention &a, const struct head_row &r,
                                                      int64_t begin, int64_t end, source_sums<SCORE, S> *s)
{
    own_source<S> own;
    own_load<SCORE, S>(a, r, &own);
    for (int64_t at = begin; at < end; at += S::LANES) {
        const struct batch batch = batch_load<S::LANES>(a, r, at, end);
        for (int k = 0; k < batch.n; k += some_edges<SCORE, S>::AHEAD) {
            some_edges<SCORE, S> edges;
            for (int i = 0; i < some_edges<SCORE, S>::AHEAD; i++) {
                edges.edge[i] = edge_of<S::LANES>(a, r, batch, at, k + i);
            }
            edges.load(a, r, own);
            edges.add(a, own, s);
        }
    }
}

/* x (+)= the row's sum over columns. */
template <typename S>
static __device__ __forceinline__ void columns_add(const struct cuda_attention &a, const struct head_row &r,
                                                   const float sum[S::N], float *x)
{
    for (int i = 0; i < S::N; i++) {
        const int c = lane_column<S>(r.column) + i / S::W * S::LANES * S::W + i % S::W;
        float *to = x + r.own * a.n_column + c;
        if (c < (int)a.n_column) {
            *to = a.begin ? sum[i] : *to + sum[i];
        }
    }
}

template <int SCORE, typename S>
static __device__ __forceinline__ void sums_store(const struct cuda_attention &a, const struct head_row &r,
                                                  const source_sums<SCORE, S> &s, const struct source_gradients &to)
{
    columns_add<S>(a, r, s.wide[0], to.value);
    if (SCORE == DEVICE_SCORE_DOT) {
        columns_add<S>(a, r, s.wide[n_wide<SCORE> - 1], to.key);
    } else if (SCORE != DEVICE_SCORE_MLP && r.column == 0 && group_lane<S::LANES>() == 0) {
        to.key[r.own] = a.begin ? s.narrow : to.key[r.own] + s.narrow;
    }
}

template <int SCORE, typename S>
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
    source_rows(const struct cuda_attention a, const struct source_gradients to)
{
    for (int64_t i = grid_group<S::LANES>(); i < a.n_row * a.n_head; i += grid_groups<S::LANES>()) {
        int h;
        const int64_t row = divide(i, (int)a.n_head, &h);
        struct head_row r = head_row_of(a, row, h);
        if (r.end - r.begin > a.n_most) {
            continue;
        }
        for (; r.column < (int)a.n_column; r.column += S::COLUMNS) {
            source_sums<SCORE, S> s(0.0F);
            edges_backward<SCORE, S>(a, r, r.first, r.end, &s);
            sums_store<SCORE, S>(a, r, s, to);
        }
    }
}

/* Long rows: the groups of a block take a slice of the edges each. */
template <int SCORE, typename S>
__global__ void __launch_bounds__(S::GROUPS *S::LANES, 1)
    source_long(const struct cuda_attention a, const struct source_gradients to, int64_t n_share)
{
    SHARED(float, kept, (S::GROUPS * source_sums<SCORE, S>::FLOATS));
    const struct cuda_unit *unit = CUDA_UNITS(a.schedule);
    for (int64_t i = blockIdx.x; i < n_share * a.n_head; i += gridDim.x) {
        int h;
        int64_t u, last, begin, end;
        for (share_units(a, divide(i, (int)a.n_head, &h), n_share, &u, &last); u < last; u++) {
            if (!begins_row(a, unit[u])) {
                continue;
            }
            struct head_row r = head_row_of(a, unit[u].row, h);
            group_slice<S>(r, &begin, &end);
            for (; r.column < (int)a.n_column; r.column += S::COLUMNS) {
                source_sums<SCORE, S> s(0.0F);
                edges_backward<SCORE, S>(a, r, begin, end, &s);
                groups_join(kept, &s);
                if (threadIdx.x < S::LANES) {
                    sums_store<SCORE, S>(a, r, s, to);
                }
            }
        }
    }
}

template <int SCORE, typename S>
static void launch(const struct cuda_attention_grid &on, const struct cuda_attention &a,
                   const struct source_gradients &to)
{
    const unsigned grid = grid_of(a.n_row * a.n_head, BLOCK_THREADS / S::LANES);
    LAUNCH((source_rows<SCORE, S>), grid, BLOCK_THREADS, on.stream, a, to);
    if (on.n_share > 0) {
        LAUNCH((source_long<SCORE, S>), grid_of(on.n_share * a.n_head, 1), S::GROUPS * S::LANES, on.stream, a, to,
               on.n_share);
    }
}

extern "C" void cuda_attention_backward_source(struct device *device, const struct device_attention_rows *rows,
                                               float *grad_value, float *grad_key)
{
    if (rows->how->n_edge_column > 0) {
        cuda_attention_edges_source(device, rows, grad_value, grad_key);
        return;
    }
    const struct cuda_attention a = cuda_attention_of(rows, true);
    const struct cuda_attention_grid on = cuda_attention_grid_of(device, rows, false);
    const struct source_gradients to = {grad_value, grad_key};
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
