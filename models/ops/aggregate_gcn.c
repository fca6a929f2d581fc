/* out = D^-1/2 (A [+ I]) D^-1/2 x, D the in-degrees, I the implicit loops. Kipf & Welling, ICLR 2017, eq. 2
 * Weights of edges are A's entries, D their sums over in-edges.
 */
#include "models/ops/ops.h"

#include <math.h>

float aggregate_gcn_scale(double degree, bool self)
{
    double d = degree + self;
    return (float)(d > 0.0 ? 1.0 / sqrt(d) : 0.0);
}

/* y_i = r_i ([r_i x_i] + Σ_j a_ij r_j x_j) with r = d^-1/2, j over in-neighbours. Its transpose has the same form
 * over out-neighbours, so this is backward too. */
static void propagate(const struct op_call *call)
{
    aggregate_linear(call, call->pass.col_scale, call->scale, call->scale);
}

/* Of payload rows: dx_j = r_j Σ_i a_ij r_i dy_i over own rows i */
static void propagate_pack(const struct op_call *call)
{
    aggregate_linear_pack(call, call->scale, call->pass.col_scale);
}

const struct aggregate_def aggregate_gcn = {.name = "gcn",
                                            .title = "GCN propagation",
                                            .is_linear = true,
                                            .scales_sources = true,
                                            .scale = aggregate_gcn_scale,
                                            AGGREGATE_LINEAR_PASSES(true, propagate, propagate, propagate_pack)};
