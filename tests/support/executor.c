#include "tests/support/executor.h"

#include "protocol/log.h"
#include "tests/support/executor_parts.h"

#include <stdlib.h>
#include <string.h>

static int64_t widest(const struct program *program)
{
    int64_t width = 1;
    for (int v = 0; v < program->n_value; v++) {
        width = program->value[v].width > width ? program->value[v].width : width;
    }
    return width;
}

static void values_open(struct executor *x, struct executor_part *part)
{
    const struct program *program = x->setup.program;
    for (int v = 0; v < program->n_value; v++) {
        size_t n_bytes = (size_t)(part->n_own * program->value[v].width) * sizeof(float);
        part->value[v] = v > 0 ? executor_array(x, n_bytes) : part->value[v];
        part->grad[v] = program->value[v].needs_grad ? executor_array(x, n_bytes) : NULL;
    }
    for (int k = 0; k < program->n_op; k++) {
        for (int i = 0; i < AGGREGATE_N_KEPT; i++) {
            int64_t width = op_kept_width(program, &program->op[k], i);
            part->kept[k][i] = width > 0 ? executor_array(x, (size_t)(part->n_own * width) * sizeof(float)) : NULL;
        }
    }
    part->grad_param = executor_array(x, (size_t)program->n_weight * sizeof(float));
}

static void globals_open(struct executor *x)
{
    const struct program *program = x->setup.program;
    x->whole = memory_alloc((size_t)program->n_op, sizeof *x->whole);
    int64_t n_sum = 0;
    for (int k = 0; k < program->n_op; k++) {
        const struct op *op = &program->op[k];
        const struct global_def *global = op_defs[op->kind].global;
        if (global != NULL) {
            int64_t n = global->n_sum(program, op);
            n_sum = n > n_sum ? n : n_sum;
            x->whole[k] = executor_array(x, (size_t)global->n_whole(program, op) * sizeof(double));
        }
    }
    for (int i = 0; i < 2; i++) {
        x->sum[i] = executor_array(x, (size_t)n_sum * sizeof(double));
    }
}

static size_t scratch_bytes(const struct executor *x)
{
    const struct program *program = x->setup.program;
    size_t most = x->ops->score_scratch(x->setup.graph->n_node);
    for (int k = 0; k < program->n_op; k++) {
        const struct op *op = &program->op[k];
        size_t (*scratch)(const struct program *, const struct op *, const struct device_ops *, int64_t) =
            op->kind == OP_KIND_AGGREGATE ? aggregate_defs[op->aggregate].scratch : op_defs[op->kind].scratch;
        for (int p = 0; scratch != NULL && p < x->setup.n_part; p++) {
            size_t n_bytes = scratch(program, op, x->ops, x->part[p].n_own);
            most = n_bytes > most ? n_bytes : most;
        }
    }
    return most;
}

struct executor *executor_open(const struct executor_setup *setup)
{
    struct executor *x = memory_alloc(1, sizeof *x);
    x->setup = *setup;
    x->setup.plain = setup->plain != NULL ? setup->plain : setup->program;
    x->ops = setup->ops;
    ASSERT(x->ops->open(1, &x->device) == STATUS_OK);
    executor_parts_open(x);
    for (int p = 0; p < setup->n_part; p++) {
        values_open(x, &x->part[p]);
    }
    size_t rows = (size_t)(setup->graph->n_node * widest(setup->program)) * sizeof(float);
    x->payload = executor_array(x, AGGREGATE_N_PIECE * rows);
    for (int k = 0; k < OP_N_IN; k++) {
        x->fresh[k] = executor_array(x, rows);
    }
    x->weights = executor_array(x, (size_t)setup->program->n_weight * sizeof(float));
    x->scratch = executor_array(x, scratch_bytes(x));
    x->now = executor_array(x, sizeof *x->now);
    x->score = executor_array(x, sizeof *x->score);
    globals_open(x);
    return x;
}

void executor_close(struct executor *x)
{
    executor_parts_close(x);
    free(x->whole);
    x->ops->close(x->device);
    free(x);
}

