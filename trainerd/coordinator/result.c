#include "trainerd/coordinator/result.h"

#include "protocol/base/version.h"
#include "trainerd/coordinator/coordinator_state.h"
#include "trainerd/coordinator/epochs/guard.h"
#include "trainerd/coordinator/epochs/patience.h"
#include "trainerd/coordinator/epochs/training_arrays.h"
#include "trainerd/coordinator/folder/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *score_json(const struct training *training, int64_t epoch, const struct checkpoint_score *score)
{
    json_t *all = json_object();
    json_object_set_new(all, "epoch", epoch >= 0 ? json_integer(epoch) : json_null());
    report_score(all, training->job, &training->metrics, score);
    return all;
}

bool result_is_chosen(const struct training *training)
{
    return training->state.best_epoch >= 0 && !isnan(training->state.best.of[0].valid);
}

const char *result_no_choice(const struct dataset *dataset)
{
    return dataset_n_in_split(dataset, DATASET_SPLIT_VALID) == 0 ? "the data set has no validation split"
                                                                 : "the valid metric is not a number";
}

/* With what best.safetensors holds, and why. */
static json_t *best_json(const struct coordinator *c)
{
    const struct checkpoint_state *state = &c->training.state;
    bool is_chosen = result_is_chosen(&c->training);
    json_t *all = score_json(&c->training, state->best_epoch, &state->best);
    json_object_set_new(all, "chosen_by", is_chosen ? json_string("valid_metric") : json_null());
    json_object_set_new(
        all, "reason",
        state->n_epoch == 0 ? json_string("there was no epoch: best.safetensors holds the initial weights")
        : is_chosen
            ? json_sprintf("best.safetensors holds the weights with the best valid metric, after %s",
                           figure_count(state->best_epoch + 1, "epoch").text)
            : json_sprintf("%s to choose by: best.safetensors holds the last weights", result_no_choice(&c->sizes)));
    return all;
}

static json_t *seconds_json(const struct coordinator *c)
{
    json_t *all = json_object();
    json_object_set_new(all, "total", json_real(c->result.total_s));
#define X(name, text) json_object_set_new(all, text, json_real(c->result.phase_s[RESULT_PHASE_##name]));
    RESULT_PHASE_LIST(X)
#undef X
    const struct checkpoint_state *state = &c->training.state;
    json_object_set_new(all, "epoch_mean",
                        number_json(state->n_epoch > 0 ? state->train_s / (double)state->n_epoch : NAN));
    return all;
}

static json_t *memory_place_json(const struct fleet_memory *memory, enum memory_place place)
{
    return json_pack("{s:o, s:o}", "planned", report_memory(memory->planned.bytes[place]), "measured",
                     report_memory(memory->measured.bytes[place]));
}

/* With a device that has memory of its own planned and measured are of that. */
static json_t *memory_json(const struct coordinator *c)
{
    json_t *all = json_array();
    for (int64_t rank = 0; rank < c->job.workers.count; rank++) {
        const struct fleet_memory *memory = &c->workers.memory[rank];
        const struct plan_worker *plan = &c->plan.worker[rank];
        bool apart = c->plan.apart;
        json_t *one = json_pack("{s:I}", "worker", (json_int_t)rank), *arrays;
        arrays = memory_place_json(memory, apart ? MEMORY_PLACE_DEVICE : MEMORY_PLACE_HOST);
        json_object_update(one, arrays);
        json_decref(arrays);
        if (apart) {
            json_object_set_new(one, "pinned", memory_place_json(memory, MEMORY_PLACE_PINNED));
            json_object_set_new(one, "host", memory_place_json(memory, MEMORY_PLACE_HOST));
        }
        json_object_set_new(one, "resident_peak", json_integer((json_int_t)memory->resident_peak));
        json_object_set_new(one, "spilled", json_integer((json_int_t)plan->n_spill));
        json_object_set_new(one, "spill_least", json_integer((json_int_t)plan->n_spill_least));
        json_array_append_new(all, one);
    }
    return all;
}

static json_t *machines_json(const struct coordinator *c)
{
    json_t *of_worker = json_array();
    for (int64_t rank = 0; rank < c->job.workers.count; rank++) {
        json_array_append_new(of_worker, json_integer(c->workers.machine_of_rank[rank]));
    }
    return json_pack("{s:o, s:s}", "of_worker", of_worker, "cipher", c->workers.cipher);
}

/* Versions of libraries, where bits depend on them: of all workers, and of each. */
static void put_libraries(json_t *all, const struct coordinator *c)
{
    json_t *of_worker = json_array();
    bool any = false, differ = false;
    for (int64_t rank = 0; rank < c->job.workers.count; rank++) {
        json_array_append_new(of_worker, json_object());
    }
    for (int l = 0; l < LIBRARY_N; l++) {
        const struct library_range range = c->training.libraries.of[l];
        if (range.most == LIBRARY_UNKNOWN) {
            continue;
        }
        any = true;
        differ = differ || range.least != range.most;
        json_object_set_new(all, library_key((enum library)l), json_string(library_range_text(range).of));
        for (int64_t rank = 0; rank < c->job.workers.count; rank++) {
            json_object_set_new(json_array_get(of_worker, (size_t)rank), library_key((enum library)l),
                                json_string(library_version_text(c->workers.libraries[rank].of[l]).of));
        }
    }
    if (any) {
        json_object_set_new(all, "libraries",
                            json_pack("{s:O, s:b}", "of_worker", of_worker, "change_results", (int)differ));
    }
    json_decref(of_worker);
}

