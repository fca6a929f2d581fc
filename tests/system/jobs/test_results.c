/* What whole jobs leave in their output folders: complete files of one run, with their checksums, of the weights that they say. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

JOB_SUITE(results, 900,
          "[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n[model]\nhidden = 8\n"
          "dropout = 0.5\n[train]\nepochs = 4\n[workers]\ncount = 2\nthreads = 1\n[output]\ndir = \"o\"\n");

/* Two files, of whatever folders, have the same bytes. */
static bool are_same(const char *a, const char *b)
{
    size_t n, m;
    char *x = results_bytes(folder_path(a), &n), *y = results_bytes(folder_path(b), &m);
    bool same = n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

/* The file has the length and checksum that result.json gives. */
static void expect_file(const json_t *files, const char *name)
{
    char path[64], digits[17];
    size_t n;
    snprintf(path, sizeof path, "o/%s", name);
    char *bytes = results_bytes(folder_path(path), &n);
    const json_t *file = json_object_get(files, name);
    cr_assert_eq(results_number(file, "bytes"), (double)n, "%s", name);
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)XXH3_64bits(bytes, n));
    cr_assert_str_eq(json_string_value(json_object_get(file, "xxh3_64")), digits, "%s", name);
    free(bytes);
}

Test(results, the_checksums_of_the_files_are_in_result_json)
{
    job_run("--set train.checkpoint_every=2 --set output.trace=true");
    json_t *result = results_of("o"), *files = json_object_get(result, "files");
    static const char *const names[] = {"metrics.jsonl", "model.safetensors", "best.safetensors", "logits.npy",
                                        "trace.json"};
    for (size_t i = 0; i < 5; i++) {
        expect_file(files, names[i]);
    }
    cr_assert_eq(json_object_size(files), 5);
    json_decref(result);
}

/* --- of which weights --- */

Test(results, logits_are_those_of_the_best_weights)
{
    job_run("--set train.epochs=20 --set train.lr=0.5 --set output.trace=true --set output.last_logits=true");
    json_t *result = results_of("o"), *best = json_object_get(result, "best");
    cr_assert_lt(results_number(best, "epoch"), 19, "the last epoch is the best: the test shows nothing");
    cr_assert_str_eq(json_string_value(json_object_get(best, "chosen_by")), "valid_metric");
    json_decref(result);
    cr_assert_not(are_same("o/model.safetensors", "o/best.safetensors"));
    job_run("--set train.epochs=0 --set output.dir=best --set model.init=o/best.safetensors");
    cr_assert(are_same("o/logits.npy", "best/logits.npy"));
    job_run("--set train.epochs=0 --set output.dir=last --set model.init=o/model.safetensors");
    cr_assert_not(are_same("o/logits.npy", "last/logits.npy"));
    cr_assert(are_same("o/logits_last.npy", "last/logits.npy") && !folder_has("last/logits_last.npy"));
    job_run("--set train.epochs=20 --set train.lr=0.5 --set output.trace=true --set workers.count=2");
    cr_assert_not(folder_has("o/logits_last.npy"), "of the run before");
}

#define NO_VALID "--set dataset.generator=sbm --set dataset.nodes=200 --set dataset.train_share=1 "

Test(results, without_a_validation_split_the_best_weights_are_the_last_and_the_result_says_why)
{
    job_run(NO_VALID "--set train.epochs=10 --set train.lr=0.5");
    cr_assert_not_null(
        strstr(job_run_log, "with the last weights: the data set has no validation split to choose others by"), "%s",
        job_run_log);
    cr_assert(are_same("o/model.safetensors", "o/best.safetensors"));
    json_t *result = results_of("o"), *best = json_object_get(result, "best");
    cr_assert_eq(results_number(best, "epoch"), 9);
    cr_assert(json_is_null(json_object_get(best, "chosen_by")));
    cr_assert_str_eq(json_string_value(json_object_get(best, "reason")),
                     "the data set has no validation split to choose by: best.safetensors holds the last weights");
    json_decref(result);
}

Test(results, patience_without_a_validation_split_is_refused)
{
    cr_assert_eq(job_run_code("", NO_VALID "--set train.patience=3"), 78, "%s", job_run_log);
    cr_assert_not_null(strstr(job_run_log,
                              "train.patience = 3 waits for a better valid metric, and dataset 'sbm' has no "
                              "validation split"),
                       "%s", job_run_log);
    cr_assert_not(folder_has("o"));
}

Test(results, an_end_by_patience_says_what_got_no_better)
{
    static const char *const monitors[] = {"loss", "metric"}, *const what[] = {"valid loss", "valid macro_f1"};
    for (int i = 0; i < 2; i++) {
        char words[128];
        job_run("--set train.epochs=50 --set train.lr=0 --set train.metrics=macro_f1,accuracy --set train.patience=2 "
                "--set train.patience_monitor=%s",
                monitors[i]);
        json_t *result = results_of("o");
        snprintf(words, sizeof words, "no better %s in 2 evaluations, after 3 of 50 epochs", what[i]);
        cr_expect_str_eq(json_string_value(json_object_get(result, "reason")), words);
        snprintf(words, sizeof words, "stopped after 3 epochs: no better %s in 2 evaluations", what[i]);
        cr_expect_not_null(strstr(job_run_log, words), "%s", job_run_log);
        cr_expect_not_null(strstr(job_run_log, "test accuracy "), "%s", job_run_log);
        json_decref(result);
    }
}

