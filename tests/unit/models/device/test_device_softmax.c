/* GAT's attention against an oracle: each edge's coefficient in double from its formula, and gradients edge by edge.
 * Scores that strain a softmax, rows of few and of many edges, heads of many widths, rows whose edges lie in two
 * blocks, and leaky functions that fall. */
#include "models/device/device.h"
#include "protocol/base/random.h"
#include "tests/support/device/device_case.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum scores {
    SCORES_SMALL,
    SCORES_WIDE, /* ± 60 */
    SCORES_ONE,  /* one source outweighs all others */
    SCORES_EQUAL,
    SCORES_MASKED,  /* most sources are at -2^100 */
    SCORES_FALLING, /* leaky falls where keys are negative */
    SCORES_STEEP,   /* leaky rises faster there */
    SCORES_N
};

#define N_ROW 40
#define N_COL_FEW 1500
#define N_COL_MANY 70100

/* The last ones around the limits of rows that are worked on together: of up to 8 edges, in runs of 32. */
static int64_t degree(int64_t row, int64_t n_row)
{
    static const int64_t degrees[N_ROW] = {0, 1, 7, 8,  9, 33, 300, 2,  1025, 16, 0, 3, 31, 5,  1, 0, 2, 1, 3, 7,
                                           1, 9, 1, 17, 0, 1,  2,   33, 2,    1,  8, 8, 16, 31, 5, 6, 4, 1, 1, 2};
    (void)n_row;
    return degrees[row];
}

static int64_t degree_hub(int64_t row, int64_t n_row)
{
    return row == 6 ? 70000 : degree(row, n_row);
}

struct layer {
    struct device_attention how;
    struct device_block block, second, merged; /* second: some rows' edges, again; both in one */
    uint32_t second_rows[N_ROW];
    int64_t second_indptr[N_ROW + 1];
    struct device_attention_source far, own;   /* of columns, and of rows */
    struct device_attention_target to, own_to; /* likewise */
    uint32_t *node;
    enum {
        TWO_BLOCKS,
        LAST_IS_KNOWN,
        MERGED,
        N_WAY
    } way;              /* forward is told which block is the last, or there is one */
    double query_scale; /* the largest Σ_j |de_ij|, which may cancel */
    float *array[16];
    int n_array;
};

static float *numbers(struct layer *l, int64_t n, double range)
{
    float *x = device_random((size_t)n, (uint32_t)(31 * l->n_array + n));
    for (int64_t i = 0; i < n; i++) {
        x[i] *= (float)range;
    }
    l->array[l->n_array++] = x;
    return x;
}

static float *keys(struct layer *l, int64_t n, enum scores scores)
{
    const int64_t n_head = l->how.n_head;
    float *x = numbers(l, n * n_head, scores == SCORES_WIDE ? 60.0 : scores >= SCORES_FALLING ? 4.0 : 1.0);
    for (int64_t i = 0; i < n * n_head; i++) {
        x[i] = scores == SCORES_EQUAL                           ? 0.25F
               : scores == SCORES_ONE && i / n_head % 5 == 2    ? x[i] + 45.0F
               : scores == SCORES_MASKED && i / n_head % 4 != 1 ? -0x1p100F
                                                                : x[i];
    }
    return x;
}

