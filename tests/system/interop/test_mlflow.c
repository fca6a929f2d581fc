/* scripts/to_mlflow.py against a small server that takes what MLflow takes. */
#include "tests/support/process/command.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/results.h"
#include "tests/support/process/served.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct process server;
static char source[PATH_MAX], address[64];

static void make_all(void)
{
    char path[PATH_MAX + 64];
    cr_assert_not_null(getcwd(source, sizeof source));
    snprintf(path, sizeof path, "%s/tests/support/process/mlflow_server.py", source);
    if (access(path, R_OK) != 0) {
        cr_skip_test("not started at the root of the source");
    }
    if (system("/usr/bin/python3 -c '' 2>/dev/null") != 0) {
        cr_skip_test("there is no /usr/bin/python3: scripts/install-deps --test");
    }
    folder_make();
    served_address_set();
    folder_write("job.toml", "name = \"k\"\n[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 2\ncache = "
                             "\"off\"\n[workers]\nthreads = 1\n[train]\nepochs = 300\neval_every = 2\n");
    served_begin();
    process_start(&server, NULL, folder, NULL, (const char *const[]){"/usr/bin/python3", path, NULL});
    process_await(&server, "port=");
    snprintf(address, sizeof address, "http://127.0.0.1:%d", atoi(strstr(server.words, "port=") + 5));
}

static void remove_all(void)
{
    kill(server.pid, SIGKILL);
    process_finish(&server);
    served_end();
    folder_remove();
}

TestSuite(mlflow, .init = make_all, .fini = remove_all, .timeout = 900);

static pid_t start(const char *const arguments[])
{
    char program[PATH_MAX];
    program_find("trainctl", program, sizeof program);
    return command_start(program, arguments);
}

/* Run the script in the folder, trainctl of this build before others; its exit code, and what it says in `output`. */
static int record(const char *arguments)
{
    char program[PATH_MAX], command[4 * PATH_MAX];
    program_find("trainctl", program, sizeof program);
    *strrchr(program, '/') = '\0';
    snprintf(command, sizeof command,
             "cd %s && PATH=%s:$PATH MLFLOW_TRACKING_URI=%s /usr/bin/python3 %s/scripts/to_mlflow.py %s > said 2>&1",
             folder, program, address, source, arguments);
    int code = system(command);
    folder_read("said", output, sizeof output);
    return WEXITSTATUS(code);
}

/* The server's runs. owns  the caller has the reference */
static json_t *state(const char *path)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command,
             "/usr/bin/python3 -c \"import urllib.request as r; print(r.urlopen('%s%s', b'{}').read().decode())\" > "
             "%s/state.json",
             address, path, folder);
    cr_assert_eq(system(command), 0);
    return results_json(folder_path("state.json"));
}

static const char *text(const json_t *object, const char *inner, const char *key)
{
    return json_string_value(json_object_get(json_object_get(object, inner), key));
}

/* A run has all numbers of its folder's metrics.jsonl, by epoch. */
static void expect_metrics(const json_t *run, const char *path)
{
    json_t *epochs = results_metrics(path, true);
    const json_t *metrics = json_object_get(run, "metrics"), *metric;
    size_t i, n_loss = 0, n_valid = 0, n_best = 0;
    json_array_foreach(metrics, i, metric)
    {
        const char *key = json_string_value(json_array_get(metric, 0));
        const json_t *epoch = json_array_get(epochs, (size_t)json_integer_value(json_array_get(metric, 1)));
        n_loss += strcmp(key, "loss") == 0;
        n_valid += strcmp(key, "valid_metric") == 0;
        n_best += strcmp(key, "best_valid") == 0;
        if (strcmp(key, "loss") == 0 || strcmp(key, "valid_metric") == 0) {
            cr_assert_eq(json_number_value(json_array_get(metric, 2)),
                         json_number_value(json_object_get(epoch, key)));
        }
    }
    cr_assert(n_loss == 300 && n_valid == 150 && n_best == 1, "%zu losses, %zu valid metrics", n_loss, n_valid);
    json_decref(epochs);
}

Test(mlflow, a_groups_runs_are_recorded_once_with_parameters_and_metrics)
{
    EXPECT(0, "", "submit", "job.toml", "--group", "g", "--sweep", "train.lr=0.1,0.2", "--wait");
    cr_assert_eq(record("--group g --experiment e"), 0, "%s", output);
    for (int again = 0; again < 2; again++) {
        json_t *runs = state("/state");
        cr_assert_eq(json_array_size(runs), 2);
        for (size_t i = 0; i < 2; i++) {
            const json_t *run = json_array_get(runs, i);
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/runs/k-%zu", folder, i + 1);
            cr_assert_str_eq(text(run, "info", "status"), "FINISHED");
            cr_assert_str_eq(text(run, "params", "train.lr"), i == 0 ? "0.1" : "0.2");
            cr_assert_str_eq(text(run, "params", "model.kind"), "gcn");
            cr_assert_str_eq(text(run, "tags", "trainerd.group"), "g");
            cr_assert_str_eq(text(run, "tags", "trainerd.folder"), path);
            expect_metrics(run, path);
        }
        json_decref(runs);
        cr_assert_eq(record("--group g --experiment e runs/k-1"), 0, "%s", output);
        cr_assert_not_null(strstr(output, "runs/k-2: is there already, as run r1"), "%s", output);
    }
}

Test(mlflow, what_was_recorded_by_halves_is_recorded_again)
{
    EXPECT(0, "", "submit", "job.toml", "--wait");
    json_decref(state("/break"));
    cr_assert_eq(record("runs/k-1"), 1);
    cr_assert_not_null(strstr(output, "runs/log-batch: 400 "), "%s", output);
    cr_assert_eq(record("runs/k-1"), 0, "%s", output);
    json_t *runs = state("/state");
    cr_assert_eq(json_array_size(runs), 1);
    cr_assert_str_eq(text(json_array_get(runs, 0), "info", "status"), "FINISHED");
    expect_metrics(json_array_get(runs, 0), folder_path("runs/k-1"));
    json_decref(runs);
}

Test(mlflow, what_cannot_be_recorded_is_named)
{
    cr_assert_eq(record("nowhere"), 1);
    cr_assert_not_null(
        strstr(output, "nowhere/result.json: No such file or directory; expected the folder of a run's results"),
        "%s", output);
    folder_write("result.json", "{}");
    cr_assert_eq(record("."), 1);
    cr_assert_not_null(strstr(output, "not the results of a run: KeyError('job')"), "%s", output);
    cr_assert_eq(record("--group none"), 1);
    cr_assert_not_null(strstr(output, "there is no group and no job 'none'"), "%s", output);
    cr_assert_eq(record("--tracking-uri file:///x runs/k"), 2);
    cr_assert_not_null(strstr(output, "expected http://HOST:PORT"), "%s", output);
    cr_assert_eq(record(""), 2);
}
