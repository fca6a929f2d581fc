#include "tests/support/executor.h"

#include "protocol/base/log.h"
#include "tests/support/device/strict.h"
#include "tests/support/executor_parts.h"

#include <math.h>
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
        size_t n_bytes = (size_t)(executor_rows(part, program->value[v].hop) * program->value[v].width) *
                         sizeof(float);
        part->value[v] = v > 0 ? executor_operand(x, n_bytes) : part->value[v];
        part->grad[v] = program->value[v].needs_grad ? executor_operand(x, n_bytes) : NULL;
    }
    for (int k = 0; k < program->n_op; k++) {
        for (int i = 0; i < OP_N_SAVED; i++) {
            int64_t width = op_saved_width(program, &program->op[k], i);
            part->saved[k][i] = width > 0 ? executor_operand(x, (size_t)(part->n_own * width) * sizeof(float)) : NULL;
        }
    }
    for (int k = 0; k < OP_N_IN; k++) {
        part->fresh[k] = executor_operand(x, (size_t)(part->n_own * widest(program)) * sizeof(float));
    }
    part->grad_param = executor_operand(x, (size_t)program->n_weight * sizeof(float));
}

static void globals_open(struct executor *x)
{
    const struct program *program = x->setup.program;
    x->statistics = memory_alloc((size_t)program->n_op, sizeof *x->statistics);
    int64_t n_sum = 0;
    for (int k = 0; k < program->n_op; k++) {
        const struct op *op = &program->op[k];
        const struct global_def *global = op_defs[op->kind]->global;
        if (global != NULL) {
            int64_t n = global->n_sum(program, op);
            n_sum = n > n_sum ? n : n_sum;
            x->statistics[k] = executor_operand(x, (size_t)global->n_statistics(program, op) * sizeof(double));
        }
    }
    for (int i = 0; i < 2; i++) {
        x->sum[i] = executor_operand(x, (size_t)n_sum * sizeof(double));
    }
}

