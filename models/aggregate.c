/* The table of aggregates. The functions are in models/ops/aggregate_*.c, one file per kind. */
#include "models/ops/ops.h"

const struct aggregate_def aggregate_defs[AGGREGATE_KIND_N] = {
    [AGGREGATE_KIND_SUM] = {.name = "sum", .is_linear = true,
                            .forward = aggregate_sum_forward, .backward = aggregate_sum_backward},
    [AGGREGATE_KIND_MEAN] = {.name = "mean", .is_linear = true, .has_scale = true, .scale = aggregate_mean_scale,
                             .forward = aggregate_mean_forward, .backward = aggregate_mean_backward},
    [AGGREGATE_KIND_GCN] = {.name = "gcn", .is_linear = true, .has_scale = true, .scale = aggregate_gcn_scale,
                            .forward = aggregate_gcn_propagate, .backward = aggregate_gcn_propagate},
    [AGGREGATE_KIND_MAX] = {.name = "max", .forward = aggregate_max_forward, .backward = aggregate_max_backward,
                            .backward_pack = aggregate_max_backward_pack},
};
