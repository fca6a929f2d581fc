/* Softmax-weighted sums over neighbours, their gradients at either end of an edge, and products head by head.
 *
 * With α_ij = exp(score_ij - L_i) and μ_ij the dropout's factor:
 *   out_i = Σ_j μ α value_j · de = α (μ ⟨grad_out_i, value_j⟩ - D_i)
 *   grad_value_j = Σ_i μ α grad_out_i + de ∂score/∂value_j, and so on for what else the score is made of
 */
#include "models/reference/reference.h"

#include <math.h>

/* Columns of one head whose sums are held at a time. */
#define COLUMNS 64

/* One call: rows are destinations and columns sources (in-edges), or the other way round. */
struct attention {
    const struct device_attention *how;
    const struct device_block *block;
    bool rows_are_sources;
    bool with_self;
    struct device_attention_source source, self_source;
    struct device_attention_target target, self_target;
};

/* What lies at both ends of one edge, at one head. */
struct edge {
    const float *value, *key;
    const float *query, *softmax, *grad_out;
    uint32_t from, to;
};

static int64_t own_row(const struct attention *a, int64_t r)
{
    return a->block->rows != NULL ? a->block->rows[r] : r;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Numbers per head and row of queries, and of keys. */
static int64_t n_per_query(const struct device_attention *how)
{
    return how->score == DEVICE_SCORE_ADD ? 1 : how->n_column;
}

static int64_t n_per_key(const struct device_attention *how)
{
    return how->score == DEVICE_SCORE_COSINE ? 1 : n_per_query(how);
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
    int64_t row = own_row(a, r), col = is_self ? row : a->block->cols[e];
    int64_t j = a->rows_are_sources ? row : col, i = a->rows_are_sources ? col : row;
    const struct device_attention_source *source = to_itself ? &a->self_source : &a->source;
    const struct device_attention_target *target = is_self && a->rows_are_sources ? &a->self_target : &a->target;
    struct edge edge = {
        .value = at(source->value, j, h, how->n_head, how->n_column),
        .key = at(source->key, j, h, how->n_head, n_per_key(how)),
        .query = at(target->query, i, h, how->n_head, n_per_query(how)),
        .softmax = at(target->softmax, i, h, how->n_head, 2),
        .grad_out = at(target->grad_out, i, h, how->n_head, how->n_column),
    };
    if (how->p > 0.0) {
        uint32_t own = how->row_node[row], other = is_self ? own : how->col_node[col];
        edge.from = a->rows_are_sources ? own : other;
        edge.to = a->rows_are_sources ? other : own;
    }
    return edge;
}

static double dot(int64_t n, const float *x, const float *y)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i] * y[i];
    }
    return sum;
}

static double slope(const struct device_attention *how, double x)
{
    return x > 0.0 ? 1.0 : how->slope;
}

static double score(const struct device_attention *how, int64_t h, const struct edge *edge)
{
    double sum = 0.0, x;
    switch (how->score) {
    case DEVICE_SCORE_ADD:
        x = (double)edge->key[0] + edge->query[0];
        return x * slope(how, x);
    case DEVICE_SCORE_MLP:
        for (int64_t c = 0; c < how->n_column; c++) {
            x = (double)edge->value[c] + edge->query[c];
            sum += how->att[h * how->n_column + c] * x * slope(how, x);
        }
        return sum;
    case DEVICE_SCORE_DOT:
        for (int64_t c = 0; c < how->n_column; c++) {
            sum += (double)edge->key[c] * edge->query[c];
        }
        return how->scale * sum;
    case DEVICE_SCORE_COSINE:
        return edge->key[0] * dot(how->n_column, edge->value, edge->query);
    }
    return sum;
}

/* μ: 0 where the coefficient is dropped. */
static double kept(const struct device_attention *how, int64_t h, const struct edge *edge)
{
    if (how->p > 0.0 && random_edge_u32(&how->key, edge->to, edge->from, (uint32_t)h) < random_drop_threshold(how->p)) {
        return 0.0;
    }
    return 1.0 / (1.0 - how->p);
}

