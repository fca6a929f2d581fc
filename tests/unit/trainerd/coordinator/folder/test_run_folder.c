#include "tests/support/process/folder.h"
#include "trainerd/coordinator/folder/run_folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Paths are relative to the test's folder. */
static void begin(void)
{
    folder_make();
    cr_assert_eq(chdir(folder), 0);
}

TestSuite(run_folder, .init = begin, .fini = folder_remove);

static struct run_folder run;
static struct output output;
static struct job_files files; /* of its job, opened anew by each attempt */
static int64_t most_bytes = 1 << 20;

static void init(const char *dir, const char *job_folder)
{
    struct job job;
    job_files_close(&files);
    files.most_bytes = most_bytes;
    if (job_folder != NULL) {
        cr_assert_eq(job_files_open(job_folder, 0, &files), STATUS_OK, "%s", status_reason());
    }
    output = (struct output){.dir.file = -1, .metrics = -1};
    job_defaults(&job);
    snprintf(job.job.name, sizeof job.job.name, "k");
    snprintf(job.output.dir, sizeof job.output.dir, "%s", dir);
    cr_assert_eq(run_folder_init(&run, &job, job_folder, job_folder != NULL ? &files : NULL), STATUS_OK);
}

static void find(uint32_t attempt, bool resume)
{
    cr_assert_eq(run_folder_find(&run, attempt, resume), STATUS_OK, "%s", status_reason());
}

static void open_run(void)
{
    cr_assert_eq(run_folder_open(&run, &output), STATUS_OK, "%s", status_reason());
}

/* The same without an earlier run. */
static void open_new(void)
{
    find(0, false);
    open_run();
}

static const char *lead(void)
{
    static char remark[3 * PATH_MAX];
    run_folder_lead(&run, remark, sizeof remark);
    return remark;
}

static void close_run(bool keep)
{
    output_close(&output, keep);
    run_folder_close(&run, keep);
}

