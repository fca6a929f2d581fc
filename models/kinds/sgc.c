/* SGConv: Y = Â^steps X Wᵀ + b, one linear layer. Wu et al., ICML 2019, eq. 7 */
#include "models/kinds/model.h"

static int propagate(const struct model *model, int z)
{
    for (int64_t step = 0; step < model->job->model.steps; step++) {
        z = program_aggregate(model->program, z, AGGREGATE_KIND_GCN);
    }
    return z;
}

static int sgc_layer(const struct model *model, int layer, int x, int64_t f_out)
{
    struct program *program = model->program;
    int64_t f_in = program->value[x].width;
    int weight = named_param(program, f_out, f_in, linear_bound(f_in), "convs.%d.lin.weight", layer);
    int bias = named_param(program, 0, f_out, linear_bound(f_in), "convs.%d.lin.bias", layer);
    if (transform_first(program, x, f_out)) {
        return program_bias(program, propagate(model, program_linear(program, x, weight, -1)), bias);
    }
    return program_linear(program, propagate(model, x), weight, bias);
}

/* One layer, for any model.layers. */
enum status sgc_model(struct model *model)
{
    const struct stack stack = {.conv = sgc_layer, .n_conv = 1};
    stack_layers(model, &stack, stack_features(model, &stack));
    return STATUS_OK;
}
