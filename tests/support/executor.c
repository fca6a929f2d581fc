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

static int64_t aux_width(const struct program *program, const struct op *op)
{
    if (op->kind == OP_KIND_AGGREGATE) {
        return program->value[op->out].width; /* places of maxima */
    }
    return op_defs[op->kind].aux_width != NULL ? op_defs[op->kind].aux_width(program, op) : 0;
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
        part->aux[k] =
            executor_array(x, (size_t)(part->n_own * aux_width(program, &program->op[k])) * sizeof(float));
    }
    part->grad_param = executor_array(x, (size_t)program->n_weight * sizeof(float));
}

static size_t scratch_bytes(const struct executor *x)
{
    const struct program *program = x->setup.program;
    size_t most = x->ops->score_scratch(x->setup.graph->n_node);
    for (int k = 0; k < program->n_op; k++) {
        const struct op_def *def = &op_defs[program->op[k].kind];
        for (int p = 0; def->scratch != NULL && p < x->setup.n_part; p++) {
            size_t n_bytes = def->scratch(program, &program->op[k], x->ops, x->part[p].n_own);
            most = n_bytes > most ? n_bytes : most;
        }
    }
    return most;
}

struct executor *executor_open(const struct executor_setup *setup)
{
    struct executor *x = memory_alloc(1, sizeof *x);
    x->setup = *setup;
    x->ops = setup->ops;
    ASSERT(x->ops->host_visible); /* blocks are opened over arrays that the device owns */
    ASSERT(x->ops->open(1, &x->device) == STATUS_OK);
    executor_parts_open(x);
    for (int p = 0; p < setup->n_part; p++) {
        values_open(x, &x->part[p]);
    }
    size_t rows = (size_t)(setup->graph->n_node * widest(setup->program)) * sizeof(float);
    x->payload = executor_array(x, rows);
    x->fresh = executor_array(x, rows);
    x->weights = executor_array(x, (size_t)setup->program->n_weight * sizeof(float));
    x->scratch = executor_array(x, scratch_bytes(x));
    return x;
}

void executor_close(struct executor *x)
{
    executor_parts_close(x);
    x->ops->close(x->device);
    free(x);
}

