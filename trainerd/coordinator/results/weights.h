/* A model's weights as a .safetensors file: names and shapes are the program's, which are PyTorch Geometric's.
 *
 * In a job a tensor with embeddings lies in pieces, its shared columns in the arena and the others with the parts; here it is
 * one. Knows no workers.
 */
#ifndef TRAINERD_WEIGHTS_H
#define TRAINERD_WEIGHTS_H

#include "models/program.h"
#include "protocol/status.h"

/* Whole tensors. */
struct weights {
    const struct program *program;
    float *arena;    /* program->n_weight, for the caller to fill and read */
    float *embedded; /* tensors with embeddings, one after another */
    int64_t n_embedded;
};

/* owns  the caller owns *out: weights_close. errors  STATUS_NOMEM */
enum status weights_open(const struct program *program, struct weights *out);
void weights_close(struct weights *weights);

/* Take the arena's entries into the tensors with embeddings; likewise those of n nodes with these columns, n × n_embedding
 * floats as program_init_embeddings has them. */
void weights_take(struct weights *weights);
void weights_take_embeddings(struct weights *weights, int64_t n, const uint32_t *column, const float *from);

/* Write the tensors, of which all entries were taken. errors  STATUS_CREATE, STATUS_IO */
enum status weights_save(const struct weights *weights, const char *path);

/* Fill the tensors from a file that holds every one with its shape, and the arena; what lies between its tensors becomes 0.
 * errors  those of safetensors_load */
enum status weights_load(struct weights *weights, const char *path);

/* What n nodes with these columns have of them. */
void weights_give_embeddings(const struct weights *weights, int64_t n, const uint32_t *column, float *to);

#endif
