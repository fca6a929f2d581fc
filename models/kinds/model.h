/* A model under construction, and the functions that make it.
 *
 * model.c begins a program; program.c makes the model of its text, with what stands around its layers (stack.c) and
 * models/program/program.h. Calls go in this direction only.
 */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "models/program/program.h"
#include "protocol/job/job.h"
#include "protocol/vertex/trace.h"

#include <stdbool.h>
#include <stdint.h>

/* A vertex program that is being built. */
struct vertex_build {
    struct vertex_tree tree;
    struct vertex_args args;
    enum status status; /* of the first mistake */
    bool needs_dense;   /* it reads the features otherwise than linear maps do */
};

struct model {
    const struct job *job;
    const struct program_input *input;
    struct program *program;
    int n_first; /* parameters before the second layer: those with weight decay for train.decay = "first" */
    struct vertex_build *build;
    char layers[256]; /* names of the layers so far, "convs.0, convs.1"; cut where there are more */
};

/* Emit the whole program of the job's text, and set its logits.
 *
 *   errors  STATUS_CONFIG a job or data that the text does not support; model.c has checked the common rules
 */
enum status model_program(struct model *model);

/* What the data say to a text whose input has f_in columns. */
struct vertex_facts model_facts(const struct model *model, int64_t f_in, int64_t f_out);

/* Make a decoder's text the model's scorer, with parameters behind the model's. Messages name `origin`.
 * errors  STATUS_CONFIG of the text; STATUS_DATA it reads relations of edges without types */
enum status decoder_append(const struct model *model, const char *text, const char *origin);

/* The same of task.decoder; nothing for the dot product. */
enum status model_decoder(struct model *model);

/* The common model: model.layers layers over the features, the last model.linear_layers of them plain. Each but the
 * last is followed by residual, norm, activation and dropout; under jumping knowledge the last likewise, and a linear
 * map of all outputs follows. A prediction's layer_output is that of norm ("norms.<layer>") and activation
 * ("acts.<layer>"), which then has no dropout behind it. */
void model_stack(struct model *model, int (*conv)(struct model *model, int layer, int x, int64_t f_out));

/* The input features with known labels (model.label_input) and dropout, or the learned vectors that replace them:
 * every model's input. */
int model_features(struct model *model);

/* Do the features have only a column for each node, and does the first layer read them? Its weights have a row for
 * each node. */
bool model_is_one_hot(const struct model *model);

/* Make the features dense before anything reads them. Sparse rows can only be multiplied: an aggregate that is not
 * linear, or a sum with other rows, needs them dense. */
void model_features_dense(const struct model *model);

/* `value` is the output of the module "<name>.<index>" of PyTorch Geometric's model (index < 0: "<name>"), or of a
 * layer's activation ("acts.<layer>"). A prediction may write it (output.embeddings). Returns it. */
int layer_output(struct model *model, const char *name, int index, int value);

/* Should a layer from x to f_out columns multiply by its weight before a linear aggregate? Yes where the halo passes
 * then move fewer columns. */
bool transform_first(const struct program *program, int x, int64_t f_out);

/* program_param with a printed name. */
int named_param(struct program *program, int64_t rows, int64_t columns, double bound, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
