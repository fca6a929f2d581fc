#include "worker/state/trainer.h"

#include "protocol/base/clock.h"
#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "protocol/job/schedule.h"
#include "worker/halo/feedback.h"
#include "worker/halo/halo.h"
#include "worker/halo/stale.h"
#include "worker/route/sample.h"
#include "worker/run/clip.h"
#include "worker/run/guard.h"
#include "worker/run/links.h"
#include "worker/run/recording.h"
#include "worker/run/reduce.h"
#include "worker/state/embeddings.h"
#include "worker/state/homes.h"
#include "worker/state/pin.h"

#include <math.h>
#include <string.h>

/* --- messages while operations run --- */

/* Rarer than this, so that it costs little. */
#define POLL_S 1e-4

/* A failure ends the next call of the exchange. */
static void poll(void *trainer)
{
    struct trainer *t = trainer;
    double now_s = clock_s();
    if (!t->run.polls && now_s - t->run.polled_s >= POLL_S) {
        t->run.polls = true;
        exchange_progress(t->setup.exchange);
        t->run.polls = false;
        t->run.polled_s = now_s;
    }
}

/* --- dense and global ops --- */

/* Halo rows that no block reads are not made: where all parts are here, those of linear maps. */
static void halo_leave(const struct trainer *t, int32_t i, struct op_call *call)
{
    bool halo = t->program.value[call->op->out].hop == PROGRAM_HOP_HALO && call->op->kind == OP_KIND_LINEAR;
    if (halo && memory_plan_maps_own(t->setup.job, &t->program, t->setup.n_rank)) {
        call->n = t->own.part[i].part->n_own;
        call->csr = call->csr != NULL ? &t->own.part[i].csr : NULL;
    }
}

/* A step on own parts from `first` on. */
struct parts_run {
    struct trainer *trainer;
    const struct step *step;
    int32_t first;
    bool begins;       /* the first of all */
    int64_t n_scratch; /* bytes of one part */
};

/* Its scratch of the k-th part. */
static void *scratch_of(const struct parts_run *run, void *workspace, int k)
{
    return run->n_scratch > 0 ? (char *)workspace + k * run->n_scratch : NULL;
}

static enum status parts_run(struct trainer *t, const struct step *step, const struct memory_workspace *workspace,
                             void (*part)(void *run, int k, int slot))
{
    struct parts_run run = {.trainer = t, .step = step, .n_scratch = workspace->n_scratch / workspace->n_part};
    struct pin pin = pin_open(t, step, PIN_USE_RUNNING);
    while (pin_next(&pin)) {
        int32_t rest = t->own.n - pin.part, n = workspace->n_part < rest ? workspace->n_part : rest;
        run.first = pin.part;
        run.begins = pin.n_begun == 1;
        if (n == 1) {
            part(&run, 0, 0);
        } else {
            t->ops->chunks_run(t->device, n, part, &run);
            pin_pass(&pin, n - 1);
        }
    }
    return pin.status;
}

static struct op_call call_of(const struct parts_run *run, int k)
{
    struct op_call call = trainer_call(run->trainer, run->step, run->first + k);
    call.workspace = scratch_of(run, call.workspace, k);
    return call;
}

static const struct op_def *def_of(const struct parts_run *run)
{
    return op_defs[run->trainer->program.op[run->step->op].kind];
}

static void part_forward(void *parts, int k, int slot)
{
    const struct parts_run *run = parts;
    struct op_call call = call_of(run, k);
    (void)slot;
    halo_leave(run->trainer, run->first + k, &call);
    def_of(run)->forward(&call);
}

static void part_backward(void *parts, int k, int slot)
{
    const struct parts_run *run = parts;
    const int32_t i = run->first + k;
    struct op_call call = call_of(run, k);
    (void)slot;
    def_of(run)->backward(&call);
    for (int in = 0; in < OP_N_IN; in++) {
        const struct step_operand *grad = step_operand(run->step, (enum op_role)(OP_ROLE_GRAD_IN_0 + in));
        if (grad != NULL && grad->access == STEP_ACCESS_WRITE) {
            trainer_grad_end(run->trainer, grad, call.n, trainer_rows(run->trainer, grad->hop, i), i);
        }
    }
}

