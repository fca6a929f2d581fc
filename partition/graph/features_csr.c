/* See features_csr.h. */
#include "partition/graph/features_csr.h"

#include "partition/files/dataset_store.h"
#include "partition/rows/row_pairs.h"

#include <inttypes.h>
#include <math.h>

enum status features_fail_not_finite(const char *file, int64_t row, int64_t column, double value)
{
    return status_fail(STATUS_DATA,
                       "%s: row %" PRId64 ", column %" PRId64 " is %g, expected a finite number (float32)", file, row,
                       column, value);
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

enum status features_scan(const struct npy *npy, int64_t n_column, int64_t *n_nonzero_out)
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
    return bad == INT64_MAX ? STATUS_OK
                            : features_fail_not_finite(npy->name, bad / n_column, bad % n_column, npy_real(npy, bad));
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
#pragma omp parallel for schedule(dynamic, 1024) if (out->features.indptr[out->n_node] > ROWS_PARALLEL_LEAST)
    for (int64_t row = 0; row < out->n_node; row++) {
        int64_t begin = out->features.indptr[row];
        features_row_normalize(out->features.data + begin, out->features.indptr[row + 1] - begin);
    }
}

enum status features_csr_blocks(struct dataset *out, int64_t n_value)
{
    enum status status = dataset_store_block(out->store, MEMORY_FEATURES, (size_t)out->n_node + 1, sizeof(int64_t),
                                             &out->features.indptr);
    if (status == STATUS_OK) {
        status = dataset_store_block(out->store, MEMORY_FEATURES, (size_t)n_value, sizeof(uint32_t),
                                     &out->features.indices);
    }
    if (status == STATUS_OK) {
        status = dataset_store_block(out->store, MEMORY_FEATURES, (size_t)n_value, sizeof(float),
                                     &out->features.data);
    }
    return status;
}

static enum status shapes_check(const struct csr *rows, int64_t n_row)
{
    enum status status = npy_expect(&rows->indptr, NPY_KIND_INTEGER, 1, n_row + 1, 0);
    if (status == STATUS_OK) {
        status = npy_expect(&rows->indices, NPY_KIND_INTEGER, 1, -1, 0);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return npy_expect(&rows->data, NPY_KIND_NUMBER, 1, rows->indices.n_value, 0);
}

enum status features_csr_check(const struct csr *rows, int64_t n_row, int64_t n_column, bool *sorted_out)
{
    const struct npy *indptr = &rows->indptr, *indices = &rows->indices, *data = &rows->data;
    enum status status = shapes_check(rows, n_row);
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
                return features_fail_not_finite(data->name, row, column, npy_real(data, i));
            }
            sorted = sorted && column > last;
            last = column;
        }
    }
    *sorted_out = sorted;
    return STATUS_OK;
}

bool features_csr_sort(struct dataset *out, int64_t *row_out, int64_t *column_out)
{
    const struct row_pairs rows = {.source = out->features.indices, .weight = out->features.data};
    row_pairs_sort(out->n_node, out->features.indptr, rows);
    for (int64_t row = 0; row < out->n_node; row++) {
        for (int64_t i = out->features.indptr[row] + 1; i < out->features.indptr[row + 1]; i++) {
            if (out->features.indices[i] == out->features.indices[i - 1]) {
                *row_out = row;
                *column_out = out->features.indices[i];
                return false;
            }
        }
    }
    return true;
}

enum status features_fail_repeated(const char *file, int64_t row, int64_t column)
{
    return status_fail(STATUS_DATA, "%s: row %" PRId64 " has column %" PRId64 " twice, expected it once", file, row,
                       column);
}
