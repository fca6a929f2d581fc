/* trainctl and a daemon as their users meet them: what is printed, how it leaves. */
#include "protocol/base/clock.h"
#include "protocol/base/version.h"
#include "tests/support/process/command.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"
#include "tests/support/process/served.h"
#include "tests/support/process/terminal.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define JOB                                                                                                          \
    "name = \"k\"\n[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n[workers]\nthreads = "           \
    "1\n[train]\nepochs = "

static void make_all(void)
{
    folder_make();
    served_address_set();
    folder_write("job.toml", JOB "3\n");
    folder_write("long.toml", JOB "100000000\neval_every = 0\n");
    served_begin();
}

static void remove_all(void)
{
    served_end();
    folder_remove();
}

TestSuite(trainctl, .init = make_all, .fini = remove_all, .timeout = 900);

#define start(...) command_start("trainctl", __VA_ARGS__)

static void await_state(const char *job, const char *state)
{
    double since_s = clock_s();
    do {
        cr_assert(patience_left(since_s), "%s is never %s: %s", job, state, output);
        cr_assert_eq(RUN("status", job), 0, "%s", output);
    } while (strstr(printed, state) == NULL);
}

Test(trainctl, a_job_that_is_waited_for_gives_its_progress_and_its_exit_code)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "--name", "good");
    cr_assert_str_eq(printed, "1\n");
    cr_assert_not_null(strstr(output, "epoch 3/3  loss "));
    cr_assert(folder_has("runs/good/model.safetensors"));
    EXPECT(66, "FAILED", "submit", "job.toml", "--wait", "-s", "dataset.generator=none", "-s",
           "dataset.path=nowhere");
    EXPECT(78, "trainctl: --set train.epoch: unknown key 'epoch'", "submit", "job.toml", "--wait", "-s",
           "train.epoch=3");
    folder_write("other.toml", "[train]\nepoch = 3\n");
    EXPECT(78, "trainctl: other.toml:2:1: unknown key 'epoch'", "submit", "other.toml");
}

/* The queued job waits behind a long one until its files are gone. */
Test(trainctl, a_program_runs_as_it_was_submitted)
{
    folder_write("own.gnn", "def layer(v, out, slope=0.01):\n"
                            "    v.z = leaky_relu(linear(\"lin\", v.x, out), slope)\n"
                            "    return max(e.src.z for e in v.in_edges) + linear(\"root\", v.x, out) # it's mine\n");
    folder_write("own.toml", JOB "3\n[model]\nkind = \"program\"\nprogram = \"own.gnn\"\nargs.slope = 0.01\n");
    EXPECT(0, "SUCCEEDED", "submit", "own.toml", "--wait", "--name", "first");
    EXPECT(0, "2", "submit", "long.toml", "--name", "long");
    await_state("2", "RUNNING");
    EXPECT(0, "3", "submit", "own.toml", "--name", "second");
    folder_write("own.gnn", "def layer(v, out, slope=1):\n    return 3\n");
    EXPECT(78, "own.gnn:1:5: returns a number", "submit", "own.toml");
    cr_assert_eq(unlink(folder_path("own.gnn")), 0);
    EXPECT(66, "cannot open 'own.gnn'", "submit", "own.toml");
    EXPECT(0, "", "cancel", "2");
    await_state("3", "SUCCEEDED");
    results_expect_same_model(folder_path("runs/first"), folder_path("runs/second"));
    EXPECT(0, "def layer(v, out, slope=0.01)", "show", "3");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "--predict", "runs/first");
}

