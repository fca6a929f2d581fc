/* The order of an encoded part's rows by hop: checked, so that a loop over the first rows alone may rely on where
 * their edges lead, and counted into its halo, which may be read when the part's bytes are out of memory.
 */
#include "partition/part/part_format.h"

#include <string.h>

static enum status fail(enum part_direction d, int32_t q, const char *expected)
{
    return status_fail(STATUS_DATA, "encoded part: section '%s', part %d: expected %s",
                       part_section_name(part_side_section(d, PART_SIDE_HOPS)), q, expected);
}

static enum status check_counts(const struct part *part, enum part_direction d)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    for (int32_t k = 0; k < pairs->n_pair; k++) {
        const uint32_t *hop = pairs->n_col_hop + k * (int64_t)part->n_hop;
        for (int32_t l = 0; l < part->n_hop; l++) {
            if (hop[l] < (l > 0 ? hop[l - 1] : 0) || hop[l] > part_pair_cols(pairs, k)) {
                return fail(d, pairs->pair[k].part, "counts that do not fall, within the rows there are");
            }
            if (k == pairs->own && hop[l] != part_rows_own(part, l)) {
                return fail(d, part->part, "the same own rows in both directions");
            }
        }
    }
    return STATUS_OK;
}

static enum status check_training_rows(const struct part *part)
{
    for (int64_t r = 0; r < part->n_own; r++) {
        if ((part->labels.split[r] == DATASET_SPLIT_TRAIN) != (r < part_rows_own(part, 0))) {
            return fail(PART_DIRECTION_IN, part->part, "the training rows at hop 0");
        }
    }
    return STATUS_OK;
}

/* The hop of row or column i: the first h of which more than i rows have hop ≤ h. */
static int32_t hop_of(const uint32_t *n_row, int32_t n_hop, int64_t i)
{
    int32_t hop = 0;
    while (hop < n_hop && i >= n_row[hop]) {
        hop++;
    }
    return hop;
}

static void rows_count(struct part *part, enum part_direction d, int32_t k)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    const struct part_block b = part_block_at(part, d, k);
    const uint32_t *own = pairs->n_col_hop + pairs->own * (int64_t)part->n_hop;
    uint32_t *n_row = pairs->n_row_hop + k * (int64_t)part->n_hop;
    for (int64_t r = 0; r < b.n_row; r++) {
        int64_t row = b.rows != NULL ? b.rows[r] : r;
        for (int32_t l = hop_of(own, part->n_hop, row); l < part->n_hop; l++) {
            n_row[l]++;
        }
    }
}

/* Edges come from the hop after their destination's at most; count those of each destination's hop. */
static enum status check_block(struct part *part, enum part_direction d, int32_t k)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    const struct part_block b = part_block_at(part, d, k);
    const uint32_t *own = pairs->n_col_hop + pairs->own * (int64_t)part->n_hop;
    const uint32_t *other = pairs->n_col_hop + k * (int64_t)part->n_hop;
    for (int64_t r = 0; r < b.n_row; r++) {
        int32_t row = hop_of(own, part->n_hop, b.rows != NULL ? b.rows[r] : r);
        for (int64_t i = b.indptr[r]; i < b.indptr[r + 1]; i++) {
            int32_t column = hop_of(other, part->n_hop, b.cols[i]);
            int32_t from = d == PART_DIRECTION_IN ? column : row, to = d == PART_DIRECTION_IN ? row : column;
            if (from > to + 1) {
                return fail(d, pairs->pair[k].part, "no edge that skips a hop");
            }
            if (to < part->n_hop) {
                part->halo.n_edge_hop[d][to]++;
            }
        }
    }
    return STATUS_OK;
}

/* A direction's counts from the bytes. */
static enum status counts_open(const void *bytes, struct part *part, enum part_direction d)
{
    const struct part_header *header = bytes;
    const struct part_section_row *row = &header->section[part_side_section(d, PART_SIDE_HOPS)];
    memcpy(part->halo.pairs[d].n_col_hop, (const char *)bytes + row->offset, row->n_bytes);
    enum status status = d == PART_DIRECTION_IN ? check_training_rows(part) : STATUS_OK;
    status = status == STATUS_OK ? check_counts(part, d) : status;
    for (int32_t k = 0; k < part->halo.pairs[d].n_pair && status == STATUS_OK; k++) {
        rows_count(part, d, k);
    }
    return status;
}

/* A direction's edges by hop. */
static enum status edges_open(struct part *part, enum part_direction d)
{
    enum status status = STATUS_OK;
    for (int32_t k = 0; k < part->halo.pairs[d].n_pair && status == STATUS_OK; k++) {
        status = check_block(part, d, k);
    }
    for (int32_t l = 1; l < part->n_hop; l++) {
        part->halo.n_edge_hop[d][l] += part->halo.n_edge_hop[d][l - 1];
    }
    return status;
}

enum status part_hops_open(const void *bytes, struct part *part)
{
    if (part->n_hop == 0) {
        return STATUS_OK;
    }
    enum status status = counts_open(bytes, part, PART_DIRECTION_IN);
    if (status == STATUS_OK && !part->facts.symmetric) {
        status = counts_open(bytes, part, PART_DIRECTION_OUT);
    }
    status = status == STATUS_OK ? edges_open(part, PART_DIRECTION_IN) : status;
    return status == STATUS_OK ? edges_open(part, PART_DIRECTION_OUT) : status;
}
