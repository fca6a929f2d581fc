/* The command line of trainerd as its users meet it: exit codes, what goes where, what becomes of a coordinator.
 * Coordinators here are shell scripts beside a copy of trainerd. */
#include "tests/support/process/command.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/results.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define GOOD_JOB "[dataset]\ngenerator = \"karate\"\n"

/* Copy a program from beside this test into the folder. */
static void copy_program(const char *name)
{
    char from[PATH_MAX], command[2 * PATH_MAX];
    program_find(name, from, sizeof from);
    snprintf(command, sizeof command, "cp '%s' '%s'", from, folder);
    cr_assert_eq(system(command), 0);
}

static void make_all(void)
{
    folder_make();
    copy_program("trainerd");
    folder_write("job.toml", GOOD_JOB);
    setenv("PATH", "/usr/bin:/bin", 1); /* nothing is found there but the shell's own */
}

/* A coordinator that is a shell script. */
static void coordinator_write(const char *script)
{
    folder_write("trainer-coordinator", script);
    cr_assert_eq(chmod(folder_path("trainer-coordinator"), 0700), 0);
}

TestSuite(trainerd, .init = make_all, .fini = folder_remove, .timeout = 900);

#define start(...) command_start("./trainerd", __VA_ARGS__)

Test(trainerd, a_good_job_file_is_told_so_and_leaves_with_0)
{
    EXPECT(0, "valid job file", "--check", "job.toml");
    cr_assert_str_eq(printed, "");
    EXPECT(0, "valid job file", "--check", "job.toml", "--set", "train.epochs=3", "--set=name=x");
}

Test(trainerd, a_bad_job_file_leaves_with_78_and_its_place)
{
    folder_write("bad.toml", GOOD_JOB "[train]\nepoch = 3\n");
    EXPECT(78, "trainerd: bad.toml:4:1: unknown key 'epoch'", "--check", "bad.toml");
    cr_assert_str_eq(printed, "");
    EXPECT(78, "--set train.lr: train.lr is -1.0", "--check", "job.toml", "--set", "train.lr=-1");
    EXPECT(78, "'.' is a folder", "--check", ".");
}

Test(trainerd, every_mistake_of_a_job_file_has_a_line)
{
    folder_write("bad.toml", GOOD_JOB "[train]\nepoch = 3\nlr = fast\n");
    EXPECT(78, "trainerd: bad.toml:4:1: unknown key 'epoch'", "--check", "bad.toml");
    expect_words(output, "\ntrainerd: bad.toml:5:6: train.lr is fast; expected a number");
}

Test(trainerd, a_missing_job_file_leaves_with_66)
{
    EXPECT(66, "cannot open job file 'none.toml': No such file", "--check", "none.toml");
}

Test(trainerd, help_version_and_reference_go_to_standard_output)
{
    EXPECT(0, "usage: trainerd [--config] FILE", "--help");
    cr_assert_not_null(strstr(printed, "exit codes:"));
    EXPECT(0, "usage: trainerd [--config] FILE", "-h");
    EXPECT(0, "trainerd 0", "--version");
    EXPECT(0, "weight_decay", "--describe-config");
    cr_assert_not_null(strstr(printed, "\n[train]  "));
    EXPECT(0, "| `weight_decay` |", "--describe-config", "--markdown");
    cr_assert_eq(strncmp(printed, "# Job files\n", 12), 0);
}

Test(trainerd, every_program_has_a_short_option_for_help)
{
    static const char *const names[] = {"trainerd", "trainer-coordinator", "trainer-worker", "trainer-partition",
                                        "trainctl"};
    for (int i = 0; i < 5; i++) {
        char path[PATH_MAX], usage[64];
        program_find(names[i], path, sizeof path);
        snprintf(usage, sizeof usage, "usage: %s", names[i]);
        cr_expect_eq(command_finish(command_start(path, (const char *const[]){"-h", NULL})), 0, "%s", names[i]);
        cr_expect_not_null(strstr(printed, usage), "%s: %s", names[i], printed);
    }
}

