/* Whole jobs with error feedback: planned traffic and memory, deaths and resuming, refusals. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char trainerd[PATH_MAX];

static void make_all(void)
{
    program_find("trainerd", trainerd, sizeof trainerd);
    folder_make();
    folder_write("job.toml",
                 "[dataset]\ngenerator = \"sbm\"\nnodes = 3000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 4\n"
                 "method = \"random\"\ncache = \"off\"\n[model]\nkind = \"sage\"\nlayers = 3\nhidden = 32\ndropout = "
                 "0.5\n[train]\n"
                 "epochs = 20\neval_every = 0\nprune = \"never\"\n[exchange]\ncodec = \"int2\"\nerror_feedback = "
                 "true\n[workers]\n"
                 "count = 4\nthreads = 1\n");
}

/* Bits need no large graph. */
#define SMALL "--set dataset.nodes=600 "

TestSuite(feedback, .init = make_all, .fini = folder_remove, .timeout = 900);

static double payload_bytes(const json_t *result, size_t rank)
{
    const json_t *one = json_array_get(json_object_get(result, "memory"), rank);
    return results_number(json_object_get(one, "measured"), "payloads");
}

/* Bytes on the way are planned; memory is what the plan says, and more. */
static void expect_planned(const char *model)
{
    json_t *plan = job_run_plan("--set output.dir=o --set %s", model);
    job_run("--set output.dir=without --set exchange.error_feedback=false --set %s", model);
    job_run("--set output.dir=o --set %s", model);
    json_t *metrics = results_metrics(folder_path("o"), true), *result = results_json(folder_path("o/result.json"));
    json_t *without = results_json(folder_path("without/result.json"));
    for (size_t e = 0; e < 19; e++) { /* the last one evaluates, too */
        cr_expect_eq(results_number(json_array_get(metrics, e), "bytes_received"),
                     results_number(plan, "bytes_per_epoch"), "%s: epoch %zu", model, e);
    }
    results_expect_memory(result, "all", model);
    results_expect_memory(result, "payloads", model);
    for (size_t rank = 0; rank < 4; rank++) {
        cr_expect_gt(payload_bytes(result, rank), payload_bytes(without, rank), "%s: worker %zu", model, rank);
    }
    cr_expect_eq(results_number(result, "allocations_in_epochs"), 0);
    json_decref(without);
    json_decref(result);
    json_decref(metrics);
    json_decref(plan);
}

Test(feedback, the_plan_tells_the_traffic_and_the_memory)
{
    static const char *const jobs[] = {
        "model.kind=sage",
        "model.kind=gat",
        "model.kind=gatv2",
        "exchange.codec_backward=fp32",
    };
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        if (ways_skip(j, sizeof jobs / sizeof *jobs)) {
            continue;
        }
        expect_planned(jobs[j]);
    }
}

/* Residuals are in the checkpoint, by part: other workers go on with them. */
Test(feedback, a_job_that_goes_on_from_a_checkpoint_has_the_bits_of_one_that_never_stopped)
{
    static const char *const ways[] = {"model.kind=sage", "model.kind=gat", "exchange.sampling=0.4",
                                       "exchange.guard_every=3",
                                       "dataset.train_share=0.02 --set dataset.degree=3 --set train.prune=always"};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (ways_skip(w, sizeof ways / sizeof *ways)) {
            continue;
        }
        job_run(SMALL "--set %s --set output.dir=one%zu", ways[w], w);
        job_run(SMALL "--set %s --set train.epochs=7 --set train.checkpoint_every=7 --set output.dir=two%zu --set "
                      "workers.count=2",
                ways[w], w);
        job_run(SMALL
                "--set %s --set train.checkpoint_every=7 --set output.dir=two%zu --set workers.count=3 --resume",
                ways[w], w);
        char one[16], two[16];
        snprintf(one, sizeof one, "one%zu", w);
        snprintf(two, sizeof two, "two%zu", w);
        results_expect_same_model(folder_path(one), folder_path(two));
    }
}

