/* Large graphs, made row by row on all cores, in seconds for 10^8 edges: nothing is sorted beyond a row, and no file
 * is read.
 *
 * Rows are destinations; columns ascend and are distinct. rmat and sbm graphs are their own transposes in
 * distribution: a pass over out-edges takes as long over the same block.
 */
#ifndef TESTS_GPU_GRAPH_H
#define TESTS_GPU_GRAPH_H

#include <stdint.h>

enum graph_kind {
    GRAPH_RMAT,    /* a = 0.57, b = c = 0.19, d = 0.05; nodes, rounded up to a power of two, are in random order */
    GRAPH_SBM,     /* communities, one behind another, have 90 % of the edges */
    GRAPH_UNIFORM, /* rows of the same length, columns drawn from all nodes */
    GRAPH_HUB      /* the same, but one row has 10^6 edges (nine of ten nodes where there are fewer) */
};

struct graph {
    int64_t n_node, n_edge;
    int64_t *indptr;
    uint32_t *cols;
};

/* What graphs are drawn from. */
struct graph_plan {
    enum graph_kind kind;
    int64_t n_node, n_edge;
    int64_t n_community; /* sbm: nodes of one */
};

/* The graph of an encoded part that has all nodes (trainer-partition --out, of one part): its edges in its rows' order,
 * and in *node_out, n_node, the data's number of each row. Ends the process where the file is no such part. */
struct graph graph_of_part(const char *path, uint32_t **node_out);

/* The same graph, rows and columns in the order of the data. */
struct graph graph_in_data_order(const struct graph *graph, const uint32_t *node);

/* About n_edge edges: of those that are drawn twice one is left. Ends the process where memory is short; graph_free
 * frees it. */
struct graph graph_make(const struct graph_plan *plan);
void graph_free(struct graph *graph);

#endif
