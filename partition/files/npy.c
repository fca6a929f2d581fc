/* Mapping, values and writing of .npy arrays; the header's own grammar is npy_header.c's.
 *
 * A mapping is private and read-only: pages are read when used and count as the file's, not as ours.
 */
#include "partition/files/npy.h"

#include "partition/files/mapped.h"
#include "partition/files/npy_header.h"
#include "protocol/base/half.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool npy_is_integer(const struct npy *npy)
{
    return npy->type < NPY_TYPE_F16;
}

bool npy_exists(const char *path)
{
    return access(path, F_OK) == 0 || errno != ENOENT;
}

enum status npy_block(const char *name, enum npy_type type, int64_t n_row, int64_t n_column, struct npy *out)
{
    struct npy npy = {.type = type,
                      .rank = n_column > 0 ? 2 : 1,
                      .shape = {n_row, n_column > 0 ? n_column : 1, 1, 1},
                      .is_block = true};
    snprintf(npy.name, sizeof npy.name, "%s", name);
    npy.n_value = n_row * npy.shape[1];
    npy.n_map = (size_t)npy.n_value * npy_type_size(type);
    enum status status = memory_acquire(MEMORY_OTHER, npy.n_map, 1, &npy.map);
    npy.data = npy.map;
    *out = npy;
    return status;
}

enum status npy_copy(const char *name, enum npy_type type, int64_t n_value, const void *values, struct npy *out)
{
    enum status status = npy_block(name, type, n_value, 0, out);
    if (status == STATUS_OK) {
        memcpy(out->map, values, out->n_map);
    }
    return status;
}

/* A header may end anywhere, so values that are not aligned are moved. */
static enum status align(struct npy *npy)
{
    if ((uintptr_t)npy->data % npy_type_size(npy->type) == 0) {
        return STATUS_OK;
    }
    struct npy copy;
    enum status status = npy_copy(npy->name, npy->type, npy->n_value, npy->data, &copy);
    if (status != STATUS_OK) {
        return status;
    }
    if (npy->map != NULL) {
        mapped_close(npy->map, npy->n_map);
    }
    npy->map = copy.map;
    npy->n_map = copy.n_map;
    npy->is_block = true;
    npy->data = copy.data;
    return STATUS_OK;
}

enum status npy_open_bytes(const char *name, const void *bytes, size_t n_bytes, struct npy *out)
{
    struct npy npy = {0};
    snprintf(npy.name, sizeof npy.name, "%s", name);
    enum status status = npy_header_read(bytes, n_bytes, &npy);
    if (status == STATUS_OK) {
        status = align(&npy);
    }
    if (status == STATUS_OK) {
        *out = npy;
    }
    return status;
}

enum status npy_open(const char *path, struct npy *out)
{
    int file;
    enum status status = file_open(path, &file);
    if (status != STATUS_OK) {
        return status;
    }
    struct npy npy = {0};
    snprintf(npy.name, sizeof npy.name, "%s", path);
    struct stat info;
    if (fstat(file, &info) != 0) {
        status = status_fail(STATUS_IO, "%s: cannot find its size: %s", path, strerror(errno));
        goto close_file;
    }
    if (info.st_size == 0) {
        status = status_fail(STATUS_DATA, "%s: is empty, expected a .npy array", path);
        goto close_file;
    }
    npy.n_map = (size_t)info.st_size;
    status = mapped_open(file, path, npy.n_map, &npy.map);
    if (status != STATUS_OK) {
        goto close_file;
    }
    status = npy_header_read(npy.map, npy.n_map, &npy);
    if (status == STATUS_OK) {
        status = align(&npy);
    }
    if (status != STATUS_OK) {
        mapped_close(npy.map, npy.n_map);
        goto close_file;
    }
    *out = npy;
close_file:
    close(file);
    return status;
}

