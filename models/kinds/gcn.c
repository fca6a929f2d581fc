/* GCNConv: Y = Â X Wᵀ + b, Â = D^-1/2 (A + I) D^-1/2. Kipf & Welling, ICLR 2017, eq. 2 */
#include "models/kinds/model.h"

static int gcn_layer(const struct model *model, int layer, int x, int64_t f_out)
{
    struct program *program = model->program;
    int64_t f_in = program->value[x].width;
    int weight = named_param(program, f_out, f_in, glorot_bound(f_out, f_in), "convs.%d.lin.weight", layer);
    int bias = named_param(program, 0, f_out, 0.0, "convs.%d.bias", layer);
    if (transform_first(program, x, f_out)) { /* Â (X Wᵀ) + b */
        int z = program_linear(program, x, weight, -1);
        return program_bias(program, program_aggregate(program, z, AGGREGATE_KIND_GCN), bias);
    }
    return program_linear(program, program_aggregate(program, x, AGGREGATE_KIND_GCN), weight,
                          bias); /* (Â X) Wᵀ + b */
}

enum status gcn_model(struct model *model)
{
    return model_stack(model, gcn_layer);
}
