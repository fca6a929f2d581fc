/* Shared by the files that use METIS. */
#ifndef PARTITION_PARTITION_METIS_H
#define PARTITION_PARTITION_METIS_H

#include "partition/graph/undirected.h"

#include <stdint.h>

/* If `code`, METIS's return code, stands for a signal from outside, end this process by that signal: METIS traps TERM
 * and ABRT and reports them as errors of its own, on the stderr of its process. */
void metis_obey(int code);

/* Renumber the parts so that any run of numbers has few edges with the others: the parts of a worker are such a run
 * (place.c). Called in METIS's process.
 *
 *   shapes  owner n_node: part numbers, replaced
 *   cost    two scans of all edges, n_node × 8 bytes; METIS's recursive bisection of a graph of n_part nodes
 */
void metis_parts_number(const struct undirected *graph, int32_t n_part, int32_t seed, int32_t *owner);

#endif
