/* Whole jobs whose epochs use the rows and gradients of the epoch before: planned traffic and memory, deaths and resuming. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void make_all(void)
{
    folder_make();
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"sbm\"\nnodes = 3000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 4\n"
        "method = \"random\"\ncache = \"off\"\n[model]\nkind = \"sage\"\nlayers = 3\nhidden = 16\ndropout = "
        "0.5\n[train]\n"
        "epochs = 20\neval_every = 0\nprune = \"never\"\n[exchange]\nstale = 1\n[workers]\ncount = 4\nthreads = 1\n");
}

/* Bits need no large graph. */
#define SMALL "--set dataset.nodes=600 "

TestSuite(stale, .init = make_all, .fini = folder_remove, .timeout = 900);

/* Every epoch's bytes are the plan's, epoch 0's too; so is the memory. */
static void expect_planned(const char *model)
{
    json_t *plan = job_run_plan("--set output.dir=o --set %s", model);
    double planned = results_number(plan, "bytes_per_epoch");
    job_run("--set output.dir=o --set %s", model);
    json_t *metrics = results_metrics(folder_path("o"), true), *result = results_json(folder_path("o/result.json"));
    for (size_t e = 0; e < 19; e++) { /* the last one evaluates, too */
        cr_expect_eq(results_number(json_array_get(metrics, e), "bytes_received"), planned, "%s: epoch %zu", model,
                     e);
    }
    results_expect_memory(result, "all", model);
    cr_expect_eq(results_number(result, "allocations_in_epochs"), 0);
    json_decref(result);
    json_decref(metrics);
    json_decref(plan);
}

Test(stale, the_plan_tells_the_traffic_and_the_memory)
{
    static const char *const jobs[] = {
        "model.kind=sage", "model.kind=gat", "model.kind=gatv2", "model.norm=batch", "exchange.codec=int8",
    };
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        if (ways_skip(j, sizeof jobs / sizeof *jobs)) {
            continue;
        }
        expect_planned(jobs[j]);
    }
}

/* Running statistics of stale rows would be no use to an exact evaluation. */
Test(stale, weights_with_a_batch_norm_evaluate_alike_in_an_exact_job)
{
    job_run("--set model.norm=batch --set output.dir=first");
    job_run("--set model.norm=batch --set exchange.stale=0 --set train.epochs=0 --set workers.count=2 "
            "--set model.init=first/best.safetensors --set output.dir=second");
    results_expect_same_file(folder_path("first"), folder_path("second"), "logits.npy");
}

/* What is kept is in the checkpoint, by part: other workers go on with it. */
Test(stale, a_job_that_goes_on_from_a_checkpoint_has_the_bits_of_one_that_never_stopped)
{
    static const char *const ways[] = {"model.kind=gat", "model.kind=sage", "exchange.codec=int4",
                                       "exchange.codec=int4,int8@7,bf16@8"};
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

/* Asking for a payload that is kept, before a step, and while a checkpoint is read: before any checkpoint is there, and later. */
Test(stale, a_death_is_survived_with_the_bits_of_an_undisturbed_job)
{
    static const struct {
        const char *fault;
        bool resumes;
    } deaths[] = {{"worker1.exchange=kill@20", false},
                  {"worker1.exchange=kill@100", true},
                  {"worker2.step=kill@9", true},
                  {"worker0.checkpoint=kill@12", true}};
    job_run(SMALL "--set model.kind=gat --set output.dir=one");
    for (size_t d = 0; d < sizeof deaths / sizeof *deaths; d++) {
        char environment[128], two[16];
        snprintf(two, sizeof two, "two%zu", d);
        snprintf(environment, sizeof environment, "TRAINERD_FAULTS='%s'", deaths[d].fault);
        int code = job_run_code(environment,
                                SMALL "--set model.kind=gat --set train.checkpoint_every=4 --set output.dir=%s", two);
        cr_expect_neq(code, 0, "%s", deaths[d].fault);
        job_run(SMALL
                "--set model.kind=gat --set train.checkpoint_every=4 --set output.dir=%s --set workers.count=%zu%s",
                two, d % 2 + 2, deaths[d].resumes ? " --resume" : "");
        results_expect_same_model(folder_path("one"), folder_path(two));
    }
}

/* Back to a checkpoint with all that it keeps, and to epoch 0, which keeps nothing from before. */
Test(stale, a_job_that_diverges_goes_back_to_the_same_bits_on_any_workers)
{
    static const char settings[] =
        "--set dataset.nodes=200 --set train.optimizer=sgd --set train.lr=1e6 --set train.on_nan=rollback "
        "--set train.max_rollbacks=60 --set train.epochs=9 --set train.checkpoint_every=4 "
        "--set train.eval_every=1";
    job_run("%s --set output.dir=one --set workers.count=1", settings);
    cr_expect_not_null(strstr(job_run_log, "epochs with the learning rate times 0.5 (1 of 60)"), "%s", job_run_log);
    job_run("%s --set output.dir=two --set workers.count=3", settings);
    results_expect_same_model(folder_path("one"), folder_path("two"));
}
