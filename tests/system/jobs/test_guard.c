/* Whole jobs with an accuracy guard: what they say of it, planned and measured traffic, deaths and resumes. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void make_all(void)
{
    folder_make();
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"sbm\"\nnodes = 1000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 4\n"
        "method = \"random\"\ncache = \"off\"\n[model]\nkind = \"gcn\"\nlayers = 3\nhidden = 32\ndropout = 0.5\n"
        "norm = \"batch\"\n[train]\nepochs = 12\neval_every = 0\nprune = \"never\"\n[exchange]\nsampling = 0.2\n"
        "codec = \"int4\"\nguard_every = 3\nguard_limit = 0.001\n[workers]\ncount = 4\nthreads = 1\n");
}

TestSuite(guarded, .init = make_all, .fini = folder_remove, .timeout = 900);

/* Lines of events.jsonl with this event. */
static json_t *events_of(const char *path, const char *event)
{
    char line[4096];
    json_t *all = json_array();
    FILE *file = fopen(folder_path(path), "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *one = json_loads(line, 0, NULL);
        cr_assert_not_null(one, "%s", line);
        if (strcmp(json_string_value(json_object_get(one, "event")), event) == 0) {
            json_array_append(all, one);
        }
        json_decref(one);
    }
    fclose(file);
    return all;
}

/* 0.2, 0.4, 0.8, 1 and int4, int8, bf16, fp32: after three back-offs nothing is lost, and nothing compared. */
Test(guarded, a_limit_that_no_sample_keeps_backs_off_and_says_so_everywhere)
{
    cr_assert_eq(mkdir(folder_path("events"), 0700), 0);
    job_run("--set output.dir=o --job-folder events --attempt 1");
    cr_expect_not_null(strstr(job_run_log, "epoch 2: the gradient's relative error is "), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "backed off to 0.4 of the boundary rows, int8"), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "backed off to exact epochs"), "%s", job_run_log);
    json_t *metrics = results_metrics(folder_path("o"), true), *result = results_json(folder_path("o/result.json"));
    for (size_t e = 0; e < 12; e++) {
        cr_expect_eq(results_number(json_array_get(metrics, e), "back_offs"),
                     e < 2   ? 0
                     : e < 5 ? 1
                     : e < 8 ? 2
                             : 3,
                     "epoch %zu", e);
    }
    const json_t *fifth = json_array_get(metrics, 5), *guard = json_object_get(result, "guard");
    cr_expect_eq(results_number(fifth, "guard_epoch"), 5);
    cr_expect(results_number(fifth, "guard_error") > 0.001 && results_number(fifth, "guard_cosine") < 1.0);
    cr_expect_neq(results_number(fifth, "guard_loss"), results_number(fifth, "loss"));
    cr_expect_eq(results_number(guard, "comparisons"), 3);
    cr_expect_eq(results_number(guard, "back_offs"), 3);
    cr_expect_eq(results_number(json_object_get(guard, "last"), "epoch"), 8);
    cr_expect_eq(results_number(guard, "sampling"), 1.0);
    cr_expect_str_eq(json_string_value(json_object_get(guard, "codec")), "fp32");
    json_t *events = events_of("events/events.jsonl", "back_off");
    cr_assert_eq(json_array_size(events), 3);
    const json_t *first = json_array_get(events, 0);
    cr_expect(results_number(first, "epoch") == 2 && results_number(first, "back_offs") == 1 &&
              results_number(first, "limit") == 0.001);
    cr_expect(results_number(first, "error") == results_number(json_array_get(metrics, 2), "guard_error") &&
              results_number(first, "sampling") == 0.4);
    cr_expect_str_eq(json_string_value(json_object_get(first, "codec_backward")), "int8");
    cr_expect_eq(results_number(result, "allocations_in_epochs"), 0);
    results_expect_memory(result, "all", "guarded");
    json_decref(events);
    json_decref(result);
    json_decref(metrics);
}

/* Bytes of epochs that compare, every third, and of others; a stale job sends its exact rows instead of the coded ones. */
static void expect_planned(const char *settings)
{
    job_run("--set exchange.guard_limit=1e6 --set output.dir=o %s --plan", settings);
    cr_expect_not_null(strstr(job_run_log, "more in one epoch of 3, which makes the exact gradient, too"), "%s",
                       job_run_log);
    json_t *plan = job_run_plan("--set exchange.guard_limit=1e6 --set output.dir=o %s", settings);
    double each = results_number(json_array_get(json_object_get(plan, "stages"), 0), "bytes_per_epoch");
    double more = results_number(plan, "bytes_per_comparison"), mean = results_number(plan, "bytes_per_epoch");
    cr_expect_leq(fabs(mean - (each + more / 3.0)), 64.0, "%s: mean %.0f", settings, mean);
    job_run("--set exchange.guard_limit=1e6 --set output.dir=o %s", settings);
    json_t *metrics = results_metrics(folder_path("o"), true), *result = results_json(folder_path("o/result.json"));
    for (size_t e = 0; e < 11; e++) {
        cr_expect_eq(results_number(json_array_get(metrics, e), "bytes_received"), e % 3 == 2 ? each + more : each,
                     "%s: epoch %zu", settings, e);
        cr_expect_eq(results_number(json_array_get(metrics, e), "back_offs"), 0);
    }
    results_expect_memory(result, "all", settings);
    json_decref(result);
    json_decref(metrics);
    json_decref(plan);
}