static struct op_call op_call_of(struct executor *x, int index, struct executor_part *part)
{
    const struct program *program = x->setup.program;
    const struct op *op = &program->op[index];
    struct op_call call = {.device = x->device,
                           .program = program,
                           .op = op,
                           .n = part->n_own,
                           .node = part->node_device,
                           .training = x->setup.training,
                           .csr = &part->csr,
                           .out = part->value[op->out],
                           .labels = part->labels,
                           .split = part->split,
                           .train = DATASET_SPLIT_TRAIN,
                           .aux = part->kept[index][0],
                           .now = x->now,
                           .whole = x->whole[index],
                           .scratch = x->scratch,
                           .grad_out = part->grad[op->out]};
    call.key = (struct random_key){.seed = x->setup.seed, .op = (uint16_t)index, .stream = RANDOM_STREAM_DROPOUT};
    for (int k = 0; k < OP_N_IN; k++) {
        call.in[k] = op->in[k] >= 0 ? part->value[op->in[k]] : NULL;
    }
    for (int k = 0; k < OP_N_PARAM; k++) {
        if (op->param[k] >= 0) {
            const struct parameter *param = &program->param[op->param[k]];
            call.param[k] = x->weights + param->offset;
            call.grad_param[k] = param->trains ? part->grad_param + param->offset : NULL;
        }
        if (k == 0 && op->param[0] >= 0 && program->param[op->param[0]].embedding_at >= 0 && part->csr.n_embedded > 0) {
            int64_t at = part->csr.n_embedded * program->param[op->param[0]].embedding_at;
            call.embeddings = part->embeddings + at;
            call.grad_embeddings = part->grad_embeddings + at;
        }
        if (op->kind == OP_KIND_BATCH_NORM) {
            call.state[k] = x->weights + program->param[op->state[k]].offset;
        }
    }
    return call;
}

/* A global op before its parts' forward or backward. */
static void global_total(struct executor *x, int index, bool backward)
{
    const struct program *program = x->setup.program;
    const struct global_def *global = op_defs[program->op[index].kind].global;
    const struct global_pass *pass = backward ? &global->backward : &global->forward;
    struct op_call call = op_call_of(x, index, &x->part[0]);
    if (x->setup.training) {
        pass->partial(&call, x->sum[0]);
    }
    for (int p = 1; p < x->setup.n_part && x->setup.training; p++) {
        call = op_call_of(x, index, &x->part[p]);
        pass->partial(&call, x->sum[1]);
        pass->merge(x->device, program, call.op, x->sum[0], x->sum[1]);
    }
    pass->total(&call, x->setup.training ? x->sum[0] : NULL);
}

/* Blocks that hold something, in the order i, i+1, … (mod K); the diagonal always counts. Returns how many. */
static int round_of(const struct executor *x, int i, enum part_direction direction, int *order)
{
    int n = 0;
    for (int s = 0; s < x->setup.n_part; s++) {
        int j = (i + s) % x->setup.n_part;
        if (s == 0 || x->part[i].block[direction][j].block.n_edge > 0) {
            order[n++] = j;
        }
    }
    return n;
}

static float *rows_of(const struct executor *x, const struct op *op, enum aggregate_rows piece, int i)
{
    const struct executor_part *part = &x->part[i];
    switch (piece) {
    case AGGREGATE_ROWS_IN_0:
    case AGGREGATE_ROWS_IN_1:
    case AGGREGATE_ROWS_IN_2: {
        int in = op->in[piece - AGGREGATE_ROWS_IN_0];
        return in >= 0 ? part->value[in] : NULL;
    }
    case AGGREGATE_ROWS_GRAD_OUT:
        return part->grad[op->out];
    case AGGREGATE_ROWS_KEPT_0:
        return part->kept[op - x->setup.program->op][0];
    default:
        return NULL;
    }
}

/* Own rows of part i; `grad`: the gradients of the inputs, NULL forward. */
static struct aggregate_call aggregate_call_of(struct executor *x, const struct op *op, int i, float *const *grad)
{
    struct executor_part *part = &x->part[i];
    int index = (int)(op - x->setup.program->op);
    struct op_call dense = op_call_of(x, index, part);
    struct aggregate_call call = {.device = x->device,
                                  .program = x->setup.program,
                                  .op = op,
                                  .n = part->n_own,
                                  .f = x->setup.program->value[op->in[0]].width,
                                  .training = x->setup.training,
                                  .key = dense.key,
                                  .now = x->now,
                                  .out = dense.out,
                                  .grad_out = dense.grad_out,
                                  .scratch = x->scratch,
                                  .self = x->setup.graph->loops == DATASET_LOOPS_IMPLICIT,
                                  .row_scale = part->row_scale[op->aggregate],
                                  .row_node = part->node_device};
    call.key.stream = RANDOM_STREAM_EDGE;
    memcpy(call.in, dense.in, sizeof call.in);
    memcpy(call.param, dense.param, sizeof call.param);
    memcpy(call.grad_param, dense.grad_param, sizeof call.grad_param);
    memcpy(call.kept, part->kept[index], sizeof call.kept);
    if (grad != NULL) {
        memcpy(call.grad_in, grad, sizeof call.grad_in);
        const struct aggregate_def *def = &aggregate_defs[op->aggregate];
        if (!def->keeps_in) { /* what backward has not said it keeps may be gone */
            memset(call.in, 0, sizeof call.in);
        }
        call.out = def->keeps_out ? call.out : NULL;
    }
    return call;
}

