/* Whole jobs as their users run them: a job file in, exit code and output folder out, with real workers on this machine. */
#include "protocol/base/clock.h"
#include "tests/support/process/fleet_case.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

JOB_SUITE(job, 900,
          "[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n[model]\nhidden = 8\n"
          "[workers]\nthreads = 1\n");

/* There is one last line for people, which holds `part`; nothing is printed. */
static void expect_reason(const char *words, const char *part)
{
    char printed[16];
    const char *reason = strstr(words, "trainerd: ");
    cr_assert_not_null(reason, "no reason in: %s", words);
    cr_assert_null(strstr(reason + 1, "trainerd: "), "one reason only: %s", words);
    cr_assert_eq(strchr(reason, '\n')[1], '\0', "the reason comes last: %s", words);
    cr_assert_not_null(strstr(reason, part), "'%s' is not in: %s", part, reason);
    folder_read("stdout", printed, sizeof printed);
    cr_assert_str_eq(printed, "");
}

static void expect_failure(int code, const char *part, const char *settings)
{
    job_run_expect(code, part, "", settings);
    expect_reason(job_run_log, part);
}

/* --- jobs that end well --- */

Test(job, two_workers_leave_the_same_files_as_one)
{
    job_run("--set partition.parts=4 --set train.epochs=12 --set model.dropout=0.5 --set output.dir=one");
    job_run("--set partition.parts=4 --set train.epochs=12 --set model.dropout=0.5 --set output.dir=two --set "
            "workers.count=2");
    results_expect_same(folder_path("one"), folder_path("two"), false);
    cr_assert_not_null(strstr(job_run_log, "results in two\n"), "%s", job_run_log);
}

Test(job, without_parts_any_number_of_workers_leaves_the_same_files_up_to_one_a_part)
{
    job_run("--set train.epochs=6 --set output.dir=one");
    cr_assert_not_null(strstr(job_run_log, "8 parts by the graph's size"), "%s", job_run_log);
    job_run("--set train.epochs=6 --set output.dir=three --set workers.count=3");
    job_run("--set train.epochs=6 --set output.dir=eight --set workers.count=8");
    results_expect_same(folder_path("one"), folder_path("three"), false);
    results_expect_same(folder_path("one"), folder_path("eight"), false);
    expect_failure(78, "workers.count = 9 is more than partition.parts, which is 8 for 'karate'",
                   "--set workers.count=9");
}

Test(job, result_json_says_how_it_went)
{
    job_run("--set workers.count=2 --set train.epochs=10 --set 'name=say it' --set output.dir=o");
    json_t *result = results_of("o");
    cr_assert_str_eq(json_string_value(json_object_get(result, "state")), "SUCCEEDED");
    cr_assert_eq(results_number(json_object_get(result, "last"), "epoch"), 9);
    cr_assert(results_number(json_object_get(result, "best"), "valid_metric") >=
              results_number(json_object_get(result, "last"), "valid_metric"));
    cr_assert_gt(results_number(json_object_get(result, "seconds"), "train"), 0);
    cr_assert_gt(results_number(json_object_get(result, "seconds"), "epoch_mean"), 0);
    cr_assert_eq(results_number(result, "allocations_in_epochs"), 0);
    cr_assert_eq(results_number(json_object_get(result, "partition"), "parts"), 8);
    cr_assert_eq(results_number(json_object_get(result, "dataset"), "nodes"), 34);
    json_t *memory = json_object_get(result, "memory");
    cr_assert_eq(json_array_size(memory), 2);
    results_expect_memory(result, "all", "two workers");
    json_t *job = json_object_get(result, "job");
    cr_assert_str_eq(json_string_value(json_object_get(job, "name")), "say it");
    cr_assert_eq(results_number(json_object_get(job, "train"), "epochs"), 10);
    cr_assert_not_null(strstr(json_string_value(json_object_get(result, "job_text")), "epochs = 10\n"));
    json_decref(result);
    json_t *metrics = results_metrics(folder_path("o"), true);
    cr_assert_eq(json_array_size(metrics), 10);
    json_decref(metrics);
}

