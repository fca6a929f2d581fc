/* See row_pairs.h. */
#include "partition/rows/row_pairs.h"

#define INSERTION_MOST 24
#define SOURCES_SMALL 48
#define SPARE_MOST 4096

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
        uint64_t key = row_pairs_key(row, i);
        int64_t j = i;
        for (; j > 0 && row_pairs_key(row, j - 1) > key; j--) {
            row_pairs_put(row, j, row_pairs_key(row, j - 1));
        }
        row_pairs_put(row, j, key);
    }
}

static void sources_insert(uint32_t *key, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        uint32_t k = key[i];
        int64_t at = i;
        for (; at > 0 && key[at - 1] > k; at--) {
            key[at] = key[at - 1];
        }
        key[at] = k;
    }
}

/* Least significant byte first. */
static void radix_sort(uint32_t *key, int64_t n, uint32_t *spare)
{
    uint32_t any = 0;
    for (int64_t i = 0; i < n; i++) {
        any |= key[i];
    }
    uint32_t *from = key, *to = spare;
    for (int shift = 0; shift < 32 && any >> shift != 0; shift += 8) {
        int64_t at[257] = {0};
        for (int64_t i = 0; i < n; i++) {
            at[(from[i] >> shift & 0xff) + 1]++;
        }
        for (int b = 1; b < 256; b++) {
            at[b] += at[b - 1];
        }
        for (int64_t i = 0; i < n; i++) {
            to[at[from[i] >> shift & 0xff]++] = from[i];
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != key) {
        memcpy(key, from, (size_t)n * sizeof *key);
    }
}

void sources_sort(uint32_t *source, int64_t n, uint32_t *spare)
{
    if (n <= SOURCES_SMALL) {
        sources_insert(source, n);
    } else {
        radix_sort(source, n, spare);
    }
}

/* Apart from the recursion, whose frames would all have the spare room. */
static __attribute__((noinline)) void short_sort(struct row_pairs row, int64_t n)
{
    uint32_t spare[SPARE_MOST];
    if (row_pairs_plain(row)) {
        sources_sort(row.source, n, spare);
    } else {
        insertion_sort(row, n);
    }
}

/* Ascending, in place: radix exchange from the highest bit down. Depth is at most 64, whatever the data. */
static void sort(struct row_pairs row, int64_t n, uint64_t bit)
{
    if (n <= (row_pairs_plain(row) ? SPARE_MOST : INSERTION_MOST)) {
        short_sort(row, n);
        return;
    }
    if (bit == 0) {
        return;
    }
    int64_t low = 0, high = n;
    while (low < high) {
        uint64_t key = row_pairs_key(row, low);
        if ((key & bit) == 0) {
            low++;
        } else {
            high--;
            row_pairs_put(row, low, row_pairs_key(row, high));
            row_pairs_put(row, high, key);
        }
    }
    sort(row, low, bit >> 1);
    sort(from(row, low), n - low, bit >> 1);
}

/* The highest bit in which entries out of order differ; 0: they ascend. */
static uint64_t top_bit(struct row_pairs row, int64_t n)
{
    uint64_t differ = 0, first = n > 0 ? row_pairs_key(row, 0) : 0;
    bool ascending = true;
    for (int64_t i = 1; i < n; i++) {
        uint64_t key = row_pairs_key(row, i);
        differ |= key ^ first;
        ascending = ascending && row_pairs_key(row, i - 1) <= key;
    }
    return ascending ? 0 : (uint64_t)1 << (63 - __builtin_clzll(differ));
}

void row_pairs_sort(int64_t n_node, const int64_t *indptr, struct row_pairs rows)
{
#pragma omp parallel for schedule(dynamic, 1024) if (indptr[n_node] > ROWS_PARALLEL_LEAST)
    for (int64_t v = 0; v < n_node; v++) {
        struct row_pairs row = from(rows, indptr[v]);
        int64_t n = indptr[v + 1] - indptr[v];
        uint64_t top = top_bit(row, n);
        if (top != 0) {
            sort(row, n, top);
        }
    }
}

int64_t row_pairs_unique(int64_t n_node, int64_t *indptr, struct row_pairs rows)
{
    int64_t to = 0, n_loop = 0, begin = 0;
    for (int64_t v = 0; v < n_node; v++) {
        int64_t end = indptr[v + 1];
        indptr[v] = to;
        for (int64_t i = begin; i < end; i++) {
            uint64_t key = row_pairs_key(rows, i);
            if (to == indptr[v] || row_pairs_key(rows, to - 1) != key) {
                n_loop += rows.source[i] == v;
                row_pairs_put(rows, to++, key);
            }
        }
        begin = end;
    }
    indptr[n_node] = to;
    return n_loop;
}
