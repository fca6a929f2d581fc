/* Between the files that see METIS. */
#ifndef PARTITION_PARTITION_METIS_H
#define PARTITION_PARTITION_METIS_H

#include "partition/graph/undirected.h"

#include <stdint.h>

/* End this process as a signal from outside was to end it, should `code`, which METIS has just returned, be what
 * METIS made of that: it traps TERM and ABRT, and takes them for errors of its own. Those it prints, to what is
 * stderr where METIS may run. */
void metis_obey(int code);

/* Number the parts anew so that any run of numbers has few edges with the others: the parts of a worker are such a
 * run (place.c). Called where METIS may run.
 *
 *   shapes  owner n_node: part numbers, replaced
 *   cost    two scans of all edges, n_node × 8 bytes; METIS's recursive bisection of a graph of n_part nodes
 */
void metis_parts_number(const struct undirected *graph, int32_t n_part, int32_t seed, int32_t *owner);

#endif
