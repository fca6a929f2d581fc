#include "tests/support/model/thresholds.h"

#include "models/program/op.h"
#include "protocol/base/memory.h"
#include "worker/route/sample_weights.h"

#include <math.h>
#include <stdlib.h>

static enum aggregate_kind kind_of(const struct program *program)
{
    for (int i = 0; i < program->n_op; i++) {
        if (program->op[i].kind == OP_KIND_AGGREGATE) {
            return program->op[i].aggregate;
        }
    }
    return AGGREGATE_KIND_SUM;
}

/* By what edge e's row is multiplied. */
static double coefficient(const struct test_graph *graph, enum aggregate_kind kind, int64_t e)
{
    int self = graph->loops == DATASET_LOOPS_IMPLICIT;
    double from = graph->strength[graph->from[e]] + self, to = graph->strength[graph->to[e]] + self;
    double weight = graph->weight != NULL ? (double)graph->weight[e] : 1.0;
    double mean = weight / (graph->degree[graph->to[e]] + self),
           gcn = from > 0.0 && to > 0.0 ? weight / sqrt(from * to) : 0.0;
    return kind == AGGREGATE_KIND_MEAN ? mean : kind == AGGREGATE_KIND_GCN ? gcn : weight;
}

/* Rows of one part that another one takes. */
static void pair_fill(const struct test_graph *graph, int n_part, const int32_t *owner, double p, int giver,
                      int taker, const double *square, uint32_t *out)
{
    int64_t n = 0;
    uint32_t *node = memory_alloc((size_t)graph->n_node, sizeof *node),
             *threshold = memory_alloc((size_t)graph->n_node, sizeof *threshold);
    double *weight = memory_alloc((size_t)graph->n_node, sizeof *weight);
    for (uint32_t u = 0; u < graph->n_node; u++) {
        if (owner[u] == giver && square[(int64_t)u * n_part + taker] >= 0.0) {
            weight[n] = sqrt(square[(int64_t)u * n_part + taker]);
            node[n++] = u;
        }
    }
    sample_thresholds(n, p, weight, threshold);
    for (int64_t i = 0; i < n; i++) {
        out[(int64_t)node[i] * n_part + taker] = threshold[i];
    }
    free(weight);
    free(threshold);
    free(node);
}

void test_thresholds(const struct program *program, const struct test_graph *graph, int n_part, const int32_t *owner,
                     double p, uint32_t *out)
{
    int64_t n = graph->n_node * n_part;
    double *square = memory_alloc((size_t)n, sizeof *square); /* negative: no edge */
    for (int64_t i = 0; i < n; i++) {
        square[i] = -1.0;
        out[i] = 0;
    }
    for (int64_t e = 0; e < graph->n_edge; e++) {
        int64_t u = graph->from[e], taker = owner[graph->to[e]];
        if (owner[u] != taker) {
            double a = coefficient(graph, kind_of(program), e), *to = &square[u * n_part + taker];
            *to = (*to < 0.0 ? 0.0 : *to) + a * a;
        }
    }
    for (int giver = 0; giver < n_part; giver++) {
        for (int taker = 0; taker < n_part; taker++) {
            pair_fill(graph, n_part, owner, p, giver, taker, square, out);
        }
    }
    free(square);
}
