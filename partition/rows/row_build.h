/* Entries of a graph's rows, in any order, to rows: entries are put into buckets of consecutive rows, each small
 * enough for a cache, and sorted there by their rows in place.
 *
 * All entries are counted before the first is added. Entries of a row are in no order.
 */
#ifndef PARTITION_ROW_BUILD_H
#define PARTITION_ROW_BUILD_H

#include "partition/rows/row_pairs.h"
#include "protocol/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct row_build {
    int64_t n_row;
    int shift; /* a bucket has 2^shift rows, 2^8 at most */
    int64_t n_bucket;
    int64_t *begin; /* n_bucket + 1: entries of the bucket before; once all are counted, its first entry */
    int64_t *next;  /* n_bucket: where the next entry goes */
    int64_t n_entry;
    struct row_pairs out; /* n_entry */
    uint8_t *row;         /* n_entry: of the rows of its bucket */
};

/* owns  *out is given back with row_build_close. errors  STATUS_NOMEM. cost  16 bytes for 256 rows */
enum status row_build_open(int64_t n_row, struct row_build *out);
void row_build_close(struct row_build *build);

static inline void row_build_count(struct row_build *build, int64_t row)
{
    build->begin[(row >> build->shift) + 1]++;
}

/* All are counted: n_entry is known. */
void row_build_counted(struct row_build *build);

/* Where entries go: arrays of n_entry, borrowed until row_build_finish. errors  STATUS_NOMEM. cost  a byte an
 * entry */
enum status row_build_into(struct row_build *build, struct row_pairs out);

/* Add an entry, by the number that orders it in its row; false: there are more than were counted. */
static inline bool row_build_add(struct row_build *build, int64_t row, uint64_t key)
{
    int64_t bucket = row >> build->shift, at = build->next[bucket];
    if (at == build->begin[bucket + 1]) {
        return false;
    }
    build->next[bucket] = at + 1;
    build->row[at] = (uint8_t)(row & (((int64_t)1 << build->shift) - 1));
    row_pairs_put(build->out, at, key);
    return true;
}

/* Sort entries by rows, on several threads; false: fewer were added than counted.
 *
 *   shapes  indptr n_row + 1, zeros
 */
bool row_build_finish(const struct row_build *build, int64_t *indptr);

#endif
