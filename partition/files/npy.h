/* NumPy's .npy files: a strict header reader over mapped files or bytes in memory, and a writer.
 *
 * Formats 1.0, 2.0 and 3.0, little-endian numbers and booleans, C and Fortran order. Knows nothing of graphs: readers
 * check shapes with npy_expect.
 * source  numpy.lib.format, "NPY format"
 */
#ifndef PARTITION_NPY_H
#define PARTITION_NPY_H

#include "partition/files/npy_type.h"
#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NPY_RANK_MOST 4
#define NPY_NAME_BYTES 256

/* One array: values row after row at `data` (column after column where by_columns), aligned to their size. */
struct npy {
    char name[NPY_NAME_BYTES]; /* the file's name in messages */
    enum npy_type type;
    int rank;
    int64_t shape[NPY_RANK_MOST]; /* 1 past the rank */
    int64_t n_value;
    /* Fortran order, and more than one row and column: `data` is not in the order of npy_int and npy_real */
    bool by_columns;
    const void *data;
    void *map; /* released by npy_close: a mapping of n_map bytes, or a block (MEMORY_OTHER); NULL: nothing */
    size_t n_map;
    bool is_block;
};

/* Map a file, read-only.
 *
 *   owns    the caller owns *out: npy_close. *out untouched on failure
 *   errors  STATUS_NO_INPUT no such file · STATUS_DATA not a .npy, a header that breaks the format, a dtype or order
 *           that is not supported, a size that does not match the shape: the message names file, what, and what was
 *           expected · STATUS_IO · STATUS_NOMEM
 */
enum status npy_open(const char *path, struct npy *out);

/* The same over bytes in memory; `name` stands for the file in messages. Borrows `bytes`, which outlive *out. */
enum status npy_open_bytes(const char *name, const void *bytes, size_t n_bytes, struct npy *out);

/* An array of zeros, [n_row, n_column], or of n_column 0 [n_row], to be filled at out->map.
 * owns  the caller owns *out, also on failure: npy_close. errors  STATUS_NOMEM */
enum status npy_block(const char *name, enum npy_type type, int64_t n_row, int64_t n_column, struct npy *out);

/* Likewise with a copy of n_value bare values of `type`, aligned or not. */
enum status npy_copy(const char *name, enum npy_type type, int64_t n_value, const void *values, struct npy *out);

void npy_close(struct npy *npy);

/* Rows of a sparse matrix: arrays of rank 1, not yet compared with each other. */
struct csr {
    int64_t n_row, n_column;
    struct npy indptr, indices, data;
};

void csr_release(struct csr *csr);

/* Does the file exist? Any error but "no such file" counts as yes, so that opening it reports the error. */
bool npy_exists(const char *path);

/* The required shape and type of an array. A size below 0 accepts any. */
enum npy_kind { NPY_KIND_INTEGER, NPY_KIND_NUMBER };
enum status npy_expect(const struct npy *npy, enum npy_kind kind, int rank, int64_t rows, int64_t columns);

bool npy_is_integer(const struct npy *npy); /* booleans count */

/* Value i of the flat array, row after row in either order of the file. npy_int on integers and booleans only (uint64
 * past int64's range reads as INT64_MAX); npy_real on any. */
int64_t npy_int(const struct npy *npy, int64_t i);
double npy_real(const struct npy *npy, int64_t i);

/* npy_int in the file's own order, which needs no division for arrays by columns. */
int64_t npy_int_stored(const struct npy *npy, int64_t at);

#endif
