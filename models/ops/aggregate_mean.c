/* out_i = (1/d_i) Σ_j a_ij x_j over in-neighbours j, d_i = max(1, their number), a_ij the edge's weight or 1.
 * Hamilton et al., NeurIPS 2017; weights as in DGL's SAGEConv.
 */
#include "models/ops/ops.h"

float aggregate_mean_scale(double degree, bool self)
{
    double d = degree + self;
    return (float)(d > 1.0 ? 1.0 / d : 1.0);
}

/* y_i = d_i⁻¹ ([x_i] + Σ_{j→i} a_ij x_j) */
static void forward(const struct op_call *call)
{
    aggregate_linear(call, NULL, NULL, call->scale);
}

/* dx_j = [d_j⁻¹ dy_j] + Σ_{j→i} a_ij d_i⁻¹ dy_i */
static void backward(const struct op_call *call)
{
    aggregate_linear(call, call->pass.col_scale, call->scale, NULL);
}

/* Of payload rows: dx_j = Σ_{j→i} a_ij d_i⁻¹ dy_i over own rows i */
static void backward_pack(const struct op_call *call)
{
    aggregate_linear_pack(call, call->scale, NULL);
}

const struct aggregate_def aggregate_mean = {.name = "mean",
                                             .title = "mean of neighbours",
                                             .is_linear = true,
                                             .scale = aggregate_mean_scale,
                                             .scale_counts = true,
                                             AGGREGATE_LINEAR_PASSES(true, forward, backward, backward_pack)};
