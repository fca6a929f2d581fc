/* A daemon's GPUs as its users meet them, on a machine without GPUs: in a folder of the daemon's own lie a
 * worker that lists GPUs and a coordinator that says which ones it sees, and then trains on the cpu. */
#include "protocol/base/clock.h"
#include "tests/support/process/command.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/machines.h"
#include "tests/support/process/patience.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOB                                                                                                          \
    "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 4\ncache = \"off\"\n[workers]\nthreads = 1\n"           \
    "[train]\nepochs = 100000000\neval_every = 0\n"
#define TWO_GPUS                                                                                                     \
    "{\"gpus\":[{\"gpu\":0,\"ordinal\":0,\"uuid\":\"GPU-a\",\"name\":\"H100\",\"memory\":80000000000,\"memory_"      \
    "used\":5000},"                                                                                                  \
    "{\"gpu\":1,\"ordinal\":1,\"uuid\":\"GPU-b\",\"name\":\"H100\",\"memory\":80000000000,\"memory_used\":7000}]}"
#define NO_GPU "{\"gpus\":[],\"error\":\"no usable GPU: there is no driver for NVIDIA GPUs\"}"
#define ON_GPU "-s", "workers.device=cuda"

static struct process daemon_process;
static char address[128];

static void copy_program(const char *name)
{
    char program[PATH_MAX], command[2 * PATH_MAX];
    program_find(name, program, sizeof program);
    snprintf(command, sizeof command, "cp %s %s/bin/%s", program, folder, name);
    cr_assert_eq(system(command), 0);
}

/* A shell script in the program's place; `format` has two %s: the folder, and the program that stands for. */
static void fake_program(const char *name, const char *format)
{
    char program[PATH_MAX], text[3 * PATH_MAX], path[64];
    program_find(name, program, sizeof program);
    snprintf(text, sizeof text, format, folder, program);
    snprintf(path, sizeof path, "bin/%s", name);
    folder_write(path, text);
    cr_assert_eq(chmod(folder_path(path), 0755), 0);
}

static void make_all(void)
{
    folder_make();
    snprintf(address, sizeof address, "unix:%s/socket", folder);
    setenv("TRAINERD_TO", address, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    folder_write("job.toml", JOB);
    folder_write("gpus.json", TWO_GPUS);
    cr_assert_eq(mkdir(folder_path("bin"), 0755), 0);
    copy_program("trainerd");
    copy_program("trainctl");
    fake_program("trainer-worker", "#!/bin/sh\n[ \"$1\" != --gpus ] || exec cat %s/gpus.json\nexec %s \"$@\"\n");
    fake_program("trainer-coordinator", "#!/bin/sh\n: %s\necho \"sees <$CUDA_VISIBLE_DEVICES>\" >&2\n"
                                        "exec %s \"$@\" --set workers.device=cpu\n");
}

#define start(...) command_start(folder_path("bin/trainctl"), __VA_ARGS__)

/* Jobs that a failed test has left would outlive it. */
static void remove_all(void)
{
    RUN("cancel", "1", "2", "3");
    if (daemon_process.pid != 0) {
        kill(daemon_process.pid, SIGTERM);
        process_finish(&daemon_process);
    }
    folder_remove();
}

TestSuite(gpus_of_daemon, .init = make_all, .fini = remove_all, .timeout = 900);

static void daemon_begin(const char *gpus)
{
    const char *arguments[] = {folder_path("bin/trainerd"),
                               "--listen",
                               address,
                               "--state",
                               "state",
                               "--set",
                               gpus,
                               "--set",
                               "slots=8",
                               NULL};
    process_start(&daemon_process, NULL, folder, NULL, arguments);
    process_await_listening(&daemon_process);
}

static void daemon_stop(void)
{
    kill(daemon_process.pid, SIGTERM);
    process_finish(&daemon_process);
}

/* Ask until the answer has these words. */
static void await_status(const char *job, const char *words)
{
    double since_s = clock_s();
    do {
        cr_assert(patience_left(since_s), "job %s is never '%s': %s", job, words, output);
        cr_assert_eq(RUN("status", job, "--json"), 0, "%s", output);
    } while (strstr(printed, words) == NULL);
}

static void submit(const char *name, const char *n_worker)
{
    char count[32];
    snprintf(count, sizeof count, "workers.count=%s", n_worker);
    EXPECT(0, "", "submit", "job.toml", "-n", name, ON_GPU, "-s", count);
}

/* What the job's coordinator has said that it sees. */
static void expect_sees(const char *job, const char *gpus)
{
    char name[64], said[4096], line[128];
    snprintf(name, sizeof name, "state/jobs/%s/log", job);
    folder_read(name, said, sizeof said);
    snprintf(line, sizeof line, "sees <%s>\n", gpus);
    cr_assert_eq(strncmp(said, line, strlen(line)), 0, "not '%s': %s", line, said);
}

/* The jobs of GPU 0 and 1; 0: none. */
static void expect_jobs(int first, int second)
{
    cr_assert_eq(RUN("gpus", "--json"), 0, "%s", output);
    json_t *answer = json_loads(printed, 0, NULL), *list = json_object_get(answer, "gpus");
    const int expected[] = {first, second};
    cr_assert_eq(json_array_size(list), 2, "%s", printed);
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(json_integer_value(json_object_get(json_array_get(list, i), "job")), expected[i], "%s", printed);
    }
    json_decref(answer);
}