static void put_end(json_t *all, const struct coordinator *c)
{
    const struct training *training = &c->training;
    const long long n = training->state.n_epoch;
    json_t *reason;
    if (job_predicts(&c->job)) {
        reason = json_sprintf("all %lld nodes are predicted", (long long)c->sizes.n_node);
    } else if (training->end == TRAINING_END_PATIENCE) {
        reason = json_sprintf("no better valid %s in %s, after %lld of %lld epochs", patience_text(training),
                              figure_count(training->state.n_stale, "evaluation").text, n,
                              (long long)training->job->train.epochs);
    } else {
        reason = n == 1 ? json_string("the only epoch is done") : json_sprintf("all %lld epochs are done", n);
    }
    json_object_set_new(all, "state", json_string("SUCCEEDED"));
    json_object_set_new(all, "reason", reason);
}

/* What exchange.guard_every found, and what the last epoch lost; null without. */
static json_t *guard_json(const struct training *training)
{
    const struct checkpoint_state *state = &training->state;
    if (training->job->exchange.guard_every == 0) {
        return json_null();
    }
    const struct level level = guard_level(training->job, state, state->n_epoch - 1);
    json_t *last = json_pack("{s:o, s:o, s:o, s:o}", "epoch",
                             state->guard_epoch >= 0 ? json_integer(state->guard_epoch) : json_null(), "loss",
                             number_json(state->guard_loss), "error", number_json(state->guard_error), "cosine",
                             number_json(state->guard_cosine));
    return json_pack("{s:I, s:I, s:o, s:f, s:s, s:s, s:i}", "comparisons", (json_int_t)state->n_guard, "back_offs",
                     (json_int_t)state->n_back_off, "last", last, "sampling", level.sampling, "codec",
                     level_codec_text(level.codec), "codec_backward", level_codec_text(level.codec_backward), "stale",
                     (int)level.stale);
}

/* Of the classes' probabilities, which a job may write. */
static void put_calibration(json_t *all, const struct coordinator *c)
{
    if (c->job.output.probabilities && !c->sizes.facts.multi_label) {
        json_object_set_new(all, "calibration_error",
                            json_pack("{s:o, s:o}", "valid", number_json(c->result.calibration[DATASET_SPLIT_VALID]),
                                      "test", number_json(c->result.calibration[DATASET_SPLIT_TEST])));
    }
}

/* The graph, with what a prediction asks of another one. */
static json_t *dataset_json(const struct coordinator *c)
{
    const struct embedded *embedded = &c->program.embedded;
    json_t *all = report_dataset(&c->sizes);
    json_object_set_new(all, "fingerprint", json_string(c->training.state.dataset));
    json_object_set_new(all, "embedded_nodes", json_integer(embedded->n_run > 0 ? embedded_count(embedded) : 0));
    const struct graph_counts *counts = &c->sizes.facts.counts;
    if (counts->n_node > 0) { /* what graph.NAME is in a prediction with the model */
        json_object_set_new(all, "counts",
                            json_pack("{s:I, s:I, s:f, s:f}", "nodes", (json_int_t)counts->n_node, "edges",
                                      (json_int_t)counts->n_edge, "mean_degree", counts->mean_degree,
                                      "mean_log_degree", counts->mean_log_degree));
    }
    const char *names = c->sizes.labels.class_names;
    json_object_set_new(all, "class_names", names != NULL ? json_loads(names, 0, NULL) : json_null());
    char *path = c->job.dataset.path[0] != '\0' ? realpath(c->job.dataset.path, NULL) : NULL;
    json_object_set_new(all, "path", path != NULL ? json_string(path) : json_null());
    free(path);
    return all;
}

/* The metrics of an evaluation by split. */
static json_t *scores_json(const struct training *training, const struct training_scores *scores)
{
    static const char *const names[SCORE_N_SPLIT] = {"other", "train", "valid", "test", [SCORE_SPLIT_ALL] = "all"};
    json_t *metrics = json_object();
    for (int split = 0; split < SCORE_N_SPLIT; split++) {
        if (names[split] == NULL) {
            continue; /* they are in valid and in test */
        }
        json_object_set_new(metrics, names[split], number_json(scores->of[0][split]));
        for (int i = 0; i < training->metrics.n && training->job->train.metrics.n > 0; i++) {
            report_named(metrics, names[split], training->metrics.of[i], scores->of[i][split]);
        }
    }
    return metrics;
}