static size_t workspace_bytes(const struct executor *x)
{
    const struct program *program = x->setup.program;
    size_t most = DEVICE_BYTES(x->ops, LOSS, x->setup.graph->n_node);
    for (int k = 0; k < program->n_op; k++) {
        for (int p = 0; p < x->setup.n_part; p++) {
            int64_t n = executor_rows(&x->part[p], program->value[program->op[k].out].hop);
            size_t n_bytes = op_workspace(program, &program->op[k], x->ops,
                                          program->samples ? x->setup.graph->n_node : n);
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
    x->payload = executor_array(x, HALO_N_PIECE * rows);
    x->asked = setup->program->samples ? executor_array(x, HALO_N_PIECE * rows) : NULL;
    for (int k = 0; k < 2 && (setup->program->samples || program_stores(setup->program)); k++) {
        int64_t n = setup->graph->n_node;
        x->picked[k] = executor_array(
            x, DEVICE_BYTES(x->ops, BLOCK_MADE, n, n, setup->graph->n_edge, 3 * sizeof(uint32_t)));
    }
    x->weights = executor_operand(x, (size_t)setup->program->n_weight * sizeof(float));
    x->workspace = executor_operand(x, workspace_bytes(x));
    x->now = executor_array(x, sizeof *x->now);
    x->score = executor_array(x, sizeof *x->score);
    globals_open(x);
    step_lists_lower(setup->program, &x->steps);
    return x;
}

void executor_close(struct executor *x)
{
    executor_parts_close(x);
    step_lists_release(&x->steps);
    free(x->statistics);
    x->ops->close(x->device);
    free(x);
}

/* --- a step's operands --- */

static float *embeddings_of(const struct executor *x, const struct executor_part *part, int param, float *all)
{
    int64_t n = part->csr.n_embedded;
    return n > 0 ? all + n * x->setup.program->param[param].embedding_at : NULL;
}

void *executor_operand_at(const struct executor *x, const struct step_operand *o, const struct executor_part *part)
{
    const struct program *program = x->setup.program;
    switch (o->array) {
    case STEP_ARRAY_VALUE:
        return part->value[o->index];
    case STEP_ARRAY_GRAD:
        return part->grad[o->index];
    case STEP_ARRAY_SAVED:
        return part->saved[o->index][o->k];
    case STEP_ARRAY_FRESH:
        return part->fresh[o->k];
    case STEP_ARRAY_STATISTICS:
        return x->statistics[o->index];
    case STEP_ARRAY_WORKSPACE:
        return x->workspace;
    case STEP_ARRAY_PARAMETER:
        return x->weights + program->param[o->index].offset;
    case STEP_ARRAY_GRAD_PARAMETER:
        return part->grad_param + program->param[o->index].offset;
    case STEP_ARRAY_EMBEDDING:
        return embeddings_of(x, part, o->index, part->embeddings);
    case STEP_ARRAY_GRAD_EMBEDDING:
        return embeddings_of(x, part, o->index, part->grad_embeddings);
    case STEP_ARRAY_SUM:
        return x->sum[part != x->part];
    case STEP_ARRAY_CSR:
        return (void *)(uintptr_t)(o->hop == PROGRAM_HOP_HALO ? &part->csr_halo : &part->csr);
    case STEP_ARRAY_NODE:
        return part->node_device;
    case STEP_ARRAY_LABELS:
        return (void *)(uintptr_t)&part->labels;
    default:
        return NULL; /* an aggregate's structure comes with its blocks */
    }
}

static size_t operand_bytes(const struct executor *x, const struct step_operand *o, const struct executor_part *part)
{
    const struct program *program = x->setup.program;
    switch (o->array) {
    case STEP_ARRAY_VALUE:
    case STEP_ARRAY_GRAD:
    case STEP_ARRAY_SAVED:
    case STEP_ARRAY_FRESH:
        return (size_t)(executor_rows(part, o->hop) * step_operand_width(program, o)) * sizeof(float);
    case STEP_ARRAY_STATISTICS:
        return (size_t)op_defs[program->op[o->index].kind]->global->n_statistics(program, &program->op[o->index]) *
               sizeof(double);
    case STEP_ARRAY_SUM:
        return (size_t)op_defs[program->op[o->index].kind]->global->n_sum(program, &program->op[o->index]) *
               sizeof(double);
    case STEP_ARRAY_WORKSPACE:
        return workspace_bytes(x);
    case STEP_ARRAY_PARAMETER:
    case STEP_ARRAY_GRAD_PARAMETER:
        return (size_t)program->param[o->index].n_shared * sizeof(float);
    case STEP_ARRAY_EMBEDDING:
    case STEP_ARRAY_GRAD_EMBEDDING:
        return (size_t)(part->csr.n_embedded * program->param[o->index].embedding_width) * sizeof(float);
    default:
        return 0; /* structure is open always */
    }
}

static struct strict_range range_of(const struct executor *x, const struct step_operand *o,
                                    const struct executor_part *part)
{
    return (struct strict_range){.at = executor_operand_at(x, o, part),
                                 .n_bytes = operand_bytes(x, o, part),
                                 .read = o->access != STEP_ACCESS_WRITE,
                                 .write = o->access != STEP_ACCESS_READ};
}

/* From here on the step's operands of one part, and what other parts' payloads are made of, are all that a strict device opens. */
static void scope_open(struct executor *x, const struct step *step, const struct executor_part *part)
{
    struct strict_range *range = memory_alloc((size_t)(step->n_operand * (1 + x->setup.n_part)), sizeof *range);
    int n = 0;
    for (int k = 0; k < step->n_operand; k++) {
        const struct step_operand *o = &step->operand[k];
        if (o->array == STEP_ARRAY_SUM && o->index < 0) {
            continue; /* the loss is the caller's to add up */
        }
        if (o->running || !o->packing) {
            range[n++] = range_of(x, o, part);
        }
        for (int p = 0; o->packing && p < x->setup.n_part; p++) {
            range[n] = range_of(x, o, &x->part[p]);
            range[n].read = true;
            range[n++].write = false;
        }
    }
    device_strict_scope(x->device, range, n);
    free(range);
}

struct op_call executor_call(struct executor *x, const struct step *step, struct executor_part *part)
{
    const struct program *program = x->setup.program;
    const struct op *op = &program->op[step->op];
    bool aggregate = op->kind == OP_KIND_AGGREGATE;
    struct op_call call = {.device = x->device,
                           .program = program,
                           .op = op,
                           .n = executor_rows(part, program->value[op->out].hop),
                           .f = program->value[op->in[0]].width,
                           .training = x->setup.training,
                           .now = x->now};
    call.key = (struct random_key){.seed = x->setup.seed,
                                   .op = (uint16_t)step->op,
                                   .stream = aggregate ? RANDOM_STREAM_EDGE : RANDOM_STREAM_DROPOUT};
    for (int k = 0; k < step->n_operand; k++) {
        const struct step_operand *o = &step->operand[k];
        call.array[o->role] = executor_operand_at(x, o, part);
        if (o->role >= OP_ROLE_GRAD_IN_0 && o->role <= OP_ROLE_GRAD_IN_2) {
            call.add[o->role - OP_ROLE_GRAD_IN_0] = o->access == STEP_ACCESS_UPDATE;
        }
        call.add_param = call.add_param || (o->array == STEP_ARRAY_GRAD_PARAMETER && o->access == STEP_ACCESS_UPDATE);
    }
    if (aggregate) {
        call.self = x->setup.graph->loops == DATASET_LOOPS_IMPLICIT;
        call.scale = part->row_scale[op->aggregate];
        call.to = step->backward ? call.grad_in[0] : call.out;
    }
    return call;
}

/* --- steps --- */

static void dense_run(struct executor *x, const struct step *step)
{
    const struct op_def *def = op_defs[x->setup.program->op[step->op].kind];
    for (int p = 0; p < x->setup.n_part; p++) {
        struct op_call call = executor_call(x, step, &x->part[p]);
        scope_open(x, step, &x->part[p]);
        (step->backward ? def->backward : def->forward)(&call);
        device_strict_scope_end(x->device);
    }
}

static const struct global_pass *global_pass(const struct executor *x, const struct step *step)
{
    const struct global_def *global = op_defs[x->setup.program->op[step->op].kind]->global;
    return step->backward ? &global->backward : &global->forward;
}

/* One part after another into the first one's sums. */
static void partial_run(struct executor *x, const struct step *step)
{
    const struct global_pass *pass = global_pass(x, step);
    for (int p = 0; p < x->setup.n_part; p++) {
        struct op_call call = executor_call(x, step, &x->part[p]);
        scope_open(x, step, &x->part[p]);
        pass->partial(&call);
        device_strict_scope_end(x->device);
        if (p > 0) {
            pass->merge(x->device, x->setup.program, call.op, x->sum[0], x->sum[1]);
        }
    }
}

static void total_run(struct executor *x, const struct step *step)
{
    struct op_call call = executor_call(x, step, &x->part[0]);
    scope_open(x, step, &x->part[0]);
    global_pass(x, step)->total(&call);
    device_strict_scope_end(x->device);
}

static void begin_run(struct executor *x, const struct step *step)
{
    for (int p = 0; p < x->setup.n_part; p++) {
        struct op_call call = executor_call(x, step, &x->part[p]);
        scope_open(x, step, &x->part[p]);
        aggregate_defs[call.op->aggregate]->backward_begin(&call);
        device_strict_scope_end(x->device);
    }
}

static void join_run(struct executor *x, const struct step *step)
{
    for (int p = 0; p < x->setup.n_part; p++) {
        scope_open(x, step, &x->part[p]);
        for (int k = 0; k < OP_N_IN; k++) {
            const struct step_operand *fresh = step_operand(step, (enum op_role)(OP_ROLE_GRAD_IN_0 + k));
            if (fresh != NULL) {
                const struct step_operand *grad = step_operand(step, (enum op_role)(OP_ROLE_IN_0 + k));
                x->ops->rows_add(x->device, x->part[p].n_own, step_operand_width(x->setup.program, fresh), NULL, 1.0F,
                                 executor_operand_at(x, fresh, &x->part[p]),
                                 executor_operand_at(x, grad, &x->part[p]));
            }
        }
        device_strict_scope_end(x->device);
    }
}

/* --- halo passes --- */

/* Point the call at a block, of which `sampled` leaves the edges of drawn rows; and at its transpose where the pass wants that. */
static void block_point(struct executor *x, const struct step *step, const struct executor_block *block, bool sampled,
                        struct op_call *call)
{
    enum aggregate_sampled how = aggregate_defs[call->op->aggregate]->sampled;
    call->block = &block->block;
    call->col_scale = block->col_scale[call->op->aggregate];
    call->col_node = block->payload_node;
    call->arg_base = block->arg_base;
    call->back.n_row = block->block.n_col;
    call->shift = 0.0F;
    if (sampled) {
        x->ops->block_sample(x->device, &block->block, block->n_kept, block->kept, x->picked[0], &x->block[0]);
        call->block = &x->block[0];
        call->col_scale = block->kept_scale[call->op->aggregate];
        call->col_node = block->kept_node;
        call->back.n_row = block->n_kept;
        call->shift = how == AGGREGATE_SAMPLED_SHIFTED ? (float)-log(x->setup.sampling) : 0.0F;
    }
    if (step->halo->transposed) {
        const struct device_block rows = *call->block;
        x->ops->block_transpose(x->device, &rows, call->n, x->picked[1], &x->block[1]);
        call->block = &x->block[1];
    }
}

/* Rows of part j that part i takes, and what they are multiplied by. */
static void payload_gather(struct executor *x, const struct executor_block *block, bool sampled,
                           const struct op_call *call, int64_t width, const float *from, float *to)
{
    bool weighted = aggregate_defs[call->op->aggregate]->sampled == AGGREGATE_SAMPLED_WEIGHED;
    float factor = sampled && weighted ? (float)(1.0 / x->setup.sampling) : 1.0F;
    x->ops->rows_gather(x->device, call->back.n_row, width, sampled ? block->kept_rows : block->payload_rows, factor,
                        from, to);
}

/* Piece k's rows of part i. */
static float *rows_of(const struct executor *x, const struct step *step, int k, int i)
{
    const struct step_operand *rows = k < step->halo->n_piece ? step_operand(step, step->halo->piece[k]) : NULL;
    return rows != NULL ? executor_operand_at(x, rows, &x->part[i]) : NULL;
}

/* A walk over part i's blocks that hold something, in the order i, i+1, … (mod K); the diagonal always counts. */
static void halo_gather(struct executor *x, const struct step *step, int i)
{
    int direction = step->halo->direction == HALO_DIRECTION_OUT ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
    struct executor_block *blocks = x->part[i].block[direction];
    int n_part = x->setup.n_part, last = n_part - 1;
    while (last > 0 && blocks[(i + last) % n_part].block.n_edge == 0) {
        last--;
    }
    struct op_call call = executor_call(x, step, &x->part[i]);
    call.order.only = last == 0;
    for (int s = 0; s <= last; s++) {
        int j = (i + s) % n_part;
        struct executor_block *block = &blocks[j];
        if (s > 0 && block->block.n_edge == 0) {
            continue;
        }
        bool sampled = s > 0 && x->setup.program->samples && x->setup.training && !call.op->is_static;
        block_point(x, step, block, sampled, &call);
        call.order.first = s == 0;
        call.order.last = s == last;
        float *at = x->payload;
        for (int k = 0; k < HALO_N_PIECE; k++) {
            int64_t width = halo_piece_width(x->setup.program, call.op, step->halo, k);
            call.own[k] = call.payload[k] = rows_of(x, step, k, i);
            if (j != i && width > 0) {
                payload_gather(x, block, sampled, &call, width, rows_of(x, step, k, j), at);
                call.payload[k] = at;
                at += call.back.n_row * width;
            }
        }
        step->halo->run(&call);
    }
}

/* The rows that part d makes gradients of, which part i has. */
static void asked_gather(struct executor *x, const struct step *step, int i, const struct executor_block *block,
                         struct op_call *pack)
{
    float *at = x->asked;
    for (int k = 0; k < step->halo->n_ask; k++) {
        int64_t width = halo_ask_width(x->setup.program, pack->op, step->halo, k);
        const struct step_operand *rows = step_operand(step, step->halo->ask[k]);
        if (width > 0) {
            x->ops->rows_gather(x->device, pack->back.n_row, width, block->kept_rows, 1.0F,
                                executor_operand_at(x, rows, &x->part[i]), at);
            pack->payload[k] = at;
            at += pack->back.n_row * width;
        }
    }
}

/* What part i's rows get back from the parts d that read them. */
static void halo_return(struct executor *x, const struct step *step, int i)
{
    for (int s = 0; s < x->setup.n_part; s++) {
        int d = (i + s) % x->setup.n_part;
        struct executor_block *block = &x->part[d].block[PART_DIRECTION_IN][i];
        bool sampled = s > 0 && x->setup.program->samples;
        if (s > 0 && block->block.n_edge == 0) {
            continue;
        }
        struct op_call call = executor_call(x, step, &x->part[i]), pack = executor_call(x, step, &x->part[d]);
        call.order.first = s == 0;
        call.back.factor = sampled && aggregate_defs[call.op->aggregate]->sampled == AGGREGATE_SAMPLED_WEIGHED
                               ? (float)(1.0 / x->setup.sampling)
                               : 1.0F;
        if (s == 0 && step->halo->transposed) { /* own edges, the other way */
            const struct executor_block *own = &x->part[i].block[PART_DIRECTION_OUT][i];
            call.block = &own->block;
            call.col_scale = own->col_scale[call.op->aggregate];
            call.col_node = own->payload_node;
            step->halo->run(&call);
            continue;
        }
        block_point(x, step, block, sampled, &pack);
        asked_gather(x, step, i, block, &pack);
        pack.back.packed = x->payload;
        step->halo->pack(&pack);
        call.back.n_row = pack.back.n_row;
        call.back.rows = s == 0 ? NULL : sampled ? block->kept_rows : block->payload_rows;
        float *at = x->payload;
        for (int k = 0; k < step->halo->n_piece; k++) {
            call.payload[k] = at;
            at += call.back.n_row * halo_piece_width(x->setup.program, call.op, step->halo, k);
        }
        step->halo->run(&call);
    }
}

static void halo_run(struct executor *x, const struct step *step)
{
    for (int p = 0; p < x->setup.n_part; p++) {
        scope_open(x, step, &x->part[p]);
        (step->stored                                     ? executor_halo_stored
         : step->halo->direction == HALO_DIRECTION_RETURN ? halo_return
                                                          : halo_gather)(x, step, p);
        device_strict_scope_end(x->device);
    }
}

/* --- an epoch --- */

/* Loss over the training rows of one part, and the gradient of its logits. */
static struct device_score part_loss(struct executor *x, const struct step *step, struct executor_part *part)
{
    const struct program *program = x->setup.program;
    const struct objective *objective = x->setup.objective;
    const struct step_operand *logits = step_operand(step, OP_ROLE_IN_0);
    struct device_scoring how = {.loss = objective != NULL ? objective->loss : DEVICE_LOSS_CROSS_ENTROPY,
                                 .n = part->n_own,
                                 .c = program->value[logits->index].width,
                                 .logits = part->value[logits->index],
                                 .labels = part->labels.label_rows != NULL ? (const void *)part->labels.label_rows
                                                                           : (const void *)part->labels.labels,
                                 .weights = part->class_weights,
                                 .smoothing = objective != NULL ? objective->smoothing : 0.0,
                                 .delta = objective != NULL ? objective->delta : 0.0,
                                 .row_split = part->labels.split,
                                 .split = DATASET_SPLIT_TRAIN,
                                 .now = x->now,
                                 .grad = part->grad[logits->index],
                                 .scratch = x->workspace};
    if (program->labels >= 0) {
        struct step labels = {.op = program->labels};
        struct op_call call = executor_call(x, &labels, part);
        call.node = part->node_device;
        how.drawn = op_labels_hidden(&call);
    }
    struct device_score score;
    scope_open(x, step, part);
    x->ops->loss(x->device, &how, x->score);
    device_strict_scope_end(x->device);
    x->ops->copy(x->device, &score, x->score, sizeof score);
    return score;
}

static void loss_run(struct executor *x, const struct step *step)
{
    const struct step_operand *drawn = step_operand(step, OP_ROLE_STATISTICS);
    if (drawn != NULL) {
        x->ops->move(x->device, DEVICE_LANE_COMPUTE, &x->now->n_loss_row, x->statistics[drawn->index],
                     sizeof x->now->n_loss_row);
    }
    double loss = 0.0, weight = 0.0;
    for (int p = 0; p < x->setup.n_part; p++) {
        const struct device_score score = part_loss(x, step, &x->part[p]);
        loss += score.loss;
        weight += score.weight;
    }
    x->loss = loss / weight;
}

/* The steps of a list that are, or are not, of backward; sums of all parts and the optimiser's step are the caller's. */
static void steps_run(struct executor *x, enum step_phase phase, bool backward)
{
    static void (*const runs[STEP_KIND_N])(struct executor *, const struct step *) = {
        [STEP_KIND_FORWARD] = dense_run, [STEP_KIND_PARTIAL] = partial_run, [STEP_KIND_TOTAL] = total_run,
        [STEP_KIND_HALO] = halo_run,     [STEP_KIND_BEGIN] = begin_run,     [STEP_KIND_JOIN] = join_run,
        [STEP_KIND_BACKWARD] = dense_run};
    const struct step_list *list = &x->steps.phase[phase];
    for (int s = 0; s < list->n_step; s++) {
        if (runs[list->step[s].kind] != NULL && list->step[s].backward == backward) {
            runs[list->step[s].kind](x, &list->step[s]);
        }
    }
}

double executor_forward(struct executor *x, const float *weights)
{
    const struct device_now now = {.n_loss_row = executor_loss_weight(x), .epoch = x->setup.epoch};
    executor_weights_put(x, weights);
    x->ops->copy(x->device, x->now, &now, sizeof now);
    steps_run(x, STEP_PHASE_STATIC, false);
    steps_run(x, x->setup.training ? STEP_PHASE_TRAIN : STEP_PHASE_EVALUATE, false);
    for (int s = 0; s < x->steps.phase[STEP_PHASE_TRAIN].n_step; s++) {
        if (x->steps.phase[STEP_PHASE_TRAIN].step[s].kind == STEP_KIND_LOSS) {
            loss_run(x, &x->steps.phase[STEP_PHASE_TRAIN].step[s]);
        }
    }
    ASSERT(device_sync(x->device) == STATUS_OK);
    return x->loss;
}

void executor_backward(struct executor *x, float *grad_out)
{
    steps_run(x, STEP_PHASE_TRAIN, true);
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
}

void executor_epoch(struct executor *x, uint32_t epoch)
{
    x->setup.epoch = epoch;
    for (int p = 0; p < x->setup.n_part && x->setup.program->samples; p++) {
        for (int j = 0; j < x->setup.n_part; j++) {
            executor_block_draw(x, &x->part[p].block[PART_DIRECTION_IN][j]);
        }
    }
}

void executor_value(struct executor *x, int value, float *out)
{
    int64_t f = x->setup.program->value[value].width;
    float *rows = memory_alloc((size_t)(x->setup.graph->n_node * f), sizeof *rows);
    for (int p = 0; p < x->setup.n_part; p++) {
        struct executor_part *part = &x->part[p];
        x->ops->copy(x->device, rows, part->value[value], (size_t)(part->n_own * f) * sizeof *rows);
        for (int64_t r = 0; r < part->n_own; r++) {
            memcpy(out + part->node[r] * f, rows + r * f, (size_t)f * sizeof *rows);
        }
    }
    free(rows);
}
