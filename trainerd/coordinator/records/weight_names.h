/* What a file of another program calls the model's tensors: the rows of [model.names], applied to their names.
 *
 * A row "convs.0" = "conv1" holds for 'convs.0' and for all that goes on after a dot: 'convs.0.bias' is 'conv1.bias'
 * in the file. "convs.*" = "layers.*.conv" holds for every layer: 'convs.3.bias' is 'layers.3.conv.bias'. Of several
 * rows the one with most parts between dots counts, then the one without "*". A row of one whole tensor whose name in
 * the file ends in ".T" transposes it. Knows no files.
 */
#ifndef TRAINERD_WEIGHT_NAMES_H
#define TRAINERD_WEIGHT_NAMES_H

#include "models/program/program.h"
#include "protocol/base/status.h"
#include "protocol/job/job.h"

#include <stdbool.h>

#define WEIGHT_NAME_BYTES (PROGRAM_NAME_BYTES + 2 * JOB_TENSOR_BYTES)
struct weight_name {
    char text[WEIGHT_NAME_BYTES];
    bool transposed;
};

/* The name of each parameter in the file.
 *
 *   owns    the caller frees *out, n_param names
 *   errors  STATUS_CONFIG a row that no tensor's name fits, with the nearest; two tensors of one name; ".T" of a
 *           tensor that is no matrix
 */
enum status weight_names_find(const struct program *program, const struct job_names *names, struct weight_name **out);

#endif