Test(trainctl, a_prediction_is_submitted_like_a_training_and_leaves_that_alone)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "--predict", "runs/k");
    cr_assert(folder_has("runs/k-predict/predictions.npy") && folder_has("runs/k/model.safetensors"));
    results_expect_same_file(folder_path("runs/k"), folder_path("runs/k-predict"), "logits.npy");
    EXPECT(0, "runs/k-predict", "show", "2");
    EXPECT(0, "needs          1 worker, 1 slot, 0 GPUs, priority 0, ", "show", "2");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "--predict", "runs/k", "-s", "workers.count=2");
    EXPECT(0, "EVALUATION  PLANNED", "show", "3");
    cr_assert_not_null(strstr(printed, "traffic of the evaluation"));
    cr_assert_null(strstr(printed, "BACKWARD"), "%s", printed);
    EXPECT(66, "predict.model: 'runs/none': No such file or directory", "submit", "job.toml", "--wait", "--predict",
           "runs/none");
    EXPECT(2, "--predict is empty", "submit", "job.toml", "--predict", "");
    EXPECT(0, "SUCCEEDED", "predict", "runs/k", "job.toml", "--wait", "--name", "again");
    results_expect_same_file(folder_path("runs/k"), folder_path("runs/again-predict"), "logits.npy");
    EXPECT(2, "predict takes MODEL FILE, 1 given", "predict", "job.toml");
}

Test(trainctl, jobs_are_shown_in_a_table)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "--json");
    EXPECT(0, " 1  k ", "status");
    cr_assert_not_null(strstr(printed, "ID  NAME"));
    cr_assert_not_null(strstr(printed, "3/3"));
    EXPECT(66, "trainctl: there is no job 'nothing'", "status", "nothing");
}

/* What stands before this in the standard output that was read last, in bytes. */
static ptrdiff_t place_of(const char *words)
{
    const char *at = strstr(printed, words);
    cr_assert_not_null(at, "'%s' is not in: %s", words, printed);
    return at - printed;
}

Test(trainctl, status_shows_what_runs_then_what_waits_by_its_position_then_what_has_ended_on_one_screen)
{
    int master, status;
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "--name", "ended", "-s", "workers.count=2");
    EXPECT(0, "", "submit", "long.toml", "--name", "runs", "-s", "workers.count=4");
    await_state("runs", "RUNNING");
    EXPECT(0, "40 jobs, 3 to 42\n", "submit", "job.toml", "--name", "waits", "--seeds", "40", "--group", "w");
    EXPECT(0, "", "submit", "job.toml", "--name", "next", "--group", "w", "--priority", "1");
    await_state("next", "waiting, position 1: 0 of 4 slots are free, it needs 1");
    EXPECT(0, "41 QUEUED, 1 RUNNING, 1 SUCCEEDED\n", "status", "--limit", "0");
    cr_assert_lt(place_of(" runs "), place_of(" next "));
    cr_assert_lt(place_of(" next "), place_of(" waits "));
    cr_assert_lt(place_of("waiting, position 2"), place_of("waiting, position 41"));
    cr_assert_lt(place_of("waiting, position 41"), place_of(" ended "));
    cr_assert_null(strstr(printed, "is before it"), "%s", printed);
    expect_words(printed, "  WORKERS  AGE  RAN  ");
    EXPECT(0, "\"position\":41,", "status", "42", "--json");
    EXPECT(0, "state          QUEUED: waiting, position 41", "show", "42");
    pid_t child = terminal_start("trainctl", (const char *const[]){"status", NULL}, &master);
    terminal_await(master, "41 QUEUED, 1 RUNNING, 1 SUCCEEDED\r\n");
    cr_assert_eq(waitpid(child, &status, 0), child);
    close(master);
    int n_line = 0;
    for (const char *line = output; *line != '\0'; line += strcspn(line, "\n") + 1) {
        cr_assert_leq(strcspn(line, "\r\n"), 90, "%.100s", line);
        n_line++;
    }
    cr_assert_eq(n_line, 25, "a screen of 26 lines with its prompt: %s", output);
    EXPECT(0, "", "cancel", "--group", "w");
    EXPECT(0, "", "cancel", "runs");
}

