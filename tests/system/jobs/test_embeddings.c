/* Whole jobs on nodes without features: what of their embeddings is left behind, gone on from, and taken up again. */
#include "partition/files/npy.h"
#include "tests/support/graphs/typed_folder.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void make_all(void)
{
    folder_make();
    typed_folder_write(folder_path("data"), &(struct typed_folder){.n_node = 300, .n_edge = 2000});
    folder_write("job.toml", "[dataset]\npath = \"data\"\n[partition]\nparts = 4\ncache = \"off\"\n[model]\n"
                             "kind = \"rgcn\"\nhidden = 16\ndropout = 0.3\ninput_dropout = 0.3\n[train]\nepochs = "
                             "12\n[workers]\ncount = 2\nthreads = 1\n");
}

TestSuite(embeddings, .init = make_all, .fini = folder_remove, .timeout = 900);

Test(embeddings, go_on_from_a_checkpoint_on_other_workers_with_the_same_bits)
{
    job_run("--set output.dir=one --set train.eval_every=3");
    job_run("--set output.dir=two --set train.eval_every=3 --set train.epochs=6 --set train.checkpoint_every=6");
    job_run("--set output.dir=two --set train.eval_every=3 --set workers.count=3 --resume");
    results_expect_same(folder_path("one"), folder_path("two"), false);
}

Test(embeddings, are_in_the_files_of_weights_that_a_job_on_other_parts_begins_with)
{
    job_run("--set output.dir=one");
    job_run("--set output.dir=two --set train.epochs=0 --set model.init=one/best.safetensors --set partition.parts=3 "
            "--set workers.count=3");
    results_expect_same_file(folder_path("one"), folder_path("two"), "best.safetensors");
    struct npy one, two;
    cr_assert_eq(npy_open(folder_path("one/logits.npy"), &one), STATUS_OK);
    cr_assert_eq(npy_open(folder_path("two/logits.npy"), &two), STATUS_OK);
    double apart = 0.0, size = 0.0;
    for (int64_t i = 0; i < one.n_value; i++) {
        apart += pow(npy_real(&one, i) - npy_real(&two, i), 2);
        size += pow(npy_real(&one, i), 2);
    }
    cr_assert_leq(sqrt(apart / size), TOLERANCE_ARRAY);
    npy_close(&one);
    npy_close(&two);
}

Test(embeddings, that_are_rows_of_the_first_weights_go_on_and_begin_anew_likewise)
{
    const char *rows =
        "--set dataset.path=bare --set model.embedding=false --set model.bases=2 --set train.eval_every=3";
    typed_folder_write(folder_path("bare"), &(struct typed_folder){.n_node = 300, .n_edge = 2000, .is_bare = true});
    job_run("%s --set output.dir=one", rows);
    job_run("%s --set output.dir=two --set train.epochs=6 --set train.checkpoint_every=6", rows);
    job_run("%s --set output.dir=two --set workers.count=3 --resume", rows);
    results_expect_same(folder_path("one"), folder_path("two"), false);
    job_run("%s --set output.dir=three --set train.epochs=0 --set model.init=one/best.safetensors --set "
            "partition.parts=3 --set workers.count=3",
            rows);
    results_expect_same_file(folder_path("one"), folder_path("three"), "best.safetensors");
}

Test(embeddings, of_the_best_epoch_are_kept_by_every_worker)
{
    job_run("--set output.dir=one --set train.epochs=30");
    job_run("--set output.dir=two --set train.epochs=30 --set workers.count=1");
    results_expect_same(folder_path("one"), folder_path("two"), false);
    json_t *metrics = results_metrics(folder_path("one"), false);
    double best = -1.0;
    size_t best_epoch = 0;
    for (size_t i = 0; i < json_array_size(metrics); i++) {
        double valid = json_number_value(json_object_get(json_array_get(metrics, i), "valid_metric"));
        best_epoch = valid > best ? i : best_epoch;
        best = valid > best ? valid : best;
    }
    cr_assert_lt(best_epoch, 29, "the last epoch is the best: best and last weights are the same");
    job_run("--set output.dir=three --set train.epochs=%zu", best_epoch + 1);
    char command[PATH_MAX];
    snprintf(command, sizeof command, "cmp %s/one/best.safetensors %s/three/model.safetensors", folder, folder);
    cr_assert_eq(system(command), 0);
    json_decref(metrics);
}
