/* Edges of one row of a block while a part is encoded: their order, and what moves along with them. Knows no bytes of
 * parts. */
#ifndef PARTITION_PART_COLUMNS_H
#define PARTITION_PART_COLUMNS_H

#include "partition/graph/dataset.h"

#include <stdint.h>

/* Sort a row's columns; with `types`, by type and then column; types, or values, move along.
 *
 *   shapes  columns, types or values of 4 bytes each (or neither: NULL) n · spare n × 4 bytes, with one of them n × 8
 */
void part_columns_sort(uint32_t *columns, uint16_t *types, void *values, int64_t n, void *spare);

/* 1 / in-edges of `node` with relation `type`, of which there is one at least. cost  two searches in the node's
 * row */
float part_relation_weight(const struct dataset *dataset, uint32_t node, uint16_t type);

#endif
