#include "partition/part/out_edges.h"

#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

#define SHARE 4 /* a run of several parts has at most this part of all edges */

void out_edges_init(const struct dataset *dataset, const struct partition *partition, const uint32_t *place,
                    int32_t part_end, struct out_edges *out)
{
    *out = (struct out_edges){.dataset = dataset,
                              .partition = partition,
                              .place = place,
                              .part_end = part_end,
                              .n_of_part = memory_alloc((size_t)partition->n_part, sizeof *out->n_of_part)};
    for (int64_t i = 0; i < dataset->n_edge; i++) {
        out->n_of_part[partition->owner[dataset->indices[i]]]++;
    }
}

static void run_release(struct out_edges *out)
{
    memory_release(MEMORY_OTHER, out->edge_rows, (size_t)out->n_edge, sizeof *out->edge_rows);
    memory_release(MEMORY_OTHER, out->weights, (size_t)out->n_edge, sizeof *out->weights);
    memory_release(MEMORY_OTHER, out->types, (size_t)out->n_edge, sizeof *out->types);
    memory_release(MEMORY_OTHER, out->indices, (size_t)out->n_edge, sizeof *out->indices);
    memory_release(MEMORY_OTHER, out->indptr, (size_t)out->n_row + 1, sizeof *out->indptr);
    out->indptr = NULL;
    out->indices = NULL;
    out->types = NULL;
    out->weights = NULL;
    out->edge_rows = NULL;
    out->first = out->last = 0;
    out->n_row = out->n_edge = 0;
}

void out_edges_release(struct out_edges *out)
{
    run_release(out);
    free(out->n_of_part);
    out->n_of_part = NULL;
}

/* Which parts the run from `part` on has, and arrays of its size. */
static enum status run_acquire(struct out_edges *out, int32_t part)
{
    const struct dataset *dataset = out->dataset;
    const int64_t *part_begin = out->partition->part_begin;
    out->first = part;
    out->last = part + 1;
    out->n_edge = out->n_of_part[part];
    while (out->last < out->part_end && out->n_edge + out->n_of_part[out->last] <= dataset->n_edge / SHARE) {
        out->n_edge += out->n_of_part[out->last++];
    }
    out->n_row = part_begin[out->last] - part_begin[out->first];
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)out->n_row + 1, sizeof *out->indptr, &out->indptr);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)out->n_edge, sizeof *out->indices, &out->indices);
    }
    if (status == STATUS_OK && dataset->edge_type != NULL) {
        status = memory_acquire(MEMORY_OTHER, (size_t)out->n_edge, sizeof *out->types, &out->types);
    }
    if (status == STATUS_OK && dataset->facts.weighted) {
        status = memory_acquire(MEMORY_OTHER, (size_t)out->n_edge, sizeof *out->weights, &out->weights);
    }
    if (status == STATUS_OK && dataset->edges.row != NULL) {
        status = memory_acquire(MEMORY_OTHER, (size_t)out->n_edge, sizeof *out->edge_rows, &out->edge_rows);
    }
    return status;
}

/* Counting sort of the run's edges by source. */
static void run_fill(struct out_edges *out)
{
    const struct dataset *dataset = out->dataset;
    int64_t begin = out->partition->part_begin[out->first];
    int64_t *end = out->indptr + 1;
    for (int64_t i = 0; i < dataset->n_edge; i++) {
        int64_t row = out->place[dataset->indices[i]] - begin;
        if (row >= 0 && row < out->n_row) {
            end[row]++;
        }
    }
    for (int64_t r = 1; r < out->n_row; r++) {
        end[r] += end[r - 1];
    }
    /* Filled from the back, so that `end` becomes `begin` and destinations stay ascending. */
    for (int64_t v = dataset->n_node - 1; v >= 0; v--) {
        for (int64_t i = dataset->indptr[v + 1] - 1; i >= dataset->indptr[v]; i--) {
            int64_t row = out->place[dataset->indices[i]] - begin;
            if (row < 0 || row >= out->n_row) {
                continue;
            }
            int64_t at = --end[row];
            out->indices[at] = (uint32_t)v;
            if (out->types != NULL) {
                out->types[at] = dataset->edge_type[i];
            }
            if (out->weights != NULL) {
                out->weights[at] = dataset->edge_weight[i];
            }
            if (out->edge_rows != NULL) {
                out->edge_rows[at] = dataset->edges.row[i];
            }
        }
    }
    memmove(out->indptr, end, (size_t)out->n_row * sizeof *end);
    out->indptr[out->n_row] = out->n_edge;
}

enum status out_edges_gather(struct out_edges *out, int32_t part)
{
    if (part >= out->first && part < out->last) {
        return STATUS_OK;
    }
    run_release(out);
    enum status status = run_acquire(out, part);
    if (status != STATUS_OK) {
        run_release(out);
        return status;
    }
    run_fill(out);
    return STATUS_OK;
}
