#include "tests/support/model/truth.h"

#include "protocol/memory.h"
#include "protocol/random.h"
#include "tests/support/tolerance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void truth_open(const struct program *program, const struct test_graph *graph, struct truth *out)
{
    *out = (struct truth){.program = program, .graph = graph};
    out->weights = memory_alloc((size_t)program->n_weight, sizeof *out->weights);
    out->value = memory_alloc((size_t)program->n_value, sizeof *out->value);
    for (int v = 0; v < program->n_value; v++) {
        out->value[v] = memory_alloc((size_t)(graph->n_node * program->value[v].width), sizeof **out->value);
    }
}

void truth_release(struct truth *truth)
{
    for (int v = 0; v < truth->program->n_value; v++) {
        free(truth->value[v]);
    }
    free(truth->value);
    free(truth->weights);
}

static double activation(enum device_activation kind, double x)
{
    switch (kind) {
    case DEVICE_ACTIVATION_RELU:
        return fmax(x, 0.0);
    case DEVICE_ACTIVATION_ELU:
        return x > 0.0 ? x : exp(x) - 1.0;
    case DEVICE_ACTIVATION_LEAKY_RELU:
        return x > 0.0 ? x : 0.01 * x;
    case DEVICE_ACTIVATION_GELU:
        return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
    default:
        return x;
    }
}

static void activate(const struct truth *t, int index, const struct op *op, int64_t f, const double *x, double *y)
{
    struct random_key key = {.seed = t->seed, .epoch = t->epoch, .op = (uint16_t)index, .stream = RANDOM_STREAM_DROPOUT};
    for (int64_t r = 0; r < t->graph->n_node; r++) {
        for (int64_t c = 0; c < f; c++) {
            bool dropped = t->training && random_u32(&key, (uint64_t)r, (uint32_t)c) < op->dropout * 4294967296.0;
            double scale = t->training ? 1.0 / (1.0 - op->dropout) : 1.0;
            y[r * f + c] = dropped ? 0.0 : scale * activation(op->activation, x[r * f + c]);
        }
    }
}

static void linear(const struct truth *t, int64_t f_in, int64_t f_out, const double *w, const double *b, const double *x,
                   double *y)
{
    for (int64_t r = 0; r < t->graph->n_node; r++) {
        for (int64_t o = 0; o < f_out; o++) {
            double sum = b != NULL ? b[o] : 0.0;
            for (int64_t i = 0; i < f_in; i++) {
                sum += w[o * f_in + i] * x[r * f_in + i];
            }
            y[r * f_out + o] = sum;
        }
    }
}

static void layer_norm(const struct truth *t, int64_t f, const double *w, const double *b, const double *x, double *y)
{
    for (int64_t r = 0; r < t->graph->n_node; r++) {
        double sum = 0.0, square = 0.0;
        for (int64_t c = 0; c < f; c++) {
            sum += x[r * f + c];
            square += x[r * f + c] * x[r * f + c];
        }
        double mean = sum / (double)f, variance = square / (double)f - mean * mean;
        for (int64_t c = 0; c < f; c++) {
            y[r * f + c] = (x[r * f + c] - mean) / sqrt(variance + 1e-5) * w[c] + b[c];
        }
    }
}

/* Over the column's nodes; in evaluation over the running mean and variance. */
static void batch_norm(const struct truth *t, const struct op *op, int64_t f, const double *w, const double *b, const double *x,
                       double *y)
{
    int64_t n = t->graph->n_node;
    for (int64_t c = 0; c < f; c++) {
        double mean = t->weights[t->program->param[op->state[0]].offset + c];
        double variance = t->weights[t->program->param[op->state[1]].offset + c];
        if (t->training) {
            mean = variance = 0.0;
            for (int64_t r = 0; r < n; r++) {
                mean += x[r * f + c] / (double)n;
                variance += x[r * f + c] * x[r * f + c] / (double)n;
            }
            variance -= mean * mean;
        }
        for (int64_t r = 0; r < n; r++) {
            y[r * f + c] = (x[r * f + c] - mean) / sqrt(variance + 1e-5) * w[c] + b[c];
        }
    }
}