Test(trainerd, wrong_usage_leaves_with_2_and_says_what_was_wrong)
{
    EXPECT(2, "unknown option '--confg'", "--confg", "job.toml");
    EXPECT(2, "--config needs a value", "--config");
    EXPECT(2, "--set needs a value", "--check", "job.toml", "--set");
    EXPECT(2, "unexpected argument 'more'", "--check", "job.toml", "more");
    EXPECT(2, "unexpected argument 'more'", "job.toml", "more");
    EXPECT(2, "unknown option '-x'", "-x");
    EXPECT(2, "more than one command", "job.toml", "--plan", "job.toml");
    EXPECT(2, "more than one command", "--check", "job.toml", "--plan", "job.toml");
    EXPECT(2, "--json does not go with this command", "--check", "job.toml", "--json");
    EXPECT(2, "--steps goes with --plan", "--check", "job.toml", "--steps");
    EXPECT(2, "--program goes with --plan", "--config", "job.toml", "--program");
    EXPECT(2, "--roofline goes with --plan", "--check", "job.toml", "--roofline");
    EXPECT(2, "--device does not go with this command", "--plan", "job.toml", "--device", "x");
    EXPECT(2, "--resume does not go with this command", "--plan", "job.toml", "--resume");
    EXPECT(2, "--markdown does not go with this command", "--help", "--markdown");
    EXPECT(2, "expected section.key=value", "--check", "job.toml", "--set", "train.lr");
    EXPECT(2, "--state does not go with this command", "--check", "job.toml", "--state", "x");
    EXPECT(2, "--daemon-config does not go with this command", "--help", "--daemon-config", "x");
    EXPECT(2, "--predict does not go with this command", "--describe-config", "--predict", "x");
    EXPECT(2, "--predict is empty, expected one folder of a training's results", "--config", "job.toml", "--predict",
           "");
    EXPECT(2, "--predict is given twice", "--config", "job.toml", "--predict", "x", "--predict", "y");
    EXPECT(2, "no command is given", "--predict", "x");
    cr_assert_eq(command_finish(start((const char *const[]){NULL})), 2);
    cr_assert_not_null(strstr(output, "no command is given"));
}

Test(trainerd, a_job_is_handed_to_the_coordinator_beside_it_with_its_settings)
{
    coordinator_write("#!/bin/sh\n[ $1 = --parent ] && [ $2 = $PPID ] && shift 2\n"
                      "[ $1 = --memo ] && [ -e /proc/self/fd/$2 ] && shift 2\nfor a; do echo \"<$a>\"; done\n"
                      "echo progress >&2\nexit 65\n");
    EXPECT(65, "progress", "--config", "job.toml", "--set", "name=a b", "--resume", "--set", "train.epochs=3");
    cr_assert_str_eq(printed, "<--config>\n<job.toml>\n<--set>\n<name=a b>\n<--set>\n<train.epochs=3>\n<--resume>\n");
    EXPECT(65, "progress", "job.toml", "--set", "name=x");
    cr_assert_str_eq(printed, "<--config>\n<job.toml>\n<--set>\n<name=x>\n");
    EXPECT(65, "progress", "--plan", "job.toml", "--json");
    cr_assert_str_eq(printed, "<--config>\n<job.toml>\n<--plan>\n<--json>\n");
    EXPECT(65, "progress", "--plan", "job.toml", "--steps", "--program");
    cr_assert_str_eq(printed, "<--config>\n<job.toml>\n<--plan>\n<--steps>\n<--program>\n");
    EXPECT(65, "progress", "--plan", "job.toml", "--device", "h.toml", "--roofline", "--json");
    cr_assert_str_eq(printed, "<--config>\n<job.toml>\n<--plan>\n<--roofline>\n<--device>\n<h.toml>\n<--json>\n");
    EXPECT(65, "progress", "--predict", "runs/a \"b\"", "--config", "job.toml", "--set", "name=x");
    cr_assert_str_eq(printed,
                     "<--config>\n<job.toml>\n<--set>\n<name=x>\n<--set>\n<predict.model=\"runs/a \\\"b\\\"\">\n");
}

Test(trainerd, without_a_coordinator_it_leaves_with_69)
{
    EXPECT(69, "cannot start trainer-coordinator", "--config", "job.toml");
}

