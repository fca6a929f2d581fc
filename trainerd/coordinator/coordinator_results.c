/* The end of a job: result files and the closing lines; and the clock of its phases. */
#include "trainerd/coordinator/coordinator_state.h"
#include "trainerd/coordinator/epochs/patience.h"

#include "partition/files/npy_header.h"
#include "protocol/base/clock.h"
#include "protocol/base/fault.h"
#include "protocol/base/memory.h"
#include "trainerd/coordinator/records/trace.h"
#include "trainerd/coordinator/records/weights.h"

#include <math.h>
#include <string.h>

double coordinator_phase_end(struct coordinator *c, enum result_phase phase)
{
    double now = clock_s(), spent = now - c->phase_start_s;
    c->result.phase_s[phase] += spent;
    c->phase_start_s = now;
    return spent;
}

static enum status write_weights(struct coordinator *c, enum worker_state state, enum worker_state embeddings,
                                 const char *name)
{
    struct weights weights;
    enum status status = weights_open(&c->program, &weights);
    if (status != STATUS_OK) {
        return status;
    }
    status = fleet_get(c->workers.fleet, state, 0, weights.arena,
                       (size_t)c->program.n_weight * sizeof *weights.arena);
    weights_take(&weights);
    if (status == STATUS_OK &&
        (status = embeddings_get(&c->embeddings, c->workers.fleet, embeddings, &weights)) == STATUS_OK) {
        status = weights_save(&weights, &c->output.dir, name);
    }
    weights_close(&weights);
    return status;
}

struct rows_file {
    struct coordinator *coordinator;
    const char *name;
    enum worker_state what;
    int64_t width;
    enum status (*finish)(struct coordinator *c, float *rows);
    char header[256];
    size_t n_header; /* a multiple of 64 */
};

/* Nodes for which the model gives what is no number, though its loss and weights are some. */
static void rows_look(const struct rows_file *file, const float *rows)
{
    struct coordinator *c = file->coordinator;
    int64_t n_bad = 0, first = -1;
    for (int64_t r = 0; r < c->sizes.n_node; r++) {
        int64_t k = 0;
        while (k < file->width && isfinite(rows[r * file->width + k])) {
            k++;
        }
        n_bad += k < file->width;
        first = k < file->width && first < 0 ? r : first;
    }
    if (n_bad > 0) {
        progress_print(&c->progress, "%s: %lld of %lld rows are not finite, the first one is of node %lld",
                       file->name, (long long)n_bad, (long long)c->sizes.n_node, (long long)first);
    }
}

/* Write them to the mapped file behind its header, part after part. */
static enum status fill_rows(void *context, char *bytes)
{
    struct rows_file *file = context;
    memcpy(bytes, file->header, file->n_header);
    float *rows = (float *)(void *)(bytes + file->n_header);
    enum status status = training_rows_place(&file->coordinator->training, file->what, file->width, rows);
    if (status == STATUS_OK) {
        rows_look(file, rows);
    }
    if (status != STATUS_OK || file->finish == NULL) {
        return status;
    }
    return file->finish(file->coordinator, rows);
}

enum status coordinator_write_rows(struct coordinator *c, const char *name, enum worker_state what, int64_t width,
                                   enum status (*finish)(struct coordinator *c, float *rows))
{
    struct rows_file file = {.coordinator = c, .name = name, .what = what, .width = width, .finish = finish};
    const int64_t shape[2] = {c->sizes.n_node, width};
    file.n_header = npy_header_write(NPY_TYPE_F32, 2, shape, file.header, sizeof file.header);
    size_t n = file.n_header + (size_t)shape[0] * (size_t)shape[1] * sizeof(float);
    return dir_replace_mapped(&c->output.dir, name, n, fill_rows, &file);
}

bool coordinator_counts_classes(const struct coordinator *c)
{
    return !c->sizes.facts.multi_label && !c->sizes.of_links && c->sizes.facts.n_class <= SCORE_CLASSES_MOST;
}

static enum status count_confusion(struct coordinator *c, float *logits)
{
    return score_confusion_count(&c->training.labels, logits, DATASET_SPLIT_TEST, &c->result.confusion);
}

