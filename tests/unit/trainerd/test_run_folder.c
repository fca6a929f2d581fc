#include "tests/support/process/folder.h"
#include "trainerd/coordinator/results/run_folder.h"

#include <criterion/criterion.h>
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

static void init(const char *dir, const char *job_folder)
{
    struct job job;
    job_defaults(&job);
    snprintf(job.job.name, sizeof job.job.name, "k");
    snprintf(job.output.dir, sizeof job.output.dir, "%s", dir);
    cr_assert_eq(run_folder_init(&run, &job, job_folder), STATUS_OK);
}

static void find(uint32_t attempt, bool resume)
{
    cr_assert_eq(run_folder_find(&run, attempt, resume), STATUS_OK, "%s", status_reason());
}

static void open_run(void)
{
    cr_assert_eq(run_folder_open(&run, &output), STATUS_OK, "%s", status_reason());
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
    run_folder_close(&run);
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

static ino_t inode_of(const char *path)
{
    struct stat about;
    cr_assert_eq(stat(path, &about), 0, "%s", path);
    return about.st_ino;
}

Test(run_folder, every_run_has_a_folder_of_its_own_and_the_link_leads_to_the_newest)
{
    init("", "/no/jobs/7"); /* a folder that has no place for a link */
    run.job_folder = NULL;
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
    cr_assert_eq(inode_of("7/run"), inode_of("runs/k-7-3"));
}

Test(run_folder, what_has_the_links_name_stays_as_it_is_with_a_remark)
{
    cr_assert_eq(mkdir("runs", 0777), 0);
    cr_assert_eq(mkdir("runs/k", 0777), 0);
    init("", NULL);
    find(0, false);
    open_run();
    const char *remark = lead();
    cr_assert(strstr(remark, "'runs/k' is a folder, no link, and stays as it is: this run is in 'runs/k-20"), "%s", remark);
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