static void layer_open(struct layer *l, int64_t n_head, int64_t n_column, enum scores scores, bool has_hub, double p)
{
    const int64_t n_col = has_hub ? N_COL_MANY : N_COL_FEW, wide = n_head * n_column;
    *l = (struct layer){
        .how = {.score = DEVICE_SCORE_ADD, .n_head = n_head, .n_column = n_column, .slope = 0.2F, .p = p}};
    l->how.slope = scores == SCORES_FALLING  ? -0.5F
                   : scores == SCORES_STEEP  ? 1.75F
                   : scores == SCORES_MASKED ? 0.25F /* scores are floats */
                                             : 0.2F;
    l->how.shift = scores == SCORES_SMALL ? 0.25F : 0.0F; /* of each edge: forward is the same */
    l->how.key = (struct random_key){.seed = 77, .op = 3, .stream = RANDOM_STREAM_EDGE};
    l->node = device_scratch((size_t)n_col * sizeof *l->node);
    for (uint32_t i = 0; i < n_col; i++) {
        l->node[i] = 5 * i + 1;
    }
    l->how.row_node = l->how.col_node = l->node;
    l->block = device_graph(N_ROW, n_col, has_hub ? degree_hub : degree);
    l->second = (struct device_block){
        .n_col = n_col, .rows = l->second_rows, .indptr = l->second_indptr, .cols = l->block.cols};
    for (uint32_t r = 0; r < N_ROW; r += 3) { /* the edges from the block's first on */
        l->second_rows[l->second.n_row++] = r;
        l->second.n_edge += r == 12 ? 513 : r % 2 == 0 ? 11 : 0;
        l->second_indptr[l->second.n_row] = l->second.n_edge;
    }
    l->merged = device_merge(2, (struct device_block[]){l->block, l->second}, false);
    l->far = (struct device_attention_source){numbers(l, n_col * wide, 1.0), keys(l, n_col, scores)};
    l->own = (struct device_attention_source){numbers(l, N_ROW * wide, 1.0), keys(l, N_ROW, scores)};
    l->to = (struct device_attention_target){.query = numbers(l, n_col * n_head, 1.0),
                                             .grad_out = numbers(l, n_col * wide, 1.0)};
    l->own_to = (struct device_attention_target){.query = numbers(l, N_ROW * n_head, 1.0),
                                                 .grad_out = numbers(l, N_ROW * wide, 1.0)};
    float *softmax[2] = {numbers(l, 2 * n_col * n_head, 1.0), numbers(l, 2 * N_ROW * n_head, 1.0)};
    for (int64_t i = 0; i < n_col * n_head; i++) { /* L: as of softmaxes over more edges than these */
        softmax[0][2 * i] += scores == SCORES_WIDE ? 61.0F : scores == SCORES_ONE ? 46.0F : 9.0F;
        if (i < N_ROW * n_head) {
            softmax[1][2 * i] += scores == SCORES_WIDE ? 61.0F : scores == SCORES_ONE ? 46.0F : 9.0F;
        }
    }
    l->to.softmax = softmax[0];
    l->own_to.softmax = softmax[1];
}

static void layer_close(struct layer *l)
{
    device_graph_free(&l->block);
    device_graph_free(&l->merged);
    free(l->node);
    for (int i = 0; i < l->n_array; i++) {
        free(l->array[i]);
    }
}

/* --- the oracle --- */

struct one_edge {
    double x, slope, mu;
    const float *value, *grad_out, *softmax;
};

/* Edge k of a row at head h: the one to itself, those of the block, those of the second. */
static bool edge_find(const struct layer *l, int64_t row, int64_t h, int64_t k, bool row_is_source,
                      struct one_edge *to)
{
    const struct device_attention *how = &l->how;
    const int64_t n = l->block.indptr[row + 1] - l->block.indptr[row];
    const int64_t n_second = row % 3 == 0 ? l->second_indptr[row / 3 + 1] - l->second_indptr[row / 3] : 0;
    if (k > n + n_second) {
        return false;
    }
    int64_t at = k <= n ? l->block.indptr[row] + k - 1 : l->second_indptr[row / 3] + k - n - 1;
    const bool is_self = k == 0;
    const int64_t other = (is_self ? row : (int64_t)l->block.cols[at]) * how->n_head + h,
                  mine = row * how->n_head + h;
    const struct device_attention_source *from = row_is_source || is_self ? &l->own : &l->far;
    const struct device_attention_target *end = row_is_source && !is_self ? &l->to : &l->own_to;
    const int64_t source = row_is_source ? mine : other, target = row_is_source ? other : mine;
    const uint32_t ends[2] = {l->node[row], is_self ? l->node[row] : l->node[other / how->n_head]};
    to->x = (double)(from->key[source] + end->query[target]);
    to->slope = to->x > 0.0 ? 1.0 : (double)how->slope;
    to->mu = random_edge_u32(&how->key, ends[row_is_source], ends[!row_is_source], (uint32_t)h) <
                     random_drop_threshold(how->p)
                 ? 0.0
                 : 1.0 / (1.0 - how->p);
    to->value = from->value + source * how->n_column;
    to->grad_out = end->grad_out + target * how->n_column;
    to->softmax = end->softmax + 2 * target;
    return true;
}

static double dot(const struct layer *l, const float *x, const float *y)
{
    double sum = 0.0;
    for (int64_t c = 0; c < l->how.n_column; c++) {
        sum += (double)x[c] * (double)y[c];
    }
    return sum;
}

