/* out_i = ⊕_j f(x_j, q_i, e_ij): a tile program of each edge from source j to destination i, reduced by sum, maximum,
 * minimum or log-sum-exp; what users' texts compute of edges, and no other aggregate does.
 *
 * Nothing is kept of an edge. Backward computes f and its adjoint again: where destinations are, for their gradients
 * and those of weights; and where sources are, for theirs.
 */
#include "models/ops/ops.h"

#include <math.h>
#include <string.h>

static int64_t saved_width(const struct program *program, const struct op *op, int k)
{
    return k == 0 ? program->tile[op->tile + OP_TILE_FORWARD].saved : 0;
}

static size_t workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    size_t most = 0;
    (void)n;
    for (int k = 0; k < op_n_tile(op); k++) {
        const struct tile *tile = &program->tile[op->tile + k];
        size_t n_bytes = device_tile_bytes(ops, tile, k != OP_TILE_BEGIN);
        most = n_bytes > most ? n_bytes : most;
    }
    return most;
}

/* Everything but rows and where results go. */
static struct device_tile_edges how_of(const struct op_call *call, int tile)
{
    struct device_tile_edges how = {
        .of = {.tile = &call->program->tile[call->op->tile + tile],
               .scratch = call->workspace,
               .drops = call->training,
               .key = call->key,
               .now = call->now,
               .row_node = call->node},
        .block = call->pass.block,
        .with_self = call->pass.order.first && call->pass.self,
        .col_node = call->pass.col_node,
        .begin = call->pass.order.first,
        .factor = call->pass.shift == 0.0F ? 1.0F : (float)exp((double)call->pass.shift),
        .shift = call->pass.shift,
    };
    for (int p = 0; p < OP_N_PARAM; p++) {
        how.of.param[p] = call->param[p];
    }
    return how;
}

/* Own rows are destinations. */
static void rows_of_sources(const struct op_call *call, struct device_tile_edges *how)
{
    how->of.rows[TILE_ROWS_IN_0] = call->pass.payload[0];
    how->self_rows[TILE_ROWS_IN_0] = call->pass.own[0];
    how->of.rows[TILE_ROWS_IN_2] = call->in[2];
    how->of.rows[TILE_ROWS_SCALE_0] = call->pass.col_scale;
    how->of.rows[TILE_ROWS_SCALE_2] = how->self_rows[TILE_ROWS_SCALE_0] = call->scale;
}

static void forward(const struct op_call *call)
{
    struct device_tile_edges how = how_of(call, OP_TILE_FORWARD);
    rows_of_sources(call, &how);
    how.of.to[TILE_TARGET_OUT] = call->out;
    how.saved = call->saved[0];
    how.n_finish = call->pass.order.last ? call->n : 0;
    call->device->ops->tile_edges(call->device, &how);
}

/* What a softmax's gradients need of own rows, beside what forward saved: D_i = ⟨dy_i, y_i⟩ */
static void backward_begin(const struct op_call *call)
{
    struct device_tile how = {.tile = &call->program->tile[call->op->tile + OP_TILE_BEGIN],
                              .rows = {[TILE_ROWS_IN_0] = call->out, [TILE_ROWS_GRAD] = call->grad_out},
                              .to = {[TILE_TARGET_OUT] = call->saved[0]},
                              .add = {[TILE_TARGET_OUT] = true},
                              .scratch = call->workspace};
    call->device->ops->tile_rows(call->device, call->n, &how);
}

/* dq_i = Σ_j of f's gradient · dw = Σ over all edges */
static void backward_targets(const struct op_call *call)
{
    struct device_tile_edges how = how_of(call, OP_TILE_BACKWARD);
    rows_of_sources(call, &how);
    how.of.rows[TILE_ROWS_GRAD] = call->grad_out;
    how.of.rows[TILE_ROWS_SAVED] = call->saved[0];
    how.of.to[TILE_TARGET_GRAD_IN_2] = call->grad_in[2];
    for (int p = 0; p < OP_N_PARAM; p++) {
        how.of.grad_param[p] = call->grad_param[p];
        how.of.add_param[p] = !call->pass.order.first || call->add_param[p];
    }
    call->device->ops->tile_edges(call->device, &how);
}

/* The destinations' rows, as SOURCE_PASS sends them, are those of columns. */
static void rows_of_targets(const float *const rows[HALO_N_PIECE], const float *to[TILE_ROWS_N])
{
    to[TILE_ROWS_GRAD] = rows[0];
    to[TILE_ROWS_IN_2] = rows[1];
    to[TILE_ROWS_SAVED] = rows[2];
}

/* dx_j = Σ of f's gradient over the destinations of j's edges */
static void backward_sources(const struct op_call *call)
{
    struct device_tile_edges how = how_of(call, OP_TILE_OF_SOURCES);
    how.rows_are_sources = true;
    rows_of_targets(call->pass.payload, how.of.rows);
    rows_of_targets(call->pass.own, how.self_rows);
    how.of.rows[TILE_ROWS_IN_0] = call->in[0];
    how.of.rows[TILE_ROWS_SCALE_0] = how.self_rows[TILE_ROWS_SCALE_2] = call->scale;
    how.of.rows[TILE_ROWS_SCALE_2] = call->pass.col_scale;
    how.of.to[TILE_TARGET_GRAD_IN_0] = call->grad_in[0];
    call->device->ops->tile_edges(call->device, &how);
}

