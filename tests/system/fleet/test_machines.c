/* Workers say which machine they are on, and bits do not depend on it. */
#include "tests/support/process/folder.h"
#include "tests/support/process/machines.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS_MOST = 4 };

static char coordinator_path[PATH_MAX], worker_path[PATH_MAX];
static struct process coordinator, workers[WORKERS_MOST];

static void make_all(void)
{
    program_find("trainer-coordinator", coordinator_path, sizeof coordinator_path);
    program_find("trainer-worker", worker_path, sizeof worker_path);
    folder_make();
    folder_write("job.toml",
                 "[dataset]\ngenerator = \"sbm\"\nnodes = 3000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 4\n"
                 "method = \"random\"\ncache = \"off\"\n[model]\nkind = \"sage\"\nlayers = 3\nhidden = 16\n[train]\n"
                 "epochs = 20\neval_every = 0\nprune = \"never\"\n[workers]\nthreads = 1\n");
}

TestSuite(machines, .init = make_all, .fini = folder_remove, .timeout = 900);

static void expect_end(struct process *process, const char *part)
{
    int got = process_finish(process);
    cr_assert_eq(got, 0, "exit %d: %s", got, process->words);
    cr_assert_not_null(strstr(process->words, part), "'%s' is not in: %s", part, process->words);
}

/* Train with workers of the local launcher. */
static void train_here(const char *output, const char *count)
{
    process_start(
        &coordinator, NULL, folder, NULL,
        (const char *const[]){coordinator_path, "--config", "job.toml", "--set", count, "--set", output, NULL});
    expect_end(&coordinator, "");
}

/* Train with workers that say these names of their machines. */
static void train_on(const char *output, int n, const char *const hosts[])
{
    char count[64], word[64], join[64];
    snprintf(count, sizeof count, "workers.count=%d", n);
    process_start(&coordinator, NULL, folder, NULL,
                  (const char *const[]){coordinator_path, "--config", "job.toml", "--set", count, "--set", output,
                                        "--set", "workers.launcher=manual", "--set", "workers.token_file=token",
                                        "--set", "workers.listen=127.0.0.1:0", NULL});
    process_await(&coordinator, "waiting for ");
    const char *at = strstr(coordinator.words, "--join ");
    cr_assert(at != NULL && sscanf(at, "--join %63s", join) == 1, "%s", coordinator.words);
    for (int i = 0; i < n; i++) {
        process_start(
            &workers[i], NULL, folder, NULL,
            (const char *const[]){worker_path, "--join", join, "--token-file", "token", "--host", hosts[i], NULL});
        snprintf(word, sizeof word, "worker %d joined: ", i);
        process_await(&coordinator, word);
    }
    expect_end(&coordinator, "");
    for (int i = 0; i < n; i++) {
        expect_end(&workers[i], "");
    }
}

static void expect_machines(const char *folder_of_results, int n, const int want[])
{
    char name[64];
    snprintf(name, sizeof name, "%s/result.json", folder_of_results);
    json_t *result = results_json(folder_path(name)), *machines = json_object_get(result, "machines"),
           *of_worker = json_object_get(machines, "of_worker");
    cr_assert_eq(json_array_size(of_worker), (size_t)n);
    for (int i = 0; i < n; i++) {
        cr_expect_eq(json_integer_value(json_array_get(of_worker, (size_t)i)), want[i], "%s: worker %d", name, i);
    }
    json_decref(result);
}

Test(machines, result_json_says_which_workers_share_one_and_bits_are_the_same)
{
    train_here("output.dir=here", "workers.count=3");
    train_on("output.dir=apart", 2, (const char *const[]){"north", "south"});
    train_on("output.dir=four", 4, (const char *const[]){"north", "north", "south", "south"});
    expect_machines("here", 3, (const int[]){0, 0, 0});
    expect_machines("apart", 2, (const int[]){0, 1});
    expect_machines("four", 4, (const int[]){0, 0, 1, 1});
    results_expect_same_file(folder_path("here"), folder_path("apart"), "model.safetensors");
    results_expect_same_file(folder_path("here"), folder_path("four"), "model.safetensors");
}

static void start_worker(struct process *worker, const char *join, const char *rank)
{
    process_start(worker, NULL, folder, NULL,
                  (const char *const[]){worker_path, "--join", join, "--token-file", "token", "--rank", rank, NULL});
}

/* As containers that share a network and nothing else: UCX misreads the addresses of processes that it cannot see. */
Test(machines, workers_that_see_other_processes_train)
{
    char join[64];
    if (geteuid() != 0) {
        cr_skip_test("namespaces need root");
    }
    process_start(&coordinator, NULL, folder, NULL,
                  (const char *const[]){coordinator_path, "--config", "job.toml", "--set", "output.dir=out", "--set",
                                        "workers.count=2", "--set", "workers.launcher=manual", "--set",
                                        "workers.token_file=token", NULL});
    process_await(&coordinator, "waiting for ");
    const char *at = strstr(coordinator.words, "--join ");
    cr_assert(at != NULL && sscanf(at, "--join %63s", join) == 1, "%s", coordinator.words);
    for (int i = 0; i < 2; i++) {
        process_start(&workers[i], NULL, folder, NULL,
                      (const char *const[]){"/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                                            i == 0 ? "--ipc" : "--mount", worker_path, "--join", join, "--token-file",
                                            "token", NULL});
    }
    expect_end(&coordinator, "are on one machine in different namespaces");
    expect_end(&workers[0], "");
    expect_end(&workers[1], "");
}

/* What starts workers again where they fail, as a Job of Kubernetes, is not to take them for done. */
Test(machines, workers_have_the_ranks_that_they_ask_for_and_end_with_75_when_the_job_is_interrupted)
{
    char join[64];
    process_start(&coordinator, NULL, folder, NULL,
                  (const char *const[]){coordinator_path, "--config", "job.toml", "--set", "train.epochs=100000",
                                        "--set", "train.eval_every=1", "--set", "output.dir=out", "--set",
                                        "workers.count=2", "--set", "workers.launcher=manual", "--set",
                                        "workers.token_file=token", NULL});
    process_await(&coordinator, "waiting for ");
    const char *at = strstr(coordinator.words, "--join ");
    cr_assert(at != NULL && sscanf(at, "--join %63s", join) == 1, "%s", coordinator.words);
    start_worker(&workers[1], join, "1");
    process_await(&coordinator, "worker 1 joined: ");
    start_worker(&workers[2], join, "1");
    cr_assert_eq(process_finish(&workers[2]), 69);
    cr_assert_not_null(strstr(workers[2].words, "it asks for rank 1 of 2, which is taken, or not one of them"), "%s",
                       workers[2].words);
    start_worker(&workers[0], join, "0");
    process_await(&coordinator, "epoch 1/");
    cr_assert_eq(kill(coordinator.pid, SIGTERM), 0);
    cr_assert_eq(process_finish(&coordinator), 75, "%s", coordinator.words);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(process_finish(&workers[i]), 75, "%s", workers[i].words);
        cr_assert_not_null(strstr(workers[i].words, "interrupted after "), "%s", workers[i].words);
    }
}
