#include "worker/run/trainer.h"

#include "protocol/fault.h"
#include "protocol/job/schedule.h"
#include "protocol/log.h"
#include "worker/plan/liveness.h"
#include "worker/run/embeddings.h"
#include "worker/run/reduce.h"
#include "worker/run/round.h"
#include "worker/run/trainer_state.h"
#include "worker/spill/hold.h"

#include <math.h>
#include <string.h>
#include <time.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool trains(const struct trainer *t, int param)
{
    return param >= 0 && t->program.param[param].trains;
}

/* One dense or global op on own part i; backward's pointers too when `backward`. */
static struct op_call call_build(struct trainer *t, int index, int32_t i, bool backward)
{
    const struct program *program = &t->program;
    const struct op *op = &program->op[index];
    const struct part_device *part = &t->part[i];
    bool sparse = program->value[op->in[0]].is_sparse;
    struct op_call call = {
        .device = t->device,
        .program = program,
        .op = op,
        .n = trainer_rows(t, program->value[op->out].level, i),
        .node = part_device_view(part, part->part->node),
        .training = t->training,
        .key = {.seed = (uint64_t)t->setup.job->train.seed, .op = (uint16_t)index, .stream = RANDOM_STREAM_DROPOUT},
        .now = t->now,
        .csr = sparse ? &part->csr : NULL,
        .out = trainer_value(t, op->out, i),
        .aux = trainer_kept(t, index, 0, i),
        .scratch = trainer_room(t, &t->plan.room[index][backward ? MEMORY_ROOM_BACKWARD : MEMORY_ROOM_FORWARD])};
    for (int k = 0; k < OP_N_IN; k++) {
        int in = op->in[k];
        if (in >= 0) {
            call.in[k] = in > 0 ? trainer_value(t, in, i) : sparse ? NULL : part->features;
        }
        if (backward && in >= 0 && program->value[in].needs_grad) {
            call.grad_in[k] = trainer_grad(t, in, i);
            call.add[k] = t->add[index][k];
        }
    }
    for (int k = 0; k < OP_N_PARAM; k++) {
        int param = op->param[k];
        call.param[k] = param >= 0 ? t->weights + program->param[param].offset : NULL;
        if (backward && trains(t, param)) {
            call.grad_param[k] = trainer_gradients(t, i) + program->param[param].offset;
        }
    }
    if (sparse && op->kind == OP_KIND_LINEAR) {
        call.embeddings = embeddings_of(t, t->embeddings.weights, op->param[0], i);
        bool wanted = backward && trains(t, op->param[0]);
        call.grad_embeddings = wanted ? embeddings_of(t, t->embeddings.gradients, op->param[0], i) : NULL;
    }
    if (op_defs[op->kind].global != NULL) {
        call.aux = NULL;
        call.whole = trainer_whole(t, index);
        for (int k = 0; op->kind == OP_KIND_BATCH_NORM && k < OP_N_PARAM; k++) {
            call.state[k] = t->weights + program->param[op->state[k]].offset;
        }
        call.labels = part_device_view(part, part->part->labels);
        call.label_rows = part_device_view(part, part->part->label_rows);
        call.split = part_device_view(part, part->part->split);
        call.train = DATASET_SPLIT_TRAIN;
    }
    call.grad_out = backward ? trainer_grad(t, op->out, i) : NULL;
    return call;
}

/* A global op before its forward, or backward, on each part: what all parts together say. */
static enum status global_total(struct trainer *t, int index, bool backward)
{
    const struct global_def *global = op_defs[t->program.op[index].kind].global;
    const struct global_pass *pass = backward ? &global->backward : &global->forward;
    struct hold hold = hold_open(t);
    uses_partial(&t->program, &t->plan, index, backward, &hold.uses);
    while (t->training && hold_next(&hold)) {
        struct op_call call = call_build(t, index, hold.part, backward);
        pass->partial(&call, trainer_global(t, hold.part));
    }
    enum status status = hold.status;
    status = status == STATUS_OK && t->training ? reduce_global(t, index, backward) : status;
    uses_whole(index, &hold.uses);
    status = status == STATUS_OK ? hold_begin(&hold, 0) : status;
    if (status == STATUS_OK) {
        struct op_call call = call_build(t, index, 0, backward);
        pass->total(&call, t->training ? trainer_global(t, 0) : NULL);
    }
    hold_end(&hold);
    return status;
}

