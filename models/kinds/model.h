/* A model under construction, and the functions that builders make it with.
 *
 * model.c begins a program and calls the builder of the job's kind, <kind>.c. The builder emits the whole model with
 * the functions below (stack.c, heads.c) and those of models/program/program.h. Calls go in this direction only.
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
    enum status status; /* of the first mistake */
    bool needs_dense;   /* it reads the features otherwise than linear maps do */
};

struct model {
    const struct job *job;
    const struct program_input *input;
    struct program *program;
    int n_first; /* parameters before the second layer: those with weight decay for train.decay = "first" */
    struct vertex_build *build; /* model.kind = "program" */
    char layers[256];           /* names of the layers so far, "convs.0, convs.1"; cut where there are more */
};

/* The builders, <builder>_model of every row of model_kinds.def. A builder emits the whole program; the last op makes
 * the logits.
 *
 *   errors  STATUS_CONFIG, STATUS_DATA a job or data that the kind does not support; model.c has checked the common
 *           rules
 */
#define MODEL_BUILDER_ROW(list, name, text, builder, ...) enum status builder##_model(struct model *model);
JOB_KIND_LIST(MODEL_BUILDER_ROW, KIND)

/* Append the parameters of task.decoder, after those of the model. errors  STATUS_DATA distmult without relations */
enum status model_decoder(struct model *model);

/* Layers one after another, named "convs.<i>.…" and "lins.<i>.…": n_conv layers of the kind, then n_linear plain
 * ones. */
struct stack {
    /* Emit layer `layer` from value x to f_out columns (attention: per head); returns its output. */
    int (*conv)(const struct model *model, int layer, int x, int64_t f_out);
    int n_conv, n_linear;
};

/* The common model: model.layers layers over the features, the last model.linear_layers of them plain. */
enum status model_stack(struct model *model, int (*conv)(const struct model *model, int layer, int x, int64_t f_out));

/* The same in two steps, for a kind with other ops between them. stack_layers ends each layer but the last as
 * layer_end does; under jumping knowledge it ends the last layer likewise, and a linear map of all outputs
 * follows. */
int stack_features(struct model *model, const struct stack *stack);
int stack_layers(struct model *model, const struct stack *stack, int x);

/* The input features with known labels (model.label_input) and dropout, or the learned vectors that replace them:
 * every model's input. */
int model_features(struct model *model);

/* Do the features, of several node types or a column for each node, go through a linear map to model.hidden columns
 * first? Nodes without features have a learned vector then. */
bool model_embeds(const struct model *model);

/* Do the features have only a column for each node, and does the first layer read them? Its weights have a row for
 * each node. */
bool model_is_one_hot(const struct model *model);

/* Make the features dense before anything reads them. Sparse rows can only be multiplied: an aggregate that is not
 * linear, or a sum with other rows, needs them dense. */
void model_features_dense(const struct model *model);

/* `value` is the output of the module "<name>.<index>" of PyTorch Geometric's model (index < 0: "<name>"), or of a
 * layer's activation ("acts.<layer>"). A prediction may write it (output.embeddings). Returns it. */
int layer_output(struct model *model, const char *name, int index, int value);

/* Parameters from here on are those of layer `layer`, counted from 0. */
void layer_begin(struct model *model, int layer);

/* The ops after a hidden layer from x to y: residual, norm, activation, dropout (model.dropout, or 0 if another op
 * comes between). A prediction's layer_output is that of norm ("norms.<layer>") and activation ("acts.<layer>"),
 * which then has no dropout behind it. */
int layer_end(struct model *model, int layer, int x, int y, double dropout);

/* The job's activation and then dropout, in one op or no op. */
int model_activate(const struct model *model, int x, double dropout);
int model_dropout(const struct model *model, int x, double dropout);

/* A plain linear layer "lins.<index>". */
int plain_layer(struct model *model, int index, int x, int64_t f_out);

/* Should a layer from x to f_out columns multiply by its weight before a linear aggregate? Yes where the halo passes
 * then move fewer columns. */
bool transform_first(const struct program *program, int x, int64_t f_out);

/* program_param with a printed name. */
int named_param(struct program *program, int64_t rows, int64_t columns, double bound, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The bounds of uniform draws: torch.nn.Linear's, kaiming_uniform(a = √5) = 1/√fan_in; PyTorch Geometric's glorot,
 * √(6/(rows + columns)). */
double linear_bound(int64_t fan_in);
double glorot_bound(int64_t rows, int64_t columns);

/* Does this layer make the logits? Not under jumping knowledge, whose own linear map does. */
bool is_last_layer(const struct job *job, int layer);

/* Heads of this layer: model.out_heads in the last one, else model.heads. An attention layer's f_out is per head. */
int64_t attention_heads(const struct job *job, int layer);

/* An attention vector per head, 1 × n_head × n_column, named by a format with the layer's number. */
int head_param(struct program *program, int64_t n_head, int64_t n_column, const char *format, int layer);

/* The weight of edges' features, f × n_edge_feature. */
int edge_param(struct program *program, int64_t f, double bound, int layer);

/* The heads' outputs side by side; averaged in the last layer. heads_end adds the layer's bias. */
int heads_join(const struct model *model, int layer, int y, int64_t n_head);
int heads_end(const struct model *model, int layer, int y, int64_t n_head);

#endif