Test(trainctl, every_answer_is_there_as_json)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    static const char *const commands[] = {"status", "show", "workers"};
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(RUN(commands[i], "1", "--json"), 0, "%s", output);
        json_t *answer = command_json();
        cr_assert(json_is_true(json_object_get(answer, "ok")));
        json_decref(answer);
    }
    static const char *const others[] = {"version", "help", "man", "protocol", "status"};
    for (size_t i = 0; i < 5; i++) {
        cr_assert_eq(RUN(others[i], "--json"), 0, "%s", output);
        json_decref(command_json());
    }
    cr_assert_eq(RUN("metrics", "1", "--json", "--tail", "1"), 0);
    json_t *epoch = command_json();
    cr_assert_eq(json_integer_value(json_object_get(epoch, "epoch")), 2);
    json_decref(epoch);
    EXPECT(0, "done in", "logs", "1");
    EXPECT(0, "time of the whole job", "show", "k");
    EXPECT(0, "confusion matrix of the test nodes: a row for each class, a column for each prediction\n", "show",
           "k");
    EXPECT(0, "  LOSS ", "metrics", "1");
}

/* What `show` says of a job. owns  the caller has the reference */
static json_t *shown(const char *job)
{
    cr_assert_eq(RUN("show", job, "--json"), 0, "%s", output);
    return command_json();
}

/* The job has done so many epochs, all that is shown of it agrees, and its folder's path ends so. */
static void expect_shown(const char *job, json_int_t n_epoch, const char *end)
{
    json_t *answer = shown(job), *last = json_object_get(answer, "last"), *result = json_object_get(answer, "result");
    cr_assert_eq(json_integer_value(json_object_get(last, "epoch")), n_epoch - 1, "%s", printed);
    cr_assert_eq(json_integer_value(json_object_get(result, "epochs")), n_epoch, "%s", printed);
    const char *path = json_string_value(json_object_get(answer, "output"));
    cr_assert(strlen(path) > strlen(end) && strcmp(path + strlen(path) - strlen(end), end) == 0, "%s", path);
    json_decref(answer);
}

Test(trainctl, jobs_of_one_file_leave_their_results_apart_and_are_shown_with_their_own)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "-s", "train.epochs=5");
    expect_shown("1", 3, "/runs/k-1");
    expect_shown("2", 5, "/runs/k-2");
    cr_assert(folder_has("runs/k-1/model.safetensors") && folder_has("runs/k-2/model.safetensors"));
    char target[16] = "";
    cr_assert_eq(readlink(folder_path("runs/k"), target, sizeof target - 1), 3);
    cr_assert_str_eq(target, "k-2");
}

Test(trainctl, a_job_that_has_ended_shows_its_traffic_by_layer_beside_the_plan)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    cr_assert_eq(RUN("show", "1"), 0, "%s", output);
    cr_assert_null(strstr(printed, "traffic of an epoch"), "one worker receives nothing: %s", printed);
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "-s", "workers.count=2", "-s", "model.input_dropout=0.1");
    EXPECT(0, "traffic of an epoch", "show", "2");
    cr_assert_not_null(strstr(printed, "LAYER"));
    EXPECT(0, "", "show", "2", "--json");
    json_t *answer = command_json(), *traffic = json_object_get(json_object_get(answer, "result"), "traffic");
    const json_t *measured = json_object_get(traffic, "measured");
    cr_assert(json_equal(json_object_get(traffic, "planned"), measured), "%s", printed);
    cr_assert_eq(json_array_size(json_object_get(measured, "layers")), 2);
    json_decref(answer);
}

Test(trainctl, a_guarded_job_shows_its_last_comparison)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "-s", "partition.parts=3", "-s", "exchange.sampling=0.1",
           "-s", "exchange.guard_every=2", "-s", "exchange.guard_limit=0");
    EXPECT(0, "  guard          gradient's error ", "show", "1");
    expect_words(printed, " in epoch 1; 1 back-off\n");
    expect_words(printed, "0.2 of the boundary rows, fp32, gradients fp32");
}

/* A step so large that a later epoch classifies all of its rows with certainty: the exact gradient is 0, and anything
 * is infinitely far. */
Test(trainctl, show_says_that_a_guard_compared_with_a_gradient_of_zero)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "-s", "partition.parts=4", "-s", "exchange.sampling=0.5",
           "-s", "exchange.guard_every=1", "-s", "exchange.guard_limit=1e6", "-s", "model.kind=gin", "-s",
           "model.dropout=0.0", "-s", "train.lr=20.0", "-s", "train.epochs=40");
    EXPECT(0, "  guard          gradient's error not finite in epoch ", "show", "1");
}

