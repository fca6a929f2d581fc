#include "trainerd/coordinator/epochs/training.h"

#include "protocol/base/clock.h"
#include "protocol/base/fault.h"
#include "protocol/base/memory.h"
#include "protocol/job/schedule.h"
#include "trainerd/coordinator/epochs/divergence.h"
#include "trainerd/coordinator/epochs/guard.h"
#include "trainerd/coordinator/epochs/patience.h"
#include "trainerd/coordinator/epochs/plateau.h"
#include "trainerd/coordinator/epochs/training_arrays.h"
#include "trainerd/coordinator/records/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

uint64_t training_partition_hash(const struct partition *partition)
{
    uint64_t begin = XXH3_64bits(partition->part_begin,
                                 ((size_t)partition->n_part + 1) * sizeof *partition->part_begin);
    return XXH3_64bits_withSeed(partition->order, (size_t)partition->n_node * sizeof *partition->order, begin);
}

/* Nothing is known. */
static struct checkpoint_score score_none(void)
{
    struct checkpoint_score score = {.loss = NAN, .valid_loss = NAN};
    for (int i = 0; i < JOB_CHOICES_MOST; i++) {
        score.of[i] = (struct checkpoint_metric){NAN, NAN, NAN};
    }
    return score;
}

void training_begin(struct training *training, const char *dataset, uint64_t partition)
{
    const struct checkpoint_score none = score_none();
    training->state = (struct checkpoint_state){.best_epoch = -1, .best = none, .last = none, .partition = partition};
    guard_begin(&training->state);
    patience_begin(&training->state);
    plateau_begin(training->job, &training->state);
    snprintf(training->state.dataset, sizeof training->state.dataset, "%s", dataset);
    if (training->content != NULL) {
        memcpy(training->state.content, training->content, sizeof training->state.content);
    }
    training->is_scored = false;
}

static double rate_factor(const struct training *training)
{
    return plateau_factor(training->job, &training->state);
}

static enum status rate_put(const struct training *training)
{
    double factor = rate_factor(training);
    return fleet_put(training->fleet, WORKER_STATE_RATE, 0, &factor, sizeof factor);
}

