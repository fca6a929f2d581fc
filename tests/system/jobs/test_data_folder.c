/* Data folders as people bring them: what is not read is said. */
#include "tests/support/graphs/typed_folder.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void make_all(void)
{
    folder_make();
    folder_write("job.toml",
                 "[dataset]\npath = \"data\"\n[partition]\nparts = 2\ncache = \"off\"\n[model]\nkind = \"rgcn\"\n"
                 "[train]\nepochs = 1\n[workers]\nthreads = 1\n");
    typed_folder_write(folder_path("data"), &(struct typed_folder){.n_node = 60, .n_edge = 200});
}

TestSuite(data_folder, .init = make_all, .fini = folder_remove, .timeout = 900);

static void expect_said(const char *words)
{
    cr_expect_not_null(strstr(job_run_log, words), "no \"%s\" in: %s", words, job_run_log);
}

Test(data_folder, arrays_that_nobody_reads_draw_a_warning_each)
{
    folder_write("data/node_names.npy", "for those who look at predictions");
    job_run("--set output.dir=o --plan");
    cr_expect_null(strstr(job_run_log, "ignoring "), "%s", job_run_log);
    folder_write("data/train_mask.npy", "not looked into");
    folder_write("data/edge_features.npy", "");
    folder_write("data/adjacency.npy", "");
    folder_write("data/readme.txt", "");
    job_run("--set output.dir=o --plan");
    expect_said("ignoring data/train_mask.npy: train_idx.npy is read instead");
    expect_said("ignoring data/edge_features.npy: edge_attr.npy is read instead");
    expect_said("ignoring data/adjacency.npy: not a known file of a data folder");
    cr_expect_null(strstr(job_run_log, "readme"), "%s", job_run_log);
}

Test(data_folder, labels_and_splits_that_a_job_of_links_does_not_read_are_told_from_those_of_other_names)
{
    folder_write("data/y.npy", "");
    folder_write("data/val_mask.npy", "");
    folder_write("data/x.npy", "");
    job_run("--set output.dir=o --set task.kind=link --plan");
    expect_said("ignoring data/y.npy: a job of links reads neither labels nor splits of nodes");
    expect_said("ignoring data/val_mask.npy: a job of links reads neither");
    expect_said("ignoring data/x.npy: features.npy is read instead");
    job_run("--set output.dir=o --plan");
    expect_said("ignoring data/y.npy: labels.npy is read instead");
}

Test(data_folder, of_many_arrays_the_first_are_named)
{
    for (int i = 0; i < 11; i++) {
        char name[32];
        snprintf(name, sizeof name, "data/other%02d.npy", i);
        folder_write(name, "");
    }
    job_run("--set output.dir=o --plan");
    expect_said("ignoring data/other07.npy: not a known file of a data folder");
    cr_expect_null(strstr(job_run_log, "other08"), "%s", job_run_log);
    expect_said("ignoring 3 more arrays of data");
}