Test(job, no_epochs_means_the_initial_weights_are_evaluated)
{
    job_run("--set train.epochs=0 --set output.dir=o");
    size_t n, m;
    char *last = results_bytes(folder_path("o/model.safetensors"), &n),
         *best = results_bytes(folder_path("o/best.safetensors"), &m);
    cr_assert(n == m && memcmp(last, best, n) == 0);
    free(last);
    free(best);
    json_t *result = results_of("o"), *metrics = results_metrics(folder_path("o"), true);
    cr_assert(json_is_null(json_object_get(json_object_get(result, "last"), "epoch")));
    cr_assert_gt(results_number(json_object_get(result, "last"), "loss"), 0);
    cr_assert_eq(json_array_size(metrics), 0);
    json_decref(result);
    json_decref(metrics);
}

Test(job, trained_weights_may_be_the_start_of_another_job)
{
    job_run("--set train.epochs=5 --set output.dir=first");
    job_run("--set train.epochs=0 --set output.dir=second --set model.init=first/best.safetensors");
    results_expect_same_file(folder_path("first"), folder_path("second"), "best.safetensors");
    results_expect_same_file(folder_path("first"), folder_path("second"), "logits.npy");
}

static double planned_traffic(int n_part)
{
    json_t *plan = job_run_plan(
        "--set workers.count=2 --set partition.parts=%d --set dataset.generator=sbm --set dataset.nodes=4000 "
        "--set dataset.degree=12 --set partition.method=metis --set train.prune=never",
        n_part);
    cr_assert_not(folder_has("runs"));
    double bytes = results_number(plan, "bytes_per_epoch");
    json_decref(plan);
    return bytes;
}

Test(job, more_parts_on_the_same_workers_send_hardly_more)
{
    double two = planned_traffic(2), many = planned_traffic(64);
    cr_expect_leq(many, 1.2 * two, "%.0f bytes with 64 parts, %.0f with 2", many, two);
}

#define GAT                                                                                                          \
    "--set model.kind=gat --set model.heads=8 --set model.layers=3 --set memory.recompute=%s --set "                 \
    "memory.limit=%.0f "

/* What the one worker takes by plan; how many ops run again. */
static double planned_bytes(const char *how, double limit, size_t *n_again_out)
{
    json_t *plan = job_run_plan(GAT, how, limit);
    json_t *worker = json_array_get(json_object_get(plan, "workers"), 0);
    double all = results_number(json_object_get(worker, "memory"), "all");
    *n_again_out = json_array_size(json_object_get(worker, "recomputed"));
    json_decref(plan);
    return all;
}

Test(job, a_limit_decides_what_is_made_again_and_the_result_stays_the_same)
{
    size_t n_again, n_light;
    double never = planned_bytes("never", 0.0, &n_again);
    cr_assert_eq(n_again, 0);
    double always = planned_bytes("always", 0.0, &n_again);
    cr_assert_gt(n_again, 0);
    cr_assert_lt(always, never);
    double light = planned_bytes("auto", never, &n_light);
    cr_assert_lt(light, never);
    cr_assert_leq(planned_bytes("auto", light - 1, &n_again), light - 1);
    cr_assert_gt(n_again, n_light, "more is made again where that does not fit");

    char needs[64], settings[256];
    snprintf(needs, sizeof needs, "needs %.0f bytes", always);
    snprintf(settings, sizeof settings, GAT, "auto", always - 1);
    expect_failure(71, needs, settings);
    snprintf(settings, sizeof settings, GAT, "never", never - 1);
    expect_failure(71, "memory.recompute = \"auto\"", settings);
    job_run(GAT "--set train.epochs=5 --set output.dir=most", "never", 0.0);
    job_run(GAT "--set train.epochs=5 --set output.dir=least", "auto", always);
    results_expect_same_file(folder_path("least"), folder_path("most"), "model.safetensors");
}

/* --- jobs that are stopped --- */

struct stopped {
    pid_t pid;
    FILE *err;
    char words[1 << 16];
};

static void keep_line(struct stopped *run, const char *line)
{
    size_t n = strlen(run->words);
    snprintf(run->words + n, sizeof run->words - n, "%s", line);
}

