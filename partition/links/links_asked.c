/* Pairs and nodes that a prediction is asked about, from their files; and the asked nodes' neighbours. */
#include "partition/graph/links_asked.h"

#include "partition/graph/dataset_edges.h"
#include "partition/links/links_build.h"
#include "protocol/base/memory.h"

#include <stdlib.h>

static enum status pairs_take(const struct npy *npy, const struct dataset *dataset, struct links_asked *out)
{
    struct edge_source source;
    struct links_pairs *pairs = &out->pairs;
    enum status status = edge_source_list(npy, &source);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, 2 * (size_t)source.n_edge, sizeof *pairs->end, &pairs->end);
    }
    if (status != STATUS_OK) {
        return status;
    }
    pairs->n = source.n_edge;
    return links_pairs_copy(npy, false, pairs, dataset);
}

static enum status nodes_take(const struct npy *npy, const struct dataset *dataset, struct links_asked *out)
{
    enum status status = npy_expect(npy, NPY_KIND_INTEGER, 1, -1, 0);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)npy->n_value, sizeof *out->node, &out->node);
    }
    if (status != STATUS_OK) {
        return status;
    }
    out->n = npy->n_value;
    for (int64_t i = 0; i < out->n && status == STATUS_OK; i++) {
        int64_t node = npy_int(npy, i);
        status = links_node_check(npy->name, "position", i, "node", node, dataset);
        out->node[i] = (uint32_t)node;
    }
    return status;
}

static enum status file_read(const char *key, const char *path,
                             enum status (*take)(const struct npy *, const struct dataset *, struct links_asked *),
                             const struct dataset *dataset, struct links_asked *out)
{
    struct npy npy;
    if (path[0] == '\0') {
        return STATUS_OK;
    }
    enum status status = npy_open(path, &npy);
    if (status == STATUS_OK) {
        status = take(&npy, dataset, out);
        npy_close(&npy);
    }
    if (status != STATUS_OK) {
        return status_fail(status, "%s: %s", key, status_reason());
    }
    return STATUS_OK;
}

/* Rows of the asked nodes, in the order in which they are asked for first. row_of[v]: 1 + that of node v; 0: none. */
static void rows_number(uint32_t *row_of, struct links_asked *out)
{
    for (int64_t i = 0; i < out->n; i++) {
        uint32_t *row = &row_of[out->node[i]];
        if (*row == 0) {
            *row = (uint32_t)++out->n_row;
        }
        out->row[i] = *row - 1;
    }
}

/* Each edge, at the ends that are asked for. next[row]: the place of its next entry; NULL joined: counted only. */
static void edges_visit(const struct dataset *dataset, const uint32_t *row_of, int64_t *next, uint32_t *joined)
{
    for (int64_t v = 0; v < dataset->n_node; v++) {
        for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
            const uint32_t end[2] = {(uint32_t)v, dataset->indices[i]};
            for (int side = 0; side < (dataset->symmetric ? 1 : 2); side++) {
                if (row_of[end[side]] == 0) {
                    continue;
                }
                int64_t at = next[row_of[end[side]] - 1]++;
                if (joined != NULL) {
                    joined[at] = end[1 - side];
                }
            }
        }
    }
}

static int node_order(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

/* Count into joined_at[row + 1], add up, fill: joined_at then has each row's end, which is moved to its beginning. */
static enum status joined_fill(const struct dataset *dataset, const uint32_t *row_of, struct links_asked *out)
{
    int64_t *at = out->joined_at;
    edges_visit(dataset, row_of, at + 1, NULL);
    for (int64_t row = 0; row < out->n_row; row++) {
        at[row + 1] += at[row];
    }
    int64_t n_joined = at[out->n_row];
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)n_joined, sizeof *out->joined, &out->joined);
    if (status != STATUS_OK) {
        return status;
    }
    out->n_joined = n_joined;
    edges_visit(dataset, row_of, at, out->joined);
    for (int64_t row = out->n_row; row > 0; row--) {
        at[row] = at[row - 1];
    }
    at[0] = 0;
#pragma omp parallel for schedule(dynamic, 64)
    for (int64_t row = 0; row < out->n_row; row++) {
        qsort(out->joined + at[row], (size_t)(at[row + 1] - at[row]), sizeof *out->joined, node_order);
    }
    return STATUS_OK;
}

static enum status joined_find(const struct dataset *dataset, struct links_asked *out)
{
    size_t n_node = (size_t)dataset->n_node;
    uint32_t *row_of = NULL;
    enum status status = memory_acquire(MEMORY_OTHER, n_node, sizeof *row_of, &row_of);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)out->n, sizeof *out->row, &out->row);
    }
    if (status == STATUS_OK) {
        rows_number(row_of, out);
        status = memory_acquire(MEMORY_OTHER, (size_t)out->n_row + 1, sizeof *out->joined_at, &out->joined_at);
    }
    if (status == STATUS_OK) {
        status = joined_fill(dataset, row_of, out);
    }
    memory_release(MEMORY_OTHER, row_of, n_node, sizeof *row_of);
    return status;
}

enum status links_asked_read(const struct job *job, const struct dataset *dataset, struct links_asked *out)
{
    *out = (struct links_asked){.relation = -1};
    enum status status = file_read("predict.pairs", job->predict.pairs, pairs_take, dataset, out);
    if (status == STATUS_OK) {
        status = file_read("predict.nodes", job->predict.nodes, nodes_take, dataset, out);
    }
    if (status != STATUS_OK || job->predict.known || out->node == NULL) {
        return status;
    }
    return joined_find(dataset, out);
}

void links_asked_release(struct links_asked *asked)
{
    memory_release(MEMORY_OTHER, asked->pairs.end, 2 * (size_t)asked->pairs.n, sizeof *asked->pairs.end);
    memory_release(MEMORY_OTHER, asked->node, (size_t)asked->n, sizeof *asked->node);
    memory_release(MEMORY_OTHER, asked->row, (size_t)asked->n, sizeof *asked->row);
    memory_release(MEMORY_OTHER, asked->joined_at, (size_t)asked->n_row + 1, sizeof *asked->joined_at);
    memory_release(MEMORY_OTHER, asked->joined, (size_t)asked->n_joined, sizeof *asked->joined);
    *asked = (struct links_asked){0};
}

bool links_asked_joins(const struct links_asked *asked, int64_t i, uint32_t other)
{
    if (asked->joined == NULL) {
        return false;
    }
    const int64_t begin = asked->joined_at[asked->row[i]], end = asked->joined_at[asked->row[i] + 1];
    return bsearch(&other, asked->joined + begin, (size_t)(end - begin), sizeof other, node_order) != NULL;
}