static bool is_positive(const struct edge *edge)
{
    return (double)edge->key[0] + edge->query[0] > 0.0;
}

/* sum[c] (+)= Σ μ exp(score - peak) value[c] over the row's edges (positive: those with key + query > 0), for n
 * columns from column c of head h; returns Σ exp(score - peak) over them. */
static double forward_sums(const struct attention *a, int64_t r, int64_t h, double peak, bool positive, int64_t c, int64_t n,
                           double *sum)
{
    double weights = 0.0;
    for (int64_t e = first_edge(a, r); e < a->block->indptr[r + 1]; e++) {
        struct edge edge = edge_at(a, r, e, h);
        double weight = exp(score(a->how, h, &edge) - peak);
        if (positive && !is_positive(&edge)) {
            continue;
        }
        weights += weight;
        weight *= kept(a->how, h, &edge);
        for (int64_t i = 0; i < n; i++) {
            sum[i] += weight * edge.value[c + i];
        }
    }
    return weights;
}

/* out (one head's columns) = rescale · out + the row's sums; returns the row's Σ exp(score - peak). */
static double forward_columns(const struct attention *a, int64_t r, int64_t h, double peak, double rescale, bool positive,
                              float *out)
{
    double sum[COLUMNS], weights = 0.0;
    for (int64_t c = 0, n; c < a->how->n_column; c += n) {
        n = smaller(a->how->n_column - c, COLUMNS);
        for (int64_t i = 0; i < n; i++) {
            sum[i] = rescale * out[c + i];
        }
        weights = forward_sums(a, r, h, peak, positive, c, n, sum);
        for (int64_t i = 0; i < n; i++) {
            out[c + i] = (float)sum[i];
        }
    }
    return weights;
}

static void forward_head(const struct attention *a, int64_t r, int64_t h, bool begin,
                         const struct device_attention_state *state, float *out)
{
    const struct device_attention *how = a->how;
    int64_t head = own_row(a, r) * how->n_head + h, n = how->n_column;
    float *softmax = state->softmax + 2 * head;
    float *positive = state->positive != NULL ? state->positive + head * n : NULL;
    if (begin) {
        softmax[0] = -INFINITY;
        softmax[1] = 0.0f;
        for (int64_t c = 0; c < n; c++) {
            out[head * n + c] = 0.0f;
        }
        for (int64_t c = 0; positive != NULL && c < n; c++) {
            positive[c] = 0.0f;
        }
        if (positive != NULL) {
            state->positive_weight[head] = 0.0f;
        }
    }
    float peak = softmax[0];
    for (int64_t e = first_edge(a, r); e < a->block->indptr[r + 1]; e++) {
        struct edge edge = edge_at(a, r, e, h);
        peak = fmaxf(peak, (float)score(how, h, &edge));
    }
    double rescale = peak > softmax[0] ? exp((double)softmax[0] - peak) : 1.0;
    double weights = forward_columns(a, r, h, peak, rescale, false, out + head * n);
    if (positive != NULL) {
        double positive_weights = forward_columns(a, r, h, peak, rescale, true, positive);
        state->positive_weight[head] = (float)(rescale * state->positive_weight[head] + positive_weights);
    }
    softmax[0] = peak;
    softmax[1] = (float)(rescale * softmax[1] + weights);
}

void reference_attention_forward(struct device *device, const struct device_block *block, const struct device_attention *how,
                                 bool begin, const struct device_attention_source *self,
                                 const struct device_attention_source *payload, const float *query,
                                 const struct device_attention_state *state, float *out)
{
    (void)device;
    struct attention a = {
        .how = how, .block = block, .with_self = begin && self != NULL, .source = *payload, .target.query = query};
    if (a.with_self) {
        a.self_source = *self;
    }
    for (int64_t r = 0; r < block->n_row; r++) {
        for (int64_t h = 0; h < how->n_head; h++) {
            forward_head(&a, r, h, begin, state, out);
        }
    }
}