Test(trainctl, what_a_job_before_left_in_the_folder_is_not_shown_as_ones_own)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    EXPECT(0, "", "submit", "long.toml", "--name", "long", "-s", "workers.count=4");
    await_state("long", "RUNNING");
    EXPECT(0, "", "submit", "job.toml");
    for (int done = 0; done < 2; done++) {
        if (done) {
            EXPECT(0, "", "cancel", "long");
            await_state("3", "SUCCEEDED");
        }
        EXPECT(0, "", "metrics", "3", "--json");
        cr_assert_eq(strstr(printed, "\"epoch\"") != NULL, done, "%s", printed);
        EXPECT(0, "", "show", "3", "--json");
        json_t *answer = command_json();
        cr_assert_eq(json_is_object(json_object_get(answer, "last")), done, "%s", printed);
        cr_assert_eq(json_is_object(json_object_get(answer, "result")), done, "%s", printed);
        json_decref(answer);
    }
}

Test(trainctl, a_running_job_is_cancelled_and_goes_on_when_it_is_resumed)
{
    EXPECT(0, "", "submit", "long.toml", "--name", "long");
    await_state("long", "RUNNING");
    EXPECT(0, "coordinator", "workers", "long");
    char host[HOST_NAME_MAX + 1];
    cr_assert_eq(gethostname(host, sizeof host), 0);
    for (const char *line = strchr(printed, '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
        size_t n = strcspn(line, "\n");
        cr_assert(n > strlen(host) && strncmp(line + n - strlen(host), host, strlen(host)) == 0, "%s", printed);
    }
    EXPECT(0, "", "cancel", "long");
    await_state("long", "CANCELLED");
    EXPECT(2, "trainctl: job 1", "cancel", "long");
    EXPECT(0, "", "resume", "1");
    await_state("long", "RUNNING");
    EXPECT(0, "", "checkpoint", "1");
    EXPECT(66, "there is no job 'none'", "cancel", "none", "long");
    await_state("long", "CANCELLED");
}

Test(trainctl, who_waits_for_a_job_outlasts_the_daemon)
{
    folder_write("err", "");
    pid_t waiting = start((const char *const[]){"submit", "job.toml", "--wait", "-s", "train.epochs=3000", NULL});
    double since_s = clock_s();
    do {
        folder_read("err", output, sizeof output);
    } while (strstr(output, "epoch ") == NULL && patience_left(since_s));
    kill(served_process.pid, SIGKILL);
    process_finish(&served_process);
    do {
        folder_read("err", output, sizeof output);
    } while (strstr(output, "waiting for the daemon") == NULL && patience_left(since_s));
    served_begin();
    cr_assert_eq(command_finish(waiting), 0, "%s", output);
    cr_assert_not_null(strstr(output, "SUCCEEDED"));
}

/* --- watch --- */

Test(trainctl, watch_takes_the_terminal_and_gives_it_back)
{
    int master, status;
    struct termios before, after;
    EXPECT(0, "", "submit", "long.toml", "--name", "long");
    pid_t child = terminal_start("trainctl", (const char *const[]){"watch", "long", NULL}, &master);
    cr_assert_eq(tcgetattr(master, &before), 0);
    terminal_await(master, "\x1b[?1049h");
    terminal_await(master, "RUNNING");
    terminal_await(master, "loss");
    struct winsize narrow = {.ws_col = 40, .ws_row = 12};
    cr_assert_eq(ioctl(master, TIOCSWINSZ, &narrow), 0);
    terminal_await(master, "\x1b[H");
    cr_assert_eq(write(master, "q", 1), 1);
    terminal_await(master, "job 1: RUNNING, epoch");
    cr_assert_not_null(strstr(output, "\x1b[?1049l"));
    cr_assert_eq(tcgetattr(master, &after), 0);
    cr_assert_eq(after.c_lflag, before.c_lflag);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(master);
    child = terminal_start("trainctl", (const char *const[]){"watch", "long", NULL}, &master);
    terminal_await(master, "RUNNING");
    kill(child, SIGTERM);
    terminal_await(master, "\x1b[?1049l");
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    close(master);
    EXPECT(0, "", "cancel", "long");
}

Test(trainctl, a_prediction_is_shown_without_epochs_and_one_epoch_as_one)
{
    int master, status;
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "-s", "train.epochs=1");
    EXPECT(0, "after 1 epoch (", "logs", "1");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "--predict", "runs/k");
    EXPECT(0, " SUCCEEDED        1  ", "status", "2");
    EXPECT(0, "\"epochs\":0,", "status", "2", "--json");
    pid_t child = terminal_start("trainctl", (const char *const[]){"watch", "2", NULL}, &master);
    terminal_await(master, "job 2: SUCCEEDED\r\n");
    expect_words(output, "no epochs  1 worker, attempt 1");
    cr_assert_eq(waitpid(child, &status, 0), child);
    close(master);
}

