/* A hash to break ties of label propagation. */
#ifndef PARTITION_SCATTER_H
#define PARTITION_SCATTER_H

#include "partition/rows/permutation.h"

#include <stdint.h>

/* Scatters equally good labels, so that a label does not spread because of its number; differently for each salt. */
static inline uint32_t scatter(uint32_t label, uint32_t salt)
{
    return permutation_mix(label, salt * 0x9e3779b9u);
}

/* How many entries ahead the label of an edge's other end is fetched, and then the count of that label. */
#define LABELS_AHEAD 32
#define COUNTS_AHEAD 12

#endif
