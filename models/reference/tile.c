/* Tile programs, one node or edge after another, in double. */
#include "models/reference/reference.h"

#include "models/device/device_list.h"
#include "models/device/tile_edges.h"

#include <math.h>
#include <string.h>

/* One node or edge: its rows, and what draws and winners are keyed by. */
struct point {
    const float *rows[TILE_ROWS_N];
    uint32_t source, target;
};

struct run {
    const struct device_tile *how;
    struct random_key key;
    double factor; /* of results that are sums */
    double *at;    /* registers */
    double *grad;  /* of parameters, one behind the other */
};

static double operand(const struct run *run, const struct point *p, const struct tile_operand *o, int64_t h,
                      int64_t c, int64_t k)
{
    int64_t at = o->at + h * o->head + c * o->column + k * o->inner;
    switch (o->kind) {
    case TILE_REGISTER:
        return run->at[at];
    case TILE_ROW:
        return p->rows[o->which][at];
    case TILE_PARAM:
        return run->how->param[o->which][at];
    case TILE_NUMBER:
        break;
    }
    return o->number;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* Number i that a result adds to a row. */
static double leaving(const struct run *run, const struct point *p, const struct tile_result *r, int64_t i)
{
    double value = operand(run, p, &r->from, 0, i, 0);
    return r->n_with > 0 ? value * operand(run, p, &r->with, 0, i / (r->n / r->n_with), 0) : value;
}

static double unary(const struct tile_instruction *i, double x)
{
    switch (i->op) {
    case TILE_OP_RELU:
        return x <= 0.0 ? 0.0 : x;
    case TILE_OP_LEAKY_RELU:
        return x > 0.0 ? x : x * i->number[0];
    case TILE_OP_ELU:
        return x > 0.0 ? x : expm1(x);
    case TILE_OP_GELU:
        return 0.5 * x * erfc(-x * M_SQRT1_2);
    case TILE_OP_SILU:
        return x * sigmoid(x);
    case TILE_OP_SIGMOID:
        return sigmoid(x);
    case TILE_OP_TANH:
        return tanh(x);
    case TILE_OP_SOFTPLUS:
        return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x));
    case TILE_OP_EXP:
        return exp(x);
    case TILE_OP_LOG:
        return log(x);
    case TILE_OP_SQRT:
        return sqrt(x);
    case TILE_OP_ABS:
        return fabs(x);
    case TILE_OP_CLAMP:
        return x < i->number[0] ? i->number[0] : x > i->number[1] ? i->number[1] : x;
    case TILE_OP_POWER:
        return pow(x, i->number[0]);
    default:
        return x;
    }
}

/* The gradient of f, g times its derivative where it read x, or made y = x. */
static double back(const struct tile_instruction *i, double g, double x)
{
    switch (i->op) {
    case TILE_OP_RELU_BACK:
        return x > 0.0 ? g : 0.0;
    case TILE_OP_LEAKY_RELU_BACK:
        return x > 0.0 ? g : g * i->number[0];
    case TILE_OP_ELU_BACK:
        return x > 0.0 ? g : g * (x + 1.0);
    case TILE_OP_GELU_BACK:
        return g * (0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) * (0.5 * M_2_SQRTPI * M_SQRT1_2));
    case TILE_OP_SILU_BACK:
        return g * sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)));
    case TILE_OP_SIGMOID_BACK:
        return g * x * (1.0 - x);
    case TILE_OP_TANH_BACK:
        return g * (1.0 - x * x);
    case TILE_OP_SOFTPLUS_BACK:
        return g * sigmoid(x);
    case TILE_OP_SQRT_BACK:
        return g == 0.0 || (x == 0.0 && i->number[0] != 0.0F) ? 0.0 : 0.5 * g / x;
    case TILE_OP_ABS_BACK:
        return x > 0.0 ? g : x < 0.0 ? -g : 0.0;
    case TILE_OP_CLAMP_BACK:
        return x < i->number[0] || x > i->number[1] ? 0.0 : g;
    case TILE_OP_POWER_BACK:
        return g == 0.0 || i->number[0] == 0.0F ? 0.0 : g * i->number[0] * pow(x, i->number[0] - 1.0);
    default:
        return g;
    }
}

