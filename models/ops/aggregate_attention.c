/* out_i = Σ_j α_ij x_j over in-neighbours j, α_i the softmax of scores: four kinds of score, one file.
 *
 * in[0]: rows of the sources, in[1]: their keys, in[2]: queries of the destinations. Forward saves a row's softmax as
 * two numbers per head, from which backward recomputes every coefficient. GAT's queries need no edges: their gradient
 * comes from a second sum that forward saves, over the edges with a positive score.
 *
 * Features f of edges: GAT's score has ⟨v, f⟩ in it, v_h = W_hᵀ a_h, GATv2's columns have W f, with a weight W of the
 * edges. Kernels make the gradients of v and of W together with those of the queries. This file computes those of W
 * and a from them. TransformerConv's W is in dense ops around the aggregate (head_widen.c): its queries and output
 * have columns more for f.
 * source  Veličković et al., ICLR 2018, eq. 1-4 · Brody, Alon & Yahav, ICLR 2022, eq. 7 · Vaswani et al., 2017, eq. 1
 *         Thekumparampil, Wang, Oh & Li, arXiv 1803.03735, eq. 5
 */
#include "models/ops/ops.h"
#include "protocol/base/log.h"

#include <string.h>

enum saved { SAVED_SOFTMAX, SAVED_POSITIVE, SAVED_POSITIVE_WEIGHT };

static int64_t saved_width(const struct program *program, const struct op *op, int k)
{
    bool gat = op->aggregate == AGGREGATE_KIND_GAT && program->value[op->out].needs_grad && !program->forward_only;
    switch (k) {
    case SAVED_SOFTMAX:
        return 2 * op->n_head;
    case SAVED_POSITIVE:
        return gat ? program->value[op->out].width : 0;
    default:
        return gat ? op->n_head : 0;
    }
}

static struct device_attention attention_of(const struct program *program, const struct op *op)
{
    static const enum device_score_kind scores[AGGREGATE_KIND_N] = {[AGGREGATE_KIND_GAT] = DEVICE_SCORE_ADD,
                                                                    [AGGREGATE_KIND_GAT_EDGES] = DEVICE_SCORE_ADD,
                                                                    [AGGREGATE_KIND_GATV2] = DEVICE_SCORE_MLP,
                                                                    [AGGREGATE_KIND_DOT] = DEVICE_SCORE_DOT,
                                                                    [AGGREGATE_KIND_COSINE] = DEVICE_SCORE_COSINE};
    return (struct device_attention){
        .score = scores[op->aggregate],
        .n_head = op->n_head,
        .n_column = program->value[op->in[0]].width / op->n_head,
        .n_edge_column = op->aggregate == AGGREGATE_KIND_COSINE ? 0 : program->n_edge_feature,
        .slope = op->a,
        .scale = op->a};
}

/* Products of the parameters of edges, and their gradients: v (GAT), or Wᵀ and dW (GATv2), followed by the scratch of
 * products and kernels. */
struct edge_workspace {
    float *edge, *grad_edge;
    float *transposed; /* GATv2: dW from its transpose */
    void *rest;
};

static struct edge_workspace edge_workspace_of(const struct op_call *call, const struct device_attention *how)
{
    int64_t n = device_attention_edge_floats(how);
    float *edge = call->workspace;
    return (struct edge_workspace){edge, edge + n, edge + 2 * n, edge + (n + 1) / 2 * 2 * 3};
}

static size_t workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    struct device_attention how = attention_of(program, op);
    size_t kernels = device_attention_bytes(ops, n, &how),
           product = DEVICE_BYTES(ops, LINEAR, 1, how.n_edge_column, how.n_column);
    size_t arrays = (size_t)((device_attention_edge_floats(&how) + 1) / 2 * 2 * 3) * sizeof(float);
    return arrays == 0 ? kernels : arrays + (kernels > product ? kernels : product);
}

/* The score's products of the parameters of edges: v_h = W_hᵀ a_h (GAT) or Wᵀ (GATv2). */
static const float *edge_make(const struct op_call *call, const struct device_attention *how)
{
    const struct device_ops *ops = call->device->ops;
    const struct edge_workspace at = edge_workspace_of(call, how);
    int64_t n_column = how->n_column, n_more = how->n_edge_column;
    if (device_attention_edge_floats(how) == 0) {
        return NULL;
    }
    if (how->score == DEVICE_SCORE_MLP) {
        ops->swap_axes(call->device, how->n_head * n_column, n_more, 1, call->param[1], at.edge);
        return at.edge;
    }
    for (int64_t h = 0; h < how->n_head; h++) {
        ops->linear(call->device,
                    &(struct device_linear){1, n_column, n_more, call->param[1] + h * n_column,
                                            call->param[0] + h * n_column * n_more, .transposed = true},
                    at.edge + h * n_more);
    }
    return at.edge;
}