/* Start a job that does not end before it is stopped, however late that comes, and wait for its first epoch. */
static void start(struct stopped *run, const char *first, const char *second)
{
    char program[PATH_MAX], line[1024];
    int err[2];
    program_find("trainer-coordinator", program, sizeof program);
    cr_assert_eq(pipe2(err, O_CLOEXEC), 0);
    *run = (struct stopped){.pid = fork()};
    if (run->pid == 0) {
        dup2(open(folder_path("stdout"), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        if (chdir(folder) == 0) {
            execl(program, program, "--config", "job.toml", "--set", "train.epochs=100000000", "--set",
                  "workers.count=2", "--set", "model.dropout=0.5", "--set", first, "--set", second, NULL);
        }
        _exit(99);
    }
    close(err[1]);
    run->err = fdopen(err[0], "r");
    while (fgets(line, sizeof line, run->err) != NULL) {
        keep_line(run, line);
        if (strncmp(line, "epoch 1/", 8) == 0) {
            return;
        }
    }
    cr_assert_fail("no epoch: %s", run->words);
}

/* It ends with this exit code and reason, and so do its workers. */
static void expect_end(struct stopped *run, const pid_t workers[2], int code, const char *reason)
{
    char line[1024];
    int status = 0;
    while (fgets(line, sizeof line, run->err) != NULL) {
        keep_line(run, line);
    }
    fclose(run->err);
    cr_assert_eq(waitpid(run->pid, &status, 0), run->pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == code, "status %x: %s", status, run->words);
    expect_reason(run->words, reason);
    for (int i = 0; i < 2; i++) {
        cr_assert(kill(workers[i], 0) == -1 && errno == ESRCH, "worker %d is left", workers[i]);
    }
}

/* The job in folder two was stopped: resumed in this way for some epochs more it leaves what one leaves that never was. */
static void expect_resumed(int n_worker, bool with_traffic)
{
    long long n = results_checkpoint(folder_path("two"));
    cr_assert_gt(n, 0);
    cr_assert_not(folder_has("two/result.json"));
    job_run("--set train.epochs=%lld --set output.dir=one --set workers.count=2 --set model.dropout=0.5", n + 50);
    job_run("--set train.epochs=%lld --set output.dir=two --set workers.count=%d --set model.dropout=0.5 --resume",
            n + 50, n_worker);
    results_expect_same(folder_path("one"), folder_path("two"), with_traffic);
}

Test(job, interrupted_and_resumed_it_leaves_the_same_files)
{
    static struct stopped run;
    pid_t workers[2];
    start(&run, "output.dir=two", "name=two");
    cr_assert_eq(fleet_workers(run.pid, workers, 2), 2);
    cr_assert_eq(kill(run.pid, SIGINT), 0);
    expect_end(&run, workers, 75, "checkpoint saved in 'two/.run-2");
    expect_resumed(2, true);
}

Test(job, running_statistics_go_on_from_a_checkpoint)
{
    job_run("--set model.norm=batch --set train.epochs=12 --set output.dir=one");
    job_run("--set model.norm=batch --set train.epochs=7 --set train.checkpoint_every=7 --set output.dir=two");
    job_run("--set model.norm=batch --set train.epochs=12 --set output.dir=two --resume");
    results_expect_same(folder_path("one"), folder_path("two"), true);
}

Test(job, a_killed_worker_ends_the_job_with_69_and_the_last_checkpoint_goes_on)
{
    static struct stopped run;
    pid_t workers[2];
    start(&run, "output.dir=two", "train.checkpoint_every=10");
    for (double since = clock_s(); results_checkpoint(folder_path("two")) == 0 && patience_left(since);) {
    }
    cr_assert_eq(fleet_workers(run.pid, workers, 2), 2);
    cr_assert_eq(kill(workers[1], SIGKILL), 0);
    expect_end(&run, workers, 69, "signal 9");
    expect_resumed(1, false); /* fewer workers, the same parts: the same bits */
}

/* A stopped worker never ends its epoch. */
Test(job, a_second_interrupt_ends_it_at_once)
{
    static struct stopped run;
    pid_t workers[2];
    start(&run, "output.dir=o", "workers.heartbeat_timeout=600");
    cr_assert_eq(fleet_workers(run.pid, workers, 2), 2);
    cr_assert_eq(kill(workers[1], SIGSTOP), 0);
    cr_assert_eq(kill(run.pid, SIGTERM), 0);
    cr_assert_eq(kill(run.pid, SIGINT), 0);
    expect_end(&run, workers, 75, "too soon to write a checkpoint");
}

Test(job, a_resume_without_output_dir_goes_on_in_the_newest_run)
{
    static struct stopped run;
    pid_t workers[2];
    char target[64] = "", path[128];
    start(&run, "name=job", "workers.threads=1");
    cr_assert_eq(fleet_workers(run.pid, workers, 2), 2);
    cr_assert_eq(kill(run.pid, SIGINT), 0);
    expect_end(&run, workers, 75, "");
    cr_assert_gt(readlink(folder_path("runs/job"), target, sizeof target - 1), 0);
    job_run("--set train.epochs=%lld --set model.dropout=0.5 --resume",
            results_checkpoint(folder_path("runs/job")) + 5);
    snprintf(path, sizeof path, "resuming 'runs/%s/checkpoint/epoch-", target);
    cr_assert_not_null(strstr(job_run_log, path), "%s", job_run_log);
    snprintf(path, sizeof path, "runs/%s/result.json", target);
    cr_assert(folder_has(path));
}

/* --- jobs that cannot be done --- */

Test(job, a_wrong_command_line_leaves_with_2)
{
    expect_failure(2, "unknown option '--wrong'", "--wrong");
    expect_failure(2, "--json goes with --plan", "--json");
    expect_failure(2, "--steps goes with --plan", "--steps");
    expect_failure(2, "--roofline goes with --plan", "--roofline");
    expect_failure(2, "--device goes with --roofline", "--device x --plan");
    expect_failure(2, "--set needs a value", "--set");
}

Test(job, a_bad_job_leaves_with_78)
{
    expect_failure(78, "train.lr", "--set train.lr=-1");
    expect_failure(78, "expected \"cross_entropy\"", "--set train.loss=bce");
    expect_failure(78, "35", "--set partition.parts=35");
    cr_assert_not(folder_has("runs"));
}

Test(job, missing_input_leaves_with_66)
{
    expect_failure(66, "nowhere", "--set dataset.generator=none --set dataset.path=nowhere");
    expect_failure(66, "nothing.safetensors", "--set model.init=nothing.safetensors");
    expect_failure(66, "nothing to resume: 'runs/job/checkpoint'", "--resume");
    cr_assert_not(folder_has("runs"), "no folder of a failed job is left");
}

Test(job, bad_data_leaves_with_65)
{
    folder_write("broken.safetensors", "not one of those");
    expect_failure(65, "broken.safetensors", "--set model.init=broken.safetensors");
    cr_assert_not(folder_has("runs"));
    job_run("--set train.epochs=4 --set train.checkpoint_every=4 --set output.dir=o");
    cr_assert_eq(truncate(folder_path("o/checkpoint/epoch-4.ckpt"), 1000), 0);
    expect_failure(65, "epoch-4.ckpt' is damaged", "--set train.epochs=8 --set output.dir=o --resume");
}

Test(job, another_jobs_checkpoint_leaves_with_78)
{
    job_run("--set train.epochs=4 --set train.checkpoint_every=4 --set output.dir=o");
    expect_failure(78, "model.layers is 3", "--set model.layers=3 --set output.dir=o --resume");
    job_run("--set train.epochs=8 --set output.dir=o --resume");
    json_t *metrics = results_metrics(folder_path("o"), true);
    cr_assert_eq(json_array_size(metrics), 8);
    json_decref(metrics);
}

Test(job, an_output_folder_that_cannot_be_leaves_with_73)
{
    folder_write("file", "");
    expect_failure(73, "'file/out'", "--set output.dir=file/out");
}

Test(job, more_memory_than_allowed_leaves_with_71_and_the_number)
{
    expect_failure(71, "memory.limit is 4096", "--set memory.limit=4096");
    expect_failure(71, "with workers.count = 2 on one machine, more than ",
                   "--set workers.count=2 --set model.hidden=65536 --set model.layers=32");
    cr_assert_not(folder_has("runs"));
}

Test(job, a_full_disk_leaves_with_74_and_whole_lines)
{
    cr_assert_eq(mkdir(folder_path("small"), 0700), 0);
    /* In a mount namespace of this test's own: nothing stays mounted, however the test ends. */
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder_path("small"), "tmpfs", 0, "size=64k") != 0) {
        cr_skip_test("a small file system cannot be mounted: %s", strerror(errno));
    }
    int code = job_run_code("", "--set output.dir=small/o --set train.epochs=3000");
    json_t *metrics = results_metrics(results_run(folder_path("small/o")), true);
    bool has_result = folder_has("small/o/result.json");
    size_t n = json_array_size(metrics);
    json_decref(metrics);
    cr_assert_eq(umount(folder_path("small")), 0);
    cr_assert_eq(code, 74, "exit %d: %s", code, job_run_log);
    expect_reason(job_run_log, "No space left on device");
    cr_assert(n > 10 && n < 3000, "%zu lines", n);
    cr_assert_not(has_result);
}
