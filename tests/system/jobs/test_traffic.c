/* Whole jobs whose bytes are planned and counted by layer, direction and pair of workers: the same numbers where all rows travel, the
 * mean of what is drawn where they are sampled. */
#include "tests/support/graphs/typed_folder.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 16 };

JOB_SUITE(traffic_counted, 900,
          "[dataset]\ngenerator = \"sbm\"\nnodes = 2000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 4\n"
          "method = \"random\"\ncache = \"off\"\n[model]\nkind = \"sage\"\nlayers = 3\nhidden = 16\n"
          "dropout = 0.5\ninput_dropout = 0.2\n[train]\nepochs = 3\neval_every = 2\nprune = \"never\"\n"
          "[workers]\ncount = 4\nthreads = 1\n");

static const char *const whats[] = {"forward", "backward", "evaluate"};

/* The pairs' numbers add up to those of the layers, and of the sums over parts. */
static void expect_sums(const json_t *traffic, const char *settings)
{
    const json_t *layers = json_object_get(traffic, "layers"), *pairs = json_object_get(traffic, "pairs"), *pair;
    size_t i;
    for (int what = 0; what < 3; what++) {
        for (size_t l = 0; l < json_array_size(layers); l++) {
            double sum = 0;
            json_array_foreach(pairs, i, pair)
            {
                sum += json_number_value(json_array_get(json_object_get(pair, whats[what]), l));
            }
            cr_expect_float_eq(sum, results_number(json_array_get(layers, l), whats[what]), 1e-6, "%s: layer %zu, %s",
                               settings, l, whats[what]);
        }
    }
    double reduce = 0;
    json_array_foreach(pairs, i, pair)
    {
        reduce += results_number(pair, "reduce");
    }
    cr_expect_float_eq(reduce, results_number(traffic, "reduce"), 1e-6, "%s", settings);
}

/* The lines of metrics.jsonl, too, have the planned bytes by layer. */
static void expect_metrics(const json_t *planned, const char *settings)
{
    json_t *metrics = results_metrics(folder_path("o"), true), *epoch;
    const json_t *layers = json_object_get(planned, "layers");
    size_t e;
    json_array_foreach(metrics, e, epoch)
    {
        const json_t *counted = json_object_get(epoch, "bytes_layers");
        bool evaluates = !json_is_null(json_object_get(epoch, "valid_metric"));
        double payloads = 0;
        cr_assert_eq(json_array_size(counted), json_array_size(layers), "%s", settings);
        for (size_t l = 0; l < json_array_size(layers); l++) {
            for (size_t what = 0; what < 3; what++) {
                double got = json_number_value(json_array_get(json_array_get(counted, l), what));
                double want = what < 2 || evaluates ? results_number(json_array_get(layers, l), whats[what]) : 0;
                cr_expect_eq(got, want, "%s: epoch %zu, layer %zu, %s: %.0f bytes, %.0f planned", settings, e, l,
                             whats[what], got, want);
                payloads += got;
            }
        }
        double reduce = results_number(planned, "reduce") +
                        (evaluates ? results_number(planned, "reduce_evaluate") : 0);
        cr_expect_eq(results_number(epoch, "bytes_received"), payloads + reduce, "%s", settings);
        cr_expect_eq(results_number(epoch, "bytes_reduce"), reduce, "%s", settings);
    }
    json_decref(metrics);
}