/* An op that runs again has the statistics and the random draws of the first time. */
static enum status op_run(struct trainer *t, const struct step *step)
{
    enum status status = parts_run(t, step, &t->plan.workspace[step->op][STEP_WORKSPACE_FORWARD],
                                   step->kind == STEP_KIND_BACKWARD ? part_backward : part_forward);
    return status == STATUS_OK ? exchange_progress(t->setup.exchange) : status;
}

static void link_build(const struct program *program, const struct memory_plan *plan, const struct step *step,
                       struct chain_link *out)
{
    *out = (struct chain_link){.step = step};
    for (int role = 0; role < OP_ROLE_N; role++) {
        out->window_at[role] = -1;
    }
    for (int k = 0; k < step->n_operand; k++) {
        const struct step_operand *o = &step->operand[k];
        out->width[o->role] = o->array == STEP_ARRAY_NODE ? 1 : step_operand_width(program, o);
        out->is_bf16[o->role] = step_operand_is_bf16(program, o);
        out->window_at[o->role] = memory_plan_window_at(plan, program, o);
    }
}

/* One step of a chain on own part i. */
static void link_call(const void *trainer, const struct step *step, int32_t i, struct chain_call *out)
{
    const struct trainer *t = trainer;
    *out = (struct chain_call){.op = trainer_call(t, step, i)};
    for (int k = 0; k < step->n_operand; k++) {
        const struct step_operand *o = &step->operand[k];
        if (o->array == STEP_ARRAY_GRAD && o->access == STEP_ACCESS_WRITE) {
            out->n_grad_row[o->role - OP_ROLE_GRAD_IN_0] = trainer_rows(t, o->hop, i);
        }
    }
}

/* Own parts from i on whose chunks run at the same time; of a spill's one, which alone is in memory. */
static void chain_parts(const struct trainer *t, int32_t i, struct chain *chain)
{
    int n_task = 0;
    chain->n_part = 0;
    while (i < t->own.n && (chain->n_part == 0 || t->setup.spill == NULL)) {
        struct chain_part part = {.part = i, .n_row = part_rows_own(t->own.part[i].part, PROGRAM_HOP_ALL)};
        part.rows = chain_rows(&t->program, t->ops, part.n_row);
        n_task += part.rows.n_chunk;
        if (n_task > t->plan.arena.n_task) {
            break;
        }
        chain->part[chain->n_part++] = part;
        i++;
    }
    ASSERT(chain->n_part > 0);
}

/* Row-local steps, one after another on each window of a part's rows. */
static enum status chain_steps_run(struct trainer *t, const struct step *first)
{
    struct chain chain = {.device = t->device,
                          .program = &t->program,
                          .windows = trainer_operand(t, step_operand(first, OP_ROLE_WINDOWS), 0),
                          .n_slot_bytes = t->plan.arena.n_slot_bytes,
                          .n_link = first->n_chain,
                          .call = link_call,
                          .context = t};
    for (int s = 0; s < first->n_chain; s++) {
        link_build(&t->program, &t->plan, &first[s], &chain.link[s]);
    }
    chain_stages(&chain, t->plan.arena.chain.n_window, t->plan.arena.n_window_bytes);
    struct pin pin = pin_open(t, first, PIN_USE_RUNNING);
    while (pin_next(&pin)) {
        chain_parts(t, pin.part, &chain);
        chain_run(&chain);
        pin_pass(&pin, chain.n_part - 1);
        pin.status = exchange_progress(t->setup.exchange);
    }
    return pin.status;
}

static const struct global_pass *global_pass(const struct trainer *t, const struct step *step)
{
    const struct global_def *global = op_defs[t->program.op[step->op].kind]->global;
    return step->backward ? &global->backward : &global->forward;
}

static enum status partial_run(struct trainer *t, const struct step *step)
{
    struct pin pin = pin_open(t, step, PIN_USE_RUNNING);
    while (pin_next(&pin)) {
        struct op_call call = trainer_call(t, step, pin.part);
        global_pass(t, step)->partial(&call);
    }
    return pin.status;
}

