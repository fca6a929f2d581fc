/* Runs one operation on the reference device, on every variant and thread count of the cpu device, and in emulated
 * builds on the cuda device, and compares.
 *
 * All runs of the cpu device must give the same bits, and lie within a tolerance of the reference; the cuda device's
 * bits must be the cpu's. Inputs are made here, too: fixed pseudo-random arrays and small graphs, in host memory,
 * which an emulated GPU reads with EMULATOR_UNIFIED=1 EMULATOR_EAGER=1 in the environment.
 */
#ifndef TESTS_SUPPORT_DEVICE_CASE_H
#define TESTS_SUPPORT_DEVICE_CASE_H

#include "models/device/device.h"

#include <stddef.h>
#include <stdint.h>

/* Run the operation on this device, from `context`, into `out` (n_out floats, all 7 before the call). */
typedef void (*device_run)(struct device *device, const void *context, float *out);

void device_check(const char *what, device_run run, const void *context, size_t n_out, double tolerance);

/* The same for what the cuda device may compute in another way: products, attention, gelu, losses. It, too, must lie
 * within the tolerance of the reference, and be the same in two runs. */
void device_check_close(const char *what, device_run run, const void *context, size_t n_out, double tolerance);

/* The reference device, the cpu device and, in emulated builds, the cuda device. */
#ifdef CUDA_EMULATED
enum { DEVICE_TABLE_N = 3, DEVICE_EMULATED = 1 };
#else
enum { DEVICE_TABLE_N = 2, DEVICE_EMULATED = 0 };
#endif
extern const struct device_ops *const device_tables[DEVICE_TABLE_N];

/* n floats in [-1, 1), the same for the same seed; caller frees. */
float *device_random(size_t n, uint32_t seed);

/* n zeroed bytes; the caller frees them. */
void *device_scratch(size_t n_bytes);

/* A block of n_row rows over n_col columns: row r has degree(r, n_row) edges at ascending columns. */
struct device_block device_graph(int64_t n_row, int64_t n_col, int64_t (*degree)(int64_t row, int64_t n_row));
void device_graph_free(struct device_block *block);

/* Blocks over the same columns, the first over all rows, in one (device_args.h); apart: sums of all but the first are. */
struct device_block device_merge(int n_block, const struct device_block *blocks, bool apart);

/* Degrees 0, 1, 2, … 9 and again. */
int64_t degree_mixed(int64_t row, int64_t n_row);

#endif
