/* Softmax-weighted sums over neighbours, and their gradients at either end of an edge.
 *
 * e_ij is the score of the edge from source j to destination i at one head, μ_ij dropout's factor, 0 or 1 / (1 - p):
 *   L_i = ln Σ_j exp(e_ij)       α_ij = exp(e_ij - L_i)       out_i = Σ_j μ_ij α_ij value_j
 *   D_i = ⟨grad_out_i, out_i⟩    de_ij = α_ij (μ_ij ⟨grad_out_i, value_j⟩ - D_i), the gradient of e_ij
 *   grad_value_j = Σ_i μ_ij α_ij grad_out_i + Σ_i de_ij ∂e_ij/∂value_j
 *   grad_key_j = Σ_i de_ij ∂e_ij/∂key_j     grad_query_i = Σ_j de_ij ∂e_ij/∂query_i
 * Sums in double, edge after edge, rounded to float once per block.
 */
#include "models/reference/reference.h"
#include "protocol/base/amounts.h"

#include <math.h>
#include <string.h>

/* Columns of one head whose sums are held at a time. */
#define COLUMNS 64

/* Columns first … first+n-1 of one head, n ≤ COLUMNS. */
struct columns {
    int64_t head, first, n;
};

/* One call: rows are destinations and columns sources (in-edges), or the other way round. */
struct attention {
    const struct device_attention *how;
    const struct device_block *block;
    bool rows_are_sources;
    bool with_self;
    struct device_attention_source source, self_source;
    struct device_attention_target target, self_target;
};

/* Both ends of one edge, at one head. */
struct edge {
    const float *value, *key;
    const float *query, *softmax, *grad_out;
    const float *f; /* its features; NULL: none */
    uint32_t from, to;
};

/* Numbers per head and row of queries, and of keys. */
static int64_t n_per_query(const struct device_attention *how)
{
    return how->score == DEVICE_SCORE_ADD ? 1 : device_attention_columns(how);
}

static int64_t n_per_key(const struct device_attention *how)
{
    return how->score == DEVICE_SCORE_COSINE || how->score == DEVICE_SCORE_ADD ? 1 : how->n_column;
}

static const float *at(const float *x, int64_t row, int64_t head, int64_t n_head, int64_t n)
{
    return x != NULL ? x + (row * n_head + head) * n : NULL;
}

/* The row's edge to itself comes before the block's. */
static int64_t first_edge(const struct attention *a, int64_t r)
{
    return a->block->indptr[r] - (a->with_self ? 1 : 0);
}

static struct edge edge_at(const struct attention *a, int64_t r, int64_t e, int64_t h)
{
    const struct device_attention *how = a->how;
    bool is_self = e < a->block->indptr[r], to_itself = is_self && !a->rows_are_sources;
    int64_t row = device_listed(a->block->rows, r), col = is_self ? row : a->block->cols[e];
    int64_t j = a->rows_are_sources ? row : col, i = a->rows_are_sources ? col : row;
    const struct device_attention_source *source = to_itself ? &a->self_source : &a->source;
    const struct device_attention_target *target = is_self && a->rows_are_sources ? &a->self_target : &a->target;
    struct edge edge = {
        .value = at(source->value, j, h, how->n_head, how->n_column),
        .key = at(source->key, j, h, how->n_head, n_per_key(how)),
        .query = at(target->query, i, h, how->n_head, n_per_query(how)),
        .softmax = at(target->softmax, i, h, how->n_head, 2),
        .grad_out = at(target->grad_out, i, h, how->n_head, device_attention_columns(how)),
        .f = how->n_edge_column > 0 ? a->block->edge_table + (int64_t)a->block->edge_rows[e] * how->n_edge_column
                                    : NULL,
    };
    if (how->p > 0.0) {
        uint32_t own = how->row_node[row], other = is_self ? own : how->col_node[col];
        edge.from = a->rows_are_sources ? own : other;
        edge.to = a->rows_are_sources ? other : own;
    }
    return edge;
}

static void round_columns(int64_t n, const double *sum, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = (float)sum[i];
    }
}

static double slope(const struct device_attention *how, double x)
{
    return x > 0.0 ? 1.0 : how->slope;
}

/* ADD: what leaky is of, key_j + query_i + ⟨v, f⟩ */
static double sum_add(const struct device_attention *how, int64_t h, const struct edge *edge)
{
    double x = (double)edge->key[0] + edge->query[0];
    return edge->f != NULL ? x + reference_product(how->n_edge_column, how->edge + h * how->n_edge_column, edge->f)
                           : x;
}

