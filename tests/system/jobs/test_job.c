/* Whole jobs as their users run them: a job file in, exit code and output folder out, with real workers on this machine. */
#include "protocol/base/clock.h"
#include "tests/support/process/fleet_case.h"
#include "tests/support/process/folder.h"
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

static char program[PATH_MAX]; /* the coordinator beside this test */
static char words[1 << 16];    /* what the last job wrote to stderr */
static char printed[1 << 16];  /* and to stdout */

static void make_all(void)
{
    program_find("trainer-coordinator", program, sizeof program);
    folder_make();
}

TestSuite(job, .init = make_all, .fini = folder_remove, .timeout = 900);

/* --- a job under way --- */

struct job_run {
    pid_t pid;
    FILE *err;
};

/* Start the coordinator in the folder, with karate as its graph and these further arguments. */
static struct job_run start(const char *const arguments[])
{
    folder_write("job.toml", "[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n");
    const char *argv[48] = {program, "--config", "job.toml", "--set", "workers.threads=1", "--set", "model.hidden=8"};
    int n = 7;
    for (int i = 0; arguments[i] != NULL; i++) {
        argv[n++] = arguments[i];
    }
    int err[2];
    cr_assert_eq(pipe2(err, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int out = open(folder_path("stdout"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        if (chdir(folder) == 0) {
            execv(argv[0], (char *const *)argv);
        }
        _exit(99);
    }
    close(err[1]);
    words[0] = '\0';
    return (struct job_run){.pid = pid, .err = fdopen(err[0], "r")};
}

static void keep(const char *line)
{
    size_t n = strlen(words);
    snprintf(words + n, sizeof words - n, "%s", line);
}

/* Read stderr up to the first line that begins with `word`. */
static void await(struct job_run *run, const char *word)
{
    char line[1024];
    while (fgets(line, sizeof line, run->err) != NULL) {
        keep(line);
        if (strncmp(line, word, strlen(word)) == 0) {
            return;
        }
    }
    cr_assert_fail("'%s' never came: %s", word, words);
}

/* Wait for the end; the exit code, or 1000 + the signal that ended it. */
static int finish(struct job_run *run)
{
    char line[1024];
    while (fgets(line, sizeof line, run->err) != NULL) {
        keep(line);
    }
    fclose(run->err);
    int status = 0;
    while (waitpid(run->pid, &status, 0) != run->pid) {
        cr_assert_eq(errno, EINTR);
    }
    folder_read("stdout", printed, sizeof printed);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define START(...) start(ARGUMENTS(__VA_ARGS__))
#define RUN(...) run_job(ARGUMENTS(__VA_ARGS__))

static int run_job(const char *const arguments[])
{
    struct job_run run = start(arguments);
    return finish(&run);
}

#define EXPECT(code, ...)                                                                                            \
    do {                                                                                                             \
        int got = RUN(__VA_ARGS__);                                                                                  \
        cr_assert_eq(got, code, "exit %d: %s", got, words);                                                          \
    } while (0)

/* The job ends with this exit code and one last line for people that holds `part`. */
#define EXPECT_FAILURE(code, part, ...)                                                                              \
    do {                                                                                                             \
        EXPECT(code, __VA_ARGS__);                                                                                   \
        expect_reason(part);                                                                                         \
    } while (0)

static void expect_reason(const char *part)
{
    const char *reason = strstr(words, "trainerd: ");
    cr_assert_not_null(reason, "no reason in: %s", words);
    cr_assert_null(strstr(reason + 1, "trainerd: "), "one reason only: %s", words);
    cr_assert_eq(strchr(reason, '\n')[1], '\0', "the reason comes last: %s", words);
    cr_assert_not_null(strstr(reason, part), "'%s' is not in: %s", part, reason);
    cr_assert_str_eq(printed, "");
}

static void expect_gone(const pid_t pids[], int n)
{
    for (int i = 0; i < n; i++) {
        cr_assert_eq(kill(pids[i], 0), -1, "worker %d is left", pids[i]);
        cr_assert_eq(errno, ESRCH);
    }
}

/* --- jobs that end well --- */

Test(job, two_workers_leave_the_same_files_as_one)
{
    EXPECT(0, "--set", "partition.parts=4", "--set", "train.epochs=12", "--set", "model.dropout=0.5", "--set",
           "output.dir=one");
    EXPECT(0, "--set", "partition.parts=4", "--set", "train.epochs=12", "--set", "model.dropout=0.5", "--set",
           "output.dir=two", "--set", "workers.count=2");
    results_expect_same(folder_path("one"), folder_path("two"), false);
    cr_assert_str_eq(printed, "");
    cr_assert_not_null(strstr(words, "results in two\n"), "%s", words);
}

Test(job, without_parts_any_number_of_workers_leaves_the_same_files_up_to_one_a_part)
{
    EXPECT(0, "--set", "train.epochs=6", "--set", "output.dir=one");
    cr_assert_not_null(strstr(words, "8 parts by the graph's size"), "%s", words);
    EXPECT(0, "--set", "train.epochs=6", "--set", "output.dir=three", "--set", "workers.count=3");
    EXPECT(0, "--set", "train.epochs=6", "--set", "output.dir=eight", "--set", "workers.count=8");
    results_expect_same(folder_path("one"), folder_path("three"), false);
    results_expect_same(folder_path("one"), folder_path("eight"), false);
    EXPECT_FAILURE(78, "workers.count = 9 is more than partition.parts, which is 8 for 'karate'", "--set",
                   "workers.count=9");
}

Test(job, result_json_says_how_it_went)
{
    EXPECT(0, "--set", "workers.count=2", "--set", "train.epochs=10", "--set", "name=say it", "--set",
           "output.dir=o");
    json_t *result = results_json(folder_path("o/result.json"));
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
    EXPECT(0, "--set", "train.epochs=0", "--set", "output.dir=o");
    size_t n, m;
    char *last = results_bytes(folder_path("o/model.safetensors"), &n),
         *best = results_bytes(folder_path("o/best.safetensors"), &m);
    cr_assert(n == m && memcmp(last, best, n) == 0);
    free(last);
    free(best);
    json_t *result = results_json(folder_path("o/result.json")), *metrics = results_metrics(folder_path("o"), true);
    cr_assert(json_is_null(json_object_get(json_object_get(result, "last"), "epoch")));
    cr_assert_gt(results_number(json_object_get(result, "last"), "loss"), 0);
    cr_assert_eq(json_array_size(metrics), 0);
    json_decref(result);
    json_decref(metrics);
}

Test(job, trained_weights_may_be_the_start_of_another_job)
{
    EXPECT(0, "--set", "train.epochs=5", "--set", "output.dir=first");
    EXPECT(0, "--set", "train.epochs=0", "--set", "output.dir=second", "--set", "model.init=first/best.safetensors");
    results_expect_same_file(folder_path("first"), folder_path("second"), "best.safetensors");
    results_expect_same_file(folder_path("first"), folder_path("second"), "logits.npy");
}

static void expect_planned_traffic(const char *norm)
{
    EXPECT(0, "--set", "workers.count=3", "--set", "partition.parts=5", "--set", "train.eval_every=0", "--set",
           "output.dir=o", "--set", norm, "--plan", "--json");
    cr_assert_not(folder_has("o"));
    json_t *plan = json_loads(printed, 0, NULL);
    cr_assert_not_null(plan, "%s", printed);
    double per_epoch = results_number(plan, "bytes_per_epoch"),
           evaluation = results_number(plan, "bytes_per_evaluation");
    cr_assert_eq(json_array_size(json_object_get(plan, "workers")), 3);
    cr_assert_eq(json_array_size(json_object_get(plan, "parts")), 5);
    double forward = 0, backward = 0, reduce = results_number(json_object_get(plan, "traffic"), "reduce");
    size_t l;
    json_t *layer;
    json_array_foreach(json_object_get(json_object_get(plan, "traffic"), "layers"), l, layer)
    {
        forward += results_number(layer, "forward");
        backward += results_number(layer, "backward");
    }
    cr_expect_eq(forward + backward + reduce, per_epoch);
    json_decref(plan);
    EXPECT(0, "--set", "workers.count=3", "--set", "partition.parts=5", "--set", "train.eval_every=0", "--set",
           "output.dir=o", "--set", norm, "--set", "train.epochs=2");
    json_t *metrics = results_metrics(folder_path("o"), true);
    cr_assert_eq(results_number(json_array_get(metrics, 0), "bytes_received"), per_epoch);
    cr_assert_eq(results_number(json_array_get(metrics, 1), "bytes_received"), per_epoch + evaluation);
    cr_assert_eq(results_number(json_array_get(metrics, 0), "bytes_forward"), forward);
    cr_assert_eq(results_number(json_array_get(metrics, 0), "bytes_backward"), backward);
    cr_assert_eq(results_number(json_array_get(metrics, 0), "bytes_reduce"), reduce);
    cr_assert_eq(results_number(json_array_get(metrics, 0), "bytes_evaluate"), 0);
    cr_assert_gt(results_number(json_array_get(metrics, 1), "bytes_evaluate"), 0);
    json_decref(metrics);
}

Test(job, the_plan_tells_traffic_as_it_is_measured_and_makes_nothing)
{
    expect_planned_traffic("model.norm=none");
}

static double planned_traffic(const char *parts)
{
    EXPECT(0, "--set", "workers.count=2", "--set", parts, "--set", "dataset.generator=sbm", "--set",
           "dataset.nodes=4000", "--set", "dataset.degree=12", "--set", "partition.method=metis", "--set",
           "train.prune=never", "--plan", "--json");
    json_t *plan = json_loads(printed, 0, NULL);
    cr_assert_not_null(plan, "%s", printed);
    double bytes = results_number(plan, "bytes_per_epoch");
    json_decref(plan);
    return bytes;
}

Test(job, more_parts_on_the_same_workers_send_hardly_more)
{
    double two = planned_traffic("partition.parts=2"), many = planned_traffic("partition.parts=64");
    cr_expect_leq(many, 1.2 * two, "%.0f bytes with 64 parts, %.0f with 2", many, two);
}

static char how_setting[64], limit_setting[64];

static void memory_set(const char *how, double limit)
{
    snprintf(how_setting, sizeof how_setting, "memory.recompute=%s", how);
    snprintf(limit_setting, sizeof limit_setting, "memory.limit=%.0f", limit);
}

#define GAT_SO_SET                                                                                                   \
    "--set", how_setting, "--set", limit_setting, "--set", "model.kind=gat", "--set", "model.heads=8", "--set",      \
        "model.layers=3"

/* What the one worker takes by plan; how many ops run again. */
static double planned_bytes(const char *how, double limit, size_t *n_again_out)
{
    memory_set(how, limit);
    EXPECT(0, GAT_SO_SET, "--plan", "--json");
    json_t *plan = json_loads(printed, 0, NULL);
    json_t *worker = json_array_get(json_object_get(plan, "workers"), 0);
    double all = results_number(json_object_get(worker, "memory"), "all");
    *n_again_out = json_array_size(json_object_get(worker, "recomputed"));
    json_decref(plan);
    return all;
}

Test(job, a_limit_decides_what_is_made_again_and_the_result_stays_the_same)
{
    size_t n_again;
    double never = planned_bytes("never", 0.0, &n_again);
    cr_assert_eq(n_again, 0);
    double always = planned_bytes("always", 0.0, &n_again);
    cr_assert_gt(n_again, 0);
    cr_assert_lt(always, never);
    cr_assert_leq(planned_bytes("auto", never, &n_again), never);
    cr_assert_eq(n_again, 0, "it fits as it is");
    cr_assert_leq(planned_bytes("auto", never - 1, &n_again), never - 1);
    cr_assert_gt(n_again, 0);

    char needs[64];
    snprintf(needs, sizeof needs, "needs %.0f bytes", always);
    memory_set("auto", always - 1);
    EXPECT_FAILURE(71, needs, GAT_SO_SET);
    memory_set("never", never - 1);
    EXPECT_FAILURE(71, "memory.recompute = \"auto\"", GAT_SO_SET);
    EXPECT(0, GAT_SO_SET, "--set", "train.epochs=5", "--set", "output.dir=most", "--set", "memory.limit=0");
    memory_set("auto", always);
    EXPECT(0, GAT_SO_SET, "--set", "train.epochs=5", "--set", "output.dir=least");
    results_expect_same_file(folder_path("least"), folder_path("most"), "model.safetensors");
}

Test(job, the_plan_counts_batch_norms_sums_in_training_and_none_in_evaluation)
{
    expect_planned_traffic("model.norm=batch");
}

Test(job, the_plan_counts_the_sum_of_hidden_labels)
{
    expect_planned_traffic("model.label_input=true");
}

/* --- jobs that are stopped --- */

/* A job that does not end before it is stopped, however late that comes. */
#define ENDLESS "--set", "train.epochs=100000000", "--set", "workers.count=2", "--set", "model.dropout=0.5"

/* The job in folder two was stopped: resumed in this way for some epochs more it leaves what one leaves that never was. */
static void expect_resumed(int n_worker, bool with_traffic)
{
    char epochs[64], workers[32];
    long long n = results_checkpoint(folder_path("two"));
    cr_assert_gt(n, 0);
    cr_assert_not(folder_has("two/result.json"));
    snprintf(epochs, sizeof epochs, "train.epochs=%lld", n + 50);
    snprintf(workers, sizeof workers, "workers.count=%d", n_worker);
    EXPECT(0, "--set", epochs, "--set", "output.dir=one", "--set", "workers.count=2", "--set", "model.dropout=0.5");
    EXPECT(0, "--set", epochs, "--set", "output.dir=two", "--set", workers, "--set", "model.dropout=0.5", "--resume");
    results_expect_same(folder_path("one"), folder_path("two"), with_traffic);
}

Test(job, interrupted_and_resumed_it_leaves_the_same_files)
{
    struct job_run run = START(ENDLESS, "--set", "output.dir=two");
    await(&run, "epoch 1/");
    pid_t workers[4];
    int n = fleet_workers(run.pid, workers, 4);
    cr_assert_eq(n, 2);
    cr_assert_eq(kill(run.pid, SIGINT), 0);
    int code = finish(&run);
    cr_assert_eq(code, 75, "exit %d: %s", code, words);
    expect_reason("checkpoint saved in 'two/.run-2");
    expect_gone(workers, n);
    expect_resumed(2, true);
}

Test(job, running_statistics_go_on_from_a_checkpoint)
{
    EXPECT(0, "--set", "model.norm=batch", "--set", "train.epochs=12", "--set", "output.dir=one");
    EXPECT(0, "--set", "model.norm=batch", "--set", "train.epochs=7", "--set", "train.checkpoint_every=7", "--set",
           "output.dir=two");
    EXPECT(0, "--set", "model.norm=batch", "--set", "train.epochs=12", "--set", "output.dir=two", "--resume");
    results_expect_same(folder_path("one"), folder_path("two"), true);
}

Test(job, a_killed_worker_ends_the_job_with_69_and_the_last_checkpoint_goes_on)
{
    struct job_run run = START(ENDLESS, "--set", "output.dir=two", "--set", "train.checkpoint_every=10");
    await(&run, "epoch 1/");
    for (double since = clock_s(); results_checkpoint(folder_path("two")) == 0 && patience_left(since);) {
    }
    pid_t workers[4];
    int n = fleet_workers(run.pid, workers, 4);
    cr_assert_eq(n, 2);
    cr_assert_eq(kill(workers[1], SIGKILL), 0);
    int code = finish(&run);
    cr_assert_eq(code, 69, "exit %d: %s", code, words);
    expect_reason("signal 9");
    expect_gone(workers, n);
    expect_resumed(1, false); /* fewer workers, the same parts: the same bits */
}

Test(job, a_second_interrupt_ends_it_at_once)
{
    /* A stopped worker never ends its epoch. */
    struct job_run run = START(ENDLESS, "--set", "output.dir=o", "--set", "workers.heartbeat_timeout=600");
    await(&run, "epoch 1/");
    pid_t workers[4];
    int n = fleet_workers(run.pid, workers, 4);
    cr_assert_eq(n, 2);
    cr_assert_eq(kill(workers[1], SIGSTOP), 0);
    cr_assert_eq(kill(run.pid, SIGTERM), 0);
    cr_assert_eq(kill(run.pid, SIGINT), 0);
    int code = finish(&run);
    cr_assert_eq(code, 75, "exit %d: %s", code, words);
    expect_reason("too soon to write a checkpoint");
    expect_gone(workers, n);
}

Test(job, a_resume_without_output_dir_goes_on_in_the_newest_run)
{
    struct job_run run = START(ENDLESS);
    await(&run, "epoch 1/");
    cr_assert_eq(kill(run.pid, SIGINT), 0);
    cr_assert_eq(finish(&run), 75, "%s", words);
    char target[64] = "", epochs[64], path[128];
    cr_assert_gt(readlink(folder_path("runs/job"), target, sizeof target - 1), 0);
    snprintf(epochs, sizeof epochs, "train.epochs=%lld", results_checkpoint(folder_path("runs/job")) + 5);
    EXPECT(0, "--set", epochs, "--set", "model.dropout=0.5", "--resume");
    snprintf(path, sizeof path, "resuming 'runs/%s/checkpoint/epoch-", target);
    cr_assert_not_null(strstr(words, path), "%s", words);
    snprintf(path, sizeof path, "runs/%s/result.json", target);
    cr_assert(folder_has(path));
}

/* --- jobs that cannot be done --- */

Test(job, a_wrong_command_line_leaves_with_2)
{
    EXPECT_FAILURE(2, "unknown option '--wrong'", "--wrong");
    EXPECT_FAILURE(2, "--json goes with --plan", "--json");
    EXPECT_FAILURE(2, "--steps goes with --plan", "--steps");
    EXPECT_FAILURE(2, "--set needs a value", "--set");
}

Test(job, a_bad_job_leaves_with_78)
{
    EXPECT_FAILURE(78, "train.lr", "--set", "train.lr=-1");
    EXPECT_FAILURE(78, "expected \"cross_entropy\"", "--set", "train.loss=bce");
    EXPECT_FAILURE(78, "35", "--set", "partition.parts=35");
    cr_assert_not(folder_has("runs"));
}

Test(job, missing_input_leaves_with_66)
{
    EXPECT_FAILURE(66, "nowhere", "--set", "dataset.generator=none", "--set", "dataset.path=nowhere");
    EXPECT_FAILURE(66, "nothing.safetensors", "--set", "model.init=nothing.safetensors");
    EXPECT_FAILURE(66, "nothing to resume: 'runs/job/checkpoint'", "--resume");
    cr_assert_not(folder_has("runs"), "no folder of a failed job is left");
}

Test(job, bad_data_leaves_with_65)
{
    folder_write("broken.safetensors", "not one of those");
    EXPECT_FAILURE(65, "broken.safetensors", "--set", "model.init=broken.safetensors");
    cr_assert_not(folder_has("runs"));
    EXPECT(0, "--set", "train.epochs=4", "--set", "train.checkpoint_every=4", "--set", "output.dir=o");
    cr_assert_eq(truncate(folder_path("o/checkpoint/epoch-4.ckpt"), 1000), 0);
    EXPECT_FAILURE(65, "epoch-4.ckpt' is damaged", "--set", "train.epochs=8", "--set", "output.dir=o", "--resume");
}

Test(job, another_jobs_checkpoint_leaves_with_78)
{
    EXPECT(0, "--set", "train.epochs=4", "--set", "train.checkpoint_every=4", "--set", "output.dir=o");
    EXPECT_FAILURE(78, "model.layers is 3", "--set", "model.layers=3", "--set", "output.dir=o", "--resume");
    EXPECT(0, "--set", "train.epochs=8", "--set", "output.dir=o", "--resume");
    json_t *metrics = results_metrics(folder_path("o"), true);
    cr_assert_eq(json_array_size(metrics), 8);
    json_decref(metrics);
}

Test(job, an_output_folder_that_cannot_be_leaves_with_73)
{
    folder_write("file", "");
    EXPECT_FAILURE(73, "'file/out'", "--set", "output.dir=file/out");
}

Test(job, more_memory_than_allowed_leaves_with_71_and_the_number)
{
    EXPECT_FAILURE(71, "memory.limit is 4096", "--set", "memory.limit=4096");
    EXPECT_FAILURE(71, "with workers.count = 2 on one machine, more than ", "--set", "workers.count=2", "--set",
                   "model.hidden=65536", "--set", "model.layers=32");
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
    int code = RUN("--set", "output.dir=small/o", "--set", "train.epochs=3000");
    json_t *metrics = results_metrics(results_run(folder_path("small/o")), true);
    bool has_result = folder_has("small/o/result.json");
    size_t n = json_array_size(metrics);
    json_decref(metrics);
    cr_assert_eq(umount(folder_path("small")), 0);
    cr_assert_eq(code, 74, "exit %d: %s", code, words);
    expect_reason("No space left on device");
    cr_assert(n > 10 && n < 3000, "%zu lines", n);
    cr_assert_not(has_result);
}