/* State and arrays of a checkpoint of this job, and where its guard stands. */
static enum status restore(struct training *training, const struct checkpoint *checkpoint)
{
    const struct checkpoint_state *state = &checkpoint->state;
    if (strcmp(state->dataset, training->state.dataset) != 0) {
        return status_fail(STATUS_DATA,
                           "cannot resume: the graph in '%s' is not the one of checkpoint '%s': expected the "
                           "same nodes and edges",
                           training->job->dataset.path, checkpoint->path);
    }
    if (state->partition != training->state.partition) {
        return status_fail(STATUS_DATA,
                           "cannot resume: the graph is now cut into other parts than in checkpoint '%s': "
                           "expected the same nodes in each",
                           checkpoint->path);
    }
    training->state = *state;
    enum status status = STATUS_OK;
    for (int i = 0; i < CHECKPOINT_ARRAY_N && status == STATUS_OK; i++) {
        enum checkpoint_array array = (enum checkpoint_array)i;
        int64_t n = training_array_floats(training, array);
        if (n == 0) {
            continue;
        }
        if (checkpoint->n_float[i] != n) {
            return status_fail(STATUS_DATA, "cannot resume: checkpoint '%s' has %lld numbers of %s: expected %lld",
                               checkpoint->path, (long long)checkpoint->n_float[i], checkpoint_array_name(array),
                               (long long)n);
        }
        status = training_array_put(training, array, checkpoint->array[i]);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return guard_restore(training);
}

enum status training_resume(struct training *training, const struct checkpoint *checkpoint)
{
    enum status status = restore(training, checkpoint);
    bool is_slowed = rate_factor(training) != 1.0;
    return status == STATUS_OK && is_slowed ? rate_put(training) : status;
}

/* --- scoring --- */

static enum status score(struct training *training, const struct fleet_report *report, struct checkpoint_score *out)
{
    struct training_scores found;
    enum status status = training_score(training, report, DATASET_SPLIT_TRAIN, DATASET_SPLIT_TEST, &found);
    out->valid_loss = found.valid_loss;
    for (int i = 0; i < training->metrics.n && status == STATUS_OK; i++) {
        const double *of = found.of[i];
        out->of[i] = (struct checkpoint_metric){of[DATASET_SPLIT_TRAIN], of[DATASET_SPLIT_VALID],
                                                of[DATASET_SPLIT_TEST]};
    }
    return status;
}

/* The best model by the first metric of the validation split; of equals, the earlier one. Without such a split it is
 * the last: the training split would choose the one that has learned it by heart. */
static bool is_better(const struct training *training, const struct checkpoint_score *now)
{
    const struct checkpoint_state *state = &training->state;
    double valid = now->of[0].valid, best = state->best.of[0].valid;
    bool better = job_metric_falls((enum job_metric)training->metrics.of[0]) ? valid < best : valid > best;
    return state->best_epoch < 0 || better || isnan(best);
}

/* The learning rate may fall after it. */
static enum status note_plateau(struct training *training, int64_t epoch, const struct checkpoint_score *now)
{
    struct checkpoint_state *state = &training->state;
    const struct job_train *train = &training->job->train;
    if (!plateau_note(training, epoch, now, state)) {
        return STATUS_OK;
    }
    progress_print(training->progress, "epoch %lld: no better valid %s in %s; the learning rate falls to %g",
                   (long long)epoch, job_choice_text("train", "lr_monitor", train->lr_monitor),
                   figure_count(train->lr_patience + 1, "evaluation").text,
                   schedule_lr(training->job, (uint32_t)epoch) * rate_factor(training));
    return rate_put(training);
}

static enum status note_evaluation(struct training *training, int64_t epoch, const struct checkpoint_score *now)
{
    struct checkpoint_state *state = &training->state;
    training->is_scored = true;
    patience_note(training, now, state);
    if (!is_better(training, now)) {
        return STATUS_OK;
    }
    state->best = *now;
    state->best_epoch = epoch;
    return fleet_keep_best(training->fleet);
}

/* --- checkpoints --- */

/* The last number of epochs up to n_epoch after which train.checkpoint_every writes one. */
static int64_t regular_before(const struct training *training, int64_t n_epoch)
{
    int64_t every = training->job->train.checkpoint_every;
    return every > 0 ? n_epoch - n_epoch % every : 0;
}

/* The epochs of the checkpoint that a diverging job returns to; -1: none. A checkpoint on request does not count, so
 * that it does not change the job's numbers. */
static int64_t rollback_target(const struct training *training)
{
    return training->job->train.on_nan == JOB_ON_NAN_ROLLBACK ? training->n_regular : -1;
}

static enum status save_arrays(struct training *training, struct checkpoint *checkpoint, float *buffer)
{
    enum status status = STATUS_OK;
    float *to = buffer;
    for (int i = 0; i < CHECKPOINT_ARRAY_N && status == STATUS_OK; i++) {
        if (checkpoint->n_float[i] > 0) {
            status = training_array_get(training, (enum checkpoint_array)i, to);
            checkpoint->array[i] = to;
            to += checkpoint->n_float[i];
        }
    }
    if (status != STATUS_OK ||
        (status = divergence_weights(training->links.program, buffer, training->state.n_epoch - 1)) != STATUS_OK) {
        return status;
    }
    FAULT(CHECKPOINT);
    struct dir folder = {.file = -1};
    /* The lines that the checkpoint counts must be on the disk before it. */
    status = output_metrics_sync(training->output);
    if (status == STATUS_OK &&
        (status = dir_inner(&training->output->dir, "checkpoint", true, &folder)) == STATUS_OK) {
        status = checkpoint_save(&folder, checkpoint, rollback_target(training));
    }
    dir_close(&folder);
    return status;
}

enum status training_save(struct training *training)
{
    double start = clock_s();
    struct checkpoint checkpoint = {.libraries = training->libraries};
    size_t n = 0;
    for (int i = 0; i < CHECKPOINT_ARRAY_N; i++) {
        checkpoint.n_float[i] = training_array_floats(training, (enum checkpoint_array)i);
        n += (size_t)checkpoint.n_float[i];
    }
    float *buffer;
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *buffer, &buffer);
    if (status != STATUS_OK) {
        return status;
    }
    training->state.n_metrics_bytes = training->output->n_metrics_bytes;
    char *job = job_print(training->job);
    checkpoint.state = training->state;
    checkpoint.job = job;
    checkpoint.n_job = strlen(job);
    status = save_arrays(training, &checkpoint, buffer);
    free(job);
    memory_release(MEMORY_OTHER, buffer, n, sizeof *buffer);
    if (status == STATUS_OK) {
        training->has_saved = true;
        bool is_regular = regular_before(training, training->state.n_epoch) == training->state.n_epoch;
        training->n_regular = is_regular ? training->state.n_epoch : training->n_regular;
        events_checkpoint(training->events, training->state.n_epoch, training->output->dir.path);
    }
    training->spent.checkpoint_s += clock_s() - start;
    return status;
}

