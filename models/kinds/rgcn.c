/* RGCNConv: y_i = Σ_r mean_{j→i of relation r} x_j · W_r + x_i · root + b; W_r = Σ_b comp_rb V_b where model.bases >
 * 0; W_r is block diagonal where model.blocks > 0. With model.embedding = false, or one-hot features, x is the
 * identity in the first layer.
 * Schlichtkrull et al., ESWC 2018
 */
#include "models/kinds/model.h"

#include <inttypes.h>
#include <stdio.h>

static enum status check_blocks(const struct job *job, const struct program_input *input)
{
    if (job->model.blocks == 0) {
        return STATUS_OK;
    }
    int64_t n_feature = input->n_feature + (job->model.label_input ? input->n_class : 0);
    bool ends_in_conv = job->model.linear_layers == 0 && job->model.jumping_knowledge == JOB_JUMPING_KNOWLEDGE_NONE;
    const struct {
        const char *what;
        int64_t width;
    } widths[] = {{"feature columns", input->is_typed ? job->model.hidden : n_feature},
                  {"channels", ends_in_conv && job->model.layers == 1 ? 0 : job->model.hidden},
                  {"classes", ends_in_conv ? input->n_class : 0}};
    for (int i = 0; i < 3; i++) {
        if (widths[i].width % job->model.blocks != 0) {
            return status_fail(STATUS_CONFIG,
                               "model.blocks = %" PRId64 " does not divide the %" PRId64 " %s, expected equal blocks",
                               job->model.blocks, widths[i].width, widths[i].what);
        }
    }
    return STATUS_OK;
}

/* Rows of nodes' own in the first layer's weights take the place of features. */
static enum status check_rows(const struct model *model)
{
    const struct job_model *options = &model->job->model;
    int64_t n_feature = model->input->n_feature, n_other = program_n_shared(model->program);
    if (options->embedding && !model_is_one_hot(model)) {
        return STATUS_OK;
    }
    if (!model->input->is_typed || n_other > 0) {
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

/* The first layer over x, the nodes' own columns: y_i = Σ_r mean_{j→i of relation r} W_r[j] + root[i] + b */
static int rows_layer(const struct model *model, int x, int64_t f_out)
{
    struct program *program = model->program;
    int64_t n_node = model->input->n_feature, n_base = model->job->model.bases, n_relation = program->n_relation;
    double bound = glorot_bound(n_node, f_out);
    int weight = program_node_weight(program, "convs.0.weight", n_base > 0 ? n_base : n_relation, f_out, bound);
    int comp = n_base > 0
                   ? program_param(program, "convs.0.comp", n_relation, n_base, glorot_bound(n_relation, n_base))
                   : -1;
    int root = program_node_weight(program, "convs.0.root", 0, f_out, bound);
    int bias = program_param(program, "convs.0.bias", 0, f_out, 0.0);
    int neighbours = program_relation_rows(program, program_node_rows(program, x, weight, -1), f_out, comp);
    return program_add(program, 1.0f, neighbours, 1.0f, program_node_rows(program, x, root, bias));
}

static int rgcn_layer(struct model *model, int layer, int x, int64_t f_out)
{
    if (layer == 0 && model_is_one_hot(model)) {
        return rows_layer(model, x, f_out);
    }
    struct program *program = model->program;
    int64_t f_in = program->value[x].width, n_base = model->job->model.bases, n_relation = program->n_relation;
    int64_t n_block = model->job->model.blocks;
    const int64_t full[] = {n_base > 0 ? n_base : n_relation, f_in, f_out};
    const int64_t blocks[] = {n_relation, n_block, n_block > 0 ? f_in / n_block : 0,
                              n_block > 0 ? f_out / n_block : 0};
    double bound = n_block > 0 ? glorot_bound(blocks[2], blocks[3]) : glorot_bound(f_in, f_out);
    char name[PROGRAM_NAME_BYTES];
    snprintf(name, sizeof name, "convs.%d.weight", layer);
    int weight = program_tensor(program, name, n_block > 0 ? 4 : 3, n_block > 0 ? blocks : full, bound);
    int comp = n_base > 0 ? named_param(program, n_relation, n_base, glorot_bound(n_relation, n_base),
                                        "convs.%d.comp", layer)
                          : -1;
    int root = named_param(program, f_in, f_out, glorot_bound(f_in, f_out), "convs.%d.root", layer);
    int bias = named_param(program, 0, f_out, 0.0, "convs.%d.bias", layer);
    int neighbours = program_relation(program, x, weight, comp);
    return program_add(program, 1.0f, neighbours, 1.0f, program_linear_by_column(program, x, root, bias));
}

/* Features of several node types go through a linear map of each type's columns to model.hidden first, or, without
 * features, the first layer has a row for each node. */
enum status rgcn_model(struct model *model)
{
    enum status status = check_rows(model);
    if (status == STATUS_OK) {
        status = check_blocks(model->job, model->input);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (!model->input->is_typed) {
        model_features_dense(model);
    }
    model_stack(model, rgcn_layer);
    return STATUS_OK;
}
