/* The table of models, and what surrounds every layer: dropout, residual, norm, activation, weight decay's reach.
 * Each kind's own layer is in models/<kind>.c; this file knows none of their mathematics.
 */
#include "models/kinds/layers.h"

#include "models/op.h"
#include "models/program.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct model {
    int (*layer)(struct program *program, const struct job *job, int layer, int x, int64_t f_out);
    enum status (*check)(const struct job *job, const struct program_input *input); /* NULL: any job and data will do */
    int (*begin)(struct program *program, const struct job *job, int x); /* typed nodes' features; NULL: as any features */
    int (*before_last)(struct program *program, const struct job *job,
                       int x);                                            /* after the last activation, before its dropout */
    int (*finish)(struct program *program, const struct job *job, int x); /* NULL: nothing follows the last layer */
    bool one_layer;                                                       /* model.layers does not count */
    bool takes_plain; /* its layers stand alone: model.linear_layers may replace the last, model.jumping_knowledge read all */
};

static const struct model models[JOB_KIND_N] = {
    [JOB_KIND_GCN] = {.layer = gcn_layer, .takes_plain = true},
    [JOB_KIND_SAGE] = {.layer = sage_layer, .takes_plain = true},
    [JOB_KIND_GIN] = {.layer = gin_layer, .takes_plain = true},
    [JOB_KIND_APPNP] = {.layer = appnp_layer, .finish = appnp_finish},
    [JOB_KIND_SGC] = {.layer = sgc_layer, .one_layer = true},
    [JOB_KIND_GAT] = {.layer = gat_layer, .takes_plain = true},
    [JOB_KIND_GATV2] = {.layer = gatv2_layer, .takes_plain = true},
    [JOB_KIND_TRANSFORMER] = {.layer = transformer_layer, .takes_plain = true},
    [JOB_KIND_AGNN] = {.layer = agnn_layer, .check = agnn_check, .before_last = agnn_propagate},
    [JOB_KIND_RGCN] = {.layer = rgcn_layer, .check = rgcn_check, .begin = rgcn_begin, .takes_plain = true},
};

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

double linear_bound(int64_t fan_in)
{
    return 1.0 / sqrt((double)fan_in);
}

int plain_layer(struct program *program, int index, int x, int64_t f_out)
{
    int64_t f_in = program->value[x].width;
    int weight = named_param(program, f_out, f_in, linear_bound(f_in), "lins.%d.weight", index);
    int bias = named_param(program, 0, f_out, linear_bound(f_in), "lins.%d.bias", index);
    return program_linear(program, x, weight, bias);
}

bool transform_first(const struct program *program, int x, int64_t f_out)
{
    const struct value *in = &program->value[x];
    if (in->is_sparse) {
        return true;
    }
    if (in->is_static) { /* aggregated once, before epoch 0: nothing travels afterwards */
        return false;
    }
    /* columns forth, and back where a gradient is wanted */
    int64_t aggregate_first = in->width * (in->needs_grad ? 2 : 1);
    return 2 * f_out <= aggregate_first; /* on a tie too: the aggregate then keeps nothing for backward */
}

static int64_t n_layer_of(const struct job *job)
{
    return models[job->model.kind].one_layer ? 1 : job->model.layers;
}

static enum status job_check(const struct job *job, const struct program_input *input)
{
    const struct model *model = &models[job->model.kind];
    const char *kind = job_choice_text("model", "kind", job->model.kind);
    if (model->layer == NULL) {
        return status_fail(STATUS_CONFIG, "model.kind = \"%s\" is not available yet", kind);
    }
    if (job->model.linear_layers > 0 && !model->takes_plain) {
        return status_fail(STATUS_CONFIG, "model.linear_layers = %" PRId64 " does not go with model.kind = \"%s\"",
                           job->model.linear_layers, kind);
    }
    if (job->model.linear_layers >= n_layer_of(job)) {
        return status_fail(STATUS_CONFIG, "model.linear_layers = %" PRId64 " must be less than model.layers = %" PRId64,
                           job->model.linear_layers, job->model.layers);
    }
    bool jumps = job->model.jumping_knowledge != JOB_JUMPING_KNOWLEDGE_NONE;
    const char *how = job_choice_text("model", "jumping_knowledge", job->model.jumping_knowledge);
    if (jumps && !model->takes_plain) {
        return status_fail(STATUS_CONFIG, "model.jumping_knowledge = \"%s\" does not go with model.kind = \"%s\"", how, kind);
    }
    if (jumps && job->model.linear_layers > 0) {
        return status_fail(STATUS_CONFIG,
                           "model.linear_layers = %" PRId64 " does not go with model.jumping_knowledge = \"%s\", which ends in "
                           "a linear layer of its own",
                           job->model.linear_layers, how);
    }
    if (input->n_feature <= 0) {
        return status_fail(STATUS_DATA, "the data set has no features; model.kind = \"%s\" needs them", kind);
    }
    if (job->model.label_input && input->is_typed) {
        return status_fail(STATUS_CONFIG, "model.label_input = true does not go with features of several node types");
    }
    if (input->n_class <= 0) {
        return status_fail(STATUS_DATA, "the data set has no labels; there is nothing to train for");
    }
    return model->check != NULL ? model->check(job, input) : STATUS_OK;
}

