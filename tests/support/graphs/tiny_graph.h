/* Small datasets made by hand for tests: every array set, nothing read from files. */
#ifndef TESTS_SUPPORT_TINY_GRAPH_H
#define TESTS_SUPPORT_TINY_GRAPH_H

#include "partition/graph/dataset.h"

#include <stdbool.h>
#include <stdint.h>

enum tiny_features {
    TINY_FEATURES_F32,
    TINY_FEATURES_F16,
    TINY_FEATURES_SPARSE,
    TINY_FEATURES_NONE,
    TINY_FEATURES_TYPED
};

struct tiny_graph {
    int64_t n_node;
    int64_t n_draw; /* edges drawn, before duplicates are removed and reverse edges are added */
    bool symmetric;
    bool loops;     /* draw stored self loops too */
    bool no_loops;  /* none are implied either */
    bool hub;       /* every node has an edge to node 0 */
    int n_relation; /* typed edges, at most 8 relations; 0: untyped. Not with symmetric */
    /* edges of weights in (0, 1], alike in both directions where symmetric; implied loops are stored, of weight 1, as
     * dataset_load leaves them. Not with n_relation */
    bool weighted;
    /* columns of features of edges, (source · n_node + destination) + column / 4, the lesser end first where
     * symmetric, which the dataset then is not; loops have rows of loop_features. Not with the others */
    int64_t n_edge_feature;
    bool multi_label;
    bool of_links; /* edges are what is trained on */
    /* three columns: node + column / 4. TYPED: nodes 1, 4, 7, … have a column of their own, which lie between a
     * column of nodes 0, 3, … and one of nodes 2, 5, … with node + 1 */
    enum tiny_features features;
    uint64_t seed;
};

/* The dataset of that description; release with tiny_release. */
struct dataset tiny_build(const struct tiny_graph *graph);

/* A dataset of exactly these (source, destination) pairs, in any order, without features. */
struct dataset tiny_from_edges(int64_t n_node, int64_t n_pair, const uint32_t (*pair)[2], bool symmetric);

void tiny_release(struct dataset *dataset);

/* A number in [-1, 1) for (seed, row, column): for features, weights and other inputs of tests. */
float test_number(uint64_t seed, uint64_t row, uint32_t column);

/* Is (source → destination) stored? Its index among the edges, or -1. */
int64_t tiny_edge(const struct dataset *dataset, uint32_t source, uint32_t destination);

/* The same with this relation. */
int64_t tiny_typed_edge(const struct dataset *dataset, uint32_t source, uint32_t destination, uint16_t type);

#endif