Test(trainctl, watch_on_no_terminal_writes_lines)
{
    EXPECT(0, "", "submit", "job.toml");
    EXPECT(0, "epoch 3/3  loss ", "watch", "1");
    expect_words(printed, "  accuracy: valid ");
    cr_assert_not_null(strstr(printed, "job 1: SUCCEEDED"));
    cr_assert_null(strchr(printed, '\x1b'));
}

/* python/tests/arrays/test_curves.py has what is drawn. */
Test(trainctl, a_picture_comes_from_the_daemon_or_from_a_folder)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    EXPECT(0, "k.svg", "plot", "1");
    EXPECT(0, "{\"file\":\"x.png\",\"epochs\":3}", "plot", "--json", "--from", "runs/k", "-o", "x.png", "-x", "time");
    cr_assert(folder_has("k.svg") && folder_has("x.png"));
    EXPECT(2, "trainctl: plot takes either JOB or --from FOLDER", "plot");
    EXPECT(66, "trainctl: cannot open 'nowhere/metrics.jsonl': No such file", "plot", "--from", "nowhere");
    EXPECT(66, "trainctl: there is no job 'none'", "plot", "none");
}

Test(trainctl, metrics_of_an_output_folder_are_of_the_run_in_it_where_none_has_succeeded)
{
    EXPECT(1, "FAILED", "submit", "job.toml", "--wait", "-s", "train.optimizer=sgd", "-s", "train.lr=1e6", "-s",
           "model.kind=sage", "-s", "model.layers=4", "-s", "train.eval_every=0", "-s", "train.epochs=50", "-s",
           "output.dir=o");
    cr_assert(folder_has("o/.run-1/metrics.jsonl") && !folder_has("o/metrics.jsonl"));
    EXPECT(0, "  LOSS ", "metrics", "1");
    json_t *answer = shown("1");
    cr_assert(json_is_object(json_object_get(answer, "last")) && json_is_null(json_object_get(answer, "result")),
              "%s", printed);
    json_decref(answer);
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "-s", "output.dir=o");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "-s", "output.dir=o", "-s", "train.epochs=5");
    expect_shown("2", 3, "/o");
    expect_shown("3", 5, "/o");
    EXPECT(0, "  LOSS ", "metrics", "2");
}

Test(trainctl, doctor_says_of_each_thing_whether_it_is_well_and_what_to_do)
{
    char program[PATH_MAX], command[2 * PATH_MAX];
    int code = RUN("doctor", "--json");
    json_t *answer = command_json(), *check;
    size_t i, n_fail = 0;
    json_array_foreach(json_object_get(answer, "checks"), i, check)
    {
        const char *verdict = json_string_value(json_object_get(check, "verdict"));
        const char *advice = json_string_value(json_object_get(check, "advice"));
        cr_assert_eq(strcmp(verdict, "ok") == 0, advice[0] == '\0', "%s",
                     json_string_value(json_object_get(check, "name")));
        n_fail += strcmp(verdict, "fail") == 0;
    }
    cr_assert_gt(i, 12);
    cr_assert_eq(code, n_fail > 0, "exit %d: %s", code, output);
    json_decref(answer);
    cr_assert_eq(RUN("doctor"), code);
    cr_assert_not_null(strstr(printed, "METIS                5.1"));
    cr_assert_not_null(strstr(printed, "UCX "));
    /* Alone in a folder, it misses the others. */
    program_find("trainctl", program, sizeof program);
    snprintf(command, sizeof command, "cp %s %s && %s/trainctl doctor > %s/alone", program, folder, folder, folder);
    cr_assert_eq(WEXITSTATUS(system(command)), 1);
    folder_read("alone", output, sizeof output);
    cr_assert_not_null(strstr(output, "fail  trainer-worker       does not run as"));
}

