/* Jobs on graphs whose edges have features, from their files to their results: training, predictions, memory, what is refused. */
#include "partition/files/npy.h"
#include "protocol/base/status.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/graphs/tiny_graph.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_NODE = 400, N_EDGE = 2400, N_FEATURE = 8 };

static void save(const char *folder_name, const char *name, enum npy_type type, int rank, const int64_t *shape,
                 const void *values)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder_name, name);
    cr_assert_eq(npy_save(folder_path(path), type, rank, shape, values), STATUS_OK, "%s", status_reason());
}

/* Edges of this number of features each; the class of a node is in the features of its in-edges alone. */
static void write_graph(const char *to, int64_t n_column)
{
    static int64_t edges[2][N_EDGE], labels[N_NODE], train[N_NODE / 2];
    static float features[N_NODE][N_FEATURE], rows[N_EDGE * 4];
    cr_assert_eq(mkdir(folder_path(to), 0700), 0);
    for (int e = 0; e < N_EDGE; e++) {
        edges[0][e] = (e * 7 + e / N_NODE * 11) % N_NODE;
        edges[1][e] = e % N_NODE;
        for (int64_t c = 0; c < n_column; c++) {
            rows[e * n_column + c] = test_number(3, (uint64_t)e, (uint32_t)c) + (c == edges[1][e] % 2 ? 1.0F : 0.0F);
        }
    }
    for (int i = 0; i < N_NODE; i++) {
        labels[i] = i % 2;
        train[i / 2] = i / 2;
        for (int c = 0; c < N_FEATURE; c++) {
            features[i][c] = test_number(5, (uint64_t)i, (uint32_t)c);
        }
    }
    save(to, "edges.npy", NPY_TYPE_I64, 2, (int64_t[]){2, N_EDGE}, edges);
    save(to, "edge_attr.npy", NPY_TYPE_F32, 2, (int64_t[]){N_EDGE, n_column}, rows);
    save(to, "features.npy", NPY_TYPE_F32, 2, (int64_t[]){N_NODE, N_FEATURE}, features);
    save(to, "labels.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE}, labels);
    save(to, "train_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE / 2}, train);
}

static void make_all(void)
{
    folder_make();
    write_graph("data", 3);
    folder_write("job.toml",
                 "name = \"e\"\n[dataset]\npath = \"data\"\n[partition]\nparts = 5\ncache = \"off\"\n[model]\n"
                 "kind = \"gat\"\nhidden = 8\nheads = 2\n[train]\nepochs = 5\nlr = 0.05\n[workers]\ncount = 2\n"
                 "threads = 1\n");
}

TestSuite(edge_features_job, .init = make_all, .fini = folder_remove, .timeout = 300);

static void expect_memory(const char *dir, const char *what)
{
    json_t *result = results_of(dir);
    results_expect_memory(result, "all", what);
    cr_assert_eq(results_number(result, "allocations_in_epochs"), 0, "%s", what);
    cr_assert_eq(results_number(json_object_get(result, "dataset"), "edge_features"), 3, "%s", what);
    json_decref(result);
}

Test(edge_features_job, predictions_with_the_trained_model_are_its_logits_bit_for_bit_in_the_memory_that_is_planned)
{
    static const char *const kinds[] = {"gat", "gatv2", "transformer"};
    static const char *const ways[] = {"--set workers.count=1", "--set workers.count=3 --set workers.threads=2",
                                       "--set memory.spill=."};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        job_run("--set model.kind=%s --set output.dir=%s", kinds[k], kinds[k]);
        expect_memory(kinds[k], kinds[k]);
        job_run("--set predict.model=%s --set output.dir=predicted %s", kinds[k], ways[k]);
        results_expect_same_file(folder_path(kinds[k]), folder_path("predicted"), "logits.npy");
        expect_memory("predicted", ways[k]);
    }
}

/* Chance is half of the nodes. */
Test(edge_features_job, attention_learns_what_is_in_the_edges_alone)
{
    job_run("--set model.kind=transformer --set train.epochs=60 --set output.dir=o");
    cr_assert_not_null(strstr(job_run_log, "edges have 3 features each"), "%s", job_run_log);
    json_t *result = results_of("o");
    cr_assert_gt(results_number(json_object_get(result, "last"), "train_metric"), 0.9);
    json_decref(result);
}

Test(edge_features_job, a_graph_with_other_features_or_none_is_no_graph_for_the_model)
{
    job_run("--set output.dir=o");
    write_graph("wide", 4);
    job_run_expect(65, "has 4 feature columns of edges, expected 3, as many as the model in 'o' was trained with", "",
                   "--set predict.model=o --set output.dir=p --set dataset.path=wide");
    cr_assert_eq(unlink(folder_path("wide/edge_attr.npy")), 0);
    job_run_expect(66, "wide/edge_attr.npy: no such file, expected the features of the edges", "",
                   "--set predict.model=o --set output.dir=p --set dataset.path=wide");
    job_run_expect(78, "expected model.kind = \"gat\", \"gatv2\" or \"transformer\"", "",
                   "--set model.kind=gcn --set dataset.edge_features=yes --set output.dir=q");
}

/* The model that was trained without does not take them now. */
Test(edge_features_job, a_model_without_them_predicts_without)
{
    job_run("--set dataset.edge_features=no --set output.dir=o");
    job_run("--set predict.model=o --set output.dir=p");
    results_expect_same_file(folder_path("o"), folder_path("p"), "logits.npy");
}

Test(edge_features_job, a_stopped_job_goes_on_with_the_same_features_alone)
{
    job_run("--set output.dir=one");
    job_run("--set output.dir=two --set train.epochs=3 --set train.checkpoint_every=3");
    job_run("--set output.dir=three --set train.epochs=3 --set train.checkpoint_every=3");
    job_run("--set output.dir=two --set workers.count=3 --resume");
    results_expect_same_model(folder_path("one"), folder_path("two"));
    static float rows[N_EDGE * 3];
    save("data", "edge_attr.npy", NPY_TYPE_F32, 2, (int64_t[]){N_EDGE, 3}, rows);
    job_run_expect(65, "is not the one of checkpoint", "", "--set output.dir=three --resume");
}