static enum status total_run(struct trainer *t, const struct step *step)
{
    bool sums = step_operand(step, OP_ROLE_SUM) != NULL;
    enum status status = sums ? reduce_global(t, step->op, step->backward) : STATUS_OK;
    struct pin pin = pin_open(t, step, PIN_USE_RUNNING);
    status = status == STATUS_OK ? pin_begin(&pin, 0) : status;
    if (status == STATUS_OK) {
        struct op_call call = trainer_call(t, step, 0);
        global_pass(t, step)->total(&call);
    }
    pin_end(&pin);
    return status;
}

/* --- loss and scores --- */

#define TENTATIVE_EPOCH 0x80000000U /* beyond all epochs */

uint32_t trainer_key_epoch(const struct trainer *t)
{
    return t->run.tentative ? t->run.epoch | TENTATIVE_EPOCH : t->run.epoch;
}

static enum device_loss loss_of(const struct trainer *t)
{
    static const enum device_loss losses[JOB_LOSS_N] = {[JOB_LOSS_CROSS_ENTROPY] = DEVICE_LOSS_CROSS_ENTROPY,
                                                        [JOB_LOSS_BCE] = DEVICE_LOSS_BCE,
                                                        [JOB_LOSS_MSE] = DEVICE_LOSS_MSE,
                                                        [JOB_LOSS_MAE] = DEVICE_LOSS_MAE,
                                                        [JOB_LOSS_HUBER] = DEVICE_LOSS_HUBER};
    int loss = t->setup.job->train.loss;
    return loss != JOB_LOSS_AUTO                    ? losses[loss]
           : t->own.part[0].part->facts.multi_label ? DEVICE_LOSS_BCE
                                                    : DEVICE_LOSS_CROSS_ENTROPY;
}

/* Where all rows show their labels, nothing is learned. */
double trainer_loss(const struct trainer *t)
{
    double n = t->memory.shared->n_loss_row;
    return t->memory.shared->loss / (n > 0.0 ? n : 1.0);
}

/* What operations read of this epoch; the number of loss rows until a LABELS op has counted them. */
static void now_put(struct trainer *t)
{
    const struct job_train *train = &t->setup.job->train;
    double step = (double)t->run.epoch + 1.0;
    t->memory.shared->now = (struct device_now){.lr = schedule_lr(t->setup.job, t->run.epoch) * t->run.rate,
                                                .correction_1 = 1.0 - pow(train->beta1, step),
                                                .correction_2 = 1.0 - pow(train->beta2, step),
                                                .n_loss_row = t->loss.weight,
                                                .epoch = t->run.epoch};
    t->ops->move(t->device, DEVICE_LANE_COMPUTE, t->memory.now, &t->memory.shared->now, sizeof *t->memory.now);
}

/* Loss and scores of the k-th part over the rows of one split, on the device; gradients of the logits where the step
 * makes them. */
static void part_score(const struct parts_run *run, int k, enum dataset_split split, void *out)
{
    struct trainer *t = run->trainer;
    const struct step *step = run->step;
    const int32_t i = run->first + k;
    const struct step_operand *logits = step_operand(step, OP_ROLE_IN_0),
                              *grad = step_operand(step, OP_ROLE_GRAD_IN_0);
    const struct op_labels *labels = trainer_operand(t, step_operand(step, OP_ROLE_LABELS), i);
    enum device_loss loss = loss_of(t);
    struct device_scoring how = {
        .loss = loss,
        .n = trainer_rows(t, t->program.value[logits->index].hop, i),
        .c = t->loss.n_class,
        .logits = trainer_operand(t, logits, i),
        .labels = loss != DEVICE_LOSS_CROSS_ENTROPY ? (const void *)labels->label_rows : (const void *)labels->labels,
        .weights = t->loss.class_weights,
        .smoothing = t->setup.job->train.label_smoothing,
        .delta = t->setup.job->train.huber_delta,
        .row_split = labels->split,
        .split = (uint8_t)split,
        .now = t->memory.now,
        .grad = grad != NULL ? trainer_operand(t, grad, i) : NULL,
        .scratch = scratch_of(run, trainer_operand(t, step_operand(step, OP_ROLE_WORKSPACE), i), k)};
    if (grad != NULL && t->program.labels >= 0) {
        struct step drawn = {.op = t->program.labels};
        struct op_call call = trainer_call(t, &drawn, i);
        call.node = t->own.part[i].node;
        how.drawn = op_labels_hidden(&call);
    }
    t->ops->loss(t->device, &how, out);
}