Test(trainctl, followed_logs_end_with_the_job)
{
    EXPECT(0, "", "submit", "job.toml", "-s", "train.epochs=1000");
    EXPECT(0, "done in", "logs", "-f", "1");
    cr_assert_eq(RUN("logs", "1", "--rank", "0"), 0, "%s", output);
}

Test(trainctl, its_own_version_needs_no_daemon)
{
    EXPECT(0, "trainctl 0.", "--version");
    EXPECT(0, "{\"version\":\"0.", "--version", "--json");
}

Test(trainctl, without_a_daemon_it_leaves_with_69_and_says_how_to_start_one)
{
    EXPECT(69, "no daemon answers on unix:/nowhere", "--to", "unix:/nowhere/socket", "status");
    EXPECT(78, "--to: 'here' is not an address", "--to", "here", "status");
    unsetenv("TRAINERD_TO");
    setenv("XDG_RUNTIME_DIR", folder, 1);
    EXPECT(0, "no daemon: no daemon answers on", "version");
    cr_assert_not_null(strstr(output, "trainerd --listen"));
}

/* A command that cannot connect closes what it has not opened. */
Test(trainctl, every_command_refuses_an_address_that_is_none_and_a_daemon_that_is_not_there)
{
    static const char *const commands[][4] = {
        {"status"},
        {"status", "1"},
        {"show", "1"},
        {"logs", "1"},
        {"watch", "1"},
        {"cancel", "1"},
        {"cancel", "--group", "g"},
        {"resume", "1"},
        {"checkpoint", "1"},
        {"scale", "1", "2"},
        {"workers", "1"},
        {"gpus"},
        {"users"},
        {"metrics", "1"},
        {"compare", "g"},
        {"backup", "b"},
        {"drain"},
        {"undrain"},
        {"audit"},
        {"submit", "job.toml"},
        {"submit", "job.toml", "--seeds", "2"},
        {"submit", "job.toml", "--wait"},
    };
    static const struct {
        const char *address;
        int code;
        const char *words;
    } cases[] = {
        {"here", 78, "trainctl: --to: 'here' is not an address, expected unix:PATH or tcp:HOST:PORT\n"},
        {"tcp:x", 78, "trainctl: --to: 'x' is not an address, expected HOST:PORT\n"},
        {"tcp:127.0.0.1:1", 78,
         "trainctl: the daemon on tcp:127.0.0.1:1 is not known: run trainctl login tcp:127.0.0.1:1"},
        {"unix:/nowhere/socket", 69,
         "trainctl: no daemon answers on unix:/nowhere/socket: No such file or directory\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t k = 0; k < sizeof commands / sizeof *commands; k++) {
            const char *const *command = commands[k];
            int code = RUN("--to", cases[i].address, command[0], command[1], command[2], command[3]);
            cr_assert_eq(code, cases[i].code, "%s: exit %d: %s", command[0], code, output);
            cr_assert_eq(strncmp(output, cases[i].words, strlen(cases[i].words)), 0, "%s: %s", command[0], output);
        }
    }
}

