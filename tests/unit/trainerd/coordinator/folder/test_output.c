#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/coordinator/folder/output.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(output, .init = folder_make, .fini = folder_remove);

static const char *text_of(const char *name)
{
    static char text[256];
    folder_read(name, text, sizeof text);
    return text;
}

/* Open the folder o. */
static enum status open_in(struct output *output)
{
    mkdir(folder_path("o"), 0777);
    return output_open(NULL, folder_path("o"), output);
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

Test(output, a_folder_serves_one_job_at_a_time)
{
    struct output first, second;
    cr_assert_eq(open_in(&first), STATUS_OK);
    cr_assert_eq(open_in(&second), STATUS_CREATE);
    cr_assert(strstr(status_reason(), folder_path("o")) && strstr(status_reason(), "another running job"), "%s",
              status_reason());
    cr_assert(folder_has("o"), "the folder of the running job stays");
    output_close(&first, true);
    cr_assert_eq(open_in(&second), STATUS_OK);
    output_close(&second, true);
}

Test(output, a_path_through_a_file_is_refused_before_anything_is_made)
{
    folder_write("file", "");
    expect_fails(output_check(folder_path("file")), STATUS_CREATE, "is not a folder");
    cr_assert_eq(output_check(folder_path("file/deep/er")), STATUS_CREATE);
    cr_assert_eq(output_check(folder_path("not/yet")), STATUS_OK);
    cr_assert_not(folder_has("not"));
}

Test(output, a_new_job_removes_old_results_and_sets_old_checkpoints_aside)
{
    struct output output;
    cr_assert_eq(open_in(&output), STATUS_OK);
    folder_write("o/result.json", "{}");
    folder_write("o/job.toml", "mine");
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(mkdir(folder_path("o/checkpoint"), 0777), 0);
        folder_write("o/checkpoint/epoch-1.ckpt", round == 0 ? "first" : "second");
        expect_done(output_clear(&output, false));
    }
    cr_assert_not(folder_has("o/result.json"));
    cr_assert_not(folder_has("o/checkpoint"));
    cr_assert_str_eq(text_of("o/checkpoint.old/epoch-1.ckpt"), "second");
    cr_assert_str_eq(text_of("o/job.toml"), "mine");
    output_close(&output, true);
}

Test(output, what_a_user_put_beside_old_checkpoints_is_not_removed)
{
    struct output output;
    cr_assert_eq(open_in(&output), STATUS_OK);
    cr_assert_eq(mkdir(folder_path("o/checkpoint"), 0777), 0);
    cr_assert_eq(mkdir(folder_path("o/checkpoint.old"), 0777), 0);
    folder_write("o/checkpoint/epoch-2.ckpt", "new");
    folder_write("o/checkpoint.old/epoch-1.ckpt", "old");
    folder_write("o/checkpoint.old/notes", "mine");
    expect_fails(output_clear(&output, false), STATUS_IO,
                 "o/checkpoint' of an earlier job to 'checkpoint.old': Directory not empty");
    cr_assert_str_eq(text_of("o/checkpoint.old/notes"), "mine");
    cr_assert_str_eq(text_of("o/checkpoint/epoch-2.ckpt"), "new");
    output_close(&output, true);
}

Test(output, a_first_checkpoint_that_was_never_finished_is_no_older_jobs)
{
    struct output output;
    cr_assert_eq(open_in(&output), STATUS_OK);
    cr_assert_eq(mkdir(folder_path("o/checkpoint"), 0777), 0);
    folder_write("o/checkpoint/epoch-4.ckpt.0123abcd.tmp", "half");
    expect_done(output_clear(&output, false));
    cr_assert(!folder_has("o/checkpoint") && !folder_has("o/checkpoint.old"));
    output_close(&output, true);
}

Test(output, a_resumed_job_keeps_all_but_the_old_end)
{
    struct output output;
    cr_assert_eq(open_in(&output), STATUS_OK);
    folder_write("o/result.json", "{}");
    folder_write("o/metrics.jsonl", "one\n");
    cr_assert_eq(mkdir(folder_path("o/checkpoint"), 0777), 0);
    expect_done(output_clear(&output, true));
    cr_assert_not(folder_has("o/result.json"));
    cr_assert(folder_has("o/metrics.jsonl") && folder_has("o/checkpoint"));
    output_close(&output, true);
}

Test(output, a_job_that_fails_before_its_first_epoch_leaves_no_empty_metrics)
{
    struct output output;
    cr_assert_eq(open_in(&output), STATUS_OK);
    cr_assert_eq(output_metrics_open(&output, 0), STATUS_OK);
    output_close(&output, false);
    cr_assert_not(folder_has("o/metrics.jsonl"));
}

Test(output, metrics_grow_by_lines_and_resume_cuts_them_back)
{
    struct output output;
    cr_assert_eq(open_in(&output), STATUS_OK);
    cr_assert_eq(output_metrics_open(&output, 0), STATUS_OK);
    cr_assert_eq(output_metrics_append(&output, "one\n", 4), STATUS_OK);
    cr_assert_eq(output_metrics_append(&output, "two\n", 4), STATUS_OK);
    cr_assert_eq(output.n_metrics_bytes, 8);
    output_close(&output, true);

    cr_assert_eq(open_in(&output), STATUS_OK);
    cr_assert_eq(output_metrics_open(&output, 4), STATUS_OK);
    cr_assert_eq(output_metrics_append(&output, "2\n", 2), STATUS_OK);
    output_close(&output, true);
    cr_assert_str_eq(text_of("o/metrics.jsonl"), "one\n2\n");

    cr_assert_eq(open_in(&output), STATUS_OK);
    expect_fails(output_metrics_open(&output, 7), STATUS_DATA, "metrics.jsonl' has 6 bytes: expected at least the 7");
    output_close(&output, true);
    cr_assert_str_eq(text_of("o/metrics.jsonl"), "one\n2\n");
}
