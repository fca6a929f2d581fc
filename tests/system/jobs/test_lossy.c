/* Whole jobs whose rows lose something on their way (samples, codecs, rows of the epoch before, error feedback, a guard) or stay away (pruned): the
 * plan tells what is measured, resumes and deaths change no bit. A feature is a row. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

JOB_SUITE(lossy, 900,
          "[dataset]\ngenerator = 'sbm'\nnodes = 2000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 4\n"
          "method = 'random'\ncache = 'off'\n[model]\nkind = 'sage'\nlayers = 3\nhidden = 32\ndropout = 0.5\n"
          "[train]\nepochs = 20\neval_every = 0\nprune = 'never'\n[workers]\ncount = 4\nthreads = 1\n");

#define SET(setting) " --set " setting
#define CODEC SET("exchange.codec=int4")
#define CODECS SET("exchange.codec=int2,int8@4,fp32@8") SET("exchange.codec_backward=int8,bf16@6")
#define SAMPLING SET("exchange.sampling=0.1")
#define STALE SET("exchange.stale=1")
#define FEEDBACK SET("exchange.codec=int2") SET("exchange.error_feedback=true")
#define GUARD SET("exchange.guard_every=3") SET("exchange.guard_limit=1e6")
#define GAT SET("model.kind=gat")
#define GATV2 SET("model.kind=gatv2")
#define NORM SET("model.norm=batch")
#define PRUNED SET("dataset.train_share=0.01") SET("dataset.degree=3") SET("train.prune=always")
/* Bits need no large graph. */
#define SMALL SET("dataset.nodes=600")

/* --- plans --- */

/* Bytes of an epoch: those of its codecs, and where the guard compares those of the exact run. */
static double planned_bytes(const json_t *plan, size_t epoch, bool is_guarded)
{
    const json_t *stage;
    double bytes = -1.0;
    size_t s;
    json_array_foreach(json_object_get(plan, "stages"), s, stage)
    {
        if ((double)epoch >= results_number(stage, "epoch")) {
            bytes = results_number(stage, "bytes_per_epoch");
        }
    }
    return bytes + (is_guarded && epoch % 3 == 2 ? results_number(plan, "bytes_per_comparison") : 0.0);
}

/* Every epoch receives what the plan says, to the byte, but of a sample, whose mean the plan has. Memory is as planned. */
static void expect_planned(const char *settings)
{
    enum { N_EPOCH = 19 }; /* the last one evaluates, too */
    const bool is_sampled = strstr(settings, "sampling=") != NULL,
               is_guarded = strstr(settings, "guard_every") != NULL;
    json_t *plan = job_run_plan("--set output.dir=o%s", settings);
    job_run("--set output.dir=o%s", settings);
    json_t *metrics = results_metrics(folder_path("o"), true), *result = results_of("o");
    double sum = 0.0, square = 0.0, all = 0.0;
    for (size_t e = 0; e < N_EPOCH; e++) {
        double planned = planned_bytes(plan, e, is_guarded);
        double n = results_number(json_array_get(metrics, e), "bytes_received") - planned;
        cr_expect(is_sampled || n == 0.0, "%s: epoch %zu: %+.0f bytes, %.0f planned", settings, e, n, planned);
        sum += n;
        square += n * n;
        all += planned;
    }
    all += planned_bytes(plan, N_EPOCH, is_guarded);
    double bias = sum / N_EPOCH, spread = sqrt((square / N_EPOCH - bias * bias) / N_EPOCH);
    cr_expect_leq(fabs(bias), 4.0 * spread, "%s: %+.0f bytes, standard error %.0f", settings, bias, spread);
    cr_expect_eq(spread > 0.0, is_sampled, "%s: samples differ", settings);
    cr_expect_leq(fabs(results_number(plan, "bytes_per_epoch") - all / (N_EPOCH + 1)), 64.0, "%s: the mean",
                  settings);
    cr_expect(!is_sampled ||
                  results_number(plan, "bytes_per_evaluation") > 3.0 * results_number(plan, "bytes_per_epoch"),
              "%s: evaluations are exact", settings);
    results_expect_memory(result, "all", settings);
    results_expect_memory(result, "payloads", settings);
    cr_expect_eq(results_number(result, "allocations_in_epochs"), 0);
    json_decref(result);
    json_decref(metrics);
    json_decref(plan);
}

