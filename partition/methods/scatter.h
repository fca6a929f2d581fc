/* A hash to break ties of label propagation. */
#ifndef PARTITION_SCATTER_H
#define PARTITION_SCATTER_H

#include <stdint.h>

/* Scatters equally good labels, so that a label does not spread because of its number; differently for each salt. */
static inline uint32_t scatter(uint32_t label, uint32_t salt)
{
    uint32_t x = (label ^ salt * 0x9e3779b9u) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Entries ahead of which an edge's other end, and then what is counted for its label, is fetched. */
#define LABELS_AHEAD 32
#define COUNTS_AHEAD 12

#endif
