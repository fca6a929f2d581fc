/* An attempt at a job, up to its last epoch: workers, training, and restarts in the foreground. */
#include "trainerd/coordinator/coordinator.h"

#include "partition/files/mapped.h"
#include "protocol/base/clock.h"
#include "protocol/base/memory.h"
#include "trainerd/base/restart.h"
#include "trainerd/coordinator/coordinator_state.h"
#include "trainerd/coordinator/epochs/interrupt.h"
#include "trainerd/coordinator/records/weights.h"

#include <stdlib.h>
#include <string.h>

/* --- workers --- */

static enum status ship(struct coordinator *c)
{
    struct part_encoder *encoder;
    enum status status = part_encoder_open(&c->dataset, &c->partition, &encoder);
    if (status != STATUS_OK) {
        return status;
    }
    for (int32_t part = 0; part < c->partition.n_part && status == STATUS_OK; part++) {
        void *bytes;
        size_t n_bytes;
        status = part_encoder_encode(encoder, part, &bytes, &n_bytes);
        if (status == STATUS_OK) {
            status = fleet_ship(c->workers.fleet, part, bytes, n_bytes);
            memory_release(MEMORY_OTHER, bytes, n_bytes, 1);
        }
    }
    part_encoder_close(encoder);
    return status;
}

static enum status resume(struct coordinator *c)
{
    for (int l = 0; l < LIBRARY_N; l++) {
        char warning[PATH_MAX + 128 + 2 * LIBRARY_TEXT_BYTES];
        const struct library_range now = c->training.libraries.of[l];
        if (checkpoint_library_differs(&c->checkpoint, (enum library)l, now, warning, sizeof warning)) {
            progress_print(&c->progress, "warning: %s", warning);
        }
    }
    enum status status = training_resume(&c->training, &c->checkpoint);
    checkpoint_release(&c->checkpoint);
    return status;
}

/* Replace the weights that the workers drew, by a checkpoint's, those of model.init or those to predict with. */
static enum status put_weights(struct coordinator *c)
{
    bool predicts = job_predicts(&c->job);
    if (c->options->resume) {
        return resume(c);
    }
    if (c->job.model.init[0] == '\0' && !predicts) {
        return STATUS_OK;
    }
    struct weights weights;
    enum status status = weights_open(&c->program, &weights);
    if (status != STATUS_OK) {
        return status;
    }
    size_t n_bytes = (size_t)c->program.n_weight * sizeof *weights.arena;
    status = weights_load(&weights, predicts ? c->source.weights : c->job.model.init, &c->job.names);
    if (status == STATUS_OK) {
        status = fleet_put(c->workers.fleet, WORKER_STATE_WEIGHTS, 0, weights.arena, n_bytes);
    }
    if (status == STATUS_OK) {
        status = embeddings_put(&c->embeddings, c->workers.fleet, WORKER_STATE_EMBEDDINGS, &weights);
    }
    weights_close(&weights);
    return status;
}

static void report_workers(struct coordinator *c)
{
    int32_t n = (int32_t)c->job.workers.count;
    struct events_worker *workers = memory_alloc((size_t)n, sizeof *workers);
    for (int32_t rank = 0; rank < n; rank++) {
        fleet_member(c->workers.fleet, (uint32_t)rank, &workers[rank].pid, &workers[rank].host);
    }
    events_workers(c->events, workers, n);
    free(workers);
}

/* Processes in namespaces of their own on one machine, as those of containers are. */
static void report_apart(struct coordinator *c)
{
    uint32_t one, other;
    char who[32] = "the coordinator";
    if (!fleet_apart(c->workers.fleet, &one, &other)) {
        return;
    }
    if (other < (uint32_t)c->job.workers.count) {
        snprintf(who, sizeof who, "worker %u", other);
    }
    progress_print(&c->progress,
                   "worker %u and %s are on one machine in different namespaces, as containers have them: what they "
                   "exchange goes over the network, not through shared memory",
                   one, who);
}

