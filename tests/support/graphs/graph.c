#include "tests/support/graphs/graph.h"

#include "protocol/base/memory.h"
#include "protocol/base/random.h"

#include <stdlib.h>

float test_number(uint64_t seed, uint64_t row, uint32_t column)
{
    struct random_key key = {.seed = seed, .stream = RANDOM_STREAM_GENERATOR};
    return 2.0f * random_unit(&key, row, column) - 1.0f;
}

void test_graph_from_edges(int64_t n_node, int64_t n_edge, const int64_t *from, const int64_t *to,
                           enum dataset_loops loops, struct test_graph *out)
{
    *out = (struct test_graph){.n_node = n_node, .n_edge = n_edge, .loops = loops};
    out->from = memory_alloc((size_t)n_edge, sizeof *out->from);
    out->to = memory_alloc((size_t)n_edge, sizeof *out->to);
    out->degree = memory_alloc((size_t)n_node, sizeof *out->degree);
    out->strength = memory_alloc((size_t)n_node, sizeof *out->strength);
    for (int64_t e = 0; e < n_edge; e++) {
        out->from[e] = (uint32_t)from[e];
        out->to[e] = (uint32_t)to[e];
        out->degree[to[e]]++;
        out->strength[to[e]]++;
    }
}

void test_graph_random(int64_t n_node, double density, uint64_t seed, enum dataset_loops loops,
                       struct test_graph *out)
{
    int64_t *from = memory_alloc((size_t)(n_node * n_node), sizeof *from);
    int64_t *to = memory_alloc((size_t)(n_node * n_node), sizeof *to);
    int64_t n_edge = 0;
    for (int64_t i = 2; i < n_node; i++) {
        for (int64_t j = 0; j < n_node; j++) {
            if (i != j && test_number(seed, (uint64_t)i, (uint32_t)j) < 2.0 * density - 1.0) {
                from[n_edge] = j;
                to[n_edge++] = i;
            }
        }
    }
    test_graph_from_edges(n_node, n_edge, from, to, loops, out);
    free(from);
    free(to);
}

double test_graph_degree(const struct test_graph *graph, bool counts, int64_t node)
{
    return counts ? (double)graph->degree[node] : graph->strength[node];
}

void test_graph_release(struct test_graph *graph)
{
    free(graph->from);
    free(graph->to);
    free(graph->degree);
    free(graph->type);
    free(graph->weight);
    free(graph->feature);
    free(graph->strength);
}

void test_graph_weights(struct test_graph *graph, uint64_t seed)
{
    graph->weight = memory_alloc((size_t)graph->n_edge, sizeof *graph->weight);
    for (int64_t e = 0; e < graph->n_edge; e++) {
        graph->weight[e] = e == 1 ? 0.0f : 1.0f + test_number(seed, (uint64_t)e, 0);
        graph->strength[graph->to[e]] += (double)graph->weight[e] - 1.0;
    }
}

void test_graph_features(struct test_graph *graph, int64_t n, uint64_t seed)
{
    graph->n_feature = n;
    graph->feature = memory_alloc((size_t)(graph->n_edge * n), sizeof *graph->feature);
    for (int64_t e = 0; e < graph->n_edge; e++) {
        for (int64_t d = 0; d < n; d++) {
            graph->feature[e * n + d] = test_number(seed, (uint64_t)e, (uint32_t)d);
        }
    }
}

void test_graph_types(struct test_graph *graph, int32_t n_relation, uint64_t seed)
{
    graph->n_relation = n_relation;
    graph->type = memory_alloc((size_t)graph->n_edge, sizeof *graph->type);
    for (int64_t e = 0; e < graph->n_edge; e++) {
        graph->type[e] = (uint16_t)(0.5f * (1.0f + test_number(seed, (uint64_t)e, 0)) * (float)n_relation);
    }
}

double test_graph_weight(const struct test_graph *graph, int64_t e)
{
    int64_t n = 0;
    for (int64_t i = 0; i < graph->n_edge; i++) {
        n += graph->to[i] == graph->to[e] && graph->type[i] == graph->type[e];
    }
    return 1.0 / (double)n;
}
