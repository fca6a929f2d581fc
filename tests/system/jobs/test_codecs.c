/* Whole jobs whose codecs change over the epochs: planned and measured traffic, resuming, refusals. */
#include "tests/support/process/command.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void make_all(void)
{
    folder_make();
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"sbm\"\nnodes = 2000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 4\n"
        "method = \"random\"\ncache = \"off\"\n[model]\nkind = \"sage\"\nlayers = 3\nhidden = 32\ndropout = 0.5\n"
        "[train]\nepochs = 12\neval_every = 0\nprune = \"never\"\n[exchange]\ncodec = \"int2, int8@4, fp32@8\"\n"
        "codec_backward = \"int8, bf16@6\"\n[workers]\ncount = 4\nthreads = 1\n");
}

TestSuite(codecs, .init = make_all, .fini = folder_remove, .timeout = 900);

static void expect_stage(const json_t *stage, double epoch, double n_epoch, const char *codec, const char *backward)
{
    cr_expect_eq(results_number(stage, "epoch"), epoch);
    cr_expect_eq(results_number(stage, "epochs"), n_epoch);
    cr_expect_str_eq(json_string_value(json_object_get(stage, "codec")), codec);
    cr_expect_str_eq(json_string_value(json_object_get(stage, "codec_backward")), backward);
}

/* Every epoch receives what the plan says of its codecs, to the byte; the mean is the mean. */
static void expect_planned(const char *model)
{
    json_t *plan = job_run_plan("--set output.dir=o --set %s", model), *stages = json_object_get(plan, "stages");
    cr_assert_eq(json_array_size(stages), 4);
    expect_stage(json_array_get(stages, 0), 0, 4, "int2", "int8");
    expect_stage(json_array_get(stages, 1), 4, 2, "int8", "int8");
    expect_stage(json_array_get(stages, 2), 6, 2, "int8", "bf16");
    expect_stage(json_array_get(stages, 3), 8, 4, "fp32", "bf16");
    job_run("--set output.dir=o --set %s", model);
    json_t *metrics = results_metrics(folder_path("o"), true), *result = results_json(folder_path("o/result.json"));
    double sum = 0.0;
    for (size_t s = 0, e = 0; s < json_array_size(stages); s++) {
        const json_t *stage = json_array_get(stages, s);
        double planned = results_number(stage, "bytes_per_epoch"),
               end = results_number(stage, "epoch") + results_number(stage, "epochs");
        for (; (double)e < end; e++) {
            const json_t *epoch = json_array_get(metrics, e);
            double n = results_number(epoch, "bytes_received") -
                       results_number(epoch, "bytes_evaluate"); /* of the last one */
            sum += planned;
            if (e < 11) {
                cr_expect_eq(n, planned, "%s: epoch %zu received %.0f bytes, planned %.0f", model, e, n, planned);
            }
        }
    }
    cr_expect_leq(fabs(sum / 12.0 - results_number(plan, "bytes_per_epoch")), 12.0, "%s",
                  model); /* rounded for each halo pass */
    results_expect_memory(result, "all", model);
    cr_expect_eq(results_number(result, "allocations_in_epochs"), 0);
    json_decref(result);
    json_decref(metrics);
    json_decref(plan);
}

Test(codecs, the_plan_tells_the_bytes_of_every_epoch)
{
    expect_planned("model.kind=sage");
    expect_planned("model.kind=gat");
    expect_planned("model.norm=batch");
}

Test(codecs, the_plan_says_in_which_epochs)
{
    job_run("--plan");
    cr_expect_not_null(strstr(job_run_log, "in each of epochs 0 to 3 (int2, gradients int8)"), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "in each of epochs 8 to 11 (fp32, gradients bf16)"), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "per epoch on average"), "%s", job_run_log);
}

Test(codecs, a_job_that_goes_on_from_a_checkpoint_has_the_bits_of_one_that_never_stopped)
{
    job_run("--set output.dir=one");
    job_run("--set train.epochs=7 --set train.checkpoint_every=7 --set output.dir=two --set workers.count=2");
    job_run("--set train.checkpoint_every=7 --set output.dir=two --set workers.count=3 --resume");
    results_expect_same_model(folder_path("one"), folder_path("two"));
}

Test(codecs, a_schedule_that_goes_backwards_is_a_bad_job_file)
{
    char trainerd[PATH_MAX];
    program_find("trainerd", trainerd, sizeof trainerd);
    folder_write("bad.toml", "[dataset]\ngenerator = \"karate\"\n[exchange]\ncodec = \"int4, int8@50, fp32@20\"\n");
    cr_expect_eq(command_finish(command_start(trainerd, (const char *const[]){"--check", "bad.toml", NULL})), 78);
    cr_expect_not_null(
        strstr(output, "bad.toml:4:9: exchange.codec has \"fp32@20\" behind epoch 50; expected epochs that ascend"),
        "%s", output);
}

/* Times of an epoch are the longest of any worker's, and one worker's add up to it. */
Test(codecs, packing_waiting_and_computing_are_told_apart)
{
    for (int n_worker = 1; n_worker < 5; n_worker += 3) {
        job_run("--set output.dir=o%d --set workers.count=%d", n_worker, n_worker);
        char name[16];
        snprintf(name, sizeof name, "o%d", n_worker);
        json_t *metrics = results_epochs(folder_path(name)), *epoch;
        size_t e;
        json_array_foreach(metrics, e, epoch)
        {
            double pack = results_number(epoch, "pack_s"), wait = results_number(epoch, "wait_s");
            double rest = results_number(epoch, "epoch_s") - results_number(epoch, "compute_s") - pack - wait;
            cr_expect(pack > 0.0 && wait >= 0.0, "epoch %zu: %g s of packing, %g s of waiting", e, pack, wait);
            cr_expect(rest < 1e-9 && (n_worker > 1 || rest > -1e-9), "epoch %zu: %g s are neither", e, rest);
        }
        json_decref(metrics);
    }
    job_run(
        "--set output.dir=exact --set workers.count=1 --set exchange.codec=fp32 --set exchange.codec_backward=fp32");
    json_t *metrics = results_epochs(folder_path("exact"));
    cr_expect_eq(results_number(json_array_get(metrics, 3), "pack_s"), 0.0, "rows of own parts are read in place");
    json_decref(metrics);
}