/* What edge e, from → to, is multiplied by; the implicit loop (e -1) is one more edge, of weight 1. */
static double edge_weight(const struct truth *t, enum aggregate_kind kind, int64_t e, int64_t from, int64_t to)
{
    int self = t->graph->loops == DATASET_LOOPS_IMPLICIT;
    double d_from = t->graph->strength[from] + self, d_to = t->graph->strength[to] + self;
    double weight = e >= 0 && t->graph->weight != NULL ? (double)t->graph->weight[e] : 1.0;
    switch (kind) {
    case AGGREGATE_KIND_MEAN:
        return weight / d_to;
    case AGGREGATE_KIND_GCN:
        return d_from > 0.0 && d_to > 0.0 ? weight / sqrt(d_from * d_to) : 0.0;
    case AGGREGATE_KIND_MAX:
        return 1.0;
    default:
        return weight;
    }
}

static void aggregate(const struct truth *t, enum aggregate_kind kind, int64_t f, const double *x, double *y)
{
    int64_t n = t->graph->n_node;
    bool self = t->graph->loops == DATASET_LOOPS_IMPLICIT, is_max = kind == AGGREGATE_KIND_MAX;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < f; c++) {
            double out = self ? edge_weight(t, kind, -1, i, i) * x[i * f + c] : 0.0;
            bool empty = !self;
            for (int64_t e = 0; e < t->graph->n_edge; e++) {
                if (t->graph->to[e] != i) {
                    continue;
                }
                double term = edge_weight(t, kind, e, t->graph->from[e], i) * x[t->graph->from[e] * f + c];
                out = !is_max ? out + term : empty || term > out ? term : out;
                empty = false;
            }
            y[i * f + c] = out;
        }
    }
}

/* leaky(q_i + k_j), ⟨att, leaky(q_i + x_j)⟩, a·⟨q_i, k_j⟩ or k_j·⟨q_i, x_j⟩ of one head; x[0] sources' rows, x[1] keys,
 * x[2] queries. */
static double score(const struct op *op, int64_t d, int64_t h, const double *const x[3], const double *att, int64_t i,
                    int64_t j)
{
    double sum = 0.0;
    if (op->aggregate == AGGREGATE_KIND_GAT) {
        sum = x[1][j * op->n_head + h] + x[2][i * op->n_head + h];
        return sum > 0.0 ? sum : (double)op->a * sum;
    }
    for (int64_t c = 0; c < d; c++) {
        int64_t at = i * op->n_head * d + h * d + c, from = j * op->n_head * d + h * d + c;
        if (op->aggregate == AGGREGATE_KIND_DOT) {
            sum += (double)op->a * x[2][at] * x[1][from];
        } else if (op->aggregate == AGGREGATE_KIND_COSINE) {
            sum += x[1][j * op->n_head + h] * x[2][at] * x[0][from];
        } else {
            double z = x[2][at] + x[0][from];
            sum += att[h * d + c] * (z > 0.0 ? z : (double)op->a * z);
        }
    }
    return sum;
}

/* All scores of a row, then the softmax, then the sum: nothing online. */
static void attend(const struct truth *t, int index, const struct op *op, int64_t f, const double *const x[3],
                   const double *att, double *y)
{
    const struct test_graph *graph = t->graph;
    struct random_key key = {.seed = t->seed, .epoch = t->epoch, .op = (uint16_t)index, .stream = RANDOM_STREAM_EDGE};
    int64_t d = f / op->n_head, n_loop = graph->loops == DATASET_LOOPS_IMPLICIT;
    for (int64_t i = 0; i < graph->n_node; i++) {
        for (int64_t h = 0; h < op->n_head; h++) {
            double total = 0.0;
            memset(y + i * f + h * d, 0, (size_t)d * sizeof *y);
            for (int64_t e = -n_loop; e < graph->n_edge; e++) {
                int64_t j = e < 0 ? i : graph->from[e];
                if (e >= 0 && graph->to[e] != i) {
                    continue;
                }
                double weight = exp(score(op, d, h, x, att, i, j));
                double p = t->training ? op->dropout : 0.0;
                bool dropped = random_edge_u32(&key, (uint32_t)i, (uint32_t)j, (uint32_t)h) < p * 4294967296.0;
                total += weight;
                for (int64_t c = 0; c < d && !dropped; c++) {
                    y[i * f + h * d + c] += weight / (1.0 - p) * x[0][j * f + h * d + c];
                }
            }
            for (int64_t c = 0; c < d; c++) {
                y[i * f + h * d + c] /= total > 0.0 ? total : 1.0;
            }
        }
    }
}

static void heads(const struct truth *t, const struct op *op, int64_t d, const double *w, const double *x, double *y)
{
    for (int64_t r = 0; r < t->graph->n_node; r++) {
        for (int64_t h = 0; h < op->n_head; h++) {
            for (int64_t c = 0; c < d; c++) {
                double *out = op->kind == OP_KIND_HEAD_DOT ? &y[r * op->n_head + h] : &y[r * d + c];
                bool first = op->kind == OP_KIND_HEAD_DOT ? c == 0 : h == 0;
                double term = x[(r * op->n_head + h) * d + c];
                *out = (first ? 0.0 : *out) + (w != NULL ? w[h * d + c] * term : term / (double)op->n_head);
            }
        }
    }
}

