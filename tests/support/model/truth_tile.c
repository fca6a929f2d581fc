/* Tile programs in double, forward alone: one node or edge after another, reductions by their definitions. */
#include "tests/support/model/truth_state.h"

#include "protocol/base/memory.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEATURE_MOST 8

/* One node or edge: the rows that it reads, its registers, and what its draws are keyed by. */
struct place {
    const struct evaluation *e;
    const struct tile *tile;
    const double *rows[TILE_ROWS_N];
    double *at, scale[2], weight, feature[FEATURE_MOST];
    uint32_t source, target;
};

static struct place place_open(const struct evaluation *e)
{
    struct place p = {.e = e, .tile = &e->truth->program->tile[e->op->tile]};
    p.at = memory_alloc((size_t)p.tile->n_float + 1, sizeof *p.at);
    return p;
}

static double read_at(const struct place *p, const struct tile_operand *o, int64_t h, int64_t c, int64_t k)
{
    const int64_t at = o->at + h * o->head + c * o->column + k * o->inner;
    return o->kind == TILE_NUMBER     ? (double)o->number
           : o->kind == TILE_REGISTER ? p->at[at]
           : o->kind == TILE_PARAM    ? p->e->w[o->which][at]
                                      : p->rows[o->which][at];
}

static double dropped(const struct place *p, const struct tile_instruction *i, int64_t number, double x)
{
    const double rate = p->e->truth->training ? (double)i->number[0] : 0.0;
    const struct random_key key = truth_key(p->e, RANDOM_STREAM_EDGE);
    const uint32_t draw = (uint32_t)((int64_t)i->number[1] + number);
    return random_edge_u32(&key, p->target, p->source, draw) < rate * 4294967296.0 ? 0.0 : x / (1.0 - rate);
}

/* What programs of texts compute; adjoints have none of their own operations here. */
static double applied(const struct tile_instruction *i, double a, double b)
{
    const double first = (double)i->number[0];
    switch (i->op) {
    case TILE_OP_COPY:
        return a;
    case TILE_OP_RELU:
        return fmax(a, 0.0);
    case TILE_OP_LEAKY_RELU:
        return fmax(a, 0.0) + first * fmin(a, 0.0);
    case TILE_OP_ELU:
        return a > 0.0 ? a : exp(a) - 1.0;
    case TILE_OP_GELU:
        return 0.5 * a * (1.0 + erf(a / sqrt(2.0)));
    case TILE_OP_SILU:
        return a / (1.0 + exp(-a));
    case TILE_OP_SIGMOID:
        return 1.0 / (1.0 + exp(-a));
    case TILE_OP_TANH:
        return tanh(a);
    case TILE_OP_SOFTPLUS:
        return log(1.0 + exp(a));
    case TILE_OP_EXP:
        return exp(a);
    case TILE_OP_LOG:
        return log(a);
    case TILE_OP_SQRT:
        return sqrt(a);
    case TILE_OP_ABS:
        return fabs(a);
    case TILE_OP_CLAMP:
        return fmin(fmax(a, first), (double)i->number[1]);
    case TILE_OP_POWER:
        return pow(a, first);
    case TILE_OP_ADD:
        return a + b;
    case TILE_OP_SUBTRACT:
        return a - b;
    case TILE_OP_MULTIPLY:
    case TILE_OP_CONTRACT:
        return a * b;
    case TILE_OP_DIVIDE:
        return a / b;
    case TILE_OP_MINIMUM:
        return fmin(a, b);
    case TILE_OP_MAXIMUM:
        return fmax(a, b);
    case TILE_OP_RELU_BACK: /* a gate */
        return b > 0.0 ? a : 0.0;
    default:
        cr_assert_fail("operation %d of an adjoint", (int)i->op);
        return 0.0;
    }
}

static void instruction_run(struct place *p, const struct tile_instruction *i)
{
    const bool reads_b = tile_op_n_operand(i->op) > 1;
    for (int64_t at = 0; at < i->n_head * i->n_column; at++) {
        const int64_t h = at / i->n_column, c = at % i->n_column;
        double sum = 0.0;
        for (int64_t k = 0; k < i->n_inner; k++) {
            double a = read_at(p, &i->a, h, c, k);
            sum += i->op == TILE_OP_DROP ? dropped(p, i, at, a)
                                         : applied(i, a, reads_b ? read_at(p, &i->b, h, c, k) : 0.0);
        }
        p->at[i->out + h * i->out_head + c] = sum;
    }
}

/* Number c of what leaves, times its factor. */
static double result_at(const struct place *p, const struct tile_result *r, int64_t c)
{
    const bool factors = r->n_with > 0 && r->reduction == TILE_REDUCTION_SUM;
    return read_at(p, &r->from, 0, c, 0) * (factors ? read_at(p, &r->with, 0, c / (r->n / r->n_with), 0) : 1.0);
}

static void place_run(struct place *p)
{
    for (int i = 0; i < p->tile->n_instruction; i++) {
        instruction_run(p, &p->tile->instruction[i]);
    }
}

void truth_rows(const struct evaluation *e)
{
    struct place p = place_open(e);
    for (int64_t row = 0; row < e->n; row++) {
        for (int k = 0; k < OP_N_IN; k++) {
            p.rows[TILE_ROWS_IN_0 + k] = e->x[k] != NULL ? truth_source(e, k, row, row) : NULL;
        }
        place_run(&p);
        cr_assert_eq(p.tile->n_result, 1);
        for (int64_t c = 0; c < e->f; c++) {
            e->y[row * e->f + c] = result_at(&p, p.tile->result, c);
        }
    }
    free(p.at);
}

