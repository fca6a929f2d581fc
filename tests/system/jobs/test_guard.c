/* A whole job with an accuracy guard that backs off: what log, metrics, events and result say of it. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

JOB_SUITE(guarded, 900,
          "[dataset]\ngenerator = \"sbm\"\nnodes = 1000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 4\n"
          "method = \"random\"\ncache = \"off\"\n[model]\nkind = \"gcn\"\nlayers = 3\nhidden = 32\ndropout = 0.5\n"
          "norm = \"batch\"\n[train]\nepochs = 12\neval_every = 0\nprune = \"never\"\n[exchange]\nsampling = 0.2\n"
          "codec = \"int4\"\nguard_every = 3\nguard_limit = 0.001\n[workers]\ncount = 4\nthreads = 1\n");

/* Lines of events.jsonl with this event. */
static json_t *events_of(const char *path, const char *event)
{
    char line[4096];
    json_t *all = json_array();
    FILE *file = fopen(folder_path(path), "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *one = json_loads(line, 0, NULL);
        cr_assert_not_null(one, "%s", line);
        if (strcmp(json_string_value(json_object_get(one, "event")), event) == 0) {
            json_array_append(all, one);
        }
        json_decref(one);
    }
    fclose(file);
    return all;
}

/* 0.2, 0.4, 0.8, 1 and int4, int8, bf16, fp32: after three back-offs nothing is lost, and nothing compared. */
Test(guarded, a_limit_that_no_sample_keeps_backs_off_and_says_so_everywhere)
{
    cr_assert_eq(mkdir(folder_path("events"), 0700), 0);
    job_run("--set output.dir=o --job-folder events --attempt 1");
    cr_expect_not_null(strstr(job_run_log, "epoch 2: the gradient's relative error is "), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "backed off to 0.4 of the boundary rows, int8"), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "backed off to exact epochs"), "%s", job_run_log);
    json_t *metrics = results_metrics(folder_path("o"), true), *result = results_of("o");
    for (size_t e = 0; e < 12; e++) {
        cr_expect_eq(results_number(json_array_get(metrics, e), "back_offs"),
                     e < 2   ? 0
                     : e < 5 ? 1
                     : e < 8 ? 2
                             : 3,
                     "epoch %zu", e);
    }
    const json_t *fifth = json_array_get(metrics, 5), *guard = json_object_get(result, "guard");
    cr_expect_eq(results_number(fifth, "guard_epoch"), 5);
    cr_expect(results_number(fifth, "guard_error") > 0.001 && results_number(fifth, "guard_cosine") < 1.0);
    cr_expect_neq(results_number(fifth, "guard_loss"), results_number(fifth, "loss"));
    cr_expect_eq(results_number(guard, "comparisons"), 3);
    cr_expect_eq(results_number(guard, "back_offs"), 3);
    cr_expect_eq(results_number(json_object_get(guard, "last"), "epoch"), 8);
    cr_expect_eq(results_number(guard, "sampling"), 1.0);
    cr_expect_str_eq(json_string_value(json_object_get(guard, "codec")), "fp32");
    json_t *events = events_of("events/events.jsonl", "back_off");
    cr_assert_eq(json_array_size(events), 3);
    const json_t *first = json_array_get(events, 0);
    cr_expect(results_number(first, "epoch") == 2 && results_number(first, "back_offs") == 1 &&
              results_number(first, "limit") == 0.001);
    cr_expect(results_number(first, "error") == results_number(json_array_get(metrics, 2), "guard_error") &&
              results_number(first, "sampling") == 0.4);
    cr_expect_str_eq(json_string_value(json_object_get(first, "codec_backward")), "int8");
    cr_expect_eq(results_number(result, "allocations_in_epochs"), 0);
    results_expect_memory(result, "all", "guarded");
    json_decref(events);
    json_decref(result);
    json_decref(metrics);
}
