/* Sizes of every part from one pass over the edges, without encoding any: for memory plans, placement and --plan. */
#include "partition/part/part.h"
#include "partition/part/part_format.h"
#include "protocol/memory.h"

#include <stdlib.h>

/* Three n_part × n_part tables in one block: row p, column j counts what part p has of part j in the IN direction. */
enum { TABLE_COL, TABLE_ROW, TABLE_EDGE, TABLE_N };

static size_t table_entries(int32_t n_part)
{
    return (size_t)TABLE_N * (size_t)n_part * (size_t)n_part;
}

/* Count columns, rows and edges of every block.
 * taken[u]: 1 + the last part that was seen taking u · seen[j]: 1 + the last row that had an edge from part j */
static void count_blocks(const struct dataset *dataset, const struct partition *partition, int32_t *taken, int64_t *seen,
                         int64_t *table)
{
    int64_t n_part = partition->n_part;
    for (int32_t p = 0; p < n_part; p++) {
        int64_t *col = table + (TABLE_COL * n_part + p) * n_part;
        int64_t *row = table + (TABLE_ROW * n_part + p) * n_part;
        int64_t *edge = table + (TABLE_EDGE * n_part + p) * n_part;
        for (int64_t place = partition->part_begin[p]; place < partition->part_begin[p + 1]; place++) {
            int64_t v = partition->order[place];
            for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
                uint32_t u = dataset->indices[i];
                int32_t j = partition->owner[u];
                edge[j]++;
                if (j == p) {
                    continue;
                }
                if (taken[u] != p + 1) {
                    taken[u] = p + 1;
                    col[j]++;
                }
                if (seen[j] != place + 1) {
                    seen[j] = place + 1;
                    row[j]++;
                }
            }
        }
    }
}

/* Bytes of part p as part_layout makes them. */
static enum status encoded_size(const struct dataset *dataset, const struct partition *partition, const int64_t *table,
                                int32_t p, struct part_sizes *sizes)
{
    int64_t n_part = partition->n_part;
    struct part_header header;
    part_header_init(&header, dataset, partition);
    header.n_own = sizes->n_own;
    header.n_feature_value = header.features == PART_FEATURES_SPARSE ? sizes->n_feature_value : 0;
    header.n_embedded = sizes->n_embedded;
    struct part_counts *in = &header.total[PART_DIRECTION_IN], *out = &header.total[PART_DIRECTION_OUT];
    for (int64_t j = 0; j < n_part; j++) {
        in->n_col += table[(TABLE_COL * n_part + p) * n_part + j];
        in->n_row += table[(TABLE_ROW * n_part + p) * n_part + j];
        in->n_edge += table[(TABLE_EDGE * n_part + p) * n_part + j];
        out->n_col += table[(TABLE_ROW * n_part + j) * n_part + p];
        out->n_row += table[(TABLE_COL * n_part + j) * n_part + p];
        out->n_edge += table[(TABLE_EDGE * n_part + j) * n_part + p];
    }
    sizes->n_edge = in->n_edge;
    if (!part_layout(&header)) {
        return status_fail(STATUS_NOMEM, "part %d is too large to be encoded", p);
    }
    sizes->n_bytes = header.n_bytes;
    return STATUS_OK;
}

/* Fill one part's entry; its arrays are rows of the tables. */
static enum status fill(const struct dataset *dataset, const struct partition *partition, int64_t *table, int32_t p,
                        struct part_sizes *sizes)
{
    int64_t n_part = partition->n_part;
    sizes->n_own = partition->part_begin[p + 1] - partition->part_begin[p];
    sizes->n_feature_value = sizes->n_own * dataset->n_feature;
    if (dataset->feature_indptr != NULL) {
        sizes->n_feature_value = part_feature_values(dataset, partition->order + partition->part_begin[p], sizes->n_own,
                                                     &sizes->n_embedded);
    }
    sizes->n_payload[PART_DIRECTION_IN] = table + (TABLE_COL * n_part + p) * n_part;
    sizes->n_block_edge = table + (TABLE_EDGE * n_part + p) * n_part;
    return encoded_size(dataset, partition, table, p, sizes);
}

/* Turn the ROW table over in place: rows that part p takes from part i in the OUT direction are those rows of i that
 * have an edge from p. */
static void transpose(int64_t *table, int64_t n)
{
    for (int64_t a = 0; a < n; a++) {
        for (int64_t b = a + 1; b < n; b++) {
            int64_t swap = table[a * n + b];
            table[a * n + b] = table[b * n + a];
            table[b * n + a] = swap;
        }
    }
}

enum status part_sizes_build(const struct dataset *dataset, const struct partition *partition, struct part_sizes **out)
{
    int64_t n_part = partition->n_part;
    int64_t *table;
    int32_t *taken;
    enum status status = memory_acquire(MEMORY_OTHER, table_entries(partition->n_part), sizeof *table, &table);
    if (status != STATUS_OK) {
        return status;
    }
    status = memory_acquire(MEMORY_OTHER, (size_t)dataset->n_node, sizeof *taken, &taken);
    if (status != STATUS_OK) {
        memory_release(MEMORY_OTHER, table, table_entries(partition->n_part), sizeof *table);
        return status;
    }
    int64_t *seen = memory_alloc((size_t)n_part, sizeof *seen);
    count_blocks(dataset, partition, taken, seen, table);
    free(seen);
    memory_release(MEMORY_OTHER, taken, (size_t)dataset->n_node, sizeof *taken);

    struct part_sizes *sizes = memory_alloc((size_t)n_part, sizeof *sizes);
    for (int32_t p = 0; p < n_part && status == STATUS_OK; p++) {
        status = fill(dataset, partition, table, p, &sizes[p]);
    }
    transpose(table + TABLE_ROW * n_part * n_part, n_part);
    for (int32_t p = 0; p < n_part; p++) {
        sizes[p].n_payload[PART_DIRECTION_OUT] = table + (TABLE_ROW * n_part + p) * n_part;
    }
    status = status == STATUS_OK ? part_sizes_levels(dataset, partition, sizes) : status;
    if (status != STATUS_OK) {
        part_sizes_release(sizes, partition->n_part);
        return status;
    }
    *out = sizes;
    return STATUS_OK;
}

void part_sizes_release(struct part_sizes *sizes, int32_t n_part)
{
    if (sizes == NULL) {
        return;
    }
    part_sizes_levels_release(sizes, n_part);
    /* The first part's IN payloads are the start of the tables. */
    memory_release(MEMORY_OTHER, sizes[0].n_payload[PART_DIRECTION_IN], table_entries(n_part), sizeof(int64_t));
    free(sizes);
}