Test(lossy, the_plan_tells_the_traffic_of_every_epoch_and_the_memory)
{
    static const char *const jobs[] = {
        CODECS,
        CODECS GAT,
        CODECS NORM,
        FEEDBACK,
        FEEDBACK GAT,
        FEEDBACK GATV2,
        FEEDBACK SET("exchange.codec_backward=fp32"),
        STALE,
        STALE GAT,
        STALE GATV2,
        STALE NORM,
        STALE SET("exchange.codec=int8"),
        SAMPLING,
        SAMPLING GAT,
        SAMPLING SET("model.aggregator=max"),
        SAMPLING NORM,
        CODEC GUARD,
        STALE GUARD,
        STALE SET("exchange.codec=int8") GUARD,
        PRUNED SET("model.kind=gcn"),
        PRUNED GAT,
        PRUNED SET("model.kind=rgcn") SET("model.bases=2"),
        PRUNED SET("model.aggregator=max"),
    };
    ways_each(expect_planned, jobs, sizeof jobs / sizeof *jobs);
}

Test(lossy, the_plan_says_in_which_epochs)
{
    job_run("--plan" CODECS SET("train.epochs=12"));
    cr_expect_not_null(strstr(job_run_log, "in each of epochs 0 to 3 (int2, gradients int8)"), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "in each of epochs 8 to 11 (fp32, gradients bf16)"), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "per epoch on average"), "%s", job_run_log);
    job_run("--plan" CODEC GUARD);
    cr_expect_not_null(strstr(job_run_log, "more in one epoch of 3, which also computes the exact gradient"), "%s",
                       job_run_log);
}

/* Epoch 0 has no rows from before: both of its runs send their own. */
Test(lossy, the_plan_tells_what_a_stale_job_sends_that_compares_in_epoch_0)
{
    static const char settings[] = "--set output.dir=o" STALE SET("exchange.codec=int8") SET("exchange.guard_every=1")
        SET("exchange.guard_limit=1e6");
    json_t *plan = job_run_plan("%s", settings);
    double each = planned_bytes(plan, 0, false) + results_number(plan, "bytes_per_comparison"), sum = each;
    job_run("%s", settings);
    json_t *metrics = results_metrics(folder_path("o"), true);
    for (size_t e = 0; e < 19; e++) {
        double n = results_number(json_array_get(metrics, e), "bytes_received");
        cr_expect(e == 0 ? n > each : n == each, "epoch %zu: %.0f bytes", e, n);
        sum += n;
    }
    cr_expect_leq(fabs(results_number(plan, "bytes_per_epoch") - sum / 20.0), 64.0, "the mean is %.0f", sum / 20.0);
    json_decref(metrics);
    json_decref(plan);
}

/* --- resumes and deaths --- */

static const char *numbered(const char *name, size_t i)
{
    static char names[2][16];
    static int at;
    char *to = names[at++ % 2];
    snprintf(to, sizeof *names, "%s%zu", name, i);
    return to;
}

/* What is kept from one epoch to the next is in the checkpoint, by part: other workers go on with it. */
Test(lossy, a_job_that_goes_on_from_a_checkpoint_has_the_bits_of_one_that_never_stopped)
{
    static const char *const jobs[] = {
        CODECS,
        SAMPLING GAT,
        STALE GAT,
        STALE SET("exchange.codec=int4,int8@7,bf16@8"),
        FEEDBACK,
        FEEDBACK GAT SET("exchange.sampling=0.4"),
        FEEDBACK SET("exchange.guard_every=3"),
        PRUNED,
        FEEDBACK PRUNED,
        CODEC SET("exchange.sampling=0.2") SET("exchange.guard_every=3") SET("exchange.guard_limit=0.001") NORM,
        STALE SET("exchange.guard_every=5") SET("exchange.guard_limit=0.001"),
        STALE SET("exchange.guard_every=10") SET("exchange.guard_limit=0.001"), /* its only back-off comes later */
    };
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        if (ways_skip(j, sizeof jobs / sizeof *jobs)) {
            continue;
        }
        const char *one = numbered("one", j), *two = numbered("two", j);
        job_run(SMALL "%s --set output.dir=%s", jobs[j], one);
        job_run(SMALL
                "%s --set train.epochs=7 --set train.checkpoint_every=7 --set output.dir=%s --set workers.count=2",
                jobs[j], two);
        job_run(SMALL "%s --set train.checkpoint_every=7 --set output.dir=%s --set workers.count=3 --resume", jobs[j],
                two);
        results_expect_same_model(folder_path(one), folder_path(two));
    }
}