/* RETURN: gradients of sampled rows come back from the parts that used them; own rows' edges have theirs from own
 * rows. */
static void backward_return(const struct op_call *call)
{
    if (call->pass.order.first) {
        struct op_call diagonal = *call;
        const float *const targets[HALO_N_PIECE] = {call->grad_out, call->in[2], call->saved[0]};
        memcpy(diagonal.pass.own, targets, sizeof targets);
        memcpy(diagonal.pass.payload, targets, sizeof targets);
        backward_sources(&diagonal);
        return;
    }
    call->device->ops->rows_add(call->device, call->pass.back.n_row, call->f, call->pass.back.rows, 1.0F,
                                call->pass.payload[0], call->grad_in[0]);
}

/* Of payload rows j, over own destinations of their edges */
static void backward_pack(const struct op_call *call)
{
    struct device_tile_edges how = how_of(call, OP_TILE_OF_SOURCES);
    const float *const targets[HALO_N_PIECE] = {call->grad_out, call->in[2], call->saved[0]};
    how.rows_are_sources = true;
    how.begin = true;
    how.with_self = false;
    how.of.row_node = call->pass.col_node;
    how.col_node = call->node;
    rows_of_targets(targets, how.of.rows);
    how.of.rows[TILE_ROWS_IN_0] = call->pass.payload[0];
    how.of.rows[TILE_ROWS_SCALE_0] = call->pass.col_scale;
    how.of.rows[TILE_ROWS_SCALE_2] = call->scale;
    how.of.to[TILE_TARGET_GRAD_IN_0] = call->pass.back.packed;
    call->device->ops->tile_edges(call->device, &how);
}

#define TARGET_ROWS (OP_ROLES(IN_2) | OP_ROLES(SAVED_0) | OP_ROLES(GRAD_OUT))

#define TARGET_PASS                                                                                                  \
    {                                                                                                                \
        .direction = HALO_DIRECTION_IN, .n_piece = 1, .piece = {OP_ROLE_IN_0}, .joins = true,                        \
        .access = {.reads = TARGET_ROWS | OP_ROLES_PARAM, .writes = OP_ROLES(GRAD_IN_2) | OP_ROLES_GRAD_PARAM},      \
        .run = backward_targets                                                                                      \
    }

#define SOURCE_PASS                                                                                                  \
    {                                                                                                                \
        .direction = HALO_DIRECTION_OUT, .n_piece = 3, .piece = {OP_ROLE_GRAD_OUT, OP_ROLE_IN_2, OP_ROLE_SAVED_0},   \
        .joins = true, .access = {.reads = OP_ROLES(IN_0) | OP_ROLES_PARAM, .writes = OP_ROLES(GRAD_IN_0)},          \
        .run = backward_sources                                                                                      \
    }

#define RETURN_PASS                                                                                                  \
    {                                                                                                                \
        .direction = HALO_DIRECTION_RETURN, .n_piece = 1, .piece = {OP_ROLE_GRAD_IN_0},                              \
        .access = {.reads = TARGET_ROWS | OP_ROLES_PARAM | OP_ROLES(IN_0), .writes = OP_ROLES(GRAD_IN_0)},           \
        .run = backward_return, .pack = backward_pack, .pack_reads = TARGET_ROWS | OP_ROLES_PARAM | OP_ROLES(NODE),  \
        .transposed = true, .n_ask = 1, .ask = {                                                                     \
            OP_ROLE_IN_0                                                                                             \
        }                                                                                                            \
    }

#define PASSES                                                                                                       \
    .attends = true, .sampled = AGGREGATE_SAMPLED_SHIFTED, .saved_width = saved_width, .workspace = workspace,       \
    .forward = {.direction = HALO_DIRECTION_IN,                                                                      \
                .n_piece = 1,                                                                                        \
                .piece = {OP_ROLE_IN_0},                                                                             \
                .joins = true,                                                                                       \
                .access = {.reads = OP_ROLES(IN_2) | OP_ROLES_PARAM, .writes = OP_ROLES(OUT) | OP_ROLES(SAVED_0)},   \
                .run = forward},                                                                                     \
    .backward = {TARGET_PASS, SOURCE_PASS}, .sampled_backward = {TARGET_PASS, RETURN_PASS}

const struct aggregate_def aggregate_edges = {.name = "edges", .title = "edges of a program", PASSES};

const struct aggregate_def aggregate_edges_softmax = {
    .name = "edges_softmax",
    .title = "softmax-weighted sum of edges of a program",
    .backward_begin = backward_begin,
    .begin_access = {.reads = OP_ROLES(OUT) | OP_ROLES(GRAD_OUT) | OP_ROLES(SAVED_0),
                     .writes = OP_ROLES(SAVED_0) | OP_ROLES(WORKSPACE)},
    PASSES};

const struct aggregate_def aggregate_edges_mean = {.name = "edges_mean",
                                                   .title = "mean of edges of a program",
                                                   .scale = aggregate_mean_scale,
                                                   .scale_counts = true,
                                                   PASSES};

const struct aggregate_def aggregate_edges_norm = {.name = "edges_norm",
                                                   .title = "edges of a program with GCN's norm",
                                                   .scale = aggregate_gcn_scale,
                                                   .scales_sources = true,
                                                   PASSES};
