/* See row_pairs.h. */
#include "partition/graph/row_pairs.h"

#include "partition/graph/dataset_build.h"

#include <string.h>

#define INSERTION_MOST 24

static inline uint64_t key_at(struct row_pairs rows, int64_t i)
{
    if (rows.type != NULL) {
        return (uint64_t)rows.type[i] << 32 | rows.source[i];
    }
    uint32_t bits;
    memcpy(&bits, rows.row != NULL ? &rows.row[i] : (const void *)&rows.weight[i], sizeof bits);
    return (uint64_t)rows.source[i] << 32 | bits;
}

static inline void key_put(struct row_pairs rows, int64_t i, uint64_t key)
{
    uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    if (rows.type != NULL) {
        rows.type[i] = (uint16_t)high;
        rows.source[i] = low;
    } else {
        memcpy(rows.row != NULL ? &rows.row[i] : (void *)&rows.weight[i], &low, sizeof low);
        rows.source[i] = high;
    }
}

uint64_t row_pairs_key(struct row_pairs rows, int64_t i)
{
    return key_at(rows, i);
}

void row_pairs_put(struct row_pairs rows, int64_t i, uint64_t key)
{
    key_put(rows, i, key);
}

static struct row_pairs from(struct row_pairs rows, int64_t first)
{
    return (struct row_pairs){.source = rows.source + first,
                              .type = rows.type != NULL ? rows.type + first : NULL,
                              .weight = rows.weight != NULL ? rows.weight + first : NULL,
                              .row = rows.row != NULL ? rows.row + first : NULL};
}

static void insertion_sort(struct row_pairs row, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        uint64_t key = key_at(row, i);
        int64_t j = i;
        for (; j > 0 && key_at(row, j - 1) > key; j--) {
            key_put(row, j, key_at(row, j - 1));
        }
        key_put(row, j, key);
    }
}

/* Ascending, in place: radix exchange from the highest bit down. Depth is at most 64, whatever the data. */
static void sort(struct row_pairs row, int64_t n, uint64_t bit)
{
    if (n <= INSERTION_MOST) {
        insertion_sort(row, n);
        return;
    }
    if (bit == 0) {
        return;
    }
    int64_t low = 0, high = n;
    while (low < high) {
        uint64_t key = key_at(row, low);
        if ((key & bit) == 0) {
            low++;
        } else {
            high--;
            key_put(row, low, key_at(row, high));
            key_put(row, high, key);
        }
    }
    sort(row, low, bit >> 1);
    sort(from(row, low), n - low, bit >> 1);
}

/* The highest bit in which entries out of order differ; 0: they ascend. */
static uint64_t top_bit(struct row_pairs row, int64_t n)
{
    uint64_t differ = 0, first = n > 0 ? key_at(row, 0) : 0;
    bool ascending = true;
    for (int64_t i = 1; i < n; i++) {
        uint64_t key = key_at(row, i);
        differ |= key ^ first;
        ascending = ascending && key_at(row, i - 1) <= key;
    }
    return ascending ? 0 : (uint64_t)1 << (63 - __builtin_clzll(differ));
}

void row_pairs_sort(int64_t n_node, const int64_t *indptr, struct row_pairs rows)
{
#pragma omp parallel for schedule(dynamic, 1024) if (indptr[n_node] > DATASET_PARALLEL_LEAST)
    for (int64_t v = 0; v < n_node; v++) {
        struct row_pairs row = from(rows, indptr[v]);
        int64_t n = indptr[v + 1] - indptr[v];
        uint64_t top = top_bit(row, n);
        if (top != 0) {
            sort(row, n, top);
        }
    }
}
