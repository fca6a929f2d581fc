#include "tests/support/process/results.h"

#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)1 << 20)

char *results_bytes(const char *path, size_t *n_out)
{
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    char *bytes = malloc(MOST_BYTES);
    *n_out = fread(bytes, 1, MOST_BYTES, file);
    fclose(file);
    return bytes;
}

json_t *results_epochs(const char *dir)
{
    char path[512], line[4096];
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    json_t *all = json_array();
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *one = json_loads(line, 0, NULL);
        cr_assert_not_null(one, "%s", line);
        json_array_append_new(all, one);
    }
    fclose(file);
    return all;
}

json_t *results_metrics(const char *dir, bool with_traffic)
{
    static const char *const left_out[] = {"time",           "epoch_s",       "compute_s",       "pack_s",
                                           "wait_s",         "evaluate_s",    "seconds_workers", "bytes_sent",
                                           "bytes_received", "bytes_forward", "bytes_backward",  "bytes_evaluate",
                                           "bytes_reduce",   "bytes_layers"};
    json_t *all = results_epochs(dir), *one;
    size_t e;
    json_array_foreach(all, e, one)
    {
        for (size_t i = 0; i < (with_traffic ? 7u : sizeof left_out / sizeof *left_out); i++) {
            cr_assert_eq(json_object_del(one, left_out[i]), 0, "%s", left_out[i]);
        }
    }
    return all;
}

json_t *results_json(const char *path)
{
    json_error_t error;
    json_t *all = json_load_file(path, 0, &error);
    cr_assert_not_null(all, "%s: %s", path, error.text);
    return all;
}

json_t *results_of(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/result.json", name);
    return results_json(folder_path(path));
}

double results_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    cr_assert(json_is_number(value), "no number '%s'", name);
    return json_number_value(value);
}

void results_expect_memory(const json_t *result, const char *category, const char *what)
{
    const json_t *workers = json_object_get(result, "memory");
    cr_assert_gt(json_array_size(workers), 0, "%s: no worker", what);
    for (size_t rank = 0; rank < json_array_size(workers); rank++) {
        const json_t *one = json_array_get(workers, rank);
        double planned = results_number(json_object_get(one, "planned"), category);
        double measured = results_number(json_object_get(one, "measured"), category);
        cr_expect_gt(planned, 0.0, "%s: worker %zu, %s: nothing planned", what, rank, category);
        cr_expect_leq(fabs(measured - planned), 0.1 * fmin(planned, measured),
                      "%s: worker %zu, %s: %.0f bytes planned, %.0f measured", what, rank, category, planned,
                      measured);
    }
}

bool results_have_same_file(const char *a, const char *b, const char *name)
{
    char path[2][512];
    size_t n, m;
    snprintf(path[0], sizeof path[0], "%s/%s", a, name);
    snprintf(path[1], sizeof path[1], "%s/%s", b, name);
    char *x = results_bytes(path[0], &n), *y = results_bytes(path[1], &m);
    bool same = n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

void results_expect_same_file(const char *a, const char *b, const char *name)
{
    cr_assert(results_have_same_file(a, b, name), "%s of %s and %s differ", name, a, b);
}

void results_expect_same_model(const char *a, const char *b)
{
    results_expect_same_file(a, b, "model.safetensors");
    if (results_have_same_file(a, b, "best.safetensors")) {
        results_expect_same_file(a, b, "logits.npy");
    }
}

void results_expect_same(const char *a, const char *b, bool with_traffic)
{
    results_expect_same_model(a, b);
    results_expect_same_file(a, b, "best.safetensors");
    json_t *x = results_metrics(a, with_traffic), *y = results_metrics(b, with_traffic);
    cr_assert(json_equal(x, y), "metrics.jsonl of %s and %s differ", a, b);
    json_decref(x);
    json_decref(y);
}

const char *results_run(const char *dir)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", dir);
    DIR *all = opendir(dir);
    for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        if (strncmp(entry->d_name, ".run-", 5) == 0) {
            cr_assert_lt(snprintf(path, sizeof path, "%s/%s", dir, entry->d_name), (int)sizeof path);
        }
    }
    if (all != NULL) {
        closedir(all);
    }
    return path;
}

long long results_checkpoint(const char *dir)
{
    char path[PATH_MAX];
    long long newest = 0;
    cr_assert_lt(snprintf(path, sizeof path, "%s/checkpoint", results_run(dir)), (int)sizeof path);
    DIR *all = opendir(path);
    if (all == NULL) {
        return 0;
    }
    for (struct dirent *entry = readdir(all); entry != NULL; entry = readdir(all)) {
        long long n;
        int end = 0;
        bool is_one = sscanf(entry->d_name, "epoch-%lld.ckpt%n", &n, &end) == 1 && end > 0 &&
                      entry->d_name[end] == '\0';
        newest = is_one && n > newest ? n : newest;
    }
    closedir(all);
    return newest;
}
