/* Sparse feature rows under construction: their blocks, checks of their file, order, normalisation.
 *
 * Shared by features of one matrix (dataset_features.c) and of one for each node type (node_types.c).
 */
#ifndef PARTITION_FEATURES_CSR_H
#define PARTITION_FEATURES_CSR_H

#include "partition/files/npy.h"
#include "partition/graph/dataset.h"

#include <stdbool.h>
#include <stdint.h>

/* Every value as float; the common type first. */
static inline float features_value(const struct npy *npy, int64_t i)
{
    bool as_it_lies = npy->type == NPY_TYPE_F32 && !npy->by_columns;
    return as_it_lies ? ((const float *)npy->data)[i] : (float)npy_real(npy, i);
}

/* All values as floats, in a block of the store. errors  STATUS_NOMEM */
enum status features_floats(const struct npy *npy, struct dataset_store *store, const float **out);

/* Count the values that are not zero. errors  STATUS_DATA one is not finite: its row, and its column of n_column */
enum status features_scan(const struct npy *npy, int64_t n_column, int64_t *n_nonzero_out);

/* Fail with the place of a value that is not finite. */
enum status features_fail_not_finite(const char *file, int64_t row, int64_t column, double value);

/* Divide a row by the sum of its absolute values; a row of zeros stays. */
void features_row_normalize(float *row, int64_t n);

/* The dataset's three blocks for CSR features of `n_value` entries. */
enum status features_csr_blocks(struct dataset *out, int64_t n_value);

/* Check shapes and values of CSR arrays: offsets start at 0, never fall, end at the number of values; columns in
 * range; values finite. *sorted_out: every row's columns ascend, so that the file may be used as it is. */
enum status features_csr_check(const struct csr *rows, int64_t n_row, int64_t n_column, bool *sorted_out);

/* Sort the dataset's rows in place. false: a row has a column twice, the first one that does: *row_out and
 * *column_out. */
bool features_csr_sort(struct dataset *out, int64_t *row_out, int64_t *column_out);

/* Fail with that row and column as `file` counts them. */
enum status features_fail_repeated(const char *file, int64_t row, int64_t column);

void features_csr_normalize(struct dataset *out);

#endif
