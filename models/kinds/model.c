/* program_build: checks of job and data for every kind, the model of its text, the parameters with weight decay. */
#include "models/kinds/model.h"

#include "models/program/level.h"
#include "models/program/row_filter.h"
#include "protocol/job/model_kinds.h"

#include <inttypes.h>
#include <limits.h>

static enum status check_layers(const struct job *job)
{
    bool is_stack = model_kind_of(job)->is_stack, jumps = job->model.jumping_knowledge != JOB_JUMPING_KNOWLEDGE_NONE;
    const char *kind = job_choice_text("model", "kind", job->model.kind);
    const char *how = job_choice_text("model", "jumping_knowledge", job->model.jumping_knowledge);
    if (job->model.linear_layers > 0 && !is_stack) {
        return status_fail(STATUS_CONFIG, "model.linear_layers = %" PRId64 " does not go with model.kind = \"%s\"",
                           job->model.linear_layers, kind);
    }
    if (job->model.linear_layers >= job->model.layers) {
        return status_fail(STATUS_CONFIG,
                           "model.linear_layers = %" PRId64 " must be less than model.layers = %" PRId64,
                           job->model.linear_layers, job->model.layers);
    }
    if (jumps && !is_stack) {
        return status_fail(STATUS_CONFIG, "model.jumping_knowledge = \"%s\" does not go with model.kind = \"%s\"",
                           how, kind);
    }
    if (job->model.kind == JOB_KIND_AGNN && job->model.layers < 2) {
        return status_fail(STATUS_CONFIG,
                           "model.layers = %" PRId64
                           " does not go with model.kind = \"agnn\", which propagates between two "
                           "linear layers, expected at least 2",
                           job->model.layers);
    }
    if (jumps && job->model.linear_layers > 0) {
        return status_fail(STATUS_CONFIG,
                           "model.linear_layers = %" PRId64
                           " does not go with model.jumping_knowledge = \"%s\", which ends in "
                           "a linear layer of its own",
                           job->model.linear_layers, how);
    }
    return STATUS_OK;
}

static enum status check_data(const struct job *job, const struct program_input *input)
{
    const char *kind = job_choice_text("model", "kind", job->model.kind);
    if (input->facts.n_feature <= 0) {
        return status_fail(
            STATUS_DATA,
            "the data set has no features, and model.kind = \"%s\" needs some: expected a file of them, or "
            "dataset.features = \"degree\" (made of the nodes' degrees), \"one_hot\" (a row of the first layer's "
            "weights for each node) or \"learned\" (a vector for each node, trained with the model)",
            kind);
    }
    if (job->model.label_input && input->facts.features_typed) {
        return status_fail(STATUS_CONFIG,
                           "model.label_input = true does not go with features of several node types, or with "
                           "dataset.features = \"one_hot\" or \"learned\"");
    }
    if (input->facts.n_class <= 0) {
        return status_fail(STATUS_DATA, "the data set has no labels; there is nothing to train for");
    }
    if (model_kind_of(job)->needs_types && input->facts.n_relation <= 0) {
        return status_fail(STATUS_DATA, "the data set's edges have no types; model.kind = \"%s\" needs them", kind);
    }
    return STATUS_OK;
}

/* Of R-GCN: equal blocks. */
static enum status check_blocks(const struct job *job, const struct program_input *input)
{
    if (job->model.kind != JOB_KIND_RGCN || job->model.blocks == 0) {
        return STATUS_OK;
    }
    int64_t n_feature = input->facts.n_feature + (job->model.label_input ? input->facts.n_class : 0);
    bool ends_in_conv = job->model.linear_layers == 0 && job->model.jumping_knowledge == JOB_JUMPING_KNOWLEDGE_NONE;
    const struct {
        const char *what;
        int64_t width;
    } widths[] = {{"feature columns", input->facts.features_typed ? job->model.hidden : n_feature},
                  {"channels", ends_in_conv && job->model.layers == 1 ? 0 : job->model.hidden},
                  {"classes", ends_in_conv ? input->facts.n_class : 0}};
    for (int i = 0; i < 3; i++) {
        if (widths[i].width % job->model.blocks != 0) {
            return status_fail(STATUS_CONFIG,
                               "model.blocks = %" PRId64 " does not divide the %" PRId64 " %s, expected equal blocks",
                               job->model.blocks, widths[i].width, widths[i].what);
        }
    }
    return STATUS_OK;
}

/* Of R-GCN: rows of nodes' own in the first layer's weights take the place of features. */
static enum status check_rows(const struct model *model)
{
    const struct job_model *options = &model->job->model;
    int64_t n_feature = model->input->facts.n_feature, n_other = program_n_shared(model->program);
    if (model->job->model.kind != JOB_KIND_RGCN || (options->embedding && !model_is_one_hot(model))) {
        return STATUS_OK;
    }
    if (!model->input->facts.features_typed || n_other > 0) {
        return status_fail(
            STATUS_CONFIG,
            "model.embedding = false gives each node a row of its own in the first layer's weights: expected a graph "
            "whose nodes have no features, found %" PRId64 " columns of features",
            n_other);
    }
    if (options->residual && !options->residual_linear && options->layers > 1 && n_feature == options->hidden) {
        return status_fail(
            STATUS_CONFIG,
            "model.residual = true adds the first layer's input to its output as it is, since model.hidden = %" PRId64
            " is the number of nodes: with model.embedding = false expected model.residual_linear = true",
            options->hidden);
    }
    return STATUS_OK;
}

/* The lossy settings of payloads in training. */
static void losses_set(const struct job *job, struct program *program)
{
    program->lossy.samples = row_filter_of(job) != NULL;
    program->lossy.stale = job->exchange.stale != 0;
    program->lossy.codecs = level_codecs(job, false);
    program->lossy.codecs_backward = level_codecs(job, true);
    program->lossy.feedback = job->exchange.error_feedback;
}

static enum status check_kept(const struct model *model)
{
    const char *name = model->job->output.embeddings;
    if (!model->program->forward_only || name[0] == '\0' || model->program->kept >= 0) {
        return STATUS_OK;
    }
    return status_fail(STATUS_CONFIG,
                       "output.embeddings = \"%s\": the model has no layer of that name, expected one of %s", name,
                       model->layers);
}

enum status program_build(const struct job *job, const struct program_input *input, struct program *out)
{
    enum status status = check_layers(job);
    if (status == STATUS_OK) {
        status = check_data(job, input);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct program program;
    struct model model = {.job = job, .input = input, .program = &program, .n_first = INT_MAX};
    program_init(input, &program);
    program.forward_only = job_predicts(job);
    program.precision = job->train.precision;
    program.plain_width = job->exchange.plain ? job->model.hidden : 0;
    if ((status = check_rows(&model)) == STATUS_OK && (status = check_blocks(job, input)) == STATUS_OK) {
        status = model_program(&model);
    }
    if (status == STATUS_OK) {
        status = check_kept(&model);
    }
    if (status == STATUS_OK) {
        status = model_decoder(&model);
    }
    if (status != STATUS_OK) {
        program_release(&program);
        return status;
    }
    for (int p = 0; p < program.n_param; p++) {
        program.param[p].decays = job->train.decay == JOB_DECAY_ALL || p < model.n_first;
        if (job->model.kind != JOB_KIND_PROGRAM) { /* of a kind's text users see no lines */
            program.param[p].line = 0;
        }
    }
    losses_set(job, &program);
    program_hops(&program);
    if (input->stores) {
        program_store(&program);
    }
    program_precision(&program);
    *out = program;
    return STATUS_OK;
}
