/* SAGEConv: y_i = W_l · aggregate_{j→i} a_ij x_j + b_l + W_r · x_i, a_ij the edge's weight or 1.
 * Hamilton, Ying & Leskovec, NeurIPS 2017
 */
#include "models/kinds/model.h"

#include "models/program/op.h"

static enum aggregate_kind aggregate_of(const struct job *job)
{
    switch ((enum job_aggregator)job->model.aggregator) { /* no default: the compiler names a word that is missing */
    case JOB_AGGREGATOR_MEAN:
        return AGGREGATE_KIND_MEAN;
    case JOB_AGGREGATOR_MAX:
        return AGGREGATE_KIND_MAX;
    case JOB_AGGREGATOR_SUM:
    case JOB_AGGREGATOR_N:
        break;
    }
    return AGGREGATE_KIND_SUM;
}

static int sage_layer(const struct model *model, int layer, int x, int64_t f_out)
{
    struct program *program = model->program;
    enum aggregate_kind kind = aggregate_of(model->job);
    if (program->value[x].is_sparse && !aggregate_defs[kind]->is_linear) {
        kind = AGGREGATE_KIND_SUM; /* each column has one row with an entry, so that maximum and sum are equal */
    }
    int64_t f_in = program->value[x].width;
    double bound = linear_bound(f_in);
    int weight_l = named_param(program, f_out, f_in, bound, "convs.%d.lin_l.weight", layer);
    int bias_l = named_param(program, 0, f_out, bound, "convs.%d.lin_l.bias", layer);
    int weight_r = named_param(program, f_out, f_in, bound, "convs.%d.lin_r.weight", layer);
    int neighbours, own;
    if (aggregate_defs[kind]->is_linear && transform_first(program, x, f_out)) {
        neighbours = program_aggregate(program, program_linear(program, x, weight_l, -1), kind);
        own = program_linear(program, x, weight_r, bias_l);
    } else {
        neighbours = program_linear(program, program_aggregate(program, x, kind), weight_l, bias_l);
        own = program_linear(program, x, weight_r, -1);
    }
    return program_add(program, 1.0f, neighbours, 1.0f, own);
}

enum status sage_model(struct model *model)
{
    if (!aggregate_defs[aggregate_of(model->job)]->is_linear && !model_embeds(model) && !model_is_one_hot(model)) {
        model_features_dense(model);
    }
    return model_stack(model, sage_layer);
}
