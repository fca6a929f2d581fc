/* Runs one operation on the reference device and on every variant and thread count of the cpu device, and compares.
 *
 * All runs of the cpu device must give the same bits, and lie within a tolerance of the reference. Inputs are made here, too:
 * fixed pseudo-random arrays and small graphs.
 */
#ifndef TESTS_SUPPORT_DEVICE_CASE_H
#define TESTS_SUPPORT_DEVICE_CASE_H

#include "models/device.h"

#include <stddef.h>
#include <stdint.h>

/* Run the operation on this device, from `context`, into `out` (n_out floats, all 7 before the call). */
typedef void (*device_run)(struct device *device, const void *context, float *out);

void device_check(const char *what, device_run run, const void *context, size_t n_out, double tolerance);

/* n floats in [-1, 1), the same for the same seed; caller frees. */
float *device_random(size_t n, uint32_t seed);

/* n zeroed bytes; the caller frees them. */
void *device_scratch(size_t n_bytes);

/* A block of n_row rows over n_col columns: row r has degree(r, n_row) edges at ascending columns. */
struct device_block device_graph(int64_t n_row, int64_t n_col, int64_t (*degree)(int64_t row, int64_t n_row));
void device_graph_free(struct device_block *block);

/* Degrees 0, 1, 2, … 9 and again. */
int64_t degree_mixed(int64_t row, int64_t n_row);

#endif
