/* Arrays in files. */
#ifndef TESTS_SUPPORT_NPY_SAVE_H
#define TESTS_SUPPORT_NPY_SAVE_H

#include "partition/files/npy.h"
#include "partition/files/npy_header.h"
#include "protocol/files/file.h"

/* Write an array in format 1.0.
 *
 *   shapes  `data` is the product of shape[0 … rank-1] values of `type`, row after row
 *   errors  those of file_replace: `path` is complete or absent
 */
static inline enum status npy_save(const char *path, enum npy_type type, int rank, const int64_t *shape,
                                   const void *data)
{
    char header[256];
    size_t n_header = npy_header_write(type, rank, shape, header, sizeof header);
    size_t n_value = 1;
    for (int i = 0; i < rank; i++) {
        n_value *= (size_t)shape[i];
    }
    const struct iovec piece[] = {{.iov_base = header, .iov_len = n_header},
                                  {.iov_base = (void *)data, .iov_len = n_value * npy_type_size(type)}};
    return file_replace(path, piece, 2);
}

#endif
