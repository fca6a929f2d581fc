/* The table of aggregates, and queries on its rows. models/ops/aggregate_*.c have the rows. */
#include "models/device/codec.h"
#include "models/ops/ops.h"
#include "protocol/base/log.h"

const struct aggregate_def *const aggregate_defs[AGGREGATE_KIND_N] = {
    [AGGREGATE_KIND_SUM] = &aggregate_sum,
    [AGGREGATE_KIND_MEAN] = &aggregate_mean,
    [AGGREGATE_KIND_GCN] = &aggregate_gcn,
    [AGGREGATE_KIND_MAX] = &aggregate_max,
    [AGGREGATE_KIND_GAT] = &aggregate_gat,
    [AGGREGATE_KIND_GAT_EDGES] = &aggregate_gat_edges,
    [AGGREGATE_KIND_GATV2] = &aggregate_gatv2,
    [AGGREGATE_KIND_DOT] = &aggregate_dot,
    [AGGREGATE_KIND_COSINE] = &aggregate_cosine,
    [AGGREGATE_KIND_RELATION] = &aggregate_relation,
    [AGGREGATE_KIND_RELATION_ROWS] = &aggregate_relation_rows,
    [AGGREGATE_KIND_RELATION_ROWS_MIXED] = &aggregate_relation_rows_mixed,
    [AGGREGATE_KIND_EDGES] = &aggregate_edges,
    [AGGREGATE_KIND_EDGES_MEAN] = &aggregate_edges_mean,
    [AGGREGATE_KIND_EDGES_NORM] = &aggregate_edges_norm,
    [AGGREGATE_KIND_EDGES_SOFTMAX] = &aggregate_edges_softmax,
};

/* Is there a codec among these? */
static bool codes(uint32_t codecs)
{
    return (codecs & ~(1U << DEVICE_CODEC_FP32)) != 0;
}

bool aggregate_scales_alike(const struct aggregate_def *a, const struct aggregate_def *b)
{
    return a->scale == b->scale && a->scale_counts == b->scale_counts;
}

bool program_is_lossy(const struct program *program)
{
    return program->lossy.samples || program->lossy.stale || program_codes(program);
}

bool program_codes(const struct program *program)
{
    return codes(program->lossy.codecs) || codes(program->lossy.codecs_backward);
}

bool program_rows_differ(const struct program *program)
{
    return program->lossy.samples || program->lossy.stale;
}

const struct halo_pass *aggregate_backward(const struct program *program, enum aggregate_kind kind)
{
    const struct aggregate_def *def = aggregate_defs[kind];
    /* Attention makes gradients of the rows that forward used. */
    bool returns = program_rows_differ(program) || (codes(program->lossy.codecs) && def->attends);
    return returns && def->sampled_backward[0].run != NULL ? def->sampled_backward : def->backward;
}

bool aggregate_returns(const struct program *program, enum aggregate_kind kind)
{
    const struct halo_pass *backward = aggregate_backward(program, kind);
    bool any = false;
    for (int k = 0; k < OP_N_BACKWARD; k++) {
        any = any || (backward[k].run != NULL && backward[k].direction == HALO_DIRECTION_RETURN);
    }
    return any;
}

bool halo_pass_joins(const struct op *op, const struct halo_pass *pass)
{
    bool any = false;
    for (int p = 0; p < OP_N_PARAM && (pass->access.writes & OP_ROLES_GRAD_PARAM) != 0; p++) {
        any = any || op->param[p] >= 0;
    }
    return pass->joins && !any;
}

bool aggregate_walks_out(const struct program *program, enum aggregate_kind kind)
{
    const struct halo_pass *backward = aggregate_backward(program, kind);
    bool any = false;
    for (int k = 0; k < OP_N_BACKWARD; k++) {
        any = any ||
              (backward[k].run != NULL && (backward[k].direction == HALO_DIRECTION_OUT || backward[k].transposed));
    }
    return any;
}

int32_t halo_pass_hop(const struct program *program, const struct op *op, const struct halo_pass *pass)
{
    int32_t hop = program->value[op->out].hop;
    return pass->direction == HALO_DIRECTION_OUT ? hop : program_hop_before(hop);
}

static int64_t role_width(const struct program *program, const struct op *op, enum op_role role)
{
    switch (role) {
    case OP_ROLE_IN_0:
    case OP_ROLE_IN_1:
    case OP_ROLE_IN_2: {
        int in = op->in[role - OP_ROLE_IN_0];
        return in >= 0 ? program->value[in].width : 0;
    }
    case OP_ROLE_GRAD_IN_0:
    case OP_ROLE_GRAD_IN_1:
        return role_width(program, op, (enum op_role)(OP_ROLE_IN_0 + (role - OP_ROLE_GRAD_IN_0)));
    case OP_ROLE_GRAD_OUT:
        return program->value[op->out].width;
    default:
        return op_saved_width(program, op, (int)role - OP_ROLE_SAVED_0);
    }
}