/* 1 / n of a mean, 1 / √d of GCN's norm, else 1. */
static double scale_of(const struct evaluation *e, int64_t node)
{
    const struct dataset *graph = e->truth->graph;
    const bool mean = e->op->aggregate == AGGREGATE_KIND_EDGES_MEAN;
    double d = truth_degree(graph, mean, node) + (graph->facts.loops == GRAPH_LOOPS_IMPLICIT ? 1.0 : 0.0);
    bool scales = mean || e->op->aggregate == AGGREGATE_KIND_EDGES_NORM;
    return !scales ? 1.0 : d == 0.0 ? 0.0 : mean ? 1.0 / d : 1.0 / sqrt(d);
}

/* Edge k of row i, or its implied loop before the first. */
static void edge_set(struct place *p, int64_t i, int64_t k)
{
    const struct evaluation *e = p->e;
    const struct dataset *graph = e->truth->graph;
    const bool implied = k < graph->indptr[i];
    const int64_t j = implied ? i : graph->indices[k];
    p->source = (uint32_t)j;
    p->target = (uint32_t)i;
    p->rows[TILE_ROWS_IN_0] = truth_source(e, 0, j, i);
    p->rows[TILE_ROWS_IN_2] = e->x[2] != NULL ? truth_source(e, 2, i, i) : NULL;
    p->scale[0] = scale_of(e, j);
    p->scale[1] = scale_of(e, i);
    p->weight = !implied && graph->facts.weighted ? (double)graph->edge_weight[k] : 1.0;
    p->rows[TILE_ROWS_SCALE_0] = &p->scale[0];
    p->rows[TILE_ROWS_SCALE_2] = &p->scale[1];
    p->rows[TILE_ROWS_WEIGHT] = &p->weight;
    p->rows[TILE_ROWS_FEATURE] = p->feature;
    cr_assert_leq(graph->facts.n_edge_feature, FEATURE_MOST);
    for (int64_t c = 0; c < graph->facts.n_edge_feature; c++) {
        p->feature[c] = (double)dataset_edge_features(graph, graph->edges.row[k])[c];
    }
}

/* A row's result after its last edge. */
static void edges_end(const struct tile_result *r, double scale, double *y, const double *total)
{
    for (int64_t c = 0; c < r->n; c++) {
        y[c] = r->reduction == TILE_REDUCTION_LOGSUMEXP && total[c] > 0.0 ? log(total[c]) : y[c];
        y[c] /= r->reduction == TILE_REDUCTION_SOFTMAX && total[c] > 0.0 ? total[c] : 1.0;
        y[c] *= r->reduction == TILE_REDUCTION_SUM ? scale : 1.0;
    }
}

/* A result of one more edge; total: Σ of exponentials, or how many edges there were, of each number. */
static void edge_add(const struct place *p, const struct tile_result *r, double count, double *y, double *total)
{
    for (int64_t c = 0; c < r->n; c++) {
        const double x = result_at(p, r, c);
        const bool softmax = r->reduction == TILE_REDUCTION_SOFTMAX, lse = r->reduction == TILE_REDUCTION_LOGSUMEXP;
        const double score = softmax ? read_at(p, &r->with, 0, c / (r->n / r->n_with), 0) : lse ? x : 0.0;
        const double share = count * exp(score);
        const bool first = total[c] == 0.0;
        switch (r->reduction) {
        case TILE_REDUCTION_MAX:
            y[c] = first ? x : fmax(y[c], x);
            break;
        case TILE_REDUCTION_MIN:
            y[c] = first ? x : fmin(y[c], x);
            break;
        case TILE_REDUCTION_LOGSUMEXP:
            break;
        default:
            y[c] += share * x;
        }
        total[c] += share;
    }
}

void truth_edges(const struct evaluation *e)
{
    const struct dataset *graph = e->truth->graph;
    const int64_t n_loop = graph->facts.loops == GRAPH_LOOPS_IMPLICIT;
    struct place p = place_open(e);
    double *total = memory_alloc((size_t)e->f, sizeof *total);
    for (int64_t i = 0; i < e->n; i++) {
        const struct tile_result *result = p.tile->result;
        double *y = e->y + i * e->f;
        memset(y, 0, (size_t)e->f * sizeof *y);
        memset(total, 0, (size_t)e->f * sizeof *total);
        for (int64_t k = graph->indptr[i] - n_loop; k < graph->indptr[i + 1]; k++) {
            const double count = truth_edge_count(e, k < graph->indptr[i] ? i : (int64_t)graph->indices[k], i);
            if (count > 0.0) {
                edge_set(&p, i, k);
                place_run(&p);
                for (int r = 0; r < p.tile->n_result; r++) {
                    edge_add(&p, &result[r], count, y + result[r].at, total + result[r].at);
                }
            }
        }
        for (int r = 0; r < p.tile->n_result; r++) {
            edges_end(&result[r], p.tile->scales_mean ? scale_of(e, i) : 1.0, y + result[r].at, total + result[r].at);
        }
    }
    free(total);
    free(p.at);
}