Test(trainerd, a_coordinator_that_dies_of_a_signal_is_our_bug_unless_it_was_killed)
{
    coordinator_write("#!/bin/sh\nkill -SEGV $$\n");
    EXPECT(70, "trainer-coordinator was ended by signal 11 (Segmentation fault)", "--config", "job.toml");
    coordinator_write("#!/bin/sh\nkill -KILL $$\n");
    EXPECT(69, "trainer-coordinator was killed (signal 9), by a user or because memory ran out", "--config",
           "job.toml");
}

Test(trainerd, a_worker_that_ends_before_it_joins_says_why_in_the_jobs_reason)
{
    char worker[PATH_MAX], script[2 * PATH_MAX];
    copy_program("trainer-coordinator");
    program_find("trainer-worker", worker, sizeof worker);
    snprintf(script, sizeof script, "#!/bin/sh\nexec '%s' --join 127.0.0.1:1 --token-fd 3 --join-timeout 0\n",
             worker);
    folder_write("trainer-worker", script);
    cr_assert_eq(chmod(folder_path("trainer-worker"), 0700), 0);
    EXPECT(69, "ended with exit code 69 (peer or service unavailable) before all had joined: cannot ", "--config",
           "job.toml", "--set", "workers.count=1", "--set", "workers.max_restarts=0");
    expect_words(output, "127.0.0.1:1");
}

Test(trainerd, a_coordinator_ended_from_outside_is_no_bug_of_ours)
{
    coordinator_write("#!/bin/sh\nkill -QUIT $$\n");
    EXPECT(69, "trainer-coordinator was ended by signal 3 (Quit)", "--config", "job.toml");
}

/* As workers.max_restarts allows, which the coordinator writes down; one that is stopped by its user is not followed
 * by another. */
Test(trainerd, a_coordinator_that_dies_is_followed_by_another_as_often_as_the_job_allows)
{
    coordinator_write("#!/bin/sh\nfile=/proc/self/fd/$4\necho \"starts $(od -An -tu1 -N1 $file)\"\n"
                      "printf '\\002' | dd of=$file bs=1 seek=8 conv=notrunc status=none\nkill -ABRT $$\n");
    EXPECT(70, "lost: trainer-coordinator was ended by signal 6 (Aborted); restart 2 of 2", "--config", "job.toml");
    cr_assert_str_eq(printed, "starts    0\nstarts    1\nstarts    2\n");
    coordinator_write("#!/bin/sh\nprintf '\\002' | dd of=/proc/self/fd/$4 bs=1 seek=8 conv=notrunc status=none\n"
                      "echo starts\nkill -TERM $PPID\nwhile :; do sleep 0.01; done\n");
    EXPECT(75, "trainer-coordinator was ended by signal 15", "--config", "job.toml");
    cr_assert_str_eq(printed, "starts\n");
}

/* Start with a coordinator that says "ready" into a pipe, wait for that, and send the signal. */
static int signal_when_ready(const char *script, int signal_number)
{
    char ready[16] = "";
    coordinator_write(script);
    const char *path = folder_path("ready");
    cr_assert_eq(mkfifo(path, 0600), 0);
    pid_t child = start((const char *const[]){"--config", "job.toml", NULL});
    int fd = open(path, O_RDONLY);
    cr_assert_eq(read(fd, ready, sizeof ready), 6);
    cr_assert_eq(kill(child, signal_number), 0);
    int exit_code = command_finish(child);
    close(fd);
    cr_assert_eq(unlink(path), 0);
    return exit_code;
}

Test(trainerd, signals_reach_the_coordinator_which_decides_how_to_leave)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"INT", SIGINT}, {"TERM", SIGTERM}, {"HUP", SIGHUP}};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char script[256];
        snprintf(script, sizeof script,
                 "#!/bin/sh\ntrap 'echo saved >&2; exit 75' %s\nmkfifo never\nexec 3<>never\necho ready >ready\n"
                 "read x <&3\n",
                 signals[i].name);
        int exit_code = signal_when_ready(script, signals[i].number);
        cr_assert_eq(exit_code, 75, "SIG%s: exit %d: %s", signals[i].name, exit_code, output);
        expect_words(output, "saved");
        cr_assert_eq(unlink(folder_path("never")), 0);
    }
}

