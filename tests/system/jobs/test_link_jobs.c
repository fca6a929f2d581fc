/* Whole jobs that predict links: nothing of held-out edges reaches the weights; resuming; the same bits on any workers; every kind of model;
 * what is learned; what is refused. */
#include "partition/files/npy.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/graphs/tiny_graph.h"
#include "tests/support/graphs/typed_folder.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_NODE = 120, N_STEP = 6, N_FEATURE = 6, N_HELD = 12 };

static void save(const char *name, enum npy_type type, int64_t rows, int64_t columns, const void *values)
{
    cr_assert_eq(npy_save(folder_path(name), type, 2, (int64_t[]){rows, columns}, values), STATUS_OK, "%s",
                 status_reason());
}

/* Nodes on a circle: pairs of nodes `first` … with those from `least` to `most` steps further on. */
static void pairs_write(const char *name, int least, int most, int64_t n, int64_t first)
{
    int64_t ends[2 * N_NODE * N_STEP], n_pair = n * (most - least + 1), at = 0;
    cr_assert_leq(n_pair, N_NODE * N_STEP);
    for (int64_t k = first; k < first + n; k++) {
        for (int step = least; step <= most; step++, at++) {
            ends[at] = k;
            ends[n_pair + at] = (k + step) % N_NODE;
        }
    }
    save(name, NPY_TYPE_I64, 2, n_pair, ends);
}

static void features_write(const char *name)
{
    float rows[N_NODE][N_FEATURE];
    for (int v = 0; v < N_NODE; v++) {
        for (int c = 0; c < N_FEATURE; c++) {
            rows[v][c] = test_number(3, (uint64_t)v, (uint32_t)c);
        }
    }
    save(name, NPY_TYPE_F32, N_NODE, N_FEATURE, rows);
}

/* Held out: pairs that are 20 and 40 steps apart, which are not edges. */
static void make_all(void)
{
    folder_make();
    folder_write(
        "job.toml",
        "name = \"l\"\n[dataset]\npath = \"data\"\nundirected = \"yes\"\n[task]\nkind = \"link\"\nchannels = 8\n"
        "[partition]\nparts = 4\ncache = \"off\"\n[model]\nhidden = 8\ndropout = 0.3\n[train]\nepochs = 8\n"
        "metrics = [\"roc_auc\", \"mrr\"]\n[workers]\ncount = 1\nthreads = 1\n");
    cr_assert_eq(mkdir(folder_path("data"), 0700), 0);
    pairs_write("data/edges.npy", 1, N_STEP, N_NODE, 0);
    pairs_write("data/valid_edges.npy", 20, 20, N_HELD, 0);
    pairs_write("data/test_edges.npy", 40, 40, N_HELD, 0);
    features_write("data/features.npy");
}

TestSuite(link_jobs, .init = make_all, .fini = folder_remove, .timeout = 900);

static double number_of(const char *run, const char *part, const char *name)
{
    json_t *result = results_of(run);
    double value = results_number(json_object_get(result, part), name);
    json_decref(result);
    return value;
}

static bool has_same_model(const char *a, const char *b)
{
    return results_have_same_file(folder_path(a), folder_path(b), "model.safetensors");
}

/* --- leakage --- */

Test(link_jobs, test_edges_leave_no_trace_in_the_weights)
{
    job_run("--set output.dir=one");
    pairs_write("data/test_edges.npy", 50, 51, N_HELD, 30);
    job_run("--set output.dir=two");
    cr_assert(has_same_model("one", "two"));
    cr_assert_neq(number_of("one", "best", "test_mrr"), number_of("two", "best", "test_mrr"), "they were not scored");
    results_expect_same_file(folder_path("one"), folder_path("two"), "best.safetensors"); /* chosen by others */
    cr_assert_eq(number_of("two", "dataset", "test_edges"), 2 * N_HELD);
}

