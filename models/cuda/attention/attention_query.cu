/* Gradients of an attention's queries, from in-edges (of add no edge is needed, unless edges have features:
 * attention_edges.cu), and of mlp's att:
 *   g_ij = ⟨grad_out_i, value_j⟩   α_ij = exp(e_ij - L_i)   de_ij = α_ij (μ_ij g_ij - D_i), the gradient of e_ij
 *   mlp      grad_query_ic = Σ_j de · att_c · leaky'(x_c)    grad_att_c = Σ_ij de · leaky(x_c), x = value_j + query_i
 *   dot      grad_query_i = Σ_j scale · de · key_j
 *   cosine   grad_query_i = Σ_j key_j · de · value_j
 *
 * source  Dao et al., NeurIPS 2022 (D)
 */
#include "models/cuda/attention/attention.h"

/* Where gradients go. Of att each range of rows and each share of the long ones has a sum of its own, n_head ·
 * n_column doubles. */
struct query_gradients {
    float *query;
    double *att; /* NULL: not wanted */
};

/* Sums of columns: grad_query, and of mlp a row's share of grad_att. */
template <int SCORE> constexpr int n_wide = SCORE == DEVICE_SCORE_MLP ? 2 : 1;

template <int SCORE, typename S> using query_sums = sums<S, n_wide<SCORE>>;

/* The row's own numbers. */
template <typename S> struct own_query {
    end_columns<S> query, att, grad_out;
    float log_sum, d; /* L, D */
};

template <int SCORE, typename S>
static __device__ __forceinline__ void own_load(const struct cuda_attention &a, const struct head_row &r,
                                                own_query<S> *own)
{
    own->query.all = a.target.query + r.own * a.n_column;
    own->grad_out.all = a.target.grad_out + r.own * a.n_column;
    columns_read<S>(a, own->query.all, r.column, true, own->query.x);
    columns_read<S>(a, own->grad_out.all, r.column, true, own->grad_out.x);
    own->att.all = NULL;
    if (SCORE == DEVICE_SCORE_MLP) {
        own->att.all = a.att + (int64_t)r.h * a.n_column;
        columns_read<S>(a, own->att.all, r.column, true, own->att.x);
    }
    own->log_sum = a.target.softmax[2 * r.own];
    own->d = a.target.softmax[2 * r.own + 1];
}