/* Every train.checkpoint_every epochs, at the end, and on request. */
static bool is_checkpoint_due(struct training *training)
{
    const struct job_train *train = &training->job->train;
    int64_t n_epoch = training->state.n_epoch;
    bool is_regular = n_epoch == train->epochs || n_epoch == regular_before(training, n_epoch);
    bool is_asked = training->save != NULL && *training->save != 0;
    if (is_asked) {
        *training->save = 0; /* before the state is read: a later request causes another checkpoint */
    }
    return is_asked || (train->checkpoint_every > 0 && is_regular);
}

/* --- the loop --- */

/* After its numbers are in the state: on the console, and as an event. */
static void show_epoch(struct training *training, const struct fleet_report *report, bool is_evaluated)
{
    const struct checkpoint_state *state = &training->state;
    struct progress_epoch seen = {.n_done = state->n_epoch,
                                  .is_evaluated = is_evaluated,
                                  .loss = state->last.loss,
                                  .train_metric = state->last.of[0].train,
                                  .valid_metric = state->last.of[0].valid,
                                  .test_metric = state->last.of[0].test,
                                  .best_valid_metric = state->best_epoch >= 0 ? state->best.of[0].valid : NAN,
                                  .best_test_metric = state->best_epoch >= 0 ? state->best.of[0].test : NAN,
                                  .epoch_s = report->epoch_s,
                                  .compute_s = report->compute_s,
                                  .pack_s = report->pack_s,
                                  .wait_s = report->wait_s,
                                  .evaluate_s = report->evaluate_s,
                                  .bytes_sent = (double)report->bytes_sent,
                                  .bytes_received = (double)report->bytes_received,
                                  .memory = (double)training->memory};
    double now_s = clock_s();
    for (int i = 0; i < training->metrics.n; i++) {
        seen.valid_of[i] = state->last.of[i].valid;
    }
    progress_epoch(training->progress, &seen, now_s);
    events_epoch(training->events, training->progress, (enum job_metric)training->metrics.of[0], now_s);
}

static enum status run_epoch(struct training *training, int64_t epoch)
{
    const struct job_train *train = &training->job->train;
    struct checkpoint_state *state = &training->state;
    struct fleet_report report = {0};
    bool is_last = epoch + 1 == train->epochs;
    bool evaluate = is_last || (train->eval_every > 0 && (epoch + 1) % train->eval_every == 0);
    struct checkpoint_score now = score_none();
    double lr = schedule_lr(training->job, (uint32_t)epoch) * rate_factor(training);

    training->is_scored = false;
    enum status status = fleet_epoch(training->fleet, (uint32_t)epoch, true, evaluate, &report);
    if (status == STATUS_OK && (status = divergence_find(training, &report, epoch, evaluate)) == STATUS_OK) {
        status = guard_note(training, epoch);
    }
    now.loss = report.loss;
    if (status == STATUS_OK && evaluate && (status = score(training, &report, &now)) == STATUS_OK &&
        (status = note_evaluation(training, epoch, &now)) == STATUS_OK) {
        status = note_plateau(training, epoch, &now);
    }
    if (status == STATUS_OK) {
        const struct metrics_epoch left = {.epoch = epoch,
                                           .score = now,
                                           .state = state,
                                           .job = training->job,
                                           .metrics = &training->metrics,
                                           .report = &report,
                                           .fleet = training->fleet,
                                           .lr = lr};
        status = metrics_write(training->output, &left);
    }
    if (status != STATUS_OK) {
        return status;
    }
    state->last = now;
    state->n_epoch = epoch + 1;
    state->train_s += report.epoch_s;
    state->n_sent += (int64_t)report.bytes_sent;
    state->n_received += (int64_t)report.bytes_received;
    state->n_call += (int64_t)report.n_call;
    training->spent.waits = fleet_waits_most(&training->spent.waits, &report.waits);
    training->spent.n_replay += report.n_replay;
    training->spent.n_staged = report.n_staged > training->spent.n_staged ? report.n_staged
                                                                          : training->spent.n_staged;
    show_epoch(training, &report, evaluate);
    return is_checkpoint_due(training) ? training_save(training) : STATUS_OK;
}

/* The present weights were not evaluated in this run: there was no epoch to train. */
static enum status evaluate_only(struct training *training)
{
    struct fleet_report report = {0};
    double start = clock_s();
    enum status status = fleet_epoch(training->fleet, (uint32_t)training->state.n_epoch, false, true, &report);
    struct checkpoint_score now = score_none();
    if (status == STATUS_OK) {
        status = score(training, &report, &now);
    }
    if (status != STATUS_OK) {
        return status;
    }
    training->spent.evaluate_s += clock_s() - start;
    training->is_scored = true;
    now.loss = training->state.n_epoch > 0 ? training->state.last.loss
                                           : score_loss(report.score[DATASET_SPLIT_TRAIN]);
    training->state.last = now;
    if (training->state.best_epoch >= 0 && !isnan(training->state.best.of[0].valid)) {
        return STATUS_OK;
    }
    training->state.best = now;
    training->state.best_epoch = training->state.n_epoch - 1;
    return fleet_keep_best(training->fleet);
}

