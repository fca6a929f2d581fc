/* The command show: a job's record, submission, history, and the time, traffic and memory of its last epoch. */
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/confusion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_line(const char *name, const char *content)
{
    char *printable = text_printable(content), *printable_name = text_printable(name);
    printf("  %-14s %s\n", printable_name, printable);
    free(printable_name);
    free(printable);
}

static void print_moment(const json_t *job, const char *name, const char *key)
{
    char text[TEXT_BYTES];
    text_moment(number_of(job, key), text);
    if (strcmp(text, "-") != 0) {
        print_line(name, text);
    }
}

static void print_tags(const json_t *tags)
{
    char all[512] = "";
    size_t i;
    const json_t *tag;
    json_array_foreach(tags, i, tag)
    {
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s%s", i > 0 ? ", " : "", json_string_value(tag));
    }
    if (all[0] != '\0') {
        print_line("tags", all);
    }
}

/* "2 workers, 2 slots, 0 GPUs, priority 0, 4 parts" */
static void print_needs(const json_t *job)
{
    char content[6 * TEXT_BYTES], workers[TEXT_BYTES], slots[TEXT_BYTES], gpus[TEXT_BYTES], parts[TEXT_BYTES];
    bool has_parts = json_is_integer(json_object_get(job, "parts")); /* else they are not known yet */
    text_count(integer_of(job, "workers"), "worker", workers);
    text_count(integer_of(job, "slots"), "slot", slots);
    text_count(integer_of(job, "gpus"), "GPU", gpus);
    text_count(integer_of(job, "parts"), "part", parts);
    snprintf(content, sizeof content, "%s, %s, %s, priority %lld%s%s", workers, slots, gpus,
             (long long)integer_of(job, "priority"), has_parts ? ", " : "", has_parts ? parts : "");
    print_line("needs", content);
}

static void print_state(const json_t *job)
{
    char content[640], reason[REASON_BYTES], ran[TEXT_BYTES], limit[TEXT_BYTES];
    text_reason(job, reason);
    snprintf(content, sizeof content, "%s%s%s", text_of(job, "state"), reason[0] != '\0' ? ": " : "", reason);
    print_line("state", content);
    print_line("owner", text_of(job, "owner"));
    if (text_of(job, "group")[0] != '\0') {
        print_line("group", text_of(job, "group"));
    }
    print_tags(json_object_get(job, "tags"));
    print_moment(job, "submitted", "submitted_at");
    print_moment(job, "started", "started_at");
    print_moment(job, "ended", "ended_at");
    text_duration(number_of(job, "ran_s"), ran);
    text_duration(number_of(job, "time_limit_s"), limit);
    snprintf(content, sizeof content, number_of(job, "time_limit_s") > 0 ? "%s of at most %s" : "%s", ran, limit);
    print_line("ran", content);
    text_count(integer_of(job, "max_restarts"), "restart", limit);
    snprintf(content, sizeof content, "%lld, %lld of at most %s", (long long)integer_of(job, "attempt"),
             (long long)integer_of(job, "restarts"), limit);
    print_line("attempt", content);
    print_needs(job);
    char *gpus = text_numbers(json_object_get(job, "gpus_held"));
    if (gpus[0] != '\0') {
        print_line("on GPUs", gpus);
    }
    free(gpus);
    if (json_is_integer(json_object_get(job, "slurm"))) {
        snprintf(content, sizeof content, "%lld", (long long)integer_of(job, "slurm"));
        print_line("Slurm's job", content);
    }
    if (json_is_integer(json_object_get(job, "exit_code"))) {
        snprintf(content, sizeof content, "%lld", (long long)integer_of(job, "exit_code"));
        print_line("exit code", content);
    }
}

static void print_part(const char *name, double part, double whole)
{
    char text[TEXT_BYTES], content[96];
    if (!isfinite(part)) {
        return;
    }
    text_duration(part, text);
    snprintf(content, sizeof content, whole > 0 ? "%s (%.0f %%)" : "%s", text, 100.0 * part / whole);
    print_line(name, content);
}

