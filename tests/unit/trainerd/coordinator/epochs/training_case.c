#include "tests/unit/trainerd/coordinator/epochs/training_case.h"

#include "protocol/files/file.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int32_t owner[FAKE_N_NODE] = {1, 0, 1, 0, 1, 0};
static int64_t part_begin[] = {0, 3, 6};
static uint32_t order[FAKE_N_NODE] = {5, 1, 3, 0, 4, 2};
static const struct partition partition = {
    .n_part = 2, .n_node = FAKE_N_NODE, .owner = owner, .part_begin = part_begin, .order = order};

static struct parameter param[] = {{.name = "lin.weight", .n_shared = 1},
                                   {.name = "own", .offset = 1, .n_shared = FAKE_N_WEIGHT - 1, .line = 4}};
static const struct program program = {.n_param = 2, .param = param};

static struct run *runs; /* open, the newest first */
static json_t *all_metrics;

struct run *open_run(const char *name, const char *train_keys)
{
    struct run *run = calloc(1, sizeof *run);
    run->next = runs;
    runs = run;
    char text[512], path[128];
    snprintf(text, sizeof text, "[dataset]\ngenerator = \"karate\"\n[workers]\ncount = 2\n[train]\n%s", train_keys);
    cr_assert_eq(job_load_text(text, strlen(text), "job", NULL, 0, &run->job), STATUS_OK, "%s", status_reason());
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cr_assert_eq(file_folder_make(path, NULL), STATUS_OK);
    cr_assert_eq(output_open(NULL, path, &run->output), STATUS_OK, "%s", status_reason());
    cr_assert_eq(output_metrics_open(&run->output, 0), STATUS_OK);
    fake_fleet_init(&run->fleet, &run->asked);
    run->words = tmpfile();
    progress_init(&run->progress, run->words, false);
    run->training = (struct training){.job = &run->job,
                                      .links.program = &program,
                                      .fleet = &run->fleet,
                                      .output = &run->output,
                                      .progress = &run->progress,
                                      .partition = &partition,
                                      .stop = &run->asked,
                                      .n_class = FAKE_N_CLASS,
                                      .floats.n_weight = FAKE_N_WEIGHT};
    cr_assert_eq(score_metrics(&run->job, false, FAKE_N_CLASS, &run->training.metrics), STATUS_OK, "%s",
                 status_reason());
    training_begin(&run->training, "graph", training_partition_hash(&partition));
    return run;
}

void close_run(struct run *run)
{
    struct run **at = &runs;
    while (*at != run) {
        at = &(*at)->next;
    }
    *at = run->next;
    fclose(run->words);
    output_close(&run->output, true);
    free(run);
}

void training_case_end(void)
{
    while (runs != NULL) {
        close_run(runs);
    }
    json_decref(all_metrics);
    folder_remove();
}

/* Go on from the newest checkpoint in the folder, as the coordinator does. */
struct run *resume_run(const char *name, const char *train_keys)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s/checkpoint", folder, name);
    struct checkpoint checkpoint;
    cr_assert_eq(checkpoint_load(path, INT64_MAX, &checkpoint), STATUS_OK, "%s", status_reason());
    char *metrics = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", folder, name);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    cr_assert_gt(getdelim(&metrics, &n, '\0', file), 0);
    fclose(file);
    struct run *run = open_run(name, train_keys);
    cr_assert_eq(output_metrics_append(&run->output, metrics, strlen(metrics)), STATUS_OK);
    free(metrics);
    cr_assert_eq(checkpoint_match(&checkpoint, &run->job), STATUS_OK, "%s", status_reason());
    cr_assert_eq(training_resume(&run->training, &checkpoint), STATUS_OK, "%s", status_reason());
    close(run->output.metrics);
    cr_assert_eq(output_metrics_open(&run->output, checkpoint.state.n_metrics_bytes), STATUS_OK, "%s",
                 status_reason());
    checkpoint_release(&checkpoint);
    return run;
}

void expect_done(struct run *run)
{
    cr_assert_eq(training_run(&run->training), STATUS_OK, "%s", status_reason());
}

json_t *metrics_of(const char *name)
{
    json_t *metrics = results_epochs(folder_path(name));
    all_metrics = all_metrics != NULL ? all_metrics : json_array();
    json_array_append_new(all_metrics, metrics);
    return metrics;
}

double field(json_t *metrics, size_t line, const char *name)
{
    json_t *value = json_object_get(json_array_get(metrics, line), name);
    cr_assert_not_null(value, "%s", name);
    return json_is_null(value) ? NAN : json_number_value(value);
}

void expect_same_end(const struct run *a, const struct run *b)
{
    cr_assert_arr_eq(a->fleet.state, b->fleet.state, sizeof a->fleet.state, "weights, moments and best weights");
    cr_assert_eq(a->training.state.best_epoch, b->training.state.best_epoch);
    cr_assert_eq(a->training.state.n_epoch, b->training.state.n_epoch);
    cr_assert_eq(a->training.state.n_stale, b->training.state.n_stale);
    cr_assert_eq(memcmp(&a->training.state.best, &b->training.state.best, sizeof a->training.state.best), 0,
                 "all metrics");
    cr_assert_eq(a->training.state.n_sent, b->training.state.n_sent);
    cr_assert_eq(a->training.state.last.of[0].test, b->training.state.last.of[0].test);
    json_t *one = metrics_of("one"), *two = metrics_of("two");
    for (size_t i = 0; i < json_array_size(one); i++) {
        json_object_del(json_array_get(one, i), "time");
        json_object_del(json_array_get(two, i), "time");
    }
    cr_assert(json_equal(one, two), "metrics.jsonl, but for its times");
}

void expect_resumed_alike(const char *train_keys)
{
    struct run *whole = open_run("one", train_keys);
    long long n_epoch = whole->job.train.epochs;
    expect_done(whole);
    for (int64_t at = 0; at < n_epoch - 1; at++) {
        struct run *first = open_run("two", train_keys);
        first->fleet.signal_at = at;
        cr_assert_eq(training_run(&first->training), STATUS_INTERRUPTED);
        char done[80];
        snprintf(done, sizeof done, "interrupted after %lld of %lld epochs", (long long)at + 1, n_epoch);
        cr_assert(strstr(status_reason(), done) && strstr(status_reason(), "two/checkpoint"), "%s", status_reason());
        close_run(first);
        struct run *second = resume_run("two", train_keys);
        expect_done(second);
        expect_same_end(whole, second);
        cr_expect_eq(second->fleet.factor, whole->fleet.factor);
        close_run(second);
    }
}
