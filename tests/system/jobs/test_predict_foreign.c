/* Predictions with weights of another program: a file alone, the job's [model], and [model.names]. */
#include "partition/files/npy.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

JOB_SUITE(predict_foreign, 900,
          "name = \"s\"\n[dataset]\ngenerator = \"sbm\"\nnodes = 300\ndegree = 6\nfeatures = 24\nclasses = 4\n"
          "[partition]\nparts = 5\ncache = \"off\"\n[model]\nhidden = 8\n[train]\nepochs = 3\nlr = 0.1\n"
          "[workers]\ncount = 2\nthreads = 1\n");

/* The weights of a training in the folder `from`, as a file without its result.json. */
static void part_with(const char *from, const char *to)
{
    char path[64];
    snprintf(path, sizeof path, "%s/best.safetensors", from);
    cr_assert_eq(link(folder_path(path), folder_path(to)), 0);
}

static const char *const cases[] = {
    "--set model.kind=gcn --set exchange.sampling=0.5",
    "--set model.kind=sage --set model.norm=layer --set model.layers=3 --set model.residual=true",
    "--set model.kind=gat --set model.heads=3 --set model.out_heads=2 --set model.activation=elu",
    "--set model.kind=gin --set model.norm=batch",
    "--set model.kind=gcn --set model.jumping_knowledge=concat",
    "--set model.kind=rgcn --set model.blocks=4",
    "--set model.kind=appnp",
    "--set model.kind=gcnii",
    "--set model.kind=sage --set dataset.labels_per_node=2",
    "--set model.kind=gcn --set dataset.features=learned",
    "--set model.kind=gcn --set model.label_input=true",
    "--set model.kind=program --set model.program='def layer(v, out):\n    return linear(\"a\", v.x, out) + "
    "linear(\"b\", sum(e.src.x for e in v.in_edges) / graph.nodes, out)\n'",
};

Test(predict_foreign, the_jobs_own_model_makes_the_trainings_bits_from_the_weights_alone)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (ways_skip(i, sizeof cases / sizeof *cases)) {
            continue;
        }
        char out[32], weights[48];
        snprintf(out, sizeof out, "o%zu", i);
        snprintf(weights, sizeof weights, "w%zu.safetensors", i);
        job_run("%s --set output.dir=%s", cases[i], out);
        part_with(out, weights);
        for (int n_worker = 1; n_worker <= 3; n_worker += 2) {
            char to[48];
            snprintf(to, sizeof to, "%s-%d", out, n_worker);
            job_run("%s --set predict.model=%s --set workers.count=%d --set output.dir=%s", cases[i], weights,
                    n_worker, to);
            results_expect_same_file(folder_path(out), folder_path(to), "logits.npy");
        }
    }
}

Test(predict_foreign, the_weights_tell_the_classes_of_a_graph_without_labels)
{
    const int64_t edges[2][3] = {{0, 1, 2}, {1, 2, 0}};
    float features[3][24];
    for (int i = 0; i < 3 * 24; i++) {
        features[i / 24][i % 24] = (float)i / 72.0F;
    }
    cr_assert_eq(mkdir(folder_path("g"), 0777), 0);
    cr_assert_eq(npy_save(folder_path("g/edges.npy"), NPY_TYPE_I64, 2, (const int64_t[]){2, 3}, edges), STATUS_OK);
    cr_assert_eq(npy_save(folder_path("g/features.npy"), NPY_TYPE_F32, 2, (const int64_t[]){3, 24}, features),
                 STATUS_OK);
    job_run("--set output.dir=o --set dataset.classes=7");
    part_with("o", "w");
    job_run("--set predict.model=w --set dataset.generator=none --set dataset.path=g --set partition.parts=2 "
            "--set train.loss=bce --set output.dir=p");
    struct npy logits, labels;
    cr_assert_eq(npy_open(folder_path("p/logits.npy"), &logits), STATUS_OK);
    cr_assert_eq(npy_open(folder_path("p/predictions.npy"), &labels), STATUS_OK);
    cr_assert(logits.shape[0] == 3 && logits.shape[1] == 7);
    cr_assert(labels.rank == 2 && labels.shape[1] == 7, "train.loss says that nodes have several labels");
    npy_close(&labels);
    npy_close(&logits);
    folder_write("g/class_names.json", "[\"a\", \"b\"]");
    job_run_expect(65, "class_names.json", "",
                   "--set predict.model=w --set dataset.generator=none --set dataset.path=g --set output.dir=q");
    cr_assert_not(folder_has("q"));
}

