/* GCNII: h_0 = relu(x W_in + b), then per layer h ← relu((1 − β_l) s + β_l s W_l), s = (1 − α) Â h + α h_0, β_l =
 * ln(θ/l + 1), then a linear map to the classes. The layer is PyTorch Geometric's GCN2Conv with shared weights;
 * model.layers counts only these layers. Chen, Wei, Huang, Ding & Li, ICML 2020, eq. 5
 */
#include "models/kinds/model.h"

#include <math.h>

/* Â before W: α h_0 is added between them. */
static int gcnii_layer(const struct model *model, int layer, int x, int first)
{
    struct program *program = model->program;
    int64_t f = program->value[x].width;
    float alpha = (float)model->job->model.alpha, beta = (float)log(model->job->model.theta / (layer + 1) + 1.0);
    int weight = named_param(program, f, f, glorot_bound(f, f), "convs.%d.weight1", layer);
    int s = program_add(program, 1.0f - alpha, program_aggregate(program, x, AGGREGATE_KIND_GCN), alpha, first);
    return program_add(program, 1.0f - beta, s, beta, program_linear_by_column(program, s, weight, -1));
}

enum status gcnii_model(struct model *model)
{
    const struct job_model *options = &model->job->model;
    int first = model_activate(model, plain_layer(model, 0, model_features(model), options->hidden), 0.0);
    int x = model_dropout(model, first, options->dropout);
    for (int layer = 0; layer < options->layers; layer++) {
        layer_begin(model, layer + 1);
        x = layer_end(model, layer, x, layer_output(model, "convs", layer, gcnii_layer(model, layer, x, first)),
                      options->dropout);
    }
    plain_layer(model, 1, x, model->input->n_class);
    return STATUS_OK;
}
