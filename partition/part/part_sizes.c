/* Sizes of every part from one pass over the edges, without encoding any: for memory plans, placement and --plan. */
#include "partition/part/part.h"
#include "partition/part/part_format.h"
#include "protocol/memory.h"

#include <stdlib.h>
#include <string.h>

/* Three n_part × n_part tables in one block, as struct part_sizes points into them: row p, column j has the rows that part p takes
 * from part j, in both directions, and the edges that it has from part j. */
enum { TABLE_IN, TABLE_OUT, TABLE_EDGE, TABLE_N };

static size_t table_entries(int32_t n_part)
{
    return (size_t)TABLE_N * (size_t)n_part * (size_t)n_part;
}

/* Count payload rows and edges of every pair, and each part's totals (n_part × PART_DIRECTION_N). A row of part p with an edge from
 * part j is one that j takes in the OUT direction.
 * taken[u]: 1 + the last part that was seen taking u · seen[j]: 1 + the last row that had an edge from part j */
static void count_blocks(const struct dataset *dataset, const struct partition *partition, int32_t *taken,
                         struct part_sizes *sizes, struct part_counts (*total)[PART_DIRECTION_N])
{
    int64_t *seen = memory_alloc((size_t)partition->n_part, sizeof *seen);
    for (int32_t p = 0; p < partition->n_part; p++) {
        for (int64_t place = partition->part_begin[p]; place < partition->part_begin[p + 1]; place++) {
            int64_t v = partition->order[place];
            for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
                uint32_t u = dataset->indices[i];
                int32_t j = partition->owner[u];
                sizes[p].n_block_edge[j]++;
                total[p][PART_DIRECTION_IN].n_edge++;
                total[j][PART_DIRECTION_OUT].n_edge++;
                if (j == p) {
                    continue;
                }
                if (taken[u] != p + 1) {
                    taken[u] = p + 1;
                    sizes[p].n_payload[PART_DIRECTION_IN][j]++;
                    total[p][PART_DIRECTION_IN].n_col++;
                    total[j][PART_DIRECTION_OUT].n_row++;
                }
                if (seen[j] != place + 1) {
                    seen[j] = place + 1;
                    sizes[j].n_payload[PART_DIRECTION_OUT][p]++;
                    total[p][PART_DIRECTION_IN].n_row++;
                    total[j][PART_DIRECTION_OUT].n_col++;
                }
            }
        }
    }
    free(seen);
}

/* What is known of part p without its edges, and its bytes as part_layout makes them. */
static enum status part_fill(const struct dataset *dataset, const struct partition *partition, const struct part_counts *total,
                             int32_t p, struct part_sizes *sizes)
{
    sizes->n_own = partition->part_begin[p + 1] - partition->part_begin[p];
    sizes->n_edge = total[PART_DIRECTION_IN].n_edge;
    sizes->n_feature_value = sizes->n_own * dataset->n_feature;
    if (dataset->feature_indptr != NULL) {
        sizes->n_feature_value = part_feature_values(dataset, partition->order + partition->part_begin[p], sizes->n_own,
                                                     &sizes->n_embedded);
    }
    struct part_header header;
    part_header_init(&header, dataset, partition);
    header.n_own = sizes->n_own;
    header.n_feature_value = header.features == PART_FEATURES_SPARSE ? sizes->n_feature_value : 0;
    header.n_embedded = sizes->n_embedded;
    memcpy(header.total, total, sizeof header.total);
    if (!part_layout(&header)) {
        return status_fail(STATUS_NOMEM, "part %d is too large to be encoded", p);
    }
    sizes->n_bytes = header.n_bytes;
    return STATUS_OK;
}

/* The parts' totals and sizes, their tables being in place. */
static enum status sizes_fill(const struct dataset *dataset, const struct partition *partition, struct part_sizes *sizes)
{
    int32_t *taken;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)dataset->n_node, sizeof *taken, &taken);
    if (status != STATUS_OK) {
        return status;
    }
    struct part_counts(*total)[PART_DIRECTION_N] = memory_alloc((size_t)partition->n_part, sizeof *total);
    count_blocks(dataset, partition, taken, sizes, total);
    memory_release(MEMORY_OTHER, taken, (size_t)dataset->n_node, sizeof *taken);
    for (int32_t p = 0; p < partition->n_part && status == STATUS_OK; p++) {
        status = part_fill(dataset, partition, total[p], p, &sizes[p]);
    }
    free(total);
    return status;
}

enum status part_sizes_build(const struct dataset *dataset, const struct partition *partition, struct part_sizes **out)
{
    int64_t n_part = partition->n_part;
    int64_t *table;
    enum status status = memory_acquire(MEMORY_OTHER, table_entries(partition->n_part), sizeof *table, &table);
    if (status != STATUS_OK) {
        return status;
    }
    struct part_sizes *sizes = memory_alloc((size_t)n_part, sizeof *sizes);
    for (int32_t p = 0; p < n_part; p++) {
        sizes[p].n_payload[PART_DIRECTION_IN] = table + (TABLE_IN * n_part + p) * n_part;
        sizes[p].n_payload[PART_DIRECTION_OUT] = table + (TABLE_OUT * n_part + p) * n_part;
        sizes[p].n_block_edge = table + (TABLE_EDGE * n_part + p) * n_part;
    }
    status = sizes_fill(dataset, partition, sizes);
    status = status == STATUS_OK ? part_sizes_hops(dataset, partition, sizes) : status;
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
    part_sizes_hops_release(sizes, n_part);
    /* The first part's IN payloads are the start of the tables. */
    memory_release(MEMORY_OTHER, sizes[0].n_payload[PART_DIRECTION_IN], table_entries(n_part), sizeof(int64_t));
    free(sizes);
}