Test(link_jobs, edges_of_the_graph_that_are_held_out_leave_no_trace_in_the_weights)
{
    pairs_write("data/edges.npy", 1, N_STEP - 1, N_NODE, 0);
    job_run("--set output.dir=without");
    pairs_write("data/edges.npy", 1, N_STEP, N_NODE, 0);
    pairs_write("data/test_edges.npy", N_STEP, N_STEP, N_NODE, 0);
    job_run("--set output.dir=held");
    cr_assert(has_same_model("without", "held"));
    pairs_write("data/test_edges.npy", N_STEP, N_STEP, N_NODE - 1, 0);
    job_run("--set output.dir=but_one");
    cr_assert_not(has_same_model("held", "but_one"), "an edge that is trained on makes no difference");
}

Test(link_jobs, validation_edges_choose_the_best_weights_and_change_none)
{
    job_run("--set output.dir=one --set train.epochs=1");
    pairs_write("data/valid_edges.npy", 21, 22, N_HELD, 60);
    job_run("--set output.dir=two --set train.epochs=1");
    cr_assert(has_same_model("one", "two"));
    cr_assert_neq(number_of("one", "best", "valid_loss"), number_of("two", "best", "valid_loss"));
}

Test(link_jobs, pairs_of_evaluations_do_not_touch_the_weights)
{
    job_run("--set output.dir=one");
    job_run("--set output.dir=two --set task.seed=2"); /* edges come from files */
    cr_assert(has_same_model("one", "two"));
    cr_assert_neq(number_of("one", "last", "valid_loss"), number_of("two", "last", "valid_loss"));
    pairs_write("data/valid_edges_negative.npy", 30, 30, N_NODE, 0);
    job_run("--set output.dir=three");
    cr_assert(has_same_model("one", "three"));
    cr_assert_neq(number_of("one", "last", "valid_loss"), number_of("three", "last", "valid_loss"));
    job_run("--set output.dir=four --set train.seed=2");
    cr_assert_not(has_same_model("one", "four"));
}

/* --- resuming --- */

#define STOPPED " --set train.epochs=4 --set train.checkpoint_every=4"

Test(link_jobs, go_on_from_a_checkpoint_on_other_workers_with_the_same_bits)
{
    job_run("--set output.dir=one");
    job_run("--set output.dir=two" STOPPED);
    job_run("--set output.dir=two --set workers.count=3 --resume");
    results_expect_same(folder_path("one"), folder_path("two"), false);
}

Test(link_jobs, that_were_killed_start_again_with_the_same_bits)
{
    const char *drawn =
        "--set dataset.path= --set dataset.generator=sbm --set dataset.nodes=200 --set train.checkpoint_every=2";
    job_run("%s --set output.dir=one", drawn);
    int code = job_run_code("TRAINERD_FAULTS=worker1.exchange=kill@25",
                            "%s --set workers.count=2 --set output.dir=two", drawn);
    cr_assert_eq(code, 69, "exit %d: %s", code, job_run_log);
    cr_assert_gt(results_checkpoint(folder_path("two")), 0);
    job_run("%s --set output.dir=two --resume", drawn);
    results_expect_same(folder_path("one"), folder_path("two"), false);
}

Test(link_jobs, do_not_go_on_with_other_held_out_edges)
{
    job_run("--set output.dir=o" STOPPED);
    pairs_write("data/valid_edges.npy", 20, 20, N_HELD, 1);
    job_run_expect(65, "'data/valid_edges.npy' has other validation edges than checkpoint", "",
                   "--set output.dir=o --resume");
    pairs_write("data/valid_edges.npy", 20, 20, N_HELD, 0);
    pairs_write("data/test_edges.npy", 40, 40, N_HELD - 1, 0);
    job_run_expect(65, "'data/test_edges.npy' has other test edges than checkpoint", "",
                   "--set output.dir=o --resume");
    pairs_write("data/test_edges.npy", 40, 40, N_HELD, 0);
    job_run_expect(78, "task.negatives is 2, in checkpoint", "",
                   "--set output.dir=o --resume --set task.negatives=2");
    job_run("--set output.dir=o --resume");
}

/* --- the same bits --- */

