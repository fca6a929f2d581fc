#include "tests/support/model/truth_state.h"

#include "protocol/base/memory.h"
#include "tests/support/tolerance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void truth_open(const struct program *program, const struct dataset *graph, struct truth *out)
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

const double *truth_source(const struct evaluation *e, int k, int64_t from, int64_t to)
{
    const struct truth *t = e->truth;
    const double *x = e->held[k] != NULL && t->owner[from] != t->owner[to] ? e->held[k] : e->x[k];
    return x != NULL ? x + from * t->program->value[e->op->in[k]].width : NULL;
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

struct random_key truth_key(const struct evaluation *e, enum random_stream stream)
{
    return (struct random_key){
        .seed = e->truth->seed, .epoch = e->truth->epoch, .op = (uint16_t)e->index, .stream = stream};
}

static void activate(const struct evaluation *e)
{
    bool training = e->truth->training;
    double p = e->op->dropout;
    struct random_key key = truth_key(e, RANDOM_STREAM_DROPOUT);
    for (int64_t r = 0; r < e->n; r++) {
        for (int64_t c = 0; c < e->f; c++) {
            bool dropped = training && random_u32(&key, (uint64_t)r, (uint32_t)c) < p * 4294967296.0;
            double scale = training ? 1.0 / (1.0 - p) : 1.0;
            e->y[r * e->f + c] = dropped ? 0.0 : scale * activation(e->op->activation, e->x[0][r * e->f + c]);
        }
    }
}

/* y = x · wᵀ + b, or with by_column y = x · w + b; of weights with rows of each node's own, groups of columns of y are by column. */
static void linear(const struct evaluation *e)
{
    int64_t group = e->op->by_column ? e->f : e->truth->program->param[e->op->param[0]].embedding_row;
    for (int64_t r = 0; r < e->n; r++) {
        for (int64_t o = 0; o < e->f; o++) {
            double sum = e->w[1] != NULL ? e->w[1][o] : 0.0;
            for (int64_t i = 0; i < e->f_in; i++) {
                sum += e->w[0][(o / group * e->f_in + i) * group + o % group] * e->x[0][r * e->f_in + i];
            }
            e->y[r * e->f + o] = sum;
        }
    }
}

static void layer_norm(const struct evaluation *e)
{
    for (int64_t r = 0; r < e->n; r++) {
        const double *x = e->x[0] + r * e->f;
        double sum = 0.0, square = 0.0;
        for (int64_t c = 0; c < e->f; c++) {
            sum += x[c];
            square += x[c] * x[c];
        }
        double mean = sum / (double)e->f, variance = square / (double)e->f - mean * mean;
        for (int64_t c = 0; c < e->f; c++) {
            e->y[r * e->f + c] = (x[c] - mean) / sqrt(variance + 1e-5) * e->w[0][c] + e->w[1][c];
        }
    }
}

/* By the mean and variance over all nodes. An evaluation goes by the running ones; where training samples, it makes
 * them of its own rows, with the variance's unbiased estimate. */
static void batch_norm(const struct evaluation *e)
{
    const struct truth *t = e->truth;
    for (int64_t c = 0; c < e->f; c++) {
        const double *x = e->x[0] + c;
        double mean = t->weights[t->program->param[e->op->state[0]].offset + c];
        double variance = t->weights[t->program->param[e->op->state[1]].offset + c];
        if (t->training || t->program->lossy.samples) {
            mean = variance = 0.0;
            for (int64_t r = 0; r < e->n; r++) {
                mean += x[r * e->f] / (double)e->n;
                variance += x[r * e->f] * x[r * e->f] / (double)e->n;
            }
            variance -= mean * mean;
            variance *= t->training ? 1.0 : (double)e->n / (double)(e->n - 1);
        }
        for (int64_t r = 0; r < e->n; r++) {
            e->y[r * e->f + c] = (x[r * e->f] - mean) / sqrt(variance + 1e-5) * e->w[0][c] + e->w[1][c];
        }
    }
}

double truth_degree(const struct dataset *graph, bool counts, int64_t node)
{
    return counts || graph->strength == NULL ? (double)(graph->indptr[node + 1] - graph->indptr[node])
                                             : (double)graph->strength[node];
}

/* The factor of edge e, from → to; the implicit loop (e -1) is one more edge, of weight 1. */
static double edge_weight(const struct truth *t, enum aggregate_kind kind, int64_t e, int64_t from, int64_t to)
{
    int self = t->graph->facts.loops == GRAPH_LOOPS_IMPLICIT;
    bool counts = kind == AGGREGATE_KIND_MEAN;
    double d_from = truth_degree(t->graph, false, from) + self, d_to = truth_degree(t->graph, counts, to) + self;
    double weight = e >= 0 && t->graph->facts.weighted ? (double)t->graph->edge_weight[e] : 1.0;
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

double truth_edge_count(const struct evaluation *e, int64_t from, int64_t to)
{
    const struct truth *t = e->truth;
    struct random_key key = {.seed = t->seed, .epoch = t->epoch, .stream = RANDOM_STREAM_SAMPLE};
    bool all = e->op->is_static || t->program->value[e->op->in[0]].hop == PROGRAM_HOP_HALO;
    if (t->sampling == 0.0 || all || t->owner[from] == t->owner[to]) {
        return 1.0;
    }
    double threshold = t->sampling * 4294967296.0;
    return random_u32(&key, (uint64_t)from, 0) < threshold ? 4294967296.0 / threshold : 0.0;
}

static void aggregate(const struct evaluation *e)
{
    const struct dataset *graph = e->truth->graph;
    enum aggregate_kind kind = e->op->aggregate;
    bool self = graph->facts.loops == GRAPH_LOOPS_IMPLICIT, is_max = kind == AGGREGATE_KIND_MAX;
    for (int64_t i = 0; i < e->n; i++) {
        for (int64_t c = 0; c < e->f; c++) {
            double out = self ? edge_weight(e->truth, kind, -1, i, i) * e->x[0][i * e->f + c] : 0.0;
            bool empty = !self;
            for (int64_t k = graph->indptr[i]; k < graph->indptr[i + 1]; k++) {
                double count = truth_edge_count(e, graph->indices[k], i);
                if (count == 0.0) {
                    continue;
                }
                double term = edge_weight(e->truth, kind, k, graph->indices[k], i) *
                              truth_source(e, 0, graph->indices[k], i)[c];
                term *= is_max ? 1.0 : count;
                out = !is_max ? out + term : empty || term > out ? term : out;
                empty = false;
            }
            e->y[i * e->f + c] = out;
        }
    }
}

/* ⟨w, f⟩ of n columns */
static double mapped(const double *w, int64_t n, const float *f)
{
    double sum = 0.0;
    for (int64_t d = 0; d < n; d++) {
        sum += w[d] * (double)f[d];
    }
    return sum;
}

/* The score of head h for source j and destination i, of source rows x, keys k and queries q:
 *
 *   gat     leaky(q_i + k_j [+ ⟨a, W f_ij⟩])
 *   gatv2   ⟨att, leaky(q_i + x_j [+ W f_ij])⟩
 *   dot     a·⟨q_i, k_j [| f_ij]⟩
 *   cosine  k_j·⟨q_i, x_j⟩
 */
static double score(const struct evaluation *e, int64_t h, int64_t i, int64_t j, const float *f)
{
    const struct op *op = e->op;
    const double *x = truth_source(e, 0, j, i), *key = truth_source(e, 1, j, i), *query = e->x[2], *att = e->w[0];
    int64_t d = e->f_in / op->n_head, n_more = e->truth->graph->facts.n_edge_feature, wide = e->f / op->n_head;
    if (op->aggregate == AGGREGATE_KIND_GAT || op->aggregate == AGGREGATE_KIND_GAT_EDGES) {
        double sum = key[h] + query[i * op->n_head + h];
        for (int64_t c = 0; c < d && op->aggregate == AGGREGATE_KIND_GAT_EDGES; c++) {
            sum += e->w[1][h * d + c] * mapped(e->w[0] + (h * d + c) * n_more, n_more, f);
        }
        return sum > 0.0 ? sum : (double)op->a * sum;
    }
    double sum = 0.0;
    for (int64_t c = 0; c < d; c++) {
        int64_t to = (i * op->n_head + h) * wide + c, from = h * d + c;
        if (op->aggregate == AGGREGATE_KIND_DOT) {
            sum += (double)op->a * query[to] * key[from];
        } else if (op->aggregate == AGGREGATE_KIND_COSINE) {
            sum += key[h] * query[to] * x[from];
        } else {
            double z = query[to] + x[from] + (e->w[1] != NULL ? mapped(e->w[1] + from * n_more, n_more, f) : 0.0);
            sum += att[h * d + c] * (z > 0.0 ? z : (double)op->a * z);
        }
    }
    for (int64_t c = d; c < wide; c++) {
        sum += (double)op->a * query[(i * op->n_head + h) * wide + c] * (double)f[c - d];
    }
    return sum;
}

/* y_i = Σ_j softmax_j(score(i, j)) · x_j (of edges with features perhaps x_j | f_ij) of one row and head: exponentials and their sum as they are, without a running maximum. */
static void attend_row(const struct evaluation *e, int64_t i, int64_t h)
{
    const struct dataset *graph = e->truth->graph;
    struct random_key key = truth_key(e, RANDOM_STREAM_EDGE);
    int64_t d = e->f_in / e->op->n_head, wide = e->f / e->op->n_head,
            n_loop = graph->facts.loops == GRAPH_LOOPS_IMPLICIT;
    double p = e->truth->training ? e->op->dropout : 0.0, total = 0.0, *y = e->y + i * e->f + h * wide;
    memset(y, 0, (size_t)wide * sizeof *y);
    for (int64_t k = graph->indptr[i] - n_loop; k < graph->indptr[i + 1]; k++) {
        bool implied = k < graph->indptr[i];
        int64_t j = implied ? i : graph->indices[k];
        const float *f = !implied && graph->edges.row != NULL ? dataset_edge_features(graph, graph->edges.row[k])
                                                              : NULL;
        double weight = exp(score(e, h, i, j, f)) * truth_edge_count(e, j, i);
        bool dropped = random_edge_u32(&key, (uint32_t)i, (uint32_t)j, (uint32_t)h) < p * 4294967296.0;
        double factor = dropped ? 0.0 : weight / (1.0 - p);
        total += weight;
        for (int64_t c = 0; c < d; c++) {
            y[c] += factor * truth_source(e, 0, j, i)[h * d + c];
        }
        for (int64_t c = d; c < wide; c++) {
            y[c] += factor * (double)f[c - d];
        }
    }
    for (int64_t c = 0; c < wide; c++) {
        y[c] /= total > 0.0 ? total : 1.0;
    }
}

static void attend(const struct evaluation *e)
{
    for (int64_t i = 0; i < e->n; i++) {
        for (int64_t h = 0; h < e->op->n_head; h++) {
            attend_row(e, i, h);
        }
    }
}

/* Of d columns per head: each head's product with its vector, or the mean of the heads. */
static void heads(const struct evaluation *e)
{
    int64_t n_head = e->op->n_head, d = e->f_in / n_head;
    bool is_dot = e->op->kind == OP_KIND_HEAD_DOT;
    memset(e->y, 0, (size_t)(e->n * e->f) * sizeof *e->y);
    for (int64_t r = 0; r < e->n; r++) {
        for (int64_t h = 0; h < n_head; h++) {
            for (int64_t c = 0; c < d; c++) {
                double x = e->x[0][(r * n_head + h) * d + c];
                e->y[is_dot ? r * n_head + h : r * d + c] += is_dot ? e->w[0][h * d + c] * x : x / (double)n_head;
            }
        }
    }
}

/* Of d columns per head and n behind them where heads are wide: x | wᵀ x of each, or a + w b of x = a | b. */
static void widths(const struct evaluation *e)
{
    bool widens = e->op->kind == OP_KIND_HEAD_WIDEN;
    int64_t n_head = e->op->n_head, in = e->f_in / n_head, out = e->f / n_head, d = widens ? in : out,
            n = in + out - 2 * d;
    for (int64_t i = 0; i < e->n * n_head; i++) {
        const double *x = e->x[0] + i * in, *w = e->w[0] + i % n_head * d * n;
        double *y = e->y + i * out;
        memset(y, 0, (size_t)out * sizeof *y);
        memcpy(y, x, (size_t)d * sizeof *y);
        for (int64_t k = 0; k < d * n; k++) {
            y[widens ? d + k % n : k / n] += w[k] * x[widens ? k / n : d + k % n];
        }
    }
}

static void inverse_norm(const struct evaluation *e)
{
    for (int64_t r = 0; r < e->n; r++) {
        double square = 0.0;
        for (int64_t c = 0; c < e->f_in; c++) {
            square += e->x[0][r * e->f_in + c] * e->x[0][r * e->f_in + c];
        }
        e->y[r] = 1.0 / fmax(sqrt(square), 1e-12);
    }
}

/* Is this training node's label part of the input, and the node therefore not part of the loss? */
static bool is_shown(const struct truth *t, int64_t node)
{
    int index = t->program->labels;
    struct random_key key = {
        .seed = t->seed, .epoch = t->epoch, .op = (uint16_t)index, .stream = RANDOM_STREAM_DROPOUT};
    return index >= 0 && t->split[node] == DATASET_SPLIT_TRAIN &&
           (!t->training || random_u32(&key, (uint64_t)node, 0) >= t->program->op[index].dropout * 4294967296.0);
}

static void labels(const struct evaluation *e)
{
    for (int64_t r = 0; r < e->n; r++) {
        for (int64_t c = 0; c < e->f; c++) {
            bool is_own = is_shown(e->truth, r) && e->truth->labels[r] == c - e->f_in;
            e->y[r * e->f + c] = c < e->f_in ? e->x[0][r * e->f_in + c] : is_own ? 1.0 : 0.0;
        }
    }
}

static void concat(const struct evaluation *e)
{
    int64_t at = 0;
    for (int k = 0; k < OP_N_IN && e->x[k] != NULL; k++) {
        int64_t width = e->truth->program->value[e->op->in[k]].width;
        for (int64_t i = 0; i < e->n * width; i++) {
            e->y[i / width * e->f + at + i % width] = e->x[k][i];
        }
        at += width;
    }
}

/* Element (i, o) of the weight of one relation: its own, a combination of bases, or 0 outside the diagonal blocks. */
static double relation_weight(const struct evaluation *e, int64_t type, int64_t i, int64_t o)
{
    const struct parameter *param = &e->truth->program->param[e->op->param[0]];
    const double *weight = e->w[0], *comp = e->w[1];
    const int64_t *shape = param->shape;
    if (param->n_dim == 4) {
        int64_t at = ((type * shape[1] + i / shape[2]) * shape[2] + i % shape[2]) * shape[3] + o % shape[3];
        return i / shape[2] == o / shape[3] ? weight[at] : 0.0;
    }
    if (comp == NULL) {
        return weight[(type * shape[1] + i) * shape[2] + o];
    }
    double w = 0.0;
    for (int64_t b = 0; b < shape[0]; b++) {
        w += comp[type * shape[0] + b] * weight[(b * shape[1] + i) * shape[2] + o];
    }
    return w;
}

/* 1 / in-edges of node `to` that have edge k's type, as often as the edge counts. */
static double relation_share(const struct evaluation *e, int64_t k, int64_t to)
{
    const struct dataset *graph = e->truth->graph;
    int64_t n = 0;
    for (int64_t i = graph->indptr[to]; i < graph->indptr[to + 1]; i++) {
        n += graph->edge_type[i] == graph->edge_type[k];
    }
    return truth_edge_count(e, graph->indices[k], to) / (double)n;
}

/* Edge by edge: y_to += weight · x_from · W of the edge's type. */
static void relate(const struct evaluation *e)
{
    const struct dataset *graph = e->truth->graph;
    memset(e->y, 0, (size_t)(e->n * e->f) * sizeof *e->y);
    for (int64_t to = 0; to < e->n; to++) {
        for (int64_t k = graph->indptr[to]; k < graph->indptr[to + 1]; k++) {
            double share = relation_share(e, k, to);
            for (int64_t at = 0; at < e->f_in * e->f; at++) {
                int64_t i = at / e->f, o = at % e->f;
                double w = relation_weight(e, graph->edge_type[k], i, o);
                e->y[to * e->f + o] += share * w * truth_source(e, 0, graph->indices[k], to)[i];
            }
        }
    }
}

/* Edge by edge: y_to += weight · the edge's relation's columns of x_from, or the bases' columns mixed for it. */
static void relate_rows(const struct evaluation *e)
{
    const struct dataset *graph = e->truth->graph;
    int64_t n = e->f_in / e->f;
    memset(e->y, 0, (size_t)(e->n * e->f) * sizeof *e->y);
    for (int64_t to = 0; to < e->n; to++) {
        for (int64_t k = graph->indptr[to]; k < graph->indptr[to + 1]; k++) {
            double share = relation_share(e, k, to);
            const double *x = truth_source(e, 0, graph->indices[k], to);
            for (int64_t at = 0; at < e->f_in; at++) {
                int64_t b = at / e->f, type = graph->edge_type[k];
                double part = e->w[0] != NULL ? e->w[0][type * n + b] : b == type ? 1.0 : 0.0;
                e->y[to * e->f + at % e->f] += share * part * x[at];
            }
        }
    }
}

/* Element by element: bias, add, eps_add, max, row_scale. */
static void pointwise(const struct evaluation *e)
{
    const struct op *op = e->op;
    const double *const *x = e->x;
    for (int64_t i = 0; i < e->n * e->f; i++) {
        e->y[i] = op->kind == OP_KIND_BIAS        ? x[0][i] + e->w[0][i % e->f]
                  : op->kind == OP_KIND_ADD       ? (double)op->a * x[0][i] + (double)op->b * x[1][i]
                  : op->kind == OP_KIND_MAX       ? fmax(x[0][i], x[1][i])
                  : op->kind == OP_KIND_ROW_SCALE ? x[1][i / e->f] * x[0][i]
                                                  : x[1][i] + (1.0 + e->w[0][0]) * x[0][i];
    }
}

static void (*evaluator_of(const struct op *op))(const struct evaluation *)
{
    switch (op->kind) {
    case OP_KIND_LINEAR:
        return linear;
    case OP_KIND_ACTIVATE:
        return activate;
    case OP_KIND_LAYER_NORM:
        return layer_norm;
    case OP_KIND_BATCH_NORM:
        return batch_norm;
    case OP_KIND_ROWS:
        return truth_rows;
    case OP_KIND_AGGREGATE:
        return op->aggregate >= AGGREGATE_KIND_EDGES      ? truth_edges
               : op->aggregate == AGGREGATE_KIND_RELATION ? relate
               : op->aggregate > AGGREGATE_KIND_RELATION  ? relate_rows
               : op->n_head > 0                           ? attend
                                                          : aggregate;
    case OP_KIND_INVERSE_NORM:
        return inverse_norm;
    case OP_KIND_HEAD_DOT:
    case OP_KIND_HEAD_MEAN:
        return heads;
    case OP_KIND_HEAD_WIDEN:
    case OP_KIND_HEAD_NARROW:
        return widths;
    case OP_KIND_LABELS:
        return labels;
    case OP_KIND_CONCAT:
        return concat;
    default:
        return pointwise;
    }
}

static void op_evaluate(struct truth *t, int index)
{
    const struct program *program = t->program;
    const struct op *op = &program->op[index];
    struct evaluation e = {.truth = t,
                           .index = index,
                           .op = op,
                           .n = t->graph->n_node,
                           .f_in = program->value[op->in[0]].width,
                           .f = program->value[op->out].width,
                           .y = t->value[op->out]};
    for (int k = 0; k < OP_N_IN; k++) {
        e.x[k] = op->in[k] >= 0 ? t->value[op->in[k]] : NULL;
        bool holds = t->held != NULL && op->kind == OP_KIND_AGGREGATE && !op->is_static && op->in[k] >= 0;
        e.held[k] = holds ? t->held[op->in[k]] : NULL;
    }
    for (int k = 0; k < OP_N_PARAM; k++) {
        e.w[k] = op->param[k] >= 0 ? t->weights + program->param[op->param[k]].offset : NULL;
    }
    evaluator_of(op)(&e);
}

double truth_loss(struct truth *t)
{
    static const struct objective plain = {.loss = DEVICE_LOSS_CROSS_ENTROPY};
    const struct objective *objective = t->objective != NULL ? t->objective : &plain;
    int64_t n = t->graph->n_node, n_class = t->program->value[t->program->logits].width;
    for (int64_t i = 0; i < n * t->program->value[0].width; i++) {
        t->value[0][i] = t->features[i];
    }
    for (int k = 0; k < t->program->n_op; k++) {
        op_evaluate(t, k);
    }
    if (objective->negatives > 0) {
        return truth_links_loss(t);
    }
    double loss = 0.0, weight = 0.0, of_row;
    for (int64_t r = 0; r < n; r++) {
        if (t->split[r] == DATASET_SPLIT_TRAIN && t->labels[r] >= 0 && !(t->training && is_shown(t, r))) {
            const double *z = t->value[t->program->logits] + r * n_class;
            loss += objective_row(objective, n_class, z, t->labels[r],
                                  objective->label_rows != NULL ? objective->label_rows + r * n_class : NULL,
                                  &of_row);
            weight += of_row;
        }
    }
    return loss / weight;
}

/* The loss with Σ ⟨returned, value⟩ added: what truth_gradient differentiates. */
static double truth_objective(struct truth *t)
{
    double sum = truth_loss(t);
    for (int v = 0; t->returned != NULL && v < t->program->n_value; v++) {
        int64_t n = t->returned[v] != NULL ? t->graph->n_node * t->program->value[v].width : 0;
        for (int64_t i = 0; i < n; i++) {
            sum += t->returned[v][i] * t->value[v][i];
        }
    }
    return sum;
}

/* d objective / d *at */
static double difference(struct truth *t, double *at)
{
    double x = *at;
    *at = x + DIFFERENCE_STEP;
    double above = truth_objective(t);
    *at = x - DIFFERENCE_STEP;
    double below = truth_objective(t);
    *at = x;
    return (above - below) / (2.0 * DIFFERENCE_STEP);
}

void truth_gradient_held(struct truth *t, int value, double *out)
{
    int64_t n = t->graph->n_node * t->program->value[value].width;
    for (int64_t i = 0; i < n; i++) {
        out[i] = difference(t, &t->held[value][i]);
    }
}

void truth_gradient(struct truth *t, double *out)
{
    memset(out, 0, (size_t)t->program->n_weight * sizeof *out);
    for (int p = 0; p < t->program->n_param; p++) {
        const struct parameter *param = &t->program->param[p];
        int64_t n = param->trains ? parameter_size(param) : 0;
        for (int64_t i = param->offset; i < param->offset + n; i++) {
            out[i] = difference(t, &t->weights[i]);
        }
    }
}
