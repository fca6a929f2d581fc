/* A coordinator that a supervisor follows: what it leaves in the job's folder, and what its signals do. */
#include "partition/files/npy.h"
#include "protocol/base/clock.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/machines.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char program[PATH_MAX];

static void make_all(void)
{
    program_find("trainer-coordinator", program, sizeof program);
    folder_make();
    folder_write("job.toml", "[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n[model]\nhidden = 8\n"
                             "[workers]\ncount = 2\nthreads = 1\n[output]\ndir = \"o\"\n");
    cr_assert_eq(mkdir(folder_path("job"), 0700), 0);
}

TestSuite(followed, .init = make_all, .fini = folder_remove, .timeout = 900);

/* Start an attempt of the job. */
static void start(struct process *process, const char *attempt, const char *setting)
{
    process_start(process, NULL, folder, NULL,
                  (const char *const[]){program, "--config", "job.toml", "--job-folder", "job", "--attempt", attempt,
                                        "--set", setting, NULL});
}

static void expect_exit(struct process *process, int code)
{
    int got = process_finish(process);
    cr_assert_eq(got, code, "exit %d: %s", got, process->words);
}

/* All whole lines so far; the caller's. */
static json_t *events(void)
{
    json_t *all = json_array();
    FILE *file = fopen(folder_path("job/events.jsonl"), "r");
    char line[4096];
    while (file != NULL && fgets(line, sizeof line, file) != NULL && strchr(line, '\n') != NULL) {
        json_t *one = json_loads(line, 0, NULL);
        cr_assert_not_null(one, "%s", line);
        json_array_append_new(all, one);
    }
    if (file != NULL) {
        fclose(file);
    }
    return all;
}

/* The newest event of this name; borrowed. NULL: none. */
static json_t *newest(json_t *all, const char *name)
{
    for (size_t i = json_array_size(all); i > 0; i--) {
        json_t *one = json_array_get(all, i - 1);
        if (strcmp(json_string_value(json_object_get(one, "event")), name) == 0) {
            return one;
        }
    }
    return NULL;
}

static void await_event(const char *name)
{
    bool is_there = false;
    for (double since = clock_s(); !is_there && patience_left(since);) {
        json_t *all = events();
        is_there = newest(all, name) != NULL;
        json_decref(all);
    }
    cr_assert(is_there, "event '%s' never came", name);
}

static void expect_end(int code, const char *status, const char *reason, bool restartable)
{
    json_t *all = events(), *end = json_array_get(all, json_array_size(all) - 1);
    cr_assert_str_eq(json_string_value(json_object_get(end, "event")), "end");
    cr_assert_eq(results_number(end, "exit_code"), code);
    cr_assert_str_eq(json_string_value(json_object_get(end, "status")), status);
    const char *words = json_string_value(json_object_get(end, "reason"));
    cr_assert_not_null(strstr(words, reason), "%s", words);
    cr_assert_eq(json_is_true(json_object_get(end, "restartable")), restartable);
    json_decref(all);
}

Test(followed, an_attempt_tells_its_states_plan_workers_epochs_and_end)
{
    struct process run = {0};
    start(&run, "2", "train.epochs=30");
    expect_exit(&run, 0);
    cr_assert_eq(strncmp(run.words, "attempt 2\n", 10), 0, "%s", run.words);
    json_t *all = events();
    static const char *const order[] = {"begin", "state", "plan", "state", "workers", "state", "epoch"};
    static const char *const states[] = {"PREPARING", "STARTING", "RUNNING"};
    size_t n_state = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        json_t *one = json_array_get(all, i);
        cr_assert_str_eq(json_string_value(json_object_get(one, "event")), order[i]);
        cr_assert_eq(results_number(one, "attempt"), 2);
        if (strcmp(order[i], "state") == 0) {
            cr_assert_str_eq(json_string_value(json_object_get(one, "state")), states[n_state++]);
        }
    }
    cr_assert_eq(results_number(json_array_get(all, 0), "pid"), run.pid);
    cr_assert_gt(results_number(newest(all, "plan"), "memory"), 0);
    cr_assert_eq(json_array_size(json_object_get(newest(all, "workers"), "workers")), 2);
    cr_assert_eq(results_number(newest(all, "epoch"), "epoch"), 30);
    cr_assert_eq(results_number(newest(all, "epoch"), "epochs"), 30);
    cr_assert_gt(results_number(newest(all, "epoch"), "valid_metric"), 0);
    cr_assert_eq(results_number(newest(all, "epoch"), "seconds_left"), 0);
    json_decref(all);
    expect_end(0, "OK", "done", false);
    cr_assert(folder_has("job/rank-0.log") && folder_has("job/rank-1.log"));
}

