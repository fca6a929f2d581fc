#include "tests/support/device/attention_case.h"

#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t attention_size(const struct attention_case *c, enum attention_tensor tensor)
{
    int64_t heads = c->how.n_head, wide = heads * c->how.n_column, out = heads * device_attention_columns(&c->how);
    bool add = c->how.score == DEVICE_SCORE_ADD, mlp = c->how.score == DEVICE_SCORE_MLP;
    switch (tensor) {
    case ATTENTION_KEY:
        return mlp ? 0 : c->n * (c->how.score == DEVICE_SCORE_DOT ? wide : heads);
    case ATTENTION_QUERY:
        return c->n * (add ? heads : out);
    case ATTENTION_ATT:
        return mlp ? wide : 0;
    case ATTENTION_EDGE:
        return c->how.n_edge_column * (add ? heads : mlp ? wide : 0);
    case ATTENTION_OUT:
        return c->n * out;
    default:
        return c->n * wide;
    }
}

void attention_case_init(struct attention_case *c, enum device_score_kind score, int64_t n, int64_t n_head,
                         int64_t n_column, double spread)
{
    attention_case_init_edges(c, score, n, n_head, n_column, 0, spread);
}

void attention_case_init_edges(struct attention_case *c, enum device_score_kind score, int64_t n, int64_t n_head,
                               int64_t n_column, int64_t n_edge_column, double spread)
{
    *c = (struct attention_case){.n = n, .n_block = 1};
    c->how = (struct device_attention){.score = score,
                                       .n_head = n_head,
                                       .n_column = n_column,
                                       .n_edge_column = n_edge_column,
                                       .slope = 0.2f,
                                       .scale = (float)(1.0 / sqrt((double)n_column)),
                                       .key = {.seed = 11, .epoch = 3, .op = 5, .stream = RANDOM_STREAM_EDGE}};
    for (int t = 0; t < ATTENTION_TENSOR_N; t++) {
        int64_t size = attention_size(c, (enum attention_tensor)t);
        c->input[t] = device_random((size_t)size, 20 + (uint32_t)t);
        bool wider = score == DEVICE_SCORE_MLP ? t == ATTENTION_ATT : t == ATTENTION_KEY || t == ATTENTION_QUERY;
        float factor = wider ? (float)spread : 1.0f;
        for (int64_t i = 0; i < size; i++) {
            c->input[t][i] *= factor;
        }
    }
    c->how.att = c->input[ATTENTION_ATT];
    c->how.edge = n_edge_column > 0 ? c->input[ATTENTION_EDGE] : NULL;
    c->feature = n_edge_column > 0 ? device_random((size_t)(n * n * n_edge_column), 31) : NULL;
    c->node = device_scratch((size_t)n * sizeof *c->node);
    c->edge = device_scratch((size_t)(n * n));
    float *draw = device_random((size_t)(n * n), 9);
    for (int64_t i = 0; i < n; i++) {
        c->node[i] = (uint32_t)(1000 + 17 * i);
        for (int64_t j = 0; j < n; j++) {
            c->edge[i * n + j] = i != j && i % 7 != 3 && draw[i * n + j] < (i == 0 ? 0.8f : -0.4f);
        }
    }
    c->how.row_node = c->node;
    free(draw);
}

void attention_case_release(struct attention_case *c)
{
    for (int t = 0; t < ATTENTION_TENSOR_N; t++) {
        free(c->input[t]);
    }
    free(c->node);
    free(c->edge);
    free(c->feature);
}

/* --- the truth --- */

void attention_truth_init(struct attention_truth *truth, const struct attention_case *c)
{
    for (int t = 0; t < ATTENTION_TENSOR_N; t++) {
        size_t n = (size_t)attention_size(c, (enum attention_tensor)t);
        truth->input[t] = device_scratch(n * sizeof(double));
        truth->grad[t] = device_scratch(n * sizeof(double));
        for (size_t i = 0; i < n; i++) {
            truth->input[t][i] = c->input[t][i];
        }
    }
}

void attention_truth_release(struct attention_truth *truth)
{
    for (int t = 0; t < ATTENTION_TENSOR_N; t++) {
        free(truth->input[t]);
        free(truth->grad[t]);
    }
}

