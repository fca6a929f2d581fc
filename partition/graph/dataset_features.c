/* Storing of features: checked to be finite, mapped if the file has the dataset's form, else converted, stored
 * sparsely if that halves the bytes, normalised if the job file says so.
 */
#include "partition/files/dataset_store.h"
#include "partition/graph/dataset_build.h"
#include "partition/graph/features_csr.h"
#include "partition/rows/row_pairs.h"

void dataset_rows_normalize(float *rows, int64_t n_row, int64_t n_column)
{
#pragma omp parallel for schedule(static) if (n_row * n_column > ROWS_PARALLEL_LEAST)
    for (int64_t row = 0; row < n_row; row++) {
        features_row_normalize(rows + row * n_column, n_column);
    }
}

static enum status dense_to_sparse(const struct npy *npy, int64_t n_value, struct dataset *out)
{
    enum status status = features_csr_blocks(out, n_value);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t at = 0;
    for (int64_t row = 0; row < out->n_node; row++) {
        for (int64_t column = 0; column < out->facts.n_feature; column++) {
            float value = features_value(npy, row * out->facts.n_feature + column);
            if (value != 0) {
                out->features.indices[at] = (uint32_t)column;
                out->features.data[at++] = value;
            }
        }
        out->features.indptr[row + 1] = at;
    }
    return STATUS_OK;
}

enum status dataset_features_dense(const struct job *job, struct npy *npy, struct dataset *out)
{
    enum status status = npy_expect(npy, NPY_KIND_NUMBER, 2, out->n_node, -1);
    dataset_file_note(out, DATASET_CONTENT_FEATURES, npy->name);
    if (status != STATUS_OK) {
        return status;
    }
    if (npy->shape[1] < 1) {
        return status_fail(STATUS_DATA, "%s: has 0 columns, expected at least one", npy->name);
    }
    out->facts.n_feature = npy->shape[1];
    int64_t n_nonzero;
    status = features_scan(npy, out->facts.n_feature, &n_nonzero);
    if (status != STATUS_OK) {
        return status;
    }
    bool normalize = job->dataset.normalize_features == JOB_NORMALIZE_ROW;
    bool as_it_lies = !normalize && !npy->by_columns, half = npy->type == NPY_TYPE_F16 && as_it_lies;
    int64_t dense_bytes = npy->n_value * (half ? 2 : 4);
    int64_t sparse_bytes = 8 * (out->n_node + 1) + 8 * n_nonzero;
    if (sparse_bytes <= dense_bytes / 2) {
        status = dense_to_sparse(npy, n_nonzero, out);
        if (status == STATUS_OK && normalize) {
            features_csr_normalize(out);
        }
        npy_close(npy);
    } else if (half || (npy->type == NPY_TYPE_F32 && as_it_lies)) {
        out->features.f16 = half ? npy->data : NULL;
        out->features.f32 = half ? NULL : npy->data;
        dataset_store_keep(out->store, npy);
    } else {
        status = features_floats(npy, out->store, &out->features.f32);
        if (status == STATUS_OK && normalize) {
            dataset_rows_normalize((float *)out->features.f32, out->n_node, out->facts.n_feature);
        }
        npy_close(npy);
    }
    return status;
}

/* Copies of the three arrays in the dataset's types, sorted. */
static enum status sparse_copy(const struct csr *rows, bool sorted, struct dataset *out)
{
    const struct npy *indices = &rows->indices, *data = &rows->data;
    enum status status = features_csr_blocks(out, data->n_value);
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t row = 0; row <= out->n_node; row++) {
        out->features.indptr[row] = npy_int(&rows->indptr, row);
    }
#pragma omp parallel for schedule(static) if (data->n_value > ROWS_PARALLEL_LEAST)
    for (int64_t i = 0; i < data->n_value; i++) {
        out->features.indices[i] = (uint32_t)npy_int(indices, i);
        out->features.data[i] = features_value(data, i);
    }
    int64_t row, column;
    return sorted || features_csr_sort(out, &row, &column) ? STATUS_OK
                                                           : features_fail_repeated(indices->name, row, column);
}

enum status dataset_features_sparse(const struct job *job, struct csr *rows, struct dataset *out)
{
    bool sorted = false;
    struct npy *indptr = &rows->indptr, *indices = &rows->indices, *data = &rows->data;
    out->facts.n_feature = rows->n_column;
    dataset_file_note(out, DATASET_CONTENT_FEATURES, data->name);
    enum status status = features_csr_check(rows, out->n_node, rows->n_column, &sorted);
    if (status != STATUS_OK) {
        return status;
    }
    bool normalize = job->dataset.normalize_features == JOB_NORMALIZE_ROW;
    bool as_it_lies = sorted && !normalize && indptr->type == NPY_TYPE_I64 && data->type == NPY_TYPE_F32 &&
                      (indices->type == NPY_TYPE_I32 || indices->type == NPY_TYPE_U32);
    if (as_it_lies) {
        out->features.indptr = (int64_t *)indptr->data;
        out->features.indices = (uint32_t *)indices->data;
        out->features.data = (float *)data->data;
        dataset_store_keep(out->store, indptr);
        dataset_store_keep(out->store, indices);
        dataset_store_keep(out->store, data);
        return STATUS_OK;
    }
    status = sparse_copy(rows, sorted, out);
    if (status == STATUS_OK && normalize) {
        features_csr_normalize(out);
    }
    csr_release(rows);
    return status;
}