static enum status make_probabilities(struct coordinator *c, float *rows)
{
    score_probabilities(c->sizes.n_node, c->sizes.facts.n_class, c->sizes.facts.multi_label, rows);
    for (int split = DATASET_SPLIT_VALID; split <= DATASET_SPLIT_TEST && !c->sizes.facts.multi_label; split++) {
        c->result.calibration[split] = score_calibration(&c->training.labels, rows, split);
    }
    return STATUS_OK;
}

enum status coordinator_write_logits(struct coordinator *c)
{
    int64_t width = c->sizes.facts.n_class;
    enum status status = coordinator_write_rows(c, "logits.npy", WORKER_STATE_LOGITS, width,
                                                c->sizes.of_links               ? coordinator_write_asked
                                                : coordinator_counts_classes(c) ? count_confusion
                                                                                : NULL);
    if (status != STATUS_OK || !c->job.output.probabilities) {
        return status;
    }
    return coordinator_write_rows(c, "probabilities.npy", WORKER_STATE_LOGITS, width, make_probabilities);
}

/* Of the weights that best.safetensors holds, which the job's metric is given for; where asked for, first of the last
 * ones, which were evaluated when training ended. */
static enum status write_logits(struct coordinator *c)
{
    enum status status = STATUS_OK;
    if (job_predicts(&c->job)) {
        return coordinator_write_predictions(c);
    }
    if (c->job.output.last_logits) {
        status = coordinator_write_rows(c, "logits_last.npy", WORKER_STATE_LOGITS, c->sizes.facts.n_class, NULL);
    }
    if (status != STATUS_OK || (status = training_evaluate_best(&c->training)) != STATUS_OK) {
        return status;
    }
    return coordinator_write_logits(c);
}

static enum status write_trace(struct coordinator *c)
{
    if (!c->job.output.trace) {
        return STATUS_OK;
    }
    return trace_save(c->workers.fleet, (uint32_t)c->job.workers.count, c->start_s, &c->output.dir, "trace.json");
}

/* The bytes that every worker received, beside each other. */
static enum status read_traffic(struct coordinator *c)
{
    struct plan_measured *traffic = &c->result.traffic;
    int n_row = traffic_n_row(c->plan.n_layer);
    size_t n = (size_t)n_row * (size_t)c->plan.n_worker;
    traffic->table = memory_alloc(n * (size_t)c->plan.n_worker, sizeof *traffic->table);
    enum status status = STATUS_OK;
    for (int32_t rank = 0; rank < c->plan.n_worker && status == STATUS_OK; rank++) {
        status = fleet_traffic(c->workers.fleet, (uint32_t)rank, n_row, &traffic->head,
                               traffic->table + (size_t)rank * n);
    }
    return status;
}

static enum status write_models(struct coordinator *c)
{
    if (job_predicts(&c->job)) {
        return STATUS_OK;
    }
    enum status status = write_weights(c, WORKER_STATE_WEIGHTS, WORKER_STATE_EMBEDDINGS, "model.safetensors");
    return status == STATUS_OK ? write_weights(c, WORKER_STATE_BEST, WORKER_STATE_EMBEDDINGS_BEST, "best.safetensors")
                               : status;
}

static enum status write_splits(struct coordinator *c)
{
    return splits_save(&c->drawn, &c->output.dir);
}

static enum status sync_metrics(struct coordinator *c)
{
    return output_metrics_sync(&c->output);
}

static enum status read_memory(struct coordinator *c)
{
    return fleet_memory(c->workers.fleet, c->workers.memory);
}

/* Propagations that fail, or are stopped, leave the training to a --resume. */
static enum status save_before_post(struct coordinator *c)
{
    return coordinator_has_post(c) && !job_predicts(&c->job) ? training_save(&c->training) : STATUS_OK;
}

