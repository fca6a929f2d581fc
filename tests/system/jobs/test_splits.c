/* Which split a job had: said on the console, in the plan and in result.json; drawn ones are kept beside the results. */
#include "tests/support/graphs/array_save.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

JOB_SUITE(splits, 900,
          "name = \"s\"\n[dataset]\ngenerator = \"sbm\"\nnodes = 200\ntrain_share = 0.3\nseed = 4\n[partition]\n"
          "parts = 2\ncache = \"off\"\n[train]\nepochs = 1\n[workers]\nthreads = 1\n[output]\ndir = \"o\"\n");

/* Nodes of a split by the file beside the results; each node's place in `seen` is set. */
static int64_t nodes_of(const char *name, char seen[200])
{
    struct npy nodes;
    cr_assert_eq(npy_open(folder_path(name), &nodes), STATUS_OK, "%s", status_reason());
    cr_assert(nodes.type == NPY_TYPE_I64 && nodes.rank == 1);
    int64_t n = nodes.n_value, last = -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t node = npy_int(&nodes, i);
        cr_assert(node > last && node < 200 && seen[node] == 0, "%s", name);
        last = node;
        seen[node] = 1;
    }
    npy_close(&nodes);
    return n;
}

Test(splits, drawn_ones_are_named_and_kept_beside_the_results)
{
    char seen[200] = {0}, line[256];
    job_run("--set dataset.seed=4");
    json_t *result = results_of("o"), *dataset = json_object_get(result, "dataset");
    json_t *split = json_object_get(dataset, "split");
    int64_t n[] = {nodes_of("o/drawn_train_idx.npy", seen), nodes_of("o/drawn_valid_idx.npy", seen),
                   nodes_of("o/drawn_test_idx.npy", seen)};
    cr_assert_eq(n[0] + n[1] + n[2], 200);
    cr_assert(results_number(dataset, "train_nodes") == (double)n[0] &&
              results_number(dataset, "valid_nodes") == (double)n[1] &&
              results_number(dataset, "test_nodes") == (double)n[2] && results_number(dataset, "other_nodes") == 0);
    cr_assert_str_eq(json_string_value(json_object_get(split, "origin")), "drawn");
    cr_assert_eq(results_number(split, "seed"), 4);
    cr_assert(json_is_null(json_object_get(split, "index")) && json_is_null(json_object_get(split, "of")));
    snprintf(line, sizeof line,
             "split drawn with dataset.seed = 4, a share of 0.3 for training, half of the rest for validation: %d "
             "train, %d valid, %d test, 0 in no split",
             (int)n[0], (int)n[1], (int)n[2]);
    cr_assert_not_null(strstr(job_run_log, line), "%s", job_run_log);
    cr_assert_not_null(json_object_get(json_object_get(result, "files"), "drawn_train_idx.npy"));
    json_decref(result);
    json_t *plan = job_run_plan("--set dataset.seed=4");
    dataset = json_object_get(plan, "dataset");
    cr_assert_str_eq(json_string_value(json_object_get(json_object_get(dataset, "split"), "origin")), "drawn");
    json_decref(plan);
    job_run("--plan --set dataset.seed=4");
    cr_assert_not_null(strstr(job_run_log, line), "%s", job_run_log);
}

Test(splits, given_ones_are_named_and_not_written)
{
    job_run("--set dataset.generator=karate --set dataset.seed=4");
    cr_assert_not_null(strstr(job_run_log, "split given with the data: 4 train, 13 valid, 17 test, 0 in no split"),
                       "%s", job_run_log);
    cr_assert_not(folder_has("o/drawn_train_idx.npy"));
    json_t *result = results_of("o");
    json_t *split = json_object_get(json_object_get(result, "dataset"), "split");
    cr_assert_str_eq(json_string_value(json_object_get(split, "origin")), "given");
    cr_assert(results_number(split, "index") == 0 && results_number(split, "of") == 1);
    cr_assert(json_is_null(json_object_get(split, "seed")));
    json_decref(result);
}

/* --- validation and test nodes that are the same ones --- */

enum { N_NODE = 90 };

/* Nodes first … first + n - 1; n 0: no file. */
static void save_nodes(const char *name, int64_t first, int64_t n)
{
    int64_t nodes[N_NODE];
    for (int64_t i = 0; i < n; i++) {
        nodes[i] = first + i;
    }
    remove(folder_path(name));
    if (n > 0) {
        array_save(name, NPY_TYPE_I64, 1, &n, nodes);
    }
}