/* MLP: likewise of column c, value_jc + query_ic + ⟨W_c, f⟩ */
static double sum_mlp(const struct device_attention *how, int64_t h, int64_t c, const struct edge *edge)
{
    double x = (double)edge->value[c] + edge->query[c];
    for (int64_t d = 0; edge->f != NULL && d < how->n_edge_column; d++) {
        x += (double)how->edge[(d * how->n_head + h) * how->n_column + c] * edge->f[d];
    }
    return x;
}

/* ⟨x, y⟩ of a head's columns, DOT ⟨x | f, y⟩ */
static double dot_wide(const struct device_attention *how, const float *x, const struct edge *edge, const float *y)
{
    double sum = reference_product(how->n_column, x, y);
    bool wide = device_attention_columns(how) > how->n_column;
    return wide ? sum + reference_product(how->n_edge_column, edge->f, y + how->n_column) : sum;
}

/* leaky(x), leaky(x) = x · slope(x) */
static double score_add(const struct device_attention *how, int64_t h, const struct edge *edge)
{
    double x = sum_add(how, h, edge);
    return x * slope(how, x);
}

/* Σ_c att_c · leaky(x_c) */
static double score_mlp(const struct device_attention *how, int64_t h, const struct edge *edge)
{
    double sum = 0.0;
    for (int64_t c = 0; c < how->n_column; c++) {
        double x = sum_mlp(how, h, c, edge);
        sum += how->att[h * how->n_column + c] * x * slope(how, x);
    }
    return sum;
}

static double score_of_kind(const struct device_attention *how, int64_t h, const struct edge *edge)
{
    switch (how->score) {
    case DEVICE_SCORE_ADD:
        return score_add(how, h, edge);
    case DEVICE_SCORE_MLP:
        return score_mlp(how, h, edge);
    case DEVICE_SCORE_DOT: /* scale · ⟨key_j | f, query_i⟩ */
        return how->scale * dot_wide(how, edge->key, edge, edge->query);
    case DEVICE_SCORE_COSINE: /* key_j · ⟨value_j, query_i⟩ */
        return edge->key[0] * reference_product(how->n_column, edge->value, edge->query);
    }
    return 0.0;
}

static double score(const struct device_attention *how, int64_t h, const struct edge *edge)
{
    return score_of_kind(how, h, edge) + how->shift;
}

/* μ: 0 where the coefficient is dropped, else 1 / (1 - p). */
static double dropout_factor(const struct device_attention *how, int64_t h, const struct edge *edge)
{
    const struct random_key key = device_key(&how->key, how->now);
    if (how->p > 0.0 && random_edge_u32(&key, edge->to, edge->from, (uint32_t)h) < random_drop_threshold(how->p)) {
        return 0.0;
    }
    return 1.0 / (1.0 - how->p);
}

/* sum += factor · x */
static void add_scaled(int64_t n, double factor, const float *x, double *sum)
{
    for (int64_t i = 0; i < n; i++) {
        sum[i] += factor * x[i];
    }
}

/* Column c of x | f, x the edge's value or key: of DOT the features follow on both. */
static const float *column_at(const struct device_attention *how, const float *x, const struct edge *edge, int64_t c)
{
    return c < how->n_column ? x + c : edge->f + (c - how->n_column);
}

/* One step of the online softmax: the row max after a block, and what brings sums so far to it, exp(old max -
 * row_max). */
struct softmax_step {
    double row_max, rescale;
};

/* sum[c] += Σ μ exp(e - row_max) value[c] over the row's edges (positive: those with key + query > 0), for some
 * columns; returns Σ exp(e - row_max) over them. */
static double forward_sums(const struct attention *a, int64_t r, const struct columns *at, double row_max,
                           bool positive, double *sum)
{
    double weights = 0.0;
    for (int64_t e = first_edge(a, r); e < a->block->indptr[r + 1]; e++) {
        struct edge edge = edge_at(a, r, e, at->head);
        if (positive && sum_add(a->how, at->head, &edge) <= 0.0) {
            continue;
        }
        double weight = exp(score(a->how, at->head, &edge) - row_max);
        weights += weight;
        add_scaled(at->n, weight * dropout_factor(a->how, at->head, &edge),
                   column_at(a->how, edge.value, &edge, at->first), sum);
    }
    return weights;
}

