/* See relations.h. Rows are sorted in place, as untyped ones are: a row may be the whole graph. */
#include "partition/relations.h"

#include "protocol/memory.h"

#include <inttypes.h>
#include <stdlib.h>

#define INSERTION_MOST 24

void relations_open(struct relations *relations, const struct edge_source *source, bool inverse)
{
    *relations = (struct relations){.inverse = inverse, .n = source->n_relation,
                                    .n_edge = memory_alloc(RELATION_MOST, sizeof *relations->n_edge)};
}

void relations_close(struct relations *relations)
{
    free(relations->n_edge);
}

enum status relations_count(struct relations *relations, const struct edge_source *source, int64_t edge)
{
    int64_t type = source->type(source->type_self, edge);
    int64_t n = source->n_relation > 0 ? source->n_relation : RELATION_MOST;
    if (type < 0 || type >= n) {
        return status_fail(STATUS_DATA, "%s: entry %" PRId64 ": relation %" PRId64 " is out of range, expected 0 to %"
                           PRId64, source->type_file, edge, type, n - 1);
    }
    relations->n_edge[type]++;
    return STATUS_OK;
}

enum status relations_finish(struct relations *relations, const struct edge_source *source)
{
    int64_t most = RELATION_MOST / (relations->inverse ? 2 : 1), n = relations->n;
    if (n == 0) {
        for (int64_t r = 0; r < RELATION_MOST; r++) {
            n = relations->n_edge[r] > 0 ? r + 1 : n;
        }
        for (int64_t r = 0; r < n; r++) {
            if (relations->n_edge[r] == 0) {
                return status_fail(STATUS_DATA, "%s: relation %" PRId64 " has no edge, expected one of each relation from 0 "
                                   "to %" PRId64 " (or the number \"relations\" in meta.json)", source->type_file, r, n - 1);
            }
        }
    }
    if (n > most) {
        return status_fail(STATUS_DATA, "%s: %" PRId64 " relations, expected at most %" PRId64 "%s", source->type_file, n,
                           most, relations->inverse ? " with an inverse to each (dataset.undirected)" : "");
    }
    relations->n = n;
    return STATUS_OK;
}

/* One row's edges: a pair of arrays under one order. */
struct row {
    uint32_t *source;
    uint16_t *type;
};

static inline uint64_t key_at(struct row row, int64_t i)
{
    return (uint64_t)row.type[i] << 32 | row.source[i];
}

static inline void key_put(struct row row, int64_t i, uint64_t key)
{
    row.type[i] = (uint16_t)(key >> 32);
    row.source[i] = (uint32_t)key;
}

static void insertion_sort(struct row row, int64_t n)
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

/* Ascending, in place: radix exchange from the highest bit down. Depth is at most 48, whatever the data. */
static void sort(struct row row, int64_t n, uint64_t bit)
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
    sort((struct row){row.source + low, row.type + low}, n - low, bit >> 1);
}

static bool ascending(struct row row, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        if (key_at(row, i - 1) > key_at(row, i)) {
            return false;
        }
    }
    return true;
}

void relations_rows_sort(int64_t n_node, const int64_t *indptr, uint32_t *indices, uint16_t *types)
{
#pragma omp parallel for schedule(dynamic, 1024) if (indptr[n_node] > DATASET_PARALLEL_LEAST)
    for (int64_t v = 0; v < n_node; v++) {
        struct row row = {indices + indptr[v], types + indptr[v]};
        int64_t n = indptr[v + 1] - indptr[v];
        if (!ascending(row, n)) {
            sort(row, n, (uint64_t)1 << 47);
        }
    }
}

void relations_rows_unique(int64_t n_node, int64_t *indptr, uint32_t *indices, uint16_t *types)
{
    struct row all = {indices, types};
    int64_t to = 0, begin = 0;
    for (int64_t v = 0; v < n_node; v++) {
        int64_t end = indptr[v + 1];
        indptr[v] = to;
        for (int64_t i = begin; i < end; i++) {
            uint64_t key = key_at(all, i);
            if (to == indptr[v] || key_at(all, to - 1) != key) {
                key_put(all, to++, key);
            }
        }
        begin = end;
    }
    indptr[n_node] = to;
}
