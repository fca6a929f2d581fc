/* Links that others have put into an output folder: nothing is written, cut or removed through one of them. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An unfinished run of four epochs in o/.run-1, and what is precious beside it. */
static void make_all(void)
{
    folder_make();
    folder_write("job.toml", "[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n[model]\nhidden = 8\n"
                             "[train]\nepochs = 4\ncheckpoint_every = 2\n[workers]\ncount = 1\nthreads = 1\n"
                             "[output]\ndir = \"o\"\n");
    job_run(" ");
    cr_assert_eq(mkdir(folder_path("o/.run-1"), 0777), 0);
    cr_assert_eq(rename(folder_path("o/checkpoint"), folder_path("o/.run-1/checkpoint")), 0);
    cr_assert_eq(rename(folder_path("o/metrics.jsonl"), folder_path("o/.run-1/metrics.jsonl")), 0);
    cr_assert_eq(unlink(folder_path("o/result.json")), 0);
    cr_assert_eq(mkdir(folder_path("precious"), 0777), 0);
    folder_write("precious/note.txt", "precious");
    folder_write("precious/epoch-7.ckpt", "precious");
    folder_write("precious/events.out.tfevents.1", "precious");
}

TestSuite(links, .init = make_all, .fini = folder_remove, .timeout = 900);

#define RESUME "--resume --set train.epochs=6"

static void plant(const char *target, const char *name)
{
    cr_assert_eq(symlink(folder_path(target), folder_path(name)), 0, "%s", name);
}

