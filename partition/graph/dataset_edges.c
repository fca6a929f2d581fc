/* Edge lists and compressed rows of any integer type, read as pairs; see dataset_edges.h. Ids are not checked
 * here. */
#include "partition/graph/dataset_edges.h"

#include <inttypes.h>

static enum status list_read(void *self, int64_t first, int64_t n, int64_t *source, int64_t *destination)
{
    const struct npy *edges = self;
    int64_t n_edge = edges->shape[1];
    for (int64_t i = 0; i < n; i++) {
        source[i] = npy_int(edges, first + i);
        destination[i] = npy_int(edges, n_edge + first + i);
    }
    return STATUS_OK;
}

/* Edge after edge, as numpy stores the transpose of [E, 2]. */
static enum status pairs_read(void *self, int64_t first, int64_t n, int64_t *source, int64_t *destination)
{
    const struct npy *edges = self;
    for (int64_t i = 0; i < n; i++) {
        source[i] = npy_int_stored(edges, 2 * (first + i));
        destination[i] = npy_int_stored(edges, 2 * (first + i) + 1);
    }
    return STATUS_OK;
}

enum status edge_source_list(const struct npy *edges, struct edge_source *out)
{
    enum status status = npy_expect(edges, NPY_KIND_INTEGER, 2, 2, -1);
    if (status != STATUS_OK && edges->rank == 2 && edges->shape[0] != 2 && edges->shape[1] == 2) {
        status = status_fail(status, "%s; it has a row for each edge: transpose it", status_reason());
    }
    *out = (struct edge_source){.file = edges->name,
                                .unit = "column",
                                .n_edge = edges->shape[1],
                                .self = (void *)edges,
                                .read = edges->by_columns ? pairs_read : list_read};
    return status;
}

static enum status rows_read(void *self, int64_t first, int64_t n, int64_t *source, int64_t *destination)
{
    struct edge_rows *rows = self;
    int64_t *row_side = rows->rows_are_sources ? source : destination;
    int64_t *entry_side = rows->rows_are_sources ? destination : source;
    if (first == 0) {
        rows->row = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        while (npy_int(rows->indptr, rows->row + 1) <= first + i) {
            rows->row++;
        }
        entry_side[i] = npy_int(rows->indices, first + i);
        row_side[i] = rows->row;
    }
    return STATUS_OK;
}

enum status edge_source_rows(struct edge_rows *rows, int64_t n_node, struct edge_source *out)
{
    const struct npy *indptr = rows->indptr, *indices = rows->indices;
    enum status status = npy_expect(indices, NPY_KIND_INTEGER, 1, -1, 0);
    if (status == STATUS_OK) {
        status = npy_expect(indptr, NPY_KIND_INTEGER, 1, n_node + 1, 0);
    }
    int64_t last = 0, n_edge = indices->n_value;
    for (int64_t row = 0; row <= n_node && status == STATUS_OK; row++) {
        int64_t at = npy_int(indptr, row);
        int64_t least = row == n_node ? n_edge : last, most = row == 0 ? 0 : n_edge;
        if (at < least || at > most) {
            status = status_fail(STATUS_DATA,
                                 "%s: entry %" PRId64 " is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                                 indptr->name, row, at, least, most);
        }
        last = at;
    }
    *out = (struct edge_source){
        .file = indices->name, .unit = "entry", .n_edge = n_edge, .self = rows, .read = rows_read};
    return status;
}
