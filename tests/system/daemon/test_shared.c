/* A daemon of root's that users share who need not trust each other: what one of them does to the files of a job, and
 * what becomes of the others' jobs. */
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define USER 65534
#define ENDLESS "[workers]\ncount = 2\nthreads = 1\n[train]\nepochs = 100000000\n[output]\ndir = \"home/o\"\n"
#define SHORT "[train]\nepochs = 3\n[output]\ndir = \"short\"\n"

static void make_all(void)
{
    folder_make();
    if (geteuid() == 0) {
        cr_assert_eq(chmod(folder, 0755), 0);
        cr_assert_eq(mkdir(folder_path("home"), 0700), 0);
        cr_assert_eq(chown(folder_path("home"), USER, USER), 0);
    }
}

TestSuite(shared, .init = make_all, .fini = daemon_case_end, .timeout = 300);

static int64_t submit_of_user(const char *lines)
{
    return daemon_submit(&(struct daemon_job){.lines = lines, .uid = USER});
}

static void expect_end(int64_t id, enum job_state state, enum job_reason reason)
{
    daemon_await_end(id);
    const struct job_record *job = daemon_job(id);
    cr_assert_eq(job->state, state, "%s %s: %s", job_state_name(job->state), job_reason_name(job->reason),
                 job->reason_text);
    cr_assert_eq(job->reason, reason, "%s: %s", job_reason_name(job->reason), job->reason_text);
}

/* A process of the job's owner that holds the log of its coordinator, as all do that the coordinator starts: fill the
 * disk, say so with a byte, and write on for as long as the coordinator is there. */
static void flood(pid_t coordinator, int said)
{
    static char bytes[1 << 20];
    memset(bytes, 'x', sizeof bytes);
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, coordinator, 0u), .events = POLLIN};
    int log = (int)syscall(SYS_pidfd_getfd, end.fd, STDERR_FILENO, 0u);
    if (log < 0 || setgid(USER) != 0 || setuid(USER) != 0 || fcntl(log, F_SETFL, 0) != 0) {
        _exit(2);
    }
    while (write(log, bytes, sizeof bytes) > 0) {
    }
    if (errno != ENOSPC || write(said, "", 1) != 1) {
        _exit(3);
    }
    while (poll(&end, 1, 0) == 0) {
        (void)!write(log, bytes, sizeof bytes);
    }
    _exit(0);
}

static pid_t flood_start(int64_t id)
{
    int said[2];
    char byte;
    cr_assert_eq(pipe2(said, O_CLOEXEC), 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        die_with(parent);
        flood(daemon_job(id)->run.pid, said[1]);
    }
    close(said[1]);
    cr_assert_eq(read(said[0], &byte, 1), 1, "the disk is not full");
    close(said[0]);
    return child;
}

Test(shared, a_job_that_fills_the_disk_with_its_log_ends_and_another_users_job_is_saved_and_succeeds)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        cr_skip_test("only root can start for others, and mount");
    }
    cr_assert_eq(mkdir(folder_path("state"), 0755), 0);
    cr_assert_eq(mount("none", folder_path("state"), "tmpfs", 0, "size=64m"), 0);
    daemon_options.n_log_most = 8 << 20;
    daemon_reserve_bytes = 8 << 20;
    daemon_start();
    int64_t id = submit_of_user(ENDLESS);
    daemon_await_epoch(id, 1, 1);
    daemon_signal(SIGSTOP); /* so that the disk is full before anything is done about it */
    pid_t flooder = flood_start(id);
    daemon_signal(SIGCONT);
    int64_t other = daemon_submit(&(struct daemon_job){.lines = SHORT});
    expect_end(id, JOB_STATE_FAILED, JOB_REASON_LOG_LIMIT);
    expect_words(daemon_job(id)->reason_text, "'log' in its folder has");
    expect_words(daemon_job(id)->reason_text, "more than the 8388608 that a job may write there");
    cr_assert_eq(daemon_job(id)->exit_code, 74);
    expect_end(other, JOB_STATE_SUCCEEDED, JOB_REASON_NONE);
    int status;
    cr_assert_eq(waitpid(flooder, &status, 0), flooder);
    cr_assert_eq(status, 0);
    daemon_end();
    daemon_expect_nobody();
    cr_assert_eq(umount2(folder_path("state"), MNT_DETACH), 0);
}

Test(shared, the_reserve_saves_changes_while_a_full_disk_stays_full)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        cr_skip_test("only root can mount");
    }
    cr_assert_eq(mkdir(folder_path("state"), 0755), 0);
    cr_assert_eq(mount("none", folder_path("state"), "tmpfs", 0, "size=16m"), 0);
    daemon_reserve_bytes = 4 << 20;
    daemon_start();
    cr_assert_eq(daemon_command('c', daemon_submit(&(struct daemon_job){.lines = SHORT}), 0), STATUS_OK, "%s",
                 daemon_reason);
    /* It has answered: it keeps its reserve. */
    int file = open(folder_path("state/theirs"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    static char bytes[4096];
    while (write(file, bytes, sizeof bytes) > 0) {
    }
    cr_assert_eq(errno, ENOSPC);
    close(file);
    for (int i = 0; i < 20; i++) {
        int64_t id = daemon_submit(&(struct daemon_job){.lines = SHORT});
        cr_assert_eq(daemon_command('c', id, 0), STATUS_OK, "%s", daemon_reason);
    }
    struct stat about;
    cr_assert_eq(stat(folder_path("state/reserve"), &about), 0);
    cr_assert_eq(about.st_size, 0, "it was not needed");
    daemon_end();
    cr_assert_eq(umount2(folder_path("state"), MNT_DETACH), 0);
}

/* Make the job's folder what a daemon before this version made of it. */
static void make_old(void)
{
    char run[PATH_MAX];
    static const char *const files[] = {"", "/events.jsonl", "/log", "/rank-0.log", "/rank-1.log"};
    static const char *const later[] = {"/runs", "/metrics.jsonl", "/result.json"};
    char path[64];
    folder_read("state/jobs/1/runs", run, sizeof run);
    run[strcspn(run, "\n")] = '\0';
    cr_assert_eq(run[0], '/', "%s", run);
    cr_assert_eq(symlink(run, folder_path("state/jobs/1/run")), 0);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        snprintf(path, sizeof path, "state/jobs/1%s", later[i]);
        cr_assert_eq(unlink(folder_path(path)), 0);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "state/jobs/1%s", files[i]);
        cr_assert_eq(chown(folder_path(path), USER, USER), 0, "%s", path);
    }
}

Test(shared, a_job_of_an_older_daemon_goes_on_in_the_folder_that_its_owner_has)
{
    need_root();
    daemon_start();
    int64_t id = submit_of_user(ENDLESS);
    daemon_await_epoch(id, 1, 1);
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK);
    expect_end(id, JOB_STATE_CANCELLED, JOB_REASON_USER);
    daemon_end();
    make_old();
    daemon_start();
    int64_t epoch = daemon_job(id)->progress.epoch;
    cr_assert_eq(daemon_command('r', id, 0), STATUS_OK, "%s", daemon_reason);
    daemon_await_epoch(id, 2, epoch + 1);
    struct stat about;
    cr_assert_eq(stat(folder_path("state/jobs/1/runs"), &about), 0, "it does not open its files by name");
    cr_assert_eq(about.st_uid, USER);
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK);
    expect_end(id, JOB_STATE_CANCELLED, JOB_REASON_USER);
}