static double binary(const struct tile_instruction *i, double a, double b)
{
    switch (i->op) {
    case TILE_OP_ADD:
        return a + b;
    case TILE_OP_SUBTRACT:
        return a - b;
    case TILE_OP_MULTIPLY:
        return a * b;
    case TILE_OP_DIVIDE:
        return a / b;
    case TILE_OP_MINIMUM:
        return a < b || isnan(a) ? a : b;
    case TILE_OP_MAXIMUM:
        return a > b || isnan(a) ? a : b;
    case TILE_OP_LESS:
        return a < b ? 1.0 : a == b ? 0.5 : 0.0;
    default:
        return back(i, a, b);
    }
}

static double dropped(const struct run *run, const struct point *p, const struct tile_instruction *i, int64_t element,
                      double x)
{
    const double rate = (double)i->number[0];
    uint32_t head = (uint32_t)((int64_t)i->number[1] + element);
    if (!run->how->drops) {
        return x;
    }
    bool drops = random_edge_u32(&run->key, p->target, p->source, head) < random_drop_threshold(rate);
    return drops ? 0.0 : x * (double)(float)(1.0 / (1.0 - rate));
}

static double element(const struct run *run, const struct point *p, const struct tile_instruction *i, int64_t h,
                      int64_t c)
{
    double a = operand(run, p, &i->a, h, c, 0), sum = 0.0;
    if (i->op == TILE_OP_CONTRACT) {
        for (int64_t k = 0; k < i->n_inner; k++) {
            sum += operand(run, p, &i->a, h, c, k) * operand(run, p, &i->b, h, c, k);
        }
        return sum;
    }
    if (i->op == TILE_OP_DROP) {
        return dropped(run, p, i, h * i->n_column + c, a);
    }
    if (i->op == TILE_OP_WON) { /* the bits of a node id are no number */
        const float *winner = p->rows[i->b.which] + i->b.at + h * i->b.head + c * i->b.column;
        uint32_t node;
        memcpy(&node, winner, sizeof node);
        return node == p->source ? a / run->factor : 0.0;
    }
    return tile_op_n_operand(i->op) > 1 ? binary(i, a, operand(run, p, &i->b, h, c, 0)) : unary(i, a);
}

static void instructions_run(const struct run *run, const struct point *p)
{
    const struct tile *tile = run->how->tile;
    for (int n = 0; n < tile->n_instruction; n++) {
        const struct tile_instruction *i = &tile->instruction[n];
        for (int64_t h = 0; h < i->n_head; h++) {
            for (int64_t c = 0; c < i->n_column; c++) {
                run->at[i->out + h * i->out_head + c] = element(run, p, i, h, c);
            }
        }
    }
}

/* --- weights' gradients --- */

static struct run run_begin(const struct device_tile *how, double factor)
{
    double *scratch = how->scratch;
    struct run run = {.how = how,
                      .key = device_key(&how->key, how->now),
                      .factor = factor,
                      .at = scratch,
                      .grad = scratch + how->tile->n_float};
    for (int64_t i = tile_n_grad(how->tile) - 1; i >= 0; i--) {
        run.grad[i] = 0.0;
    }
    return run;
}

static void param_add(const struct run *run, const struct point *p, const struct tile_result *r, double factor)
{
    double *grad = run->grad + tile_grad_at(run->how->tile, r->which) + r->at;
    for (int64_t i = 0; i < r->n; i++) {
        double from = factor * operand(run, p, &r->from, 0, i, 0);
        if (r->n_with == 0) {
            grad[i] += from;
        }
        for (int64_t j = 0; j < r->n_with; j++) {
            grad[i * r->step + j * r->step_with] += from * operand(run, p, &r->with, 0, j, 0);
        }
    }
}