/* One dense or global op on all own parts. Again: with the sums, if it has any, and the random draws of the first time. */
static enum status op_forward(struct trainer *t, int index, bool again)
{
    const struct op_def *def = &op_defs[t->program.op[index].kind];
    struct hold hold = hold_open(t);
    hold.status = def->global != NULL && !again ? global_total(t, index, false) : STATUS_OK;
    uses_forward(&t->program, &t->plan, index, &hold.uses);
    while (hold_next(&hold)) {
        struct op_call call = call_build(t, index, hold.part, false);
        def->forward(&call);
    }
    return hold.status == STATUS_OK ? exchange_progress(t->setup.exchange) : hold.status;
}

static enum status op_backward(struct trainer *t, int index)
{
    const struct op_def *def = &op_defs[t->program.op[index].kind];
    struct hold hold = hold_open(t);
    hold.status = def->global != NULL ? global_total(t, index, true) : STATUS_OK;
    uses_backward(&t->program, &t->plan, index, t->add[index], &hold.uses);
    while (hold_next(&hold)) {
        struct op_call call = call_build(t, index, hold.part, true);
        def->backward(&call);
        for (int k = 0; k < OP_N_IN; k++) {
            if (call.grad_in[k] != NULL && !call.add[k]) {
                trainer_grad_end(t, call.op->in[k], call.n, hold.part);
            }
        }
    }
    return hold.status == STATUS_OK ? exchange_progress(t->setup.exchange) : hold.status;
}

/* Ops forward, op after op, part after part: the static ones or the others. */
static enum status forward_walk(struct trainer *t, enum exchange_phase phase)
{
    for (int op = 0; op < t->program.n_op; op++) {
        if (t->program.op[op].is_static != (phase == EXCHANGE_PHASE_STATIC)) {
            continue;
        }
        if (phase == EXCHANGE_PHASE_FORWARD) {
            FAULT(FORWARD);
        } else if (phase == EXCHANGE_PHASE_EVALUATE) {
            FAULT(EVALUATE);
        }
        bool aggregate = t->program.op[op].kind == OP_KIND_AGGREGATE;
        enum status status = aggregate ? round_forward(t, op, phase) : op_forward(t, op, false);
        if (status != STATUS_OK) {
            return status;
        }
        hold_forget(t, liveness_time_forward(&t->program, op));
    }
    return STATUS_OK;
}

static enum status step_run(struct trainer *t, const struct memory_step *step)
{
    bool aggregate = t->program.op[step->op].kind == OP_KIND_AGGREGATE;
    FAULT(BACKWARD);
    switch (step->kind) {
    case MEMORY_STEP_AGAIN:
        return op_forward(t, step->op, true);
    case MEMORY_STEP_BEGIN:
        return round_backward_begin(t, step->op);
    case MEMORY_STEP_OP:
        break;
    }
    return aggregate ? round_backward(t, step->op) : op_backward(t, step->op);
}

static enum status backward_walk(struct trainer *t)
{
    for (int s = 0; s < t->plan.n_step; s++) {
        enum status status = step_run(t, &t->plan.step[s]);
        if (status != STATUS_OK) {
            return status;
        }
        hold_forget(t, liveness_time_step(&t->program, s));
    }
    return STATUS_OK;
}

static bool is_bce(const struct trainer *t)
{
    int loss = t->setup.job->train.loss;
    return loss == JOB_LOSS_BCE || (loss == JOB_LOSS_AUTO && t->part[0].part->multi_label);
}

