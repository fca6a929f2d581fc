/* Opening feature rows in CSR. Both products with them are sums over neighbours (aggregate.cu), the one for the
 * weight's gradient through a transpose that the host makes once. */
#include "models/cuda/dense/sparse.h"

#include "models/cuda/schedule.h"

#include <stdlib.h>
#include <string.h>

struct device_block cuda_csr_by_row(const struct device_csr *csr, const float *weights)
{
    const struct cuda_columns *columns = csr->by_column;
    return (struct device_block){.n_row = csr->n_row,
                                 .n_col = csr->n_col,
                                 .n_edge = csr->n_value,
                                 .indptr = csr->indptr,
                                 .cols = csr->cols,
                                 .weights = weights,
                                 .schedule = columns->by_row};
}

struct device_block cuda_csr_by_column(const struct device_csr *csr, const float *weights)
{
    const struct cuda_columns *columns = csr->by_column;
    return (struct device_block){.n_row = csr->n_col,
                                 .n_col = csr->n_row,
                                 .n_edge = csr->n_value,
                                 .indptr = columns->indptr,
                                 .cols = columns->rows,
                                 .weights = weights,
                                 .schedule = columns->by_column};
}

/* --- the transpose, on the host --- */

/* The csr and its transpose while this is made. */
struct host_columns {
    int64_t n_row, n_col, n_value;
    int64_t *row_indptr, *indptr;
    uint32_t *cols, *rows, *position;
};

static enum status host_acquire(struct host_columns *h)
{
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)h->n_row + 1, sizeof *h->row_indptr, &h->row_indptr);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)h->n_col + 1, sizeof *h->indptr, &h->indptr);
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)h->n_value, sizeof *h->cols, &h->cols);
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)h->n_value, sizeof *h->rows, &h->rows);
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)h->n_value, sizeof *h->position, &h->position);
    }
    return status;
}

static void host_release(struct host_columns *h)
{
    memory_release(MEMORY_OTHER, h->row_indptr, (size_t)h->n_row + 1, sizeof *h->row_indptr);
    memory_release(MEMORY_OTHER, h->indptr, (size_t)h->n_col + 1, sizeof *h->indptr);
    memory_release(MEMORY_OTHER, h->cols, (size_t)h->n_value, sizeof *h->cols);
    memory_release(MEMORY_OTHER, h->rows, (size_t)h->n_value, sizeof *h->rows);
    memory_release(MEMORY_OTHER, h->position, (size_t)h->n_value, sizeof *h->position);
}

/* --- on the device --- */

static enum status features_acquire(struct device *device, size_t n_bytes, void *out)
{
    return cuda_acquire(device, DEVICE_PLACE_DEVICE, MEMORY_FEATURES, n_bytes, out);
}

static void features_release(struct device *device, void *block, size_t n_bytes)
{
    cuda_release(device, DEVICE_PLACE_DEVICE, MEMORY_FEATURES, block, n_bytes);
}

static enum status columns_acquire(struct device *device, struct cuda_columns *columns)
{
    size_t n_value = (size_t)columns->n_value;
    enum status status = features_acquire(device, ((size_t)columns->n_col + 1) * sizeof *columns->indptr,
                                          &columns->indptr);
    if (status == STATUS_OK) {
        status = features_acquire(device, n_value * sizeof *columns->rows, &columns->rows);
    }
    if (status == STATUS_OK) {
        status = features_acquire(device, n_value * sizeof *columns->position, &columns->position);
    }
    if (status == STATUS_OK) {
        status = features_acquire(device, n_value * sizeof *columns->values, &columns->values);
    }
    if (status == STATUS_OK) {
        status = features_acquire(device, (size_t)columns->n_run * sizeof *columns->run, &columns->run);
    }
    return status;
}

/* Make the transpose and bring it to the device. */
static enum status columns_make(struct device *device, const struct device_csr *csr, struct cuda_columns *columns)
{
    struct host_columns h = {.n_row = csr->n_row, .n_col = csr->n_col, .n_value = csr->n_value};
    size_t n_value = (size_t)csr->n_value;
    enum status status = host_acquire(&h);
    if (status == STATUS_OK) {
        cuda_copy(device, h.row_indptr, csr->indptr, ((size_t)h.n_row + 1) * sizeof *h.row_indptr);
        cuda_copy(device, h.cols, csr->cols, n_value * sizeof *h.cols);
        status = device_sync(device); /* what a failed copy left is not read */
    }
    if (status == STATUS_OK) {
        const struct device_csr host = {.n_row = h.n_row, .n_col = h.n_col, .indptr = h.row_indptr, .cols = h.cols};
        device_csr_columns(&host, h.indptr, h.rows, h.position);
        cuda_copy(device, columns->indptr, h.indptr, ((size_t)h.n_col + 1) * sizeof *h.indptr);
        cuda_copy(device, columns->rows, h.rows, n_value * sizeof *h.rows);
        cuda_copy(device, columns->position, h.position, n_value * sizeof *h.position);
    }
    host_release(&h);
    return status;
}

/* Schedules of both blocks. */
static enum status schedules_open(struct device *device, const struct device_csr *csr, struct cuda_columns *columns)
{
    struct device_block by_row = cuda_csr_by_row(csr, NULL), by_column = cuda_csr_by_column(csr, NULL);
    enum status status = cuda_schedule_open(device, &by_row);
    columns->by_row = by_row.schedule;
    if (status == STATUS_OK) {
        status = cuda_schedule_open(device, &by_column);
        columns->by_column = by_column.schedule;
    }
    return status;
}

enum status cuda_csr_open(struct device *device, struct device_csr *csr)
{
    if (csr->n_value > UINT32_MAX) {
        return status_fail(STATUS_DATA,
                           "one part holds %lld stored feature values, expected at most %u: use more parts",
                           (long long)csr->n_value, UINT32_MAX);
    }
    struct cuda_columns *columns = csr->by_column = memory_alloc(1, sizeof *columns);
    columns->n_col = csr->n_col;
    columns->n_value = csr->n_value;
    columns->n_run = csr->embedded != NULL ? csr->embedded->n_run : 0;
    enum status status = columns_acquire(device, columns);
    if (status == STATUS_OK) {
        status = columns_make(device, csr, columns);
    }
    if (status == STATUS_OK && columns->n_run > 0) {
        cuda_copy(device, columns->run, csr->embedded->run, (size_t)columns->n_run * sizeof *columns->run);
    }
    if (status == STATUS_OK) {
        status = schedules_open(device, csr, columns);
    }
    if (status != STATUS_OK) {
        cuda_csr_close(device, csr);
    }
    return status;
}

void cuda_csr_close(struct device *device, struct device_csr *csr)
{
    struct cuda_columns *columns = csr->by_column;
    if (columns == NULL) {
        return;
    }
    struct device_block by_row = cuda_csr_by_row(csr, NULL), by_column = cuda_csr_by_column(csr, NULL);
    size_t n_value = (size_t)columns->n_value;
    cuda_schedule_close(device, &by_row);
    cuda_schedule_close(device, &by_column);
    features_release(device, columns->indptr, ((size_t)columns->n_col + 1) * sizeof *columns->indptr);
    features_release(device, columns->rows, n_value * sizeof *columns->rows);
    features_release(device, columns->position, n_value * sizeof *columns->position);
    features_release(device, columns->values, n_value * sizeof *columns->values);
    features_release(device, columns->run, (size_t)columns->n_run * sizeof *columns->run);
    free(columns);
    csr->by_column = NULL;
}