static void block_point(struct aggregate_call *call, const struct op *op, const struct executor_block *block)
{
    call->block = &block->block;
    call->col_scale = block->col_scale[op->aggregate];
    call->col_node = block->payload_node;
    call->arg_base = block->arg_base;
}

/* A walk over part i's blocks. */
static void round_gather(struct executor *x, const struct op *op, int i, const struct aggregate_round *round,
                         float *const *grad)
{
    enum part_direction direction = round->travel == TRAVEL_OUT ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
    int order[64], n = round_of(x, i, direction, order);
    struct aggregate_call call = aggregate_call_of(x, op, i, grad);
    call.to = grad != NULL ? grad[0] : call.out;
    for (int k = 0; k < n; k++) {
        int j = order[k];
        struct executor_block *block = &x->part[i].block[direction][j];
        block_point(&call, op, block);
        call.first = k == 0;
        call.last = k == n - 1;
        call.only = n == 1;
        float *room = x->payload;
        for (int piece = 0; piece < AGGREGATE_N_PIECE; piece++) {
            int64_t width = aggregate_piece_width(x->setup.program, op, round->piece[piece]);
            call.own[piece] = call.payload[piece] = rows_of(x, op, round->piece[piece], i);
            if (j != i && width > 0) {
                x->ops->rows_gather(x->device, block->block.n_col, width, block->payload_rows,
                                    rows_of(x, op, round->piece[piece], j), room);
                call.payload[piece] = room;
                room += block->block.n_col * width;
            }
        }
        round->run(&call);
    }
}

/* What part i's rows get back from the parts d that read them. */
static void round_return(struct executor *x, const struct op *op, int i, const struct aggregate_round *round,
                         float *const *grad)
{
    for (int s = 0; s < x->setup.n_part; s++) {
        int d = (i + s) % x->setup.n_part;
        struct executor_block *block = &x->part[d].block[PART_DIRECTION_IN][i];
        if (s > 0 && block->block.n_edge == 0) {
            continue;
        }
        struct aggregate_call pack = aggregate_call_of(x, op, d, grad);
        block_point(&pack, op, block);
        pack.packed = x->payload;
        round->pack(&pack);
        struct aggregate_call call = aggregate_call_of(x, op, i, grad);
        call.to = grad[0];
        call.first = s == 0;
        call.payload[0] = x->payload;
        call.n_row = block->block.n_col;
        call.rows = s == 0 ? NULL : block->payload_rows;
        round->run(&call);
    }
}

/* Loss over the training rows of one part, and the gradient of its logits. */
static double part_loss(struct executor *x, struct executor_part *part)
{
    const struct program *program = x->setup.program;
    struct device_scoring how = {.loss = DEVICE_LOSS_CROSS_ENTROPY,
                                 .n = part->n_own,
                                 .c = program->value[program->logits].width,
                                 .logits = part->value[program->logits],
                                 .labels = part->labels,
                                 .row_split = part->split,
                                 .split = DATASET_SPLIT_TRAIN,
                                 .now = x->now,
                                 .grad = part->grad[program->logits],
                                 .scratch = x->scratch};
    if (program->labels >= 0) {
        struct op_call call = op_call_of(x, program->labels, part);
        how.drawn = op_labels_hidden(&call);
    }
    struct device_score score;
    x->ops->loss(x->device, &how, x->score);
    x->ops->download(x->device, &score, x->score, sizeof score);
    return score.loss;
}

double executor_forward(struct executor *x, const float *weights)
{
    const struct program *program = x->setup.program;
    executor_weights_put(x, weights);
    const struct device_now now = {.n_loss_row = (double)x->n_train, .epoch = x->setup.epoch};
    x->ops->upload(x->device, x->now, &now, sizeof now);
    for (int k = 0; k < program->n_op; k++) {
        const struct op *op = &program->op[k];
        if (x->whole[k] != NULL) {
            global_total(x, k, false);
        }
        for (int p = 0; p < x->setup.n_part; p++) {
            if (op->kind == OP_KIND_AGGREGATE) {
                round_gather(x, op, p, &aggregate_defs[op->aggregate].forward, NULL);
            } else {
                struct op_call call = op_call_of(x, k, &x->part[p]);
                op_defs[op->kind].forward(&call);
            }
        }
    }
    double loss = 0.0, n_row = (double)x->n_train;
    if (program->labels >= 0) {
        x->ops->move(x->device, DEVICE_LANE_COMPUTE, &x->now->n_loss_row, x->whole[program->labels], sizeof n_row);
        x->ops->download(x->device, &n_row, &x->now->n_loss_row, sizeof n_row);
    }
    for (int p = 0; p < x->setup.n_part; p++) {
        loss += part_loss(x, &x->part[p]) / n_row;
    }
    ASSERT(device_sync(x->device) == STATUS_OK);
    return loss;
}

