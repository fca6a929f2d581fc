/* out_i = [x_i] + Σ_j a_ij x_j over in-neighbours j, a_ij the edge's weight or 1; [x_i] where the own loop is
 * implicit. */
#include "models/ops/ops.h"

/* y_i = [x_i] + Σ_{j→i} a_ij x_j, and dx_j = [dy_j] + Σ_{j→i} a_ij dy_i */
static void sum(const struct op_call *call)
{
    aggregate_linear(call, NULL, NULL, NULL);
}

/* Of payload rows: dx_j = Σ_{j→i} a_ij dy_i over own rows i */
static void backward_pack(const struct op_call *call)
{
    aggregate_linear_pack(call, NULL, NULL);
}

const struct aggregate_def aggregate_sum = {.name = "sum",
                                            .title = "sum of neighbours",
                                            .is_linear = true,
                                            AGGREGATE_LINEAR_PASSES(true, sum, sum, backward_pack)};
