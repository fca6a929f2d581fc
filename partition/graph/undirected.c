/* A symmetric graph is copied without its loops; any other is merged with its transpose, row by row. */
#include "partition/graph/undirected.h"

#include "protocol/base/memory.h"

#include <stddef.h>
#include <string.h>

/* Edges by source: destinations ascend because rows are visited in order. */
struct transpose {
    int64_t n_node, n_edge;
    int64_t *indptr;
    uint32_t *indices;
};

static void transpose_release(struct transpose *t)
{
    memory_release(MEMORY_OTHER, t->indices, (size_t)t->n_edge, sizeof *t->indices);
    memory_release(MEMORY_OTHER, t->indptr, (size_t)t->n_node + 1, sizeof *t->indptr);
    *t = (struct transpose){0};
}

static enum status transpose_build(int64_t n, const int64_t *indptr, const uint32_t *indices, struct transpose *out)
{
    struct transpose t = {.n_node = n, .n_edge = indptr[n]};
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)n + 1, sizeof *t.indptr, &t.indptr);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)t.n_edge, sizeof *t.indices, &t.indices);
    }
    if (status != STATUS_OK) {
        transpose_release(&t);
        return status;
    }
    for (int64_t i = 0; i < t.n_edge; i++) {
        t.indptr[indices[i] + (int64_t)1]++;
    }
    for (int64_t v = 0; v < n; v++) {
        t.indptr[v + 1] += t.indptr[v];
    }
    /* Filling moves each row's begin to its end, which is the next row's begin: shift them back afterwards. */
    for (int64_t v = 0; v < n; v++) {
        for (int64_t i = indptr[v]; i < indptr[v + 1]; i++) {
            t.indices[t.indptr[indices[i]]++] = (uint32_t)v;
        }
    }
    memmove(t.indptr + 1, t.indptr, (size_t)n * sizeof *t.indptr);
    t.indptr[0] = 0;
    *out = t;
    return STATUS_OK;
}

/* The two directions of a graph's edges, rows ascending; no out-edges if they equal the in-edges. */
struct directions {
    const int64_t *in_indptr;
    const uint32_t *in_indices;
    struct transpose out;
};

/* Neighbours of v in either direction, ascending, each once, without v; `out` NULL: only count. */
static int64_t merge_row(const struct directions *edges, int64_t v, int32_t *out)
{
    const uint32_t *a = edges->in_indices + edges->in_indptr[v], *a_end = edges->in_indices + edges->in_indptr[v + 1];
    const uint32_t *b = a_end, *b_end = a_end;
    if (edges->out.indptr != NULL) {
        b = edges->out.indices + edges->out.indptr[v];
        b_end = edges->out.indices + edges->out.indptr[v + 1];
    }
    int64_t n = 0;
    while (a < a_end || b < b_end) {
        uint32_t next = b == b_end || (a < a_end && *a <= *b) ? *a : *b;
        while (a < a_end && *a == next) { /* several edges of one pair differ in type */
            a++;
        }
        while (b < b_end && *b == next) {
            b++;
        }
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

static enum status fill(const struct directions *edges, int64_t n_entry_most, struct undirected *graph)
{
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)graph->n_node + 1, sizeof *graph->indptr,
                                        &graph->indptr);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t n_entry = 0;
    for (int64_t v = 0; v < graph->n_node; v++) {
        n_entry += merge_row(edges, v, NULL);
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
        merge_row(edges, v, graph->indices + graph->indptr[v]);
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
    struct directions edges = {.in_indptr = dataset->indptr, .in_indices = dataset->indices};
    struct transpose in = {0};
    enum status status = STATUS_OK;
    if (!dataset->facts.symmetric) {
        status = transpose_build(dataset->n_node, dataset->indptr, dataset->indices, &edges.out);
    }
    if (status == STATUS_OK && dataset->edge_type != NULL) {
        /* Rows are ordered by type: transposed twice, they ascend. */
        status = transpose_build(dataset->n_node, edges.out.indptr, edges.out.indices, &in);
        edges.in_indptr = in.indptr;
        edges.in_indices = in.indices;
    }
    if (status == STATUS_OK) {
        status = fill(&edges, n_entry_most, &graph);
    }
    transpose_release(&in);
    transpose_release(&edges.out);
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