Test(followed, a_second_attempt_is_refused_while_the_first_lives)
{
    struct process run = {0}, other = {0};
    start(&run, "1", "train.epochs=100000000");
    await_event("epoch");
    start(&other, "2", "output.dir=p");
    expect_exit(&other, 69);
    cr_assert_not_null(strstr(other.words, "'job/events.jsonl' is held: another attempt of this job runs"), "%s",
                       other.words);
    cr_assert_not(folder_has("p"));
    cr_assert_eq(kill(run.pid, SIGKILL), 0);
    expect_exit(&run, 1000 + SIGKILL);
    start(&other, "2", "train.epochs=3");
    expect_exit(&other, 0);
    expect_end(0, "OK", "done", false);
}

Test(followed, usr1_writes_a_checkpoint_and_training_goes_on)
{
    struct process run = {0};
    start(&run, "1", "train.epochs=100000000");
    await_event("epoch");
    cr_assert_eq(kill(run.pid, SIGUSR1), 0);
    await_event("checkpoint");
    json_t *all = events(), *saved = newest(all, "checkpoint");
    double n_epoch = results_number(saved, "epoch");
    cr_assert_eq(access(folder_path(json_string_value(json_object_get(saved, "path"))), R_OK), 0);
    json_decref(all);
    for (double since = clock_s(), n = 0; n <= n_epoch;
         all = events(), n = results_number(newest(all, "epoch"), "epoch"), json_decref(all)) {
        cr_assert(patience_left(since), "it goes on after %g epochs", n_epoch);
    }
    cr_assert_eq(kill(run.pid, SIGTERM), 0);
    expect_exit(&run, 75);
    expect_end(75, "INTERRUPTED", "checkpoint saved in 'o/.run-job/checkpoint'", true);
    all = events();
    cr_assert_gt(results_number(newest(all, "checkpoint"), "epoch"), n_epoch);
    json_decref(all);
}

Test(followed, a_signal_while_the_graph_is_loaded_ends_with_a_line_too)
{
    struct process run = {0};
    setenv("TRAINERD_FAULTS", "coordinator.load=stop", 1);
    start(&run, "1", "train.epochs=3");
    await_event("state");
    cr_assert_eq(kill(run.pid, SIGTERM), 0);
    for (int code = 0; code == 0;
         code = kill(run.pid, 0)) { /* it stops sooner or later, and takes the signal when it goes on */
        kill(run.pid, SIGCONT);
        int status;
        if (waitpid(run.pid, &status, WNOHANG) == run.pid) {
            cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 75, "%x", (unsigned)status);
        }
    }
    expect_end(75, "INTERRUPTED", "interrupted before training began", true);
}

/* A ring of N_NODE nodes with wide features, which stay mapped until the workers have their parts. */
enum { N_NODE = 1000, WIDTH = 64 };

static void ring_save(void)
{
    static int64_t edges[2 * N_NODE], labels[N_NODE];
    static float features[N_NODE * WIDTH];
    for (int v = 0; v < N_NODE; v++) {
        edges[v] = v;
        edges[N_NODE + v] = (v + 1) % N_NODE;
        labels[v] = v % 2;
    }
    for (int i = 0; i < N_NODE * WIDTH; i++) {
        features[i] = (float)(i % 7) + 1.0f;
    }
    const int64_t pairs[] = {2, N_NODE}, rows[] = {N_NODE, WIDTH}, four = 4;
    cr_assert_eq(mkdir(folder_path("data"), 0700), 0);
    cr_assert_eq(npy_save(folder_path("data/edges.npy"), NPY_TYPE_I64, 2, pairs, edges), STATUS_OK);
    cr_assert_eq(npy_save(folder_path("data/features.npy"), NPY_TYPE_F32, 2, rows, features), STATUS_OK);
    cr_assert_eq(npy_save(folder_path("data/labels.npy"), NPY_TYPE_I64, 1, rows, labels), STATUS_OK);
    cr_assert_eq(npy_save(folder_path("data/train_idx.npy"), NPY_TYPE_I64, 1, &four, edges), STATUS_OK);
    folder_write("job.toml",
                 "[dataset]\npath = \"data\"\n[partition]\ncache = \"off\"\nmethod = \"block\"\nparts = 2\n[model]\n"
                 "hidden = 8\n[workers]\ncount = 2\nthreads = 1\n[output]\ndir = \"o\"\n");
}