static double leaky(const struct attention_case *c, double x)
{
    return x > 0.0 ? x : x * c->how.slope;
}

static double slope(const struct attention_case *c, double x)
{
    return x > 0.0 ? 1.0 : c->how.slope;
}

static bool is_edge(const struct attention_case *c, int64_t i, int64_t j)
{
    return i == j ? c->with_self : c->edge[i * c->n + j];
}

/* Feature d of the edge j → i. */
static double feature(const struct attention_case *c, int64_t i, int64_t j, int64_t d)
{
    return c->feature[(i * c->n + j) * c->how.n_edge_column + d];
}

/* What leaky is of: ADD: key + query [+ ⟨v, f⟩]; MLP: of column k value + query [+ W f]. */
static double inner(const struct attention_truth *truth, const struct attention_case *c, int64_t i, int64_t j,
                    int64_t h, int64_t k)
{
    int64_t heads = c->how.n_head, n = c->how.n_column, at_i = (i * heads + h) * n + k,
            at_j = (j * heads + h) * n + k;
    bool add = c->how.score == DEVICE_SCORE_ADD;
    double x = add ? truth->input[ATTENTION_KEY][j * heads + h] + truth->input[ATTENTION_QUERY][i * heads + h]
                   : truth->input[ATTENTION_VALUE][at_j] + truth->input[ATTENTION_QUERY][at_i];
    for (int64_t d = 0; d < c->how.n_edge_column; d++) {
        int64_t at = add ? h * c->how.n_edge_column + d : (d * heads + h) * n + k;
        x += truth->input[ATTENTION_EDGE][at] * feature(c, i, j, d);
    }
    return x;
}

/* DOT: element k of key | f. */
static double key_at(const struct attention_truth *truth, const struct attention_case *c, int64_t i, int64_t j,
                     int64_t h, int64_t k)
{
    int64_t n = c->how.n_column;
    return k < n ? truth->input[ATTENTION_KEY][(j * c->how.n_head + h) * n + k] : feature(c, i, j, k - n);
}

static double value_at(const struct attention_truth *truth, const struct attention_case *c, int64_t i, int64_t j,
                       int64_t h, int64_t k)
{
    int64_t n = c->how.n_column;
    return k < n ? truth->input[ATTENTION_VALUE][(j * c->how.n_head + h) * n + k] : feature(c, i, j, k - n);
}

static double score(const struct attention_truth *truth, const struct attention_case *c, int64_t i, int64_t j,
                    int64_t h)
{
    int64_t heads = c->how.n_head, n = c->how.n_column;
    const double *key = truth->input[ATTENTION_KEY], *query = truth->input[ATTENTION_QUERY];
    if (c->how.score == DEVICE_SCORE_ADD) {
        return leaky(c, inner(truth, c, i, j, h, 0));
    }
    double sum = 0.0;
    int64_t wide = device_attention_columns(&c->how);
    for (int64_t k = 0; k < wide; k++) {
        int64_t at_i = (i * heads + h) * wide + k, at_j = (j * heads + h) * n + k;
        if (c->how.score == DEVICE_SCORE_DOT) {
            sum += c->how.scale * key_at(truth, c, i, j, h, k) * query[at_i];
        } else if (c->how.score == DEVICE_SCORE_COSINE) {
            sum += key[j * heads + h] * truth->input[ATTENTION_VALUE][at_j] * query[at_i];
        } else {
            sum += truth->input[ATTENTION_ATT][h * n + k] * leaky(c, inner(truth, c, i, j, h, k));
        }
    }
    return sum;
}

/* alpha[j] = softmax over the in-edges of i, 0 where there is no edge */
static void softmax(const struct attention_truth *truth, const struct attention_case *c, int64_t i, int64_t h,
                    double *alpha)
{
    double greatest = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < c->n; j++) {
        alpha[j] = is_edge(c, i, j) ? score(truth, c, i, j, h) : -INFINITY;
        greatest = fmax(greatest, alpha[j]);
    }
    for (int64_t j = 0; j < c->n; j++) {
        alpha[j] = alpha[j] > -INFINITY ? exp(alpha[j] - greatest) : 0.0;
        sum += alpha[j];
    }
    if (sum == 0.0) {
        return; /* no in-edges */
    }
    for (int64_t j = 0; j < c->n; j++) {
        alpha[j] /= sum;
    }
}