/* Some edges' rows: values, and of dot keys. */
template <int SCORE, typename S> struct some_edges {
    static constexpr int AHEAD = SCORE == DEVICE_SCORE_MLP && S::N > 4 ? 1 : 2; /* two would not fit the registers */
    struct edge edge[AHEAD];
    float value[AHEAD][S::N], keys[SCORE == DEVICE_SCORE_DOT ? AHEAD : 1][S::N];
    float key[AHEAD], product[AHEAD], g[AHEAD];

    __device__ __forceinline__ void load(const struct cuda_attention &a, const struct head_row &r,
                                         const own_query<S> &own)
    {
        const end_columns<S> &att = own.att;
        for (int k = 0; k < AHEAD; k++) {
            const struct device_attention_source &from = edge[k].is_self ? a.self_source : a.source;
            const float *values = edge[k].there ? from.value + edge[k].head * a.n_column : NULL;
            columns_read<S>(a, values, r.column, edge[k].there, value[k]);
            key[k] = 0.0F;
            if (SCORE == DEVICE_SCORE_DOT) {
                const float *all = edge[k].there ? from.key + edge[k].head * a.n_column : NULL;
                columns_read<S>(a, all, r.column, edge[k].there, keys[k]);
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

    __device__ __forceinline__ void add(const struct cuda_attention &a, const own_query<S> &own,
                                        query_sums<SCORE, S> *s) const
    {
        for (int k = 0; k < AHEAD; k++) {
            const float alpha = exp_of(score_of<SCORE>(a, product[k], key[k]) - own.log_sum);
            const float rest = fmaf(own.d, -1.0F, edge[k].mu * g[k]), de = edge[k].there ? alpha * rest : 0.0F;
            const float by = SCORE == DEVICE_SCORE_DOT      ? de * a.scale
                             : SCORE == DEVICE_SCORE_COSINE ? de * key[k]
                                                            : de;
            for (int i = 0; i < S::N; i++) {
                if (SCORE == DEVICE_SCORE_MLP) {
                    const float x = own.query.x[i] + value[k][i], slope = leaky_slope(x, a.slope);
                    s->wide[0][i] = fmaf(own.att.x[i] * slope, by, s->wide[0][i]);
                    s->wide[n_wide<SCORE> - 1][i] = fmaf(x * slope, by, s->wide[n_wide<SCORE> - 1][i]);
                } else {
                    const float x = SCORE == DEVICE_SCORE_DOT ? keys[SCORE == DEVICE_SCORE_DOT ? k : 0][i]
                                                              : value[k][i];
                    s->wide[0][i] = fmaf(by, x, s->wide[0][i]);
                }
            }
        }
    }
};

template <int SCORE, typename S>
static __device__ __forceinline__ void edges_backward(const struct cuda_attention &a, const struct head_row &r,
                                                      int64_t begin, int64_t end, query_sums<SCORE, S> *s)
{
    own_query<S> own;
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

/* grad_query (+)= the row's sum; att += its share. */
template <int SCORE, typename S>
static __device__ __forceinline__ void sums_store(const struct cuda_attention &a, const struct head_row &r,
                                                  const query_sums<SCORE, S> &s, float *grad_query, double att[S::N])
{
    for (int i = 0; i < S::N; i++) {
        const int c = lane_column<S>(r.column) + i / S::W * S::LANES * S::W + i % S::W;
        float *to = grad_query + r.own * a.n_column + c;
        if (c < (int)a.n_column) {
            *to = a.begin ? s.wide[0][i] : *to + s.wide[0][i];
        }
        att[i] += SCORE == DEVICE_SCORE_MLP ? (double)s.wide[n_wide<SCORE> - 1][i] : 0.0;
    }
}

template <typename S>
static __device__ __forceinline__ void att_store(const struct cuda_attention &a, int64_t part, int h, int column,
                                                 const double att[S::N], double *to)
{
    for (int i = 0; i < S::N; i++) {
        const int c = lane_column<S>(column) + i / S::W * S::LANES * S::W + i % S::W;
        if (c < (int)a.n_column) {
            to[(part * a.n_head + h) * a.n_column + c] = att[i];
        }
    }
}

/* A group takes one head of a range of rows, row after row. */
template <int SCORE, typename S>
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
    query_rows(const struct cuda_attention a, const struct query_gradients to, int64_t n_range, int64_t range_rows)
{
    for (int64_t i = grid_group<S::LANES>(); i < n_range * a.n_head; i += grid_groups<S::LANES>()) {
        int h;
        const int64_t range = divide(i, (int)a.n_head, &h);
        const int64_t last = (range + 1) * range_rows < a.n_row ? (range + 1) * range_rows : a.n_row;
        for (int column = 0; column < (int)a.n_column; column += S::COLUMNS) {
            double att[S::N] = {};
            for (int64_t row = range * range_rows; row < last; row++) {
                struct head_row r = head_row_of(a, row, h);
                r.column = column;
                if (r.end - r.begin <= a.n_most) {
                    query_sums<SCORE, S> s(0.0F);
                    edges_backward<SCORE, S>(a, r, r.first, r.end, &s);
                    sums_store<SCORE, S>(a, r, s, to.query, att);
                }
            }
            if (SCORE == DEVICE_SCORE_MLP && to.att != NULL) {
                att_store<S>(a, range, h, column, att, to.att);
            }
        }
    }
}

/* Long rows: the groups of a block take a slice of the edges each; to.att: of the shares. */
template <int SCORE, typename S>
__global__ void __launch_bounds__(S::GROUPS *S::LANES, 1)
    query_long(const struct cuda_attention a, const struct query_gradients to, int64_t n_share)
{
    SHARED(float, kept, (S::GROUPS * query_sums<SCORE, S>::FLOATS));
    const struct cuda_unit *unit = CUDA_UNITS(a.schedule);
    for (int64_t i = blockIdx.x; i < n_share * a.n_head; i += gridDim.x) {
        int h;
        int64_t u, last, begin, end;
        const int64_t share = divide(i, (int)a.n_head, &h);
        for (int column = 0; column < (int)a.n_column; column += S::COLUMNS) {
            double att[S::N] = {};
            for (share_units(a, share, n_share, &u, &last); u < last; u++) {
                if (!begins_row(a, unit[u])) {
                    continue;
                }
                struct head_row r = head_row_of(a, unit[u].row, h);
                query_sums<SCORE, S> s(0.0F);
                r.column = column;
                group_slice<S>(r, &begin, &end);
                edges_backward<SCORE, S>(a, r, begin, end, &s);
                groups_join(kept, &s);
                if (threadIdx.x < S::LANES) {
                    sums_store<SCORE, S>(a, r, s, to.query, att);
                }
            }
            if (SCORE == DEVICE_SCORE_MLP && to.att != NULL && threadIdx.x < S::LANES) {
                att_store<S>(a, share, h, column, att, to.att);
            }
        }
    }
}

/* grad_att (+)= Σ of the partial gradients, in their order. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    att_add(int64_t n_part, int64_t width, const double *part, bool begin, float *grad_att)
{
    for (int64_t c = grid_thread(); c < width; c += grid_threads()) {
        double sum = begin ? 0.0 : (double)grad_att[c];
        for (int64_t i = 0; i < n_part; i++) {
            sum += part[i * width + c];
        }
        grad_att[c] = (float)sum;
    }
}

template <int SCORE, typename S>
static void launch(const struct cuda_attention_grid &on, const struct cuda_attention &a,
                   const struct query_gradients &to)
{
    const unsigned grid = grid_of(on.n_range * a.n_head, BLOCK_THREADS / S::LANES);
    struct query_gradients shares = to;
    if (to.att != NULL) {
        shares.att += on.n_range * a.n_head * a.n_column;
    }
    LAUNCH((query_rows<SCORE, S>), grid, BLOCK_THREADS, on.stream, a, to, on.n_range, on.range_rows);
    if (on.n_share > 0) {
        const unsigned blocks = grid_of(on.n_share * a.n_head, 1);
        LAUNCH((query_long<SCORE, S>), blocks, S::GROUPS * S::LANES, on.stream, a, shares, on.n_share);
    }
}

extern "C" void cuda_attention_backward_query(struct device *device, const struct device_attention_rows *rows,
                                              void *scratch, float *grad_query, float *grad_att, float *grad_edge)
{
    if (rows->how->n_edge_column > 0) {
        cuda_attention_edges_query(device, rows, scratch, grad_query, grad_att, grad_edge);
        return;
    }
    const struct cuda_attention a = cuda_attention_of(rows, false);
    const struct cuda_attention_grid on = cuda_attention_grid_of(device, rows, grad_att != NULL);
    const struct query_gradients to = {grad_query, grad_att != NULL ? (double *)scratch : NULL};
    const int64_t width = (int64_t)a.n_head * a.n_column;
    switch (rows->how->score) {
    case DEVICE_SCORE_MLP:
        CUDA_BY_SHAPE(launch, DEVICE_SCORE_MLP, on.fours, a.n_column, on, a, to);
        break;
    case DEVICE_SCORE_DOT:
        CUDA_BY_SHAPE(launch, DEVICE_SCORE_DOT, on.fours, a.n_column, on, a, to);
        break;
    case DEVICE_SCORE_COSINE:
        CUDA_BY_SHAPE(launch, DEVICE_SCORE_COSINE, on.fours, a.n_column, on, a, to);
        break;
    case DEVICE_SCORE_ADD: /* backward_begin has done it */
        break;
    }
    if (grad_att != NULL) {
        LAUNCH(att_add, grid_of(width, WARP), WARP, on.stream, on.n_range + on.n_share, width, (const double *)to.att,
               rows->begin, grad_att);
    }
}
