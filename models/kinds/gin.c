/* GINConv: y_i = W_2 · relu(W_0 · ((1 + ε) x_i + Σ_{j→i} a_ij x_j) + b_0) + b_2, a_ij the edge's weight or 1.
 * Xu, Hu, Leskovec & Jegelka, ICLR 2019, eq. 4.1
 */
#include "models/kinds/model.h"

static int gin_layer(const struct model *model, int layer, int x, int64_t f_out)
{
    struct program *program = model->program;
    const struct job *job = model->job;
    int64_t f_in = program->value[x].width, hidden = job->model.hidden;
    double bound_0 = linear_bound(f_in), bound_2 = linear_bound(hidden);
    int eps = named_param(program, 0, 1, 0.0, "convs.%d.eps", layer);
    program->param[eps].fill = (float)job->model.eps;
    program->param[eps].trains = job->model.learn_eps;
    int weight_0 = named_param(program, hidden, f_in, bound_0, "convs.%d.nn.0.weight", layer);
    int bias_0 = named_param(program, 0, hidden, bound_0, "convs.%d.nn.0.bias", layer);
    int weight_2 = named_param(program, f_out, hidden, bound_2, "convs.%d.nn.2.weight", layer);
    int bias_2 = named_param(program, 0, f_out, bound_2, "convs.%d.nn.2.bias", layer);
    int h;
    if (transform_first(program, x, hidden)) { /* (1 + ε) W x_i + Σ W x_j + b */
        int z = program_linear(program, x, weight_0, -1);
        h = program_eps_add(program, eps, z, program_aggregate(program, z, AGGREGATE_KIND_SUM));
        h = program_bias(program, h, bias_0);
    } else {
        h = program_eps_add(program, eps, x, program_aggregate(program, x, AGGREGATE_KIND_SUM));
        h = program_linear(program, h, weight_0, bias_0);
    }
    h = program_activate(program, h, DEVICE_ACTIVATION_RELU, 0.0);
    return program_linear(program, h, weight_2, bias_2);
}

enum status gin_model(struct model *model)
{
    return model_stack(model, gin_layer);
}
