/* What a prediction of links is asked: pairs whose scores, and nodes whose partners are wanted.
 *
 * Read before the prediction, while the graph is there: which nodes are joined with an asked one by an edge. Knows no
 * scores.
 */
#ifndef PARTITION_LINKS_ASKED_H
#define PARTITION_LINKS_ASKED_H

#include "partition/links/links_known.h"

struct links_asked {
    struct links_pairs pairs; /* of predict.pairs */
    int64_t n;                /* of predict.nodes */
    uint32_t *node;           /* n */
    int relation;             /* of all partners: predict.relation; -1: relations do not count */
    struct links_known known; /* of each node those that are no partners; empty with predict.known */
};

/* Read the files of predict.pairs, integers [2, n], or [3, n] where relations count, and predict.nodes, integers [m];
 * an empty key asks for nothing.
 *
 *   owns    the caller: links_asked_release, also after a failure
 *   errors  STATUS_NO_INPUT no such file · STATUS_DATA another shape, no integers, a node or relation out of range:
 *           key, file, position, what was expected · STATUS_NOMEM
 *   cost    8 bytes for each pair, 4 for each asked node, and those of links_known_nodes
 */
enum status links_asked_read(const struct job *job, const struct dataset *dataset, struct links_asked *out);
void links_asked_release(struct links_asked *asked);

#endif