/* Dropout's factor of the coefficient of j → i: 0, or 1 / (1 - p). */
static double drop_factor(const struct attention_case *c, int64_t i, int64_t j, int64_t h)
{
    bool dropped = c->how.p > 0.0 && random_edge_u32(&c->how.key, c->node[i], c->node[j], (uint32_t)h) <
                                         random_drop_threshold(c->how.p);
    return dropped ? 0.0 : 1.0 / (1.0 - c->how.p);
}

double attention_truth_forward(struct attention_truth *truth, const struct attention_case *c)
{
    int64_t heads = c->how.n_head, n = device_attention_columns(&c->how);
    double *alpha = device_scratch((size_t)c->n * sizeof *alpha), loss = 0.0;
    for (int64_t row = 0; row < c->n * heads; row++) {
        int64_t i = row / heads, h = row % heads;
        double *out = truth->grad[ATTENTION_OUT] + row * n;
        memset(out, 0, (size_t)n * sizeof *out);
        softmax(truth, c, i, h, alpha);
        for (int64_t j = 0; j < c->n; j++) {
            if (alpha[j] == 0.0) {
                continue;
            }
            for (int64_t k = 0; k < n; k++) {
                out[k] += drop_factor(c, i, j, h) * alpha[j] * value_at(truth, c, i, j, h, k);
            }
        }
        for (int64_t k = 0; k < n; k++) {
            loss += truth->input[ATTENTION_OUT][row * n + k] * out[k];
        }
    }
    free(alpha);
    return loss;
}

/* Add the gradients of the score's inputs, from the score's gradient `de`. */
static void score_backward(struct attention_truth *truth, const struct attention_case *c, int64_t i, int64_t j,
                           int64_t h, double de)
{
    int64_t heads = c->how.n_head, n = c->how.n_column;
    const double *key = truth->input[ATTENTION_KEY], *query = truth->input[ATTENTION_QUERY];
    double *grad_key = truth->grad[ATTENTION_KEY], *grad_query = truth->grad[ATTENTION_QUERY];
    if (c->how.score == DEVICE_SCORE_ADD) {
        double x = inner(truth, c, i, j, h, 0);
        grad_key[j * heads + h] += de * slope(c, x);
        grad_query[i * heads + h] += de * slope(c, x);
        for (int64_t d = 0; d < c->how.n_edge_column; d++) {
            truth->grad[ATTENTION_EDGE][h * c->how.n_edge_column + d] += de * slope(c, x) * feature(c, i, j, d);
        }
        return;
    }
    int64_t wide = device_attention_columns(&c->how);
    for (int64_t k = 0; k < wide; k++) {
        int64_t at_i = (i * heads + h) * wide + k, at_j = (j * heads + h) * n + k;
        if (c->how.score == DEVICE_SCORE_DOT) {
            grad_query[at_i] += c->how.scale * de * key_at(truth, c, i, j, h, k);
            if (k < n) {
                grad_key[at_j] += c->how.scale * de * query[at_i];
            }
        } else if (c->how.score == DEVICE_SCORE_COSINE) {
            double value = truth->input[ATTENTION_VALUE][at_j], scale = key[j * heads + h];
            grad_key[j * heads + h] += de * value * query[at_i];
            grad_query[at_i] += de * scale * value;
            truth->grad[ATTENTION_VALUE][at_j] += de * scale * query[at_i];
        } else {
            double x = inner(truth, c, i, j, h, k);
            double att = truth->input[ATTENTION_ATT][h * n + k];
            truth->grad[ATTENTION_VALUE][at_j] += de * att * slope(c, x);
            grad_query[at_i] += de * att * slope(c, x);
            truth->grad[ATTENTION_ATT][h * n + k] += de * leaky(c, x);
            for (int64_t d = 0; d < c->how.n_edge_column; d++) {
                truth->grad[ATTENTION_EDGE][(d * heads + h) * n + k] += de * att * slope(c, x) * feature(c, i, j, d);
            }
        }
    }
}