/* Results, as a device's are: y, the gradient of queries; the gradients of values and keys. */
struct results {
    float *y, *grad_query, *grad_value, *grad_key;
};

static struct results results_of(const struct layer *l, float *out)
{
    const int64_t heads = N_ROW * l->how.n_head, wide = heads * l->how.n_column;
    return (struct results){out, out + wide, out + wide + heads, out + 2 * wide + heads};
}

static void oracle_forward(struct layer *l, int64_t row, int64_t h, const struct results *to)
{
    const int64_t mine = row * l->how.n_head + h;
    double greatest = -INFINITY, sum = 0.0, d = 0.0, grad = 0.0, scale = 0.0;
    double y[512] = {0.0};
    struct one_edge e;
    for (int64_t k = 0; edge_find(l, row, h, k, false, &e); k++) {
        greatest = fmax(greatest, e.slope * e.x);
    }
    for (int64_t k = 0; edge_find(l, row, h, k, false, &e); k++) {
        sum += exp(e.slope * e.x - greatest);
    }
    for (int64_t k = 0; edge_find(l, row, h, k, false, &e); k++) {
        const double alpha = exp(e.slope * e.x - greatest) / sum;
        for (int64_t c = 0; c < l->how.n_column; c++) {
            y[c] += e.mu * alpha * (double)e.value[c];
        }
        d += alpha * e.mu * dot(l, e.grad_out, e.value);
    }
    for (int64_t k = 0; edge_find(l, row, h, k, false, &e); k++) {
        const double alpha = exp(e.slope * e.x - greatest) / sum;
        const double de = alpha * (e.mu * dot(l, e.grad_out, e.value) - d);
        grad += de * e.slope;
        scale += fabs(de) + alpha * fabs(d);
    }
    l->query_scale = fmax(l->query_scale, scale);
    for (int64_t c = 0; c < l->how.n_column; c++) {
        to->y[mine * l->how.n_column + c] = (float)y[c];
    }
    to->grad_query[mine] = (float)grad;
}

static void oracle_source(const struct layer *l, int64_t row, int64_t h, const struct results *to)
{
    const int64_t mine = row * l->how.n_head + h;
    double grad_value[512] = {0.0}, grad_key = 0.0;
    struct one_edge e;
    for (int64_t k = 0; edge_find(l, row, h, k, true, &e); k++) {
        const double alpha = exp(e.slope * e.x + (double)l->how.shift - (double)e.softmax[0]);
        for (int64_t c = 0; c < l->how.n_column; c++) {
            grad_value[c] += e.mu * alpha * (double)e.grad_out[c];
        }
        grad_key += alpha * (e.mu * dot(l, e.grad_out, e.value) - (double)e.softmax[1]) * e.slope;
    }
    for (int64_t c = 0; c < l->how.n_column; c++) {
        to->grad_value[mine * l->how.n_column + c] = (float)grad_value[c];
    }
    to->grad_key[mine] = (float)grad_key;
}

/* --- a device --- */

static void device_results(struct device *device, struct layer *l, float *out)
{
    const int64_t heads = N_ROW * l->how.n_head, wide = heads * l->how.n_column;
    const struct results to = results_of(l, out);
    float *positive = numbers(l, wide, 1.0), *weight = numbers(l, heads, 1.0), *softmax = numbers(l, 2 * heads, 1.0);
    const struct device_attention_state state = {softmax, positive, weight};
    struct device_block block = l->way == MERGED ? l->merged : l->block, second = l->second;
    cr_assert_eq(device->ops->block_open(device, &block), STATUS_OK);
    cr_assert_eq(device->ops->block_open(device, &second), STATUS_OK);
    struct device_attention_rows rows = {&l->how, &block, true, true, l->far, l->own, l->own_to, l->own_to, false};
    device->ops->attention_forward(device, &rows, &state, to.y);
    rows.block = &second;
    rows.begin = false;
    rows.last = l->way == LAST_IS_KNOWN;
    if (l->way != MERGED) {
        device->ops->attention_forward(device, &rows, &state, to.y);
    }
    device->ops->attention_finish(device, N_ROW, &l->how, &state, to.y);
    device->ops->attention_backward_begin(device, N_ROW, &l->how, l->own_to.grad_out, to.y, &state, false,
                                          to.grad_query);
    rows = (struct device_attention_rows){&l->how, &block, true, true, l->own, l->own, l->to, l->own_to, false};
    device->ops->attention_backward_source(device, &rows, to.grad_value, to.grad_key);
    rows.block = &second;
    rows.begin = false;
    if (l->way != MERGED) {
        device->ops->attention_backward_source(device, &rows, to.grad_value, to.grad_key);
    }
    cr_assert_eq(device_sync(device), STATUS_OK);
    device->ops->block_close(device, &second);
    device->ops->block_close(device, &block);
    for (int i = 0; i < 3; i++) {
        free(l->array[--l->n_array]);
    }
}