/* The parameters' gradients of a block's edges: dW_h += a_h ⊗ dv_h, da_h += W_h dv_h (GAT); dW (GATv2). */
static void edge_backward(const struct op_call *call, const struct device_attention *how)
{
    const struct device_ops *ops = call->device->ops;
    const struct edge_workspace at = edge_workspace_of(call, how);
    int64_t n_column = how->n_column, n_more = how->n_edge_column, n = device_attention_edge_floats(how);
    if (how->score == DEVICE_SCORE_MLP) {
        ops->swap_axes(call->device, n_more, how->n_head * n_column, 1, at.grad_edge, at.transposed);
        ops->axpby(call->device, n, 1.0F, NULL, at.transposed, call->pass.order.first ? 0.0F : 1.0F,
                   call->pass.order.first ? NULL : call->grad_param[1], call->grad_param[1]);
        return;
    }
    for (int64_t h = 0; h < how->n_head; h++) {
        const float *weight = call->param[0] + h * n_column * n_more, *grad = at.grad_edge + h * n_more;
        ops->linear_backward_weight(call->device, 1, n_more, n_column, grad, call->param[1] + h * n_column, at.rest,
                                    !call->pass.order.first, call->grad_param[0] + h * n_column * n_more);
        ops->linear(call->device,
                    &(struct device_linear){1, n_more, n_column, grad, weight, .add = !call->pass.order.first},
                    call->grad_param[1] + h * n_column);
    }
}

static struct device_attention attention(const struct op_call *call)
{
    struct device_attention how = attention_of(call->program, call->op);
    how.att = how.score == DEVICE_SCORE_MLP ? call->param[0] : NULL;
    how.p = call->training ? call->op->dropout : 0.0;
    how.shift = call->pass.shift;
    how.key = call->key;
    how.now = call->now;
    how.row_node = call->node;
    how.col_node = call->pass.col_node;
    return how;
}

static struct device_attention_state state(const struct op_call *call)
{
    return (struct device_attention_state){.softmax = call->saved[SAVED_SOFTMAX],
                                           .positive = call->training ? call->saved[SAVED_POSITIVE] : NULL,
                                           .positive_weight = call->training ? call->saved[SAVED_POSITIVE_WEIGHT]
                                                                             : NULL};
}

static struct device_attention_source source(const float *const rows[HALO_N_PIECE])
{
    return (struct device_attention_source){.value = rows[0], .key = rows[1]};
}

/* As SOURCE_PASS sends them. */
static struct device_attention_target target(const float *const rows[HALO_N_PIECE])
{
    return (struct device_attention_target){.grad_out = rows[0], .query = rows[1], .softmax = rows[2]};
}

/* One block's call; the pass says what is at either end. */
static struct device_attention_rows rows_of(const struct op_call *call, const struct device_attention *how)
{
    ASSERT(how->n_edge_column == 0 || !call->pass.self); /* loops have features as other edges do */
    return (struct device_attention_rows){.how = how,
                                          .block = call->pass.block,
                                          .begin = call->pass.order.first,
                                          .with_self = call->pass.order.first && call->pass.self};
}

/* y_i = Σ_j μ_ij α_ij x_j, α_ij = exp(e_ij) / Σ_j exp(e_ij) */
static void forward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    struct device_attention how = attention(call);
    struct device_attention_state saved = state(call);
    struct device_attention_rows rows = rows_of(call, &how);
    how.edge = edge_make(call, &how);
    rows.source = source(call->pass.payload);
    rows.self_source = source(call->pass.own);
    rows.target.query = call->in[2];
    rows.last = call->pass.order.last;
    ops->attention_forward(call->device, &rows, &saved, call->out);
    if (call->pass.order.last) {
        ops->attention_finish(call->device, call->n, &how, &saved, call->out);
    }
}

/* D_i = ⟨dy_i, y_i⟩; GAT: dq_i = (1 - slope) (⟨dy_i, y⁺_i⟩ - D_i α⁺_i) */
static void backward_begin(const struct op_call *call)
{
    struct device_attention how = attention(call);
    struct device_attention_state saved = state(call);
    call->device->ops->attention_backward_begin(call->device, call->n, &how, call->grad_out, call->out, &saved, false,
                                                call->grad_in[2]);
}

