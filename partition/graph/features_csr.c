/* See features_csr.h. */
#include "partition/graph/features_csr.h"

#include "partition/files/dataset_store.h"
#include "partition/rows/row_pairs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum status features_fail_not_finite(const struct npy *npy, int64_t row, int64_t column, int64_t i)
{
    return status_fail(STATUS_DATA,
                       "%s: row %" PRId64 ", column %" PRId64 " is %g, expected a finite number (float32)", npy->name,
                       row, column, npy_real(npy, i));
}

enum status features_floats(const struct npy *npy, struct dataset_store *store, const float **out)
{
    float *rows;
    enum status status = dataset_store_block(store, MEMORY_FEATURES, (size_t)npy->n_value, sizeof *rows, &rows);
    if (status != STATUS_OK) {
        return status;
    }
#pragma omp parallel for schedule(static) if (npy->n_value > ROWS_PARALLEL_LEAST)
    for (int64_t i = 0; i < npy->n_value; i++) {
        rows[i] = features_value(npy, i);
    }
    *out = rows;
    return STATUS_OK;
}

int64_t features_scan(const struct npy *npy, int64_t *n_nonzero_out)
{
    int64_t bad = INT64_MAX, n_nonzero = 0;
#pragma omp parallel for reduction(min : bad) reduction(+ : n_nonzero) schedule(static) \
    if (npy->n_value > ROWS_PARALLEL_LEAST)
    for (int64_t i = 0; i < npy->n_value; i++) {
        float value = features_value(npy, i);
        n_nonzero += value != 0;
        if (!isfinite(value) && i < bad) {
            bad = i;
        }
    }
    *n_nonzero_out = n_nonzero;
    return bad;
}

/* The divisor of a row; 0 for a row of zeros, which stays. */
static double row_sum(const float *row, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += fabs((double)row[i]);
    }
    return sum;
}

void features_row_normalize(float *row, int64_t n)
{
    double sum = row_sum(row, n);
    if (sum <= 0) {
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        row[i] = (float)((double)row[i] / sum);
    }
}

void features_csr_normalize(struct dataset *out)
{
#pragma omp parallel for schedule(dynamic, 1024) if (out->feature_indptr[out->n_node] > ROWS_PARALLEL_LEAST)
    for (int64_t row = 0; row < out->n_node; row++) {
        int64_t begin = out->feature_indptr[row];
        features_row_normalize(out->feature_data + begin, out->feature_indptr[row + 1] - begin);
    }
}

enum status features_csr_blocks(struct dataset *out, int64_t n_value)
{
    enum status status = dataset_store_block(out->store, MEMORY_FEATURES, (size_t)out->n_node + 1, sizeof(int64_t),
                                             &out->feature_indptr);
    if (status == STATUS_OK) {
        status = dataset_store_block(out->store, MEMORY_FEATURES, (size_t)n_value, sizeof(uint32_t),
                                     &out->feature_indices);
    }
    if (status == STATUS_OK) {
        status = dataset_store_block(out->store, MEMORY_FEATURES, (size_t)n_value, sizeof(float), &out->feature_data);
    }
    return status;
}

static enum status shapes_check(const struct npy *indptr, const struct npy *indices, const struct npy *data,
                                int64_t n_row)
{
    enum status status = npy_expect(indptr, NPY_KIND_INTEGER, 1, n_row + 1, 0);
    if (status == STATUS_OK) {
        status = npy_expect(indices, NPY_KIND_INTEGER, 1, -1, 0);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return npy_expect(data, NPY_KIND_NUMBER, 1, indices->n_value, 0);
}

enum status features_csr_check(const struct npy *indptr, const struct npy *indices, const struct npy *data,
                               int64_t n_row, int64_t n_column, bool *sorted_out)
{
    enum status status = shapes_check(indptr, indices, data, n_row);
    if (status != STATUS_OK) {
        return status;
    }
    if (npy_int(indptr, 0) != 0) {
        return status_fail(STATUS_DATA, "%s: starts at %" PRId64 ", expected 0", indptr->name, npy_int(indptr, 0));
    }
    if (npy_int(indptr, n_row) != indices->n_value) {
        return status_fail(STATUS_DATA, "%s: ends at %" PRId64 ", expected %" PRId64 ", the values of %s",
                           indptr->name, npy_int(indptr, n_row), indices->n_value, indices->name);
    }
    bool sorted = true;
    for (int64_t row = 0; row < n_row; row++) {
        int64_t begin = npy_int(indptr, row), end = npy_int(indptr, row + 1);
        if (end < begin || end > indices->n_value) {
            return status_fail(STATUS_DATA,
                               "%s: row %" PRId64 " goes from %" PRId64 " to %" PRId64
                               ", expected ascending offsets up to %" PRId64,
                               indptr->name, row, begin, end, indices->n_value);
        }
        int64_t last = -1;
        for (int64_t i = begin; i < end; i++) {
            int64_t column = npy_int(indices, i);
            if (column < 0 || column >= n_column) {
                return status_fail(STATUS_DATA,
                                   "%s: row %" PRId64 ", entry %" PRId64 ": column %" PRId64
                                   " is out of range, expected 0 to %" PRId64,
                                   indices->name, row, i, column, n_column - 1);
            }
            if (!isfinite(features_value(data, i))) {
                return features_fail_not_finite(data, row, column, i);
            }
            sorted = sorted && column > last;
            last = column;
        }
    }
    *sorted_out = sorted;
    return STATUS_OK;
}

struct sparse_entry {
    uint32_t column;
    float value;
};

static int entry_compare(const void *a, const void *b)
{
    uint32_t left = ((const struct sparse_entry *)a)->column, right = ((const struct sparse_entry *)b)->column;
    return left < right ? -1 : left > right;
}

/* Sort one row's entries in place; `room` holds the longest row. Returns the first repeated column, or -1. */
static int64_t row_sort(uint32_t *columns, float *values, int64_t n, struct sparse_entry *room)
{
    for (int64_t i = 0; i < n; i++) {
        room[i] = (struct sparse_entry){columns[i], values[i]};
    }
    qsort(room, (size_t)n, sizeof *room, entry_compare);
    int64_t repeated = -1;
    for (int64_t i = 0; i < n; i++) {
        columns[i] = room[i].column;
        values[i] = room[i].value;
        if (i > 0 && columns[i] == columns[i - 1] && repeated < 0) {
            repeated = columns[i];
        }
    }
    return repeated;
}

enum status features_csr_sort(struct dataset *out, int64_t *row_out, int64_t *column_out)
{
    *row_out = -1;
    int64_t longest = 0;
    for (int64_t row = 0; row < out->n_node; row++) {
        int64_t n = out->feature_indptr[row + 1] - out->feature_indptr[row];
        longest = n > longest ? n : longest;
    }
    struct sparse_entry *room;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)longest, sizeof *room, &room);
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t row = 0; row < out->n_node && *row_out < 0; row++) {
        int64_t begin = out->feature_indptr[row], n = out->feature_indptr[row + 1] - begin;
        *column_out = row_sort(out->feature_indices + begin, out->feature_data + begin, n, room);
        *row_out = *column_out >= 0 ? row : -1;
    }
    memory_release(MEMORY_OTHER, room, (size_t)longest, sizeof *room);
    return STATUS_OK;
}

enum status features_fail_repeated(const char *file, int64_t row, int64_t column)
{
    return status_fail(STATUS_DATA, "%s: row %" PRId64 " has column %" PRId64 " twice, expected it once", file, row,
                       column);
}