Test(link_jobs, have_the_same_bits_for_any_workers_in_every_exchange)
{
    static const struct {
        const char *settings;
        bool differs; /* from the first */
    } ways[] = {
        {"", false},
        {"--set exchange.schedule=halo --set exchange.prefetch=0", false},
        {"--set task.negatives=3", true},
        {"--set exchange.sampling=0.4", true},
        {"--set exchange.codec=int8 --set exchange.error_feedback=true", true},
        {"--set exchange.stale=1 --set exchange.codec=bf16", true},
        {"--set exchange.guard_every=3 --set exchange.codec=int2", true},
        {"--set exchange.plain=true --set train.eval_every=0", true},
        {"--set train.precision=bf16 --set memory.recompute=always", true},
        {"--set partition.parts=7 --set partition.method=random", true},
        {"--set task.sampling=ends --set exchange.schedule=halo", true},
        {"--set train.loss=cross_entropy --set task.negatives=3 --set exchange.prefetch=0", true},
        {"--set train.loss=margin --set task.margin=0.5 --set exchange.codec=int8", true},
        {"--set task.decoder=mlp --set task.decoder_hidden=5", true},
        {"--set task.decoder=mlp --set task.decoder_layers=3 --set train.loss=margin", true},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char names[3][16];
        static const int workers[] = {1, 4, 2}, n_fleet = SANITIZED ? 2 : 3;
        for (int k = 0; k < n_fleet; k++) {
            snprintf(names[k], sizeof names[k], "%zu_%d", i, workers[k]);
            job_run("%s --set workers.count=%d --set workers.threads=%d --set output.dir=%s", ways[i].settings,
                    workers[k], k == 2 ? 2 : 1, names[k]);
        }
        for (int k = 1; k < n_fleet; k++) {
            char a[128], b[128];
            snprintf(a, sizeof a, "%s", folder_path(names[0]));
            snprintf(b, sizeof b, "%s", folder_path(names[k]));
            results_expect_same(a, b, false);
        }
        cr_assert_neq(has_same_model("0_1", names[0]), ways[i].differs, "%s", ways[i].settings);
    }
}

static void expect_planned(const char *more)
{
    char settings[256];
    snprintf(settings, sizeof settings,
             "--set workers.count=2 --set task.channels=32 --set dataset.path= --set dataset.generator=sbm --set "
             "dataset.nodes=2000 %s",
             more);
    job_run("%s --set output.dir=o", settings);
    json_t *result = results_of("o"), *plan = job_run_plan("%s", settings);
    results_expect_memory(result, "all", "links");
    const json_t *traffic = json_object_get(result, "traffic");
    cr_assert(json_equal(json_object_get(json_object_get(traffic, "planned"), "layers"),
                         json_object_get(json_object_get(plan, "traffic"), "layers")));
    const json_t *last[2];
    for (int k = 0; k < 2; k++) {
        const json_t *layers = json_object_get(json_object_get(traffic, k == 0 ? "planned" : "measured"), "layers");
        last[k] = json_array_get(layers, json_array_size(layers) - 1);
        cr_assert_geq(results_number(last[k], "backward"), 2000 * 32 * 4, "rows of all nodes are among them");
    }
    cr_assert_float_eq(results_number(last[1], "backward"), results_number(last[0], "backward"),
                       0.01 * results_number(last[0], "backward"));
    cr_assert_eq(results_number(result, "allocations_in_epochs"), 0);
    json_decref(result);
    json_decref(plan);
}

Test(link_jobs, send_and_allocate_what_the_plan_says)
{
    expect_planned("");
    expect_planned("--set task.sampling=ends --set task.negatives=3");
    expect_planned("--set task.decoder=mlp");
    expect_planned("--set task.decoder=mlp --set train.loss=margin --set dataset.undirected=no");
}

/* --- models --- */

/* It learns, and has the same bits on two workers. */
static void expect_trained(const char *name, const char *settings)
{
    char one[64], two[64];
    snprintf(one, sizeof one, "%s_1", name);
    snprintf(two, sizeof two, "%s_2", name);
    job_run("%s --set train.epochs=20 --set output.dir=%s", settings, one);
    job_run("%s --set train.epochs=20 --set output.dir=%s --set workers.count=2", settings, two);
    char a[128], b[128];
    snprintf(a, sizeof a, "%s", folder_path(one));
    snprintf(b, sizeof b, "%s", folder_path(two));
    results_expect_same(a, b, false);
    json_t *epochs = results_epochs(folder_path(one));
    double first = results_number(json_array_get(epochs, 0), "loss"),
           last = results_number(json_array_get(epochs, 19), "loss");
    cr_assert(isfinite(first) && last < first, "%s: the loss went from %g to %g", settings, first, last);
    json_decref(epochs);
}

