/* Rows of sources, with a second number each or without, in ascending order: by source, (type, source), (source,
 * weight) or (source, row of features).
 *
 * Sorted in place, as a row may be the whole graph. Independent of the meaning of the second number.
 */
#ifndef PARTITION_ROW_PAIRS_H
#define PARTITION_ROW_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Loops over fewer elements than this stay on one thread: waking others costs more. */
#define ROWS_PARALLEL_LEAST 65536

/* Arrays that belong together entry by entry; one of types, weights and rows, or none. */
struct row_pairs {
    uint32_t *source;
    uint16_t *type;
    float *weight; /* not negative where sources repeat, so that their bits order them */
    uint32_t *row; /* of features of edges */
};

static inline bool row_pairs_plain(struct row_pairs rows)
{
    return rows.type == NULL && rows.row == NULL && rows.weight == NULL;
}

/* The number that entries are ordered by: type, source; source, weight or row; source. */
static inline uint64_t row_pairs_key(struct row_pairs rows, int64_t i)
{
    if (rows.type != NULL) {
        return (uint64_t)rows.type[i] << 32 | rows.source[i];
    }
    if (row_pairs_plain(rows)) {
        return rows.source[i];
    }
    uint32_t bits;
    memcpy(&bits, rows.row != NULL ? &rows.row[i] : (const void *)&rows.weight[i], sizeof bits);
    return (uint64_t)rows.source[i] << 32 | bits;
}

static inline void row_pairs_put(struct row_pairs rows, int64_t i, uint64_t key)
{
    uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    if (rows.type != NULL) {
        rows.type[i] = (uint16_t)high;
        rows.source[i] = low;
    } else if (row_pairs_plain(rows)) {
        rows.source[i] = low;
    } else {
        memcpy(rows.row != NULL ? &rows.row[i] : (void *)&rows.weight[i], &low, sizeof low);
        rows.source[i] = high;
    }
}

/* Sort a row of sources. shapes  source, spare n */
void sources_sort(uint32_t *source, int64_t n, uint32_t *spare);

/* Sort each of n_node rows, indptr[v] … indptr[v + 1], on several threads. cost  16 KiB of stack */
void row_pairs_sort(int64_t n_node, const int64_t *indptr, struct row_pairs rows);

/* Close the gaps that repeats leave in sorted rows. Returns how many of the entries left have their row's number as
 * source: loops. */
int64_t row_pairs_unique(int64_t n_node, int64_t *indptr, struct row_pairs rows);

#endif