/* Loss and scores of own part i over the rows of one split, to device memory; gradients of the logits when `grad`. */
static void part_score(struct trainer *t, int32_t i, enum dataset_split split, bool grad, void *out)
{
    const struct part_device *part = &t->part[i];
    bool bce = is_bce(t);
    struct device_scoring how = {
        .loss = bce ? DEVICE_LOSS_BCE : DEVICE_LOSS_CROSS_ENTROPY,
        .n = trainer_rows(t, t->program.value[t->program.logits].level, i),
        .c = t->n_class,
        .logits = trainer_value(t, t->program.logits, i),
        .labels = part_device_view(part, bce ? (const void *)part->part->label_rows : (const void *)part->part->labels),
        .row_split = part_device_view(part, part->part->split),
        .split = (uint8_t)split,
        .now = t->now,
        .grad = grad ? trainer_grad(t, t->program.logits, i) : NULL,
        .scratch = trainer_room(t, &t->plan.score_room)};
    if (grad && t->program.labels >= 0) {
        struct op_call call = call_build(t, t->program.labels, i, false);
        how.drawn = op_labels_hidden(&call);
    }
    t->ops->loss(t->device, &how, out);
}

/* What operations read of this epoch, its number of loss rows but for a LABELS op's. */
static void now_put(struct trainer *t)
{
    const struct job_train *train = &t->setup.job->train;
    double step = (double)t->epoch + 1.0;
    t->shared->now = (struct device_now){.lr = schedule_lr(t->setup.job, t->epoch) * t->rate,
                                         .correction_1 = 1.0 - pow(train->beta1, step),
                                         .correction_2 = 1.0 - pow(train->beta2, step),
                                         .n_loss_row = (double)t->n_split[DATASET_SPLIT_TRAIN],
                                         .epoch = t->epoch};
    t->ops->move(t->device, DEVICE_LANE_COMPUTE, t->now, &t->shared->now, sizeof *t->now);
}

/* How many rows the loss is over, where a LABELS op has counted them. */
static enum status loss_rows_find(struct trainer *t)
{
    if (t->program.labels < 0) {
        return STATUS_OK;
    }
    struct hold hold = hold_open(t);
    uses_whole(t->program.labels, &hold.uses);
    if (hold_begin(&hold, 0) == STATUS_OK) {
        t->ops->move(t->device, DEVICE_LANE_COMPUTE, &t->now->n_loss_row, trainer_whole(t, t->program.labels),
                     sizeof t->now->n_loss_row);
    }
    hold_end(&hold);
    return hold.status;
}

/* The same step on every rank, from the same sums; where their loss is not finite, none. */
static void weights_step(struct trainer *t)
{
    const struct job_train *train = &t->setup.job->train;
    static const enum device_optimizer optimizers[] = {[JOB_OPTIMIZER_SGD] = DEVICE_OPTIMIZER_SGD,
                                                       [JOB_OPTIMIZER_ADAM] = DEVICE_OPTIMIZER_ADAM,
                                                       [JOB_OPTIMIZER_ADAMW] = DEVICE_OPTIMIZER_ADAMW};
    FAULT(STEP);
    struct device_step how = {.optimizer = optimizers[train->optimizer],
                              .beta1 = train->beta1,
                              .beta2 = train->beta2,
                              .epsilon = train->epsilon,
                              .momentum = train->momentum,
                              .now = t->now,
                              .loss = trainer_sums(t, 0)};
    for (int p = 0; p < t->program.n_param; p++) {
        const struct parameter *param = &t->program.param[p];
        if (!param->trains) {
            continue;
        }
        int64_t n = param->n_shared, at = param->offset;
        how.weight_decay = param->decays ? train->weight_decay : 0.0;
        t->ops->step(t->device, &how, n, trainer_gradients(t, 0) + at, t->weights + at,
                     t->moment_1 != NULL ? t->moment_1 + at : NULL, t->moment_2 != NULL ? t->moment_2 + at : NULL);
        embeddings_step(t, p, &how);
    }
}

