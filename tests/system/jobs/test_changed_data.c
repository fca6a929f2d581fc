/* Jobs that go on after their data has changed, or has moved. */
#include "tests/support/graphs/array_save.h"
#include "tests/support/graphs/tiny_graph.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>

enum { N_NODE = 60, N_EDGE = 240, N_FEATURE = 4, N_CLASS = 3 };

static void save_nodes(const char *name, int64_t first, int64_t n)
{
    int64_t nodes[N_NODE];
    for (int64_t i = 0; i < n; i++) {
        nodes[i] = first + i;
    }
    array_save(name, NPY_TYPE_I64, 1, &n, nodes);
}

/* One value of labels and features is changed, and which nodes a split has. */
static void write_data(int64_t label, float feature, int64_t n_train, int64_t n_valid, int64_t n_test)
{
    int64_t edges[2][N_EDGE], labels[N_NODE];
    float features[N_NODE][N_FEATURE];
    for (int i = 0; i < N_EDGE; i++) {
        edges[0][i] = i * 7 % N_NODE;
        edges[1][i] = (i * 11 + i / N_NODE) % N_NODE;
    }
    for (int i = 0; i < N_NODE; i++) {
        labels[i] = i % N_CLASS;
        for (int c = 0; c < N_FEATURE; c++) {
            features[i][c] = test_number(5, (uint64_t)i, (uint32_t)c);
        }
    }
    labels[50] = label;
    features[50][2] = feature;
    array_save("data/edges.npy", NPY_TYPE_I64, 2, (int64_t[]){2, N_EDGE}, edges);
    array_save("data/features.npy", NPY_TYPE_F32, 2, (int64_t[]){N_NODE, N_FEATURE}, features);
    array_save("data/labels.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE}, labels);
    save_nodes("data/train_idx.npy", 0, n_train);
    save_nodes("data/valid_idx.npy", 30, n_valid);
    save_nodes("data/test_idx.npy", 45, n_test);
}

static void write_class_weights(const char *name, float last)
{
    array_save(name, NPY_TYPE_F32, 1, (int64_t[]){N_CLASS}, (float[]){1.0F, 2.0F, last});
}

#define STOPPED " --set train.epochs=2 --set train.checkpoint_every=2"

static void make_all(void)
{
    folder_make();
    folder_write("job.toml",
                 "name = \"c\"\n[dataset]\npath = \"data\"\n[partition]\nparts = 3\ncache = \"off\"\n[model]\n"
                 "hidden = 8\ndropout = 0.5\n[train]\nepochs = 4\nclass_weights = \"weights.npy\"\n[workers]\n"
                 "threads = 1\n");
    cr_assert_eq(mkdir(folder_path("data"), 0700), 0);
    write_data(1, 0.5F, 30, 10, 10);
    write_class_weights("weights.npy", 0.5F);
}

TestSuite(changed_data, .init = make_all, .fini = folder_remove, .timeout = 900);

static void expect_refused(const char *words)
{
    job_run_expect(65, words, "", "--set output.dir=o --resume");
}

Test(changed_data, is_not_gone_on_with_and_named)
{
    job_run("--set output.dir=o" STOPPED);
    write_data(2, 0.5F, 30, 10, 10);
    expect_refused("'data/labels.npy' has other labels than checkpoint");
    write_data(1, 0.25F, 30, 10, 10);
    expect_refused("'data/features.npy' has other features");
    write_data(1, 0.5F, 29, 10, 10);
    expect_refused("'data/train_idx.npy' has other training nodes");
    write_data(1, 0.5F, 30, 11, 10);
    expect_refused("'data/valid_idx.npy' has other validation nodes");
    write_data(1, 0.5F, 30, 10, 9);
    expect_refused("'data/test_idx.npy' has other test nodes");
    write_data(1, 0.5F, 30, 10, 10);
    write_class_weights("weights.npy", 0.75F);
    expect_refused("'weights.npy' has other class weights");
    write_class_weights("weights.npy", 0.5F);
    job_run("--set output.dir=o --resume");
}

/* Folders for temporary files have other names each time that a scheduler starts a job again. */
Test(changed_data, is_the_same_at_another_path)
{
    job_run("--set output.dir=first" STOPPED);
    const char *init = "--set model.init=first/model.safetensors --set output.dir";
    job_run("%s=one", init);
    job_run("%s=two" STOPPED, init);
    cr_assert_eq(rename(folder_path("data"), folder_path("moved")), 0);
    cr_assert_eq(rename(folder_path("weights.npy"), folder_path("w.npy")), 0);
    cr_assert_eq(rename(folder_path("first"), folder_path("second")), 0);
    job_run_expect(
        78, "train.class_weights is \"balanced\", in checkpoint", "",
        "--set dataset.path=moved --set train.class_weights=balanced --set model.init=second/model.safetensors --set "
        "output.dir=two --resume");
    job_run(
        "--set dataset.path=moved --set train.class_weights=w.npy --set model.init=second/model.safetensors --set "
        "output.dir=two --resume");
    results_expect_same_model(folder_path("one"), folder_path("two"));
}