static void write_data(int64_t first_valid, int64_t n_valid, int64_t first_test, int64_t n_test)
{
    static int64_t edges[2][4 * N_NODE], labels[N_NODE];
    static float features[N_NODE][4];
    for (int i = 0; i < 4 * N_NODE; i++) {
        edges[0][i] = i * 7 % N_NODE;
        edges[1][i] = (i * 11 + i / N_NODE) % N_NODE;
    }
    for (int i = 0; i < N_NODE; i++) {
        labels[i] = i % 8 == 0 ? -1 : i * 5 % 7 % 2;
        features[i][i * 3 % 4] = (float)(i % 5);
    }
    for (int i = 0; i < 30; i++) {
        labels[i] = i % 2;
    }
    mkdir(folder_path("data"), 0700); /* the first time */
    array_save("data/edges.npy", NPY_TYPE_I64, 2, (int64_t[]){2, 4 * N_NODE}, edges);
    array_save("data/labels.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE}, labels);
    array_save("data/features.npy", NPY_TYPE_F32, 2, (int64_t[]){N_NODE, 4}, features);
    save_nodes("data/train_idx.npy", 0, 30);
    save_nodes("data/valid_idx.npy", first_valid, n_valid);
    save_nodes("data/test_idx.npy", first_test, n_test);
}

#define OVERLAP "--set dataset.generator=none --set dataset.path=data --set train.epochs=3 --set workers.count=2"

/* The same in all epochs of two runs. */
static void expect_metric(const char *run, const char *other, const char *name)
{
    json_t *one = results_epochs(folder_path(run)), *two = results_epochs(folder_path(other)), *epoch;
    size_t i;
    cr_assert_eq(json_array_size(one), 3);
    json_array_foreach(one, i, epoch)
    {
        double found = results_number(epoch, name), expected = results_number(json_array_get(two, i), name);
        cr_expect(found == expected, "epoch %zu: %s is %.17g in %s, %.17g in %s", i, name, found, run, expected,
                  other);
    }
    json_decref(one);
    json_decref(two);
}

Test(splits, nodes_that_are_validation_and_test_nodes_count_in_both)
{
    static const char *const metrics[] = {"accuracy", "macro_f1"}; /* of the workers' sums, and of logits */
    for (int m = 0; m < 2; m++) {
        write_data(30, 40, 50, 40);
        job_run(OVERLAP " --set train.metric=%s --set output.dir=both", metrics[m]);
        cr_assert_not_null(strstr(job_run_log, "of 40 validation and 40 test nodes 20 are both"), "%s", job_run_log);
        cr_assert_not_null(strstr(job_run_log, "30 train, 40 valid, 40 test, 0 in no split"), "%s", job_run_log);
        write_data(30, 40, 0, 0);
        job_run(OVERLAP " --set train.metric=%s --set output.dir=valid", metrics[m]);
        write_data(0, 0, 50, 40);
        job_run(OVERLAP " --set train.metric=%s --set output.dir=test", metrics[m]);
        expect_metric("both", "valid", "valid_metric");
        expect_metric("both", "test", "test_metric");
    }
    write_data(30, 40, 30, 40);
    job_run(OVERLAP " --set train.metric=macro_f1 --set output.dir=same --set train.patience=2");
    expect_metric("same", "valid", "valid_metric");
}

/* Each labelled node once in the metric of all. */
Test(splits, a_prediction_counts_nodes_of_two_splits_once_among_all)
{
    write_data(30, 40, 50, 40);
    job_run(OVERLAP " --set output.dir=o");
    job_run("--set predict.model=o --set dataset.generator=none --set dataset.path=data --set output.dir=two");
    write_data(30, 20, 50, 40);
    job_run("--set predict.model=o --set dataset.generator=none --set dataset.path=data --set output.dir=one");
    json_t *one = results_of("one"), *two = results_of("two");
    json_t *of_one = json_object_get(one, "metrics"), *of_two = json_object_get(two, "metrics");
    cr_assert_not_null(json_object_get(of_one, "all"));
    cr_expect_eq(results_number(of_one, "all"), results_number(of_two, "all"));
    cr_expect_eq(results_number(of_one, "test"), results_number(of_two, "test"));
    json_decref(one);
    json_decref(two);
}

Test(splits, results_of_a_given_split_do_not_have_the_files_of_a_drawn_one_before)
{
    job_run("--set dataset.seed=4");
    cr_assert(folder_has("o/drawn_train_idx.npy"));
    job_run("--set dataset.generator=karate");
    cr_assert_not(folder_has("o/drawn_train_idx.npy"));
}
