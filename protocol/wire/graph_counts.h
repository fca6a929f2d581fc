/* Numbers of the whole graph that vertex programs read, as graph.NAME. A prediction has those of the training. */
#ifndef PROTOCOL_GRAPH_COUNTS_H
#define PROTOCOL_GRAPH_COUNTS_H

#include <stdint.h>

struct graph_counts {
    int64_t n_node, n_edge; /* edges: as stored, and the loops that a definition adds; n_node 0: nothing is known */
    double mean_degree, mean_log_degree; /* over nodes: in-edges, log(1 + in-edges) */
};

#endif