static void part_loss(void *parts, int k, int slot)
{
    const struct parts_run *run = parts;
    struct trainer *t = run->trainer;
    const struct step_operand *drawn = step_operand(run->step, OP_ROLE_STATISTICS);
    (void)slot;
    if (drawn != NULL && run->begins) { /* parts run one after another (memory_plan.c) */
        t->ops->move(t->device, DEVICE_LANE_COMPUTE, &t->memory.now->n_loss_row, trainer_operand(t, drawn, 0),
                     sizeof t->memory.now->n_loss_row);
    }
    part_score(run, k, DATASET_SPLIT_TRAIN, trainer_sums(t, run->first + k));
}

static enum status loss_run(struct trainer *t, const struct step *step)
{
    return job_predicts_links(t->setup.job) ? links_run(t, step)
                                            : parts_run(t, step, &t->plan.loss_workspace, part_loss);
}

static void part_scores(void *parts, int k, int slot)
{
    const struct parts_run *run = parts;
    const struct trainer *t = run->trainer;
    const int n = sizeof(struct device_score) / sizeof(double);
    double *sums = trainer_sums(t, run->first + k);
    (void)slot;
    t->ops->fill_zero(t->device, sums, MEMORY_PLAN_N_SUM * sizeof *sums);
    /* A prediction is scored wherever there are labels; the coordinator scores links. */
    for (int split = t->program.forward_only ? DATASET_SPLIT_NONE : DATASET_SPLIT_TRAIN;
         split < DATASET_SPLIT_N && !job_predicts_links(t->setup.job); split++) {
        if (t->loss.n_split[split] > 0) {
            part_score(run, k, (enum dataset_split)split, sums + 1 + split * n);
        }
    }
}

static enum status score_run(struct trainer *t, const struct step *step)
{
    return parts_run(t, step, &t->plan.loss_workspace, part_scores);
}

/* Nodes with two splits count in both. */
static void score_join(struct device_score score[DATASET_SPLIT_N])
{
    const double *both = (const double *)&score[DATASET_SPLIT_VALID_TEST];
    for (int split = DATASET_SPLIT_VALID; split <= DATASET_SPLIT_TEST; split++) {
        double *to = (double *)&score[split];
        for (size_t k = 0; k < sizeof *score / sizeof *to; k++) {
            to[k] += both[k];
        }
    }
}

/* --- reduction and update --- */

/* All parts' sums; the loss or the scores on their way to the host, where they are when the phase has ended. */
static enum status reduce_step(struct trainer *t, const struct step *step)
{
    bool trains = step_operand(step, OP_ROLE_GRAD_PARAM_0) != NULL;
    struct trainer_shared *shared = t->memory.shared;
    if (trains) {
        clip_begin(t);
    }
    enum status status = reduce_run(t, trains ? REDUCE_GRADIENTS : REDUCE_SUMS, trains);
    if (status != STATUS_OK) {
        return status;
    }
    const double *sums = trainer_sums(t, 0);
    if (trains) {
        t->ops->move(t->device, DEVICE_LANE_COMPUTE, &shared->loss, sums, sizeof shared->loss);
        t->ops->move(t->device, DEVICE_LANE_COMPUTE, &shared->n_loss_row, &t->memory.now->n_loss_row,
                     sizeof shared->n_loss_row);
    } else {
        t->ops->move(t->device, DEVICE_LANE_COMPUTE, shared->score, sums + 1, sizeof shared->score);
    }
    return STATUS_OK;
}

