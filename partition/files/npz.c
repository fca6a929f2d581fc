/* Members of a zip archive as arrays. Sizes in the archive's directory are claims: they are checked against what
 * deflate can do (1032 : 1) before memory is taken, and against the bytes that come; libzip checks the CRC.
 */
#include "partition/files/npz.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zip.h>

#define DEFLATE_RATIO_MOST 1032
#define MEMBER_NAME_BYTES 128

struct npz {
    char name[NPY_NAME_BYTES];
    zip_t *archive;
};

enum status npz_open(const char *path, struct npz **out)
{
    int file, code;
    enum status status = file_open(path, &file);
    if (status != STATUS_OK) {
        return status;
    }
    close(file);
    zip_t *archive = zip_open(path, ZIP_RDONLY | ZIP_CHECKCONS, &code);
    if (archive == NULL) {
        /* libzip also reports "no such file" if a local header of 64-bit sizes, as NumPy writes it, lacks its extra
         * field. */
        zip_error_t error;
        zip_error_init_with_code(&error, code == ZIP_ER_NOENT ? ZIP_ER_INCONS : code);
        status = code == ZIP_ER_OPEN ? STATUS_IO : STATUS_DATA;
        status_fail(status, "%s: %s, expected a .npz archive", path, zip_error_strerror(&error));
        zip_error_fini(&error);
        return status;
    }
    struct npz *npz = memory_alloc(1, sizeof *npz);
    snprintf(npz->name, sizeof npz->name, "%s", path);
    npz->archive = archive;
    *out = npz;
    return STATUS_OK;
}

void npz_close(struct npz *npz)
{
    if (npz != NULL) {
        zip_discard(npz->archive);
        free(npz);
    }
}

bool npz_has(const struct npz *npz, const char *name)
{
    char member[MEMBER_NAME_BYTES];
    snprintf(member, sizeof member, "%s.npy", name);
    return zip_name_locate(npz->archive, member, 0) >= 0;
}

/* Find a member and check its two sizes against each other. */
static enum status member_find(const struct npz *npz, const char *full, const char *member, zip_stat_t *out)
{
    if (zip_stat(npz->archive, member, 0, out) != 0) {
        return status_fail(STATUS_DATA, "%s: is not in the archive, expected it", full);
    }
    zip_uint64_t needed = ZIP_STAT_INDEX | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((out->valid & needed) != needed) {
        return status_fail(STATUS_DATA, "%s: the archive does not tell its size", full);
    }
    if ((out->valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && out->encryption_method != ZIP_EM_NONE) {
        return status_fail(STATUS_DATA, "%s: is encrypted, expected plain data", full);
    }
    if (out->comp_method != ZIP_CM_STORE && out->comp_method != ZIP_CM_DEFLATE) {
        return status_fail(STATUS_DATA, "%s: compression method %u, expected stored or deflated", full,
                           out->comp_method);
    }
    if (out->size / DEFLATE_RATIO_MOST > out->comp_size) {
        return status_fail(STATUS_DATA, "%s: %llu bytes from %llu, expected at most %d to 1", full,
                           (unsigned long long)out->size, (unsigned long long)out->comp_size, DEFLATE_RATIO_MOST);
    }
    return STATUS_OK;
}

static enum status member_read(const struct npz *npz, const char *full, const zip_stat_t *stat, char *bytes)
{
    zip_file_t *file = zip_fopen_index(npz->archive, stat->index, 0);
    if (file == NULL) {
        return status_fail(STATUS_DATA, "%s: %s", full, zip_strerror(npz->archive));
    }
    zip_uint64_t at = 0;
    zip_int64_t n;
    /* One byte past the size is also requested: libzip compares the checksum only at the end. */
    char past;
    do {
        bool whole = at == stat->size;
        zip_uint64_t left = stat->size - at;
        n = zip_fread(file, whole ? &past : bytes + at, whole ? 1 : left > (1u << 30) ? 1u << 30 : left);
        at += n > 0 ? (zip_uint64_t)n : 0;
    } while (n > 0 && at <= stat->size);
    enum status status = STATUS_OK;
    if (n < 0) {
        status = status_fail(STATUS_DATA, "%s: byte %llu: %s", full, (unsigned long long)at, zip_file_strerror(file));
    } else if (at != stat->size) {
        status = status_fail(STATUS_DATA, "%s: %s %llu bytes, expected %llu", full,
                             at < stat->size ? "ends after" : "has over",
                             (unsigned long long)(at < stat->size ? at : stat->size), (unsigned long long)stat->size);
    }
    zip_fclose(file);
    return status;
}

enum status npz_bytes(const struct npz *npz, const char *name, char full_out[NPY_NAME_BYTES], char **bytes_out,
                      size_t *n_out)
{
    char member[MEMBER_NAME_BYTES];
    int n_member = snprintf(member, sizeof member, "%s.npy", name);
    ASSERT(n_member > 0 && (size_t)n_member < sizeof member);
    snprintf(full_out, NPY_NAME_BYTES, "%.*s:%s", (int)(NPY_NAME_BYTES - sizeof member - 2), npz->name, member);
    zip_stat_t stat;
    zip_stat_init(&stat);
    enum status status = member_find(npz, full_out, member, &stat);
    if (status != STATUS_OK) {
        return status;
    }
    char *bytes;
    status = memory_acquire(MEMORY_OTHER, stat.size, 1, &bytes);
    if (status != STATUS_OK) {
        return status;
    }
    status = member_read(npz, full_out, &stat, bytes);
    if (status != STATUS_OK) {
        memory_release(MEMORY_OTHER, bytes, stat.size, 1);
        return status;
    }
    *bytes_out = bytes;
    *n_out = stat.size;
    return STATUS_OK;
}

enum status npz_member(const struct npz *npz, const char *name, struct npy *out)
{
    char full[NPY_NAME_BYTES];
    char *bytes;
    size_t n;
    enum status status = npz_bytes(npz, name, full, &bytes, &n);
    if (status != STATUS_OK) {
        return status;
    }
    struct npy npy;
    status = npy_open_bytes(full, bytes, n, &npy);
    if (status != STATUS_OK || npy.is_block) {
        memory_release(MEMORY_OTHER, bytes, n, 1);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (!npy.is_block) {
        npy.map = bytes;
        npy.n_map = n;
        npy.is_block = true;
    }
    *out = npy;
    return STATUS_OK;
}