enum status coordinator_write_results(struct coordinator *c)
{
    /* Logits last: traces and counts are of the training alone. */
    static coordinator_step *const steps[] = {save_before_post, write_models, write_splits, write_trace, sync_metrics,
                                              read_memory,      read_traffic, write_logits, NULL};
    FAULT(RESULTS);
    enum status status = coordinator_steps(c, steps);
    if (status != STATUS_OK) {
        return status;
    }
    coordinator_phase_end(c, RESULT_PHASE_WRITE);
    if ((status = coordinator_post(c)) != STATUS_OK) {
        return status;
    }
    coordinator_phase_end(c, RESULT_PHASE_POST);
    c->result.total_s = clock_s() - c->start_s;
    return result_save(c);
}

static void print_links(struct coordinator *c)
{
    const struct links_asked *asked = &c->asked;
    progress_print(&c->progress, "%lld nodes have a row of %d numbers each in logits.npy", (long long)c->sizes.n_node,
                   (int)c->sizes.facts.n_class);
    if (asked->pairs.end != NULL) {
        progress_print(&c->progress, "%s scored, in scores.npy", figure_count(asked->pairs.n, "pair").text);
    }
    if (asked->node != NULL) {
        progress_print(&c->progress, "%s each of %s, in partners.npy and partner_scores.npy",
                       figure_count(c->job.predict.best, "partner").text, figure_count(asked->n, "node").text);
    }
}

static void print_metrics(struct coordinator *c)
{
    const struct job_choices *metrics = &c->training.metrics;
    for (int i = 0; i < metrics->n; i++) {
        const double *scores = c->result.scores.of[i];
        const char *metric = score_name(metrics->of[i]);
        if (isnan(scores[SCORE_SPLIT_ALL])) {
            progress_print(&c->progress, "%lld nodes predicted; no %s: the data set has no labels",
                           (long long)c->sizes.n_node, metric);
        } else {
            progress_print(&c->progress, "%lld nodes predicted; %s %s of those with labels, test %s",
                           (long long)c->sizes.n_node, metric,
                           progress_metric(&c->progress, scores[SCORE_SPLIT_ALL]).text,
                           progress_metric(&c->progress, scores[DATASET_SPLIT_TEST]).text);
        }
    }
}

/* The metrics that choose nothing, with the weights that logits.npy is of. */
static void print_others(struct coordinator *c)
{
    const struct checkpoint_state *state = &c->training.state;
    const struct checkpoint_score *score = state->best_epoch >= 0 ? &state->best : &state->last;
    for (int i = 1; i < c->training.metrics.n; i++) {
        progress_print(&c->progress, "test %s %s with the same weights (valid %s)",
                       score_name(c->training.metrics.of[i]), progress_metric(&c->progress, score->of[i].test).text,
                       progress_metric(&c->progress, score->of[i].valid).text);
    }
}

static void print_training(struct coordinator *c)
{
    const struct checkpoint_state *state = &c->training.state;
    const char *metric = score_name(c->training.metrics.of[0]);
    const struct figure last = progress_metric(&c->progress, state->last.of[0].test);
    if (c->training.end == TRAINING_END_PATIENCE) {
        progress_print(&c->progress, "stopped after %s: no better valid %s in %s",
                       figure_count(state->n_epoch, "epoch").text, patience_text(&c->training),
                       figure_count(state->n_stale, "evaluation").text);
    }
    if (state->best_epoch >= 0 && !result_is_chosen(&c->training)) {
        progress_print(&c->progress, "test %s %s with the last weights: %s to choose others by", metric, last.text,
                       result_no_choice(&c->sizes));
    } else if (state->best_epoch >= 0) {
        progress_print(&c->progress,
                       "test %s %s with the best weights, after %s (valid %s); %s with the last weights", metric,
                       progress_metric(&c->progress, state->best.of[0].test).text,
                       figure_count(state->best_epoch + 1, "epoch").text,
                       progress_metric(&c->progress, state->best.of[0].valid).text, last.text);
    } else {
        progress_print(&c->progress, "test %s %s with the initial weights", metric, last.text);
    }
    print_others(c);
}

void coordinator_print_end(struct coordinator *c)
{
    bool predicts = job_predicts(&c->job);
    (!predicts ? print_training : c->sizes.of_links ? print_links : print_metrics)(c);
    coordinator_print_post(c);
    progress_print(&c->progress, "done in %s, results in %s", figure_seconds(c->result.total_s).text,
                   run_folder_results(&c->run));
}
