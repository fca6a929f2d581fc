/* GCNConv: Y = Â X Wᵀ + b, Â = D^-1/2 (A + I) D^-1/2. Kipf & Welling, ICLR 2017, eq. 2 */
#include "models/kinds/layers.h"

#include <math.h>

int gcn_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out)
{
    (void)job;
    int64_t f_in = program->value[x].width;
    double glorot = sqrt(6.0 / (double)(f_in + f_out));
    int weight = named_param(program, f_out, f_in, glorot, "convs.%d.lin.weight", layer);
    int bias = named_param(program, 0, f_out, 0.0, "convs.%d.bias", layer);
    if (transform_first(program, x, f_out)) { /* Â (X Wᵀ) + b */
        int z = program_linear(program, x, weight, -1);
        return program_bias(program, program_aggregate(program, z, AGGREGATE_KIND_GCN), bias);
    }
    return program_linear(program, program_aggregate(program, x, AGGREGATE_KIND_GCN), weight, bias); /* (Â X) Wᵀ + b */
}