void attention_truth_backward(struct attention_truth *truth, const struct attention_case *c)
{
    int64_t heads = c->how.n_head, n = device_attention_columns(&c->how);
    double *alpha = device_scratch((size_t)c->n * sizeof *alpha), *grad = device_scratch((size_t)c->n * sizeof *grad);
    for (int64_t row = 0; row < c->n * heads; row++) {
        int64_t i = row / heads, h = row % heads;
        const double *grad_out = truth->input[ATTENTION_OUT] + row * n;
        double mean = 0.0;
        softmax(truth, c, i, h, alpha);
        for (int64_t j = 0; j < c->n; j++) {
            grad[j] = 0.0; /* of alpha[j] */
            if (alpha[j] == 0.0) {
                continue;
            }
            for (int64_t k = 0; k < n; k++) {
                int64_t at_j = (j * heads + h) * c->how.n_column + k;
                grad[j] += drop_factor(c, i, j, h) * grad_out[k] * value_at(truth, c, i, j, h, k);
                if (k < c->how.n_column) {
                    truth->grad[ATTENTION_VALUE][at_j] += drop_factor(c, i, j, h) * alpha[j] * grad_out[k];
                }
            }
            mean += alpha[j] * grad[j];
        }
        for (int64_t j = 0; j < c->n; j++) {
            if (alpha[j] > 0.0) {
                score_backward(truth, c, i, j, h, alpha[j] * (grad[j] - mean));
            }
        }
    }
    free(alpha);
    free(grad);
}

/* --- the same through a device --- */

/* Block b of the in-edges (or, transposed, of the out-edges): columns first … end-1; all rows or those with edges. */
static void open_block(struct device *device, const struct attention_case *c, int b, bool transposed,
                       struct device_block *block)
{
    int64_t n = c->n, first = n * b / c->n_block, end = n * (b + 1) / c->n_block, n_edge = 0, n_row = 0;
    uint32_t *rows = device_scratch((size_t)n * sizeof *rows), *cols = device_scratch((size_t)(n * n) * sizeof *cols);
    uint32_t *of = device_scratch((size_t)(n * n) * sizeof *of);
    int64_t *indptr = device_scratch((size_t)(n + 1) * sizeof *indptr);
    for (int64_t r = 0; r < n; r++) {
        for (int64_t j = first; j < end; j++) {
            if (c->edge[transposed ? j * n + r : r * n + j]) {
                of[n_edge] = (uint32_t)(transposed ? j * n + r : r * n + j);
                cols[n_edge++] = (uint32_t)(j - first);
            }
        }
        if (b == 0 || n_edge > indptr[n_row]) {
            rows[n_row++] = (uint32_t)r;
            indptr[n_row] = n_edge;
        }
    }
    if (b == 0) {
        free(rows);
        rows = NULL;
    }
    *block = (struct device_block){
        .n_row = n_row, .n_col = end - first, .n_edge = n_edge, .rows = rows, .indptr = indptr, .cols = cols};
    block->edge_rows = c->feature != NULL ? of : NULL;
    block->edge_table = c->feature;
    if (c->feature == NULL) {
        free(of);
    }
    cr_assert_eq(device->ops->block_open(device, block), STATUS_OK);
}

static void close_block(struct device *device, struct device_block *block)
{
    device->ops->block_close(device, block);
    free((void *)block->rows);
    free((void *)block->indptr);
    free((void *)block->cols);
    free((void *)block->edge_rows);
}

static const float *from_row(const struct attention_case *c, enum attention_tensor tensor, int64_t row)
{
    int64_t size = attention_size(c, tensor);
    return size > 0 ? c->input[tensor] + row * (size / c->n) : NULL;
}

static struct device_attention_source source_from(const struct attention_case *c, int64_t row)
{
    return (struct device_attention_source){from_row(c, ATTENTION_VALUE, row), from_row(c, ATTENTION_KEY, row)};
}