/* Run a job until its data set is loaded. */
static void start_and_load(struct process *run)
{
    siginfo_t info;
    ring_save();
    setenv("TRAINERD_FAULTS", "coordinator.load=stop", 1);
    start(run, "1", "train.epochs=3");
    cr_assert_eq(waitid(P_PID, (id_t)run->pid, &info, WSTOPPED), 0);
}

/* Cut features.npy to so many bytes then. */
static void cut_when_loaded(off_t n_byte)
{
    struct process run = {0};
    start_and_load(&run);
    cr_assert_eq(truncate(folder_path("data/features.npy"), n_byte), 0);
    cr_assert_eq(kill(run.pid, SIGCONT), 0);
    expect_exit(&run, 65);
    cr_assert_not_null(strstr(run.words, "data/features.npy: has "), "%s", run.words);
    expect_end(65, "DATA", "data/features.npy: has ", false);
}

Test(followed, data_cut_while_they_are_read_end_the_job_with_the_files_name)
{
    cut_when_loaded(8192);
}

Test(followed, data_cut_by_less_than_a_page_are_noticed_too)
{
    cut_when_loaded(128 + N_NODE * WIDTH * 4 - 4);
}

Test(followed, data_replaced_by_another_file_of_that_name_stay_as_they_were)
{
    struct process run = {0};
    start_and_load(&run);
    folder_write("data/new.npy", "short");
    cr_assert_eq(rename(folder_path("data/new.npy"), folder_path("data/features.npy")), 0);
    cr_assert_eq(kill(run.pid, SIGCONT), 0);
    expect_exit(&run, 0);
}

Test(followed, a_lost_worker_is_the_reason_of_the_end)
{
    struct process run = {0};
    start(&run, "1", "train.epochs=100000000");
    await_event("epoch");
    json_t *all = events(), *worker = json_array_get(json_object_get(newest(all, "workers"), "workers"), 1);
    pid_t pid = (pid_t)results_number(worker, "pid");
    char own[HOST_NAME_MAX + 1];
    cr_assert_eq(gethostname(own, sizeof own), 0);
    cr_assert_str_eq(json_string_value(json_object_get(worker, "host")), own);
    json_decref(all);
    cr_assert_eq(kill(pid, SIGKILL), 0);
    expect_exit(&run, 69);
    expect_end(69, "PEER", "was killed by signal 9", true);
}

Test(followed, a_bad_job_ends_with_its_reason_and_no_wish_to_try_again)
{
    struct process run = {0};
    start(&run, "1", "train.lr=-1");
    expect_exit(&run, 78);
    expect_end(78, "CONFIG", "train.lr", false);
}

Test(followed, folder_and_attempt_go_together)
{
    struct process run = {0};
    process_start(&run, NULL, folder, NULL,
                  (const char *const[]){program, "--config", "job.toml", "--attempt", "1", NULL});
    expect_exit(&run, 2);
    cr_assert_not_null(strstr(run.words, "--job-folder and --attempt go together"), "%s", run.words);
    struct process odd = {0};
    start(&odd, "0", "train.epochs=1");
    expect_exit(&odd, 2);
    cr_assert_not_null(strstr(odd.words, "--attempt is '0', expected a number from 1 to "), "%s", odd.words);
}

Test(followed, its_log_lines_name_job_and_attempt)
{
    struct process run;
    start(&run, "3", "partition.cache=job.toml/no-folder");
    expect_exit(&run, 0);
    cr_assert_not_null(strstr(run.words, " proc=coordinator job=job attempt=3 at="), "%s", run.words);
}