static struct op_call op_call_of(struct executor *x, int index, struct executor_part *part)
{
    const struct program *program = x->setup.program;
    const struct op *op = &program->op[index];
    struct op_call call = {.device = x->device, .program = program, .op = op, .n = part->n_own, .node = part->node_device,
                           .training = x->setup.training, .csr = &part->csr, .out = part->value[op->out],
                           .aux = part->aux[index], .scratch = x->scratch, .grad_out = part->grad[op->out]};
    call.key = (struct random_key){.seed = x->setup.seed, .epoch = x->setup.epoch, .op = (uint16_t)index,
                                   .stream = RANDOM_STREAM_DROPOUT};
    for (int k = 0; k < 2; k++) {
        call.in[k] = op->in[k] >= 0 ? part->value[op->in[k]] : NULL;
        if (op->param[k] >= 0) {
            const struct parameter *param = &program->param[op->param[k]];
            call.param[k] = x->weights + param->offset;
            call.grad_param[k] = param->trains ? part->grad_param + param->offset : NULL;
        }
    }
    return call;
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

static struct aggregate_call aggregate_call_of(struct executor *x, const struct op *op, int i,
                                               struct executor_block *block)
{
    struct executor_part *part = &x->part[i];
    return (struct aggregate_call){.device = x->device, .n = part->n_own, .f = x->setup.program->value[op->out].width,
                                   .block = &block->block, .row_scale = part->row_scale[op->aggregate],
                                   .col_scale = block->col_scale[op->aggregate],
                                   .self = x->setup.graph->loops == DATASET_LOOPS_IMPLICIT,
                                   .arg = (uint32_t *)part->aux[op - x->setup.program->op], .arg_base = block->arg_base};
}

/* One linear gather over part i's blocks: forward of every kind, backward of linear kinds. */
static void round_gather(struct executor *x, const struct op *op, int i, enum part_direction direction,
                         void (*step)(const struct aggregate_call *),
                         float *(*rows)(struct executor *, const struct op *, int), float *out)
{
    int order[64], n = round_of(x, i, direction, order);
    for (int k = 0; k < n; k++) {
        int j = order[k];
        struct executor_block *block = &x->part[i].block[direction][j];
        struct aggregate_call call = aggregate_call_of(x, op, i, block);
        call.first = k == 0;
        call.last = k == n - 1;
        call.only = n == 1;
        call.own = rows(x, op, i);
        call.payload = call.own;
        if (j != i) {
            x->ops->rows_gather(x->device, block->block.n_col, call.f, block->payload_rows, rows(x, op, j), x->payload);
            call.payload = x->payload;
        }
        call.out = out;
        step(&call);
    }
}

static float *rows_in(struct executor *x, const struct op *op, int i)
{
    return x->part[i].value[op->in[0]];
}

static float *rows_grad_out(struct executor *x, const struct op *op, int i)
{
    return x->part[i].grad[op->out];
}

/* What part i's rows get back from the parts d that read them. */
static void round_return(struct executor *x, const struct op *op, int i, float *out)
{
    for (int s = 0; s < x->setup.n_part; s++) {
        int d = (i + s) % x->setup.n_part;
        struct executor_block *block = &x->part[d].block[PART_DIRECTION_IN][i];
        if (s > 0 && block->block.n_edge == 0) {
            continue;
        }
        struct aggregate_call pack = aggregate_call_of(x, op, d, block);
        pack.own = rows_grad_out(x, op, d);
        pack.out = x->payload;
        aggregate_defs[op->aggregate].backward_pack(&pack);
        struct aggregate_call call = aggregate_call_of(x, op, i, block);
        call.block = NULL;
        call.first = s == 0;
        call.payload = x->payload;
        call.n_row = block->block.n_col;
        call.rows = s == 0 ? NULL : block->payload_rows;
        call.out = out;
        aggregate_defs[op->aggregate].backward(&call);
    }
}

double executor_forward(struct executor *x, const float *weights)
{
    const struct program *program = x->setup.program;
    x->ops->upload(x->device, x->weights, weights, (size_t)program->n_weight * sizeof *weights);
    for (int k = 0; k < program->n_op; k++) {
        const struct op *op = &program->op[k];
        for (int p = 0; p < x->setup.n_part; p++) {
            if (op->kind == OP_KIND_AGGREGATE) {
                round_gather(x, op, p, PART_DIRECTION_IN, aggregate_defs[op->aggregate].forward, rows_in,
                             x->part[p].value[op->out]);
            } else {
                struct op_call call = op_call_of(x, k, &x->part[p]);
                op_defs[op->kind].forward(&call);
            }
        }
    }
    double loss = 0.0;
    for (int p = 0; p < x->setup.n_part; p++) {
        struct executor_part *part = &x->part[p];
        struct device_score score;
        x->ops->loss(x->device, DEVICE_LOSS_CROSS_ENTROPY, part->n_own, program->value[program->logits].width,
                     part->value[program->logits], part->labels, part->split, DATASET_SPLIT_TRAIN,
                     (float)(1.0 / (double)x->n_train), x->scratch, part->grad[program->logits], &score);
        loss += score.loss / (double)x->n_train;
    }
    ASSERT(x->ops->sync(x->device) == STATUS_OK);
    return loss;
}

static void aggregate_backward(struct executor *x, const struct op *op, bool add)
{
    int64_t f = x->setup.program->value[op->out].width;
    for (int p = 0; p < x->setup.n_part; p++) {
        float *grad = x->part[p].grad[op->in[0]], *out = add ? x->fresh : grad;
        if (aggregate_defs[op->aggregate].is_linear) {
            round_gather(x, op, p, PART_DIRECTION_OUT, aggregate_defs[op->aggregate].backward, rows_grad_out, out);
        } else {
            round_return(x, op, p, out);
        }
        if (add) {
            x->ops->rows_add(x->device, x->part[p].n_own, f, NULL, out, grad);
        }
    }
}

static void op_backward(struct executor *x, int index, bool *written)
{
    const struct program *program = x->setup.program;
    const struct op *op = &program->op[index];
    bool wanted[2], add[2];
    for (int k = 0; k < 2; k++) {
        wanted[k] = op->in[k] >= 0 && program->value[op->in[k]].needs_grad;
        add[k] = wanted[k] && written[op->in[k]];
        if (wanted[k]) {
            written[op->in[k]] = true;
        }
    }
    if (op->kind == OP_KIND_AGGREGATE) {
        if (wanted[0]) {
            aggregate_backward(x, op, add[0]);
        }
        return;
    }
    for (int p = 0; p < x->setup.n_part; p++) {
        struct op_call call = op_call_of(x, index, &x->part[p]);
        for (int k = 0; k < 2; k++) {
            call.grad_in[k] = wanted[k] ? x->part[p].grad[op->in[k]] : NULL;
            call.add[k] = add[k];
        }
        /* What backward has not said it keeps may be gone. */
        call.in[0] = op_keeps_in(program, op) ? call.in[0] : NULL;
        call.in[1] = NULL;
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
    ASSERT(x->ops->sync(x->device) == STATUS_OK);
    float *of_part = memory_alloc((size_t)program->n_weight, sizeof *of_part);
    double *sum = memory_alloc((size_t)program->n_weight, sizeof *sum);
    for (int p = 0; p < x->setup.n_part; p++) {
        x->ops->download(x->device, of_part, x->part[p].grad_param, (size_t)program->n_weight * sizeof *of_part);
        for (int64_t i = 0; i < program->n_weight; i++) {
            sum[i] += of_part[i];
        }
    }
    for (int64_t i = 0; i < program->n_weight; i++) {
        grad_out[i] = (float)sum[i];
    }
    free(sum);
    free(of_part);
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
