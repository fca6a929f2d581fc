/* A model's weights as a .safetensors file: names and shapes are the program's, which are PyTorch Geometric's. */
#ifndef TRAINERD_WEIGHTS_H
#define TRAINERD_WEIGHTS_H

#include "models/program.h"
#include "protocol/status.h"

/* Write the arena (program->n_weight floats). errors  STATUS_CREATE, STATUS_IO */
enum status weights_save(const struct program *program, const float *arena, const char *path);

/* Fill the arena from a file that holds every tensor with its shape; what lies between tensors becomes 0.
 * errors  those of safetensors_load */
enum status weights_load(const struct program *program, const char *path, float *arena);

#endif
