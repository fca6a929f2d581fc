/* Whole jobs whose epochs send a sample of the boundary rows: planned and measured traffic, resuming, and exact evaluations. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <math.h>

static void make_all(void)
{
    folder_make();
    folder_write("job.toml",
                 "[dataset]\ngenerator = \"sbm\"\nnodes = 3000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 4\n"
                 "method = \"random\"\ncache = \"off\"\n[model]\nkind = \"sage\"\nlayers = 3\nhidden = 16\ndropout = "
                 "0.5\n[train]\n"
                 "epochs = 20\neval_every = 0\nprune = \"never\"\n[exchange]\nsampling = 0.1\n[workers]\ncount = "
                 "4\nthreads = 1\n");
}

/* Bits need no large graph. */
#define SMALL "--set dataset.nodes=600 "

TestSuite(sampling, .init = make_all, .fini = folder_remove, .timeout = 900);

/* The plan has the mean; what is sent lies around it, and is the same in no two epochs. */
static void expect_planned_traffic(const char *model)
{
    enum { N_EPOCH = 19 }; /* the last one evaluates, too */
    json_t *plan = job_run_plan("--set output.dir=o --set %s", model);
    double planned = results_number(plan, "bytes_per_epoch"),
           evaluation = results_number(plan, "bytes_per_evaluation"), sum = 0, square = 0;
    job_run("--set output.dir=o --set %s", model);
    json_t *metrics = results_metrics(folder_path("o"), true), *result = results_json(folder_path("o/result.json"));
    for (size_t e = 0; e < N_EPOCH; e++) {
        double n = results_number(json_array_get(metrics, e), "bytes_received") - planned;
        sum += n;
        square += n * n;
    }
    double bias = sum / N_EPOCH, spread = sqrt((square / N_EPOCH - bias * bias) / N_EPOCH);
    cr_expect_gt(spread, 0.0);
    cr_expect_leq(fabs(bias), 4.0 * spread, "%s: %.0f bytes planned, %+.0f measured, standard error %.0f", model,
                  planned, bias, spread);
    cr_expect_gt(evaluation, 3.0 * planned, "%s: evaluations are exact", model);
    results_expect_memory(result, "all", model);
    cr_expect_eq(results_number(result, "allocations_in_epochs"), 0);
    json_decref(result);
    json_decref(metrics);
    json_decref(plan);
}

Test(sampling, the_plan_tells_the_mean_of_the_traffic)
{
    static const char *const jobs[] = {
        "model.kind=sage",
        "model.kind=gat",
        "model.aggregator=max",
        "model.norm=batch",
        "train.prune=always --set dataset.train_share=0.01 --set dataset.degree=3",
    };
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        if (ways_skip(j, sizeof jobs / sizeof *jobs)) {
            continue;
        }
        expect_planned_traffic(jobs[j]);
    }
}

/* Running statistics of samples would be no use to an exact evaluation. */
Test(sampling, weights_with_a_batch_norm_evaluate_alike_in_a_job_that_does_not_sample)
{
    job_run("--set model.norm=batch --set output.dir=first");
    job_run("--set model.norm=batch --set exchange.sampling=1.0 --set train.epochs=0 --set workers.count=2 "
            "--set model.init=first/best.safetensors --set output.dir=second");
    results_expect_same_file(folder_path("first"), folder_path("second"), "logits.npy");
}

Test(sampling, a_job_that_goes_on_from_a_checkpoint_has_the_bits_of_one_that_never_stopped)
{
    job_run(SMALL "--set model.kind=gat --set output.dir=one");
    job_run(SMALL "--set model.kind=gat --set train.epochs=7 --set train.checkpoint_every=7 --set output.dir=two "
                  "--set workers.count=2");
    job_run(
        SMALL
        "--set model.kind=gat --set train.checkpoint_every=7 --set output.dir=two --set workers.count=3 --resume");
    results_expect_same_model(folder_path("one"), folder_path("two"));
}

/* What reductions of traffic are compared with: every row of every layer, forward, and backward where there is a gradient. */
Test(sampling, a_plain_exchange_sends_every_row_of_every_layer)
{
    static const char *const ways[] = {"exchange.plain=true", "exchange.sampling=0.0", "exchange.plain=false"};
    double bytes[3], halo = 0.0;
    for (int w = 0; w < 3; w++) {
        json_t *plan = job_run_plan(
            "--set exchange.sampling=1.0 --set dataset.features=8 --set model.dropout=0.0 --set %s", ways[w]);
        const json_t *parts = json_object_get(plan, "parts");
        bytes[w] = results_number(plan, "bytes_per_epoch");
        halo = 0.0;
        for (size_t i = 0; i < json_array_size(parts); i++) {
            halo += results_number(json_array_get(parts, i), "halo_rows");
        }
        json_decref(plan);
    }
    /* Layers of 8, 16 and 16 columns, the last two also back. */
    cr_expect_eq(bytes[0] - bytes[1], halo * 4.0 * (8 + 2 * 16 + 2 * 16));
    cr_expect_lt(bytes[2] - bytes[1], 0.9 * (bytes[0] - bytes[1]));
    job_run("--set exchange.sampling=1.0 --set model.dropout=0.0 --set train.epochs=2 --set output.dir=exact");
    job_run(
        "--set exchange.sampling=1.0 --set model.dropout=0.0 --set train.epochs=2 --set exchange.plain=true --set "
        "output.dir=plain");
    json_t *exact = results_metrics(folder_path("exact"), false),
           *plain = results_metrics(folder_path("plain"), false);
    double a = results_number(json_array_get(exact, 1), "loss"), b = results_number(json_array_get(plain, 1), "loss");
    cr_expect_leq(fabs(a - b), 1e-5 * a, "loss %.9g, %.9g plain", a, b);
    json_decref(exact);
    json_decref(plain);
}
