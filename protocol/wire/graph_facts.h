/* What models, plans and readers know of a graph, beside its arrays. A part has the facts of the whole graph. */
#ifndef PROTOCOL_GRAPH_FACTS_H
#define PROTOCOL_GRAPH_FACTS_H

#include <stdbool.h>
#include <stdint.h>

/* Numbers that vertex programs read, as graph.NAME. A prediction has those of the training. */
struct graph_counts {
    int64_t n_node, n_edge; /* edges: as stored, and the loops that a definition adds; n_node 0: nothing is known */
    double mean_degree, mean_log_degree; /* over nodes: in-edges, log(1 + in-edges) */
};

/* The meaning of self loops among the stored edges. */
enum graph_loops {
    GRAPH_LOOPS_STORED,   /* as stored: a loop is an edge like any other */
    GRAPH_LOOPS_IMPLICIT, /* every node has exactly one, none of them stored */
    GRAPH_LOOPS_NONE      /* none stored, none implied */
};

struct graph_facts {
    int64_t n_feature;   /* columns, of all nodes */
    bool features_typed; /* several node types side by side, or without any features a column per node */
    int32_t n_class;     /* classes, or label columns when multi_label */
    bool multi_label;    /* a row of labels each: 0 and 1, or where the job regresses numbers */
    /* (u,v) is stored whenever (v,u) is, with the same weight; never true of edges that have types or features */
    bool symmetric;
    int32_t n_relation;       /* typed edges: relations, inverse ones included; 0: untyped */
    int32_t n_relation_given; /* those of the data, which come first: without inverse ones */
    bool weighted; /* edges have weights; loops that a layer's definition adds are then stored, with weight 1 */
    /* columns of the edges' features; 0: none. Loops that a definition adds are then stored */
    int64_t n_edge_feature;
    enum graph_loops loops;
    struct graph_counts counts; /* of kind = "program" alone: dataset_count */
};

#endif