/* Columns from c on that are held at a time: of the values, or behind them of the features. */
static int64_t columns_from(const struct device_attention *how, int64_t c)
{
    return smaller((c < how->n_column ? how->n_column : device_attention_columns(how)) - c, COLUMNS);
}

/* out (one head's columns) = rescale · out + the row's sums; returns the row's Σ exp(e - row_max). */
static double forward_columns(const struct attention *a, int64_t r, int64_t h, const struct softmax_step *step,
                              bool positive, float *out)
{
    double sum[COLUMNS], weights = 0.0;
    for (int64_t c = 0, n; c < device_attention_columns(a->how); c += n) {
        n = columns_from(a->how, c);
        for (int64_t i = 0; i < n; i++) {
            sum[i] = step->rescale * out[c + i];
        }
        weights = forward_sums(a, r, &(struct columns){h, c, n}, step->row_max, positive, sum);
        round_columns(n, sum, out + c);
    }
    return weights;
}

/* A head before its first edge: row max -inf, sums of 0. */
static void head_clear(int64_t head, int64_t n, const struct device_attention_state *state, float *out)
{
    state->softmax[2 * head] = -INFINITY;
    state->softmax[2 * head + 1] = 0.0f;
    memset(out + head * n, 0, (size_t)n * sizeof *out);
    if (state->positive != NULL) {
        memset(state->positive + head * n, 0, (size_t)n * sizeof *out);
        state->positive_weight[head] = 0.0f;
    }
}

static void forward_head(const struct attention *a, int64_t r, int64_t h, bool begin,
                         const struct device_attention_state *state, float *out)
{
    const struct device_attention *how = a->how;
    int64_t head = device_listed(a->block->rows, r) * how->n_head + h, n = device_attention_columns(how);
    float *softmax = state->softmax + 2 * head;
    if (begin) {
        head_clear(head, n, state, out);
    }
    float row_max = softmax[0];
    for (int64_t e = first_edge(a, r); e < a->block->indptr[r + 1]; e++) {
        struct edge edge = edge_at(a, r, e, h);
        row_max = fmaxf(row_max, (float)score(how, h, &edge));
    }
    const struct softmax_step step = {row_max, row_max > softmax[0] ? exp((double)softmax[0] - row_max) : 1.0};
    double weights = forward_columns(a, r, h, &step, false, out + head * n);
    if (state->positive != NULL) {
        double positive_weights = forward_columns(a, r, h, &step, true, state->positive + head * n);
        state->positive_weight[head] = (float)(step.rescale * state->positive_weight[head] + positive_weights);
    }
    softmax[0] = row_max;
    softmax[1] = (float)(step.rescale * softmax[1] + weights);
}

/* Over the block of `rows`. */
static struct attention attention_over(const struct device_attention_rows *rows)
{
    return (struct attention){.how = rows->how,
                              .block = rows->block,
                              .with_self = rows->begin && rows->with_self,
                              .source = rows->source,
                              .self_source = rows->self_source,
                              .target = rows->target,
                              .self_target = rows->self_target};
}

void reference_attention_forward(struct device *device, const struct device_attention_rows *rows,
                                 const struct device_attention_state *state, float *out)
{
    (void)device;
    struct attention a = attention_over(rows);
    for (int64_t r = 0; r < a.block->n_row; r++) {
        for (int64_t h = 0; h < a.how->n_head; h++) {
            forward_head(&a, r, h, rows->begin, state, out);
        }
    }
}

void reference_attention_finish(struct device *device, int64_t n, const struct device_attention *how,
                                const struct device_attention_state *state, float *out)
{
    (void)device;
    int64_t n_column = device_attention_columns(how);
    for (int64_t i = 0; i < n * how->n_head; i++) {
        double row_max = state->softmax[2 * i], sum = state->softmax[2 * i + 1];
        double scale = sum == 0.0 ? 0.0 : 1.0 / sum;
        for (int64_t c = i * n_column; c < (i + 1) * n_column; c++) {
            out[c] = (float)(out[c] * scale);
            if (state->positive != NULL) {
                state->positive[c] = (float)(state->positive[c] * scale);
            }
        }
        if (state->positive != NULL) {
            state->positive_weight[i] = (float)(state->positive_weight[i] * scale);
        }
        state->softmax[2 * i] = sum == 0.0 ? INFINITY : (float)(row_max + log(sum));
        state->softmax[2 * i + 1] = 0.0f;
    }
}