static void params_end(const struct run *run)
{
    const struct device_tile *how = run->how;
    for (int p = 0; p < TILE_N_PARAM; p++) {
        int64_t at = tile_grad_at(how->tile, p);
        for (int64_t i = 0; at >= 0 && how->grad_param[p] != NULL && i < how->tile->param[p]; i++) {
            double before = how->add_param[p] ? how->grad_param[p][i] : 0.0;
            how->grad_param[p][i] = (float)(before + run->grad[at + i]);
        }
    }
}

/* --- rows --- */

void reference_tile_rows(struct device *device, int64_t n, const struct device_tile *how)
{
    const struct tile *tile = how->tile;
    struct run run = run_begin(how, 1.0);
    (void)device;
    for (int t = 0; t < TILE_TARGET_N; t++) {
        if (how->to[t] != NULL && !how->add[t]) {
            memset(how->to[t], 0, (size_t)(n * tile->target[t]) * sizeof(float));
        }
    }
    for (int64_t row = 0; row < n; row++) {
        struct point p = {.source = how->row_node != NULL ? how->row_node[row] : 0};
        p.target = p.source;
        for (int k = 0; k < TILE_ROWS_N; k++) {
            p.rows[k] = how->rows[k] != NULL ? how->rows[k] + row * tile->width[k] : NULL;
        }
        instructions_run(&run, &p);
        for (int k = 0; k < tile->n_result; k++) {
            const struct tile_result *r = &tile->result[k];
            if (r->target == TILE_TARGET_PARAM) {
                param_add(&run, &p, r, 1.0);
                continue;
            }
            float *to = how->to[r->target];
            for (int64_t i = 0; to != NULL && i < r->n; i++) {
                to[row * tile->target[r->target] + r->at + i] += (float)leaving(&run, &p, r, i);
            }
        }
    }
    params_end(&run);
}

/* --- edges --- */

/* Edge e of a row, or with e < 0 its edge to itself. */
static void point_of(const struct device_tile_edges *how, int64_t row, int64_t e, struct point *p)
{
    static const float one = 1.0F;
    const struct tile *tile = how->of.tile;
    const struct device_block *block = how->block;
    int64_t col = e < 0 ? row : block->cols[e];
    for (int k = 0; k < TILE_ROWS_WEIGHT; k++) {
        bool far = device_tile_is_far(how, k);
        const float *rows = far && e < 0 ? how->self_rows[k] : how->of.rows[k];
        p->rows[k] = rows != NULL ? rows + (far ? col : row) * tile->width[k] : NULL;
    }
    bool weighs = e >= 0 && block->edge_table == NULL && block->weights != NULL;
    p->rows[TILE_ROWS_WEIGHT] = weighs ? &block->weights[e] : &one;
    p->rows[TILE_ROWS_FEATURE] = e >= 0 && block->edge_table != NULL
                                     ? block->edge_table +
                                           (int64_t)block->edge_rows[e] * tile->width[TILE_ROWS_FEATURE]
                                     : NULL;
    uint32_t own = how->of.row_node[row], other = e < 0 ? own : how->col_node[col];
    p->source = how->rows_are_sources ? own : other;
    p->target = how->rows_are_sources ? other : own;
}

/* exp(value - most), 0 where both are -inf */
static double exponential(double value, float most)
{
    return value == -(double)INFINITY ? 0.0 : exp(value - (double)most);
}

/* y exp(s) is added to out and exp(s) to saved[j], relative to the greatest score so far, which lies behind the
 * sums. */
static void softmax_add(const struct run *run, const struct point *p, const struct tile_result *r, float shift,
                        float *out, float *saved)
{
    const int64_t width = r->n / r->n_with;
    for (int64_t j = 0; j < r->n_with; j++) {
        float *sum = &saved[j], *most = &saved[r->n_with + j];
        const double score = operand(run, p, &r->with, 0, j, 0) + (double)shift;
        const double before = score > *most ? exp((double)*most - score) : 1.0;
        *most = score > *most ? (float)score : *most;
        const double weight = exponential(score, *most);
        *sum = (float)(*sum * before + weight);
        for (int64_t c = j * width; c < (j + 1) * width; c++) {
            out[c] = (float)(out[c] * before + weight * operand(run, p, &r->from, 0, c, 0));
        }
    }
}

