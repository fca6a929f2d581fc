/* Edges that are held out of a graph for the prediction of links, and pairs without an edge to compare them with.
 *
 * Held-out edges pass no messages: they are taken out of the graph, in both directions. What remains is trained on.
 */
#ifndef PARTITION_LINKS_H
#define PARTITION_LINKS_H

#include "protocol/base/status.h"

#include <stdint.h>

struct job;
struct dataset;

enum links_split { LINKS_SPLIT_VALID, LINKS_SPLIT_TEST, LINKS_SPLIT_N };

/* Pairs of nodes: ends of the k-th one are end[2k] (head) and end[2k + 1] (tail). */
struct links_pairs {
    int64_t n;
    uint32_t *end; /* n × 2 */
};

/* A split's held-out edges, and what they are ranked among: pairs for all of them, or n_tail tails for the head of
 * each. */
struct links_held {
    struct links_pairs positive;
    struct links_pairs negative; /* empty where there are tails */
    int64_t n_tail;              /* for each positive; 0: none */
    uint32_t *tail;              /* positive.n × n_tail */
};

struct links {
    struct links_held held[LINKS_SPLIT_N];
    int64_t n_left_out; /* edges of the graph that were given as held out, too, and were taken out */
    char how[96];       /* for messages: where the held-out edges come from, "valid_edges.npy", "5 % drawn by seed 1" */
};

/* Make the dataset, whose graph is loaded, one of links (task.kind = "link"): hold edges out, those of the folder's
 * files or drawn ones, and make every node a training node without a label, of n_class output columns.
 *
 *   files   in dataset.path, format npy: valid_edges.npy, test_edges.npy, integers [2, n]; beside each, or without:
 *           valid_edges_negative.npy [2, m], pairs that all edges are ranked among, or valid_tails_negative.npy
 *           [n, k], k tails for the head of each edge; likewise of the test
 *   notes   shares without a file are drawn by task.seed, of pairs of different nodes; where the graph is symmetric a
 *           pair and its reverse are one. Negatives without a file are as many as positives, drawn uniformly of pairs of
 *           different nodes that no edge, held out or not, joins in either direction
 *   errors  STATUS_DATA a file that does not fit (file, position, what was expected), no edge left to train on, no pair
 *           without an edge found; STATUS_NOMEM
 *   cost    the edges once or twice; a draw for each edge
 */
enum status links_hold_out(const struct job *job, struct dataset *out);

#endif