/* Sparse rows can only be multiplied; an aggregate that is not linear, or a sum with other rows, needs them dense. */
static bool needs_dense(const struct job *job, const struct program_input *input)
{
    bool aggregated = job->model.kind == JOB_KIND_SAGE && !aggregate_defs[sage_aggregate(job)]->is_linear;
    bool added = job->model.residual && !job->model.residual_linear && n_layer_of(job) > 1 &&
                 input->n_feature == job->model.hidden;
    bool typed = job->model.kind == JOB_KIND_RGCN && !input->is_typed;
    return aggregated || added || typed || job->model.label_input;
}

/* Named as PyTorch Geometric's BatchNorm, a wrapper around torch's. */
static int batch_norm(struct program *program, int layer, int y)
{
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    int param[4];
    for (int i = 0; i < 4; i++) {
        param[i] = named_param(program, 0, program->value[y].width, 0.0, "norms.%d.module.%s", layer, names[i]);
        program->param[param[i]].fill = i % 3 == 0 ? 1.0f : 0.0f; /* the weight and the variance */
    }
    return program_batch_norm(program, y, param[0], param[1], param[2], param[3]);
}

static int activate(struct program *program, int x, enum device_activation activation, double dropout)
{
    bool changes = activation != DEVICE_ACTIVATION_NONE || dropout > 0.0;
    return changes ? program_activate(program, x, activation, dropout) : x;
}

/* What follows a hidden layer: y + x, norm, activation, and the next layer's dropout. */
static int hidden_end(struct program *program, const struct job *job, int layer, int x, int y)
{
    int64_t f_in = program->value[x].width, f_out = program->value[y].width;
    if (job->model.residual) {
        int own = x;
        if (f_in != f_out || job->model.residual_linear) {
            int weight = named_param(program, f_out, f_in, linear_bound(f_in), "residuals.%d.weight", layer);
            own = program_linear(program, x, weight, -1);
        }
        y = program_add(program, 1.0f, y, 1.0f, own);
    }
    if (job->model.norm == JOB_NORM_LAYER) {
        int weight = named_param(program, 0, f_out, 0.0, "norms.%d.weight", layer);
        int bias = named_param(program, 0, f_out, 0.0, "norms.%d.bias", layer);
        program->param[weight].fill = 1.0f;
        y = program_layer_norm(program, y, weight, bias);
    }
    if (job->model.norm == JOB_NORM_BATCH) {
        y = batch_norm(program, layer, y);
    }
    const struct model *model = &models[job->model.kind];
    enum device_activation activation = activations[job->model.activation];
    if (model->before_last != NULL && layer == n_layer_of(job) - 2) {
        y = activate(program, y, activation, 0.0);
        y = model->before_last(program, job, y);
        activation = DEVICE_ACTIVATION_NONE;
    }
    return activate(program, y, activation, job->model.dropout);
}

/* lin(all layers' outputs side by side, or the greatest of them): Xu et al., ICML 2018; named as PyTorch Geometric's models do. */
static int jump(struct program *program, const struct job *job, const int *output, int n_layer, int64_t n_class)
{
    int x = output[0];
    if (job->model.jumping_knowledge == JOB_JUMPING_KNOWLEDGE_CONCAT) {
        x = program_concat(program, output, n_layer);
    }
    for (int layer = 1; layer < n_layer && job->model.jumping_knowledge == JOB_JUMPING_KNOWLEDGE_MAX; layer++) {
        x = program_max(program, x, output[layer]);
    }
    int64_t f_in = program->value[x].width;
    int weight = named_param(program, n_class, f_in, linear_bound(f_in), "lin.weight");
    int bias = named_param(program, 0, n_class, linear_bound(f_in), "lin.bias");
    program->param[weight].decays = program->param[bias].decays = job->train.decay == JOB_DECAY_ALL;
    return program_linear(program, x, weight, bias);
}

enum status program_build(const struct job *job, const struct program_input *input, struct program *out)
{
    enum status status = job_check(job, input);
    if (status != STATUS_OK) {
        return status;
    }
    const struct model *model = &models[job->model.kind];
    int n_layer = (int)n_layer_of(job), n_conv = n_layer - (int)job->model.linear_layers;
    program_init(input, out);
    out->value[0].is_sparse = input->is_sparse && !needs_dense(job, input);
    double drop = job->model.input_dropout;
    int x = job->model.label_input ? program_labels(out, 0, input->n_class, 1.0 - job->model.label_rate) : 0;
    x = drop > 0.0 ? program_activate(out, x, DEVICE_ACTIVATION_NONE, drop) : x;
    if (model->begin != NULL && input->is_typed) {
        x = model->begin(out, job, x);
    }
    bool jumps = job->model.jumping_knowledge != JOB_JUMPING_KNOWLEDGE_NONE;
    int *output = memory_alloc((size_t)n_layer, sizeof *output);
    for (int layer = 0; layer < n_layer; layer++) {
        int first_param = out->n_param;
        bool last = layer == n_layer - 1 && !jumps;
        int64_t f_out = last ? input->n_class : job->model.hidden;
        int y = layer < n_conv ? model->layer(out, job, layer, x, f_out) : plain_layer(out, layer - n_conv, x, f_out);
        x = output[layer] = last ? y : hidden_end(out, job, layer, x, y);
        for (int p = first_param; p < out->n_param; p++) {
            out->param[p].decays = job->train.decay == JOB_DECAY_ALL || layer == 0;
        }
    }
    x = jumps ? jump(out, job, output, n_layer, input->n_class) : x;
    free(output);
    out->logits = model->finish != NULL ? model->finish(out, job, x) : x;
    program_levels(out);
    return STATUS_OK;
}