Test(trainerd, a_signal_to_the_terminals_process_group_does_not_reach_the_coordinator_a_second_time)
{
    int pid = 0, group = 0;
    coordinator_write("#!/bin/sh\necho $$ $(cut -d ' ' -f 5 /proc/$$/stat)\n");
    EXPECT(0, " ", "--config", "job.toml");
    cr_assert_eq(sscanf(printed, "%d %d", &pid, &group), 2, "%s", printed);
    cr_assert_eq(pid, group, "the coordinator is in the process group of trainerd");
}

Test(trainerd, when_it_is_killed_outright_the_job_saves_a_checkpoint_and_ends)
{
    char line[4096];
    copy_program("trainer-coordinator");
    copy_program("trainer-worker");
    const char *path = folder_path("err");
    cr_assert_eq(mkfifo(path, 0600), 0);
    pid_t child = start((const char *const[]){"--config", "job.toml", "--set", "train.epochs=100000000", "--set",
                                              "workers.count=2", "--set", "output.dir=run", NULL});
    FILE *words = fopen(path, "r");
    cr_assert_not_null(words);
    while (fgets(line, sizeof line, words) != NULL && strncmp(line, "epoch ", 6) != 0) {
    }
    cr_assert_eq(strncmp(line, "epoch ", 6), 0, "%s", line);
    cr_assert_eq(kill(child, SIGKILL), 0);
    /* The end of the pipe: every process that could write to it is gone. */
    while (fgets(line, sizeof line, words) != NULL) {
    }
    fclose(words);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_gt(results_checkpoint(folder_path("run")), 0, "%s", line);
    expect_words(line, "checkpoint");
}

Test(trainerd, an_interruption_before_the_coordinator_listens_is_no_bug)
{
    int exit_code = signal_when_ready("#!/bin/sh\nmkfifo never\nexec 3<>never\necho ready >ready\nread x <&3\n",
                                      SIGTERM);
    cr_assert_eq(exit_code, 75, "exit %d: %s", exit_code, output);
    expect_words(output, "before it could save anything");
}

Test(trainerd, a_limit_of_the_size_of_files_is_named_by_job_and_daemon)
{
    copy_program("trainer-coordinator");
    copy_program("trainer-worker");
    copy_program("trainctl");
    struct rlimit none = {0, RLIM_INFINITY}, unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    static const char *const config[] = {"--config", "job.toml", NULL}, *const listen[] = {"--listen", "unix:s",
                                                                                           "--state", "st", NULL};
    char words[COMMAND_BYTES];
    cr_assert_eq(mkfifo(folder_path("words"), 0600), 0); /* what they say is no file */
    for (int i = SANITIZED; i < 2; i++) {                /* UCX leaks what it could not use */
        pid_t child = fork();
        if (child == 0) {
            int to = open(folder_path("words"), O_WRONLY);
            dup2(to, STDERR_FILENO);
            dup2(to, STDOUT_FILENO);
            close(to);
            const char *const *more = i == 0 ? config : listen;
            const char *argv[] = {"trainerd", more[0], more[1], i == 0 ? NULL : more[2], i == 0 ? NULL : more[3],
                                  NULL};
            if (setrlimit(RLIMIT_FSIZE, &none) == 0 && chdir(folder) == 0) {
                execv("./trainerd", (char *const *)argv);
            }
            _exit(99);
        }
        size_t n = 0;
        int from = open(folder_path("words"), O_RDONLY), status;
        for (ssize_t got; (got = read(from, words + n, sizeof words - 1 - n)) > 0;) {
            n += (size_t)got;
        }
        words[n] = '\0';
        close(from);
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == (i == 0 ? 69 : 74), "%x: %s", status, words);
        expect_words(words, "(files may have at most 0 bytes: ulimit -f)");
    }
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command,
             "(ulimit -f 100; %s/trainctl doctor) | grep -A1 'size of files' | grep -q 'ulimit -f unlimited'",
             folder);
    cr_assert_eq(system(command), 0);
}
