/* What output.trace leaves behind: every step of the last epoch, once for each worker, and the same bits as without. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void make_all(void)
{
    folder_make();
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"sbm\"\nnodes = 3000\ndegree = 3\n[partition]\nparts = 8\nmethod = \"block\"\n"
        "cache = \"off\"\n[model]\nkind = \"gat\"\nhidden = 16\nheads = 4\nlayers = 3\ndropout = 0.5\n"
        "norm = \"batch\"\n[train]\nepochs = 3\n[workers]\ncount = 2\nthreads = 1\n");
    cr_assert_eq(mkdir(folder_path("spill"), 0700), 0);
}

TestSuite(trace, .init = make_all, .fini = folder_remove, .timeout = 900);

/* --- a trace --- */

#define MOST_EVENTS 65536
#define ROUNDED_US 0.01 /* times are written to the nanosecond */

struct event {
    const char *name, *kind, *phase;
    int worker, track, step, epoch;
    double begin_us, end_us;
};

static struct event events[MOST_EVENTS];
static int n_event;

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    cr_assert_not_null(text, "no text '%s'", key);
    return text;
}

static int by_begin(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->begin_us != y->begin_us) {
        return x->begin_us < y->begin_us ? -1 : 1;
    }
    return x->end_us > y->end_us ? -1 : x->end_us < y->end_us;
}

/* All complete events, by the time when they began. */
static json_t *trace_read(const char *name)
{
    json_t *all = results_json(folder_path(name));
    const json_t *list = json_object_get(all, "traceEvents");
    n_event = 0;
    for (size_t e = 0; e < json_array_size(list); e++) {
        const json_t *one = json_array_get(list, e), *args = json_object_get(one, "args");
        if (strcmp(text_of(one, "ph"), "X") != 0) {
            continue;
        }
        cr_assert_lt(n_event, MOST_EVENTS);
        events[n_event++] = (struct event){.name = text_of(one, "name"),
                                           .kind = text_of(one, "cat"),
                                           .phase = text_of(args, "phase"),
                                           .worker = (int)results_number(one, "pid"),
                                           .track = (int)results_number(one, "tid"),
                                           .step = (int)results_number(args, "step"),
                                           .epoch = (int)results_number(args, "epoch"),
                                           .begin_us = results_number(one, "ts"),
                                           .end_us = results_number(one, "ts") + results_number(one, "dur")};
    }
    qsort(events, (size_t)n_event, sizeof *events, by_begin);
    cr_expect_eq(results_number(json_object_get(all, "otherData"), "dropped_events"), 0);
    return all;
}

static bool is_step(const struct event *event, int worker, const char *phase)
{
    return event->worker == worker && strcmp(event->kind, "step") == 0 && strcmp(event->phase, phase) == 0;
}

/* Steps behind this one that are fused with it. */
static int fused_behind(const json_t *list, size_t step)
{
    int n = 0;
    while (json_is_true(json_object_get(json_array_get(list, step + 1 + (size_t)n), "fused"))) {
        n++;
    }
    return n;
}

/* Every step of the plan's list, or fused chain, once and in order; after it the evaluation's. */
static void expect_steps(const json_t *plan, int worker)
{
    const json_t *list = json_object_get(json_array_get(json_object_get(plan, "workers"), (size_t)worker), "steps");
    int n_train = 0, n_evaluate = 0;
    for (size_t s = 0; s < json_array_size(list); s++) {
        n_train += strcmp(text_of(json_array_get(list, s), "phase"), "train") == 0;
    }
    size_t first = json_array_size(list) - (size_t)n_train;
    cr_assert_gt(n_train, 0);
    int next = 0, evaluated = -1;
    for (int e = 0; e < n_event; e++) {
        if (is_step(&events[e], worker, "train")) {
            cr_assert_lt(next, n_train, "worker %d: step %d runs twice", worker, events[e].step);
            int n_fused = fused_behind(list, first + (size_t)next);
            char name[256], more[32] = "";
            if (n_fused > 0) {
                snprintf(more, sizeof more, "  + %d fused", n_fused);
            }
            snprintf(name, sizeof name, "%s%s", text_of(json_array_get(list, first + (size_t)next), "what"), more);
            cr_expect_eq(events[e].step, next);
            cr_expect_str_eq(events[e].name, name);
            cr_expect_eq(n_evaluate, 0);
            next += 1 + n_fused;
        } else if (is_step(&events[e], worker, "evaluate")) {
            cr_expect_gt(events[e].step, evaluated);
            evaluated = events[e].step;
            n_evaluate++;
        }
        cr_expect_eq(events[e].epoch, 2, "not the last epoch");
    }
    cr_expect_eq(next, n_train, "worker %d", worker);
    cr_expect_gt(n_evaluate, 0);
}

