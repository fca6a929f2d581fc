#include "protocol/base/clock.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "trainerd/daemon/supervisor/process.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char script[512]; /* beside this test, and named by its process */
static const char *gpus = "";
static const char *pass_environment = "";

static void begin(void)
{
    folder_make();
    char name[64];
    snprintf(name, sizeof name, "script-%d", (int)getpid());
    program_find(name, script, sizeof script);
}

static void end(void)
{
    unlink(script);
    folder_remove();
}

TestSuite(process, .init = begin, .fini = end, .timeout = 900);

static const char *input;

static void spawn(const char *text, uid_t uid, struct process *out)
{
    FILE *file = fopen(script, "w");
    cr_assert_not_null(file, "%s: %s", script, strerror(errno));
    fprintf(file, "#!/bin/sh\n%s\n", text);
    fclose(file);
    cr_assert_eq(chmod(script, 0755), 0);
    char *const argv[] = {strrchr(script, '/') + 1, "an argument", NULL};
    const struct process_options options = {.argv = argv,
                                            .uid = uid,
                                            .gid = uid == geteuid() ? getegid() : uid,
                                            .pass_environment = pass_environment,
                                            .gpus = gpus,
                                            .folder = folder,
                                            .log = folder_path("log"),
                                            .input = input};
    expect_done(process_spawn(&options, out));
}