/* While rows travel, before any checkpoint is there, and later; before a step; while a checkpoint is read; while gradients are compared. */
Test(lossy, a_death_is_survived_with_the_bits_of_an_undisturbed_job)
{
    static const struct {
        const char *job, *fault;
        bool resumes;
    } deaths[] = {
        {FEEDBACK, "worker1.exchange=kill@20", false},      {FEEDBACK, "worker2.step=kill@9", true},
        {FEEDBACK, "worker0.checkpoint=kill@12", true},     {STALE GAT, "worker1.exchange=kill@20", false},
        {STALE GAT, "worker1.exchange=kill@100", true},     {STALE GAT, "worker0.checkpoint=kill@12", true},
        {CODEC GUARD NORM, "worker1.reduce=kill@33", true}, {CODEC GUARD NORM, "worker1.reduce=kill@35", true},
        {CODEC GUARD NORM, "worker2.reduce=kill@38", true},
    };
    for (size_t d = 0; d < sizeof deaths / sizeof *deaths; d++) {
        char faults[128];
        const char *one = numbered("one", d), *two = numbered("two", d);
        if (ways_skip(d, sizeof deaths / sizeof *deaths)) {
            continue;
        }
        job_run(SMALL "%s --set train.checkpoint_every=4 --set output.dir=%s", deaths[d].job, one);
        snprintf(faults, sizeof faults, "TRAINERD_FAULTS='%s'", deaths[d].fault);
        int code = job_run_code(faults, SMALL "%s --set train.checkpoint_every=4 --set output.dir=%s", deaths[d].job,
                                two);
        cr_expect_neq(code, 0, "%s", deaths[d].fault);
        job_run(SMALL "%s --set train.checkpoint_every=4 --set output.dir=%s --set workers.count=%zu%s",
                deaths[d].job, two, d % 2 + 2, deaths[d].resumes ? " --resume" : "");
        results_expect_same_model(folder_path(one), folder_path(two));
    }
}

/* Back to a checkpoint with all that it keeps. */
Test(lossy, a_job_that_diverges_goes_back_to_the_same_bits_on_any_workers)
{
    static const char *const jobs[] = {STALE SET("train.lr=1e6"), FEEDBACK SET("train.lr=1e4")};
    static const char settings[] = SET("dataset.nodes=200") SET("train.optimizer=sgd") SET("train.epochs=9")
        SET("train.checkpoint_every=4") SET("train.eval_every=1") SET("train.on_nan=rollback")
            SET("train.max_rollbacks=60");
    for (size_t j = 0; j < 2; j++) {
        const char *one = numbered("one", j), *two = numbered("two", j);
        job_run("%s%s --set output.dir=%s --set workers.count=1", settings, jobs[j], one);
        cr_expect_not_null(strstr(job_run_log, "epochs with the learning rate times 0.5 (1 of 60)"), "%s",
                           job_run_log);
        job_run("%s%s --set output.dir=%s --set workers.count=3", settings, jobs[j], two);
        results_expect_same_model(folder_path(one), folder_path(two));
    }
}

/* Back to what was there before epoch 0, which has no residuals: the job that begins with the rate that it ends with. */
Test(lossy, a_job_that_goes_back_to_its_beginning_has_no_residuals)
{
    static const char settings[] = SET("dataset.nodes=200") SET("train.optimizer=sgd") SET("train.epochs=9")
        SET("train.on_nan=rollback") SET("train.max_rollbacks=60") FEEDBACK;
    job_run("%s --set train.lr=1024 --set output.dir=one --set workers.count=3", settings);
    json_t *one = results_of("one");
    int n_rollback = (int)results_number(one, "rollbacks");
    cr_assert_gt(n_rollback, 0);
    job_run("%s --set train.lr=%.17g --set output.dir=two --set workers.count=1", settings,
            ldexp(1024.0, -n_rollback));
    json_t *two = results_of("two");
    cr_expect_eq(results_number(two, "rollbacks"), 0);
    results_expect_same_model(folder_path("one"), folder_path("two"));
    json_decref(one);
    json_decref(two);
}

/* --- what else is particular to some --- */

/* Running statistics of lossy rows would be no use to an exact evaluation. */
Test(lossy, weights_with_a_batch_norm_evaluate_alike_in_an_exact_job)
{
    static const char *const jobs[] = {STALE NORM, SAMPLING NORM};
    for (size_t j = 0; j < 2; j++) {
        const char *one = numbered("one", j), *two = numbered("two", j);
        job_run("%s --set output.dir=%s", jobs[j], one);
        job_run(
            NORM
            " --set train.epochs=0 --set workers.count=2 --set model.init=%s/best.safetensors --set output.dir=%s",
            one, two);
        results_expect_same_file(folder_path(one), folder_path(two), "logits.npy");
    }
}