/* add: grad_query_i = Σ_j de_ij · slope(x_ij). The softmax does not change when all its scores change by the same
 * amount, so Σ_j de_ij = 0: only the edges with x > 0 are left, whose slope differs from the others' by 1 - slope. */
void reference_attention_backward_begin(struct device *device, int64_t n, const struct device_attention *how,
                                        const float *grad_out, const float *out,
                                        const struct device_attention_state *state, bool add, float *grad_query)
{
    (void)device;
    for (int64_t i = 0; i < n * how->n_head; i++) {
        int64_t n_column = device_attention_columns(how), c = i * n_column;
        double d = reference_product(n_column, grad_out + c, out + c);
        state->softmax[2 * i + 1] = (float)d;
        if (state->positive != NULL) {
            double positive = reference_product(how->n_column, grad_out + c, state->positive + c);
            double grad = (1.0 - how->slope) * (positive - d * state->positive_weight[i]);
            grad_query[i] = (float)(add ? grad_query[i] + grad : grad);
        }
    }
}

/* α and the gradient de of its score. */
static void edge_backward(const struct attention *a, int64_t h, const struct edge *edge, double *coefficient,
                          double *de)
{
    double alpha = exp(score(a->how, h, edge) - edge->softmax[0]), mu = dropout_factor(a->how, h, edge);
    *coefficient = mu * alpha;
    *de = alpha * (mu * dot_wide(a->how, edge->value, edge, edge->grad_out) - edge->softmax[1]);
}

/* mlp: sum[i] += de · att_c · slope(x_c), the gradient of value and query alike; att_sum[i] += de · leaky(x_c), and
 * edge_sum, as Wᵀ, += the gradient · f (NULL: not wanted). */
static void mlp_backward(const struct device_attention *how, const struct columns *at, const struct edge *edge,
                         double de, double *sum, double *att_sum, double *edge_sum)
{
    const float *att = how->att + at->head * how->n_column + at->first;
    for (int64_t i = 0; i < at->n; i++) {
        double x = sum_mlp(how, at->head, at->first + i, edge), grad = att[i] * de * slope(how, x);
        sum[i] += grad;
        if (att_sum != NULL) {
            att_sum[i] += de * x * slope(how, x);
        }
        for (int64_t d = 0; edge_sum != NULL && d < how->n_edge_column; d++) {
            edge_sum[(d * how->n_head + at->head) * how->n_column + at->first + i] += grad * edge->f[d];
        }
    }
}

/* Outputs: gradients of one row's query, some columns of a head, and of parameters (NULL: not wanted). */
struct query_sums {
    double *query, *att; /* of the columns */
    double *edge;        /* shaped as how->edge */
};

static void query_backward(const struct attention *a, int64_t r, const struct columns *at,
                           const struct query_sums *to)
{
    const struct device_attention *how = a->how;
    for (int64_t e = first_edge(a, r); e < a->block->indptr[r + 1]; e++) {
        struct edge edge = edge_at(a, r, e, at->head);
        double coefficient, de;
        edge_backward(a, at->head, &edge, &coefficient, &de);
        switch (how->score) {
        case DEVICE_SCORE_MLP:
            mlp_backward(how, at, &edge, de, to->query, to->att, to->edge);
            break;
        case DEVICE_SCORE_DOT: /* ∂e/∂query = scale · (key | f) */
            add_scaled(at->n, how->scale * de, column_at(how, edge.key, &edge, at->first), to->query);
            break;
        case DEVICE_SCORE_COSINE: /* ∂e/∂query = key · value */
            add_scaled(at->n, edge.key[0] * de, edge.value + at->first, to->query);
            break;
        case DEVICE_SCORE_ADD: /* ∂e/∂query = slope(x), ∂e/∂v = slope(x) · f */
            de *= slope(how, sum_add(how, at->head, &edge));
            to->query[0] += de;
            if (to->edge != NULL) {
                add_scaled(how->n_edge_column, de, edge.f, to->edge + at->head * how->n_edge_column);
            }
            break;
        }
    }
}

