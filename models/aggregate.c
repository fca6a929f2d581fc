/* The table of aggregates. The functions are in models/ops/aggregate_*.c, one file per kind. */
#include "models/ops/ops.h"

/* Rows one way, gradients of the output the other way, over the transposed blocks. */
#define LINEAR_ROUNDS(on_way_in, on_way_out)                                                                                   \
    .forward = {.travel = TRAVEL_IN, .piece = {AGGREGATE_ROWS_IN_0}, .run = (on_way_in)},                                      \
    .backward = {{.travel = TRAVEL_OUT, .piece = {AGGREGATE_ROWS_GRAD_OUT}, .run = (on_way_out)}}

/* Attention: sources' rows forward; destinations' rows (gradient, query, softmax state) backward. Where a query's gradient
 * needs the sources' rows again, they are fetched again: fewer bytes than keeping a halo. */
#define ATTENTION_ROUNDS                                                                                                       \
    .keeps_in = true, .keeps_out = true, .kept_width = attention_kept_width, .n_kept_round = 1, .scratch = attention_scratch,  \
    .forward = {.travel = TRAVEL_IN, .piece = {AGGREGATE_ROWS_IN_0, AGGREGATE_ROWS_IN_1}, .run = attention_forward},           \
    .backward_begin = attention_backward_begin
#define ATTENTION_SOURCES                                                                                                      \
    {                                                                                                                          \
        .travel = TRAVEL_OUT, .piece = {AGGREGATE_ROWS_GRAD_OUT, AGGREGATE_ROWS_IN_2, AGGREGATE_ROWS_KEPT_0},                  \
        .run = attention_backward_source                                                                                       \
    }
#define ATTENTION_QUERIES                                                                                                      \
    {                                                                                                                          \
        .travel = TRAVEL_IN, .piece = {AGGREGATE_ROWS_IN_0, AGGREGATE_ROWS_IN_1}, .run = attention_backward_query              \
    }

const struct aggregate_def aggregate_defs[AGGREGATE_KIND_N] = {
    [AGGREGATE_KIND_SUM] = {.name = "sum", .is_linear = true, LINEAR_ROUNDS(aggregate_sum_forward, aggregate_sum_backward)},
    [AGGREGATE_KIND_MEAN] = {.name = "mean",
                             .is_linear = true,
                             .has_scale = true,
                             .scale = aggregate_mean_scale,
                             LINEAR_ROUNDS(aggregate_mean_forward, aggregate_mean_backward)},
    [AGGREGATE_KIND_GCN] = {.name = "gcn",
                            .is_linear = true,
                            .has_scale = true,
                            .scale = aggregate_gcn_scale,
                            LINEAR_ROUNDS(aggregate_gcn_propagate, aggregate_gcn_propagate)},
    [AGGREGATE_KIND_MAX] =
        {.name = "max",
         .kept_width = aggregate_max_kept_width,
         .forward = {.travel = TRAVEL_IN, .piece = {AGGREGATE_ROWS_IN_0}, .run = aggregate_max_forward},
         .backward = {{.travel = TRAVEL_RETURN, .run = aggregate_max_backward, .pack = aggregate_max_backward_pack}}},
    [AGGREGATE_KIND_GAT] = {.name = "gat", ATTENTION_ROUNDS, .begin_grad_in = {[2] = true}, .backward = {ATTENTION_SOURCES}},
    [AGGREGATE_KIND_GATV2] = {.name = "gatv2", ATTENTION_ROUNDS, .backward = {ATTENTION_QUERIES, ATTENTION_SOURCES}},
    [AGGREGATE_KIND_RELATION] = {.name = "relation",
                                 .keeps_in = true,
                                 .takes_no_loops = true,
                                 .scratch = aggregate_relation_scratch,
                                 LINEAR_ROUNDS(aggregate_relation_forward, aggregate_relation_backward)},
    [AGGREGATE_KIND_DOT] = {.name = "dot", ATTENTION_ROUNDS, .backward = {ATTENTION_QUERIES, ATTENTION_SOURCES}},
    [AGGREGATE_KIND_COSINE] = {.name = "cosine", ATTENTION_ROUNDS, .backward = {ATTENTION_QUERIES, ATTENTION_SOURCES}},
};

bool aggregate_returns(enum aggregate_kind kind)
{
    return aggregate_defs[kind].backward[0].travel == TRAVEL_RETURN;
}

int32_t aggregate_travel_level(const struct program *program, const struct op *op, const struct aggregate_round *round)
{
    int32_t level = program->value[op->out].level;
    return round->travel == TRAVEL_OUT ? level : program_level_before(level);
}

int64_t aggregate_piece_width(const struct program *program, const struct op *op, enum aggregate_rows rows)
{
    switch (rows) {
    case AGGREGATE_ROWS_IN_0:
    case AGGREGATE_ROWS_IN_1:
    case AGGREGATE_ROWS_IN_2: {
        int in = op->in[rows - AGGREGATE_ROWS_IN_0];
        return in >= 0 ? program->value[in].width : 0;
    }
    case AGGREGATE_ROWS_GRAD_OUT:
        return program->value[op->out].width;
    case AGGREGATE_ROWS_KEPT_0:
        return op_kept_width(program, op, 0);
    default:
        return 0;
    }
}

int64_t aggregate_payload_width(const struct program *program, const struct op *op, const struct aggregate_round *round)
{
    if (round->travel == TRAVEL_RETURN) {
        return program->value[op->in[0]].width;
    }
    int64_t width = 0;
    for (int k = 0; k < AGGREGATE_N_PIECE; k++) {
        width += aggregate_piece_width(program, op, round->piece[k]);
    }
    return width;
}