static void cancel(const char *job)
{
    EXPECT(0, "", "cancel", job);
    await_status(job, "\"CANCELLED\"");
}

Test(gpus_of_daemon, two_jobs_have_a_gpu_each_and_a_third_waits_for_the_one_that_is_freed)
{
    daemon_begin("gpus=auto");
    submit("a", "1");
    submit("b", "1");
    submit("c", "1");
    await_status("1", "\"RUNNING\"");
    await_status("2", "\"RUNNING\"");
    await_status("3", "0 of 2 GPUs are free, it needs 1");
    expect_sees("1", "GPU-a");
    expect_sees("2", "GPU-b");
    expect_jobs(1, 2);
    EXPECT(0, "GPU  MODEL   MEMORY  IN USE  JOB  NAME  OWNER", "gpus");
    expect_words(printed, "  1  H100   80.0 GB  7.0 kB    2  b     ");
    EXPECT(0, "STATE    GPUS  ", "status");
    EXPECT(0, "  on GPUs        1\n", "show", "2");
    EXPECT(0, "  HOST  GPU  MODEL   MEMORY  IN USE\n", "workers", "b");
    expect_words(printed, "  1  H100   80.0 GB  7.0 kB");
    cancel("1");
    await_status("3", "\"RUNNING\"");
    expect_sees("3", "GPU-a");
    expect_jobs(3, 2);
    cancel("2");
    cancel("3");
    expect_jobs(0, 0);
}

Test(gpus_of_daemon, a_daemon_that_is_killed_knows_after_its_restart_what_jobs_hold)
{
    daemon_begin("gpus=2");
    submit("a", "1");
    submit("b", "1");
    await_status("1", "\"RUNNING\"");
    await_status("2", "\"RUNNING\"");
    kill(daemon_process.pid, SIGKILL);
    process_finish(&daemon_process);
    daemon_begin("gpus=2");
    expect_jobs(1, 2);
    submit("c", "1");
    await_status("3", "0 of 2 GPUs are free, it needs 1");
    cancel("2");
    await_status("3", "\"RUNNING\"");
    expect_sees("3", "GPU-b");
    expect_jobs(1, 3);
    cancel("1");
    cancel("3");
}

Test(gpus_of_daemon, a_job_that_waits_outlasts_a_daemon_without_gpus)
{
    daemon_begin("gpus=auto");
    submit("a", "2");
    submit("b", "1");
    await_status("1", "\"RUNNING\"");
    await_status("2", "0 of 2 GPUs are free, it needs 1");
    daemon_stop();
    folder_write("gpus.json", NO_GPU);
    daemon_begin("gpus=auto");
    await_status("2", "it needs a GPU (workers.device), the daemon has no GPUs (daemon.gpus)");
    daemon_stop();
    folder_write("gpus.json", TWO_GPUS);
    daemon_begin("gpus=auto");
    expect_jobs(1, 1);
    cancel("1");
    await_status("2", "\"RUNNING\"");
    expect_sees("2", "GPU-a");
    cancel("2");
}