/* The same on every rank, from the same sums; none where the loss is not finite, which all ranks find alike. */
static enum status update_run(struct trainer *t, const struct step *step)
{
    const struct job_train *train = &t->setup.job->train;
    static const enum device_optimizer optimizers[] = {[JOB_OPTIMIZER_SGD] = DEVICE_OPTIMIZER_SGD,
                                                       [JOB_OPTIMIZER_ADAM] = DEVICE_OPTIMIZER_ADAM,
                                                       [JOB_OPTIMIZER_ADAMW] = DEVICE_OPTIMIZER_ADAMW};
    (void)step;
    struct device_step how = {.optimizer = optimizers[train->optimizer],
                              .beta1 = train->beta1,
                              .beta2 = train->beta2,
                              .epsilon = train->epsilon,
                              .momentum = train->momentum,
                              .now = t->memory.now,
                              .loss = trainer_sums(t, 0),
                              .clip = clip_end(t),
                              .not_finite = &t->memory.now->not_finite};
    for (int p = 0; p < t->program.n_param; p++) {
        const struct parameter *param = &t->program.param[p];
        if (!param->trains) {
            continue;
        }
        int64_t n = param->n_shared, at = param->offset;
        how.weight_decay = param->decays ? train->weight_decay : 0.0;
        how.weight = (uint32_t)p + 1;
        how.gradient = how.weight + (uint32_t)t->program.n_param;
        t->ops->step(t->device, &how, n, trainer_gradients(t, 0) + at, t->parameters.weights + at,
                     t->parameters.moment_1 != NULL ? t->parameters.moment_1 + at : NULL,
                     t->parameters.moment_2 != NULL ? t->parameters.moment_2 + at : NULL);
        embeddings_step(t, p, &how);
    }
    t->ops->move(t->device, DEVICE_LANE_COMPUTE, &t->memory.shared->not_finite, &t->memory.now->not_finite,
                 sizeof t->memory.shared->not_finite);
    return STATUS_OK;
}

/* --- phases --- */

/* Where tests strike, by the step that comes. */
static void fault_strike(const struct trainer *t, const struct step *step)
{
    if (step->kind == STEP_KIND_UPDATE && !t->run.tentative) {
        FAULT(STEP);
    } else if (step->op < 0 || t->run.phase == STEP_PHASE_STATIC) {
        return;
    } else if (t->run.phase == STEP_PHASE_EVALUATE) {
        FAULT(EVALUATE);
    } else if (step->backward || step->recomputed) {
        FAULT(BACKWARD);
    } else {
        FAULT(FORWARD);
    }
}

/* Steps of the phase, one after another, up to `end`. */
static enum status steps_run(struct trainer *t, int s, int end)
{
    const struct step_list *list = &t->plan.steps.phase[t->run.phase];
    static enum status (*const runs[STEP_KIND_N])(struct trainer *, const struct step *) = {
        [STEP_KIND_FORWARD] = op_run,     [STEP_KIND_PARTIAL] = partial_run, [STEP_KIND_TOTAL] = total_run,
        [STEP_KIND_HALO] = halo_run,      [STEP_KIND_BEGIN] = halo_begin,    [STEP_KIND_JOIN] = halo_join,
        [STEP_KIND_BACKWARD] = op_run,    [STEP_KIND_LOSS] = loss_run,       [STEP_KIND_SCORE] = score_run,
        [STEP_KIND_REDUCE] = reduce_step, [STEP_KIND_UPDATE] = update_run,   [STEP_KIND_STORE] = homes_run,
        [STEP_KIND_STORED] = homes_run,   [STEP_KIND_FETCH] = homes_run,     [STEP_KIND_FETCHED] = homes_run,
    };
    for (int n = 1; s < end; s += n) {
        const struct step *step = &list->step[s];
        double begin_s = t->records.trace != NULL ? trace_step_begin(t->records.trace, s) : 0.0;
        n = step_span(step);
        if (t->run.tentative && step->kind == STEP_KIND_UPDATE) {
            continue;
        }
        enum status status = (step->n_chain > 0 ? chain_steps_run : runs[step->kind])(t, step);
        if (status != STATUS_OK) {
            return status;
        }
        status = t->routes.stale != NULL ? stale_progress(t) : STATUS_OK;
        if (status != STATUS_OK) {
            return status;
        }
        pin_discard(t, step[n - 1].time);
        if (t->records.trace != NULL) {
            trace_step_end(t->records.trace, begin_s);
        }
    }
    return STATUS_OK;
}