static void inverse_norm(const struct truth *t, int64_t f, const double *x, double *y)
{
    for (int64_t r = 0; r < t->graph->n_node; r++) {
        double square = 0.0;
        for (int64_t c = 0; c < f; c++) {
            square += x[r * f + c] * x[r * f + c];
        }
        y[r] = 1.0 / fmax(sqrt(square), 1e-12);
    }
}

/* Does this training node show its label to the model, and stay out of the loss? */
static bool is_shown(const struct truth *t, int64_t node)
{
    int index = t->program->labels;
    struct random_key key = {.seed = t->seed, .epoch = t->epoch, .op = (uint16_t)index, .stream = RANDOM_STREAM_DROPOUT};
    return index >= 0 && t->split[node] == DATASET_SPLIT_TRAIN &&
           (!t->training || random_u32(&key, (uint64_t)node, 0) >= t->program->op[index].dropout * 4294967296.0);
}

static void labels(const struct truth *t, int64_t f_in, int64_t f, const double *x, double *y)
{
    for (int64_t r = 0; r < t->graph->n_node; r++) {
        for (int64_t c = 0; c < f; c++) {
            y[r * f + c] = c < f_in ? x[r * f_in + c] : is_shown(t, r) && t->labels[r] == c - f_in ? 1.0 : 0.0;
        }
    }
}

static void concat(const struct truth *t, const struct op *op, int64_t f, double *y)
{
    int64_t at = 0;
    for (int k = 0; k < OP_N_IN && op->in[k] >= 0; k++) {
        int64_t width = t->program->value[op->in[k]].width;
        for (int64_t i = 0; i < t->graph->n_node * width; i++) {
            y[i / width * f + at + i % width] = t->value[op->in[k]][i];
        }
        at += width;
    }
}

static void linear_by_column(const struct truth *t, int64_t f_in, int64_t f_out, const double *w, const double *b,
                             const double *x, double *y)
{
    for (int64_t i = 0; i < t->graph->n_node * f_out; i++) {
        int64_t row = i / f_out, o = i % f_out;
        y[i] = b != NULL ? b[o] : 0.0;
        for (int64_t c = 0; c < f_in; c++) {
            y[i] += x[row * f_in + c] * w[c * f_out + o];
        }
    }
}

/* Element (i, o) of the weight of one type: free, mixed from bases, or 0 beside the diagonal blocks. */
static double relation_weight(const struct parameter *param, const double *weight, const double *comp, int64_t n_base,
                              int64_t type, int64_t i, int64_t o)
{
    const int64_t *shape = param->shape;
    if (param->n_dim == 4) {
        int64_t at = ((type * shape[1] + i / shape[2]) * shape[2] + i % shape[2]) * shape[3] + o % shape[3];
        return i / shape[2] == o / shape[3] ? weight[at] : 0.0;
    }
    double w = comp == NULL ? weight[(type * shape[1] + i) * shape[2] + o] : 0.0;
    for (int64_t b = 0; comp != NULL && b < n_base; b++) {
        w += comp[type * n_base + b] * weight[(b * shape[1] + i) * shape[2] + o];
    }
    return w;
}

/* Edge by edge: y_to += weight · x_from · W of the edge's type. */
static void relate(const struct truth *t, const struct op *op, const double *weight, const double *comp, const double *x,
                   double *y)
{
    const struct test_graph *graph = t->graph;
    const struct parameter *param = &t->program->param[op->param[0]];
    int64_t f_in = t->program->value[op->in[0]].width, f_out = t->program->value[op->out].width;
    memset(y, 0, (size_t)(graph->n_node * f_out) * sizeof *y);
    for (int64_t e = 0; e < graph->n_edge; e++) {
        double share = test_graph_weight(graph, e);
        for (int64_t k = 0; k < f_in * f_out; k++) {
            int64_t i = k / f_out, o = k % f_out;
            double w = relation_weight(param, weight, comp, param->shape[0], graph->type[e], i, o);
            y[graph->to[e] * f_out + o] += share * w * x[graph->from[e] * f_in + i];
        }
    }
}

