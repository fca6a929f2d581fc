/* RGCNConv: y_i = Σ_r mean_{j→i of relation r} x_j · W_r + x_i · root + b; W_r = Σ_b comp_rb V_b where model.bases > 0,
 * model.blocks blocks along the diagonal where there are that many.
 * Schlichtkrull et al., ESWC 2018
 */
#include "models/kinds/layers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static double glorot(int64_t rows, int64_t columns)
{
    return sqrt(6.0 / (double)(rows + columns));
}

enum status rgcn_check(const struct job *job, const struct program_input *input)
{
    if (input->n_relation <= 0) {
        return status_fail(STATUS_DATA, "the data set's edges have no types; model.kind = \"rgcn\" needs them");
    }
    int64_t n_feature = input->n_feature + (job->model.label_input ? input->n_class : 0);
    bool ends_in_conv = job->model.linear_layers == 0 && job->model.jumping_knowledge == JOB_JUMPING_KNOWLEDGE_NONE;
    const struct {
        const char *what;
        int64_t width;
    } widths[] = {{"feature columns", input->is_typed ? job->model.hidden : n_feature},
                  {"hidden columns", ends_in_conv && job->model.layers == 1 ? 0 : job->model.hidden},
                  {"classes", ends_in_conv ? input->n_class : 0}};
    for (int i = 0; i < 3 && job->model.blocks > 0; i++) {
        if (widths[i].width % job->model.blocks != 0) {
            return status_fail(STATUS_CONFIG,
                               "model.blocks = %" PRId64 " does not divide the %" PRId64 " %s, expected equal blocks",
                               job->model.blocks, widths[i].width, widths[i].what);
        }
    }
    return STATUS_OK;
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
    int64_t n_block = job->model.blocks;
    const int64_t whole[] = {n_base > 0 ? n_base : n_relation, f_in, f_out};
    const int64_t blocks[] = {n_relation, n_block, n_block > 0 ? f_in / n_block : 0, n_block > 0 ? f_out / n_block : 0};
    double bound = n_block > 0 ? glorot(blocks[2], blocks[3]) : glorot(f_in, f_out);
    char name[PROGRAM_NAME_BYTES];
    snprintf(name, sizeof name, "convs.%d.weight", layer);
    int weight = program_tensor(program, name, n_block > 0 ? 4 : 3, n_block > 0 ? blocks : whole, bound);
    int comp = n_base > 0 ? named_param(program, n_relation, n_base, glorot(n_relation, n_base), "convs.%d.comp", layer) : -1;
    int root = named_param(program, f_in, f_out, glorot(f_in, f_out), "convs.%d.root", layer);
    int bias = named_param(program, 0, f_out, 0.0, "convs.%d.bias", layer);
    int neighbours = program_relation(program, x, weight, comp);
    return program_add(program, 1.0f, neighbours, 1.0f, program_linear_by_column(program, x, root, bias));
}