int64_t halo_piece_width(const struct program *program, const struct op *op, const struct halo_pass *pass, int k)
{
    return k < pass->n_piece ? role_width(program, op, pass->piece[k]) : 0;
}

int64_t halo_ask_width(const struct program *program, const struct op *op, const struct halo_pass *pass, int k)
{
    return k < pass->n_ask ? role_width(program, op, pass->ask[k]) : 0;
}

bool halo_role_is_bf16(const struct program *program, const struct op *op, enum op_role role)
{
    switch (role) {
    case OP_ROLE_IN_0:
    case OP_ROLE_IN_1:
    case OP_ROLE_IN_2: {
        int in = op->in[role - OP_ROLE_IN_0];
        return in >= 0 && program->value[in].is_bf16;
    }
    case OP_ROLE_GRAD_OUT:
        return program->value[op->out].grad_is_bf16;
    default:
        return false;
    }
}

/* Bytes of a row in this role as it lies. */
static int64_t row_bytes(const struct program *program, const struct op *op, enum op_role role)
{
    bool bf16 = halo_role_is_bf16(program, op, role);
    return codec_stored_bytes(bf16, role_width(program, op, role));
}

static bool role_is_gradient(enum op_role role)
{
    return role == OP_ROLE_GRAD_OUT || role == OP_ROLE_GRAD_IN_0 || role == OP_ROLE_GRAD_IN_1;
}

/* The codec of rows in this role. Single numbers per head, and rows that would not become shorter, travel as they
 * lie: FP32. */
static enum device_codec role_codec(const struct program *program, const struct op *op, enum op_role role,
                                    enum device_codec codec)
{
    int64_t width = role_width(program, op, role), n_bytes = row_bytes(program, op, role);
    bool saved = role >= OP_ROLE_SAVED_0 && role < OP_ROLE_SAVED_0 + OP_N_SAVED; /* node ids, sums */
    bool is_row = role == OP_ROLE_GRAD_OUT || (!saved && width == program->value[op->in[0]].width);
    return is_row && codec_row_bytes(codec, width) < n_bytes ? codec : DEVICE_CODEC_FP32;
}

enum device_codec halo_codec(const struct program *program, const struct op *op, enum op_role role,
                             const struct level *level)
{
    return role_codec(program, op, role, role_is_gradient(role) ? level->codec_backward : level->codec);
}

bool halo_codes(const struct program *program, const struct op *op, enum op_role role)
{
    uint32_t codecs = role_is_gradient(role) ? program->lossy.codecs_backward : program->lossy.codecs, any = 0;
    for (int c = DEVICE_CODEC_FP32; c <= DEVICE_CODEC_INT2; c++) {
        any |= (codecs >> c & 1) << role_codec(program, op, role, (enum device_codec)c);
    }
    return codes(any);
}

/* Bytes of a row in this role that travels in this codec. */
static int64_t coded_bytes(const struct program *program, const struct op *op, enum op_role role,
                           enum device_codec codec)
{
    return codec == DEVICE_CODEC_FP32 ? row_bytes(program, op, role)
                                      : codec_row_bytes(codec, role_width(program, op, role));
}

static int64_t role_bytes(const struct program *program, const struct op *op, enum op_role role,
                          const struct level *level)
{
    enum device_codec codec = level != NULL ? halo_codec(program, op, role, level) : DEVICE_CODEC_FP32;
    return coded_bytes(program, op, role, codec);
}

static int64_t role_bytes_most(const struct program *program, const struct op *op, enum op_role role, bool lossy)
{
    uint32_t codecs = role_is_gradient(role) ? program->lossy.codecs_backward : program->lossy.codecs;
    int64_t most = lossy ? 0 : row_bytes(program, op, role);
    for (int c = DEVICE_CODEC_FP32; lossy && c <= DEVICE_CODEC_INT2; c++) {
        if ((codecs >> c & 1) != 0) {
            int64_t n_bytes = coded_bytes(program, op, role, role_codec(program, op, role, (enum device_codec)c));
            most = n_bytes > most ? n_bytes : most;
        }
    }
    return most;
}

int64_t halo_piece_bytes(const struct program *program, const struct op *op, const struct halo_pass *pass, int k,
                         const struct level *level)
{
    return k < pass->n_piece ? role_bytes(program, op, pass->piece[k], level) : 0;
}