/* Element by element: bias, add, eps_add, max, row_scale. */
static void pointwise(const struct op *op, int64_t n_value, int64_t f, const double *const x[OP_N_IN],
                      const double *const w[OP_N_PARAM], double *y)
{
    for (int64_t i = 0; i < n_value; i++) {
        y[i] = op->kind == OP_KIND_BIAS        ? x[0][i] + w[0][i % f]
               : op->kind == OP_KIND_ADD       ? (double)op->a * x[0][i] + (double)op->b * x[1][i]
               : op->kind == OP_KIND_MAX       ? fmax(x[0][i], x[1][i])
               : op->kind == OP_KIND_ROW_SCALE ? x[1][i / f] * x[0][i]
                                               : x[1][i] + (1.0 + w[0][0]) * x[0][i];
    }
}

static void op_evaluate(struct truth *t, int index)
{
    const struct program *program = t->program;
    const struct op *op = &program->op[index];
    int64_t f = program->value[op->out].width;
    const double *x[OP_N_IN] = {0}, *w[OP_N_PARAM] = {0};
    double *y = t->value[op->out];
    for (int k = 0; k < OP_N_IN; k++) {
        x[k] = op->in[k] >= 0 ? t->value[op->in[k]] : NULL;
    }
    for (int k = 0; k < OP_N_PARAM; k++) {
        w[k] = op->param[k] >= 0 ? t->weights + program->param[op->param[k]].offset : NULL;
    }
    switch (op->kind) {
    case OP_KIND_LINEAR:
        if (op->by_column) {
            linear_by_column(t, program->value[op->in[0]].width, f, w[0], w[1], x[0], y);
        } else {
            linear(t, program->value[op->in[0]].width, f, w[0], w[1], x[0], y);
        }
        break;
    case OP_KIND_ACTIVATE:
        activate(t, index, op, f, x[0], y);
        break;
    case OP_KIND_LAYER_NORM:
        layer_norm(t, f, w[0], w[1], x[0], y);
        break;
    case OP_KIND_BATCH_NORM:
        batch_norm(t, op, f, w[0], w[1], x[0], y);
        break;
    case OP_KIND_AGGREGATE:
        if (op->aggregate == AGGREGATE_KIND_RELATION) {
            relate(t, op, w[0], w[1], x[0], y);
        } else if (op->n_head > 0) {
            attend(t, index, op, f, x, w[0], y);
        } else {
            aggregate(t, op->aggregate, f, x[0], y);
        }
        break;
    case OP_KIND_INVERSE_NORM:
        inverse_norm(t, program->value[op->in[0]].width, x[0], y);
        break;
    case OP_KIND_HEAD_DOT:
    case OP_KIND_HEAD_MEAN:
        heads(t, op, program->value[op->in[0]].width / op->n_head, w[0], x[0], y);
        break;
    case OP_KIND_LABELS:
        labels(t, program->value[op->in[0]].width, f, x[0], y);
        break;
    case OP_KIND_CONCAT:
        concat(t, op, f, y);
        break;
    default:
        pointwise(op, t->graph->n_node * f, f, x, w, y);
    }
}

double truth_loss(struct truth *t)
{
    int64_t n = t->graph->n_node, n_class = t->program->value[t->program->logits].width, n_row = 0;
    for (int64_t i = 0; i < n * t->program->value[0].width; i++) {
        t->value[0][i] = t->features[i];
    }
    for (int k = 0; k < t->program->n_op; k++) {
        op_evaluate(t, k);
    }
    double loss = 0.0;
    for (int64_t r = 0; r < n; r++) {
        if (t->split[r] == DATASET_SPLIT_TRAIN && t->labels[r] >= 0 && !(t->training && is_shown(t, r))) {
            const double *z = t->value[t->program->logits] + r * n_class;
            double sum = 0.0;
            for (int64_t c = 0; c < n_class; c++) {
                sum += exp(z[c] - z[t->labels[r]]);
            }
            loss += log(sum);
            n_row++;
        }
    }
    return loss / (double)n_row;
}

void truth_gradient(struct truth *t, double *out)
{
    memset(out, 0, (size_t)t->program->n_weight * sizeof *out);
    for (int p = 0; p < t->program->n_param; p++) {
        const struct parameter *param = &t->program->param[p];
        int64_t n = parameter_size(param);
        for (int64_t i = param->offset; param->trains && i < param->offset + n; i++) {
            double at = t->weights[i];
            t->weights[i] = at + DIFFERENCE_STEP;
            double above = truth_loss(t);
            t->weights[i] = at - DIFFERENCE_STEP;
            double below = truth_loss(t);
            t->weights[i] = at;
            out[i] = (above - below) / (2.0 * DIFFERENCE_STEP);
        }
    }
}