static int finish(struct process *process)
{
    int status = 0;
    cr_assert(process_ends(process->pidfd));
    cr_assert(process_reap(process, &status));
    process_release(process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Run a script to its end; its exit code. */
static int run(const char *text, uid_t uid)
{
    struct process process;
    spawn(text, uid, &process);
    process_go(&process);
    return finish(&process);
}

/* A process that cannot start its program: its exit code 73, and why. */
static const char *expect_start_error(struct process *process)
{
    static char words[600];
    cr_assert(process_ends(process->pidfd));
    process_start_error(process, words, sizeof words);
    cr_assert_eq(finish(process), 73);
    return words;
}

static const char *expect_spawn_error(const char *program, const char *in)
{
    struct process process;
    char *const argv[] = {(char *)program, NULL};
    const struct process_options options = {.argv = argv,
                                            .uid = geteuid(),
                                            .gid = getegid(),
                                            .pass_environment = "",
                                            .gpus = "",
                                            .folder = in,
                                            .log = folder_path("log")};
    expect_done(process_spawn(&options, &process));
    process_go(&process);
    return expect_start_error(&process);
}

static const char *log_text(void)
{
    static char text[2048];
    folder_read("log", text, sizeof text);
    return text;
}

Test(process, it_waits_at_its_gate_then_runs_where_it_should_in_a_session_of_its_own)
{
    struct process process;
    spawn("echo \"$1 $(pwd) $$ $(cut -d ' ' -f 6 /proc/$$/stat)\"; echo words >&2; exit 7", geteuid(), &process);
    struct stat about;
    cr_assert(stat(folder_path("log"), &about) != 0 || about.st_size == 0);
    process_go(&process);
    char expected[256];
    snprintf(expected, sizeof expected, "an argument %s %d %d\nwords\n", folder, (int)process.pid, (int)process.pid);
    cr_assert_eq(finish(&process), 7);
    cr_assert_str_eq(log_text(), expected);
    cr_assert_eq(stat(folder_path("log"), &about), 0);
    cr_assert_eq(about.st_mode & 0777, 0600);
}

Test(process, what_it_reads_on_standard_input_is_what_it_was_given_and_nobody_can_change_it)
{
    char program[] = "(echo other > /proc/self/fd/0) 2>/dev/null && echo written\n"
                     "(: > /proc/self/fd/0) 2>/dev/null && echo cut\ncat";
    cr_assert_eq(run(program, geteuid()), 0);
    cr_assert_str_eq(log_text(), "written\ncut\n", "it has nothing else: /dev/null");
    cr_assert_eq(unlink(folder_path("log")), 0);
    input = "the text\n";
    cr_assert_eq(run(program, geteuid()), 0);
    cr_assert_str_eq(log_text(), "the text\n");
}

Test(process, it_ends_by_itself_when_its_gate_closes_with_whoever_held_it)
{
    struct process process;
    spawn("echo ran", geteuid(), &process);
    close(process.gate);
    process.gate = -1;
    cr_assert_eq(finish(&process), 75);
    cr_assert_str_eq(log_text(), "trainerd: the daemon died before it let this begin\n");
}

Test(process, one_that_is_abandoned_never_ran)
{
    struct process process;
    spawn("echo ran", geteuid(), &process);
    pid_t pid = process.pid;
    process_abandon(&process);
    cr_assert_eq(kill(pid, 0), -1);
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
}

Test(process, what_is_added_to_its_log_stands_after_what_was_there)
{
    folder_write("log", "before\n");
    cr_assert_eq(run("echo after", geteuid()), 0);
    cr_assert_str_eq(log_text(), "before\nafter\n");
}

Test(process, a_log_that_is_a_link_is_not_written_through)
{
    struct process process;
    char text[16];
    folder_write("target", "mine");
    cr_assert_eq(symlink("target", folder_path("log")), 0);
    spawn("echo no", geteuid(), &process);
    const char *words = expect_start_error(&process);
    expect_words(words, "cannot open");
    expect_words(words, "/log'");
    folder_read("target", text, sizeof text);
    cr_assert_str_eq(text, "mine");
}

Test(process, a_folder_or_a_program_that_is_not_there_is_named)
{
    cr_assert_str_eq(expect_spawn_error("script", "/not/there"),
                     "cannot enter '/not/there': No such file or directory");
    const char *words = expect_spawn_error("no-such-program", folder);
    expect_words(words, "cannot start");
    expect_words(words, "no-such-program");
}

Test(process, it_is_found_by_pid_and_start_and_by_nothing_less)
{
    struct process process, found;
    spawn("exec sleep 1000", geteuid(), &process);
    process_go(&process);
    cr_assert(process_find(process.pid, process.start, &found));
    cr_assert_not(process_find(process.pid, process.start + 1, &(struct process){0}));
    cr_assert_not(process_find(0, 0, &(struct process){0}));
    cr_assert(process_signal(&found, SIGTERM));
    cr_assert(process_ends(found.pidfd));
    process_release(&found);
    cr_assert_eq(finish(&process), 1000 + SIGTERM);
    cr_assert_not(process_find(process.pid, process.start, &found));
}

static int *n_handled; /* that this process's handler was called, here or in a child */

static void count_handled(int number)
{
    (void)number;
    ++*n_handled;
}

/* A job is cancelled while its process is made: the daemon's handler tells the daemon through a pipe that both have. */
Test(process, a_signal_to_a_process_that_is_just_made_is_not_handled_as_this_process_would)
{
    n_handled = mmap(NULL, sizeof *n_handled, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(n_handled, MAP_FAILED);
    signal(SIGTERM, count_handled);
    for (int i = 0; i < 200; i++) {
        struct process process;
        spawn("exec sleep 1000", geteuid(), &process);
        cr_assert(process_signal(&process, SIGTERM));
        cr_assert(process_ends(process.pidfd), "%d was handled %d times", i, *n_handled);
        cr_assert_eq(finish(&process), 1000 + SIGTERM);
    }
    cr_expect_eq(*n_handled, 0, "%d of 200 times", *n_handled);
    signal(SIGTERM, SIG_DFL);
    munmap(n_handled, sizeof *n_handled);
}

Test(process, killing_its_session_leaves_none_of_its_children)
{
    struct process process;
    char pid[32] = "";
    spawn("sleep 1000 & echo $!; wait", geteuid(), &process);
    process_go(&process);
    double since = clock_s();
    while (strchr(pid, '\n') == NULL && patience_left(since)) {
        if (folder_has("log")) {
            folder_read("log", pid, sizeof pid);
        }
    }
    cr_assert_gt(atoi(pid), 0);
    cr_assert(process_kill_session(&process));
    cr_assert_eq(finish(&process), 1000 + SIGKILL);
    since = clock_s();
    while (process_kill_session(&process)) {
        cr_assert(patience_left(since), "the child lives");
    }
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", atoi(pid));
    FILE *file = fopen(path, "r"); /* it may wait for init to reap it */
    cr_assert(file == NULL || fgets(line, sizeof line, file) == NULL || strstr(line, ") Z ") != NULL, "%s", line);
    if (file != NULL) {
        fclose(file);
    }
}

/* When a process began, as /proc has it. */
static uint64_t start_of(pid_t pid)
{
    char path[64], text[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    cr_assert(file != NULL && fgets(text, sizeof text, file) != NULL);
    fclose(file);
    char *at = strrchr(text, ')');
    for (int field = 2; field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    return strtoull(at, NULL, 10);
}

Test(process, how_another_ones_child_ended_is_seen_until_it_is_reaped)
{
    int ends[2], status = 0;
    pid_t pid = 0, parent;
    cr_assert_eq(pipe(ends), 0);
    if ((parent = fork()) == 0) { /* it never reaps its child */
        pid = fork();
        if (pid > 0 && write(ends[1], &pid, sizeof pid) != (ssize_t)sizeof pid) {
            _exit(1);
        }
        pause();
    }
    cr_assert_eq(read(ends[0], &pid, sizeof pid), (ssize_t)sizeof pid);
    struct process found;
    cr_assert(process_find(pid, start_of(pid), &found));
    cr_assert_not(process_reap(&found, &status), "it lives");
    cr_assert(process_signal(&found, SIGTERM));
    cr_assert(process_ends(found.pidfd));
    cr_assert(process_reap(&found, &status));
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "%x", (unsigned)status);
    process_release(&found);
    cr_assert_eq(kill(parent, SIGKILL), 0);
    cr_assert_eq(waitpid(parent, NULL, 0), parent);
}

Test(process, before_it_listens_a_request_for_a_checkpoint_does_not_end_it)
{
    cr_assert_eq(run("kill -USR1 $$; exit 5", geteuid()), 5);
}

Test(process, it_sees_the_gpus_that_it_is_given_whatever_we_see)
{
    setenv("CUDA_VISIBLE_DEVICES", "1,3", 1);
    for (int i = 0; i < 2; i++) {
        gpus = i == 0 ? "GPU-a,GPU-b" : "";
        cr_assert_eq(run("env | grep CUDA_VISIBLE_DEVICES", geteuid()), 0, "%s", log_text());
    }
    cr_assert_str_eq(log_text(), "CUDA_VISIBLE_DEVICES=GPU-a,GPU-b\nCUDA_VISIBLE_DEVICES=\n");
}

Test(process, for_another_user_it_has_what_is_passed_by_name)
{
    need_root();
    clearenv();
    setenv("PATH", "/usr/bin:/bin", 1);
    setenv("SITE_A", "a", 1);
    setenv("SITE", "not", 1);
    setenv("PROXY", "p", 1);
    setenv("PROXY_2", "not", 1);
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    setenv("NOTIFY_SOCKET", "not", 1);
    cr_assert_eq(chmod(folder, 0777), 0);
    pass_environment = "  SITE_*   PROXY NOTIFY_*";
    cr_assert_eq(run("env | grep -v '^PWD=\\|^_=\\|^SHLVL=\\|^OLDPWD=' | sort", 65534), 0, "%s", log_text());
    cr_assert_str_eq(log_text(),
                     "CUDA_VISIBLE_DEVICES=\nHOME=/nonexistent\nLOGNAME=nobody\nPATH=/usr/bin:/bin\nPROXY=p\n"
                     "SHELL=/usr/sbin/nologin\nSITE_A=a\nUSER=nobody\n");
}

Test(process, for_another_user_it_has_that_users_rights_and_none_of_our_environment)
{
    need_root();
    struct process process;
    setenv("XDG_CACHE_HOME", "/root/secret", 1);
    setenv("NOTIFY_SOCKET", "/run/systemd/notify", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    setenv("UCX_TLS", "tcp", 1);
    cr_assert_eq(chmod(folder, 0777), 0);
    spawn("id -u; id -g; id -G; echo \"$HOME $XDG_CACHE_HOME$NOTIFY_SOCKET$AWS_SECRET_ACCESS_KEY$UCX_TLS\"", 65534,
          &process);
    process_go(&process);
    cr_assert_eq(finish(&process), 0, "%s", log_text());
    cr_assert_str_eq(log_text(), "65534\n65534\n65534\n/nonexistent tcp\n");
    struct stat about;
    cr_assert_eq(stat(folder_path("log"), &about), 0);
    cr_assert_eq(about.st_uid, 65534);
}
