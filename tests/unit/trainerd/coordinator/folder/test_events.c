#include "tests/support/process/folder.h"
#include "trainerd/coordinator/folder/events.h"
#include "trainerd/coordinator/folder/progress.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(events, .init = folder_make, .fini = folder_remove);

static struct events *take(uint32_t attempt)
{
    static struct job_files files;
    struct events *events;
    files = (struct job_files){.most_bytes = INT64_MAX};
    cr_assert_eq(events_open(folder, attempt, &files, false, &events), STATUS_OK, "%s", status_reason());
    return events;
}

/* All lines as an array, the caller's; text that is no JSON becomes null. */
static json_t *lines(void)
{
    static char text[8192];
    folder_read("events.jsonl", text, sizeof text);
    json_t *all = json_array();
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        json_t *one = json_loads(line, 0, NULL);
        json_array_append_new(all, one != NULL ? one : json_null());
    }
    return all;
}

static json_t *field(json_t *all, size_t i, const char *name)
{
    json_t *value = json_object_get(json_array_get(all, i), name);
    cr_assert_not_null(value, "line %zu has no '%s'", i, name);
    return value;
}

static void expect_text(json_t *all, size_t i, const char *name, const char *text)
{
    cr_assert_str_eq(json_string_value(field(all, i, name)), text);
}

Test(events, what_happens_is_a_line_each_with_its_attempt)
{
    struct events *events = take(3);
    const struct events_worker workers[] = {{.pid = 11}, {.pid = 12, .host = "south"}};
    events_state(events, "STARTING");
    events_plan(events, 5000000000, 2);
    events_workers(events, workers, 2);
    events_checkpoint(events, 40, "runs/x");
    events_end(events, status_fail(STATUS_PEER, "worker 1 \"went\""));
    events_close(events);
    json_t *all = lines();
    cr_assert_eq(json_array_size(all), 6);
    static const char *const names[] = {"begin", "state", "plan", "workers", "checkpoint", "end"};
    for (size_t i = 0; i < 6; i++) {
        expect_text(all, i, "event", names[i]);
        cr_assert_eq(json_integer_value(field(all, i, "attempt")), 3);
        cr_assert_gt(json_number_value(field(all, i, "ts")), 1.6e9);
    }
    cr_assert_eq(json_integer_value(field(all, 0, "pid")), getpid());
    expect_text(all, 1, "state", "STARTING");
    cr_assert_eq(json_integer_value(field(all, 2, "memory")), 5000000000);
    json_t *two = field(all, 3, "workers");
    char own[HOST_NAME_MAX + 1];
    cr_assert_eq(gethostname(own, sizeof own), 0);
    expect_text(all, 3, "host", own);
    expect_text(two, 0, "host", own);
    expect_text(two, 1, "host", "south");
    cr_assert_eq(json_integer_value(field(two, 1, "pid")), 12);
    expect_text(all, 4, "path", "runs/x/checkpoint/epoch-40.ckpt");
    cr_assert_eq(json_integer_value(field(all, 5, "exit_code")), 69);
    expect_text(all, 5, "status", "PEER");
    expect_text(all, 5, "reason", "worker 1 \"went\"");
    cr_assert(json_is_true(field(all, 5, "restartable")));
    json_decref(all);
}

Test(events, an_attempt_that_waits_begins_when_the_one_before_has_ended)
{
    int pipe_ends[2];
    cr_assert_eq(pipe(pipe_ends), 0);
    struct events *events = take(1), *other;
    pid_t child = fork();
    if (child == 0) {
        close(pipe_ends[0]);
        bool asked = write(pipe_ends[1], "", 1) == 1;
        struct job_files files = {.most_bytes = INT64_MAX};
        enum status status = events_open(folder, 2, &files, true, &other);
        _exit(asked && status == STATUS_OK ? 0 : 1);
    }
    char byte;
    cr_assert_eq(read(pipe_ends[0], &byte, 1), 1);
    events_state(events, "RUNNING");
    events_end(events, STATUS_OK);
    events_close(events);
    int end;
    cr_assert_eq(waitpid(child, &end, 0), child);
    cr_assert_eq(end, 0);
    json_t *all = lines();
    cr_assert_eq(json_array_size(all), 4);
    expect_text(all, 2, "event", "end");
    expect_text(all, 3, "event", "begin");
    cr_assert_eq(json_integer_value(field(all, 3, "attempt")), 2);
    json_decref(all);
}

Test(events, a_child_of_a_dead_attempt_does_not_keep_the_next_one_out)
{
    int lives[2], ends[2];
    cr_assert(pipe(lives) == 0 && pipe(ends) == 0);
    pid_t attempt = fork();
    if (attempt == 0) {
        char byte;
        take(1);
        close(ends[1]);
        if (fork() == 0) { /* it goes on with all that it has, until the test says so */
            _exit(write(lives[1], "", 1) == 1 && read(ends[0], &byte, 1) == 0 ? 0 : 1);
        }
        pause();
    }
    char byte;
    cr_assert_eq(read(lives[0], &byte, 1), 1);
    cr_assert_eq(kill(attempt, SIGKILL), 0);
    cr_assert_eq(waitpid(attempt, NULL, 0), attempt);
    events_close(take(2));
    close(ends[1]);
}

Test(events, a_line_that_a_death_cut_short_is_ended_by_the_next_attempt)
{
    folder_write("events.jsonl", "{\"event\":\"begin\"}\n{\"event\":\"epo");
    events_close(take(2));
    json_t *all = lines();
    cr_assert_eq(json_array_size(all), 3);
    cr_assert(json_is_null(json_array_get(all, 1)));
    expect_text(all, 2, "event", "begin");
    json_decref(all);
}