static enum status train_step(struct trainer *t, double *loss_out)
{
    t->training = true;
    enum status status = forward_walk(t, EXCHANGE_PHASE_FORWARD);
    status = status == STATUS_OK ? loss_rows_find(t) : status;
    struct hold hold = hold_open(t);
    hold.status = status;
    uses_loss(&t->program, true, &hold.uses);
    while (hold_next(&hold)) {
        part_score(t, hold.part, DATASET_SPLIT_TRAIN, true, trainer_sums(t, hold.part));
    }
    status = hold.status == STATUS_OK ? backward_walk(t) : hold.status;
    status = status == STATUS_OK ? reduce_run(t, REDUCE_GRADIENTS, true) : status;
    if (status != STATUS_OK) {
        return status;
    }
    weights_step(t);
    struct trainer_shared *shared = t->shared;
    t->ops->move(t->device, DEVICE_LANE_COMPUTE, &shared->loss, trainer_sums(t, 0), sizeof shared->loss);
    t->ops->move(t->device, DEVICE_LANE_COMPUTE, &shared->n_loss_row, &t->now->n_loss_row, sizeof shared->n_loss_row);
    status = device_sync(t->device);
    /* Where all rows show their labels, nothing is learned. */
    *loss_out = shared->loss / (fmax(shared->n_loss_row, 1.0) * (is_bce(t) ? t->n_class : 1));
    return status;
}

static enum status evaluate(struct trainer *t, struct device_score *score_out)
{
    t->training = false;
    enum status status = forward_walk(t, EXCHANGE_PHASE_EVALUATE);
    if (status != STATUS_OK) {
        return status;
    }
    const int n = sizeof *score_out / sizeof(double);
    struct hold hold = hold_open(t);
    uses_loss(&t->program, false, &hold.uses);
    while (hold_next(&hold)) {
        int32_t i = hold.part;
        double *sums = trainer_sums(t, i);
        t->ops->fill_zero(t->device, sums, MEMORY_PLAN_N_SUM * sizeof *sums);
        for (int split = DATASET_SPLIT_TRAIN; split <= DATASET_SPLIT_TEST; split++) {
            if (t->n_split[split] > 0) {
                part_score(t, i, (enum dataset_split)split, false, sums + 1 + split * n);
            }
        }
    }
    status = hold.status == STATUS_OK ? reduce_run(t, REDUCE_SUMS, false) : hold.status;
    if (status == STATUS_OK) {
        t->ops->move(t->device, DEVICE_LANE_COMPUTE, t->shared->score, trainer_sums(t, 0) + 1, sizeof t->shared->score);
        status = device_sync(t->device);
        memcpy(score_out, t->shared->score, sizeof t->shared->score);
    }
    return status;
}

enum status trainer_epoch(struct trainer *t, uint32_t epoch, bool train, bool evaluate_after, struct trainer_report *out)
{
    double start = now_s(), waited = exchange_wait_s(t->setup.exchange);
    int64_t n_call = memory_n_call();
    *out = (struct trainer_report){0};
    t->epoch = epoch;
    now_put(t);
    enum status status = train ? train_step(t, &out->loss) : STATUS_OK;
    if (status == STATUS_OK && isfinite(out->loss) && evaluate_after) {
        double trained = now_s();
        status = evaluate(t, out->score);
        out->evaluate_s = now_s() - trained;
    }
    out->n_call = memory_n_call() - n_call;
    out->epoch_s = now_s() - start;
    out->wait_s = exchange_wait_s(t->setup.exchange) - waited;
    out->compute_s = out->epoch_s - out->wait_s;
    return status;
}

void trainer_rate(struct trainer *t, double factor)
{
    t->rate = factor;
}

enum status trainer_static(struct trainer *t)
{
    t->epoch = 0;
    t->training = false;
    now_put(t);
    enum status status = forward_walk(t, EXCHANGE_PHASE_STATIC);
    return status == STATUS_OK ? device_sync(t->device) : status;
}
