/* Whole jobs whose codecs change over the epochs: planned and measured traffic, resuming, refusals. */
#include "tests/support/process/folder.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char program[PATH_MAX], trainerd[PATH_MAX];

static void make_all(void)
{
    program_find("trainer-coordinator", program, sizeof program);
    program_find("trainerd", trainerd, sizeof trainerd);
    folder_make();
    folder_write("job.toml",
                 "[dataset]\ngenerator = \"sbm\"\nnodes = 2000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 4\n"
                 "method = \"random\"\ncache = \"off\"\n[model]\nkind = \"sage\"\nlayers = 3\nhidden = 32\ndropout = 0.5\n"
                 "[train]\nepochs = 12\neval_every = 0\nprune = \"never\"\n[exchange]\ncodec = \"int2, int8@4, fp32@8\"\n"
                 "codec_backward = \"int8, bf16@6\"\n[workers]\ncount = 4\nthreads = 1\n");
}

TestSuite(codecs, .init = make_all, .fini = folder_remove, .timeout = 180);

static int run_with(const char *who, const char *settings, char *words, size_t n)
{
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "cd %s && %s %s > stdout 2> stderr", folder, who, settings);
    int how = system(command);
    folder_read("stderr", words, n);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static void run(const char *settings)
{
    char words[4096], all[1024];
    snprintf(all, sizeof all, "--config job.toml %s", settings);
    cr_assert_eq(run_with(program, all, words, sizeof words), 0, "%s: %s", settings, words);
}

static double number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    cr_assert(json_is_number(value), "no number '%s'", name);
    return json_number_value(value);
}

static json_t *file_json(const char *name)
{
    json_t *all = json_load_file(folder_path(name), 0, NULL);
    cr_assert_not_null(all, "%s", name);
    return all;
}

static void expect_stage(const json_t *stage, double epoch, double n_epoch, const char *codec, const char *backward)
{
    cr_expect_eq(number(stage, "epoch"), epoch);
    cr_expect_eq(number(stage, "epochs"), n_epoch);
    cr_expect_str_eq(json_string_value(json_object_get(stage, "codec")), codec);
    cr_expect_str_eq(json_string_value(json_object_get(stage, "codec_backward")), backward);
}

/* Every epoch receives what the plan says of its codecs, to the byte; the mean is the mean. */
static void expect_planned(const char *model)
{
    char settings[256];
    snprintf(settings, sizeof settings, "--set output.dir=o --set %s --plan --json", model);
    run(settings);
    json_t *plan = file_json("stdout"), *stages = json_object_get(plan, "stages");
    cr_assert_eq(json_array_size(stages), 4);
    expect_stage(json_array_get(stages, 0), 0, 4, "int2", "int8");
    expect_stage(json_array_get(stages, 1), 4, 2, "int8", "int8");
    expect_stage(json_array_get(stages, 2), 6, 2, "int8", "bf16");
    expect_stage(json_array_get(stages, 3), 8, 4, "fp32", "bf16");
    snprintf(settings, sizeof settings, "--set output.dir=o --set %s", model);
    run(settings);
    json_t *metrics = results_metrics(folder_path("o"), true), *result = file_json("o/result.json");
    double sum = 0.0;
    for (size_t s = 0, e = 0; s < json_array_size(stages); s++) {
        const json_t *stage = json_array_get(stages, s);
        double planned = number(stage, "bytes_per_epoch"), end = number(stage, "epoch") + number(stage, "epochs");
        for (; (double)e < end; e++) {
            const json_t *epoch = json_array_get(metrics, e);
            double n = number(epoch, "bytes_received") - number(epoch, "bytes_evaluate"); /* of the last one */
            sum += planned;
            if (e < 11) {
                cr_expect_eq(n, planned, "%s: epoch %zu received %.0f bytes, planned %.0f", model, e, n, planned);
            }
        }
    }
    cr_expect_leq(fabs(sum / 12.0 - number(plan, "bytes_per_epoch")), 12.0, "%s", model); /* rounded for each halo pass */
    json_t *memory = json_object_get(result, "memory");
    for (size_t rank = 0; rank < json_array_size(memory); rank++) {
        const json_t *one = json_array_get(memory, rank);
        double want = number(json_object_get(one, "planned"), "all"), got = number(json_object_get(one, "measured"), "all");
        cr_expect_leq(fabs(got - want), 0.1 * got, "%s: worker %zu: %.0f bytes planned, %.0f measured", model, rank, want, got);
    }
    cr_expect_eq(number(result, "allocations_in_epochs"), 0);
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
    char words[16384];
    cr_assert_eq(run_with(program, "--config job.toml --plan", words, sizeof words), 0);
    cr_expect_not_null(strstr(words, "in each of epochs 0 to 3 (int2, gradients int8)"), "%s", words);
    cr_expect_not_null(strstr(words, "in each of epochs 8 to 11 (fp32, gradients bf16)"), "%s", words);
    cr_expect_not_null(strstr(words, "per epoch on average"), "%s", words);
}

Test(codecs, a_job_that_goes_on_from_a_checkpoint_has_the_bits_of_one_that_never_stopped)
{
    run("--set output.dir=one");
    run("--set train.epochs=7 --set train.checkpoint_every=7 --set output.dir=two --set workers.count=2");
    run("--set train.checkpoint_every=7 --set output.dir=two --set workers.count=3 --resume");
    results_expect_same_file(folder_path("one"), folder_path("two"), "model.safetensors");
    results_expect_same_file(folder_path("one"), folder_path("two"), "logits.npy");
}

Test(codecs, a_schedule_that_goes_backwards_is_a_bad_job_file)
{
    char words[4096];
    folder_write("bad.toml", "[dataset]\ngenerator = \"karate\"\n[exchange]\ncodec = \"int4, int8@50, fp32@20\"\n");
    cr_expect_eq(run_with(trainerd, "--check bad.toml", words, sizeof words), 78);
    cr_expect_not_null(
        strstr(words, "bad.toml:4:9: exchange.codec is \"fp32@20\" behind epoch 50; expected epochs that ascend"), "%s", words);
}