/* Nothing is sampled, so every byte is known before. */
Test(guarded, the_plan_tells_what_a_comparison_adds_to_an_epoch)
{
    expect_planned("--set exchange.sampling=1.0");
    expect_planned("--set exchange.sampling=1.0 --set exchange.codec=fp32 --set exchange.stale=1");
    expect_planned("--set exchange.sampling=1.0 --set exchange.codec=int8 --set exchange.stale=1");
}

/* Epoch 0 has no rows from before: both of its runs send their own. */
Test(guarded, the_plan_tells_what_a_stale_job_sends_that_compares_in_epoch_0)
{
    static const char settings[] =
        "--set exchange.sampling=1.0 --set exchange.codec=int8 --set exchange.stale=1 "
        "--set exchange.guard_every=1 --set exchange.guard_limit=1e6 --set model.norm=none "
        "--set output.dir=o";
    json_t *plan = job_run_plan("%s", settings);
    double each = results_number(json_array_get(json_object_get(plan, "stages"), 0), "bytes_per_epoch");
    double more = results_number(plan, "bytes_per_comparison"), sum = 0.0;
    job_run("%s", settings);
    json_t *metrics = results_metrics(folder_path("o"), true);
    for (size_t e = 0; e < 11; e++) {
        double n = results_number(json_array_get(metrics, e), "bytes_received");
        cr_expect(e == 0 ? n > each + more : n == each + more, "epoch %zu: %.0f bytes", e, n);
        sum += n;
    }
    double mean = (sum + each + more) / 12.0;
    cr_expect_leq(fabs(results_number(plan, "bytes_per_epoch") - mean), 64.0, "%.0f, not %.0f", mean,
                  results_number(plan, "bytes_per_epoch"));
    json_decref(metrics);
    json_decref(plan);
}

Test(guarded, a_job_that_goes_on_from_a_checkpoint_has_the_bits_of_one_that_never_stopped)
{
    job_run("--set output.dir=one --set train.checkpoint_every=4");
    job_run("--set train.epochs=7 --set train.checkpoint_every=4 --set output.dir=two --set workers.count=2");
    job_run("--set train.checkpoint_every=4 --set output.dir=two --set workers.count=3 --resume");
    results_expect_same_model(folder_path("one"), folder_path("two"));
    json_t *result = results_json(folder_path("two/result.json"));
    cr_expect_eq(results_number(json_object_get(result, "guard"), "comparisons"), 3);
    json_decref(result);
}

/* Before its only back-off, and behind it. */
Test(guarded, a_stale_job_goes_on_with_what_it_kept)
{
#define STALE                                                                                                        \
    "--set exchange.sampling=1.0 --set exchange.codec=fp32 --set exchange.stale=1 --set exchange.guard_every=5 "
    job_run(STALE "--set output.dir=one");
    for (int epoch = 3; epoch < 12; epoch += 4) {
        job_run(STALE
                "--set train.epochs=%d --set train.checkpoint_every=%d --set output.dir=two%d --set workers.count=2",
                epoch, epoch, epoch);
        job_run(STALE "--set train.checkpoint_every=%d --set output.dir=two%d --set workers.count=3 --resume", epoch,
                epoch);
        char name[16];
        snprintf(name, sizeof name, "two%d", epoch);
        results_expect_same_model(folder_path("one"), folder_path(name));
    }
    json_t *result = results_json(folder_path("two7/result.json")), *guard = json_object_get(result, "guard");
    cr_expect_eq(results_number(guard, "back_offs"), 1);
    cr_expect_eq(results_number(guard, "stale"), 0);
    json_decref(result);
}

/* Sums over parts of a run of an epoch are five (two batch norms, both ways, and gradients), and epochs 2 and 5 run twice: here in the
 * approximate run of epoch 5, as its gradients are reduced, and in the exact one. */
Test(guarded, a_worker_that_dies_while_gradients_are_compared_changes_nothing)
{
    job_run("--set output.dir=one --set train.checkpoint_every=4");
    static const char *const faults[] = {"worker1.reduce=kill@33", "worker1.reduce=kill@35",
                                         "worker2.reduce=kill@38"};
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        char environment[128], name[8];
        snprintf(name, sizeof name, "f%zu", f);
        snprintf(environment, sizeof environment, "TRAINERD_FAULTS=%s", faults[f]);
        int code = job_run_code(environment, "--set output.dir=%s --set train.checkpoint_every=4", name);
        cr_assert_neq(code, 0, "%s did not strike", faults[f]);
        cr_expect_not_null(strstr(job_run_log, "in epoch 5"), "%s: %s", faults[f], job_run_log);
        job_run("--set output.dir=%s --set train.checkpoint_every=4 --set workers.count=3 --resume", name);
        results_expect_same_model(folder_path("one"), folder_path(name));
    }
}
