/* Small graphs cut into parts, for tests that hold parts against the graph. */
#ifndef TESTS_SUPPORT_CUT_GRAPH_H
#define TESTS_SUPPORT_CUT_GRAPH_H

#include "partition/part/part.h"
#include "tests/support/graphs/tiny_graph.h"

struct cut {
    struct dataset dataset;
    struct partition partition;
    struct part *part;
};

/* One part, encoded and opened, with bytes of its own. */
struct part cut_part(const struct dataset *dataset, const struct partition *partition, int32_t p);
void cut_part_close(struct part *part);

/* The graph in n_part parts by a method (enum job_method), ordered by hop where n_hop is not 0. Released with cut_close. */
void cut_open(const struct tiny_graph *graph, int n_part, int method, int n_hop, struct cut *cut);
void cut_close(struct cut *cut);

/* All kinds of graph, typed and weighted ones among them, each with K = 1, 2, 3, 7 and two methods, some ordered by hop; parts of the second
 * method have the features of halo rows, where they may. */
void cut_every(void (*check)(struct cut *cut));

#endif
