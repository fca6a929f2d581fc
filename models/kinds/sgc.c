/* SGConv: Y = Â^steps X Wᵀ + b, one linear layer. Wu et al., ICML 2019, eq. 7 */
#include "models/kinds/layers.h"

static int propagate(struct program *program, const struct job *job, int z)
{
    for (int64_t step = 0; step < job->model.steps; step++) {
        z = program_aggregate(program, z, AGGREGATE_KIND_GCN);
    }
    return z;
}

int sgc_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out)
{
    int64_t f_in = program->value[x].width;
    int weight = named_param(program, f_out, f_in, linear_bound(f_in), "convs.%d.lin.weight", layer);
    int bias = named_param(program, 0, f_out, linear_bound(f_in), "convs.%d.lin.bias", layer);
    if (transform_first(program, x, f_out)) {
        return program_bias(program, propagate(program, job, program_linear(program, x, weight, -1)), bias);
    }
    return program_linear(program, propagate(program, job, x), weight, bias);
}