void reference_attention_finish(struct device *device, int64_t n, const struct device_attention *how,
                                const struct device_attention_state *state, float *out)
{
    (void)device;
    for (int64_t i = 0; i < n * how->n_head; i++) {
        double peak = state->softmax[2 * i], sum = state->softmax[2 * i + 1];
        double scale = sum == 0.0 ? 0.0 : 1.0 / sum;
        for (int64_t c = i * how->n_column; c < (i + 1) * how->n_column; c++) {
            out[c] = (float)(out[c] * scale);
            if (state->positive != NULL) {
                state->positive[c] = (float)(state->positive[c] * scale);
            }
        }
        if (state->positive != NULL) {
            state->positive_weight[i] = (float)(state->positive_weight[i] * scale);
        }
        state->softmax[2 * i] = sum == 0.0 ? INFINITY : (float)(peak + log(sum));
        state->softmax[2 * i + 1] = 0.0f;
    }
}

/* The softmax does not change when all its scores move by the same: Σ_j de_ij = 0, so only edges with x > 0, whose
 * slope differs from the others' by 1 - slope, are left of Σ_j de_ij · slope(x_ij). */
void reference_attention_backward_begin(struct device *device, int64_t n, const struct device_attention *how,
                                        const float *grad_out, const float *out, const struct device_attention_state *state,
                                        bool add, float *grad_query)
{
    (void)device;
    for (int64_t i = 0; i < n * how->n_head; i++) {
        int64_t c = i * how->n_column;
        double d = dot(how->n_column, grad_out + c, out + c);
        state->softmax[2 * i + 1] = (float)d;
        if (how->score == DEVICE_SCORE_ADD) {
            double positive = dot(how->n_column, grad_out + c, state->positive + c);
            double grad = (1.0 - how->slope) * (positive - d * state->positive_weight[i]);
            grad_query[i] = (float)(add ? grad_query[i] + grad : grad);
        }
    }
}

/* α and the gradient de of its score. */
static void edge_backward(const struct attention *a, int64_t h, const struct edge *edge, double *coefficient, double *de)
{
    double alpha = exp(score(a->how, h, edge) - edge->softmax[0]), mu = kept(a->how, h, edge);
    *coefficient = mu * alpha;
    *de = alpha * (mu * dot(a->how->n_column, edge->grad_out, edge->value) - edge->softmax[1]);
}

/* Gradients of one row's query at head h (and of att), columns c … c+n-1. */
static void query_backward(const struct attention *a, int64_t r, int64_t h, int64_t c, int64_t n, double *grad_query,
                           double *grad_att)
{
    const struct device_attention *how = a->how;
    for (int64_t e = first_edge(a, r); e < a->block->indptr[r + 1]; e++) {
        struct edge edge = edge_at(a, r, e, h);
        double coefficient, de;
        edge_backward(a, h, &edge, &coefficient, &de);
        for (int64_t i = 0; i < n; i++) {
            if (how->score == DEVICE_SCORE_DOT) {
                grad_query[i] += how->scale * de * edge.key[c + i];
            } else if (how->score == DEVICE_SCORE_COSINE) {
                grad_query[i] += edge.key[0] * de * edge.value[c + i];
            } else {
                double x = (double)edge.value[c + i] + edge.query[c + i];
                grad_query[i] += how->att[h * how->n_column + c + i] * de * slope(how, x);
                grad_att[i] += de * x * slope(how, x);
            }
        }
    }
}

