/* Reverse Cuthill-McKee over edges inside parts: for meshes, roads and grids, where nothing clusters. */
#include "partition/methods/order.h"
#include "protocol/base/amounts.h"
#include "protocol/base/memory.h"

#include <stdlib.h>

static int64_t degree_of(const struct dataset *dataset, int64_t v)
{
    return dataset->indptr[v + 1] - dataset->indptr[v];
}

static int64_t widest_row(const struct dataset *dataset)
{
    int64_t widest = 0;
    for (int64_t v = 0; v < dataset->n_node; v++) {
        widest = degree_of(dataset, v) > widest ? degree_of(dataset, v) : widest;
    }
    return widest;
}

/* Nodes by degree, ascending, equal ones by number: a counting sort. at: widest + 2 zeros */
static void by_degree(const struct dataset *dataset, int64_t widest, uint64_t *at, uint32_t *out)
{
    for (int64_t v = 0; v < dataset->n_node; v++) {
        at[degree_of(dataset, v) + 1]++;
    }
    for (int64_t degree = 0; degree <= widest; degree++) {
        at[degree + 1] += at[degree];
    }
    for (int64_t v = 0; v < dataset->n_node; v++) {
        out[at[degree_of(dataset, v)]++] = (uint32_t)v;
    }
}

/* sequence serves as the queue: what stands before `n_out` was visited, what stands before `head` expanded. */
static void visit(const struct dataset *dataset, const int32_t *owner, const uint32_t *start, uint8_t *seen,
                  uint64_t *key, uint32_t *sequence)
{
    int64_t n_out = 0, head = 0;
    for (int64_t s = 0; s < dataset->n_node; s++) {
        if (!seen[start[s]]) {
            seen[start[s]] = 1;
            sequence[n_out++] = start[s];
        }
        for (; head < n_out; head++) {
            uint32_t v = sequence[head];
            int64_t n = 0;
            for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + (int64_t)1]; i++) {
                uint32_t u = dataset->indices[i];
                if (!seen[u] && owner[u] == owner[v]) {
                    seen[u] = 1;
                    key[n++] = (uint64_t)degree_of(dataset, u) << 32 | u;
                }
            }
            qsort(key, (size_t)n, sizeof *key, ascending_compare);
            for (int64_t i = 0; i < n; i++) {
                sequence[n_out++] = (uint32_t)key[i];
            }
        }
    }
}

static void reverse(uint32_t *value, int64_t n)
{
    for (int64_t a = 0, b = n - 1; a < b; a++, b--) {
        uint32_t swap = value[a];
        value[a] = value[b];
        value[b] = swap;
    }
}

enum status order_breadth(const struct dataset *dataset, const int32_t *owner, uint32_t *sequence)
{
    size_t n = (size_t)dataset->n_node;
    int64_t widest = widest_row(dataset);
    size_t n_key = (size_t)widest + 2;
    uint32_t *start = NULL;
    uint8_t *seen = NULL;
    uint64_t *key = NULL;
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *start, &start);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, n, sizeof *seen, &seen);
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, n_key, sizeof *key, &key);
    }
    if (status == STATUS_OK) {
        by_degree(dataset, widest, key, start);
        visit(dataset, owner, start, seen, key, sequence);
        reverse(sequence, dataset->n_node);
    }
    memory_release(MEMORY_OTHER, key, n_key, sizeof *key);
    memory_release(MEMORY_OTHER, seen, n, sizeof *seen);
    memory_release(MEMORY_OTHER, start, n, sizeof *start);
    return status;
}