static void result_add(const struct device_tile_edges *how, const struct run *run, const struct point *p,
                       const struct tile_result *r, float *out, float *saved)
{
    if (r->reduction == TILE_REDUCTION_SOFTMAX) {
        softmax_add(run, p, r, how->shift, out + r->at, saved + r->saved);
        return;
    }
    for (int64_t i = 0; i < r->n; i++) {
        float *to = &out[r->at + i];
        double value = leaving(run, p, r, i);
        bool best = isnan(value) || (r->reduction == TILE_REDUCTION_MAX ? (float)value > *to : (float)value < *to);
        switch (r->reduction) {
        case TILE_REDUCTION_SUM:
            *to = (float)(*to + run->factor * value);
            break;
        case TILE_REDUCTION_MAX:
        case TILE_REDUCTION_MIN:
            if (best) {
                *to = (float)value;
                memcpy(&saved[r->saved + i], &p->source, sizeof p->source);
            }
            break;
        case TILE_REDUCTION_LOGSUMEXP: /* the greatest so far, and Σ exp(value - it) */
            value += (double)how->shift;
            if (value > *to) {
                saved[r->saved + i] = (float)(saved[r->saved + i] * exp((double)*to - value) + 1.0);
                *to = (float)value;
            } else {
                saved[r->saved + i] += (float)exponential(value, *to);
            }
            break;
        case TILE_REDUCTION_SOFTMAX:
            break;
        }
    }
}

/* One edge's results: of the row, and of weights. */
static void edge_run(const struct device_tile_edges *how, const struct run *run, int64_t row, int64_t e)
{
    const struct tile *tile = how->of.tile;
    struct point p;
    point_of(how, row, e, &p);
    instructions_run(run, &p);
    for (int k = 0; k < tile->n_result; k++) {
        const struct tile_result *r = &tile->result[k];
        if (r->target == TILE_TARGET_PARAM) {
            param_add(run, &p, r, run->factor);
        } else if (how->of.to[r->target] != NULL) {
            result_add(how, run, &p, r, how->of.to[r->target] + row * tile->target[r->target],
                       how->saved != NULL ? how->saved + row * tile->saved : NULL);
        }
    }
}

static void row_begin(const struct device_tile_edges *how, int64_t row)
{
    const struct tile *tile = how->of.tile;
    for (int k = 0; k < tile->n_result; k++) {
        const struct tile_result *r = &tile->result[k];
        if (r->target != TILE_TARGET_PARAM && how->of.to[r->target] != NULL) {
            device_tile_begin(r, how->of.to[r->target] + row * tile->target[r->target],
                              how->saved != NULL ? how->saved + row * tile->saved : NULL);
        }
    }
}

/* Columns of a target that no result writes are 0. */
static void rows_begin(const struct device_tile_edges *how)
{
    const struct tile *tile = how->of.tile;
    for (int t = 0; t < TILE_TARGET_N; t++) {
        if (how->of.to[t] != NULL) {
            memset(how->of.to[t], 0, (size_t)(how->block->n_row * tile->target[t]) * sizeof(float));
        }
    }
    for (int64_t row = 0; row < how->block->n_row; row++) {
        row_begin(how, row);
    }
}

void reference_tile_edges(struct device *device, const struct device_tile_edges *how)
{
    const struct device_block *block = how->block;
    struct run run = run_begin(&how->of, (double)how->factor);
    (void)device;
    if (how->begin) {
        rows_begin(how);
    }
    for (int64_t r = 0; r < block->n_row; r++) {
        int64_t row = block->rows != NULL ? block->rows[r] : r;
        if (how->begin && how->with_self) {
            edge_run(how, &run, row, -1);
        }
        for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
            edge_run(how, &run, row, e);
        }
    }
    for (int64_t row = 0; row < how->n_finish; row++) {
        device_tile_end(how, row);
    }
    params_end(&run);
}
