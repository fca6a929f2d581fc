/* Whole jobs whose epochs use the rows and gradients of the epoch before: planned traffic and memory, deaths and resuming. */
#include "tests/support/process/folder.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char program[PATH_MAX];

static void make_all(void)
{
    program_find("trainer-coordinator", program, sizeof program);
    folder_make();
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"sbm\"\nnodes = 3000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 4\n"
        "method = \"random\"\ncache = \"off\"\n[model]\nkind = \"sage\"\nlayers = 3\nhidden = 16\ndropout = 0.5\n[train]\n"
        "epochs = 20\neval_every = 0\nprune = \"never\"\n[exchange]\nstale = 1\n[workers]\ncount = 4\nthreads = 1\n");
}

TestSuite(stale, .init = make_all, .fini = folder_remove, .timeout = 180);

static int run_any(const char *before, const char *settings)
{
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "cd %s && %s %s --config job.toml %s > stdout 2> stderr", folder, before, program,
             settings);
    int how = system(command);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static void run(const char *settings)
{
    char words[4096];
    int code = run_any("", settings);
    folder_read("stderr", words, sizeof words);
    cr_assert_eq(code, 0, "%s: %s", settings, words);
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

/* Every epoch's bytes are the plan's, epoch 0's too; so is the memory. */
static void expect_planned(const char *model)
{
    char settings[512];
    snprintf(settings, sizeof settings, "--set output.dir=o --set %s --plan --json", model);
    run(settings);
    json_t *plan = file_json("stdout");
    double planned = number(plan, "bytes_per_epoch");
    snprintf(settings, sizeof settings, "--set output.dir=o --set %s", model);
    run(settings);
    json_t *metrics = results_metrics(folder_path("o"), true), *result = file_json("o/result.json");
    for (size_t e = 0; e < 19; e++) { /* the last one evaluates, too */
        cr_expect_eq(number(json_array_get(metrics, e), "bytes_received"), planned, "%s: epoch %zu", model, e);
    }
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

Test(stale, the_plan_tells_the_traffic_and_the_memory)
{
    expect_planned("model.kind=sage");
    expect_planned("model.kind=gat");
    expect_planned("model.kind=gatv2");
    expect_planned("model.norm=batch");
    expect_planned("exchange.codec=int8");
    expect_planned("exchange.stale_smoothing=0.9");
}

/* Running statistics of stale rows would be no use to an exact evaluation. */
Test(stale, weights_with_a_batch_norm_evaluate_alike_in_an_exact_job)
{
    run("--set model.norm=batch --set output.dir=first");
    run("--set model.norm=batch --set exchange.stale=0 --set train.epochs=0 --set workers.count=2 "
        "--set model.init=first/model.safetensors --set output.dir=second");
    results_expect_same_file(folder_path("first"), folder_path("second"), "logits.npy");
}

static void expect_same_model(const char *one, const char *two)
{
    char first[PATH_MAX], other[PATH_MAX];
    snprintf(first, sizeof first, "%s", folder_path(one));
    snprintf(other, sizeof other, "%s", folder_path(two));
    results_expect_same_file(first, other, "model.safetensors");
    results_expect_same_file(first, other, "logits.npy");
}

/* What is kept is in the checkpoint, by part: other workers go on with it. */
Test(stale, a_job_that_goes_on_from_a_checkpoint_has_the_bits_of_one_that_never_stopped)
{
    static const char *const ways[] = {"model.kind=gat", "exchange.stale_smoothing=0.9", "exchange.codec=int4"};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        char settings[512];
        snprintf(settings, sizeof settings, "--set %s --set output.dir=one%zu", ways[w], w);
        run(settings);
        snprintf(settings, sizeof settings,
                 "--set %s --set train.epochs=7 --set train.checkpoint_every=7 --set output.dir=two%zu --set workers.count=2",
                 ways[w], w);
        run(settings);
        snprintf(settings, sizeof settings,
                 "--set %s --set train.checkpoint_every=7 --set output.dir=two%zu --set workers.count=3 --resume", ways[w], w);
        run(settings);
        char one[16], two[16];
        snprintf(one, sizeof one, "one%zu", w);
        snprintf(two, sizeof two, "two%zu", w);
        expect_same_model(one, two);
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
    run("--set model.kind=gat --set output.dir=one");
    for (size_t d = 0; d < sizeof deaths / sizeof *deaths; d++) {
        char before[128], settings[512], two[16];
        snprintf(two, sizeof two, "two%zu", d);
        snprintf(before, sizeof before, "TRAINERD_FAULTS='%s'", deaths[d].fault);
        snprintf(settings, sizeof settings, "--set model.kind=gat --set train.checkpoint_every=4 --set output.dir=%s", two);
        cr_expect_neq(run_any(before, settings), 0, "%s", deaths[d].fault);
        snprintf(settings + strlen(settings), sizeof settings - strlen(settings), " --set workers.count=%zu%s", d % 2 + 2,
                 deaths[d].resumes ? " --resume" : "");
        run(settings);
        expect_same_model("one", two);
    }
}

/* Back to a checkpoint with all that it keeps, and to epoch 0, which keeps nothing from before. */
Test(stale, a_job_that_diverges_goes_back_to_the_same_bits_on_any_workers)
{
    static const char settings[] =
        "--set dataset.nodes=200 --set train.optimizer=sgd --set train.lr=1e6 --set train.on_nan=rollback "
        "--set train.max_rollbacks=60 --set train.epochs=9 --set train.checkpoint_every=4 "
        "--set train.eval_every=1";
    char text[640], words[65536];
    snprintf(text, sizeof text, "%s --set output.dir=one --set workers.count=1", settings);
    run(text);
    folder_read("stderr", words, sizeof words);
    cr_expect_not_null(strstr(words, "epochs with the learning rate times 0.5 (1 of 60)"), "%s", words);
    snprintf(text, sizeof text, "%s --set output.dir=two --set workers.count=3", settings);
    run(text);
    expect_same_model("one", "two");
}