void npy_close(struct npy *npy)
{
    if (npy->map != NULL && npy->is_block) {
        memory_release(MEMORY_OTHER, npy->map, npy->n_map, 1);
    } else if (npy->map != NULL) {
        mapped_close(npy->map, npy->n_map);
    }
    *npy = (struct npy){0};
}

void csr_release(struct csr *csr)
{
    npy_close(&csr->indptr);
    npy_close(&csr->indices);
    npy_close(&csr->data);
}

/* "[2, any]" for messages. */
static void shape_print(int rank, const int64_t *shape, char *out, size_t room)
{
    size_t at = (size_t)snprintf(out, room, "[");
    for (int i = 0; i < rank && at < room; i++) {
        const char *comma = i > 0 ? ", " : "";
        at += (size_t)(shape[i] < 0 ? snprintf(out + at, room - at, "%sany", comma)
                                    : snprintf(out + at, room - at, "%s%lld", comma, (long long)shape[i]));
    }
    if (at < room) {
        snprintf(out + at, room - at, "]");
    }
}

enum status npy_expect(const struct npy *npy, enum npy_kind kind, int rank, int64_t rows, int64_t columns)
{
    if (kind == NPY_KIND_INTEGER && !npy_is_integer(npy)) {
        return status_fail(STATUS_DATA, "%s: holds %s, expected integers", npy->name, npy_type_text(npy->type));
    }
    const int64_t want[2] = {rows, columns};
    bool fits = npy->rank == rank;
    for (int i = 0; i < rank && fits; i++) {
        fits = want[i] < 0 || npy->shape[i] == want[i];
    }
    if (!fits) {
        char has[128], wanted[64];
        shape_print(npy->rank, npy->shape, has, sizeof has);
        shape_print(rank, want, wanted, sizeof wanted);
        return status_fail(STATUS_DATA, "%s: has shape %s, expected %s", npy->name, has, wanted);
    }
    return STATUS_OK;
}

/* The place of value i. */
static int64_t place(const struct npy *npy, int64_t i)
{
    int64_t at = 0;
    for (int d = npy->rank - 1; d >= 0 && npy->by_columns; d--) {
        at = at * npy->shape[d] + i % npy->shape[d];
        i /= npy->shape[d];
    }
    return npy->by_columns ? at : i;
}

int64_t npy_int_stored(const struct npy *npy, int64_t at)
{
    switch (npy->type) {
    case NPY_TYPE_BOOL:
        return ((const uint8_t *)npy->data)[at] != 0;
    case NPY_TYPE_I8:
        return ((const int8_t *)npy->data)[at];
    case NPY_TYPE_I16:
        return ((const int16_t *)npy->data)[at];
    case NPY_TYPE_I32:
        return ((const int32_t *)npy->data)[at];
    case NPY_TYPE_I64:
        return ((const int64_t *)npy->data)[at];
    case NPY_TYPE_U8:
        return ((const uint8_t *)npy->data)[at];
    case NPY_TYPE_U16:
        return ((const uint16_t *)npy->data)[at];
    case NPY_TYPE_U32:
        return ((const uint32_t *)npy->data)[at];
    case NPY_TYPE_U64: {
        uint64_t value = ((const uint64_t *)npy->data)[at];
        return value > INT64_MAX ? INT64_MAX : (int64_t)value;
    }
    default:
        return 0;
    }
}

int64_t npy_int(const struct npy *npy, int64_t i)
{
    return npy_int_stored(npy, place(npy, i));
}

double npy_real(const struct npy *npy, int64_t i)
{
    i = place(npy, i);
    switch (npy->type) {
    case NPY_TYPE_F16:
        return half_to_float(((const uint16_t *)npy->data)[i]);
    case NPY_TYPE_F32:
        return ((const float *)npy->data)[i];
    case NPY_TYPE_F64:
        return ((const double *)npy->data)[i];
    default:
        return (double)npy_int_stored(npy, i);
    }
}
