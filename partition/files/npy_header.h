/* The head of a .npy array: magic, version, length, and a Python dict literal. Seen by npy.c and, for arrays of
 * pickled objects, by pickle_csr.c. */
#ifndef PARTITION_NPY_HEADER_H
#define PARTITION_NPY_HEADER_H

#include "partition/files/npy.h"

#define NPY_HEADER_MOST_BYTES 65536

/* Read the head at `bytes` and check that the values fill the rest to the byte.
 *
 *   owns    npy->name is set by the caller; type, rank, shape, n_value, data are written
 *   errors  STATUS_DATA with file, what, and what was expected
 */
enum status npy_header_read(const void *bytes, size_t n_bytes, struct npy *npy);

/* The place of the values, of any type: magic, version and length are checked, the dict is not read. errors
 * STATUS_DATA */
enum status npy_header_skip(const char *name, const void *bytes, size_t n_bytes, size_t *n_out);

/* The head of format 1.0, padded to a multiple of 64; returns its length, at most `room`. */
size_t npy_header_write(enum npy_type type, int rank, const int64_t *shape, char *out, size_t room);

#endif
