/* Features into place: checked to be finite, mapped where the file's form is the dataset's, converted where it is not,
 * stored sparsely where that halves the bytes, normalised when the job asks.
 */
#include "partition/dataset_build.h"
#include "partition/dataset_store.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every value as float; the common type first. */
static inline float value_at(const struct npy *npy, int64_t i)
{
    return npy->type == NPY_TYPE_F32 ? ((const float *)npy->data)[i] : (float)npy_real(npy, i);
}

static enum status fail_not_finite(const struct npy *npy, int64_t row, int64_t column, int64_t i)
{
    return status_fail(STATUS_DATA, "%s: row %" PRId64 ", column %" PRId64 " is %g, expected a finite number (float32)",
                       npy->name, row, column, npy_real(npy, i));
}

/* The first value that is not finite (INT64_MAX: none), and how many are not zero. */
static int64_t values_scan(const struct npy *npy, int64_t *n_nonzero_out)
{
    int64_t bad = INT64_MAX, n_nonzero = 0;
#pragma omp parallel for reduction(min : bad) reduction(+ : n_nonzero) schedule(static) \
    if (npy->n_value > DATASET_PARALLEL_LEAST)
    for (int64_t i = 0; i < npy->n_value; i++) {
        float value = value_at(npy, i);
        n_nonzero += value != 0;
        if (!isfinite(value) && i < bad) {
            bad = i;
        }
    }
    *n_nonzero_out = n_nonzero;
    return bad;
}

/* What a row is divided by; 0 for a row of zeros, which stays. */
static double row_sum(const float *row, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += fabs((double)row[i]);
    }
    return sum;
}

static void row_normalize(float *row, int64_t n)
{
    double sum = row_sum(row, n);
    for (int64_t i = 0; i < n && sum > 0; i++) {
        row[i] = (float)((double)row[i] / sum);
    }
}

void dataset_rows_normalize(float *rows, int64_t n_row, int64_t n_column)
{
#pragma omp parallel for schedule(static) if (n_row * n_column > DATASET_PARALLEL_LEAST)
    for (int64_t row = 0; row < n_row; row++) {
        row_normalize(rows + row * n_column, n_column);
    }
}

static void sparse_normalize(struct dataset *out)
{
#pragma omp parallel for schedule(dynamic, 1024) if (out->feature_indptr[out->n_node] > DATASET_PARALLEL_LEAST)
    for (int64_t row = 0; row < out->n_node; row++) {
        int64_t begin = out->feature_indptr[row];
        row_normalize(out->feature_data + begin, out->feature_indptr[row + 1] - begin);
    }
}

/* Three blocks for CSR features of `n_value` entries. */
static enum status sparse_blocks(struct dataset *out, int64_t n_value)
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

static enum status dense_to_sparse(const struct npy *npy, int64_t n_value, struct dataset *out)
{
    enum status status = sparse_blocks(out, n_value);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t at = 0;
    for (int64_t row = 0; row < out->n_node; row++) {
        for (int64_t column = 0; column < out->n_feature; column++) {
            float value = value_at(npy, row * out->n_feature + column);
            if (value != 0) {
                out->feature_indices[at] = (uint32_t)column;
                out->feature_data[at++] = value;
            }
        }
        out->feature_indptr[row + 1] = at;
    }
    return STATUS_OK;
}

static enum status dense_to_float(const struct npy *npy, struct dataset *out)
{
    float *rows;
    enum status status = dataset_store_block(out->store, MEMORY_FEATURES, (size_t)npy->n_value, sizeof *rows, &rows);
    if (status != STATUS_OK) {
        return status;
    }
#pragma omp parallel for schedule(static) if (npy->n_value > DATASET_PARALLEL_LEAST)
    for (int64_t i = 0; i < npy->n_value; i++) {
        rows[i] = value_at(npy, i);
    }
    out->features_f32 = rows;
    return STATUS_OK;
}

enum status dataset_features_dense(const struct job *job, struct npy *npy, struct dataset *out)
{
    enum status status = npy_expect(npy, NPY_KIND_NUMBER, 2, out->n_node, -1);
    if (status != STATUS_OK) {
        return status;
    }
    if (npy->shape[1] < 1) {
        return status_fail(STATUS_DATA, "%s: has 0 columns, expected at least one", npy->name);
    }
    out->n_feature = npy->shape[1];
    int64_t n_nonzero, bad = values_scan(npy, &n_nonzero);
    if (bad != INT64_MAX) {
        return fail_not_finite(npy, bad / out->n_feature, bad % out->n_feature, bad);
    }
    bool normalize = job->dataset.normalize_features == JOB_NORMALIZE_ROW;
    bool half = npy->type == NPY_TYPE_F16 && !normalize;
    int64_t dense_bytes = npy->n_value * (half ? 2 : 4);
    int64_t sparse_bytes = 8 * (out->n_node + 1) + 8 * n_nonzero;
    if (sparse_bytes <= dense_bytes / 2) {
        status = dense_to_sparse(npy, n_nonzero, out);
        if (status == STATUS_OK && normalize) {
            sparse_normalize(out);
        }
        npy_close(npy);
    } else if (half || (npy->type == NPY_TYPE_F32 && !normalize)) {
        out->features_f16 = half ? npy->data : NULL;
        out->features_f32 = half ? NULL : npy->data;
        dataset_store_keep(out->store, npy);
    } else {
        status = dense_to_float(npy, out);
        if (status == STATUS_OK && normalize) {
            dataset_rows_normalize((float *)out->features_f32, out->n_node, out->n_feature);
        }
        npy_close(npy);
    }
    return status;
}

