/* SAGEConv: y_i = W_l · aggregate_{j→i} x_j + b_l + W_r · x_i. Hamilton, Ying & Leskovec, NeurIPS 2017 */
#include "models/kinds/layers.h"

#include "models/op.h"

enum aggregate_kind sage_aggregate(const struct job *job)
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

int sage_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out)
{
    enum aggregate_kind kind = sage_aggregate(job);
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