/* Time, traffic and memory of the last epoch: from the job's progress, else from its metrics. */
static void print_epoch(const json_t *job, const json_t *last)
{
    char content[160], one[TEXT_BYTES], two[TEXT_BYTES], three[TEXT_BYTES], four[TEXT_BYTES];
    const json_t *from = isfinite(number_of(job, "compute_s")) ? job : last;
    double epoch_s = number_of(job, "epoch_s");
    snprintf(content, sizeof content, "%lld of %lld", (long long)integer_of(job, "epoch"),
             (long long)integer_of(job, "epochs"));
    printf("\nlast epoch\n");
    print_line("done", content);
    text_value(number_of(job, "loss"), one);
    text_metric(job, "train_metric", two);
    text_metric(job, "valid_metric", three);
    text_metric(job, "test_metric", four);
    print_line("loss", one);
    snprintf(content, sizeof content, "train %s, valid %s, test %s", two, three, four);
    print_line(text_of(job, "metric")[0] != '\0' ? text_of(job, "metric") : "metric", content);
    text_metric(job, "best_valid_metric", three);
    text_metric(job, "best_test_metric", four);
    snprintf(content, sizeof content, "valid %s, test %s", three, four);
    print_line("at the best", content);
    print_part("time", epoch_s, 0);
    print_part("compute", number_of(from, "compute_s"), epoch_s);
    print_part("packing", number_of(last, "pack_s"), epoch_s);
    print_part("waiting", number_of(from, "wait_s"), epoch_s);
    print_part("evaluation", number_of(from, "evaluate_s"), epoch_s);
    text_bytes(number_of(from, "bytes_sent"), one);
    text_bytes(number_of(from, "bytes_received"), two);
    snprintf(content, sizeof content, "%s sent, %s received, by all workers", one, two);
    print_line("traffic", content);
    text_bytes(number_of(job, "memory"), one);
    text_bytes(number_of(job, "memory_measured"), two);
    snprintf(content, sizeof content, "%s in use by all workers, %s planned, processes included", two, one);
    print_line("memory", content);
}

/* exchange.guard_every: the last comparison of gradients, from the result or the last epoch's metrics. */
static void print_guard(const json_t *result, const json_t *last)
{
    char content[192];
    const json_t *guard = json_object_get(result, "guard"), *found = json_object_get(guard, "last");
    bool ended = json_is_object(guard);
    double error = ended ? number_of(found, "error") : number_of(last, "guard_error");
    double cosine = ended ? number_of(found, "cosine") : number_of(last, "guard_cosine");
    double epoch = ended ? number_of(found, "epoch") : number_of(last, "guard_epoch");
    long long n = integer_of(ended ? guard : last, "back_offs");
    if (!isfinite(epoch)) {
        return;
    }
    char numbers[64] = "not finite"; /* the exact gradient is 0, or the approximate one not a number */
    if (isfinite(error)) {
        snprintf(numbers, sizeof numbers, "%.3g, cosine %.4g", error, cosine);
    }
    snprintf(content, sizeof content, "gradient's error %s in epoch %.0f; %lld back-off%s", numbers, epoch, n,
             n == 1 ? "" : "s");
    print_line("guard", content);
    if (ended) {
        const char *stale = number_of(guard, "stale") > 0.0 ? " of the epoch before" : "";
        snprintf(content, sizeof content, "%g of the boundary rows%s, %s, gradients %s", number_of(guard, "sampling"),
                 stale, text_of(guard, "codec"), text_of(guard, "codec_backward"));
        print_line("", content);
    }
}

static void print_memory(const json_t *result)
{
    static const struct column columns[] = {
        {"WORKER", "worker", cell_integer, true, 0},
        {"PLANNED", "planned.all", cell_bytes, true, 0},
        {"MEASURED", "measured.all", cell_bytes, true, 0},
        {"RESIDENT AT MOST", "resident_peak", cell_bytes, false, 0},
    };
    static const struct column gpu_columns[] = {
        {"WORKER", "worker", cell_integer, true, 0},
        {"PLANNED", "planned.all", cell_bytes, true, 0},
        {"MEASURED", "measured.all", cell_bytes, true, 0},
        {"PINNED", "pinned.measured.all", cell_bytes, true, 0},
        {"RESIDENT AT MOST", "resident_peak", cell_bytes, false, 0},
    };
    const json_t *memory = json_object_get(result, "memory");
    if (json_array_size(memory) == 0) {
        return;
    }
    bool has_gpu = json_object_get(json_array_get(memory, 0), "pinned") != NULL;
    printf(has_gpu ? "\nmemory, of GPUs\n" : "\nmemory\n");
    columns_print(has_gpu ? gpu_columns : columns, has_gpu ? 5 : 4, memory, 0, NULL);
}