enum status training_evaluate_best(struct training *training)
{
    struct checkpoint_state *state = &training->state;
    struct fleet_report report;
    if (state->best_epoch < 0 || state->best_epoch == state->n_epoch - 1) {
        return STATUS_OK;
    }
    double start = clock_s();
    size_t n = (size_t)training_array_floats(training, CHECKPOINT_ARRAY_WEIGHTS);
    float *weights;
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *weights, &weights);
    if (status != STATUS_OK) {
        return status;
    }
    status = training_array_get(training, CHECKPOINT_ARRAY_BEST, weights);
    if (status == STATUS_OK) {
        status = training_array_put(training, CHECKPOINT_ARRAY_WEIGHTS, weights);
    }
    memory_release(MEMORY_OTHER, weights, n, sizeof *weights);
    if (status == STATUS_OK) {
        status = fleet_epoch(training->fleet, (uint32_t)state->n_epoch, false, true, &report);
    }
    training->spent.evaluate_s += clock_s() - start;
    return status;
}

/* Return to the last checkpoint with half the learning rate, because of status_reason. */
static enum status roll_back(struct training *training)
{
    const struct job_train *train = &training->job->train;
    char reason[512], folder[PATH_MAX];
    struct checkpoint checkpoint;
    int64_t n_rollback = training->state.n_rollback + 1;
    snprintf(reason, sizeof reason, "%s", status_reason());
    if (n_rollback > train->max_rollbacks) {
        return status_fail(STATUS_TRAINING, "%s; %lld rollbacks (train.max_rollbacks) did not help", reason,
                           (long long)train->max_rollbacks);
    }
    enum status status = output_path(training->output, "checkpoint", folder);
    if (status != STATUS_OK || (status = checkpoint_load(folder, training->n_regular, &checkpoint)) != STATUS_OK) {
        return status;
    }
    status = restore(training, &checkpoint);
    checkpoint_release(&checkpoint);
    training->state.n_rollback = n_rollback;
    if (status == STATUS_OK && (status = rate_put(training)) == STATUS_OK) {
        status = output_metrics_cut(training->output, training->state.n_metrics_bytes);
    }
    if (status == STATUS_OK) {
        progress_print(training->progress, "%s; back to %s with the learning rate times %g (%lld of %lld)", reason,
                       figure_count(training->state.n_epoch, "epoch").text, rate_factor(training),
                       (long long)n_rollback, (long long)train->max_rollbacks);
        events_rollback(training->events, training->state.n_epoch, n_rollback, reason);
    }
    return status;
}

static enum status interrupted(struct training *training)
{
    enum status status = training_save(training);
    if (status != STATUS_OK) {
        return status;
    }
    return status_fail(STATUS_INTERRUPTED,
                       "interrupted after %lld of %lld epochs: checkpoint saved in '%s/checkpoint', "
                       "--resume continues from there",
                       (long long)training->state.n_epoch, (long long)training->job->train.epochs,
                       training->output->dir.path);
}

/* Remove checkpoints that are not needed; a job with rollbacks needs one from its first epoch on. */
static enum status begin_checkpoints(struct training *training)
{
    const struct checkpoint_state *state = &training->state;
    struct dir folder;
    training->n_regular = regular_before(training, state->n_epoch);
    if (dir_inner(&training->output->dir, "checkpoint", false, &folder) == STATUS_OK) {
        checkpoint_prune(&folder, state->n_epoch, rollback_target(training));
        dir_close(&folder);
    }
    bool is_needed = training->job->train.on_nan == JOB_ON_NAN_ROLLBACK && state->n_epoch == 0;
    return is_needed ? training_save(training) : STATUS_OK;
}

enum status training_run(struct training *training)
{
    const struct job_train *train = &training->job->train;
    struct checkpoint_state *state = &training->state;
    progress_begin(training->progress, state->n_epoch, train->epochs, train->eval_every, clock_s());
    training->end = TRAINING_END_EPOCHS;
    bool goes_back = train->on_nan == JOB_ON_NAN_ROLLBACK;
    enum status status = begin_checkpoints(training);
    while (status == STATUS_OK && state->n_epoch < train->epochs) {
        if (patience_is_over(training->job, state)) {
            training->end = TRAINING_END_PATIENCE;
            break;
        }
        if (*training->stop != 0) {
            return interrupted(training);
        }
        status = run_epoch(training, state->n_epoch);
        if (status == STATUS_TRAINING && goes_back) {
            status = roll_back(training);
        }
    }
    return status != STATUS_OK || training->is_scored ? status : evaluate_only(training);
}