/* While rows travel, before a step, and while a checkpoint is read: before any checkpoint is there, and later. */
Test(feedback, a_death_is_survived_with_the_bits_of_an_undisturbed_job)
{
    static const struct {
        const char *fault;
        bool resumes;
    } deaths[] = {{"worker1.exchange=kill@20", false},
                  {"worker1.exchange=kill@200", true},
                  {"worker2.step=kill@9", true},
                  {"worker0.checkpoint=kill@12", true}};
    job_run(SMALL "--set output.dir=one");
    for (size_t d = 0; d < sizeof deaths / sizeof *deaths; d++) {
        char faults[128], two[16];
        snprintf(two, sizeof two, "two%zu", d);
        snprintf(faults, sizeof faults, "TRAINERD_FAULTS='%s'", deaths[d].fault);
        cr_expect_neq(job_run_code(faults, SMALL "--set train.checkpoint_every=4 --set output.dir=%s", two), 0, "%s",
                      deaths[d].fault);
        job_run(SMALL "--set train.checkpoint_every=4 --set output.dir=%s --set workers.count=%zu%s", two, d % 2 + 2,
                deaths[d].resumes ? " --resume" : "");
        results_expect_same_model(folder_path("one"), folder_path(two));
    }
}

/* Back to what was there before epoch 0, which has no residuals: the job that begins with the rate that it ends with. */
Test(feedback, a_job_that_goes_back_to_its_beginning_has_nothing_to_add)
{
    static const char settings[] = "--set dataset.nodes=200 --set train.optimizer=sgd --set train.epochs=9 "
                                   "--set train.on_nan=rollback --set train.max_rollbacks=60";
    job_run("%s --set train.lr=1024 --set output.dir=one --set workers.count=3", settings);
    json_t *one = results_json(folder_path("one/result.json"));
    int n_rollback = (int)results_number(one, "rollbacks");
    cr_assert_gt(n_rollback, 0);
    job_run("%s --set train.lr=%.17g --set output.dir=two --set workers.count=1", settings,
            ldexp(1024.0, -n_rollback));
    json_t *two = results_json(folder_path("two/result.json"));
    cr_expect_eq(results_number(two, "rollbacks"), 0);
    results_expect_same_model(folder_path("one"), folder_path("two"));
    json_decref(one);
    json_decref(two);
}

/* Back to a checkpoint with its residuals. */
Test(feedback, a_job_that_diverges_goes_back_to_the_same_bits_on_any_workers)
{
    static const char settings[] =
        "--set dataset.nodes=200 --set train.optimizer=sgd --set train.lr=1e4 --set train.epochs=9 "
        "--set train.checkpoint_every=4 --set train.eval_every=1 --set train.on_nan=rollback "
        "--set train.max_rollbacks=60";
    job_run("%s --set output.dir=one --set workers.count=1", settings);
    cr_expect_not_null(strstr(job_run_log, "back to 4 epochs with the learning rate"), "%s", job_run_log);
    job_run("%s --set output.dir=two --set workers.count=3", settings);
    results_expect_same_model(folder_path("one"), folder_path("two"));
}

/* --- refusals --- */

static void expect_refused(const char *setting, const char *reason)
{
    char command[2 * PATH_MAX], words[4096];
    snprintf(command, sizeof command, "cd %s && %s --check job.toml --set %s > stdout 2> stderr", folder, trainerd,
             setting);
    int how = system(command);
    folder_read("stderr", words, sizeof words);
    cr_expect(WIFEXITED(how) && WEXITSTATUS(how) == 78, "%s: %d", setting, how);
    cr_expect_not_null(strstr(words, reason), "%s: %s", setting, words);
}

Test(feedback, a_job_that_rounds_nothing_or_uses_rows_of_the_epoch_before_is_refused)
{
    expect_refused("exchange.codec=fp32",
                   "nothing of this job is rounded; expected an exchange.codec other than fp32");
    expect_refused("exchange.stale=1",
                   "does not go with exchange.stale = 1: a row is used an epoch after it is rounded");
}
