#include "trainerd/output.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[64];

static void make_base(void)
{
    snprintf(base, sizeof base, "/tmp/trainerd-output-XXXXXX");
    cr_assert_not_null(mkdtemp(base));
}

static void remove_base(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    cr_assert_eq(system(command), 0);
}

TestSuite(output, .init = make_base, .fini = remove_base);

static const char *below(const char *name)
{
    static char path[2][256];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", base, name);
    return path[turn];
}

static bool is_there(const char *name)
{
    return access(below(name), F_OK) == 0;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(below(name), "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static const char *text_of(const char *name)
{
    static char text[256];
    memset(text, 0, sizeof text);
    FILE *file = fopen(below(name), "r");
    cr_assert_not_null(file, "%s", name);
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

Test(output, the_folder_is_the_jobs_or_runs_and_its_name)
{
    char dir[PATH_MAX];
    cr_assert_eq(output_dir("a/b//", "x", dir), STATUS_OK);
    cr_assert_str_eq(dir, "a/b");
    cr_assert_eq(output_dir("", "cora", dir), STATUS_OK);
    cr_assert_str_eq(dir, "runs/cora");
    cr_assert_eq(output_dir("/", "x", dir), STATUS_OK);
    cr_assert_str_eq(dir, "/");
}

Test(output, a_failed_job_leaves_no_folder_that_it_made_itself)
{
    struct output output;
    cr_assert_eq(output_open(below("a/b/c"), &output), STATUS_OK, "%s", status_reason());
    cr_assert(is_there("a/b/c"));
    output_close(&output, false);
    cr_assert_not(is_there("a"));
    cr_assert_eq(access(base, F_OK), 0);
}

Test(output, a_folder_that_was_there_or_holds_something_is_never_removed)
{
    cr_assert_eq(mkdir(below("there"), 0777), 0);
    struct output output;
    cr_assert_eq(output_open(below("there"), &output), STATUS_OK);
    output_close(&output, false);
    cr_assert(is_there("there"));

    cr_assert_eq(output_open(below("x/y"), &output), STATUS_OK);
    put("x/y/mine", "");
    output_close(&output, false);
    cr_assert(is_there("x/y/mine"));
}

Test(output, a_folder_serves_one_job_at_a_time)
{
    struct output first, second;
    cr_assert_eq(output_open(below("o"), &first), STATUS_OK);
    cr_assert_eq(output_open(below("o"), &second), STATUS_CREATE);
    cr_assert(strstr(status_reason(), below("o")) && strstr(status_reason(), "another running job"), "%s",
              status_reason());
    cr_assert(is_there("o"), "the folder of the running job stays");
    output_close(&first, true);
    cr_assert_eq(output_open(below("o"), &second), STATUS_OK);
    output_close(&second, true);
}

Test(output, a_path_through_a_file_is_refused_before_anything_is_made)
{
    put("file", "");
    cr_assert_eq(output_check(below("file")), STATUS_CREATE);
    cr_assert(strstr(status_reason(), "is not a folder"), "%s", status_reason());
    cr_assert_eq(output_check(below("file/deep/er")), STATUS_CREATE);
    cr_assert_eq(output_check(below("not/yet")), STATUS_OK);
    cr_assert_not(is_there("not"));
    struct output output;
    cr_assert_eq(output_open(below("file/deep"), &output), STATUS_CREATE);
    cr_assert(strstr(status_reason(), "file/deep"), "%s", status_reason());
}

Test(output, a_new_job_removes_old_results_and_sets_old_checkpoints_aside)
{
    struct output output;
    cr_assert_eq(output_open(below("o"), &output), STATUS_OK);
    put("o/result.json", "{}");
    put("o/job.toml", "mine");
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(mkdir(below("o/checkpoint"), 0777), 0);
        put("o/checkpoint/epoch", round == 0 ? "first" : "second");
        cr_assert_eq(output_clear(&output, false), STATUS_OK, "%s", status_reason());
    }
    cr_assert_not(is_there("o/result.json"));
    cr_assert_not(is_there("o/checkpoint"));
    cr_assert_str_eq(text_of("o/checkpoint.old/epoch"), "second");
    cr_assert_str_eq(text_of("o/job.toml"), "mine");
    output_close(&output, true);
}

Test(output, a_resumed_job_keeps_all_but_the_old_end)
{
    struct output output;
    cr_assert_eq(output_open(below("o"), &output), STATUS_OK);
    put("o/result.json", "{}");
    put("o/metrics.jsonl", "one\n");
    cr_assert_eq(mkdir(below("o/checkpoint"), 0777), 0);
    cr_assert_eq(output_clear(&output, true), STATUS_OK, "%s", status_reason());
    cr_assert_not(is_there("o/result.json"));
    cr_assert(is_there("o/metrics.jsonl") && is_there("o/checkpoint"));
    output_close(&output, true);
}

Test(output, a_job_that_fails_before_its_first_epoch_leaves_no_empty_metrics)
{
    struct output output;
    cr_assert_eq(output_open(below("o"), &output), STATUS_OK);
    cr_assert_eq(output_metrics_open(&output, 0), STATUS_OK);
    output_close(&output, false);
    cr_assert_not(is_there("o"));
}

Test(output, metrics_grow_by_lines_and_resume_cuts_them_back)
{
    struct output output;
    cr_assert_eq(output_open(below("o"), &output), STATUS_OK);
    cr_assert_eq(output_metrics_open(&output, 0), STATUS_OK);
    cr_assert_eq(output_metrics_append(&output, "one\n", 4), STATUS_OK);
    cr_assert_eq(output_metrics_append(&output, "two\n", 4), STATUS_OK);
    cr_assert_eq(output.n_metrics_bytes, 8);
    output_close(&output, true);

    cr_assert_eq(output_open(below("o"), &output), STATUS_OK);
    cr_assert_eq(output_metrics_open(&output, 4), STATUS_OK);
    cr_assert_eq(output_metrics_append(&output, "2\n", 2), STATUS_OK);
    output_close(&output, true);
    cr_assert_str_eq(text_of("o/metrics.jsonl"), "one\n2\n");

    cr_assert_eq(output_open(below("o"), &output), STATUS_OK);
    cr_assert_eq(output_metrics_open(&output, 7), STATUS_DATA);
    cr_assert(strstr(status_reason(), "metrics.jsonl' has 6 bytes: expected the 7"), "%s", status_reason());
    output_close(&output, true);
    cr_assert_str_eq(text_of("o/metrics.jsonl"), "one\n2\n");
}