/* All but GAT: dq_i = Σ_j de_ij ∂e_ij/∂q_i with de_ij = α_ij (μ_ij ⟨dy_i, x_j⟩ - D_i) */
static void backward_query(const struct op_call *call)
{
    struct device_attention how = attention(call);
    const struct edge_workspace at = edge_workspace_of(call, &how);
    struct device_attention_rows rows = rows_of(call, &how);
    how.edge = edge_make(call, &how);
    bool edges = how.edge != NULL;
    rows.source = source(call->pass.payload);
    rows.self_source = source(call->pass.own);
    rows.target = (struct device_attention_target){
        .query = call->in[2], .softmax = call->saved[SAVED_SOFTMAX], .grad_out = call->grad_out};
    call->device->ops->attention_backward_query(
        call->device, &rows, edges ? at.rest : call->workspace, call->grad_in[2],
        how.score == DEVICE_SCORE_MLP ? call->grad_param[0] : NULL, edges ? at.grad_edge : NULL);
    if (edges) {
        edge_backward(call, &how);
    }
}

/* dx_j = Σ_i μ_ij α_ij dy_i [+ de_ij ∂e_ij/∂x_j] · dk_j = Σ_i de_ij ∂e_ij/∂k_j, over the destinations i of j's
 * edges */
static void backward_source(const struct op_call *call)
{
    struct device_attention how = attention(call);
    struct device_attention_rows rows = rows_of(call, &how);
    how.edge = edge_make(call, &how);
    rows.source = (struct device_attention_source){.value = call->in[0], .key = call->in[1]};
    rows.target = target(call->pass.payload);
    rows.self_target = target(call->pass.own);
    call->device->ops->attention_backward_source(call->device, &rows, call->grad_in[0], call->grad_in[1]);
}

/* RETURN: gradients of sampled rows come back from the parts that used them; own rows' edges have theirs from own
 * rows. */
static void backward_return(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    if (call->pass.order.first) {
        struct op_call diagonal = *call;
        const float *const targets[HALO_N_PIECE] = {call->grad_out, call->in[2], call->saved[SAVED_SOFTMAX]};
        memcpy(diagonal.pass.own, targets, sizeof targets);
        memcpy(diagonal.pass.payload, targets, sizeof targets);
        backward_source(&diagonal);
        return;
    }
    ops->rows_add(call->device, call->pass.back.n_row, call->f, call->pass.back.rows, 1.0F, call->pass.payload[0],
                  call->grad_in[0]);
    if (call->grad_in[1] != NULL) {
        ops->rows_add(call->device, call->pass.back.n_row, call->program->value[call->op->in[1]].width,
                      call->pass.back.rows, 1.0F, call->pass.payload[1], call->grad_in[1]);
    }
}

/* Of payload rows j: dx_j and dk_j, over own destinations i of their edges, as backward_source */
static void backward_pack(const struct op_call *call)
{
    struct device_attention how = attention(call);
    how.edge = edge_make(call, &how);
    how.row_node = call->pass.col_node;
    how.col_node = call->node;
    const struct device_attention_rows rows = {
        .how = &how,
        .block = call->pass.block,
        .begin = true,
        .source = source(call->pass.payload),
        .target = {.grad_out = call->grad_out, .query = call->in[2], .softmax = call->saved[SAVED_SOFTMAX]}};
    float *second = call->op->in[1] >= 0 ? call->pass.back.packed + call->pass.block->n_row * call->f : NULL;
    float *grad_key = call->pass.back.packed_key != NULL ? call->pass.back.packed_key : second;
    call->device->ops->attention_backward_source(call->device, &rows, call->pass.back.packed, grad_key);
}

/* Forward: the sources' rows travel. */
#define FORWARD                                                                                                      \
    .saved_width = saved_width, .workspace = workspace,                                                              \
    .forward = {.direction = HALO_DIRECTION_IN,                                                                      \
                .n_piece = 2,                                                                                        \
                .piece = {OP_ROLE_IN_0, OP_ROLE_IN_1},                                                               \
                .joins = true,                                                                                       \
                .access = {.reads = OP_ROLES(IN_2) | OP_ROLES_PARAM, .writes = OP_ROLES(OUT) | OP_ROLES_SAVED},      \
                .run = forward},                                                                                     \
    .backward_begin = backward_begin, .attends = true, .sampled = AGGREGATE_SAMPLED_SHIFTED

/* Backward, to the sources: the destinations' rows travel. The sources recompute the coefficients. Two sums that
 * go to one array alternate run by run, and are not joined. */
