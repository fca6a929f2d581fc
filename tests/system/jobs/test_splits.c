/* Which split a job had: said on the console, in the plan and in result.json; drawn ones are kept beside the results. */
#include "partition/files/npy.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void make_all(void)
{
    folder_make();
    folder_write("job.toml",
                 "name = \"s\"\n[dataset]\ngenerator = \"sbm\"\nnodes = 200\ntrain_share = 0.3\nseed = 4\n[partition]\n"
                 "parts = 2\ncache = \"off\"\n[train]\nepochs = 1\n[workers]\nthreads = 1\n[output]\ndir = \"o\"\n");
}

TestSuite(splits, .init = make_all, .fini = folder_remove, .timeout = 900);

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
    json_t *result = results_json(folder_path("o/result.json")), *dataset = json_object_get(result, "dataset");
    json_t *split = json_object_get(dataset, "split");
    int64_t n[] = {nodes_of("o/drawn_train_idx.npy", seen), nodes_of("o/drawn_valid_idx.npy", seen),
                   nodes_of("o/drawn_test_idx.npy", seen)};
    cr_assert_eq(n[0] + n[1] + n[2], 200);
    cr_assert(results_number(dataset, "train_nodes") == (double)n[0] &&
              results_number(dataset, "valid_nodes") == (double)n[1] && results_number(dataset, "test_nodes") == (double)n[2] &&
              results_number(dataset, "other_nodes") == 0);
    cr_assert_str_eq(json_string_value(json_object_get(split, "origin")), "drawn");
    cr_assert_eq(results_number(split, "seed"), 4);
    cr_assert(json_is_null(json_object_get(split, "index")) && json_is_null(json_object_get(split, "of")));
    snprintf(line, sizeof line,
             "split drawn with dataset.seed = 4, a share of 0.3 for training, half of the rest for validation: %d train, %d "
             "valid, %d test, 0 in none",
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
    cr_assert_not_null(strstr(job_run_log, "split given with the data: 4 train, 13 valid, 17 test, 0 in none"), "%s",
                       job_run_log);
    cr_assert_not(folder_has("o/drawn_train_idx.npy"));
    json_t *result = results_json(folder_path("o/result.json"));
    json_t *split = json_object_get(json_object_get(result, "dataset"), "split");
    cr_assert_str_eq(json_string_value(json_object_get(split, "origin")), "given");
    cr_assert(results_number(split, "index") == 0 && results_number(split, "of") == 1);
    cr_assert(json_is_null(json_object_get(split, "seed")));
    json_decref(result);
}

Test(splits, results_of_a_given_split_do_not_have_the_files_of_a_drawn_one_before)
{
    job_run("--set dataset.seed=4");
    cr_assert(folder_has("o/drawn_train_idx.npy"));
    job_run("--set dataset.generator=karate");
    cr_assert_not(folder_has("o/drawn_train_idx.npy"));
}