Test(link_jobs, train_models_of_every_sort)
{
    expect_trained("gat", "--set model.kind=gat --set model.heads=2");
    expect_trained(
        "norm",
        "--set model.kind=sage --set model.norm=batch --set model.input_dropout=0.2 --set model.residual=true");
    expect_trained("learned", "--set dataset.features=learned");
    expect_trained("one_hot", "--set dataset.features=one_hot --set model.kind=sage --set model.aggregator=max");
    expect_trained("hidden", "--set task.channels=0 --set model.kind=gin --set train.clip_norm=1");
    expect_trained("jk", "--set model.jumping_knowledge=concat --set model.layers=3 --set train.optimizer=adamw");
    folder_write(
        "own.gnn",
        "def layer(v, out):\n    v.k = linear(\"lin_key\", v.x, out)\n    v.u = linear(\"lin_value\", v.x, out)\n"
        "    return sum(sigmoid(e.dst.k + e.src.k) * e.src.u for e in v.in_edges)\n");
    expect_trained("program", "--set model.kind=program --set model.program=own.gnn");
}

Test(link_jobs, train_rgcn_on_edges_with_types)
{
    typed_folder_write(folder_path("typed"), &(struct typed_folder){.n_node = 150, .n_edge = 600});
    const char *settings = "--set dataset.path=typed --set model.kind=rgcn --set model.bases=2";
    expect_trained("rgcn", settings);
    char directed[256];
    snprintf(directed, sizeof directed, "%s --set dataset.undirected=no", settings);
    expect_trained("directed", directed);
    folder_write("own.gnn",
                 "def score(e):\n    w = param(\"gate\", graph.relations, 4, init=ones)[e.relation]\n"
                 "    y = relu(linear(\"a\", e.src.x, 4)) * w\n    return dot(y, linear(\"b\", e.dst.x, 4))\n");
    static const char *const decoders[] = {"distmult", "distmult", "complex", "own.gnn"};
    for (int k = 0; k < 4; k++) {
        char name[16], decoded[512];
        snprintf(name, sizeof name, "decoder%d", k);
        snprintf(decoded, sizeof decoded, "%s --set task.decoder=%s --set train.lr=0.05 --set train.loss=%s",
                 k % 2 == 0 ? settings : directed, decoders[k], k % 2 == 0 ? "bce" : "cross_entropy");
        expect_trained(name, decoded);
    }
}

/* --- what is learned --- */

/* 16 communities: knowing them alone gives 0.94, as 19 of 20 edges lie in one and 15 of 16 other pairs do not. */
Test(link_jobs, tell_edges_from_other_pairs_by_communities)
{
    const char *settings =
        "--set dataset.path= --set dataset.generator=sbm --set dataset.nodes=1600 --set dataset.degree=12 --set "
        "dataset.classes=16 --set dataset.homophily=0.95 --set dataset.features=16 --set task.channels=16 --set "
        "model.hidden=32 --set model.dropout=0 --set train.epochs=80 --set train.eval_every=10";
    job_run("%s --set output.dir=gcn", settings);
    job_run("%s --set output.dir=sage --set model.kind=sage", settings);
    cr_expect_geq(number_of("gcn", "best", "test_roc_auc"), 0.90);
    cr_expect_geq(number_of("sage", "best", "test_roc_auc"), 0.90);
    job_run("%s --set output.dir=untrained --set train.epochs=0", settings);
    cr_expect_lt(number_of("untrained", "last", "test_roc_auc"), number_of("gcn", "best", "test_roc_auc"));
}

/* --- what is refused --- */

