/* Relations of typed edges while a graph is built: how many edges each has, and how many relations there are.
 *
 * Separate from dataset_graph.c, which counts and places edges and calls this file for their types.
 */
#ifndef PARTITION_RELATIONS_H
#define PARTITION_RELATIONS_H

#include "partition/graph/dataset_build.h"

#include <stdbool.h>
#include <stdint.h>

#define RELATION_MOST 65536

struct relations {
    bool inverse;    /* every edge of type t has one of type t + n the other way */
    int64_t n;       /* as declared by the source or, after relations_finish, as found; inverse ones not counted */
    int64_t *n_edge; /* RELATION_MOST: edges of each type in the first pass */
};

void relations_open(struct relations *relations, const struct edge_source *source, bool inverse);
void relations_close(struct relations *relations);

/* Count one edge's type. errors  STATUS_DATA out of range (file, entry, what was expected) */
enum status relations_count(struct relations *relations, const struct edge_source *source, int64_t edge);

/* After the first pass: fix n. errors  STATUS_DATA a relation without an edge, or too many with their inverses */
enum status relations_finish(struct relations *relations, const struct edge_source *source);

#endif
