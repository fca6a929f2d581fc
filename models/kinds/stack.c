/* The features, the ops around a layer (residual, norm, activation, dropout), and the common model, layers one after
 * another. No kind's mathematics.
 */
#include "models/kinds/model.h"

#include "protocol/base/memory.h"
#include "protocol/job/job_keys.h"
#include "protocol/job/model_kinds.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum device_activation activations[JOB_ACTIVATION_N] = {
    [JOB_ACTIVATION_RELU] = DEVICE_ACTIVATION_RELU,
    [JOB_ACTIVATION_ELU] = DEVICE_ACTIVATION_ELU,
    [JOB_ACTIVATION_LEAKY_RELU] = DEVICE_ACTIVATION_LEAKY_RELU,
    [JOB_ACTIVATION_GELU] = DEVICE_ACTIVATION_GELU,
    [JOB_ACTIVATION_NONE] = DEVICE_ACTIVATION_NONE,
};

int named_param(struct program *program, int64_t rows, int64_t columns, double bound, const char *format, ...)
{
    char name[PROGRAM_NAME_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return program_param(program, name, rows, columns, bound);
}

/* The bounds of uniform draws: torch.nn.Linear's, kaiming_uniform(a = √5) = 1/√fan_in; PyTorch Geometric's glorot,
 * √(6/(rows + columns)). */
static double linear_bound(int64_t fan_in)
{
    return 1.0 / sqrt((double)fan_in);
}

static double glorot_bound(int64_t rows, int64_t columns)
{
    return sqrt(6.0 / (double)(rows + columns));
}

bool transform_first(const struct program *program, int x, int64_t f_out)
{
    const struct value *in = &program->value[x];
    if (in->is_sparse) {
        return true;
    }
    if (program->plain_width > 0) {
        return in->width > program->plain_width;
    }
    if (in->is_static) { /* aggregated once, before epoch 0: no halo pass afterwards */
        return false;
    }
    /* columns forward, and backward where a gradient is wanted */
    int64_t aggregate_first = in->width * (in->needs_grad ? 2 : 1);
    return 2 * f_out <= aggregate_first; /* also on a tie: the aggregate then saves nothing for backward */
}

/* Names that do not fit are left out. */
int layer_output(struct model *model, const char *name, int index, int value)
{
    char whole[PROGRAM_NAME_BYTES];
    size_t n = strlen(model->layers);
    if (index < 0) {
        snprintf(whole, sizeof whole, "%s", name);
    } else {
        snprintf(whole, sizeof whole, "%s.%d", name, index);
    }
    snprintf(model->layers + n, sizeof model->layers - n, "%s%s", n > 0 ? ", " : "", whole);
    if (model->program->forward_only && strcmp(model->job->output.embeddings, whole) == 0) {
        model->program->kept = value;
    }
    return value;
}

/* A plain linear layer "lins.<index>". */
static int plain_layer(struct model *model, int index, int x, int64_t f_out)
{
    struct program *program = model->program;
    int64_t f_in = program->value[x].width;
    int weight = named_param(program, f_out, f_in, linear_bound(f_in), "lins.%d.weight", index);
    int bias = named_param(program, 0, f_out, linear_bound(f_in), "lins.%d.bias", index);
    return layer_output(model, "lins", index, program_linear(program, x, weight, bias));
}

void model_features_dense(const struct model *model)
{
    model->program->value[0].is_sparse = false;
}

/* Do the features, of several node types or a column for each node, go through a linear map to model.hidden columns
 * first? Nodes without features have a learned vector then. */
static bool embeds(const struct model *model)
{
    const struct job *job = model->job;
    bool asked = model_kind_of(job)->needs_types && job->model.embedding &&
                 job->dataset.features != JOB_WORD(JOB_FEATURES_ONE_HOT);
    return model->input->facts.features_typed && (asked || job->dataset.features == JOB_WORD(JOB_FEATURES_LEARNED));
}

bool model_is_one_hot(const struct model *model)
{
    return model->input->facts.features_typed && program_n_shared(model->program) == 0 && !embeds(model);
}

/* An activation and then dropout, in one op or no op. */
static int activate(struct program *program, int x, enum device_activation activation, double dropout)
{
    bool changes = activation != DEVICE_ACTIVATION_NONE || dropout > 0.0;
    return changes ? program_activate(program, x, activation, dropout) : x;
}

int model_features(struct model *model)
{
    const struct job_model *options = &model->job->model;
    int x = 0;
    if (options->label_input) {
        model_features_dense(model);
        x = program_labels(model->program, x, model->input->facts.n_class, 1.0 - options->label_rate);
    }
    x = activate(model->program, x, DEVICE_ACTIVATION_NONE, options->input_dropout);
    if (!embeds(model)) {
        return x;
    }
    int64_t f_in = model->input->facts.n_feature, f_out = options->hidden;
    int weight = program_param(model->program, "embedding.weight", f_out, f_in, glorot_bound(f_in, f_out));
    return layer_output(model, "embedding", -1, program_linear(model->program, x, weight, -1));
}

/* Parameters from here on are those of layer `layer`, counted from 0. */
static void layer_begin(struct model *model, int layer)
{
    if (layer == 1) {
        model->n_first = model->program->n_param;
    }
}

/* y + x, through a linear map where widths differ or the job says so. */
static int residual(const struct model *model, int layer, int x, int y)
{
    struct program *program = model->program;
    int64_t f_in = program->value[x].width, f_out = program->value[y].width;
    if (f_in != f_out || model->job->model.residual_linear) {
        int weight = named_param(program, f_out, f_in, linear_bound(f_in), "residuals.%d.weight", layer);
        x = program_linear(program, x, weight, -1);
    }
    y = x == y ? program_activate(program, y, DEVICE_ACTIVATION_NONE, 0.0) : y; /* an op has two values */
    return program_add(program, 1.0f, y, 1.0f, x);
}

static int layer_norm(struct model *model, int layer, int y)
{
    struct program *program = model->program;
    int64_t width = program->value[y].width;
    int weight = named_param(program, 0, width, 0.0, "norms.%d.weight", layer);
    int bias = named_param(program, 0, width, 0.0, "norms.%d.bias", layer);
    program->param[weight].fill = 1.0f;
    return layer_output(model, "norms", layer, program_layer_norm(program, y, weight, bias));
}

/* Named as PyTorch Geometric's BatchNorm, a wrapper around torch's. */
static int batch_norm(struct model *model, int layer, int y)
{
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    struct program *program = model->program;
    int param[4];
    for (int i = 0; i < 4; i++) {
        param[i] = named_param(program, 0, program->value[y].width, 0.0, "norms.%d.module.%s", layer, names[i]);
        program->param[param[i]].fill = i % 3 == 0 ? 1.0f : 0.0f; /* the weight and the variance */
    }
    return layer_output(model, "norms", layer,
                        program_batch_norm(program, y, param[0], param[1], param[2], param[3]));
}

/* The ops behind a hidden layer from x to y. */
static int layer_end(struct model *model, int layer, int x, int y)
{
    const struct job_model *options = &model->job->model;
    if (options->residual) {
        y = residual(model, layer, x, y);
    }
    if (options->norm == JOB_NORM_LAYER) {
        y = layer_norm(model, layer, y);
    }
    if (options->norm == JOB_NORM_BATCH) {
        y = batch_norm(model, layer, y);
    }
    return layer_output(model, "acts", layer,
                        activate(model->program, y, activations[options->activation], options->dropout));
}

static bool jumps(const struct model *model)
{
    return model->job->model.jumping_knowledge != JOB_JUMPING_KNOWLEDGE_NONE;
}

/* lin(all layers' outputs side by side, or the greatest of them): Xu et al., ICML 2018; named as PyTorch Geometric's
 * models do. */
static int jump(struct model *model, const int *output, int n_layer)
{
    struct program *program = model->program;
    int x = output[0];
    if (model->job->model.jumping_knowledge == JOB_JUMPING_KNOWLEDGE_CONCAT) {
        x = program_concat(program, output, n_layer);
    } else {
        for (int layer = 1; layer < n_layer; layer++) {
            x = program_max(program, x, output[layer]);
        }
    }
    int64_t f_in = program->value[x].width, n_class = model->input->facts.n_class;
    int weight = named_param(program, n_class, f_in, linear_bound(f_in), "lin.weight");
    int bias = named_param(program, 0, n_class, linear_bound(f_in), "lin.bias");
    return layer_output(model, "lin", -1, program_linear(program, x, weight, bias));
}

void model_stack(struct model *model, int (*conv)(struct model *model, int layer, int x, int64_t f_out))
{
    const struct job_model *options = &model->job->model;
    int n_layer = (int)options->layers, n_conv = n_layer - (int)options->linear_layers;
    int n_hidden = jumps(model) ? n_layer : n_layer - 1;
    int64_t width = options->hidden * (job_key_applies(model->job, JOB_KEY_model_heads) ? options->heads : 1);
    if (n_hidden > 0 && options->residual && !options->residual_linear && model->input->facts.n_feature == width &&
        !embeds(model)) {
        model_features_dense(model); /* the first layer's residual adds them as they are */
    }
    int *output = memory_alloc((size_t)n_layer, sizeof *output), x = model_features(model);
    for (int layer = 0; layer < n_layer; layer++) {
        int64_t f_out = layer < n_hidden ? options->hidden : model->input->facts.n_class;
        layer_begin(model, layer);
        int y = layer < n_conv ? layer_output(model, "convs", layer, conv(model, layer, x, f_out))
                               : plain_layer(model, layer - n_conv, x, f_out);
        x = output[layer] = layer < n_hidden ? layer_end(model, layer, x, y) : y;
    }
    layer_begin(model, n_layer);
    model->program->logits = jumps(model) ? jump(model, output, n_layer) : x;
    free(output);
}