static void add_bytes(struct table *table, const json_t *bytes)
{
    char text[TEXT_BYTES];
    text_bytes(json_is_number(bytes) ? json_number_value(bytes) : NAN, text);
    table_add(table, text);
}

/* Planned and counted bytes by layer, of all workers: of an epoch, or of a prediction's evaluation. */
static void print_traffic(const json_t *result)
{
    const json_t *traffic = json_object_get(result, "traffic"), *planned = json_object_get(traffic, "planned");
    const json_t *measured = json_object_get(traffic, "measured"), *layers = json_object_get(planned, "layers"),
                 *layer;
    bool trained = integer_of(traffic, "epochs") > 0;
    const char *const directions[] = {trained ? "forward" : "evaluate", "backward"};
    const char *heads[] = {"LAYER", trained ? "FORWARD" : "EVALUATION", "PLANNED", "BACKWARD", "PLANNED"};
    int n_direction = trained ? 2 : 1, n_column = 1 + 2 * n_direction;
    size_t i;
    if (json_array_size(layers) == 0 || json_array_size(json_object_get(result, "memory")) < 2) {
        return; /* one worker receives nothing */
    }
    struct table table;
    table_init(&table, n_column);
    for (int column = 0; column < n_column; column++) {
        table.is_right[column] = column > 0;
        table_add(&table, heads[column]);
    }
    json_array_foreach(layers, i, layer)
    {
        const json_t *counted = json_array_get(json_object_get(measured, "layers"), i);
        char name[96];
        snprintf(name, sizeof name, "%lld %.60s", (long long)integer_of(layer, "op"), text_of(layer, "aggregate"));
        table_add(&table, name);
        for (int d = 0; d < n_direction; d++) {
            add_bytes(&table, json_object_get(counted, directions[d]));
            add_bytes(&table, json_object_get(layer, directions[d]));
        }
    }
    table_add(&table, "sums");
    for (int column = 0; trained && column < 2; column++) {
        table_add(&table, "");
    }
    add_bytes(&table, json_object_get(measured, trained ? "reduce" : "reduce_evaluate"));
    add_bytes(&table, json_object_get(planned, trained ? "reduce" : "reduce_evaluate"));
    printf("\ntraffic of %s\n", trained ? "an epoch" : "the evaluation");
    table_print(&table, stdout, 0, NULL);
}

static void print_seconds(const json_t *result)
{
    const json_t *seconds = json_object_get(result, "seconds");
    const char *name;
    json_t *value;
    double total = number_of(seconds, "total");
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
    print_line("folder", text_of(answer, "folder"));
    print_line("output", text_of(answer, "output"));
    json_array_foreach(json_object_get(answer, "set"), i, setting)
    {
        print_line("--set", json_string_value(setting) != NULL ? json_string_value(setting) : "");
    }
}

enum status run_show(const struct ctl_arguments *arguments, int *exit_code_out)
{
    json_t *answer = NULL;
    (void)exit_code_out;
    enum status status = ctl_ask(arguments, ctl_job_request(arguments, "show"), &answer);
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        text_print_json(answer);
    } else if (status == STATUS_OK) {
        const json_t *job = json_object_get(answer, "job"), *result = json_object_get(answer, "result");
        char *name = text_printable(text_of(job, "name"));
        printf("job %lld, %s\n", (long long)integer_of(job, "id"), name);
        free(name);
        print_state(job);
        print_submission(answer);
        if (integer_of(job, "epoch") > 0) {
            print_epoch(job, json_object_get(answer, "last"));
            print_guard(result, json_object_get(answer, "last"));
        }
        confusion_print(result, stdout);
        print_memory(result);
        print_traffic(result);
        print_seconds(result);
        printf("\nhistory (attempt, state)\n");
        columns_print(history_columns, sizeof history_columns / sizeof *history_columns,
                      json_object_get(answer, "history"), text_columns(stdout), NULL);
    }
    json_decref(answer);
    return status;
}
