/* Propagations after a training or a prediction ([post]): their files, their metrics, what they do not go with, and what is left where they
 * fail. python/tests/arrays/test_smoothing.py compares their numbers with PyTorch Geometric's. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

JOB_SUITE(post, 900,
          "[dataset]\ngenerator = \"sbm\"\nnodes = 400\ndegree = 4\nclasses = 4\nfeatures = 8\nnoise = "
          "4\ntrain_share = 0.2\n"
          "[partition]\ncache = \"off\"\nparts = 4\n[model]\nhidden = 8\n[train]\nepochs = 4\n"
          "[workers]\ncount = 2\nthreads = 1\n[output]\ndir = \"o\"\n"
          "[post]\ncorrect_alpha = 0.8\ncorrect_and_smooth = true\nlabel_propagation = true\n");

static const char *const files[] = {"smoothed.npy", "propagated.npy"};
static const char *const keys[] = {"correct_and_smooth", "label_propagation"};

static double metric(const char *result_file, const char *key, const char *split)
{
    json_t *result = results_json(folder_path(result_file));
    const json_t *post = json_object_get(json_object_get(result, "post"), key);
    double value = results_number(json_object_get(post, "metrics"), split);
    json_decref(result);
    return value;
}

Test(post, rows_have_the_same_bits_on_any_number_of_workers_and_after_a_prediction)
{
    job_run("%s", "");
    job_run("--set output.dir=one --set workers.count=1");
    job_run("--set output.dir=four --set workers.count=4 --set workers.threads=2 --set exchange.schedule=halo");
    job_run("--set output.dir=again --set predict.model=o");
    job_run("--set output.dir=none --set post.correct_and_smooth=false --set post.label_propagation=false");
    for (int i = 0; i < 2; i++) {
        results_expect_same_file(folder_path("o"), folder_path("one"), files[i]);
        results_expect_same_file(folder_path("o"), folder_path("four"), files[i]);
        results_expect_same_file(folder_path("o"), folder_path("again"), files[i]);
        cr_expect_eq(metric("o/result.json", keys[i], "test"), metric("again/result.json", keys[i], "test"));
    }
    results_expect_same_file(folder_path("o"), folder_path("none"), "logits.npy");
    cr_assert_not(folder_has("none/smoothed.npy") || folder_has("none/propagated.npy"));
}

Test(post, metrics_are_of_the_rows_and_both_are_in_the_result_and_on_the_console)
{
    job_run("--set train.metrics=accuracy,macro_f1");
    json_t *result = results_of("o");
    double before = results_number(json_object_get(result, "best"), "test_metric");
    double after = metric("o/result.json", "correct_and_smooth", "test");
    cr_expect_gt(after, before + 0.2, "%g, before %g", after, before);
    for (int i = 0; i < 2; i++) {
        const json_t *post = json_object_get(json_object_get(result, "post"), keys[i]);
        cr_expect_str_eq(json_string_value(json_object_get(post, "file")), files[i]);
        cr_expect_gt(results_number(post, "seconds"), 0.0);
        cr_expect(results_number(json_object_get(post, "metrics"), "test_macro_f1") > 0.0);
        cr_expect_not_null(json_object_get(json_object_get(result, "files"), files[i]), "%s", files[i]);
    }
    cr_expect_not_null(strstr(job_run_log, "correct and smooth: test accuracy "), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "label propagation: test accuracy "), "%s", job_run_log);
    json_decref(result);
}

Test(post, what_has_no_classes_or_no_labels_is_refused)
{
    static const struct {
        const char *settings, *why;
        int code;
    } cases[] = {
        {"--set task.kind=link", "post.correct_and_smooth does not go with task.kind = \"link\"", 78},
        {"--set train.loss=mse --set post.correct_and_smooth=false",
         "post.label_propagation does not go with train.loss = \"mse\"", 78},
        {"--set workers.launcher=manual", "post.correct_and_smooth does not go with workers.launcher = \"manual\"",
         78},
        {"--set dataset.labels_per_node=2", "post.correct_and_smooth is for one label per node", 78},
        {"--set post.layers=513", "post.layers is 513; expected a whole number from 1 to 512", 78},
        {"--set post.correct_alpha=1.5", "post.correct_alpha is 1.5; expected a number from 0.0 to 1.0", 78}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job_run_expect(cases[i].code, cases[i].why, "", cases[i].settings);
        cr_expect_not(folder_has("o"), "%s", cases[i].settings);
    }
    job_run_expect(0, "post.scale is not used: post.autoscale is true", "", "--set post.scale=2");
    job_run_expect(0, "post.layers is not used: post.label_propagation is false", "",
                   "--set post.layers=2 --set post.label_propagation=false --set output.dir=p");
}

Test(post, a_death_in_it_leaves_the_training_to_a_resume)
{
    job_run("--set output.dir=calm");
    cr_assert_eq(job_run_code("TRAINERD_FAULTS=coordinator.wire-up=kill@2", "--set workers.max_restarts=0"), 137,
                 "%s", job_run_log);
    cr_assert_not(folder_has("o/result.json"));
    job_run("--resume --set post.label_propagation=false");
    results_expect_same_file(folder_path("o"), folder_path("calm"), "model.safetensors");
    results_expect_same_file(folder_path("o"), folder_path("calm"), "smoothed.npy");
    cr_expect_not(folder_has("o/propagated.npy"));
}