/* All rows travel: the plan has every number as it is counted. */
static void expect_exact(const char *settings)
{
    json_t *plan = job_run_plan("%s", settings);
    job_run("%s --set output.dir=o", settings);
    json_t *result = results_of("o"), *traffic = json_object_get(result, "traffic");
    const json_t *planned = json_object_get(traffic, "planned"), *measured = json_object_get(traffic, "measured");
    cr_expect(json_equal(json_object_get(plan, "traffic"), planned), "%s: result.json has another plan", settings);
    if (!json_equal(planned, measured)) {
        char *want = json_dumps(planned, JSON_COMPACT), *got = json_dumps(measured, JSON_COMPACT);
        cr_expect(false, "%s:\nplanned  %s\nmeasured %s", settings, want, got);
        free(want);
        free(got);
    }
    cr_expect_eq(results_number(traffic, "epochs"), 3);
    cr_expect_eq(results_number(traffic, "evaluations"), 2);
    cr_expect_eq(results_number(result, "allocations_in_epochs"), 0);
    expect_sums(measured, settings);
    expect_metrics(planned, settings);
    json_decref(result);
    json_decref(plan);
}

Test(traffic_counted, every_number_is_as_planned_where_all_rows_travel)
{
    static const char *const jobs[] = {
        "--set model.kind=sage",
        "--set model.kind=gcn --set model.norm=batch",
        "--set model.kind=gat --set model.heads=2",
        "--set model.kind=gatv2 --set workers.count=2",
        "--set model.kind=transformer --set workers.count=3",
        "--set model.aggregator=max",
        "--set exchange.plain=true",
        "--set exchange.schedule=halo --set workers.count=3",
        "--set model.label_input=true",
    };
    ways_each(expect_exact, jobs, sizeof jobs / sizeof *jobs);
}

/* ResGated's law: sources' keys and values forward; again for the gradients of destinations, and the destinations' gradients
 * and rows back to the sources. Each way 2F columns of each halo row. */
Test(traffic_counted, a_gate_of_edges_sends_two_rows_of_each_halo_node_there_again_and_back)
{
    char settings[2 * PATH_MAX], path[PATH_MAX];
    static const double columns[] = {HIDDEN, 8};
    cr_assert_not_null(realpath("configs/programs/resgated.gnn", path));
    snprintf(settings, sizeof settings, "--set model.kind=program --set model.program=%s --set model.layers=2", path);
    expect_exact(settings);
    json_t *result = results_of("o"), *plan = job_run_plan("%s", settings);
    const json_t *layers = json_object_get(json_object_get(json_object_get(result, "traffic"), "measured"), "layers");
    double halo = results_number(json_object_get(plan, "partition"), "halo_rows");
    for (size_t l = 0; l < 2; l++) {
        const double rows = halo * 2 * columns[l] * sizeof(float);
        cr_expect_eq(results_number(json_array_get(layers, l), "forward"), rows);
        cr_expect_eq(results_number(json_array_get(layers, l), "backward"), 2 * rows);
    }
    json_decref(plan);
    json_decref(result);
}

Test(traffic_counted, covers_shared_rows_pruned_and_spilled_jobs_are_as_planned)
{
    static const char *const jobs[] = {
        "--set dataset.generator=rmat --set exchange.cover=true",
        "--set dataset.generator=rmat --set exchange.cover=false",
        "--set dataset.generator=rmat --set exchange.cover=true --set partition.parts=12 --set workers.count=3",
        "--set dataset.generator=rmat --set dataset.undirected=no --set partition.parts=9 --set workers.count=2",
        "--set partition.parts=12 --set workers.count=3",
        "--set partition.parts=12 --set workers.count=3 --set model.kind=gat",
        "--set train.prune=always --set dataset.train_share=0.01",
        "--set train.prune=always --set dataset.train_share=0.01 --set model.kind=gat --set workers.count=2",
        "--set train.prune=always --set dataset.train_share=0.01 --set dataset.generator=rmat",
        "--set train.prune=always --set dataset.train_share=0.01 --set dataset.generator=rmat --set "
        "dataset.undirected=no --set partition.parts=9 --set workers.count=2",
        "--set memory.spill=. --set workers.count=2",
        "--set memory.spill=. --set workers.count=2 --set model.aggregator=max",
        "--set exchange.codec=int8",
        "--set exchange.codec=int4 --set exchange.codec_backward=bf16 --set model.kind=gat",
        "--set exchange.sampling=0.0",
        "--set partition.parts=12 --set workers.count=3 --set model.aggregator=max",
        "--set partition.parts=12 --set workers.count=2 --set exchange.codec=int8",
        "--set partition.parts=9 --set workers.count=2 --set exchange.codec=int4 --set model.kind=gat",
        "--set partition.parts=9 --set workers.count=2 --set exchange.codec=bf16 --set exchange.schedule=halo",
    };
    ways_each(expect_exact, jobs, sizeof jobs / sizeof *jobs);
}