void reference_attention_backward_query(struct device *device, const struct device_block *block,
                                        const struct device_attention *how, bool begin,
                                        const struct device_attention_source *self,
                                        const struct device_attention_source *payload,
                                        const struct device_attention_target *own, void *scratch, float *grad_query,
                                        float *grad_att)
{
    (void)device;
    (void)scratch;
    struct attention a = {.how = how, .block = block, .with_self = begin && self != NULL, .source = *payload, .target = *own};
    if (a.with_self) {
        a.self_source = *self;
    }
    int64_t n_column = how->n_column;
    for (int64_t h = 0; h < how->n_head; h++) {
        for (int64_t c = 0, n; c < n_column; c += n) {
            double sum[COLUMNS], att[COLUMNS];
            n = smaller(n_column - c, COLUMNS);
            for (int64_t i = 0; i < n; i++) {
                att[i] = begin || grad_att == NULL ? 0.0 : grad_att[h * n_column + c + i];
            }
            for (int64_t r = 0; r < block->n_row; r++) {
                float *grad = grad_query + (own_row(&a, r) * how->n_head + h) * n_column + c;
                for (int64_t i = 0; i < n; i++) {
                    sum[i] = begin ? 0.0 : grad[i];
                }
                query_backward(&a, r, h, c, n, sum, att);
                for (int64_t i = 0; i < n; i++) {
                    grad[i] = (float)sum[i];
                }
            }
            for (int64_t i = 0; grad_att != NULL && i < n; i++) {
                grad_att[h * n_column + c + i] = (float)att[i];
            }
        }
    }
}

size_t reference_attention_scratch(int64_t n_row, const struct device_attention *how)
{
    (void)n_row;
    (void)how;
    return 0;
}

/* Gradients of one row as a source at head h, columns c … c+n-1; ADD, COSINE: grad_key[0] is the head's. */
static void source_backward(const struct attention *a, int64_t r, int64_t h, int64_t c, int64_t n, double *grad_value,
                            double *grad_key)
{
    const struct device_attention *how = a->how;
    for (int64_t e = first_edge(a, r); e < a->block->indptr[r + 1]; e++) {
        struct edge edge = edge_at(a, r, e, h);
        double coefficient, de;
        edge_backward(a, h, &edge, &coefficient, &de);
        if (how->score == DEVICE_SCORE_ADD) {
            grad_key[0] += de * slope(how, (double)edge.key[0] + edge.query[0]);
        } else if (how->score == DEVICE_SCORE_COSINE) {
            grad_key[0] += de * dot(how->n_column, edge.value, edge.query);
        }
        for (int64_t i = 0; i < n; i++) {
            grad_value[i] += coefficient * edge.grad_out[c + i];
            if (how->score == DEVICE_SCORE_MLP) {
                double x = (double)edge.value[c + i] + edge.query[c + i];
                grad_value[i] += how->att[h * how->n_column + c + i] * de * slope(how, x);
            } else if (how->score == DEVICE_SCORE_DOT) {
                grad_key[i] += how->scale * de * edge.query[c + i];
            } else if (how->score == DEVICE_SCORE_COSINE) {
                grad_value[i] += edge.key[0] * de * edge.query[c + i];
            }
        }
    }
}

void reference_attention_backward_source(struct device *device, const struct device_block *block,
                                         const struct device_attention *how, bool begin,
                                         const struct device_attention_target *self,
                                         const struct device_attention_target *payload,
                                         const struct device_attention_source *own, float *grad_value, float *grad_key)
{
    (void)device;
    struct attention a = {.how = how, .block = block, .with_self = begin && self != NULL, .source = *own, .target = *payload};
    a.rows_are_sources = true;
    if (a.with_self) {
        a.self_target = *self;
    }
    int64_t width = n_per_key(how);
    for (int64_t r = 0; r < block->n_row; r++) {
        for (int64_t h = 0; h < how->n_head; h++) {
            int64_t head = own_row(&a, r) * how->n_head + h;
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
                source_backward(&a, r, h, c, n, value, key);
                for (int64_t i = 0; i < n; i++) {
                    out[i] = (float)value[i];
                }
                for (int64_t i = 0; i < n_key; i++) {
                    out_key[i] = (float)key[i];
                }
            }
        }
    }
}