Test(trainctl, a_daemon_on_a_port_wants_the_secret)
{
    char program[PATH_MAX], port[64], fingerprint[65];
    struct process second;
    folder_write("secret", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
    folder_write("other", "10112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
    cr_assert_eq(chmod(folder_path("secret"), 0600) | chmod(folder_path("other"), 0600), 0);
    program_find("trainerd", program, sizeof program);
    const char *arguments[] = {program,
                               "--listen",
                               "tcp:127.0.0.1:0",
                               "--state",
                               "state2",
                               "--set",
                               "secret_file=secret",
                               "--set",
                               geteuid() == 0 ? "tcp_user=nobody" : "tcp_user=",
                               NULL};
    process_start(&second, NULL, folder, NULL, arguments);
    process_await_listening(&second);
    const char *at = strstr(second.words, "tcp:127.0.0.1:");
    cr_assert_not_null(at, "%s", second.words);
    snprintf(port, sizeof port, "%.*s", (int)strcspn(at, ", \""), at);
    at = strstr(second.words, ", fingerprint ");
    cr_assert_not_null(at, "%s", second.words);
    snprintf(fingerprint, sizeof fingerprint, "%.64s", at + strlen(", fingerprint "));
    setenv("TRAINERD_FINGERPRINT", fingerprint, 1);
    EXPECT(0, "trainerd 0.", "--to", port, "--secret-file", "secret", "version");
    EXPECT(69, "the secret is not proved", "--to", port, "--secret-file", "other", "status");
    EXPECT(78, "expected --secret-file", "--to", port, "status");
    EXPECT(0, "", "--to", port, "--secret-file", "secret", "status");
    char uid[32];
    folder_write("job.toml", "[dataset]\ngenerator = \"karate\"\n");
    EXPECT(0, "", "--to", port, "--secret-file", "secret", "submit", "job.toml");
    snprintf(uid, sizeof uid, "\"uid\":%u,", geteuid() == 0 ? 65534u : (unsigned)geteuid());
    EXPECT(0, uid, "--json", "--to", port, "--secret-file", "secret", "status", "1");
    kill(second.pid, SIGTERM);
    cr_assert_eq(process_finish(&second), 0);
}

/* Answer one request by this line, as a daemon of a later trainerd would. */
static pid_t newer_daemon(const char *answer, char *address_out, size_t capacity)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n_where = sizeof where;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&where, n_where), 0);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&where, &n_where), 0);
    snprintf(address_out, capacity, "tcp:127.0.0.1:%d", ntohs(where.sin_port));
    pid_t pid = fork();
    if (pid == 0) {
        char request[512];
        int file = accept(listener, NULL, NULL);
        bool is_sent = recv(file, request, sizeof request, 0) > 0 &&
                       send(file, answer, strlen(answer), MSG_NOSIGNAL) == (ssize_t)strlen(answer);
        _exit(is_sent && recv(file, request, sizeof request, 0) == 0 ? 0 : 1); /* nothing else was asked */
    }
    close(listener);
    return pid;
}

Test(trainctl, a_daemon_of_another_protocol_is_named_with_both_versions)
{
    static const char *const answers[] = {
        "{\"id\":1,\"ok\":true,\"v\":2,\"version\":\"9.8.7\",\"nonce\":\"00\"}\n",
        "{\"id\":1,\"ok\":false,\"exit_code\":2,\"error\":\"the client speaks version 1 of "
        "the protocol, this daemon version 2\"}\n"};
    static const char *const words[] = {
        "the daemon, trainerd 9.8.7, speaks version 2 of the protocol, this trainctl, " TRAINERD_VERSION
        ", version 1: use the trainctl of the daemon's version",
        "the client speaks version 1 of the protocol, this daemon version 2"};
    folder_write("secret", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
    cr_assert_eq(chmod(folder_path("secret"), 0600), 0);
    for (int i = 0; i < 2; i++) {
        char address[64];
        int status = 0;
        pid_t pid = newer_daemon(answers[i], address, sizeof address);
        EXPECT(i == 0 ? 69 : 2, words[i], "--to", address, "--fingerprint", "none", "--secret-file", "secret",
               "status");
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert_eq(status, 0);
    }
}

Test(trainctl, commands_of_python_say_what_to_install_where_it_lacks_the_package)
{
    cr_assert_eq(setenv("PYTHONHOME", "/nowhere", 1), 0); // no Python finds its own library
    EXPECT(69, "install Python 3.11 or newer and trainerd's Python package", "web");
    EXPECT(69, "install Python 3.11 or newer and trainerd's Python package", "plot", "1");
    cr_assert_eq(RUN("web", "--port", "65536"), 2, "%s", output);
    cr_assert_eq(RUN("web", "--json"), 2, "%s", output);
}
