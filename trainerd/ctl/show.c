/* The command show: a job's record, submission, history, and the time, traffic and memory of its last epoch. */
#include "protocol/base/log.h"
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/confusion.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void print_line(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void print_line(const char *name, const char *format, ...)
{
    va_list arguments;
    char *content = NULL;
    va_start(arguments, format);
    int n = vasprintf(&content, format, arguments);
    va_end(arguments);
    ASSERT(n >= 0);
    char *printable = text_printable(content), *printable_name = text_printable(name);
    printf("  %-14s %s\n", printable_name, printable);
    free(printable_name);
    free(printable);
    free(content);
}

/* --- the job's record --- */

static char *cell_state(const json_t *job, const char *path)
{
    const struct reason reason = text_reason(job);
    return text_format("%s%s%s", field_text(job, path), reason.text[0] != '\0' ? ": " : "", reason.text);
}

static char *cell_ran(const json_t *job, const char *path)
{
    double limit = field_number(job, "time_limit_s");
    return text_format("%s%s%s", figure_seconds(field_number(job, path)).text, limit > 0 ? " of at most " : "",
                       limit > 0 ? figure_seconds(limit).text : "");
}

static char *cell_attempt(const json_t *job, const char *path)
{
    return text_format("%lld, %lld of at most %s", (long long)field_integer(job, path),
                       (long long)field_integer(job, "restarts"),
                       figure_count(field_integer(job, "max_restarts"), "restart").text);
}

/* "2 workers, 2 slots, 0 GPUs, priority 0, 4 parts" */
static char *cell_needs(const json_t *job, const char *path)
{
    bool has_parts = json_is_integer(json_object_get(job, "parts")); /* else they are not known yet */
    return text_format("%s, %s, %s, priority %lld%s%s", figure_count(field_integer(job, path), "worker").text,
                       figure_count(field_integer(job, "slots"), "slot").text,
                       figure_count(field_integer(job, "gpus"), "GPU").text,
                       (long long)field_integer(job, "priority"), has_parts ? ", " : "",
                       has_parts ? figure_count(field_integer(job, "parts"), "part").text : "");
}

/* A line each, of what is known. */
static const struct column job_lines[] = {
    {"state", "state", cell_state, false, 0},
    {"owner", "owner", cell_text, false, 0},
    {"group", "group", cell_text, false, 0},
    {"tags", "tags", cell_list, false, 0},
    {"submitted", "submitted_at", cell_moment, false, 0},
    {"started", "started_at", cell_moment, false, 0},
    {"ended", "ended_at", cell_moment, false, 0},
    {"ran", "ran_s", cell_ran, false, 0},
    {"attempt", "attempt", cell_attempt, false, 0},
    {"needs", "workers", cell_needs, false, 0},
    {"on GPUs", "gpus_held", cell_list, false, 0},
    {"Slurm's job", "slurm", cell_integer, false, 0},
    {"exit code", "exit_code", cell_integer, false, 0},
};

static void print_job(const json_t *job)
{
    char *name = text_printable(field_text(job, "name"));
    printf("job %lld, %s\n", (long long)field_integer(job, "id"), name);
    free(name);
    for (size_t i = 0; i < sizeof job_lines / sizeof *job_lines; i++) {
        char *text = job_lines[i].cell(job, job_lines[i].path);
        if (text[0] != '\0' && strcmp(text, "-") != 0) {
            print_line(job_lines[i].title, "%s", text);
        }
        free(text);
    }
}

/* --- its last epoch --- */

static void print_part(const char *name, double part, double whole)
{
    if (isfinite(part)) {
        print_line(name, whole > 0 ? "%s (%.0f %%)" : "%s", figure_seconds(part).text, 100.0 * part / whole);
    }
}

/* Time, traffic and memory of the last epoch: from the job's progress, else from its metrics. */
static void print_epoch(const json_t *job, const json_t *last)
{
    const json_t *from = isfinite(field_number(job, "compute_s")) ? job : last;
    double epoch_s = field_number(job, "epoch_s");
    printf("\nlast epoch\n");
    print_line("done", "%lld of %lld", (long long)field_integer(job, "epoch"),
               (long long)field_integer(job, "epochs"));
    print_line("loss", "%s", figure_number(field_number(job, "loss")).text);
    print_line(field_text(job, "metric")[0] != '\0' ? field_text(job, "metric") : "metric",
               "train %s, valid %s, test %s", text_metric(job, "train_metric").text,
               text_metric(job, "valid_metric").text, text_metric(job, "test_metric").text);
    print_line("at the best", "valid %s, test %s", text_metric(job, "best_valid_metric").text,
               text_metric(job, "best_test_metric").text);
    print_part("time", epoch_s, 0);
    print_part("compute", field_number(from, "compute_s"), epoch_s);
    print_part("packing", field_number(last, "pack_s"), epoch_s);
    print_part("waiting", field_number(from, "wait_s"), epoch_s);
    print_part("evaluation", field_number(from, "evaluate_s"), epoch_s);
    print_line("traffic", "%s sent, %s received, by all workers", figure_bytes(field_number(from, "bytes_sent")).text,
               figure_bytes(field_number(from, "bytes_received")).text);
    print_line("memory", "%s in use by all workers, %s planned, processes included",
               figure_bytes(field_number(job, "memory_measured")).text,
               figure_bytes(field_number(job, "memory")).text);
}

/* exchange.guard_every: the last comparison of gradients, from the result or the last epoch's metrics. */
static void print_guard(const json_t *result, const json_t *last)
{
    const json_t *guard = json_object_get(result, "guard"), *found = json_object_get(guard, "last");
    bool ended = json_is_object(guard);
    double error = ended ? field_number(found, "error") : field_number(last, "guard_error");
    double cosine = ended ? field_number(found, "cosine") : field_number(last, "guard_cosine");
    double epoch = ended ? field_number(found, "epoch") : field_number(last, "guard_epoch");
    if (!isfinite(epoch)) {
        return;
    }
    char numbers[64] = "not finite"; /* the exact gradient is 0, or the approximate one not a number */
    if (isfinite(error)) {
        snprintf(numbers, sizeof numbers, "%.3g, cosine %.4g", error, cosine);
    }
    print_line("guard", "gradient's error %s in epoch %.0f; %s", numbers, epoch,
               figure_count(field_integer(ended ? guard : last, "back_offs"), "back-off").text);
    if (ended) {
        print_line("", "%g of the boundary rows%s, %s, gradients %s", field_number(guard, "sampling"),
                   field_number(guard, "stale") > 0.0 ? " of the epoch before" : "", field_text(guard, "codec"),
                   field_text(guard, "codec_backward"));
    }
}

/* --- its result --- */

static const struct column memory_columns[] = {
    {"WORKER", "worker", cell_integer, true, 0},
    {"PLANNED", "planned.all", cell_bytes, true, 0},
    {"MEASURED", "measured.all", cell_bytes, true, 0},
    {"PINNED", "pinned.measured.all", cell_bytes, true, 1}, /* left out where there are no GPUs */
    {"RESIDENT AT MOST", "resident_peak", cell_bytes, false, 0},
};

static void print_memory(const json_t *result)
{
    const json_t *memory = json_object_get(result, "memory");
    if (json_array_size(memory) > 0) {
        bool has_gpu = json_object_get(json_array_get(memory, 0), "pinned") != NULL;
        printf(has_gpu ? "\nmemory, of GPUs\n" : "\nmemory\n");
        columns_print(memory_columns, sizeof memory_columns / sizeof *memory_columns, memory, 0);
    }
}

/* Of an epoch, and of a prediction's evaluation: what was counted beside what was planned. */
static const struct column epoch_columns[] = {
    {"LAYER", "name", cell_text, false, 0},
    {"FORWARD", "counted.forward", cell_bytes, true, 0},
    {"PLANNED", "planned.forward", cell_bytes, true, 0},
    {"BACKWARD", "counted.backward", cell_bytes, true, 0},
    {"PLANNED", "planned.backward", cell_bytes, true, 0},
};
static const struct column evaluation_columns[] = {
    {"LAYER", "name", cell_text, false, 0},
    {"EVALUATION", "counted.evaluate", cell_bytes, true, 0},
    {"PLANNED", "planned.evaluate", cell_bytes, true, 0},
};

/* Planned and counted bytes by layer, of all workers; sums are of gradients, or of the evaluation. */
static void print_traffic(const json_t *result)
{
    const json_t *traffic = json_object_get(result, "traffic"), *planned = json_object_get(traffic, "planned"),
                 *counted = json_object_get(traffic, "measured"), *layers = json_object_get(planned, "layers"),
                 *layer;
    bool trained = field_integer(traffic, "epochs") > 0;
    const char *sums = trained ? "reduce" : "reduce_evaluate", *direction = trained ? "backward" : "evaluate";
    size_t i;
    if (json_array_size(layers) == 0 || json_array_size(json_object_get(result, "memory")) < 2) {
        return; /* one worker receives nothing */
    }
    json_t *rows = json_array();
    json_array_foreach(layers, i, layer)
    {
        char *name = text_format("%lld %s", (long long)field_integer(layer, "op"), field_text(layer, "aggregate"));
        json_array_append_new(rows, json_pack("{s:s, s:O, s:O?}", "name", name, "planned", layer, "counted",
                                              json_array_get(json_object_get(counted, "layers"), i)));
        free(name);
    }
    json_array_append_new(rows, json_pack("{s:s, s:{s:O?}, s:{s:O?}}", "name", "sums", "planned", direction,
                                          json_object_get(planned, sums), "counted", direction,
                                          json_object_get(counted, sums)));
    printf("\ntraffic of %s\n", trained ? "an epoch" : "the evaluation");
    columns_print(trained ? epoch_columns : evaluation_columns, trained ? 5 : 3, rows, 0);
    json_decref(rows);
}

static void print_seconds(const json_t *result)
{
    const json_t *seconds = json_object_get(result, "seconds");
    const char *name;
    json_t *value;
    double total = field_number(seconds, "total");
    if (!isfinite(total)) {
        return;
    }
    printf("\ntime of the whole job\n");
    json_object_foreach((json_t *)seconds, name, value)
    {
        if (json_is_number(value) && strcmp(name, "total") != 0 && strcmp(name, "epoch_mean") != 0) {
            print_part(name, json_number_value(value), total);
        }
    }
}

static const struct column history_columns[] = {
    {NULL, "at", cell_moment, false, 0},
    {NULL, "attempt", cell_integer, true, 0},
    {NULL, "state", cell_text, false, 0},
    {NULL, "text", cell_text, false, 0},
};

static void print_submission(const json_t *answer)
{
    const json_t *setting;
    size_t i;
    printf("\nsubmitted\n");
    print_line("folder", "%s", field_text(answer, "folder"));
    print_line("output", "%s", field_text(answer, "output"));
    json_array_foreach(json_object_get(answer, "set"), i, setting)
    {
        print_line("--set", "%s", json_string_value(setting) != NULL ? json_string_value(setting) : "");
    }
}

static void print_answer(const json_t *answer)
{
    const json_t *job = json_object_get(answer, "job"), *result = json_object_get(answer, "result");
    print_job(job);
    print_submission(answer);
    if (field_integer(job, "epoch") > 0) {
        print_epoch(job, json_object_get(answer, "last"));
        print_guard(result, json_object_get(answer, "last"));
    }
    confusion_print(result, stdout);
    print_memory(result);
    print_traffic(result);
    print_seconds(result);
    printf("\nhistory (attempt, state)\n");
    columns_print(history_columns, sizeof history_columns / sizeof *history_columns,
                  json_object_get(answer, "history"), text_columns(stdout));
}

enum status run_show(const struct ctl_arguments *arguments)
{
    return ctl_answer(arguments, ctl_job_request("show", arguments->operand[0]), print_answer);
}
