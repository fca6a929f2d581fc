/* The order of an encoded part's rows by hop: checked, so that a loop over the first rows alone may rely on where their edges
 * lead, and counted into tables that may be read when the part's bytes are out of memory.
 */
#include "partition/part/part_format.h"
#include "protocol/memory.h"

#include <stdlib.h>

static enum status fail(enum part_direction d, int32_t q, const char *expected)
{
    return status_fail(STATUS_DATA, "encoded part: section '%s', part %d: expected %s",
                       part_section_name(part_side_section(d, PART_SIDE_HOPS)), q, expected);
}

int64_t part_rows_taken(const struct part *part, enum part_direction d, int32_t q, int32_t hop)
{
    return hop < part->n_hop ? part->hops->taken[d][q * (int64_t)part->n_hop + hop] : part->block[d][q].n_col;
}

int64_t part_rows_given(const struct part *part, enum part_direction d, int32_t q, int32_t hop)
{
    return hop < part->n_hop ? part->hops->given[d][q * (int64_t)part->n_hop + hop] : part->send[d][q].n_row;
}

int64_t part_rows_own(const struct part *part, int32_t hop)
{
    return part_rows_taken(part, PART_DIRECTION_IN, part->part, hop);
}

int64_t part_edges(const struct part *part, enum part_direction d, int32_t hop)
{
    if (hop < part->n_hop) {
        return part->hops->n_edge[d][hop];
    }
    int64_t n = 0;
    for (int32_t q = 0; q < part->n_part; q++) {
        n += part->block[d][q].n_edge;
    }
    return n;
}

static void tables_open(const void *bytes, struct part *part)
{
    const struct part_header *header = bytes;
    size_t n = (size_t)part->n_part * (size_t)part->n_hop;
    part->hops = memory_alloc(1, sizeof *part->hops);
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        enum part_direction from = part->symmetric ? PART_DIRECTION_IN : (enum part_direction)d;
        const int64_t *hop = (const void *)((const char *)bytes +
                                            header->section[part_side_section(from, PART_SIDE_HOPS)].offset);
        part->hops->taken[d] = memory_alloc(n, sizeof *hop);
        part->hops->given[d] = memory_alloc(n, sizeof *hop);
        part->hops->n_edge[d] = memory_alloc((size_t)part->n_hop, sizeof *hop);
        for (size_t i = 0; i < n; i++) {
            part->hops->taken[d][i] = hop[i];
        }
    }
}

static enum status check_counts(const struct part *part, enum part_direction d)
{
    for (int32_t q = 0; q < part->n_part; q++) {
        const int64_t *hop = part->hops->taken[d] + q * (int64_t)part->n_hop;
        for (int32_t l = 0; l < part->n_hop; l++) {
            if (hop[l] < (l > 0 ? hop[l - 1] : 0) || hop[l] > part->block[d][q].n_col) {
                return fail(d, q, "counts that do not fall, within the rows there are");
            }
            if (q == part->part && hop[l] != part_rows_own(part, l)) {
                return fail(d, q, "the same own rows in both directions");
            }
        }
    }
    return STATUS_OK;
}

static enum status check_training_rows(const struct part *part)
{
    for (int64_t r = 0; r < part->n_own; r++) {
        if ((part->split[r] == DATASET_SPLIT_TRAIN) != (r < part_rows_own(part, 0))) {
            return fail(PART_DIRECTION_IN, part->part, "the training rows at hop 0");
        }
    }
    return STATUS_OK;
}

/* The hop of row or column i: the first h of which more than i rows have hop ≤ h. */
static int32_t hop_of(const int64_t *n_row, int32_t n_hop, int64_t i)
{
    int32_t hop = 0;
    while (hop < n_hop && i >= n_row[hop]) {
        hop++;
    }
    return hop;
}

/* Edges come from the hop after their destination's at most; count those of each destination's hop. */
static enum status check_block(struct part *part, enum part_direction d, int32_t q)
{
    const struct part_block *b = &part->block[d][q];
    const int64_t *own = part->hops->taken[d] + part->part * (int64_t)part->n_hop;
    const int64_t *other = part->hops->taken[d] + q * (int64_t)part->n_hop;
    for (int64_t r = 0; r < b->n_row; r++) {
        int32_t row = hop_of(own, part->n_hop, b->rows != NULL ? b->rows[r] : r);
        for (int64_t i = b->indptr[r]; i < b->indptr[r + 1]; i++) {
            int32_t column = hop_of(other, part->n_hop, b->cols[i]);
            int32_t from = d == PART_DIRECTION_IN ? column : row, to = d == PART_DIRECTION_IN ? row : column;
            if (from > to + 1) {
                return fail(d, q, "no edge that skips a hop");
            }
            if (to < part->n_hop) {
                part->hops->n_edge[d][to]++;
            }
        }
    }
    return STATUS_OK;
}

/* Count the rows of hop ≤ h, for every h, that each part takes. */
static void given_count(struct part *part, enum part_direction d)
{
    for (int32_t q = 0; q < part->n_part; q++) {
        int64_t *given = part->hops->given[d] + q * (int64_t)part->n_hop;
        for (int64_t i = 0; i < part->send[d][q].n_row; i++) {
            for (int32_t l = part->n_hop - 1; l >= 0 && part->send[d][q].rows[i] < part_rows_own(part, l); l--) {
                given[l]++;
            }
        }
    }
}

enum status part_hops_open(const void *bytes, struct part *part)
{
    if (part->n_hop == 0) {
        return STATUS_OK;
    }
    tables_open(bytes, part);
    enum status status = check_training_rows(part);
    for (int d = 0; d < PART_DIRECTION_N && status == STATUS_OK; d++) {
        status = check_counts(part, (enum part_direction)d);
    }
    for (int d = 0; d < PART_DIRECTION_N && status == STATUS_OK; d++) {
        for (int32_t q = 0; q < part->n_part && status == STATUS_OK; q++) {
            status = check_block(part, (enum part_direction)d, q);
        }
        for (int32_t l = 1; l < part->n_hop; l++) {
            part->hops->n_edge[d][l] += part->hops->n_edge[d][l - 1];
        }
        given_count(part, (enum part_direction)d);
    }
    return status;
}

void part_hops_close(struct part *part)
{
    if (part->hops == NULL) {
        return;
    }
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        free(part->hops->taken[d]);
        free(part->hops->given[d]);
        free(part->hops->n_edge[d]);
    }
    free(part->hops);
    part->hops = NULL;
}
