/* Named arrays in one file, as PyTorch's safetensors has them: model.safetensors, best.safetensors, checkpoints.
 *
 * A file is 8 bytes of header length, a JSON header, the numbers. Everything is checked before a number is used.
 * Knows nothing of models: the caller gives the names and shapes that it expects.
 * source  https://github.com/huggingface/safetensors, "Format"
 */
#ifndef PROTOCOL_SAFETENSORS_H
#define PROTOCOL_SAFETENSORS_H

#include "protocol/base/status.h"
#include "protocol/files/dir.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAFETENSORS_DIM_MOST 4
#define SAFETENSORS_HEADER_MOST_BYTES 100000000

/* One array: save reads `data`, load writes it, or without `data` only checks it. Row-major, shape[0] × … ×
 * shape[n_dim-1] floats. */
struct safetensor {
    const char *name;
    int n_dim;
    int64_t shape[SAFETENSORS_DIM_MOST];
    float *data;
    const char *stored; /* load: its name in the file; NULL: the same */
    bool transposed;    /* load: the file has it as shape[1] × shape[0] */
};

/* One line of the header's optional __metadata__. */
struct safetensors_note {
    const char *key;
    const char *text;
};

/* Write the file `name` of F32 tensors, in the order of their names; the same tensors give the same bytes.
 *
 *   owns    borrows all; names are unique
 *   errors  those of dir_replace: the file is complete or absent
 */
enum status safetensors_save(const struct dir *dir, const char *name, const struct safetensor *tensor,
                             size_t n_tensor, const struct safetensors_note *note, size_t n_note);

/* Read a file that holds exactly the wanted tensors, each with the wanted shape, into the caller's arrays. PyTorch's
 * counts of batches (NAME.num_batches_tracked), which every state_dict with batch norm has, are skipped.
 *
 *   units   F32, and F16, BF16, F64 converted to float32
 *   owns    borrows all; data untouched unless the whole file is in order
 *   errors  STATUS_NO_INPUT no such file; STATUS_IO; STATUS_NOMEM; STATUS_DATA with file, tensor and what was
 *           expected: an invalid header, offsets that overlap, leave holes or miss the file's end, a name twice;
 *           a line for each tensor that is missing or not wanted; another shape, another type (integers), a number
 *           that is not finite
 *   cost    one read of the file, which is in memory meanwhile
 */
enum status safetensors_load(const char *path, const struct safetensor *want, size_t n_want);

/* The same from memory; `origin` stands for the file's name in messages. */
enum status safetensors_load_bytes(const void *bytes, size_t n_bytes, const char *origin,
                                   const struct safetensor *want, size_t n_want);

/* Read the shapes of these tensors in the file, not transposed; n_dim -1: the file lacks it.
 *
 *   owns    borrows all
 *   errors  those of safetensors_load but for tensors and numbers
 *   cost    one read of the file, which is in memory meanwhile
 */
enum status safetensors_shapes(const char *path, struct safetensor *tensor, size_t n_tensor);

/* The same from memory. */
enum status safetensors_shapes_bytes(const void *bytes, size_t n_bytes, const char *origin, struct safetensor *tensor,
                                     size_t n_tensor);

#endif