/* Some columns of all rows' queries. */
static void queries_backward(const struct attention *a, bool begin, const struct columns *at, double *edge,
                             float *grad_query, float *grad_att)
{
    int64_t width = n_per_query(a->how);
    double query[COLUMNS], att[COLUMNS];
    float *to_att = grad_att != NULL ? grad_att + at->head * width + at->first : NULL;
    for (int64_t i = 0; i < at->n; i++) {
        att[i] = begin || to_att == NULL ? 0.0 : to_att[i];
    }
    for (int64_t r = 0; r < a->block->n_row; r++) {
        float *grad = grad_query + (device_listed(a->block->rows, r) * a->how->n_head + at->head) * width + at->first;
        for (int64_t i = 0; i < at->n; i++) {
            query[i] = begin ? 0.0 : grad[i];
        }
        query_backward(a, r, at, &(struct query_sums){query, to_att != NULL ? att : NULL, edge});
        round_columns(at->n, query, grad);
    }
    if (to_att != NULL) {
        round_columns(at->n, att, to_att);
    }
}

void reference_attention_backward_query(struct device *device, const struct device_attention_rows *rows,
                                        void *scratch, float *grad_query, float *grad_att, float *grad_edge)
{
    (void)device;
    struct attention a = attention_over(rows);
    int64_t width = n_per_query(rows->how), n_edge = device_attention_edge_floats(rows->how);
    double *edge = grad_edge != NULL ? scratch : NULL;
    if (edge != NULL) {
        memset(edge, 0, (size_t)n_edge * sizeof *edge);
    }
    for (int64_t h = 0; h < rows->how->n_head; h++) {
        for (int64_t c = 0, n; c < width; c += n) {
            n = width == 1 ? 1 : columns_from(rows->how, c);
            queries_backward(&a, rows->begin, &(struct columns){h, c, n}, edge, grad_query, grad_att);
        }
    }
    if (edge != NULL) {
        round_columns(n_edge, edge, grad_edge);
    }
}

/* Gradients of one row as a source, some columns of a head; ADD, COSINE: grad_key[0] is the head's. */
static void source_backward(const struct attention *a, int64_t r, const struct columns *at, double *grad_value,
                            double *grad_key)
{
    const struct device_attention *how = a->how;
    for (int64_t e = first_edge(a, r); e < a->block->indptr[r + 1]; e++) {
        struct edge edge = edge_at(a, r, e, at->head);
        double coefficient, de;
        edge_backward(a, at->head, &edge, &coefficient, &de);
        add_scaled(at->n, coefficient, edge.grad_out + at->first, grad_value);
        switch (how->score) {
        case DEVICE_SCORE_ADD: /* ∂e/∂key = slope(x) */
            grad_key[0] += de * slope(how, sum_add(how, at->head, &edge));
            break;
        case DEVICE_SCORE_MLP:
            mlp_backward(how, at, &edge, de, grad_value, NULL, NULL);
            break;
        case DEVICE_SCORE_DOT: /* ∂e/∂key = scale · query */
            add_scaled(at->n, how->scale * de, edge.query + at->first, grad_key);
            break;
        case DEVICE_SCORE_COSINE: /* ∂e/∂key = ⟨value, query⟩ · ∂e/∂value = key · query */
            grad_key[0] += de * reference_product(how->n_column, edge.value, edge.query);
            add_scaled(at->n, edge.key[0] * de, edge.query + at->first, grad_value);
            break;
        }
    }
}

void reference_attention_backward_source(struct device *device, const struct device_attention_rows *rows,
                                         float *grad_value, float *grad_key)
{
    (void)device;
    const struct device_attention *how = rows->how;
    struct attention a = attention_over(rows);
    bool begin = rows->begin;
    a.rows_are_sources = true;
    int64_t width = n_per_key(how);
    for (int64_t r = 0; r < a.block->n_row; r++) {
        for (int64_t h = 0; h < how->n_head; h++) {
            int64_t head = device_listed(a.block->rows, r) * how->n_head + h;
            for (int64_t c = 0, n; c < how->n_column; c += n) {
                double value[COLUMNS], key[COLUMNS];
                float *out = grad_value + head * how->n_column + c;
                float *out_key = grad_key != NULL ? grad_key + head * width + (width > 1 ? c : 0) : NULL;
                n = smaller(how->n_column - c, COLUMNS);
                int64_t n_key = out_key == NULL || (width == 1 && c > 0) ? 0 : smaller(width, n);
                for (int64_t i = 0; i < n; i++) {
                    value[i] = begin ? 0.0 : out[i];
                    key[i] = begin || i >= n_key ? 0.0 : out_key[i];
                }
                source_backward(&a, r, &(struct columns){h, c, n}, value, key);
                round_columns(n, value, out);
                round_columns(n_key, key, out_key);
            }
        }
    }
}