/* Where each input's gradient of part p is to go. */
static void grads_point(struct executor *x, const struct op *op, int p, const bool *wanted, const bool *add,
                        float *grad[OP_N_IN])
{
    int64_t row = 0;
    for (int q = 0; q < p; q++) {
        row += x->part[q].n_own;
    }
    for (int k = 0; k < OP_N_IN; k++) {
        grad[k] = wanted[k] ? x->part[p].grad[op->in[k]] : NULL;
        grad[k] = add[k] ? x->fresh[k] + row * x->setup.program->value[op->in[k]].width : grad[k];
    }
}

static void aggregate_backward(struct executor *x, const struct op *op, const bool *wanted, const bool *add)
{
    const struct aggregate_def *def = &aggregate_defs[op->aggregate];
    float *grad[OP_N_IN];
    for (int p = 0; def->backward_begin != NULL && p < x->setup.n_part; p++) {
        grads_point(x, op, p, wanted, add, grad);
        struct aggregate_call call = aggregate_call_of(x, op, p, grad);
        def->backward_begin(&call);
    }
    for (int p = 0; p < x->setup.n_part; p++) {
        grads_point(x, op, p, wanted, add, grad);
        for (int r = 0; r < AGGREGATE_N_BACKWARD && def->backward[r].run != NULL; r++) {
            const struct aggregate_round *round = &def->backward[r];
            (round->travel == TRAVEL_RETURN ? round_return : round_gather)(x, op, p, round, grad);
        }
        for (int k = 0; k < OP_N_IN; k++) {
            if (add[k]) {
                int64_t f = x->setup.program->value[op->in[k]].width;
                x->ops->rows_add(x->device, x->part[p].n_own, f, NULL, grad[k], x->part[p].grad[op->in[k]]);
            }
        }
    }
}

static void op_backward(struct executor *x, int index, bool *written)
{
    const struct program *program = x->setup.program;
    const struct op *op = &program->op[index];
    bool wanted[OP_N_IN], add[OP_N_IN];
    for (int k = 0; k < OP_N_IN; k++) {
        wanted[k] = op->in[k] >= 0 && program->value[op->in[k]].needs_grad;
        add[k] = wanted[k] && written[op->in[k]];
        if (wanted[k]) {
            written[op->in[k]] = true;
        }
    }
    if (op->kind == OP_KIND_AGGREGATE) {
        aggregate_backward(x, op, wanted, add);
        return;
    }
    if (x->whole[index] != NULL) {
        global_total(x, index, true);
    }
    for (int p = 0; p < x->setup.n_part; p++) {
        struct op_call call = op_call_of(x, index, &x->part[p]);
        for (int k = 0; k < OP_N_IN; k++) {
            call.grad_in[k] = wanted[k] ? x->part[p].grad[op->in[k]] : NULL;
            call.add[k] = add[k];
            /* What backward has not said it keeps may be gone. */
            call.in[k] = op_keeps_in(program, op, k) ? call.in[k] : NULL;
        }
        call.out = op_keeps_out(program, op) ? call.out : NULL;
        op_defs[op->kind].backward(&call);
    }
}

void executor_backward(struct executor *x, float *grad_out)
{
    const struct program *program = x->setup.program;
    bool *written = memory_alloc((size_t)program->n_value, sizeof *written);
    for (int k = program->n_op - 1; k >= 0; k--) {
        if (program->value[program->op[k].out].needs_grad) {
            op_backward(x, k, written);
        }
    }
    ASSERT(device_sync(x->device) == STATUS_OK);
    int64_t n_weight = x->setup.plain->n_weight;
    double *sum = memory_alloc((size_t)n_weight, sizeof *sum);
    for (int p = 0; p < x->setup.n_part; p++) {
        executor_gradients_add(x, &x->part[p], sum);
    }
    for (int64_t i = 0; i < n_weight; i++) {
        grad_out[i] = (float)sum[i];
    }
    free(sum);
    free(written);
}

void executor_value(struct executor *x, int value, float *out)
{
    int64_t f = x->setup.program->value[value].width;
    float *rows = memory_alloc((size_t)(x->setup.graph->n_node * f), sizeof *rows);
    for (int p = 0; p < x->setup.n_part; p++) {
        struct executor_part *part = &x->part[p];
        x->ops->download(x->device, rows, part->value[value], (size_t)(part->n_own * f) * sizeof *rows);
        for (int64_t r = 0; r < part->n_own; r++) {
            memcpy(out + part->node[r] * f, rows + r * f, (size_t)f * sizeof *rows);
        }
    }
    free(rows);
}