Test(traffic_counted, typed_edges_and_embeddings_are_as_planned)
{
    typed_folder_write(folder_path("data"), &(struct typed_folder){.n_node = 300, .n_edge = 2000});
    expect_exact("--set dataset.generator=none --set dataset.path=data --set model.kind=rgcn");
    expect_exact(
        "--set dataset.generator=none --set dataset.path=data --set model.kind=rgcn --set exchange.codec=int8 --set "
        "workers.count=3");
    expect_exact("--set dataset.generator=none --set dataset.path=data --set model.kind=gcn --set partition.parts=6");
}

/* Communities that hardly share edges, so that halo rows are few. */
#define STORED "--set dataset.homophily=0.98 --set partition.method=metis "

/* The first layer's numbers are 0, those of the next one are not; memory is as planned. */
static void expect_stored(const char *settings)
{
    expect_exact(settings);
    json_t *result = results_of("o");
    const json_t *measured = json_object_get(json_object_get(result, "traffic"), "measured");
    const json_t *layers = json_object_get(measured, "layers");
    for (int what = 0; what < 3; what++) {
        cr_expect_eq(results_number(json_array_get(layers, 0), whats[what]), 0, "%s: %s", settings, whats[what]);
        cr_expect_gt(results_number(json_array_get(layers, 1), whats[what]), 0, "%s: %s", settings, whats[what]);
    }
    results_expect_memory(result, "all", settings);
    json_decref(result);
}

Test(traffic_counted, stored_inputs_are_never_sent)
{
    static const char *const jobs[] = {
        STORED "--set model.kind=sage",
        STORED "--set model.kind=gcn --set exchange.cover=false",
        STORED "--set model.kind=sage --set model.hidden=32 --set partition.parts=8 --set workers.count=3",
        STORED "--set model.aggregator=max --set exchange.schedule=halo",
        STORED "--set model.kind=gcn --set memory.spill=. --set workers.count=2",
        STORED "--set model.kind=sage --set train.prune=always --set dataset.train_share=0.05",
        STORED "--set model.kind=gat --set model.heads=2",
        STORED "--set model.kind=gatv2 --set model.heads=2 --set partition.parts=8 --set workers.count=3",
        STORED "--set model.kind=transformer --set memory.spill=. --set workers.count=2",
        STORED
        "--set model.kind=gat --set train.prune=always --set dataset.train_share=0.05 --set exchange.codec=int8",
        STORED "--set model.kind=sage --set exchange.codec=int4",
        STORED "--set model.kind=gcn --set exchange.codec=int8 --set partition.parts=8 --set workers.count=3",
        STORED "--set model.aggregator=max --set exchange.codec=bf16 --set memory.spill=. --set workers.count=2",
    };
    ways_each(expect_stored, jobs, sizeof jobs / sizeof *jobs);
}

/* A graph with hubs. */
#define HUBS                                                                                                         \
    "--set dataset.generator=rmat --set dataset.degree=8 --set dataset.train_share=0.01 --set train.epochs=2 "

static double covered_bytes(const char *settings, const char *cover)
{
    json_t *plan = job_run_plan(HUBS "%s --set exchange.cover=%s", settings, cover);
    double n_bytes = results_number(plan, "bytes_per_epoch");
    json_decref(plan);
    return n_bytes;
}