Test(predict_foreign, what_does_not_fit_is_named_before_a_worker_starts)
{
    static const char lists[] = "trainerd: expected the tensors of the job's [model], with the names in the file by "
                                "[model.names] (docs/predict.md)";
    static const struct {
        int code;
        const char *settings, *reason[3];
    } refused[] = {
        {65, "--set model.hidden=9", {"tensor 'convs.0.lin.weight' has shape [8, 24], expected [9, 24]", lists}},
        {65,
         "--set model.layers=3",
         {"tensor 'convs.2.lin.weight' is missing, expected with shape [", "tensor 'convs.2.bias' is missing",
          lists}},
        {65,
         "--set model.names.convs.1=conv2",
         {"tensor 'convs.1.bias' ('conv2.bias' in the file) is missing, expected with shape [4]",
          "tensor 'convs.1.bias' belongs to nothing in this model",
          "tensor 'convs.1.lin.weight' belongs to nothing in this model"}},
        {65, "--set model.names.convs.0.lin.weight=convs.0.lin.weight.T", {"has shape [8, 24], expected [24, 8]"}},
        {65, "--set dataset.features=23", {"has shape [8, 24], expected [8, 23]", lists}},
        {78, "--set model.names.convs.1=convs.0", {"both 'convs.0.lin.weight' and 'convs.1.lin.weight' would be"}},
        {78,
         "--set model.names.conv.1=x",
         {"[model.names]: the model has no tensor 'conv.1'; did you mean 'convs.1'?"}},
        {66, "--set predict.model=nowhere", {"'nowhere': No such file or directory"}},
        {65, "--set predict.model=short", {"short: its header claims", "expected a safetensors file"}},
        {65, "--set predict.model=job.toml", {"expected a safetensors file"}},
    };
    job_run("--set output.dir=o");
    part_with("o", "w");
    cr_assert_eq(link(folder_path("o/model.safetensors"), folder_path("short")), 0);
    cr_assert_eq(truncate(folder_path("short"), 200), 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int code = job_run_code("", "--set predict.model=w %s --set output.dir=p", refused[i].settings);
        cr_expect_eq(code, refused[i].code, "%s: %s", refused[i].settings, job_run_log);
        for (int k = 0; k < 3 && refused[i].reason[k] != NULL; k++) {
            cr_expect_not_null(strstr(job_run_log, refused[i].reason[k]), "%s: %s", refused[i].settings, job_run_log);
        }
        cr_expect_null(strstr(job_run_log, "worker"), "%s: %s", refused[i].settings, job_run_log);
        cr_assert_not(folder_has("p"));
    }
}

Test(predict_foreign, names_also_find_the_initial_weights_of_a_training)
{
    job_run("--set output.dir=o --set model.linear_layers=1");
    part_with("o", "w");
    job_run("--set output.dir=i --set model.linear_layers=1 --set model.init=w --set train.epochs=0");
    results_expect_same_file(folder_path("o"), folder_path("i"), "best.safetensors");
    job_run_expect(65, "tensor 'lins.0.weight' ('lin.weight' in the file) is missing", "",
                   "--set output.dir=j --set model.linear_layers=1 --set model.init=w --set model.names.lins.0=lin");
}