static void refused(int code, const char *words, const char *settings)
{
    char all[512];
    snprintf(all, sizeof all, "%s --set output.dir=o", settings);
    job_run_expect(code, words, "", all);
    cr_assert_not(folder_has("o/result.json"));
}

Test(link_jobs, are_refused_with_keys_that_do_not_go_with_them)
{
    static const struct {
        const char *words, *settings;
    } rows[] = {
        {"train.loss does not go with task.kind = \"link\"", "--set train.loss=mse"},
        {"train.class_weights does not go with", "--set train.class_weights=balanced"},
        {"train.label_smoothing does not go with", "--set train.label_smoothing=0.1"},
        {"model.label_input does not go with", "--set model.label_input=true"},
        {"memory.spill does not go with", "--set memory.spill=/tmp"},
        {"train.prune = \"always\" does not go with", "--set train.prune=always"},
        {"dataset.split does not go with", "--set dataset.split=1"},
        {"leave no edges to train on", "--set task.valid_share=0.5 --set task.test_share=0.5"},
        {"the metric \"accuracy\" is of nodes", "--set train.metrics=accuracy"},
        {"the metric \"mrr\" is of links", "--set task.kind=node"},
        {"task.negatives", "--set task.negatives=0"},
        {"did you mean 'task.negatives'", "--set task.negative=2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        refused(78, rows[i].words, rows[i].settings);
    }
}

Test(link_jobs, are_refused_with_files_that_do_not_fit)
{
    refused(66, "data/none: No such file or directory", "--set dataset.path=data/none");
    pairs_write("data/test_tails_negative.npy", 3, 4, N_HELD, 0);
    refused(65, "data/test_tails_negative.npy: has shape [2, 24], expected [12, one or more]", "");
    pairs_write("data/test_edges_negative.npy", 3, 4, N_HELD, 0);
    refused(65, "data/test_edges_negative.npy and data/test_tails_negative.npy are both there", "");
    unlink(folder_path("data/test_tails_negative.npy"));
    unlink(folder_path("data/test_edges.npy"));
    refused(
        66,
        "data/test_edges.npy: no such file, expected the edges that data/test_edges_negative.npy are compared with",
        "");
    unlink(folder_path("data/test_edges_negative.npy"));
    pairs_write("data/test_edges.npy", 0, 0, N_HELD, 0);
    refused(65, "data/test_edges.npy: column 0: joins node 0 with itself, expected two nodes", "");
    save("data/test_edges.npy", NPY_TYPE_I64, 2, 2, (int64_t[]){3, 4, 5, N_NODE});
    refused(65, "data/test_edges.npy: column 1: tail 120 is out of range, expected 0 to 119, the nodes", "");
}

Test(link_jobs, are_refused_without_edges_or_pairs_to_learn_from)
{
    pairs_write("data/test_edges.npy", 1, N_STEP, N_NODE, 0);
    refused(65, "has no edge left to train on", "");
    unlink(folder_path("data/test_edges.npy"));
    unlink(folder_path("data/valid_edges.npy"));
    refused(78, "train.patience = 3 waits for a better valid metric",
            "--set train.patience=3 --set task.valid_share=0");
}

Test(link_jobs, on_a_complete_graph_have_nothing_to_rank_edges_among_and_train_nevertheless)
{
    cr_assert_eq(mkdir(folder_path("full"), 0700), 0);
    save("full/edges.npy", NPY_TYPE_I64, 2, 6, (int64_t[]){0, 0, 0, 1, 1, 2, 1, 2, 3, 2, 3, 3});
    save("full/features.npy", NPY_TYPE_F32, 4, 2, (float[]){1, 0, 0, 1, 1, 1, 0, 0});
    refused(65, "no pair of nodes without an edge was found to rank the validation edges among",
            "--set dataset.path=full --set task.valid_share=0.2");
    job_run("--set dataset.path=full --set task.valid_share=0 --set task.test_share=0 --set output.dir=o");
    json_t *epochs = results_epochs(folder_path("o")), *last = json_array_get(epochs, 7);
    cr_assert(json_is_null(json_object_get(last, "valid_roc_auc")) && isfinite(results_number(last, "loss")));
    json_decref(epochs);
}
