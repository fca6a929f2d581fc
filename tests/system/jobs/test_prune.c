/* Whole jobs that leave rows out of their epochs: what travels is counted by hand, what is planned is what is measured. */
#include "tests/support/graphs/array_save.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define N_NODE 12

/* A path 0 - 1 - … - 11 whose node 0 is trained on; even nodes are part 0, odd ones part 1: every edge crosses. */
static void chain_write(void)
{
    int64_t edges[2][N_NODE - 1], labels[N_NODE], train[1] = {0}, valid[1] = {5}, test[1] = {11};
    float features[N_NODE][3];
    char owners[2 * N_NODE + 1] = "";
    for (int i = 0; i < N_NODE; i++) {
        if (i + 1 < N_NODE) {
            edges[0][i] = i;
            edges[1][i] = i + 1;
        }
        labels[i] = i % 2;
        for (int c = 0; c < 3; c++) {
            features[i][c] = (float)((i * 7 + c * 5) % 4);
        }
        strcat(owners, i % 2 == 0 ? "0\n" : "1\n");
    }
    array_save("edges.npy", NPY_TYPE_I64, 2, (int64_t[]){2, N_NODE - 1}, edges);
    array_save("features.npy", NPY_TYPE_F32, 2, (int64_t[]){N_NODE, 3}, features);
    array_save("labels.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE}, labels);
    array_save("train_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){1}, train);
    array_save("valid_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){1}, valid);
    array_save("test_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){1}, test);
    folder_write("owners.txt", owners);
    folder_write("job.toml",
                 "[dataset]\npath = \".\"\nundirected = \"yes\"\n[partition]\nparts = 2\nmethod = \"file\"\n"
                 "file = \"owners.txt\"\ncache = \"off\"\n[model]\nkind = \"gcn\"\nlayers = 3\nhidden = 4\n[train]\n"
                 "epochs = 2\neval_every = 0\n[workers]\ncount = 2\nthreads = 1\n");
}

static void communities_write(void)
{
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"sbm\"\nnodes = 6000\ndegree = 6\ntrain_share = 0.01\n[partition]\nparts = 4\n"
        "cache = \"off\"\n[model]\nlayers = 3\nhidden = 16\n[train]\nepochs = 6\neval_every = 3\n[workers]\n"
        "count = 2\nthreads = 1\n");
}

TestSuite(prune, .init = folder_make, .fini = folder_remove, .timeout = 900);

/* Bytes per epoch by plan, which are those measured; rows travel as they are, without covers. */
static double epoch_bytes(const char *prune)
{
    json_t *plan = job_run_plan("--set train.prune=%s --set exchange.cover=false --set output.dir=o", prune);
    double planned = results_number(plan, "bytes_per_epoch");
    json_decref(plan);
    job_run("--set train.prune=%s --set exchange.cover=false --set output.dir=o", prune);
    json_t *metrics = results_metrics(folder_path("o"), true);
    cr_assert_eq(results_number(json_array_get(metrics, 0), "bytes_received"), planned);
    json_decref(metrics);
    return planned;
}

/* Layer 1 sums the features once. Layer 2 sends 4 floats a row: of its sources nodes 0, 1, 2 forth, of its destinations 0, 1 back;
 * layer 3 sends 2: nodes 0, 1 forth, node 0 back. Without pruning all 12 go both ways. */
Test(prune, what_travels_on_a_chain_is_what_can_be_counted_by_hand)
{
    chain_write();
    double all = 4 * (4 * 24 + 2 * 24), needed = 4 * (4 * (3 + 2) + 2 * (2 + 1));
    cr_expect_eq(epoch_bytes("never") - epoch_bytes("always"), all - needed);
}

Test(prune, the_share_left_out_is_in_the_plan_in_the_result_and_in_what_is_said)
{
    char share[64];
    communities_write();
    json_t *plan = job_run_plan("--set output.dir=o");
    double planned = results_number(plan, "left_out"), wire = results_number(plan, "bytes_per_epoch");
    json_decref(plan);
    cr_assert(planned > 0.1 && planned < 1.0, "%.3f left out", planned);
    job_run("--set output.dir=o");
    json_t *result = results_of("o");
    cr_expect_float_eq(results_number(result, "left_out"), planned, 1e-12);
    snprintf(share, sizeof share, "%.0f %% of an epoch's work left out", 100.0 * planned);
    cr_expect_not_null(strstr(job_run_log, share), "%s", job_run_log);
    json_t *metrics = results_metrics(folder_path("o"), true);
    cr_expect_eq(results_number(json_array_get(metrics, 0), "bytes_received"), wire);
    json_decref(metrics);
    json_decref(result);
    plan = job_run_plan("--set output.dir=o --set train.prune=never");
    cr_expect_eq(results_number(plan, "left_out"), 0.0);
    cr_expect_gt(results_number(plan, "bytes_per_epoch"), wire);
    json_decref(plan);
}