#define SOURCE_PASS(one_each)                                                                                        \
    {                                                                                                                \
        .direction = HALO_DIRECTION_OUT, .n_piece = 3, .piece = {OP_ROLE_GRAD_OUT, OP_ROLE_IN_2, OP_ROLE_SAVED_0},   \
        .joins = (one_each),                                                                                         \
        .access = {.reads = OP_ROLES(IN_0) | OP_ROLES(IN_1) | OP_ROLES_PARAM,                                        \
                   .writes = OP_ROLES(GRAD_IN_0) | OP_ROLES(GRAD_IN_1)},                                             \
        .run = backward_source                                                                                       \
    }

/* Backward of sampled rows, which are requested a second time where they were used. */
#define RETURN_READS (OP_ROLES(GRAD_OUT) | OP_ROLES(IN_2) | OP_ROLES(SAVED_0) | OP_ROLES_PARAM)
#define RETURN_PASS                                                                                                  \
    {                                                                                                                \
        .direction = HALO_DIRECTION_RETURN, .n_piece = 2, .piece = {OP_ROLE_GRAD_IN_0, OP_ROLE_GRAD_IN_1},           \
        .access = {.reads = RETURN_READS | OP_ROLES(IN_0) | OP_ROLES(IN_1),                                          \
                   .writes = OP_ROLES(GRAD_IN_0) | OP_ROLES(GRAD_IN_1)},                                             \
        .run = backward_return, .pack = backward_pack, .pack_reads = RETURN_READS | OP_ROLES(NODE),                  \
        .transposed = true, .n_ask = 2, .ask = {                                                                     \
            OP_ROLE_IN_0,                                                                                            \
            OP_ROLE_IN_1                                                                                             \
        }                                                                                                            \
    }

/* Backward, to the queries: the sources' rows travel a second time, which takes fewer bytes than keeping a halo. */
#define QUERY_PASS                                                                                                   \
    {                                                                                                                \
        .direction = HALO_DIRECTION_IN, .n_piece = 2, .piece = {OP_ROLE_IN_0, OP_ROLE_IN_1}, .joins = true,          \
        .access = {.reads = OP_ROLES(IN_2) | OP_ROLES(SAVED_0) | OP_ROLES(GRAD_OUT) | OP_ROLES_PARAM,                \
                   .writes = OP_ROLES(GRAD_IN_2) | OP_ROLES_GRAD_PARAM},                                             \
        .run = backward_query                                                                                        \
    }

/* D_i is written beside L_i. */
#define BEGIN_ACCESS                                                                                                 \
    {                                                                                                                \
        .reads = OP_ROLES(OUT) | OP_ROLES(GRAD_OUT) | OP_ROLES(SAVED_0), .writes = OP_ROLES(SAVED_0)                 \
    }

const struct aggregate_def aggregate_gat = {
    .name = "gat",
    .title = "GATConv attention",
    FORWARD,
    .begin_access = {.reads = OP_ROLES(OUT) | OP_ROLES(GRAD_OUT) | OP_ROLES_SAVED,
                     .writes = OP_ROLES(SAVED_0) | OP_ROLES(GRAD_IN_2)},
    .backward = {SOURCE_PASS(true)},
    .sampled_backward = {RETURN_PASS},
};

const struct aggregate_def aggregate_gat_edges = {.name = "gat_edges",
                                                  .title = "GATConv attention over edges with features",
                                                  FORWARD,
                                                  .begin_access = BEGIN_ACCESS,
                                                  .backward = {QUERY_PASS, SOURCE_PASS(true)},
                                                  .sampled_backward = {QUERY_PASS, RETURN_PASS}};

const struct aggregate_def aggregate_gatv2 = {.name = "gatv2",
                                              .title = "GATv2Conv attention",
                                              FORWARD,
                                              .begin_access = BEGIN_ACCESS,
                                              .backward = {QUERY_PASS, SOURCE_PASS(false)},
                                              .sampled_backward = {QUERY_PASS, RETURN_PASS}};

const struct aggregate_def aggregate_dot = {.name = "dot",
                                            .title = "TransformerConv attention",
                                            FORWARD,
                                            .begin_access = BEGIN_ACCESS,
                                            .backward = {QUERY_PASS, SOURCE_PASS(true)},
                                            .sampled_backward = {QUERY_PASS, RETURN_PASS}};

const struct aggregate_def aggregate_cosine = {.name = "cosine",
                                               .title = "AGNNConv attention",
                                               FORWARD,
                                               .begin_access = BEGIN_ACCESS,
                                               .backward = {QUERY_PASS, SOURCE_PASS(false)},
                                               .sampled_backward = {QUERY_PASS, RETURN_PASS}};
