/* trainer-partition as its users meet it: what it prints where, what it leaves, and that its files can be used. */
#include "partition/files/npy.h"
#include "partition/part/part.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char program[PATH_MAX];
static char printed[8192], said[8192]; /* the last run's stdout and stderr */

static void make_all(void)
{
    folder_make();
    program_find("trainer-partition", program, sizeof program);
    folder_write("job.toml", "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 3\n");
}

TestSuite(partition_cli, .init = make_all, .fini = folder_remove, .timeout = 900);

static int run(const char *arguments)
{
    char command[PATH_MAX + 512];
    snprintf(command, sizeof command, "cd '%s' && '%s' %s >out 2>err", folder, program, arguments);
    int status = system(command);
    folder_read("out", printed, sizeof printed);
    folder_read("err", said, sizeof said);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

Test(partition_cli, figures_for_people_go_to_stderr_and_json_to_stdout)
{
    cr_assert_eq(run("--config job.toml"), 0, "%s", said);
    cr_assert_str_eq(printed, "");
    expect_words(said, "34 nodes, 156 edges, 3 parts by metis");
    cr_assert_eq(run("--config job.toml --json --set partition.objective=cut"), 0, "%s", said);
    cr_assert_str_eq(said, "");
    json_t *all = json_loads(printed, 0, NULL);
    cr_assert_not_null(all, "%s", printed);
    cr_assert_eq(json_integer_value(json_object_get(all, "nodes")), 34);
    cr_assert_eq(json_array_size(json_object_get(all, "parts")), 3);
    json_decref(all);
}

Test(partition_cli, what_it_leaves_is_the_partition_and_parts_that_open)
{
    cr_assert_eq(run("--config job.toml --out a/b --json"), 0, "%s", said);
    char first[8192];
    strcpy(first, printed);
    for (int p = 0; p < 3; p++) {
        char name[32];
        struct stat found;
        struct part part;
        snprintf(name, sizeof name, "a/b/part.%d", p);
        cr_assert_eq(stat(folder_path(name), &found), 0);
        void *bytes = aligned_alloc(64, ((size_t)found.st_size + 63) / 64 * 64);
        FILE *file = fopen(folder_path(name), "r");
        cr_assert_eq(fread(bytes, 1, (size_t)found.st_size, file), (size_t)found.st_size);
        fclose(file);
        expect_done(part_open(bytes, (size_t)found.st_size, &part));
        cr_assert_eq(part.part, p);
        part_release(&part);
        free(bytes);
    }
    cr_assert_eq(run("--config job.toml --set partition.method=file --set partition.file=a/b/partition.txt --json"),
                 0);
    /* All but the method's name is the same. */
    cr_assert_str_eq(strstr(printed, "\"cut_edges\""), strstr(first, "\"cut_edges\""));
}

Test(partition_cli, splits_are_counted_without_a_graph_that_is_whole)
{
    cr_assert_eq(mkdir(folder_path("data"), 0755), 0);
    folder_write("data/edges.npy", "not looked into");
    cr_assert_eq(run("--count-splits data"), 0, "%s", said);
    cr_assert_str_eq(printed, "1\n", "no file of splits");
    int64_t values[12] = {0};
    const int64_t rows[] = {3, 4}, masks[] = {6, 2}, one[] = {5}, column[] = {5, 1};
    cr_assert_eq(npy_save(folder_path("data/valid_idx.npy"), NPY_TYPE_I64, 1, one, values), STATUS_OK);
    cr_assert_eq(run("--count-splits data"), 0, "%s", said);
    cr_assert_str_eq(printed, "1\n");
    cr_assert_eq(npy_save(folder_path("data/train_idx.npy"), NPY_TYPE_I64, 2, column, values), STATUS_OK);
    cr_assert_eq(run("--count-splits data"), 0, "%s", said);
    cr_assert_str_eq(printed, "1\n", "a column is one split");
    cr_assert_eq(npy_save(folder_path("data/train_idx.npy"), NPY_TYPE_I64, 2, rows, values), STATUS_OK);
    cr_assert_eq(run("--count-splits data"), 0, "%s", said);
    cr_assert_str_eq(printed, "3\n", "a row for each");
    cr_assert_eq(npy_save(folder_path("data/test_mask.npy"), NPY_TYPE_I64, 2, masks, values), STATUS_OK);
    cr_assert_eq(run("--count-splits data"), 65);
    expect_words(said, "test_mask.npy: has 2 splits, expected 3, as many as the file before it");
    cr_assert_eq(unlink(folder_path("data/train_idx.npy")), 0);
    cr_assert_eq(run("--count-splits data"), 0, "%s", said);
    cr_assert_str_eq(printed, "2\n", "a column for each");
    cr_assert_eq(run("--count-splits nowhere"), 66);
    cr_assert_eq(run("--count-splits ."), 65);
    expect_words(said, "no known format, expected a folder with edges.npy");
    cr_assert_eq(rename(folder_path("data/edges.npy"), folder_path("data/edge_index.npy")), 0);
    folder_write("data/graph.pt", "");
    folder_write("data/notes.txt", "");
    cr_assert_eq(run("--count-splits data"), 65);
    expect_words(said, "; found edge_index.npy (here it is edges.npy), graph.pt, ");
    cr_assert_null(strstr(said, "notes"), "%s", said);
    cr_assert_eq(rename(folder_path("data/edge_index.npy"), folder_path("data/edges.npy")), 0);
    cr_assert_eq(run("--count-splits data --config job.toml"), 2);
}

Test(partition_cli, wrong_usage_and_failures_have_their_exit_codes)
{
    cr_assert_eq(run(""), 2);
    cr_assert_not_null(strstr(said, "expected --config FILE"));
    cr_assert_eq(run("--bogus"), 2);
    cr_assert_not_null(strstr(said, "unknown option '--bogus'"));
    cr_assert_eq(run("--config"), 2);
    cr_assert_eq(run("--config job.toml more"), 2);
    cr_assert_eq(run("--config none.toml"), 66);
    cr_assert_eq(run("--config job.toml --set partition.parts=35"), 78);
    expect_words(said, "partition.parts = 35, expected at most the graph's 34 nodes");
    cr_assert_eq(run("--config job.toml --out job.toml"), 73);
    cr_assert_eq(run("--config job.toml --json >/dev/full 2>/dev/null; exit $?"), 74);
    cr_assert_eq(run("--help"), 0);
    cr_assert_not_null(strstr(printed, "--out DIR"));
}

Test(partition_cli, a_job_that_leaves_its_workers_to_the_launcher_has_to_say_how_many_parts)
{
    folder_write("slurm.toml", "[dataset]\ngenerator = \"karate\"\n[workers]\nlauncher = \"slurm\"\n");
    cr_assert_eq(run("--config slurm.toml"), 78, "%s", said);
    expect_words(said, "expected partition.parts or workers.count");
    cr_assert_eq(run("--config slurm.toml --set partition.parts=3"), 0, "%s", said);
    expect_words(said, "3 parts");
}
