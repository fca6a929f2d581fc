/* A SciPy CSR matrix out of a pickled NumPy object array: the form in which several collections of graphs keep their
 * .npz.
 *
 * A pickle is a program, which is not run here. Its opcodes only build a tree of numbers, texts, bytes and names.
 * Names other than NumPy's arrays and SciPy's csr_matrix are refused. The matrix is read from the tree.
 * source  Python library, Lib/pickletools.py
 */
#ifndef PARTITION_PICKLE_CSR_H
#define PARTITION_PICKLE_CSR_H

#include "partition/files/npy.h"

/* Read one matrix from the bytes of a .npy that holds it.
 *
 *   owns    the caller owns *out: csr_release; `bytes` may be freed
 *   errors  STATUS_DATA with name and byte: not such a pickle, cut short, another class, big-endian numbers ·
 *           STATUS_NOMEM
 */
enum status pickle_csr_read(const char *name, const void *bytes, size_t n_bytes, struct csr *out);

#endif