/* Check CSR arrays: starts at 0, never falls, ends at the number of values; columns in range; values finite.
 * *sorted_out: every row's columns ascend, so that the file may be used as it lies. */
static enum status sparse_check(const struct npy *indptr, const struct npy *indices, const struct npy *data,
                                const struct dataset *out, bool *sorted_out)
{
    if (npy_int(indptr, 0) != 0) {
        return status_fail(STATUS_DATA, "%s: starts at %" PRId64 ", expected 0", indptr->name, npy_int(indptr, 0));
    }
    if (npy_int(indptr, out->n_node) != indices->n_value) {
        return status_fail(STATUS_DATA, "%s: ends at %" PRId64 ", expected %" PRId64 ", the values of %s", indptr->name,
                           npy_int(indptr, out->n_node), indices->n_value, indices->name);
    }
    bool sorted = true;
    for (int64_t row = 0; row < out->n_node; row++) {
        int64_t begin = npy_int(indptr, row), end = npy_int(indptr, row + 1);
        if (end < begin || end > indices->n_value) {
            return status_fail(STATUS_DATA, "%s: row %" PRId64 " goes from %" PRId64 " to %" PRId64
                               ", expected ascending offsets up to %" PRId64, indptr->name, row, begin, end,
                               indices->n_value);
        }
        int64_t last = -1;
        for (int64_t i = begin; i < end; i++) {
            int64_t column = npy_int(indices, i);
            if (column < 0 || column >= out->n_feature) {
                return status_fail(STATUS_DATA, "%s: row %" PRId64 ", entry %" PRId64 ": column %" PRId64
                                   " is out of range, expected 0 to %" PRId64, indices->name, row, i, column,
                                   out->n_feature - 1);
            }
            if (!isfinite(value_at(data, i))) {
                return fail_not_finite(data, row, column, i);
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

static enum status sparse_sort(const char *file, struct dataset *out)
{
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
    for (int64_t row = 0; row < out->n_node && status == STATUS_OK; row++) {
        int64_t begin = out->feature_indptr[row], n = out->feature_indptr[row + 1] - begin;
        int64_t repeated = row_sort(out->feature_indices + begin, out->feature_data + begin, n, room);
        if (repeated >= 0) {
            status = status_fail(STATUS_DATA, "%s: row %" PRId64 " has column %" PRId64 " twice, expected it once", file,
                                 row, repeated);
        }
    }
    memory_release(MEMORY_OTHER, room, (size_t)longest, sizeof *room);
    return status;
}

/* Copies of the three arrays in the dataset's types, sorted. */
static enum status sparse_copy(const struct npy *indptr, const struct npy *indices, const struct npy *data, bool sorted,
                               struct dataset *out)
{
    enum status status = sparse_blocks(out, data->n_value);
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t row = 0; row <= out->n_node; row++) {
        out->feature_indptr[row] = npy_int(indptr, row);
    }
#pragma omp parallel for schedule(static) if (data->n_value > DATASET_PARALLEL_LEAST)
    for (int64_t i = 0; i < data->n_value; i++) {
        out->feature_indices[i] = (uint32_t)npy_int(indices, i);
        out->feature_data[i] = value_at(data, i);
    }
    return sorted ? STATUS_OK : sparse_sort(indices->name, out);
}

enum status dataset_features_sparse(const struct job *job, struct npy *indptr, struct npy *indices, struct npy *data,
                                    int64_t n_column, struct dataset *out)
{
    enum status status = npy_expect(indptr, NPY_KIND_INTEGER, 1, out->n_node + 1, 0);
    if (status == STATUS_OK) {
        status = npy_expect(indices, NPY_KIND_INTEGER, 1, -1, 0);
    }
    if (status == STATUS_OK) {
        status = npy_expect(data, NPY_KIND_NUMBER, 1, indices->n_value, 0);
    }
    bool sorted = false;
    out->n_feature = n_column;
    if (status == STATUS_OK) {
        status = sparse_check(indptr, indices, data, out, &sorted);
    }
    if (status != STATUS_OK) {
        return status;
    }
    bool normalize = job->dataset.normalize_features == JOB_NORMALIZE_ROW;
    bool as_it_lies = sorted && !normalize && indptr->type == NPY_TYPE_I64 && data->type == NPY_TYPE_F32 &&
                      (indices->type == NPY_TYPE_I32 || indices->type == NPY_TYPE_U32);
    if (as_it_lies) {
        out->feature_indptr = (int64_t *)indptr->data;
        out->feature_indices = (uint32_t *)indices->data;
        out->feature_data = (float *)data->data;
        dataset_store_keep(out->store, indptr);
        dataset_store_keep(out->store, indices);
        dataset_store_keep(out->store, data);
        return STATUS_OK;
    }
    status = sparse_copy(indptr, indices, data, sorted, out);
    if (status == STATUS_OK && normalize) {
        sparse_normalize(out);
    }
    npy_close(indptr);
    npy_close(indices);
    npy_close(data);
    return status;
}
