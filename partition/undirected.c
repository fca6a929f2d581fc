/* A symmetric graph is copied without its loops; any other is merged with its transpose, row by row. */
#include "partition/undirected.h"

#include "protocol/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The dataset's edges by source: destinations ascend because rows are visited in order. */
struct transpose {
    int64_t *indptr;
    uint32_t *indices;
};

static void transpose_release(const struct dataset *dataset, struct transpose *t)
{
    memory_release(MEMORY_OTHER, t->indices, (size_t)dataset->n_edge, sizeof *t->indices);
    memory_release(MEMORY_OTHER, t->indptr, (size_t)dataset->n_node + 1, sizeof *t->indptr);
}

static enum status transpose_build(const struct dataset *dataset, struct transpose *t)
{
    int64_t n = dataset->n_node;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)n + 1, sizeof *t->indptr, &t->indptr);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)dataset->n_edge, sizeof *t->indices, &t->indices);
    }
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t i = 0; i < dataset->n_edge; i++) {
        t->indptr[dataset->indices[i] + (int64_t)1]++;
    }
    for (int64_t v = 0; v < n; v++) {
        t->indptr[v + 1] += t->indptr[v];
    }
    /* Filling moves each row's begin to its end, which is the next row's begin: shift them back afterwards. */
    for (int64_t v = 0; v < n; v++) {
        for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
            t->indices[t->indptr[dataset->indices[i]]++] = (uint32_t)v;
        }
    }
    memmove(t->indptr + 1, t->indptr, (size_t)n * sizeof *t->indptr);
    t->indptr[0] = 0;
    return STATUS_OK;
}

/* Neighbours of v in either direction, ascending, each once, v itself left out; `out` may be NULL to count them. */
static int64_t merge_row(const struct dataset *dataset, const struct transpose *t, int64_t v, int32_t *out)
{
    const uint32_t *a = dataset->indices + dataset->indptr[v], *a_end = dataset->indices + dataset->indptr[v + 1];
    const uint32_t *b = a_end, *b_end = a_end;
    if (t->indptr != NULL) {
        b = t->indices + t->indptr[v];
        b_end = t->indices + t->indptr[v + 1];
    }
    int64_t n = 0;
    while (a < a_end || b < b_end) {
        uint32_t next = b == b_end || (a < a_end && *a <= *b) ? *a : *b;
        a += a < a_end && *a == next;
        b += b < b_end && *b == next;
        if (next == v) {
            continue;
        }
        if (out != NULL) {
            out[n] = (int32_t)next;
        }
        n++;
    }
    return n;
}

static enum status fill(const struct dataset *dataset, const struct transpose *t, int64_t n_entry_most,
                        struct undirected *graph)
{
    enum status status =
        memory_acquire(MEMORY_OTHER, (size_t)graph->n_node + 1, sizeof *graph->indptr, &graph->indptr);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t n_entry = 0;
    for (int64_t v = 0; v < graph->n_node; v++) {
        n_entry += merge_row(dataset, t, v, NULL);
        graph->indptr[v + 1] = n_entry <= n_entry_most ? (int32_t)n_entry : 0;
    }
    if (n_entry > n_entry_most) {
        return status_fail(STATUS_DATA,
                           "the graph has %lld edge entries once made undirected, METIS takes at most %lld: "
                           "use partition.method = \"block\", \"random\" or \"file\"",
                           (long long)n_entry, (long long)n_entry_most);
    }
    graph->n_entry = n_entry;
    status = memory_acquire(MEMORY_OTHER, (size_t)n_entry, sizeof *graph->indices, &graph->indices);
    for (int64_t v = 0; v < graph->n_node && status == STATUS_OK; v++) {
        merge_row(dataset, t, v, graph->indices + graph->indptr[v]);
    }
    return status;
}

enum status undirected_build(const struct dataset *dataset, int64_t n_entry_most, struct undirected *out)
{
    if (dataset->n_node > INT32_MAX) {
        return status_fail(STATUS_DATA,
                           "the graph has %lld nodes, METIS takes at most %d: use partition.method = "
                           "\"block\", \"random\" or \"file\"",
                           (long long)dataset->n_node, INT32_MAX);
    }
    struct undirected graph = {.n_node = dataset->n_node};
    struct transpose transpose = {0};
    enum status status = dataset->symmetric ? STATUS_OK : transpose_build(dataset, &transpose);
    if (status == STATUS_OK) {
        status = fill(dataset, &transpose, n_entry_most, &graph);
    }
    transpose_release(dataset, &transpose);
    if (status != STATUS_OK) {
        undirected_release(&graph);
        return status;
    }
    *out = graph;
    return STATUS_OK;
}

void undirected_release(struct undirected *graph)
{
    memory_release(MEMORY_OTHER, graph->indices, (size_t)graph->n_entry, sizeof *graph->indices);
    memory_release(MEMORY_OTHER, graph->indptr, (size_t)graph->n_node + 1, sizeof *graph->indptr);
    *graph = (struct undirected){0};
}