Test(results, what_the_labels_or_splits_have_no_place_for_is_refused)
{
    cr_assert_eq(job_run_code("", NO_VALID "--set train.lr_schedule=reduce_on_plateau"), 78, "%s", job_run_log);
    cr_assert_not_null(
        strstr(job_run_log, "waits for a better valid loss, and dataset 'sbm' has no validation split"), "%s",
        job_run_log);
    cr_assert_eq(
        job_run_code("",
                     "--set dataset.generator=sbm --set dataset.labels_per_node=2 --set train.label_smoothing=0.1"),
        78);
    cr_assert_not_null(strstr(job_run_log, "train.label_smoothing = 0.1 is for one label per node"), "%s",
                       job_run_log);
}

static double number_at(const json_t *array, size_t i)
{
    return json_number_value(json_array_get(array, i));
}

Test(results, the_confusion_matrix_is_of_the_best_weights_test_nodes)
{
    job_run("--set dataset.generator=sbm --set dataset.nodes=400 --set dataset.noise=4 --set train.epochs=10");
    json_t *result = results_of("o");
    const json_t *all = json_object_get(result, "confusion"), *matrix = json_object_get(all, "matrix");
    double n_test = 0.0, n_right = 0.0;
    cr_assert_eq(json_array_size(matrix), 8, "classes");
    for (size_t k = 0; k < 8; k++) {
        double support = 0.0, predicted = 0.0, right = number_at(json_array_get(matrix, k), k);
        for (size_t other = 0; other < 8; other++) {
            support += number_at(json_array_get(matrix, k), other);
            predicted += number_at(json_array_get(matrix, other), k);
        }
        cr_expect_eq(number_at(json_object_get(all, "support"), k), support);
        cr_expect_eq(number_at(json_object_get(all, "predicted"), k), predicted);
        cr_expect_eq(number_at(json_object_get(all, "recall"), k), support > 0.0 ? right / support : 0.0);
        cr_expect_eq(number_at(json_object_get(all, "precision"), k), predicted > 0.0 ? right / predicted : 0.0);
        n_test += support;
        n_right += right;
    }
    cr_expect_eq(n_test, results_number(json_object_get(result, "dataset"), "test_nodes"));
    cr_expect_eq(n_right / n_test, results_number(json_object_get(result, "best"), "test_metric"));
    cr_expect_lt(n_right, n_test, "no mistake: the test shows nothing");
    json_decref(result);
}

/* --- of one run --- */

/* Bytes of a file that stays as it is; the caller frees them. */
struct kept_file {
    const char *path;
    char *bytes;
    size_t n;
};

static void expect_kept(struct kept_file *file)
{
    size_t n;
    char *now = results_bytes(folder_path(file->path), &n);
    cr_assert(n == file->n && memcmp(now, file->bytes, n) == 0, "%s has changed", file->path);
    free(now);
    free(file->bytes);
}

Test(results, a_job_that_fails_leaves_older_ones_as_they_are)
{
    job_run("--set train.checkpoint_every=4");
    struct kept_file files[] = {{.path = "o/result.json"},
                                {.path = "o/model.safetensors"},
                                {.path = "o/metrics.jsonl"},
                                {.path = "o/checkpoint/epoch-4.ckpt"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        files[i].bytes = results_bytes(folder_path(files[i].path), &files[i].n);
    }
    int code = job_run_code(
        "", "--set train.optimizer=sgd --set train.lr=1e6 --set train.eval_every=0 --set model.kind=sage "
            "--set model.layers=4 --set model.dropout=0 --set train.epochs=50");
    cr_assert_eq(code, 1, "exit %d: %s", code, job_run_log);
    cr_assert_str_neq(results_run(folder_path("o")), folder_path("o"), "nothing is left of the run that failed");
    json_t *metrics = results_metrics(results_run(folder_path("o")), true);
    cr_assert_gt(json_array_size(metrics), 0);
    json_decref(metrics);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        expect_kept(&files[i]);
    }
}

Test(results, files_of_an_older_run_are_not_mixed_with_new_ones)
{
    job_run("--set train.checkpoint_every=4 --set output.trace=true");
    cr_assert(folder_has("o/trace.json") && folder_has("o/checkpoint"));
    job_run(" ");
    cr_assert(folder_has("o/result.json") && !folder_has("o/trace.json") && !folder_has("o/checkpoint"));
    cr_assert_str_eq(results_run(folder_path("o")), folder_path("o"), "a run is left in it");
}