/* Of n roles: at a level, or the most that any level has. */
static int64_t roles_bytes(const struct program *program, const struct op *op, int n, const enum op_role *role,
                           const struct level *level, bool most, bool lossy)
{
    int64_t n_bytes = 0;
    for (int k = 0; k < n; k++) {
        n_bytes += most ? role_bytes_most(program, op, role[k], lossy) : role_bytes(program, op, role[k], level);
    }
    return n_bytes;
}

int64_t halo_row_bytes(const struct program *program, const struct op *op, const struct halo_pass *pass,
                       const struct level *level)
{
    return roles_bytes(program, op, pass->n_piece, pass->piece, level, false, false);
}

int64_t halo_ask_bytes(const struct program *program, const struct op *op, const struct halo_pass *pass,
                       const struct level *level)
{
    return roles_bytes(program, op, pass->n_ask, pass->ask, level, false, false);
}

int64_t halo_row_bytes_most(const struct program *program, const struct op *op, const struct halo_pass *pass,
                            bool lossy)
{
    return roles_bytes(program, op, pass->n_piece, pass->piece, NULL, true, lossy);
}

int64_t halo_ask_bytes_most(const struct program *program, const struct op *op, const struct halo_pass *pass,
                            bool lossy)
{
    return roles_bytes(program, op, pass->n_ask, pass->ask, NULL, true, lossy);
}

int64_t halo_payload_width(const struct program *program, const struct op *op, const struct halo_pass *pass)
{
    int64_t width = 0;
    for (int k = 0; k < HALO_N_PIECE; k++) {
        width += halo_piece_width(program, op, pass, k);
    }
    return width;
}

void aggregate_return_by(const struct op_call *call, void (*own)(const struct op_call *call))
{
    if (call->pass.order.first) {
        struct op_call diagonal = *call;
        diagonal.pass.order.last = diagonal.pass.order.only = true;
        diagonal.pass.own[0] = diagonal.pass.payload[0] = call->grad_out;
        diagonal.pass.payload_bf16 = call->pass.own_bf16;
        own(&diagonal);
        return;
    }
    call->device->ops->rows_add(call->device, call->pass.back.n_row, call->f, call->pass.back.rows,
                                call->pass.back.factor, call->pass.payload[0], call->pass.to);
}

void aggregate_return(const struct op_call *call)
{
    aggregate_return_by(call, aggregate_defs[call->op->aggregate]->backward[0].run);
}

/* A mean's backward scales its inputs, its forward the sum. */
void program_sums(const struct program *program, int64_t n_node, struct device_sums *out)
{
    *out = (struct device_sums){.n_node = n_node};
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        if (op->kind != OP_KIND_AGGREGATE || !aggregate_defs[op->aggregate]->is_linear) {
            continue;
        }
        const struct aggregate_def *def = aggregate_defs[op->aggregate];
        int64_t width = program->value[op->in[0]].width;
        int k = 0;
        while (k < out->n_width && out->width[k] != width) {
            k++;
        }
        if (k == out->n_width) {
            ASSERT(k < DEVICE_SUM_WIDTHS);
            out->width[out->n_width++] = width;
        }
        out->plain = out->plain || !def->scales_sources;
        out->scaled = out->scaled || (def->scale != NULL && (def->scales_sources || !program->forward_only));
    }
}

size_t aggregate_linear_workspace(const struct program *program, const struct op *op, const struct device_ops *ops,
                                  int64_t n)
{
    return DEVICE_BYTES(ops, PANEL, n, program->value[op->out].width);
}

void aggregate_linear(const struct op_call *call, const float *col, const float *self, const float *row)
{
    const struct device_ops *ops = call->device->ops;
    const struct device_aggregate how = {.col_scale = col,
                                         .is_bf16 = call->pass.payload_bf16,
                                         .self = call->pass.order.first && call->pass.self ? call->pass.own[0] : NULL,
                                         .self_scale = self,
                                         .row_scale = row,
                                         .begin = call->pass.order.first,
                                         .apart = call->pass.order.apart,
                                         .finish = call->pass.order.only,
                                         .epilogue = call->pass.epilogue,
                                         .panel = call->pass.block->n_col <= call->n ? call->workspace : NULL};
    ops->aggregate_sum(call->device, call->pass.block, &how, call->f, call->pass.payload[0], call->pass.to);
    if (row != NULL && call->pass.order.last && !call->pass.order.only) {
        ops->rows_multiply(call->device, call->n, call->f, row, call->pass.to, false, call->pass.to);
    }
}

void aggregate_linear_pack(const struct op_call *call, const float *col, const float *row)
{
    const struct device_aggregate how = {
        .col_scale = col, .row_scale = row, .is_bf16 = call->pass.own_bf16, .begin = true, .finish = true};
    call->device->ops->aggregate_sum(call->device, call->pass.block, &how, call->f, call->grad_out,
                                     call->pass.back.packed);
}
