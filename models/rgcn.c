/* RGCNConv: y_i = Σ_r mean_{j→i of relation r} x_j · W_r + x_i · root + b; W_r = Σ_b comp_rb V_b where model.bases > 0.
 * Schlichtkrull et al., ESWC 2018
 */
#include "models/layers.h"

#include <math.h>
#include <stdio.h>

static double glorot(int64_t rows, int64_t columns)
{
    return sqrt(6.0 / (double)(rows + columns));
}

int rgcn_begin(struct program *program, const struct job *job, int x)
{
    int64_t f_in = program->value[x].width, f_out = job->model.hidden;
    int weight = program_param(program, "embedding.weight", f_out, f_in, glorot(f_in, f_out));
    return program_linear(program, x, weight, -1);
}

int rgcn_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out)
{
    int64_t f_in = program->value[x].width, n_base = job->model.bases, n_relation = program->n_relation;
    const int64_t shape[] = {n_base > 0 ? n_base : n_relation, f_in, f_out};
    char name[PROGRAM_NAME_BYTES];
    snprintf(name, sizeof name, "convs.%d.weight", layer);
    int weight = program_tensor(program, name, 3, shape, glorot(f_in, f_out));
    int comp = n_base > 0 ? named_param(program, n_relation, n_base, glorot(n_relation, n_base), "convs.%d.comp", layer) : -1;
    int root = named_param(program, f_in, f_out, glorot(f_in, f_out), "convs.%d.root", layer);
    int bias = named_param(program, 0, f_out, 0.0, "convs.%d.bias", layer);
    int neighbours = program_relation(program, x, weight, comp);
    return program_add(program, 1.0f, neighbours, 1.0f, program_linear_by_column(program, x, root, bias));
}