Test(traffic_counted, covers_send_fewer_bytes)
{
    static const char *const jobs[] = {"", "--set train.prune=always"};
    for (size_t j = 0; j < 2; j++) {
        double some = covered_bytes(jobs[j], "true"), all = covered_bytes(jobs[j], "false");
        cr_expect_lt(some, 0.85 * all, "%s: %.0f of %.0f bytes", jobs[j], some, all);
    }
}

/* --- sampled --- */

enum { N_EPOCH = 40 };
/* Forward's bytes of an epoch, of the layer between the hidden ones. */
static double forward_bytes(const char *settings)
{
    json_t *plan = job_run_plan("%s --set partition.parts=12 --set workers.count=2 --set exchange.cover=false",
                                settings);
    const json_t *layers = json_object_get(json_object_get(plan, "traffic"), "layers");
    double n_bytes = results_number(json_array_get(layers, 1), "forward");
    json_decref(plan);
    return n_bytes;
}

/* 12 parts on 2 workers: what is lossy travels once for all parts that take it, as exact rows do. */
Test(traffic_counted, coded_and_sampled_rows_travel_once_per_pair_of_workers)
{
    double exact = forward_bytes(""), maxima = forward_bytes("--set model.aggregator=max");
    double coded = forward_bytes("--set exchange.codec=int8"), sampled = forward_bytes("--set exchange.sampling=0.5");
    cr_expect_gt(exact, 0.0);
    cr_expect_eq(coded * HIDDEN * 4, exact * (HIDDEN + 4), "%g bytes in 8 bits, %g of float32", coded, exact);
    cr_expect_lt(fabs(sampled - exact / 2.0), 1e-3 * exact, "%g bytes at p = 0.5, %g of all rows", sampled, exact);
    cr_expect_eq(maxima, exact);
}

static const double P = 0.2;

/* The mean of what so many epochs drew, against the plan's. A row has at most so many bytes, so that there are at least so many rows; each is
 * drawn once an epoch, whatever the layer and for how many parts. */
static void expect_mean(const char *settings, double planned, double measured, double most_row_bytes)
{
    double n_row = planned / P / most_row_bytes, sigma = planned * sqrt((1.0 - P) / (P * n_row * N_EPOCH));
    cr_expect_leq(fabs(measured - planned), 4.0 * sigma + 1.0, "%s: %.0f bytes planned, %.1f measured, sigma %.1f",
                  settings, planned, measured, sigma);
}

/* n_copy: a row goes to so many parts of a worker at most. */
static void expect_sampled(const char *model, int n_worker, int n_copy)
{
    job_run("%s --set exchange.sampling=%g --set train.epochs=%d --set workers.count=%d --set output.dir=o", model, P,
            N_EPOCH, n_worker);
    json_t *result = results_of("o"), *traffic = json_object_get(result, "traffic"), *pair, *layer;
    const json_t *planned = json_object_get(traffic, "planned"), *measured = json_object_get(traffic, "measured");
    cr_expect_eq(results_number(traffic, "epochs"), N_EPOCH);
    cr_expect_eq(results_number(planned, "reduce"), results_number(measured, "reduce"));
    cr_expect_eq(results_number(planned, "reduce_evaluate"), results_number(measured, "reduce_evaluate"));
    cr_expect_eq(json_array_size(json_object_get(planned, "pairs")), (size_t)(n_worker * (n_worker - 1)));
    size_t i, l;
    bool varies = false;
    json_array_foreach(json_object_get(planned, "pairs"), i, pair)
    {
        const json_t *other = json_array_get(json_object_get(measured, "pairs"), i);
        cr_expect(json_equal(json_object_get(pair, "evaluate"), json_object_get(other, "evaluate")),
                  "evaluations are exact");
        for (int what = 0; what < 2; what++) {
            json_array_foreach(json_object_get(pair, whats[what]), l, layer)
            {
                double want = json_number_value(layer);
                double got = json_number_value(json_array_get(json_object_get(other, whats[what]), l));
                if (want == 0) { /* backward, of the features */
                    cr_expect_eq(got, 0, "%s", model);
                    continue;
                }
                varies = varies || want != got;
                /* Rows that come twice are one draw. */
                expect_mean(model, want, got, n_copy * ((what == 0 ? 1 : 2) * 4.0 * (HIDDEN + 2) + 16.0));
            }
        }
    }
    cr_expect(varies, "%s: nothing was drawn", model);
    json_decref(result);
}