static enum status phase_run(struct trainer *t, const struct step_list *list)
{
    enum status status = STATUS_OK;
    for (int s = 0, end = 0; s < list->n_step && status == STATUS_OK; s = end) {
        int until = recording_end(t, list, s);
        end = until > s ? until : s + step_span(&list->step[s]);
        for (int k = s; k < end; k++) {
            fault_strike(t, &list->step[k]);
        }
        status = until > s ? recording_run(t, s, end, steps_run) : steps_run(t, s, end);
    }
    t->records.recording[t->run.phase].n_run++;
    return status;
}

enum status trainer_run(struct trainer *t, enum step_phase phase)
{
    t->run.phase = phase;
    t->run.training = phase == STEP_PHASE_TRAIN;
    traffic_phase(t->records.traffic, phase, t->run.tentative);
    now_put(t);
    t->ops->poll(t->device, poll, t);
    enum status status = t->run.training && t->routes.sample != NULL
                             ? sample_draw(t->routes.sample, t->run.epoch, &t->run.level)
                             : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    if (t->records.trace != NULL) {
        trace_begin(t->records.trace, phase, t->run.epoch);
    }
    status = phase_run(t, &t->plan.steps.phase[phase]);
    return status == STATUS_OK ? device_sync(t->device) : status;
}

enum status trainer_epoch(struct trainer *t, uint32_t epoch, bool train, bool evaluate, struct trainer_report *out)
{
    double start = clock_s();
    const struct exchange_counts before = exchange_counts(t->setup.exchange);
    int64_t n_call = memory_n_call();
    *out = (struct trainer_report){0};
    traffic_epoch(t->records.traffic);
    t->run.epoch = epoch;
    t->run.level = level_at(t->setup.job, epoch, t->run.n_back_off);
    t->run.level_before = t->run.level.stale ? level_before(t->setup.job, epoch) : level_exact();
    t->run.guard = (struct trainer_guard){0};
    enum status status = STATUS_OK;
    if (train) {
        const struct level level = t->run.level;
        int64_t n_wait = t->device->n_wait, n_replay = t->device->n_replay;
        status = guard_is_due(t) ? guard_run(t) : trainer_run(t, STEP_PHASE_TRAIN);
        out->n_wait = t->device->n_wait - n_wait;
        out->n_replay = t->device->n_replay > n_replay;
        const struct exchange_counts after = exchange_counts(t->setup.exchange);
        out->n_fetched = after.n_fetched - before.n_fetched;
        out->n_sent = after.n_sent - before.n_sent;
        out->n_staged = t->memory.staging != NULL ? after.n_carried - before.n_carried : 0;
        out->loss = status == STATUS_OK ? trainer_loss(t) : 0.0;
        out->grad_norm = t->memory.shared->grad_norm;
        out->not_finite = t->memory.shared->not_finite;
        if (t->routes.feedback != NULL) {
            feedback_settle(t, &level);
        }
    }
    if (status == STATUS_OK && isfinite(out->loss) && evaluate) {
        double trained = clock_s();
        status = trainer_run(t, STEP_PHASE_EVALUATE);
        memcpy(out->score, t->memory.shared->score, sizeof out->score);
        score_join(out->score);
        out->evaluate_s = clock_s() - trained;
    }
    status = status == STATUS_OK && t->routes.stale != NULL ? stale_settle(t) : status;
    out->n_call = memory_n_call() - n_call;
    out->epoch_s = clock_s() - start;
    const struct exchange_counts spent = exchange_counts(t->setup.exchange);
    out->wait_s = spent.wait_s - before.wait_s;
    out->pack_s = spent.pack_s - before.pack_s;
    out->compute_s = out->epoch_s - out->pack_s - out->wait_s;
    return status;
}

struct trainer_guard trainer_guard(const struct trainer *t)
{
    return t->run.guard;
}

int64_t trainer_n_back_off(const struct trainer *t)
{
    return t->run.n_back_off;
}