static void report_machines(struct coordinator *c)
{
    c->workers.machine_of_rank = memory_alloc((size_t)c->job.workers.count, sizeof *c->workers.machine_of_rank);
    fleet_machines(c->workers.fleet, c->workers.machine_of_rank);
    c->workers.cipher = seal_cipher_name(fleet_cipher(c->workers.fleet));
    if (fleet_cipher(c->workers.fleet) != SEAL_NONE) {
        progress_print(&c->progress, "messages of workers and coordinator are sealed: %s", c->workers.cipher);
    }
    report_apart(c);
}

/* A part's numbers then are those of the worker that has it. */
static void report_libraries(struct coordinator *c)
{
    uint32_t n = (uint32_t)c->job.workers.count;
    c->training.libraries = library_ranges_make(c->workers.libraries, n);
    for (int l = 0; l < LIBRARY_N; l++) {
        uint32_t first = c->workers.libraries[0].of[l], other = 0;
        while (other < n && c->workers.libraries[other].of[l] == first) {
            other++;
        }
        if (other < n) {
            progress_print(
                &c->progress,
                "warning: workers differ in %s, %s on worker 0 and %s on worker %u: results depend on which worker "
                "has which part",
                library_name((enum library)l), library_version_text(first).of,
                library_version_text(c->workers.libraries[other].of[l]).of, other);
        }
    }
}

static enum status start_fleet(struct coordinator *c)
{
    c->workers.memory = memory_alloc((size_t)c->job.workers.count, sizeof *c->workers.memory);
    c->workers.libraries = memory_alloc((size_t)c->job.workers.count, sizeof *c->workers.libraries);
    const struct fleet_setup setup = {.stop = &interrupt_now, .attempt = c->options->attempt, .events = c->events};
    enum status status = fleet_open(&c->job, &setup, &c->workers.fleet);
    c->training.fleet = c->workers.fleet;
    if (status == STATUS_OK) {
        report_workers(c);
        report_machines(c);
    }
    return status;
}

static enum status place(struct coordinator *c)
{
    enum status status = fleet_place(c->workers.fleet, c->partition.n_part, c->parts.rank_of_part);
    coordinator_phase_end(c, RESULT_PHASE_START);
    return status;
}

static enum status ship_parts(struct coordinator *c)
{
    enum status status = mapped_check(ship(c));
    coordinator_phase_end(c, RESULT_PHASE_SHIP);
    return status;
}

/* What is held out, and edges that are known where others are ranked among all nodes. */
static enum status keep_links(struct coordinator *c)
{
    struct training_links *links = &c->training.links;
    enum status status = score_held_copy(&c->dataset.links, &links->held);
    for (int split = 0; split < LINKS_SPLIT_N && status == STATUS_OK; split++) {
        if (links->held.held[split].among_all) {
            status = links_known_held(&c->dataset, (enum links_split)split, &links->known[split]);
        }
    }
    return status;
}

/* The last use of the dataset's arrays. */
static enum status begin_training(struct coordinator *c)
{
    enum status status = STATUS_OK;
    char fingerprint[33];
    dataset_fingerprint(&c->dataset, true, fingerprint);
    training_begin(&c->training, fingerprint, training_partition_hash(&c->partition));
    if (c->dataset.of_links) {
        status = keep_links(c);
    } else if (score_any_takes_rows(&c->training.metrics) || coordinator_counts_classes(c) ||
               c->job.output.probabilities) {
        status = score_labels_copy(&c->dataset, &c->training.labels);
    }
    status = mapped_check(status);
    dataset_release(&c->dataset);
    return status;
}

static enum status await_workers(struct coordinator *c)
{
    enum status status = fleet_ready(c->workers.fleet, c->workers.memory, &c->training.floats.n_weight,
                                     c->workers.libraries);
    if (status != STATUS_OK) {
        return status;
    }
    report_libraries(c);
    for (int64_t rank = 0; rank < c->job.workers.count; rank++) {
        c->training.memory += memory_sum(
            c->workers.memory[rank].measured.bytes[c->plan.apart ? MEMORY_PLACE_DEVICE : MEMORY_PLACE_HOST]);
    }
    if (c->training.floats.n_weight != c->program.n_weight) {
        return status_fail(STATUS_BUG, "the workers have %lld weights: expected %lld",
                           (long long)c->training.floats.n_weight, (long long)c->program.n_weight);
    }
    return STATUS_OK;
}