Test(gpus_of_daemon, a_job_has_a_gpu_for_each_worker_and_one_without_cuda_sees_none)
{
    setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
    daemon_begin("gpus=auto");
    submit("both", "2");
    EXPECT(0, "", "submit", "job.toml", "-n", "none");
    await_status("1", "\"RUNNING\"");
    await_status("2", "\"RUNNING\"");
    expect_sees("1", "GPU-a,GPU-b");
    expect_sees("2", "");
    EXPECT(0, "", "workers", "1", "--json");
    json_t *answer = json_loads(printed, 0, NULL), *list = json_object_get(answer, "workers");
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(json_integer_value(json_object_get(json_array_get(list, i), "gpu")), i, "%s", printed);
    }
    json_decref(answer);
    cancel("1");
    cancel("2");
}

/* A job whose workers are started elsewhere; nothing of it runs here but the coordinator. */
static void submit_manual(const char *name)
{
    folder_write("token", "0123456789abcdef0123456789abcdef\n");
    cr_assert_eq(chmod(folder_path("token"), 0600), 0);
    EXPECT(0, "", "submit", "job.toml", "-n", name, ON_GPU, "-s", "workers.count=2", "-s", "workers.launcher=manual",
           "-s", "workers.listen=127.0.0.1:0", "-s", "workers.token_file=token");
}

Test(gpus_of_daemon, a_job_whose_workers_are_on_other_machines_takes_none_of_this_one)
{
    daemon_begin("gpus=auto");
    submit_manual("elsewhere");
    await_status("1", "\"STARTING\"");
    expect_sees("1", "");
    expect_jobs(0, 0);
    EXPECT(0, " workers, 2 slots, 0 GPUs, priority ", "show", "1");
    cr_assert_null(strstr(printed, "on GPUs"), "%s", printed);
    submit("both", "2");
    await_status("2", "\"RUNNING\"");
    expect_sees("2", "GPU-a,GPU-b");
    expect_jobs(2, 2);
    cancel("2");
    cancel("1");
}

Test(gpus_of_daemon, one_that_is_given_fewer_than_there_are_shares_the_first)
{
    daemon_begin("gpus=1");
    submit("a", "1");
    submit("b", "1");
    await_status("1", "\"RUNNING\"");
    await_status("2", "0 of 1 GPUs are free, it needs 1");
    expect_sees("1", "GPU-a");
    cancel("1");
    cancel("2");
}

Test(gpus_of_daemon, gpus_that_no_worker_sees_go_by_the_numbers_of_what_the_daemon_sees)
{
    folder_write("gpus.json", NO_GPU);
    setenv("CUDA_VISIBLE_DEVICES", "7,2,3", 1);
    daemon_begin("gpus=2");
    expect_words(daemon_process.words, "daemon.gpus is 2: no usable GPU: there is no driver");
    submit("a", "1");
    submit("b", "1");
    await_status("1", "\"RUNNING\"");
    await_status("2", "\"RUNNING\"");
    expect_sees("1", "2");
    expect_sees("2", "7");
    EXPECT(0, "7  -           -       -    2  b", "gpus");
    cancel("1");
    cancel("2");
}

Test(gpus_of_daemon, where_a_worker_finds_none_auto_is_none_and_jobs_are_told_so)
{
    folder_write("gpus.json", NO_GPU);
    daemon_begin("gpus=auto");
    expect_words(daemon_process.words, "daemon.gpus is \\\"auto\\\": no usable GPU: there is no driver");
    EXPECT(78,
           "job.toml: workers.device is \"cuda\", but the daemon has no GPUs to give (daemon.gpus, in trainerd.toml)",
           "submit", "job.toml", ON_GPU);
    EXPECT(0, "the daemon has no GPUs to give to jobs", "gpus");
    submit_manual("elsewhere"); /* its workers are on other machines */
    await_status("1", "\"STARTING\"");
    cancel("1");
}

Test(gpus_of_daemon, doctor_says_when_the_machine_has_gpus_that_the_daemon_does_not_share)
{
    daemon_begin("gpus=0");
    RUN("doctor");
    expect_words(printed, "warn  daemon's GPUs        none: its jobs compute on the CPU\n");
    daemon_stop();
    daemon_begin("gpus=auto");
    RUN("doctor");
    expect_words(printed, "ok    daemon's GPUs        2, 2 free: trainctl gpus\n");
}