Test(traffic_counted, pairs_and_layers_of_sampled_jobs_have_the_planned_mean)
{
#define FEW "--set train.prune=always --set dataset.train_share=0.05 "
    static const struct {
        const char *settings;
        int n_worker, n_copy;
    } jobs[] = {
        {"--set model.kind=sage", 4, 1},
        {"--set model.kind=gcn", 4, 1},
        {"--set model.kind=gat", 4, 1},
        {"--set model.aggregator=max", 4, 1},
        {"--set exchange.codec=int8", 4, 1},
        {STORED "--set model.kind=sage", 4, 1},
        {STORED "--set model.kind=gcn --set exchange.codec=int8", 4, 1},
        {STORED "--set model.kind=gat", 4, 1},
        {FEW, 4, 1},
        {FEW "--set model.kind=gat", 4, 1},
        {"--set memory.spill=. --set model.kind=gat", 2, 2},
        {"--set partition.parts=9", 3, 3},
    };
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        if (!ways_skip(j, sizeof jobs / sizeof *jobs)) {
            expect_sampled(jobs[j].settings, jobs[j].n_worker, jobs[j].n_copy);
        }
    }
}

/* --- other exchanges --- */

struct exact_way {
    const char *settings;
    bool plain, cover, store_inputs;
};

static bool is_set(const json_t *exact, const char *key)
{
    return json_is_true(json_object_get(json_object_get(exact, "exchange"), key));
}

static const json_t *exact_of(const json_t *plan, const struct exact_way *way)
{
    const json_t *exact;
    size_t i;
    json_array_foreach(json_object_get(plan, "exact"), i, exact)
    {
        if (is_set(exact, "plain") == way->plain && is_set(exact, "cover") == way->cover &&
            is_set(exact, "store_inputs") == way->store_inputs) {
            return exact;
        }
    }
    cr_assert(false, "no exact exchange with %s", way->settings);
    return NULL;
}

/* The plan of a job says of each exact exchange what a job with it says of itself. */
static void expect_exact_choices(const char *job)
{
    static const struct exact_way ways[] = {
        {"--set exchange.cover=true --set exchange.store_inputs=true", false, true, true},
        {"--set exchange.cover=false --set exchange.store_inputs=true", false, false, true},
        {"--set exchange.cover=true --set exchange.store_inputs=false", false, true, false},
        {"--set exchange.cover=false --set exchange.store_inputs=false", false, false, false},
        {"--set exchange.plain=true", true, false, false}};
    const size_t n_way = sizeof ways / sizeof *ways;
    double least = INFINITY, cheapest = 0;
    json_t *plan = job_run_plan("%s", job);
    size_t n_cheapest = 0, n_in_use = 0;
    for (size_t w = 0; w < n_way; w++) {
        const json_t *exact = exact_of(plan, &ways[w]);
        json_t *own = job_run_plan(
            "%s --set exchange.sampling=1.0 --set exchange.codec=fp32 --set exchange.plain=false %s", job,
            ways[w].settings);
        cr_expect_eq(results_number(exact, "bytes_per_epoch"), results_number(own, "bytes_per_epoch"), "%s: %s", job,
                     ways[w].settings);
        cr_expect_eq(results_number(exact, "bytes_per_evaluation"), results_number(own, "bytes_per_evaluation"),
                     "%s: %s", job, ways[w].settings);
        least = fmin(least, results_number(exact, "bytes_per_epoch"));
        if (json_is_true(json_object_get(exact, "cheapest"))) {
            cheapest = results_number(exact, "bytes_per_epoch");
            n_cheapest++;
        }
        if (json_is_true(json_object_get(exact, "in_use"))) {
            cr_expect_eq(results_number(exact, "bytes_per_epoch"), results_number(plan, "bytes_per_epoch"), "%s",
                         job);
            n_in_use++;
        }
        json_decref(own);
    }
    cr_expect_eq(json_array_size(json_object_get(plan, "exact")), n_way);
    cr_expect_eq(n_cheapest, 1, "%s: %zu are cheapest", job, n_cheapest);
    cr_expect_eq(cheapest, least, "%s", job);
    cr_expect_eq(n_in_use, strstr(job, "sampling") == NULL && strstr(job, "codec") == NULL, "%s: %zu in use", job,
                 n_in_use);
    json_decref(plan);
}