Test(events, epochs_between_two_tenths_of_a_second_are_left_out_but_for_the_last)
{
    struct events *events = take(1);
    struct progress progress = {.n_epoch = 100};
    for (int i = 0; i < 30; i++) {
        progress.last = (struct progress_epoch){.n_done = i + 1,
                                                .loss = 0.5,
                                                .train_metric = 0.25,
                                                .valid_metric = NAN,
                                                .seconds_left = NAN,
                                                .memory = 4096};
        events_epoch(events, &progress, JOB_METRIC_ACCURACY, 10.0 + i / 64.0);
    }
    events_checkpoint(events, 30, "o");
    events_close(events);
    json_t *all = lines();
    static const int epochs[] = {1, 8, 15, 22, 29, 30};
    cr_assert_eq(json_array_size(all), 8);
    for (size_t i = 0; i < 6; i++) {
        cr_assert_eq(json_integer_value(field(all, i + 1, "epoch")), epochs[i]);
    }
    cr_assert_eq(json_number_value(field(all, 1, "train_metric")), 0.25);
    cr_assert_eq(json_integer_value(field(all, 1, "memory")), 4096);
    cr_assert(json_is_null(field(all, 1, "valid_metric")));
    cr_assert(json_is_null(field(all, 1, "seconds_left")));
    expect_text(all, 7, "event", "checkpoint");
    json_decref(all);
}

/* The files of a daemon that owns the job's folder, of that most. */
static struct job_files inherited(int64_t most)
{
    struct job_files files = {.most_bytes = most};
    cr_assert_eq(job_files_open(folder, 1, &files), STATUS_OK, "%s", status_reason());
    files.by_name = false;
    return files;
}

Test(events, inherited_files_are_locked_and_written_without_a_name)
{
    struct events *events, *other;
    struct job_files files = inherited(1 << 20), same = inherited(1 << 20);
    cr_assert_eq(events_open("/nowhere/at/all", 1, &files, false, &events), STATUS_OK, "%s", status_reason());
    pid_t child = fork();
    if (child == 0) {
        _exit(events_open("/nowhere/at/all", 2, &same, false, &other) == STATUS_PEER ? 0 : 1);
    }
    int ended, log, made;
    cr_assert_eq(waitpid(child, &ended, 0), child);
    cr_assert_eq(ended, 0);
    cr_assert_eq(events_rank_log(events, 0, &log, &made), STATUS_OK);
    cr_assert(log == files.file[JOB_FILE_RANK_0] && made == -1);
    cr_assert_eq(events_rank_log(events, 1, &log, &made), STATUS_OK);
    cr_assert(log == STDERR_FILENO && made == -1, "a worker without a log of its own");
    events_close(events);
    json_t *all = lines();
    cr_assert_eq(json_array_size(all), 1);
    expect_text(all, 0, "event", "begin");
    json_decref(all);
}

Test(events, epochs_become_rarer_as_a_file_with_a_limit_grows_and_never_fill_it)
{
    enum { MOST = 1 << 16 };
    struct events *events;
    struct stat about;
    struct job_files files = inherited(MOST);
    struct progress progress = {.n_epoch = 1 << 20};
    cr_assert_eq(events_open(folder, 1, &files, false, &events), STATUS_OK);
    for (int i = 0; i < 30000; i++) { /* a quarter of an hour of epochs */
        progress.last = (struct progress_epoch){.n_done = i + 1, .loss = 0.5};
        events_epoch(events, &progress, JOB_METRIC_ACCURACY, 10.0 + i / 32.0);
    }
    cr_assert_eq(fstat(files.file[JOB_FILE_EVENTS], &about), 0);
    cr_assert_gt(about.st_size, MOST / 2);
    cr_assert_lt(about.st_size, MOST * 15 / 16);
    events_close(events);
}

Test(events, a_line_that_finds_no_room_is_left_out_whole)
{
    struct events *events = take(1);
    char text[4096];
    folder_read("events.jsonl", text, sizeof text);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit little = {strlen(text) + 20, RLIM_INFINITY}, enough = {RLIM_INFINITY, RLIM_INFINITY};
    FILE *quiet = freopen("/dev/null", "w", stderr);
    cr_assert_not_null(quiet);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &little), 0);
    events_state(events, "STARTING");
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &enough), 0);
    events_state(events, "RUNNING");
    events_close(events);
    json_t *all = lines();
    cr_assert_eq(json_array_size(all), 2);
    expect_text(all, 1, "state", "RUNNING");
    json_decref(all);
}

Test(events, a_signal_handler_can_write_the_end)
{
    pid_t pid = fork();
    if (pid == 0) {
        take(7);
        events_end_at_once();
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    json_t *all = lines();
    expect_text(all, 1, "event", "end");
    expect_text(all, 1, "status", "INTERRUPTED");
    cr_assert_eq(json_integer_value(field(all, 1, "exit_code")), 75);
    cr_assert_eq(json_integer_value(field(all, 1, "attempt")), 7);
    cr_assert_lt(fabs(json_number_value(field(all, 1, "ts")) - json_number_value(field(all, 0, "ts"))), 60);
    json_decref(all);
}

Test(events, a_job_that_nobody_follows_writes_nothing)
{
    struct progress progress = {.n_epoch = 1};
    events_state(NULL, "RUNNING");
    events_epoch(NULL, &progress, JOB_METRIC_ACCURACY, 0);
    events_workers(NULL, NULL, 0);
    events_end(NULL, STATUS_OK);
    events_end_at_once();
    events_close(NULL);
    cr_assert_not(folder_has("events.jsonl"));
}