/* What reductions of traffic are compared with: every row of every layer, forward, and backward where there is a gradient. */
Test(lossy, a_plain_exchange_sends_every_row_of_every_layer)
{
    static const char *const ways[] = {"exchange.plain=true", "exchange.sampling=0.0", "exchange.plain=false"};
    double bytes[3], halo = 0.0;
    for (int w = 0; w < 3; w++) {
        json_t *plan = job_run_plan("--set dataset.features=8 --set model.dropout=0.0 --set %s", ways[w]), *part;
        size_t p;
        bytes[w] = results_number(plan, "bytes_per_epoch");
        halo = 0.0;
        json_array_foreach(json_object_get(plan, "parts"), p, part)
        {
            halo += results_number(part, "halo_rows");
        }
        json_decref(plan);
    }
    /* Layers of 8, 32 and 32 columns, the last two also back. */
    cr_expect_eq(bytes[0] - bytes[1], halo * 4.0 * (8 + 2 * 32 + 2 * 32));
    cr_expect_lt(bytes[2] - bytes[1], 0.9 * (bytes[0] - bytes[1]));
    job_run("--set model.dropout=0.0 --set train.epochs=2 --set output.dir=exact");
    job_run("--set model.dropout=0.0 --set train.epochs=2 --set exchange.plain=true --set output.dir=plain");
    json_t *exact = results_metrics(folder_path("exact"), false),
           *plain = results_metrics(folder_path("plain"), false);
    double a = results_number(json_array_get(exact, 1), "loss"), b = results_number(json_array_get(plain, 1), "loss");
    cr_expect_leq(fabs(a - b), 1e-5 * a, "loss %.9g, %.9g plain", a, b);
    json_decref(exact);
    json_decref(plain);
}

/* Each worker's times, of four digits, have the epoch's as their greatest. */
static void expect_times(const json_t *epoch, size_t n_worker)
{
    static const char *const names[] = {"compute_s", "pack_s", "wait_s", "evaluate_s"};
    const json_t *workers = json_object_get(epoch, "seconds_workers");
    cr_assert_eq(json_array_size(workers), n_worker);
    for (size_t k = 0; k < 4; k++) {
        double most = 0, all = results_number(epoch, names[k]);
        for (size_t rank = 0; rank < n_worker; rank++) {
            most = fmax(most, json_number_value(json_array_get(json_array_get(workers, rank), k)));
        }
        cr_expect_leq(fabs(most - all), 1e-3 * all, "%s: %g s, %g s of all", names[k], most, all);
    }
}

/* Times of an epoch are the longest of any worker's, and one worker's add up to it. */
Test(lossy, packing_waiting_and_computing_are_told_apart)
{
    for (size_t n_worker = 1; n_worker < 5; n_worker += 3) {
        const char *to = numbered("o", n_worker);
        job_run("--set output.dir=%s --set workers.count=%zu" CODECS, to, n_worker);
        json_t *metrics = results_epochs(folder_path(to)), *epoch;
        size_t e;
        json_array_foreach(metrics, e, epoch)
        {
            double pack = results_number(epoch, "pack_s"), wait = results_number(epoch, "wait_s");
            double rest = results_number(epoch, "epoch_s") - results_number(epoch, "compute_s") - pack - wait;
            cr_expect(pack > 0.0 && wait >= 0.0, "epoch %zu: %g s of packing, %g s of waiting", e, pack, wait);
            expect_times(epoch, n_worker);
            cr_expect(rest < 1e-9 && (n_worker > 1 || rest > -1e-9), "epoch %zu: %g s are neither", e, rest);
        }
        json_decref(metrics);
    }
    job_run("--set output.dir=exact --set workers.count=1");
    json_t *metrics = results_epochs(folder_path("exact"));
    cr_expect_eq(results_number(json_array_get(metrics, 3), "pack_s"), 0.0, "rows of own parts are read in place");
    json_decref(metrics);
}

Test(lossy, feedback_of_a_job_that_rounds_nothing_or_uses_rows_of_the_epoch_before_is_refused)
{
    job_run_expect(78, "nothing of this job is rounded; expected an exchange.codec other than fp32", "",
                   FEEDBACK SET("exchange.codec=fp32"));
    job_run_expect(78, "does not go with exchange.stale = 1: a row is used an epoch after it is rounded", "",
                   FEEDBACK STALE);
}