Test(traffic_counted, a_plan_names_the_cheapest_exact_exchange)
{
    static const char *const jobs[] = {
        "--set dataset.generator=rmat",
        "--set dataset.generator=rmat --set exchange.cover=false",
        "--set dataset.generator=rmat --set exchange.plain=true",
        "--set dataset.generator=rmat --set exchange.sampling=0.1 --set exchange.codec=int8",
        "--set model.kind=gat --set exchange.codec=int4",
        "--set partition.parts=8 --set workers.count=2",
        STORED,
        "--set train.prune=always --set dataset.train_share=0.01 --set exchange.sampling=0.5 --set "
        "model.input_dropout=0.0",
    };
    ways_each(expect_exact_choices, jobs, sizeof jobs / sizeof *jobs);
    job_run("--set dataset.generator=rmat --set exchange.sampling=0.1 --plan");
    const char *line = strstr(job_run_log, "cover = true");
    cr_assert_not_null(line, "%s", job_run_log);
    cr_expect(strstr(line, "cheapest") < strchr(line, '\n'), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "\n  this job  "), "what it sends itself is beside them: %s", job_run_log);
}

Test(traffic_counted, a_plan_has_every_pair_of_few_workers_and_they_add_up_to_what_each_receives)
{
    json_t *plan = job_run_plan("--set model.kind=gat --set partition.parts=8 --set exchange.sampling=0.3"), *worker,
           *pair;
    size_t rank, i;
    json_array_foreach(json_object_get(plan, "workers"), rank, worker)
    {
        double train = 0, evaluate = 0;
        json_array_foreach(json_object_get(json_object_get(plan, "traffic"), "pairs"), i, pair)
        {
            for (size_t l = 0; results_number(pair, "to") == (double)rank && l < 3; l++) {
                train += json_number_value(json_array_get(json_object_get(pair, "forward"), l)) +
                         json_number_value(json_array_get(json_object_get(pair, "backward"), l));
                evaluate += json_number_value(json_array_get(json_object_get(pair, "evaluate"), l));
            }
            train += results_number(pair, "to") == (double)rank ? results_number(pair, "reduce") : 0;
            evaluate += results_number(pair, "to") == (double)rank ? results_number(pair, "reduce_evaluate") : 0;
        }
        cr_expect_gt(train, 0);
        cr_expect_eq(train, results_number(worker, "bytes_per_epoch"), "worker %zu", rank);
        cr_expect_eq(evaluate, results_number(worker, "bytes_per_evaluation"), "worker %zu", rank);
    }
    json_decref(plan);
    job_run("--plan");
    cr_expect_not_null(strstr(job_run_log, "worker    from 0    from 1    from 2    from 3\n"), "%s", job_run_log);
    job_run("--set partition.parts=9 --set workers.count=9 --plan");
    cr_expect_null(strstr(job_run_log, "from 0"), "%s", job_run_log);
}