static double error_of(int64_t n, const float *got, const float *expected, double least)
{
    double error = 0.0, greatest = least;
    for (int64_t i = 0; i < n; i++) {
        error = isnan(got[i]) ? INFINITY : fmax(error, fabs((double)got[i] - (double)expected[i]));
        greatest = fmax(greatest, fabs((double)expected[i]));
    }
    return error / greatest;
}

static void check(const struct device_ops *ops, struct layer *l, const float *expected, double tolerance)
{
    struct device *device = NULL;
    const int64_t heads = N_ROW * l->how.n_head, wide = heads * l->how.n_column, n = 2 * (wide + heads);
    const int64_t at[] = {0, wide, wide + heads, 2 * wide + heads, n};
    float *out[2] = {device_scratch((size_t)n * sizeof(float)), device_scratch((size_t)n * sizeof(float))};
    cr_assert_eq(ops->open(2, &device), STATUS_OK);
    const bool merges = ops->merges_attention && l->block.n_edge < DEVICE_HUB_EDGES;
    for (l->way = TWO_BLOCKS; l->way < (merges ? N_WAY : MERGED); l->way++) {
        device_results(device, l, out[l->way > TWO_BLOCKS]);
        cr_expect_arr_eq(out[l->way > TWO_BLOCKS], out[0], (size_t)n * sizeof(float), "%s: other bits, %d", ops->name,
                         (int)l->way);
    }
    for (int k = 0; k < 4; k++) {
        const double error = error_of(at[k + 1] - at[k], out[0] + at[k], expected + at[k],
                                      k == 1 ? l->query_scale : 0.0);
        cr_expect_leq(error, tolerance, "%s, %d x %d, slope %g: result %d is off by %.2g", ops->name,
                      (int)l->how.n_head, (int)l->how.n_column, (double)l->how.slope, k, error);
    }
    ops->close(device);
    free(out[0]);
    free(out[1]);
}

static void check_all(int64_t n_head, int64_t n_column, enum scores scores, bool has_hub, double p)
{
    struct layer l;
    layer_open(&l, n_head, n_column, scores, has_hub, p);
    const size_t n = (size_t)(2 * N_ROW * n_head * (n_column + 1));
    float *expected = device_scratch(n * sizeof *expected);
    const struct results to = results_of(&l, expected);
    for (int64_t i = 0; i < N_ROW * n_head; i++) {
        oracle_forward(&l, i / n_head, i % n_head, &to);
        oracle_source(&l, i / n_head, i % n_head, &to);
    }
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        check(device_tables[d], &l, expected, TOLERANCE_ATTENTION_LARGE);
    }
    free(expected);
    layer_close(&l);
}

Test(attention, is_that_of_an_oracle_whatever_the_scores_are)
{
    static const int64_t shapes[][2] = {{4, 64}, {3, 20}, {8, 8},  {1, 128}, {2, 5}, {1, 300},
                                        {5, 64}, {3, 47}, {4, 32}, {9, 33},  {13, 4}};
    const int n_shape = sizeof shapes / sizeof *shapes;
    for (int i = 0; i < n_shape * SCORES_N; i += SANITIZED ? 4 : 1) {
        check_all(shapes[i % n_shape][0], shapes[i % n_shape][1], (enum scores)(i % SCORES_N), false,
                  i / n_shape % 2 == 0 ? 0.3 : 0.0);
    }
}

Test(attention, of_a_hub_row_is_that_of_an_oracle)
{
    for (int scores = SCORES_SMALL; scores < SCORES_N; scores += SANITIZED ? 3 : 1) {
        check_all(2, scores % 2 == 0 ? 4 : 3, (enum scores)scores, true, 0.0);
    }
}
