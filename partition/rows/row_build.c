/* See row_build.h. */
#include "partition/rows/row_build.h"

#include "protocol/base/memory.h"

#define SHIFT_MOST 8
#define BUCKET_LEAST 512 /* if there are as many rows */

enum status row_build_open(int64_t n_row, struct row_build *out)
{
    *out = (struct row_build){.n_row = n_row, .shift = SHIFT_MOST};
    while (out->shift > 0 && (n_row - 1) >> out->shift < BUCKET_LEAST) {
        out->shift--;
    }
    out->n_bucket = ((n_row - 1) >> out->shift) + 1;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)out->n_bucket + 1, sizeof *out->begin, &out->begin);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)out->n_bucket, sizeof *out->next, &out->next);
    }
    return status;
}

void row_build_close(struct row_build *build)
{
    memory_release(MEMORY_OTHER, build->row, (size_t)build->n_entry, sizeof *build->row);
    memory_release(MEMORY_OTHER, build->next, (size_t)build->n_bucket, sizeof *build->next);
    memory_release(MEMORY_OTHER, build->begin, (size_t)build->n_bucket + 1, sizeof *build->begin);
    *build = (struct row_build){0};
}

void row_build_counted(struct row_build *build)
{
    for (int64_t b = 0; b < build->n_bucket; b++) {
        build->begin[b + 1] += build->begin[b];
        build->next[b] = build->begin[b];
    }
    build->n_entry = build->begin[build->n_bucket];
}

enum status row_build_into(struct row_build *build, struct row_pairs out)
{
    build->out = out;
    return memory_acquire(MEMORY_OTHER, (size_t)build->n_entry, sizeof *build->row, &build->row);
}

static void entries_swap(const struct row_build *build, int64_t a, int64_t b)
{
    uint8_t row = build->row[a];
    uint64_t key = row_pairs_key(build->out, a);
    build->row[a] = build->row[b];
    row_pairs_put(build->out, a, row_pairs_key(build->out, b));
    build->row[b] = row;
    row_pairs_put(build->out, b, key);
}

/* A bucket's rows, whose counts become their ends: an entry that is not in its row is exchanged for the next one of
 * the row that it belongs to. */
static void bucket_finish(const struct row_build *build, int64_t b, int64_t *indptr)
{
    int64_t first = b << build->shift, n_row = (int64_t)1 << build->shift, next[1 << SHIFT_MOST];
    n_row = n_row < build->n_row - first ? n_row : build->n_row - first;
    int64_t *end = indptr + first + 1, at = build->begin[b];
    for (int64_t i = build->begin[b]; i < build->begin[b + 1]; i++) {
        end[build->row[i]]++;
    }
    for (int64_t r = 0; r < n_row; r++) {
        next[r] = at;
        at = end[r] += at;
    }
    for (int64_t r = 0; r < n_row; r++) {
        while (next[r] < end[r]) {
            uint8_t of = build->row[next[r]];
            if (of != r) {
                entries_swap(build, next[r], next[of]);
            }
            next[of]++;
        }
    }
}

bool row_build_finish(const struct row_build *build, int64_t *indptr)
{
    for (int64_t b = 0; b < build->n_bucket; b++) {
        if (build->next[b] != build->begin[b + 1]) {
            return false;
        }
    }
#pragma omp parallel for schedule(dynamic, 8) if (build->n_entry > ROWS_PARALLEL_LEAST)
    for (int64_t b = 0; b < build->n_bucket; b++) {
        bucket_finish(build, b, indptr);
    }
    return true;
}