static struct device_attention_target target_from(const struct attention_case *c, const float *pairs, int64_t row)
{
    return (struct device_attention_target){from_row(c, ATTENTION_QUERY, row), pairs + 2 * c->how.n_head * row,
                                            from_row(c, ATTENTION_OUT, row)};
}

static void run_block(struct device *device, const struct attention_case *c, int b, bool backward,
                      const struct device_attention_state *state, float *const *result)
{
    int64_t first = c->n * b / c->n_block;
    struct device_attention how = c->how;
    struct device_block block;
    struct device_attention_rows rows = {.how = &how,
                                         .block = &block,
                                         .begin = b == 0,
                                         .with_self = c->with_self,
                                         .source = source_from(c, first),
                                         .self_source = source_from(c, 0),
                                         .target = target_from(c, state->softmax, 0)};
    how.col_node = c->node + first;
    open_block(device, c, b, false, &block);
    if (!backward) {
        device->ops->attention_forward(device, &rows, state, result[ATTENTION_OUT]);
        close_block(device, &block);
        return;
    }
    if (how.score != DEVICE_SCORE_ADD || how.n_edge_column > 0) {
        size_t n_bytes = device_attention_bytes(device->ops, block.n_row, &how);
        void *scratch = device_scratch(n_bytes);
        memset(scratch, 0x55, n_bytes);
        int64_t n_edge = attention_size(c, ATTENTION_EDGE);
        float *grad_edge = device_scratch((size_t)n_edge * sizeof *grad_edge);
        device->ops->attention_backward_query(device, &rows, scratch, result[ATTENTION_QUERY],
                                              how.score == DEVICE_SCORE_MLP ? result[ATTENTION_ATT] : NULL,
                                              n_edge > 0 ? grad_edge : NULL);
        for (int64_t k = 0; k < n_edge; k++) {
            result[ATTENTION_EDGE][k] = (b == 0 ? 0.0f : result[ATTENTION_EDGE][k]) + grad_edge[k];
        }
        free(grad_edge);
        free(scratch);
    }
    close_block(device, &block);
    open_block(device, c, b, true, &block);
    rows.source = rows.self_source;
    rows.self_target = rows.target;
    rows.target = target_from(c, state->softmax, first);
    device->ops->attention_backward_source(device, &rows, result[ATTENTION_VALUE],
                                           how.score == DEVICE_SCORE_MLP ? NULL : result[ATTENTION_KEY]);
    close_block(device, &block);
}

void attention_run(struct device *device, const void *context, float *out)
{
    const struct attention_case *c = context;
    float *result[ATTENTION_TENSOR_N];
    for (int t = 0; t < ATTENTION_TENSOR_N; t++) {
        result[t] = out;
        out += attention_size(c, (enum attention_tensor)t);
    }
    size_t heads = (size_t)(c->n * c->how.n_head), wide = heads * (size_t)c->how.n_column;
    struct device_attention_state state = {.softmax = device_scratch(2 * heads * sizeof(float))};
    if (c->how.score == DEVICE_SCORE_ADD && c->how.n_edge_column == 0 && !c->forward_only) {
        state.positive = device_scratch(wide * sizeof(float));
        state.positive_weight = device_scratch(heads * sizeof(float));
        memset(state.positive, 0x55, wide * sizeof(float));
        memset(state.positive_weight, 0x55, heads * sizeof(float));
    }
    memset(state.softmax, 0x55, 2 * heads * sizeof(float));
    for (int b = 0; b < c->n_block; b++) {
        run_block(device, c, b, false, &state, result);
    }
    device->ops->attention_finish(device, c->n, &c->how, &state, result[ATTENTION_OUT]);
    if (!c->forward_only) {
        device->ops->attention_backward_begin(device, c->n, &c->how, c->input[ATTENTION_OUT], result[ATTENTION_OUT],
                                              &state, false, result[ATTENTION_QUERY]);
    }
    int n_backward = c->forward_only ? 0 : c->n_block;
    for (int b = 0; b < n_backward; b++) {
        run_block(device, c, b, true, &state, result);
    }
    free(state.softmax);
    free(state.positive);
    free(state.positive_weight);
}