/* On the track of steps a part lies within its step; nothing else overlaps. */
static void expect_nested(int worker, int track)
{
    const struct event *step = NULL, *last = NULL;
    for (int e = 0; e < n_event; e++) {
        const struct event *one = &events[e];
        if (one->worker != worker || one->track != track) {
            continue;
        }
        bool part = strcmp(one->kind, "part") == 0;
        cr_expect(last == NULL || last->end_us <= one->begin_us + ROUNDED_US || (part && last == step),
                  "%s and %s overlap", last->name, one->name);
        if (part) {
            cr_assert_not_null(step);
            cr_expect(step->step == one->step && one->end_us <= step->end_us + ROUNDED_US, "%s outside of its step",
                      one->name);
        } else {
            cr_expect(step == NULL || step->end_us <= one->begin_us + ROUNDED_US);
            step = one;
        }
        last = one;
    }
}

static double sum_us(int worker, const char *kind)
{
    double sum = 0.0;
    for (int e = 0; e < n_event; e++) {
        bool counts = events[e].worker == worker && strcmp(events[e].kind, kind) == 0;
        sum += counts ? events[e].end_us - events[e].begin_us : 0.0;
    }
    return sum;
}

/* The number of the last epoch's line of metrics.jsonl. */
static double last_metric(const char *name, const char *key)
{
    static char lines[1 << 16];
    folder_read(name, lines, sizeof lines);
    size_t n = strlen(lines);
    cr_assert_gt(n, 1);
    lines[n - 1] = '\0';
    const char *newline = strrchr(lines, '\n');
    json_t *line = json_loads(newline != NULL ? newline + 1 : lines, 0, NULL);
    cr_assert_not_null(line);
    double value = results_number(line, key);
    json_decref(line);
    return value;
}

static void expect_memory_as_planned(const char *name)
{
    json_t *result = results_json(folder_path(name));
    const json_t *workers = json_object_get(result, "memory");
    cr_expect_eq(results_number(result, "allocations_in_epochs"), 0);
    for (size_t w = 0; w < json_array_size(workers); w++) {
        const json_t *one = json_array_get(workers, w);
        double planned = results_number(json_object_get(one, "planned"), "other");
        cr_expect_leq(results_number(json_object_get(one, "measured"), "other"), planned, "worker %zu", w);
    }
    json_decref(result);
}

static void expect_worker(const json_t *plan, int worker, double epoch_us)
{
    expect_steps(plan, worker);
    for (int track = 1; track <= 4; track++) {
        expect_nested(worker, track);
    }
    cr_expect_leq(sum_us(worker, "step"), epoch_us);
    cr_expect_gt(sum_us(worker, "pack"), 0);
}

Test(trace, every_step_of_the_last_epoch_is_there_once_for_each_worker_in_the_order_of_the_plan)
{
    job_run("--set output.dir=o --set output.trace=true");
    json_t *plan = job_run_plan("--set output.dir=plan --set output.trace=true --steps"),
           *trace = trace_read("o/trace.json");
    double epoch_us = 1e6 * last_metric("o/metrics.jsonl", "epoch_s");
    for (int worker = 0; worker < 2; worker++) {
        expect_worker(plan, worker, epoch_us);
        cr_expect_leq(sum_us(worker, "part"), sum_us(worker, "step"));
        cr_expect_leq(sum_us(worker, "wait"), sum_us(worker, "step"));
        cr_expect_gt(sum_us(worker, "part"), 0);
        cr_expect_eq(sum_us(worker, "spill"), 0);
    }
    expect_memory_as_planned("o/result.json");
    json_decref(trace);
    json_decref(plan);
}

Test(trace, it_changes_no_bits_and_without_it_there_is_no_file)
{
    job_run("--set output.dir=with --set output.trace=true");
    job_run("--set output.dir=without");
    cr_expect(folder_has("with/trace.json"));
    cr_expect_not(folder_has("without/trace.json"));
    results_expect_same(folder_path("with"), folder_path("without"), true);
    results_expect_same_file(folder_path("with"), folder_path("without"), "model.safetensors");
    job_run("--set output.dir=with");
    cr_expect_not(folder_has("with/trace.json"), "an earlier job's trace stays");
}

Test(trace, a_job_that_spills_shows_what_it_waits_for)
{
    job_run("--set output.dir=plain --set train.eval_every=0");
    job_run("--set output.dir=o --set output.trace=true --set memory.spill=spill --set memory.limit=5MiB");
    json_t *plan = job_run_plan(
               "--set output.dir=p --set output.trace=true --set memory.spill=spill --set memory.limit=5MiB --steps"),
           *trace = trace_read("o/trace.json");
    double epoch_us = 1e6 * last_metric("o/metrics.jsonl", "epoch_s");
    for (int worker = 0; worker < 2; worker++) {
        expect_worker(plan, worker, epoch_us);
        cr_expect_gt(sum_us(worker, "spill"), 0);
    }
    expect_memory_as_planned("o/result.json");
    results_expect_same_file(folder_path("plain"), folder_path("o"), "model.safetensors");
    json_decref(trace);
    json_decref(plan);
}