/* A run of that id from its beginning to its end, with a checkpoint and results or not. */
static void leave_run(const char *id, bool is_whole)
{
    char path[PATH_MAX + 32];
    init("", id);
    find(1, false);
    open_run();
    cr_assert_str_eq(lead(), "");
    cr_assert_eq(output_metrics_open(&output, 0), STATUS_OK);
    cr_assert_eq(output_metrics_append(&output, "{}\n", 3), STATUS_OK);
    snprintf(path, sizeof path, "%s/checkpoint", run.dir);
    cr_assert_eq(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/checkpoint/epoch-1.ckpt", run.dir);
    folder_write(path, id);
    snprintf(path, sizeof path, "%s/result.json", run.dir);
    if (is_whole) {
        folder_write(path, "{}");
    }
    close_run(is_whole);
}

static const char *link_of(const char *path)
{
    static char target[256];
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    return target;
}

/* The way to its last run that the job of that folder has. */
static const char *last_of(const char *job_folder)
{
    static char last[PATH_MAX];
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/runs", job_folder);
    int file = open(path, O_RDONLY);
    cr_assert(file >= 0 && job_files_last_run(file, last));
    close(file);
    return last;
}

static ino_t inode_of(const char *path)
{
    struct stat about;
    cr_assert_eq(stat(path, &about), 0, "%s", path);
    return about.st_ino;
}

Test(run_folder, every_run_has_a_folder_of_its_own_and_the_link_leads_to_the_newest)
{
    init("", NULL);
    find(0, false);
    open_run();
    cr_assert_eq(strncmp(run.dir, "runs/k-20", 9), 0, "%s", run.dir);
    cr_assert_eq(strspn(run.dir + 7, "0123456789-"), 15, "a time: %s", run.dir);
    cr_assert_str_eq(lead(), "");
    cr_assert_str_eq(link_of("runs/k"), strchr(run.dir, '/') + 1);
    close_run(true);
    cr_assert_eq(mkdir("7", 0700), 0);
    leave_run("7", true);
    cr_assert_str_eq(run.dir, "runs/k-7");
    cr_assert_str_eq(link_of("runs/k"), "k-7");
    leave_run("7", true); /* of another daemon */
    leave_run("7", true);
    cr_assert_str_eq(run.dir, "runs/k-7-3");
    cr_assert_str_eq(link_of("runs/k"), "k-7-3");
    cr_assert_eq(inode_of(last_of("7")), inode_of("runs/k-7-3"));
}

Test(run_folder, what_has_the_links_name_stays_as_it_is_with_a_remark)
{
    cr_assert_eq(mkdir("runs", 0777), 0);
    cr_assert_eq(mkdir("runs/k", 0777), 0);
    init("", NULL);
    find(0, false);
    open_run();
    const char *remark = lead();
    cr_assert(strstr(remark, "'runs/k' is a folder, no link, and stays as it is: this run is in 'runs/k-20"), "%s",
              remark);
    cr_assert_str_eq(link_of("runs/k"), "");
    cr_assert_eq(rmdir("runs/k"), 0);
    folder_write("runs/k", "mine");
    cr_assert(strstr(lead(), "is a file, no link"));
    cr_assert_eq(unlink("runs/k"), 0);
    cr_assert_eq(symlink("/tmp", "runs/k"), 0);
    cr_assert(strstr(lead(), "is a link to elsewhere"));
    cr_assert_str_eq(link_of("runs/k"), "/tmp");
    close_run(true);
}

Test(run_folder, a_run_that_leaves_nothing_gives_the_link_back)
{
    cr_assert_eq(mkdir("8", 0700), 0);
    init("", "8");
    find(1, false);
    open_run();
    cr_assert_str_eq(lead(), "");
    cr_assert_str_eq(link_of("runs/k"), "k-8");
    close_run(false);
    cr_assert_not(folder_has("runs"));

    cr_assert_eq(mkdir("7", 0700), 0);
    leave_run("7", true);
    init("", "8");
    find(1, false);
    open_run();
    cr_assert_str_eq(lead(), "");
    close_run(false);
    cr_assert_not(folder_has("runs/k-8"));
    cr_assert_str_eq(link_of("runs/k"), "k-7");
}

Test(run_folder, a_failed_run_leaves_no_folder_that_it_made_itself)
{
    init("a/b/c", NULL);
    open_new();
    cr_assert(folder_has("a/b/c"));
    close_run(false);
    cr_assert_not(folder_has("a"));
}

Test(run_folder, a_folder_that_was_there_or_holds_something_is_never_removed)
{
    char path[PATH_MAX + 8];
    cr_assert_eq(mkdir("there", 0777), 0);
    init("there", NULL);
    open_new();
    close_run(false);
    cr_assert(folder_has("there") && !folder_has(run.dir));
    init("x/y", NULL);
    open_new();
    snprintf(path, sizeof path, "%s/mine", run.dir);
    folder_write(path, "");
    close_run(false);
    cr_assert(folder_has(path));
    init("x/y/file", NULL);
    folder_write("x/y/file", "");
    cr_assert_eq(run_folder_open(&run, &output), STATUS_CREATE);
    cr_assert(strstr(status_reason(), "'x/y/file'"), "%s", status_reason());
}

Test(run_folder, a_later_attempt_finds_the_folder_and_the_first_one_knows_of_none)
{
    cr_assert_eq(mkdir("7", 0700), 0);
    cr_assert_eq(mkdir("8", 0700), 0);
    leave_run("7", false);
    leave_run("8", false);
    init("", "7");
    find(2, true);
    cr_assert(run.is_found && !run.is_done);
    cr_assert_eq(inode_of(run.dir), inode_of("runs/k-7"), "not the newest one: %s", run.dir);
    folder_write("runs/k-7/result.json", "{}");
    init("", "7");
    find(3, true);
    cr_assert(run.is_done, "nothing is left to do");
    init("", "7");
    find(1, false);
    cr_assert(!run.is_found && !run.is_done);
    open_run();
    cr_assert_str_eq(run.dir, "runs/k-7-2");
    close_run(true);
}

Test(run_folder, a_resume_goes_on_in_the_newest_run_if_that_is_not_finished)
{
    char path[PATH_MAX];
    cr_assert_eq(mkdir("7", 0700), 0);
    init("", NULL);
    find(0, true);
    cr_assert_eq(run_folder_checkpoint(&run, path), STATUS_OK);
    cr_assert_str_eq(path, "runs/k/checkpoint", "there is none");
    leave_run("7", false);
    init("", NULL);
    find(0, true);
    cr_assert(run.is_found);
    cr_assert_str_eq(run.dir, "runs/k-7");
    cr_assert_eq(run_folder_checkpoint(&run, path), STATUS_OK);
    cr_assert_str_eq(path, "runs/k-7/checkpoint");
}

Test(run_folder, a_resume_passes_over_a_newest_run_without_a_checkpoint)
{
    cr_assert_eq(mkdir("7", 0700), 0);
    cr_assert_eq(mkdir("8", 0700), 0);
    leave_run("7", false);
    leave_run("8", false);
    cr_assert_eq(unlink("runs/k-8/checkpoint/epoch-1.ckpt"), 0);
    cr_assert_eq(mkdir("runs/k-other", 0777), 0); /* another job's */
    init("", NULL);
    find(0, true);
    cr_assert_str_eq(run.dir, "runs/k-7");
}

Test(run_folder, a_finished_run_goes_on_in_a_folder_of_its_own)
{
    char path[PATH_MAX], text[64];
    cr_assert_eq(mkdir("7", 0700), 0);
    leave_run("7", true);
    cr_assert_eq(mkdir("runs/k-7/tb", 0777), 0);
    folder_write("runs/k-7/tb/events.out.tfevents.1", "x");
    folder_write("runs/k-7/model.safetensors", "x");
    init("", NULL);
    find(0, true);
    cr_assert_not(run.is_found);
    cr_assert_eq(run_folder_checkpoint(&run, path), STATUS_OK);
    cr_assert_str_eq(path, "runs/k-7/checkpoint");
    open_run();
    cr_assert_eq(run_folder_continue(&run), STATUS_OK, "%s", status_reason());
    cr_assert_eq(output_metrics_open(&output, 3), STATUS_OK, "%s", status_reason());
    cr_assert_eq(output_metrics_append(&output, "{}\n", 3), STATUS_OK);
    cr_assert_str_eq(lead(), "");
    folder_read("runs/k/metrics.jsonl", text, sizeof text);
    cr_assert_str_eq(text, "{}\n{}\n");
    folder_read("runs/k-7/metrics.jsonl", text, sizeof text);
    cr_assert_str_eq(text, "{}\n", "the finished run stays as it is");
    cr_assert_eq(inode_of("runs/k/checkpoint/epoch-1.ckpt"), inode_of("runs/k-7/checkpoint/epoch-1.ckpt"));
    cr_assert_eq(inode_of("runs/k/tb/events.out.tfevents.1"), inode_of("runs/k-7/tb/events.out.tfevents.1"));
    cr_assert_not(folder_has("runs/k/model.safetensors"));
    close_run(true);
}

/* --- with output.dir --- */

static void begin_in(const char *job_folder, uint32_t attempt, bool resume)
{
    init("o", job_folder);
    cr_assert_eq(run_folder_lock(&run), STATUS_OK, "%s", status_reason());
    find(attempt, resume);
}

/* Write what stands for all, which says `text`. */
static void write_results(const char *text)
{
    char path[PATH_MAX + 32];
    cr_assert_eq(output_metrics_open(&output, 0), STATUS_OK);
    cr_assert_eq(output_metrics_append(&output, text, strlen(text)), STATUS_OK);
    snprintf(path, sizeof path, "%s/result.json", run.dir);
    folder_write(path, text);
}

static const char *text_of(const char *path)
{
    static char text[64];
    folder_read(path, text, sizeof text);
    return text;
}

Test(run_folder, a_run_works_in_a_folder_of_its_own_until_it_succeeds)
{
    cr_assert_eq(mkdir("7", 0700), 0);
    cr_assert_eq(mkdir("8", 0700), 0);
    begin_in("7", 1, false);
    open_run();
    cr_assert_str_eq(run.dir, "o/.run-7");
    write_results("seven");
    cr_assert_eq(run_folder_publish(&run), STATUS_OK, "%s", status_reason());
    close_run(true);
    cr_assert(!folder_has("o/.run-7") && !folder_has("o/.publish"));
    begin_in("8", 1, false);
    open_run();
    write_results("eight");
    close_run(false);
    cr_assert_str_eq(text_of("o/result.json"), "seven", "a run that failed has replaced it");
    cr_assert(strstr(last_of("8"), "/o/.run-8"));
    begin_in("8", 2, false);
    cr_assert_str_eq(strrchr(run.dir, '/'), "/.run-8");
    cr_assert(run.is_done, "it is whole");
    cr_assert_eq(run_folder_publish(&run), STATUS_OK, "%s", status_reason());
    close_run(true);
    cr_assert_str_eq(text_of("o/result.json"), "eight");
    cr_assert_str_eq(text_of("8/result.json"), "eight");
    cr_assert_str_eq(text_of("7/result.json"), "seven", "another job's result is shown");
    cr_assert_str_eq(text_of("7/metrics.jsonl"), "seven");
    begin_in("7", 2, false);
    cr_assert(run.is_done && !run.is_found);
    cr_assert_eq(run_folder_publish(&run), STATUS_OK, "nothing is left to do");
    close_run(true);
    cr_assert_str_eq(text_of("o/result.json"), "eight");
}

Test(run_folder, a_resume_finds_the_newest_checkpoint_below_output_dir)
{
    char path[PATH_MAX];
    static const char *const dirs[] = {"o",        "o/checkpoint",       "o/.run-1", "o/.run-1/checkpoint",
                                       "o/.run-2", "o/.run-2/checkpoint"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        cr_assert_eq(mkdir(dirs[i], 0777), 0);
    }
    folder_write("o/.run-1/checkpoint/epoch-3.ckpt", "");
    folder_write("o/.run-1/result.json", ""); /* whole, not published */
    begin_in(NULL, 0, true);
    cr_assert_str_eq(run.dir, "o/.run-1");
    close_run(true);
    const struct timespec later[] = {{.tv_sec = 4000000000}, {.tv_sec = 4000000000}};
    folder_write("o/checkpoint/epoch-5.ckpt", "");
    cr_assert_eq(utimensat(AT_FDCWD, "o/checkpoint", later, 0), 0);
    begin_in(NULL, 0, true);
    cr_assert_str_eq(run.base, "o", "the finished run is newer");
    cr_assert_eq(run_folder_checkpoint(&run, path), STATUS_OK);
    cr_assert_str_eq(path, "o/checkpoint");
    close_run(true);
}

Test(run_folder, a_job_whose_folder_is_gone_resumes_no_other_jobs_run)
{
    char path[PATH_MAX];
    cr_assert_eq(mkdir("7", 0700), 0);
    cr_assert_eq(mkdir("8", 0700), 0);
    leave_run("7", false);
    leave_run("8", false);
    cr_assert_eq(rename("runs/k-7", "elsewhere"), 0);
    init("", "7");
    find(2, true);
    cr_assert_not(run.is_found);
    cr_assert_eq(run_folder_checkpoint(&run, path), STATUS_OK);
    cr_assert(strstr(path, "/runs/k-7/checkpoint"), "%s", path);
    folder_write("7/runs", "");
    init("", "7");
    cr_assert_eq(run_folder_find(&run, 2, true), STATUS_NO_INPUT);
    cr_assert(strstr(status_reason(), "'runs/k' leads to another run"), "%s", status_reason());
}

Test(run_folder, an_older_coordinators_link_leads_to_the_run)
{
    char whole[PATH_MAX];
    cr_assert_eq(mkdir("7", 0700), 0);
    leave_run("7", false);
    cr_assert_not_null(realpath("runs/k-7", whole));
    folder_write("7/runs", "");
    cr_assert_eq(symlink(whole, "7/run"), 0);
    init("", "7");
    find(2, true);
    cr_assert_str_eq(run.dir, whole);
}

Test(run_folder, the_job_keeps_the_results_of_a_run_that_is_published)
{
    cr_assert_eq(mkdir("7", 0700), 0);
    begin_in("7", 1, false);
    open_run();
    close_run(true);
    begin_in("7", 2, true);
    cr_assert(run.is_found && !run.is_done);
    open_run();
    cr_assert_eq(output_metrics_open(&output, 0), STATUS_OK);
    folder_write("o/.run-7/result.json", "{}");
    cr_assert_eq(run_folder_publish(&run), STATUS_OK, "%s", status_reason());
    close_run(true);
    cr_assert_str_eq(last_of("7"), JOB_RUNS_PUBLISHED);
    cr_assert_str_eq(text_of("7/result.json"), "{}");
    begin_in("7", 3, true);
    cr_assert(run.is_done);
}

Test(run_folder, of_metrics_that_are_too_long_the_last_lines_are_kept)
{
    cr_assert_eq(mkdir("7", 0700), 0);
    most_bytes = 25;
    begin_in("7", 1, false);
    open_run();
    cr_assert_eq(output_metrics_open(&output, 0), STATUS_OK);
    cr_assert_eq(output_metrics_append(&output, "{\"loss\":3}\n{\"loss\":2}\n{\"loss\":1}\n", 33), STATUS_OK);
    folder_write("o/.run-7/result.json", "{}");
    cr_assert_eq(run_folder_publish(&run), STATUS_OK, "%s", status_reason());
    close_run(true);
    cr_assert_str_eq(text_of("7/metrics.jsonl"), "{\"loss\":2}\n{\"loss\":1}\n");
}