static void print_workers(struct coordinator *c)
{
    int64_t most = 0;
    for (int32_t rank = 0; rank < c->plan.n_worker; rank++) {
        most = c->plan.worker[rank].total > most ? c->plan.worker[rank].total : most;
    }
    char left_out[64] = "";
    bool predicts = job_predicts(&c->job);
    if (c->parts.prune.n_hop > 0 && !predicts) {
        snprintf(left_out, sizeof left_out, ", %.0f %% of an epoch's work left out", 100.0 * c->parts.prune.left_out);
    }
    progress_print(&c->progress, "%s: at most %s of %smemory%s, %s%s%s sent%s%s",
                   figure_count(c->plan.n_worker, "worker").text, figure_bytes(most).text,
                   c->plan.apart ? "GPU " : "", c->plan.n_worker == 1 ? "" : " each",
                   predicts ? "" : figure_bytes(c->plan.n_wire).text, predicts ? "" : " per epoch and ",
                   figure_bytes(c->plan.n_wire_evaluate).text, predicts ? "" : " per evaluation", left_out);
}

/* --- the files of this attempt --- */

/* What an earlier run has left, and metrics.jsonl. */
static enum status begin_output(struct coordinator *c)
{
    coordinator_phase_end(c, RESULT_PHASE_PREPARE);
    enum status status = output_clear(&c->output, c->options->resume);
    if (status == STATUS_OK && c->options->resume) {
        status = run_folder_continue(&c->run);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return output_metrics_open(&c->output, c->training.state.n_metrics_bytes);
}

static enum status lead_to_run(struct coordinator *c)
{
    char remark[2 * PATH_MAX + 128];
    run_folder_lead(&c->run, remark, sizeof remark);
    if (remark[0] != '\0') {
        progress_print(&c->progress, "%s", remark);
    }
    return STATUS_OK;
}

static enum status begin_tensorboard(struct coordinator *c)
{
    if (!c->job.output.tensorboard) {
        return STATUS_OK;
    }
    char *text = job_print(&c->job);
    enum status status = tensorboard_begin(&c->tensorboard, &c->output.dir, text);
    free(text);
    return status;
}

static enum status run_epochs(struct coordinator *c)
{
    interrupt_mode(INTERRUPT_MODE_FINISH);
    events_state(c->events, "RUNNING");
    enum status status = job_predicts(&c->job) ? training_predict(&c->training, &c->result.scores)
                                               : training_run(&c->training);
    progress_end(&c->progress);
    return status;
}

static void stop_tensorboard(struct coordinator *c, bool is_whole)
{
    char failure[PATH_MAX + 64];
    tensorboard_end(&c->tensorboard, is_whole, failure, sizeof failure);
    if (failure[0] != '\0') {
        progress_print(&c->progress, "warning: %s: 'python3 -m trainerd tensorboard %s' writes it again", failure,
                       run_folder_results(&c->run));
    }
}

static enum status end_tensorboard(struct coordinator *c)
{
    stop_tensorboard(c, true);
    return STATUS_OK;
}

/* What the training borrows of the coordinator. */
static enum status settle_training(struct coordinator *c)
{
    c->training.job = &c->job;
    c->training.links.program = &c->program;
    c->training.output = &c->output;
    c->training.progress = &c->progress;
    c->training.partition = &c->partition;
    c->training.events = c->events;
    c->training.stop = &interrupt_asked;
    c->training.save = &interrupt_checkpoint;
    c->training.n_class = c->sizes.facts.n_class;
    c->training.multi_label = c->sizes.facts.multi_label;
    return STATUS_OK;
}

static enum status train(struct coordinator *c)
{
    static coordinator_step *const steps[] = {
        settle_training, start_fleet,     place,        ship_parts,  begin_training,
        await_workers,   put_weights,     begin_output, lead_to_run, begin_tensorboard,
        run_epochs,      end_tensorboard, NULL};
    print_workers(c);
    events_state(c->events, "STARTING");
    interrupt_mode(INTERRUPT_MODE_STOP);
    enum status status = coordinator_steps(c, steps);
    double *spent = c->result.phase_s;
    coordinator_phase_end(c, RESULT_PHASE_TRAIN);
    spent[RESULT_PHASE_EVALUATE] = c->training.spent.evaluate_s;
    spent[RESULT_PHASE_CHECKPOINT] = c->training.spent.checkpoint_s;
    spent[RESULT_PHASE_TRAIN] -= c->training.spent.evaluate_s + c->training.spent.checkpoint_s;
    return status;
}

static enum status check_limit(struct coordinator *c)
{
    return plan_check_limit(&c->plan, &c->job);
}

static enum status evaluate(struct coordinator *c)
{
    return training_predict(&c->training, &c->result.scores);
}

enum status coordinator_evaluate(struct coordinator *c)
{
    static coordinator_step *const steps[] = {coordinator_plan, check_limit,    settle_training, start_fleet, place,
                                              ship_parts,       begin_training, await_workers,   evaluate,    NULL};
    return coordinator_steps(c, steps);
}

/* --- attempts --- */

/* What the next coordinator needs, should this one die. */
static void remember(const struct coordinator *c)
{
    struct restart_memo *memo = c->options->memo;
    if (memo != NULL) {
        memo->n_restart_most = c->job.workers.max_restarts;
        memcpy(memo->dir, c->run.dir, sizeof memo->dir);
        memcpy(memo->base, c->run.base, sizeof memo->base);
    }
}

/* Has an earlier coordinator of the job saved anything? */
static bool has_saved(const struct restart_memo *memo)
{
    char path[PATH_MAX];
    return memo->dir[0] != '\0' && snprintf(path, sizeof path, "%s/checkpoint", memo->dir) < PATH_MAX &&
           checkpoint_exists(path);
}

static enum status publish(struct coordinator *c)
{
    return run_folder_publish(&c->run);
}

static enum status open_folder(struct coordinator *c)
{
    enum status status = run_folder_open(&c->run, &c->output);
    if (status == STATUS_OK) {
        remember(c);
    }
    return status;
}

/* Of a prediction the model decides on the exchange. */
static enum status print_plan(struct coordinator *c)
{
    struct plan_exact exact[PLAN_N_EXACT];
    struct plan_fewest fewest;
    struct plan_input input = coordinator_plan_input(c);
    if (!job_predicts(&c->job)) {
        enum status status = coordinator_exact(c, exact);
        if (status == STATUS_OK) {
            status = coordinator_fewest(c, &fewest);
        }
        if (status != STATUS_OK) {
            return status;
        }
        input.exact = exact;
        input.fewest = &fewest;
    }
    char *passes = NULL;
    enum status status = c->options->program ? coordinator_passes(c, &passes) : STATUS_OK;
    if (status == STATUS_OK) {
        input.passes = passes;
        status = c->options->json ? plan_print_json(&input, &c->plan, stdout) : plan_print(&input, &c->plan, stderr);
    }
    free(passes);
    return status;
}

/* Propagations follow a training that is saved, and whose workers have ended. */
static bool is_saved(const struct coordinator *c)
{
    return c->training.has_saved && c->training.fleet == NULL;
}

static enum status run(struct coordinator *c)
{
    static coordinator_step *const steps[] = {check_limit, open_folder, train, coordinator_write_results,
                                              publish,     NULL};
    events_state(c->events, "PREPARING");
    enum status status = coordinator_prepare(c);
    if (status != STATUS_OK) {
        return status;
    }
    if (c->run.is_done) {
        progress_print(&c->progress, "an earlier attempt has left its results in '%s'", run_folder_results(&c->run));
        return publish(c);
    }
    if (c->options->plan) {
        return print_plan(c);
    }
    status = coordinator_steps(c, steps);
    if (status == STATUS_OK) {
        coordinator_print_end(c);
    } else if (status == STATUS_INTERRUPTED && interrupt_now != 0 && !is_saved(c)) {
        status = status_fail(status, "%s after %s, too soon to write a checkpoint", status_reason(),
                             figure_count(c->training.state.n_epoch, "epoch").text);
    }
    return status;
}

void coordinator_close(struct coordinator *c, enum status status)
{
    bool is_done = status == STATUS_OK;
    if (status == STATUS_INTERRUPTED && c->workers.fleet != NULL && c->job.workers.launcher == JOB_LAUNCHER_MANUAL) {
        fleet_interrupt(c->workers.fleet);
    }
    fleet_close(c->workers.fleet);
    stop_tensorboard(c, false);
    output_close(&c->output, is_done);
    score_labels_release(&c->training.labels);
    score_held_release(&c->training.links.held);
    for (int split = 0; split < LINKS_SPLIT_N; split++) {
        links_known_release(&c->training.links.known[split]);
    }
    score_confusion_release(&c->result.confusion);
    embeddings_release(&c->embeddings);
    splits_release(&c->drawn);
    free(c->parts.n_buffer);
    plan_release(&c->plan);
    program_release(&c->program);
    part_sizes_release(c->parts.sizes, c->partition.n_part);
    partition_release(&c->partition);
    dataset_release(&c->dataset);
    links_asked_release(&c->asked);
    checkpoint_release(&c->checkpoint);
    free(c->parts.rank_of_part);
    free(c->workers.machine_of_rank);
    part_dedup_release(&c->parts.dedup);
    free(c->workers.memory);
    free(c->workers.libraries);
    free(c->result.traffic.table);
    free(c);
}

/* The facts of an attempt that decide about the next one. */
struct attempt_end {
    struct run_folder run; /* a restart in the foreground goes on in it */
    bool has_saved;        /* a checkpoint of this job exists */
};

static enum status attempt(const struct coordinator_options *options, struct events *events, struct attempt_end *end)
{
    struct coordinator *c = memory_alloc(1, sizeof *c);
    c->options = options;
    c->events = events;
    c->run = end->run;
    c->start_s = c->phase_start_s = clock_s();
    c->output.dir.file = c->output.metrics = -1;
    progress_init(&c->progress, stderr, progress_is_terminal(stderr));
    if (options->attempt != 0) {
        progress_print(&c->progress, "attempt %u", options->attempt);
    }
    enum status status = run(c);
    progress_end(&c->progress);
    end->has_saved = end->has_saved || c->training.has_saved;
    /* Closing may fail, too; the first reason is reported. */
    char reason[STATUS_REASON_BYTES];
    snprintf(reason, sizeof reason, "%s", status_reason());
    end->run = c->run;
    coordinator_close(c, status);
    run_folder_close(&end->run, status == STATUS_OK);
    return status == STATUS_OK ? STATUS_OK : status_fail_lines(status, reason);
}

/* A job without a supervisor: begin again as often as the restart policy allows. */
static enum status attempts(const struct coordinator_options *options)
{
    struct restart_memo own = {0}, *memo = options->memo != NULL ? options->memo : &own;
    struct coordinator_options now = *options;
    struct attempt_end end = {.has_saved = options->resume || has_saved(memo)};
    const struct restart_backoff at_once = {0};
    now.memo = memo;
    for (;;) {
        now.resume = end.has_saved;
        enum status status = attempt(&now, NULL, &end);
        const struct restart_failure failure = {
            .status = status, .n_restart = memo->n_restart, .n_restart_most = memo->n_restart_most};
        if (interrupt_asked != 0 || !restart_decide(RESTART_RUNNER_FOREGROUND, &at_once, &failure).restarts) {
            return status;
        }
        memo->n_restart++;
        fprintf(stderr, "lost: %s; restart %lld of %lld, from %s\n", status_reason(), (long long)memo->n_restart,
                (long long)memo->n_restart_most, end.has_saved ? "the last checkpoint" : "the beginning");
        interrupt_mode(INTERRUPT_MODE_EXIT);
    }
}

enum status coordinator_run(const struct coordinator_options *options)
{
    if (options->folder == NULL) {
        return attempts(options);
    }
    struct events *events;
    struct attempt_end end = {0};
    struct job_files by_name = {.most_bytes = INT64_MAX};
    struct coordinator_options now = *options;
    now.files = options->files != NULL ? options->files : &by_name;
    enum status status = events_open(now.folder, now.attempt, now.files, now.waits, &events);
    if (status == STATUS_OK) {
        status = attempt(&now, events, &end);
        events_end(events, status);
        events_close(events);
    }
    return status;
}
