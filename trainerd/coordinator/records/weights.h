/* A model's weights as a .safetensors file, with the program's names and shapes, which are PyTorch Geometric's.
 *
 * In a job, a tensor with embeddings is split: its shared columns are in the arena, the others with the parts. Here
 * it is whole. Knows no workers.
 */
#ifndef TRAINERD_WEIGHTS_H
#define TRAINERD_WEIGHTS_H

#include "models/program/program.h"
#include "protocol/base/status.h"
#include "protocol/files/dir.h"
#include "protocol/job/job.h"

#include <stdbool.h>

/* Whole tensors. */
struct weights {
    const struct program *program;
    float *arena;    /* program->n_weight, for the caller to fill and read */
    float *embedded; /* tensors with embeddings, concatenated */
    int64_t n_embedded;
};

/* owns  the caller owns *out: weights_close. errors  STATUS_NOMEM */
enum status weights_open(const struct program *program, struct weights *out);
void weights_close(struct weights *weights);

/* Copy the arena's entries to the tensors with embeddings. */
void weights_take(struct weights *weights);

/* Copy the embeddings of n nodes with these columns to these tensors, or with to_rows from them. rows n × n_embedding
 * in the layout of program_init_embeddings */
void weights_copy_embeddings(const struct weights *weights, int64_t n, const uint32_t *column, float *rows,
                             bool to_rows);

/* Write the tensors, once all entries were copied to them. errors  STATUS_CREATE, STATUS_IO */
enum status weights_save(const struct weights *weights, const struct dir *dir, const char *name);

/* Read the tensors and the arena from a file that has every tensor with its shape, by these names or without any by
 * their own; padding in the arena becomes 0.
 * errors  those of safetensors_load and weight_names_find */
enum status weights_load(struct weights *weights, const char *path, const struct job_names *names);

/* The same errors, without reading. */
enum status weights_check(const struct program *program, const char *path, const struct job_names *names);

/* The number of classes by the shapes in a file: by the first tensor one of whose sizes is a multiple of it.
 * `program` and `other` are the model for program_class and for other_class of them. 0: no tensor tells.
 * errors  those of safetensors_shapes and weight_names_find */
enum status weights_classes(const struct program *program, int64_t program_class, const struct program *other,
                            int64_t other_class, const char *path, const struct job_names *names, int64_t *out);

#endif
