/* Edges that are held out of a graph for the prediction of links, and pairs without an edge to compare them with.
 *
 * Held-out edges pass no messages: they are taken out of the graph, in both directions but where they are one way.
 * What remains is trained on.
 */
#ifndef PARTITION_LINKS_H
#define PARTITION_LINKS_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job;
struct dataset;

enum links_split { LINKS_SPLIT_VALID, LINKS_SPLIT_TEST, LINKS_SPLIT_N };

/* Pairs of nodes: ends of the k-th one are end[2k] (head) and end[2k + 1] (tail). */
struct links_pairs {
    int64_t n;
    uint32_t *end;      /* n × 2 */
    uint16_t *relation; /* n; NULL: relations do not count */
};

/* -1: relations do not count. */
static inline int links_relation(const struct links_pairs *pairs, int64_t k)
{
    return pairs->relation != NULL ? pairs->relation[k] : -1;
}

/* A split's held-out edges, and what they are ranked among: pairs for all of them, or n_tail tails for the head of
 * each. */
struct links_held {
    struct links_pairs positive;
    struct links_pairs negative; /* empty where there are tails */
    bool one_way;                /* of a file, with relations: an edge the other way is another edge */
    bool *is_mutual;             /* positive.n: the graph had the edge's reverse, too, before both were taken out */
    bool among_all;              /* task.candidates = "all": among all nodes instead, in place of either end */
    int64_t n_tail;              /* for each positive; 0: none */
    uint32_t *tail;              /* positive.n × n_tail */
};

struct links {
    struct links_held held[LINKS_SPLIT_N];
    int64_t n_left_out; /* stored edges of the graph that files hold out, too, and that were taken out */
    int32_t n_relation; /* of edges that are trained on by their relations (task.decoder); 0: these do not count */
    bool is_directed;   /* which end is the head counts (task.decoder) */
    char how[128];      /* for messages: "validation: valid_edges.npy; test: 5 % drawn by seed 1" */
};

/* Make the dataset, whose graph is loaded, one of links (task.kind = "link"): hold edges out, those of the folder's
 * files or drawn ones, and make every node a training node without a label, of n_class output columns.
 *
 *   files   in dataset.path, where it is a folder: valid_edges.npy, test_edges.npy, integers [2, n], heads and tails,
 *           which need not be edges of the graph. Beside each may be what its edges are ranked among:
 *           valid_edges_negative.npy [2, m], pairs for all edges, or valid_tails_negative.npy [n, k], k tails for the
 *           head of each; likewise of the test. Where relations count, valid_edge_type.npy, integers [n], has those
 *           of valid_edges.npy, and valid_edges_negative.npy is refused
 *   notes   a split without a file has floor(share · pairs) edges, drawn by task.seed from the pairs of different
 *           nodes that an edge joins, in one direction or both, once files have taken out theirs; the head is the
 *           source of the edge, of both directions the smaller node. Negatives without a file are as many as
 *           positives, drawn uniformly of pairs of different nodes that no edge, held out or not, joins in either
 *           direction. Self loops are neither held out nor drawn. Warnings: edges in both splits, negatives of a file
 *           that are edges. Relations count for task.decoder = "distmult", of typed edges: nodes then have a pair for
 *           each relation, inverse ones apart, edges of other relations are other edges, and negative number i is
 *           drawn for the relation of edge i
 *   owns    the dataset's store has the arrays
 *   errors  STATUS_DATA a file that does not fit (file, position, what was expected), no edge left to train on, no
 *           pair without an edge found; STATUS_NOMEM
 *   cost    the edges three times, in drawing with a search of the reverse where the graph is not symmetric; 8 bytes
 *           for each node and each held-out edge while it runs
 */
enum status links_hold_out(const struct job *job, struct dataset *out);

/* Is this the name of a file with held-out edges / with what they are ranked among / with their relations? */
bool links_file_is_positive(const char *name);
bool links_file_is_negative(const char *name);
bool links_file_is_type(const char *name);

#endif
