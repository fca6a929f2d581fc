/* NumPy's .npz files: a zip archive of .npy members, each inflated whole into memory. Only npz.c uses libzip. */
#ifndef PARTITION_NPZ_H
#define PARTITION_NPZ_H

#include "partition/files/npy.h"
#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct npz;

/* errors  STATUS_NO_INPUT no such file · STATUS_DATA not a zip archive, or one that contradicts itself · STATUS_IO */
enum status npz_open(const char *path, struct npz **out);
void npz_close(struct npz *npz);

/* Is there a member `name`.npy? */
bool npz_has(const struct npz *npz, const char *name);

/* Read member `name`.npy.
 *
 *   owns    the caller owns *out: npy_close; it outlives the archive
 *   errors  STATUS_DATA no such member, encrypted, another method than stored or deflated, larger than deflate can
 *           make it, a wrong checksum, or not a good .npy: the message names "FILE:member" · STATUS_NOMEM
 */
enum status npz_member(const struct npz *npz, const char *name, struct npy *out);

/* The bytes of member `name`.npy as they are; `full_out` gets the name for messages, "FILE:member".
 *
 *   owns    the caller owns *bytes_out (memory_acquire, MEMORY_OTHER, *n_out × 1)
 *   errors  as npz_member, without those of the contents
 */
enum status npz_bytes(const struct npz *npz, const char *name, char full_out[NPY_NAME_BYTES], char **bytes_out,
                      size_t *n_out);

#endif