/* Propagations after it; null without. */
static json_t *posted_json(const struct coordinator *c)
{
    json_t *all = json_object();
    for (int post = 0; post < RESULT_POST_N; post++) {
        const struct result_posted *posted = &c->result.posted[post];
        if (posted->file != NULL) {
            json_object_set_new(all, posted->key,
                                json_pack("{s:s, s:o, s:f}", "file", posted->file, "metrics",
                                          scores_json(&c->training, &posted->scores), "seconds", posted->seconds));
        }
    }
    if (json_object_size(all) > 0) {
        return all;
    }
    json_decref(all);
    return json_null();
}

static void put_prediction(json_t *all, const struct coordinator *c)
{
    json_object_set_new(all, "metrics", scores_json(&c->training, &c->result.scores));
    /* The folder itself: a link to the newest run may lead elsewhere tomorrow. */
    char *folder = realpath(c->source.folder, NULL);
    json_object_set_new(all, "model",
                        json_pack("{s:s, s:s}", "folder", folder != NULL ? folder : c->source.folder, "weights",
                                  basename(c->source.weights)));
    free(folder);
}

/* What epochs came to. */
static void put_training(json_t *all, const struct coordinator *c)
{
    const struct training *training = &c->training;
    const struct checkpoint_state *state = &training->state;
    double n = state->n_epoch > 0 ? (double)state->n_epoch : NAN;
    json_object_set_new(all, "epochs", json_integer(state->n_epoch));
    json_object_set_new(all, "rollbacks", json_integer(state->n_rollback));
    json_object_set_new(all, "guard", guard_json(training));
    json_object_set_new(all, "last", score_json(training, state->n_epoch - 1, &state->last));
    json_object_set_new(all, "best", best_json(c));
    json_object_set_new(all, "bytes_per_epoch",
                        json_pack("{s:o, s:o}", "sent", number_json((double)state->n_sent / n), "received",
                                  number_json((double)state->n_received / n)));
    json_object_set_new(all, "left_out", json_real(c->plan.left_out));
}

static json_t *result_json(const struct coordinator *c)
{
    const struct job *job = &c->job;
    const struct training *training = &c->training;
    json_t *all = json_object();
    put_end(all, c);
    json_object_set_new(all, "name", json_string(job->job.name));
    json_object_set_new(all, "versions", json_pack("{s:s}", "trainerd", TRAINERD_VERSION));
    json_object_set_new(all, "device", json_string(job_choice_text("workers", "device", job->workers.device)));
    put_libraries(all, c);
    json_object_set_new(all, "seed", json_integer(job->train.seed));
    json_object_set_new(all, "metric", json_string(score_name(training->metrics.of[0])));
    (job_predicts(&c->job) ? put_prediction : put_training)(all, c);
    json_object_set_new(all, "confusion", report_confusion(&c->result.confusion));
    put_calibration(all, c);
    json_object_set_new(all, "post", posted_json(c));
    json_object_set_new(all, "seconds", seconds_json(c));
    json_object_set_new(all, "traffic", plan_traffic_compared(&c->program, &c->plan, &c->result.traffic));
    json_object_set_new(all, "allocations_in_epochs", json_integer(training->state.n_call));
    json_object_set_new(all, "device_waits",
                        json_pack("{s:I, s:I, s:I, s:I, s:I}", "waits", (json_int_t)training->spent.waits.n_wait,
                                  "fetched", (json_int_t)training->spent.waits.n_fetched, "sent",
                                  (json_int_t)training->spent.waits.n_sent, "replayed",
                                  (json_int_t)training->spent.n_replay, "staged_bytes",
                                  (json_int_t)training->spent.n_staged));
    json_object_set_new(all, "weights", json_integer(training_array_floats(training, CHECKPOINT_ARRAY_WEIGHTS)));
    json_object_set_new(all, "memory", memory_json(c));
    json_object_set_new(all, "machines", machines_json(c));
    json_object_set_new(all, "coordinator_resident_peak", json_integer(memory_resident_peak()));
    json_object_set_new(all, "dataset", dataset_json(c));
    json_object_set_new(all, "partition", report_partition(job, &c->parts.quality));
    json_object_set_new(all, "job", report_job(job));
    char *text = job_print(job);
    json_object_set_new(all, "job_text", json_string(text));
    free(text);
    return all;
}

enum status result_save(const struct coordinator *c)
{
    const struct dir *dir = &c->output.dir;
    json_t *files = NULL;
    enum status status = report_files(dir, &files);
    if (status != STATUS_OK) {
        return status;
    }
    json_t *all = result_json(c);
    json_object_set_new(all, "files", files);
    char *text = json_dumps(all, JSON_INDENT(2));
    json_decref(all);
    if (text == NULL) {
        return status_fail(STATUS_BUG, "cannot write '%s/result.json': its values are not valid JSON", dir->path);
    }
    size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL: a file ends with a line */
    struct iovec piece = {.iov_base = text, .iov_len = n + 1};
    status = dir_replace(dir, "result.json", &piece, 1);
    free(text);
    return status;
}
