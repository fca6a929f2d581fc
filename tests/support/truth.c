#include "tests/support/truth.h"

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

/* What edge from → to weighs; the implicit loop is one more edge. */
static double edge_weight(const struct truth *t, enum aggregate_kind kind, int64_t from, int64_t to)
{
    int self = t->graph->loops == DATASET_LOOPS_IMPLICIT;
    double d_from = t->graph->degree[from] + self, d_to = t->graph->degree[to] + self;
    switch (kind) {
    case AGGREGATE_KIND_MEAN:
        return 1.0 / d_to;
    case AGGREGATE_KIND_GCN:
        return d_from > 0.0 ? 1.0 / sqrt(d_from * d_to) : 0.0;
    default:
        return 1.0;
    }
}

static void aggregate(const struct truth *t, enum aggregate_kind kind, int64_t f, const double *x, double *y)
{
    int64_t n = t->graph->n_node;
    bool self = t->graph->loops == DATASET_LOOPS_IMPLICIT, is_max = kind == AGGREGATE_KIND_MAX;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < f; c++) {
            double out = self ? edge_weight(t, kind, i, i) * x[i * f + c] : 0.0;
            bool empty = !self;
            for (int64_t e = 0; e < t->graph->n_edge; e++) {
                if (t->graph->to[e] != i) {
                    continue;
                }
                double term = edge_weight(t, kind, t->graph->from[e], i) * x[t->graph->from[e] * f + c];
                out = !is_max ? out + term : empty || term > out ? term : out;
                empty = false;
            }
            y[i * f + c] = out;
        }
    }
}

static void op_evaluate(struct truth *t, int index)
{
    const struct program *program = t->program;
    const struct op *op = &program->op[index];
    int64_t f = program->value[op->out].width, n_value = t->graph->n_node * f;
    const double *x[2] = {0}, *w[2] = {0};
    double *y = t->value[op->out];
    for (int k = 0; k < 2; k++) {
        x[k] = op->in[k] >= 0 ? t->value[op->in[k]] : NULL;
        w[k] = op->param[k] >= 0 ? t->weights + program->param[op->param[k]].offset : NULL;
    }
    switch (op->kind) {
    case OP_KIND_LINEAR:
        linear(t, program->value[op->in[0]].width, f, w[0], w[1], x[0], y);
        break;
    case OP_KIND_ACTIVATE:
        activate(t, index, op, f, x[0], y);
        break;
    case OP_KIND_LAYER_NORM:
        layer_norm(t, f, w[0], w[1], x[0], y);
        break;
    case OP_KIND_AGGREGATE:
        aggregate(t, op->aggregate, f, x[0], y);
        break;
    default:
        for (int64_t i = 0; i < n_value; i++) {
            y[i] = op->kind == OP_KIND_BIAS  ? x[0][i] + w[0][i % f]
                   : op->kind == OP_KIND_ADD ? (double)op->a * x[0][i] + (double)op->b * x[1][i]
                                             : x[1][i] + (1.0 + w[0][0]) * x[0][i];
        }
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
        if (t->split[r] == DATASET_SPLIT_TRAIN && t->labels[r] >= 0) {
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
        int64_t n = param->shape[0] * (param->n_dim == 2 ? param->shape[1] : 1);
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