static int is_entry(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Every file has its bytes, and none was made beside it. */
static void expect_untouched(void)
{
    static const char *const names[] = {"precious/note.txt", "precious/epoch-7.ckpt",
                                        "precious/events.out.tfevents.1"};
    struct dirent **entry;
    char text[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cr_assert(folder_has(names[i]), "%s was removed: %s", names[i], job_run_log);
        folder_read(names[i], text, sizeof text);
        cr_assert_str_eq(text, "precious", "%s", names[i]);
    }
    int n = scandir(folder_path("precious"), &entry, is_entry, NULL);
    for (int i = 0; i < n; i++) {
        free(entry[i]);
    }
    if (n >= 0) {
        free(entry);
    }
    cr_assert_eq(n, 3, "%d files, something was made there", n);
}

static void expect_refused(const char *environment, const char *settings, const char *reason)
{
    int code = job_run_code(environment, "%s", settings);
    expect_untouched();
    cr_assert_eq(code, 73, "exit %d: %s", code, job_run_log);
    cr_assert_not_null(strstr(job_run_log, reason), "%s", job_run_log);
}

Test(links, files_behind_a_link_named_checkpoint_old_are_not_removed)
{
    cr_assert_eq(mkdir(folder_path("7"), 0777), 0);
    plant("o/.run-1", "7/run");
    plant("precious", "o/.run-1/checkpoint.old");
    expect_refused("", "--job-folder 7 --attempt 2", "/checkpoint.old' is a link, expected a folder");
}

Test(links, a_link_with_the_name_of_a_file_in_the_making_is_not_written_through)
{
    static const char *const names[] = {"model.safetensors.tmp", "best.safetensors.tmp",
                                        "logits.npy.tmp",        "result.json.tmp",
                                        "trace.json.tmp",        "checkpoint/epoch-6.ckpt.tmp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "o/.run-1/%s", names[i]);
        plant("precious/note.txt", name);
    }
    plant("precious/note.txt", "o/.publish.tmp");
    job_run(RESUME " --set output.trace=true");
    expect_untouched();
    cr_assert(folder_has("o/result.json") && folder_has("o/.publish.tmp"), "the link itself is not ours either");
}

Test(links, a_resume_does_not_cut_what_metrics_lead_to)
{
    cr_assert_eq(rename(folder_path("o/.run-1/metrics.jsonl"), folder_path("data.txt")), 0);
    char before[4096], after[4096];
    folder_read("data.txt", before, sizeof before);
    plant("data.txt", "o/.run-1/metrics.jsonl");
    expect_refused("", RESUME, "/metrics.jsonl' is a link, expected a file");
    folder_read("data.txt", after, sizeof after);
    cr_assert_str_eq(before, after);
    /* A second name of the file is no link that one could see: what it stands for is left alone. */
    cr_assert_eq(unlink(folder_path("o/.run-1/metrics.jsonl")), 0);
    cr_assert_eq(link(folder_path("data.txt"), folder_path("o/.run-1/metrics.jsonl")), 0);
    job_run(RESUME);
    folder_read("data.txt", after, sizeof after);
    cr_assert_str_eq(before, after);
    folder_read("o/metrics.jsonl", after, sizeof after);
    cr_assert(strncmp(before, after, strlen(before)) == 0 && strlen(after) > strlen(before), "%s", after);
}

Test(links, no_events_are_written_to_where_tb_leads)
{
    plant("precious", "o/.run-1/tb");
    expect_refused("", RESUME, "/tb' is a link, expected a folder");
    cr_assert_eq(unlink(folder_path("o/.run-1/tb")), 0);
    plant("precious", "o/tb");
    expect_refused("", RESUME, "/tb' is a link, expected a folder");
}

Test(links, no_checkpoint_is_written_to_where_its_folder_leads)
{
    plant("precious", "o/checkpoint");
    expect_refused("", RESUME, "/checkpoint' is a link, expected a folder");
    cr_assert_eq(unlink(folder_path("o/checkpoint")), 0);
    cr_assert_eq(rename(folder_path("o/.run-1/checkpoint"), folder_path("elsewhere")), 0);
    plant("elsewhere", "o/.run-1/checkpoint");
    expect_refused("", RESUME, "/checkpoint' is a link, expected a folder");
    cr_assert_not(folder_has("elsewhere/epoch-6.ckpt"));
}

Test(links, an_output_folder_that_another_user_has_made_a_link_is_not_written_to)
{
    if (geteuid() != 0) {
        cr_skip_test("only root can make links of others");
    }
    cr_assert_eq(rename(folder_path("o"), folder_path("elsewhere")), 0);
    plant("precious", "o");
    cr_assert_eq(lchown(folder_path("o"), 65534, 65534), 0);
    expect_refused("", " ", "'o' is a link of another user (65534), expected a folder or a link of one's own");
    expect_refused("", RESUME, "is a link of another user (65534)");
}

Test(links, a_run_folder_that_is_a_link_is_no_run)
{
    cr_assert_eq(rename(folder_path("o/.run-1"), folder_path("elsewhere")), 0);
    plant("elsewhere", "o/.run-1");
    expect_refused("", RESUME, "/.run-1' is a link, expected a folder");
    cr_assert(folder_has("elsewhere/metrics.jsonl") && !folder_has("elsewhere/result.json"));
    folder_write("o/.publish", "trainerd results 2\n.run-1\n");
    expect_refused("", RESUME, "/.run-1' is a link, expected a folder");
    cr_assert(folder_has("elsewhere/metrics.jsonl"));
}

Test(links, another_users_journal_is_not_followed)
{
    if (geteuid() != 0) {
        cr_skip("only root can give a file away");
    }
    folder_write("o/.publish", "trainerd results 2\n.run-1\n");
    folder_write("o/.run-1/result.json", "{}");
    cr_assert_eq(chown(folder_path("o/.publish"), 65534, 65534), 0);
    expect_refused("", RESUME, "'o/.publish' belongs to user 65534");
    cr_assert(folder_has("o/.run-1/metrics.jsonl") && folder_has("o/.publish"));
}

/* --- folders with the sticky bit, as /tmp --- */

#define NOBODY "setpriv --reuid=65534 --regid=65534 --clear-groups"

Test(links, what_another_user_has_in_a_sticky_folder_is_found_before_training_and_stays)
{
    static const char *const names[] = {"result.json", "checkpoint", NULL};
    if (geteuid() != 0) {
        cr_skip("only root can act for two users");
    }
    cr_assert_eq(chmod(folder, 0777), 0);
    for (int i = 0; names[i] != NULL; i++) {
        char path[64], text[64];
        snprintf(path, sizeof path, "sticky/%s", names[i]);
        cr_assert_eq(mkdir(folder_path("sticky"), 0), 0);
        cr_assert_eq(chmod(folder_path("sticky"), 01777), 0);
        if (i == 0) {
            folder_write(path, "precious");
        } else {
            cr_assert_eq(mkdir(folder_path(path), 0755), 0);
        }
        int code = job_run_code(NOBODY, "--set output.dir=sticky");
        cr_assert_eq(code, 73, "%s: exit %d: %s", names[i], code, job_run_log);
        cr_assert_not_null(
            strstr(job_run_log, i == 0 ? "'sticky/result.json' belongs to user 0, and the folder's sticky bit keeps"
                                       : "cannot write in folder 'sticky/checkpoint': Permission denied"),
            "%s", job_run_log);
        cr_assert_null(strstr(job_run_log, "epoch "), "it was trained for nothing: %s", job_run_log);
        if (i == 0) {
            folder_read(path, text, sizeof text);
            cr_assert_str_eq(text, "precious");
        }
        struct dirent **entry;
        int n = scandir(folder_path("sticky"), &entry, NULL, NULL);
        for (int k = 0; k < n; k++) {
            free(entry[k]);
        }
        free(entry);
        cr_assert_eq(n, 3, "%d entries with . and ..: something is left", n);
        cr_assert_eq(i == 0 ? unlink(folder_path(path)) : rmdir(folder_path(path)), 0);
        cr_assert_eq(rmdir(folder_path("sticky")), 0);
    }
}

Test(links, two_users_runs_go_on_side_by_side_in_a_sticky_folder)
{
    if (geteuid() != 0) {
        cr_skip("only root can act for two users");
    }
    cr_assert_eq(chmod(folder, 0777), 0);
    cr_assert_eq(mkdir(folder_path("sticky"), 0), 0);
    cr_assert_eq(chmod(folder_path("sticky"), 01777), 0);
    job_run("--set output.dir=sticky/mine");
    cr_assert_eq(job_run_code(NOBODY, "--set output.dir=sticky/theirs"), 0, "%s", job_run_log);
    cr_assert(folder_has("sticky/mine/result.json") && folder_has("sticky/theirs/result.json"));
    int code = job_run_code(NOBODY, "--set output.dir=sticky/mine");
    cr_assert_eq(code, 73, "exit %d: %s", code, job_run_log);
}

/* --- links of the user's own --- */

Test(links, an_output_folder_behind_a_link_works_as_any_other)
{
    cr_assert_eq(mkdir(folder_path("disk"), 0777), 0);
    plant("disk", "way");
    job_run("--set output.dir=way/deep");
    job_run("--set output.dir=way/deep --resume --set train.epochs=6");
    cr_assert(folder_has("disk/deep/result.json") && folder_has("disk/deep/checkpoint/epoch-6.ckpt"));
    plant("disk", "end");
    job_run("--set output.dir=end");
    cr_assert(folder_has("disk/result.json"));
    cr_assert_eq(mkdir(folder_path("elsewhere"), 0777), 0);
    plant("elsewhere", "runs");
    job_run("--set output.dir= --set name=k");
    job_run("--set output.dir= --set name=k --resume --set train.epochs=6");
    cr_assert(folder_has("elsewhere/k") && folder_has("runs/k/result.json") &&
              folder_has("runs/k/checkpoint/epoch-6.ckpt"));
}
