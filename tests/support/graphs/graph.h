/* A small directed graph for tests: random, without duplicates or stored loops, with nodes without in-edges. */
#ifndef TESTS_SUPPORT_GRAPH_H
#define TESTS_SUPPORT_GRAPH_H

#include "partition/graph/dataset.h"

#include <stdbool.h>
#include <stdint.h>

struct test_graph {
    int64_t n_node, n_edge;
    uint32_t *from, *to; /* n_edge: messages go from → to */
    uint32_t *degree;    /* n_node: in-edges of each node */
    uint16_t *type;      /* n_edge, or NULL */
    int32_t n_relation;
    float *weight;     /* n_edge, or NULL */
    int64_t n_feature; /* columns of edges' features; 0: none */
    float *feature;    /* n_edge × n_feature, or NULL */
    double *strength;  /* n_node: sum of the weights of each node's in-edges; their number without weights */
    enum dataset_loops loops;
};

/* Each ordered pair is an edge with probability `density`, but the first two nodes have no in-edges. */
void test_graph_random(int64_t n_node, double density, uint64_t seed, enum dataset_loops loops,
                       struct test_graph *out);

/* From given edges (copied). */
void test_graph_from_edges(int64_t n_node, int64_t n_edge, const int64_t *from, const int64_t *to,
                           enum dataset_loops loops, struct test_graph *out);

/* Give every edge one of n_relation types at random. */
void test_graph_types(struct test_graph *graph, int32_t n_relation, uint64_t seed);

/* Give every edge a weight in [0, 2), one of them 0. */
void test_graph_weights(struct test_graph *graph, uint64_t seed);

/* Give every edge n features in [-1, 1). */
void test_graph_features(struct test_graph *graph, int64_t n, uint64_t seed);

/* 1 / (number of in-edges of edge e's destination that have e's type). */
double test_graph_weight(const struct test_graph *graph, int64_t e);

/* What an aggregate's scale of a node is made of: the number of its in-edges, or the sum of their weights. */
double test_graph_degree(const struct test_graph *graph, bool counts, int64_t node);

void test_graph_release(struct test_graph *graph);

/* A number in [-1, 1) for (seed, row, column): for features, weights and other inputs of tests. */
float test_number(uint64_t seed, uint64_t row, uint32_t column);

#endif
