/* Sweeps as their users meet them: groups of jobs that are accepted whole or not at all, also where the daemon dies
 * meanwhile. */
#include "partition/files/npy.h"
#include "protocol/base/clock.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/process/command.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"
#include "tests/support/process/served.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define JOB                                                                                                          \
    "name = \"k\"\n[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 2\ncache = \"off\"\n[workers]\nthreads "  \
    "= "                                                                                                             \
    "1\n[train]\nepochs = "

static void make_all(void)
{
    folder_make();
    served_address_set();
    folder_write("job.toml", JOB "3\n");
    folder_write("long.toml", JOB "100000000\neval_every = 0\n");
}

static void remove_all(void)
{
    unsetenv("TRAINERD_FAULTS");
    folder_remove();
}

static void make_served(void)
{
    make_all();
    served_begin();
}

static void remove_served(void)
{
    served_end();
    remove_all();
}

TestSuite(experiments, .init = make_served, .fini = remove_served, .timeout = 900);
TestSuite(experiments_faults, .init = make_all, .fini = remove_all, .timeout = 900);

#define start(...) command_start("trainctl", __VA_ARGS__)

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* The state that so many jobs of a group are in, as status counts them. */
static json_int_t n_in(const char *group, const char *state)
{
    cr_assert_eq(RUN("status", "--group", group, "--json"), 0, "%s", output);
    json_t *answer = command_json();
    json_int_t n = number(json_object_get(answer, "counts"), state);
    json_decref(answer);
    return n;
}

static void await_in(const char *group, const char *state, json_int_t n)
{
    double since_s = clock_s();
    while (n_in(group, state) < n) {
        cr_assert(patience_left(since_s), "%lld jobs are never %s: %s", (long long)n, state, output);
    }
}

static size_t n_jobs(void)
{
    cr_assert_eq(RUN("status", "--limit", "0", "--json"), 0, "%s", output);
    json_t *answer = command_json();
    size_t n = json_array_size(json_object_get(answer, "jobs"));
    json_decref(answer);
    return n;
}

Test(experiments, a_sweep_is_a_group_of_jobs_each_with_a_folder_of_its_own)
{
    EXPECT(0, "6 jobs, 1 to 6\n", "submit", "job.toml", "--group", "g", "--tag", "paper", "--sweep",
           "train.lr=0.1,0.2", "--seeds", "3", "--wait");
    cr_assert_eq(strncmp(printed, "g\n", 2), 0, "%s", printed);
    cr_assert_eq(n_in("g", "SUCCEEDED"), 6);
    for (int i = 1; i <= 6; i++) {
        char path[64];
        snprintf(path, sizeof path, "runs/k-%d/result.json", i);
        json_t *result = results_json(folder_path(path)),
               *train = json_object_get(json_object_get(result, "job"), "train");
        cr_assert_eq(json_real_value(json_object_get(train, "lr")), i <= 3 ? 0.1 : 0.2);
        cr_assert_eq(number(train, "seed"), (i - 1) % 3 + 1, "one setting's seeds follow each other");
        json_decref(result);
    }
    EXPECT(0, "GROUP", "status", "--tag", "paper");
    EXPECT(0, "4 jobs are left out; --limit 0 shows all\n6 SUCCEEDED\n", "status", "--group", "g", "--limit", "2");
    EXPECT(0, "no jobs\n", "status", "--group", "h");
    EXPECT(0, "  group          g\n", "show", "4");
    EXPECT(2, "status takes either JOB, or --group", "status", "4", "--group", "g");
}

Test(experiments, the_same_sweep_sent_again_is_one_group_and_another_group_runs_it_again)
{
    EXPECT(0, "2 jobs, 1 to 2\n", "submit", "job.toml", "--seeds", "2");
    char group[64];
    snprintf(group, sizeof group, "%.*s", (int)strcspn(printed, "\n"), printed);
    cr_assert(strncmp(group, "k-", 2) == 0 && strlen(group) == 10, "%s", group);
    EXPECT(0, "2 jobs, 1 to 2, submitted before; with another --group they run again", "submit", "job.toml",
           "--seeds", "2");
    cr_assert_eq(strncmp(printed, group, strlen(group)), 0);
    EXPECT(0, "2 jobs, 3 to 4\n", "submit", "job.toml", "--seeds", "2", "--group", "again");
    EXPECT(0, "3 jobs, 5 to 7\n", "submit", "job.toml", "--seeds", "3");
    EXPECT(0, "1 job, 8\n", "submit", "job.toml", "--seeds", "9", "-s", "train.epochs=2", "--split", "0", "--seeds",
           "1");
    EXPECT(0, "9\n", "submit", "job.toml", "--group", "again");
    cr_assert_eq(n_jobs(), 9);
    await_in("again", "SUCCEEDED", 3);
}

Test(experiments, sweep_is_a_command_and_the_same_submission_as_submit_makes)
{
    EXPECT(0, "2 jobs, 1 to 2\n", "sweep", "job.toml", "train.lr=0.1,0.2", "model.hidden=4", "--group", "g",
           "--wait");
    EXPECT(0, "2 jobs, 1 to 2, submitted before", "submit", "job.toml", "--sweep", "train.lr=0.1,0.2", "--sweep",
           "model.hidden=4", "--group", "g");
    EXPECT(0, "1 job, 3\n", "sweep", "job.toml", "--seeds", "1", "--wait");
    EXPECT(2, "sweep takes KEY=V1,V2, --seeds or --split", "sweep", "job.toml");
    EXPECT(2, "sweep is 'train.lr', expected KEY=VALUE,VALUE", "sweep", "job.toml", "train.lr");
}

Test(experiments, one_wrong_value_leaves_no_job)
{
    EXPECT(78, "trainctl: job 3 of 4: --set train.lr: train.lr is -1.0; expected a number from 0.0", "submit",
           "job.toml", "--sweep", "train.lr=0.1,-1", "--seeds", "2");
    EXPECT(78, "--set train.hiden: unknown key 'hiden'", "submit", "job.toml", "--sweep", "train.hiden=1,2",
           "--seeds", "2");
    EXPECT(2, "--seeds: train.seed is swept already", "submit", "job.toml", "--sweep", "train.seed=1,2", "--seeds",
           "2");
    EXPECT(2, "--split all: the job's graph is generated and has one split", "submit", "job.toml", "--split", "all");
    EXPECT(2, "--group is empty", "submit", "job.toml", "--seeds", "2", "--group", "");
    EXPECT(2, "the sweep has more than 1000 jobs", "submit", "job.toml", "--sweep", "train.lr=1,2", "--seeds", "501");
    cr_assert_eq(n_jobs(), 0);
}

Test(experiments, a_group_is_cancelled_and_resumed_as_one)
{
    EXPECT(0, "", "submit", "long.toml", "--group", "g", "--seeds", "8");
    EXPECT(0, "", "submit", "long.toml", "--name", "other");
    await_in("g", "RUNNING", 1);
    EXPECT(0, "\"jobs\":[1,2,3,4,5,6,7,8]", "cancel", "--group", "g", "--json");
    await_in("g", "CANCELLED", 8);
    EXPECT(0, "", "resume", "--group", "g");
    await_in("g", "RUNNING", 1);
    EXPECT(0, "", "cancel", "--group", "g");
    EXPECT(0, "", "cancel", "other");
    EXPECT(66, "there is no group 'none'", "cancel", "--group", "none");
    EXPECT(2, "cancel takes JOB, or --group GROUP", "cancel");
    EXPECT(2, "checkpoint takes JOB", "checkpoint");
    await_in("g", "CANCELLED", 8);
}

/* --- compare --- */

static double best(int job, const char *metric)
{
    char path[64];
    snprintf(path, sizeof path, "runs/k-%d/result.json", job);
    json_t *result = results_json(folder_path(path));
    double value = results_number(json_object_get(result, "best"), metric);
    json_decref(result);
    return value;
}

/* The line of CSV that begins so. owns  the caller frees it */
static char *line_of(const char *begin)
{
    const char *at = strstr(printed, begin);
    cr_assert_not_null(at, "%s", printed);
    return strndup(at, strcspn(at, "\n"));
}

/* Two settings of two seeds each, as the four results say them: the same of the daemon's group and of the folders. */
Test(experiments, compare_puts_the_best_setting_first_with_means_and_deviations_over_its_seeds)
{
    EXPECT(0, "", "submit", "job.toml", "--group", "g", "--sweep", "train.lr=0.0,0.1", "--seeds", "2", "--wait", "-s",
           "train.epochs=30");
    double valid[2][2] = {{best(1, "valid_metric"), best(2, "valid_metric")},
                          {best(3, "valid_metric"), best(4, "valid_metric")}};
    double test[2] = {best(3, "test_metric"), best(4, "test_metric")};
    cr_assert_gt(valid[1][0] + valid[1][1], valid[0][0] + valid[0][1], "a rate of 0 learns nothing");
    for (int from_folders = 0; from_folders < 2; from_folders++) {
        if (from_folders) {
            EXPECT(0, "", "compare", "--to", "unix:/nowhere", "runs/k-1", "runs/k-2", "runs/k-3", "runs/k-4",
                   "--csv");
        } else {
            EXPECT(0, "", "compare", "g", "--csv");
        }
        cr_assert_eq(strncmp(printed, "train.lr,runs,done,metric,valid_mean,valid_std,test_mean,test_std,", 66), 0,
                     "%s", printed);
        char *first = line_of("0.1,2,2,accuracy,"), *second = line_of("0.0,2,2,accuracy,");
        cr_assert_lt(strstr(printed, first), strstr(printed, second), "the best is first: %s", printed);
        double got[4];
        cr_assert_eq(sscanf(first, "0.1,2,2,accuracy,%lf,%lf,%lf,%lf", &got[0], &got[1], &got[2], &got[3]), 4, "%s",
                     first);
        cr_expect_float_eq(got[0], (valid[1][0] + valid[1][1]) / 2, 1e-12);
        cr_expect_float_eq(got[1], fabs(valid[1][0] - valid[1][1]) / sqrt(2), 1e-12);
        cr_expect_float_eq(got[2], (test[0] + test[1]) / 2, 1e-12);
        cr_expect_float_eq(got[3], fabs(test[0] - test[1]) / sqrt(2), 1e-12);
        free(first);
        free(second);
    }
    EXPECT(0, "train.lr  RUNS ", "compare", "g");
    EXPECT(
        0,
        "job,name,state,folder,train.lr,train.seed,metric,valid,test,loss,best_epoch,epochs,seconds\n3,k,SUCCEEDED,/",
        "compare", "g", "--csv", "--runs");
    EXPECT(0, "JOB  NAME  STATE      train.lr  train.seed ", "compare", "g", "--runs");
    EXPECT(0, "", "compare", "g", "--json");
    json_t *answer = command_json(), *setting = json_array_get(json_object_get(answer, "settings"), 0);
    cr_assert_eq(json_real_value(json_object_get(json_object_get(setting, "settings"), "train.lr")), 0.1);
    cr_assert_eq(number(json_array_get(json_object_get(setting, "runs"), 1), "job"), 4);
    json_decref(answer);
}

Test(experiments, compare_takes_groups_jobs_and_folders_together_and_counts_what_is_not_done)
{
    EXPECT(0, "", "submit", "job.toml", "--group", "done", "--seeds", "2", "--wait");
    EXPECT(0, "", "submit", "job.toml", "--name", "one", "--wait", "-s", "model.hidden=8");
    EXPECT(0, "", "submit", "long.toml", "--group", "runs", "--seeds", "2");
    EXPECT(0, "", "compare", "done", "one", "runs/k-1", "runs", "--csv");
    expect_words(printed, "model.hidden,train.epochs,train.eval_every,runs,done,");
    expect_words(printed, "\n64,3,1,3,3,accuracy,");
    expect_words(printed, "\n8,3,1,1,1,accuracy,");
    expect_words(printed, "\n64,100000000,0,2,0,accuracy,,,,,,\n");
    EXPECT(0, "0 of 2", "compare", "done", "runs");
    EXPECT(66, "there is no group and no job 'none', and no folder of that name with result.json", "compare", "none");
    EXPECT(66, "cannot open 'none/here/result.json': No such file", "compare", "none/here");
    cr_assert_eq(mkdir(folder_path("bad"), 0755), 0);
    folder_write("bad/result.json", "{");
    EXPECT(65, "'bad/result.json' is no JSON", "compare", "bad");
    folder_write("bad/result.json", "{}");
    EXPECT(65, "'bad/result.json' has no job_text", "compare", "bad");
    EXPECT(2, "compare takes either --csv or --json", "compare", "done", "--csv", "--json");
    EXPECT(0, "", "cancel", "--group", "runs");
    await_in("runs", "CANCELLED", 2);
}

/* --- splits of a data folder --- */

static void save(const char *name, int rank, const int64_t *shape, const int64_t *values)
{
    expect_done(npy_save(folder_path(name), NPY_TYPE_I64, rank, shape, values));
}

/* A ring of twelve nodes in two classes, with three splits: row k of train_idx is {3k, 3k + 1, 3k + 2}. */
static void make_data(void)
{
    enum { N = 12, K = 3 };
    int64_t edges[2 * 2 * N], labels[N], train[K * K], valid = 11;
    for (int i = 0; i < N; i++) {
        labels[i] = i % 2;
        edges[2 * i] = edges[2 * N + 2 * i + 1] = i;
        edges[2 * i + 1] = edges[2 * N + 2 * i] = (i + 1) % N;
    }
    for (int i = 0; i < K * K; i++) {
        train[i] = i;
    }
    cr_assert_eq(mkdir(folder_path("data"), 0755), 0);
    save("data/edges.npy", 2, (const int64_t[]){2, 2 * N}, edges);
    save("data/labels.npy", 1, (const int64_t[]){N}, labels);
    save("data/train_idx.npy", 2, (const int64_t[]){K, K}, train);
    save("data/valid_idx.npy", 1, (const int64_t[]){1}, &valid);
    save("data/features.npy", 2, (const int64_t[]){N, 1}, labels);
}

/* The one partition in the cache: a file that is made again has another number. */
static ino_t cached(void)
{
    glob_t found;
    struct stat about;
    cr_assert_eq(glob(folder_path("cache/*.partition"), 0, NULL, &found), 0);
    cr_assert_eq(found.gl_pathc, 1);
    cr_assert_eq(stat(found.gl_pathv[0], &about), 0);
    globfree(&found);
    return about.st_ino;
}

Test(experiments, all_splits_of_a_data_folder_are_a_job_each_on_one_cached_partition)
{
    make_data();
    folder_write("split.toml", "name = \"s\"\n[dataset]\npath = \"data\"\n[partition]\nparts = 2\ncache = "
                               "\"cache\"\n[train]\nepochs = 2\n[workers]\nthreads = 1\n");
    EXPECT(0, "SUCCEEDED", "submit", "split.toml", "--wait");
    ino_t first = cached();
    EXPECT(0, "6 jobs, 2 to 7\n", "submit", "split.toml", "--group", "g", "--split", "all", "--seeds", "2", "--wait");
    cr_assert_eq(cached(), first);
    for (int i = 1; i <= 6; i++) {
        char path[64];
        snprintf(path, sizeof path, "runs/s-%d/result.json", i + 1);
        json_t *result = results_json(folder_path(path)),
               *split = json_object_get(json_object_get(result, "dataset"), "split");
        cr_assert_eq(number(split, "index"), (i - 1) / 2);
        cr_assert_eq(number(split, "of"), 3);
        json_decref(result);
    }
    EXPECT(0, "2 jobs, 8 to 9\n", "submit", "split.toml", "--split", "0,2", "--wait");
    EXPECT(2, "--split all: the paths of --sweep dataset.path may have other splits", "submit", "split.toml",
           "--split", "all", "--sweep", "dataset.path=data,nowhere");
    EXPECT(78, "--set name: name must be fit for a folder", "submit", "split.toml", "--seeds", "1", "--name", "a/b");
    EXPECT(0, "1 job, 10\n", "submit", "split.toml", "--seeds", "1", "--name", "a b", "--wait");
    cr_assert_eq(strncmp(printed, "a b-", 4), 0, "%s", printed);
    EXPECT(65, "--split all: the splits of 'nowhere' cannot be counted", "submit", "split.toml", "--split", "all",
           "-s", "dataset.path=nowhere");
}

/* Every line of what was printed is so wide at most. */
static void expect_width(size_t n_most)
{
    for (const char *line = printed; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t n = 0;
        for (const char *at = line; *at != '\n' && *at != '\0'; at++) {
            n += (*at & 0xc0) != 0x80; /* a character's first byte */
        }
        cr_assert_leq(n, n_most, "%s", printed);
    }
}

Test(experiments, compare_fits_80_columns_and_counts_the_keys_that_have_no_place)
{
    static const char name[] = "a-name-of-a-job-that-is-too-long-for-any-column-of-a-table";
    EXPECT(0, "", "submit", "job.toml", "--group", "g", "--name", name, "--wait");
    EXPECT(0, "", "submit", "job.toml", "--group", "g", "--name", name, "--wait", "-s", "train.lr=0.0123456789", "-s",
           "train.weight_decay=0.0001", "-s", "model.hidden=8", "-s", "model.dropout=0.125", "-s",
           "model.input_dropout=0.25", "-s", "partition.method=block", "-s", "train.clip_norm=1.5");
    EXPECT(0, "4 more keys differ; --csv and --json have all\n", "compare", "g");
    expect_width(80);
    expect_words(printed, "TEST");
    EXPECT(0, " more keys differ; --csv and --json have all\n", "compare", "g", "--runs");
    expect_width(80);
    expect_words(printed, "  a-name-of-a-job-that-is…");
    EXPECT(0, "partition.method,model.hidden,", "compare", "g", "--csv");
}

Test(experiments, compare_ranks_runs_of_different_data_where_it_is_told_to_alone)
{
    make_data();
    folder_write(
        "path.toml",
        "name = \"s\"\n[partition]\nparts = 2\ncache = \"off\"\n[train]\nepochs = 2\n[workers]\nthreads = 1\n");
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "cp -r %s/data %s/copy", folder, folder);
    cr_assert_eq(system(command), 0);
    EXPECT(0, "", "submit", "path.toml", "--group", "same", "--sweep", "dataset.path=data,copy", "--wait");
    EXPECT(0, "copy", "compare", "same");
    EXPECT(0, "", "submit", "job.toml", "--name", "other", "--wait");
    EXPECT(2, " is of karate (34 nodes): runs of different data cannot be ranked; --all ranks them\n", "compare",
           "same", "other");
    expect_words(output, "data (12 nodes), and '");
    EXPECT(2, "cannot be ranked", "compare", "same", "other", "--json");
    EXPECT(0, "karate", "compare", "same", "other", "--all");
}

Test(experiments, who_waits_for_a_group_gets_the_exit_code_of_the_first_that_did_not_succeed)
{
    make_data();
    folder_write(
        "path.toml",
        "name = \"s\"\n[partition]\nparts = 2\ncache = \"off\"\n[train]\nepochs = 2\n[workers]\nthreads = 1\n");
    EXPECT(66, "     2  path=data                     SUCCEEDED         2/2 ", "submit", "path.toml", "--group", "g",
           "--sweep", "dataset.path=nowhere,data", "--wait");
    expect_words(output, "     1  path=nowhere                  FAILED            0/2 ");
    EXPECT(0, "nowhere       0 of 1 ", "compare", "g");
}

/* --- deaths --- */

/* The daemon dies at a point of a submission; its client hears nothing. The next daemon has no job, or all of them,
 * and what is sent again is one group. */
static void expect_whole(const char *fault, size_t n_after)
{
    setenv("TRAINERD_FAULTS", fault, 1);
    served_begin();
    unsetenv("TRAINERD_FAULTS");
    EXPECT(69, "", "submit", "job.toml", "--group", "g", "--seeds", "5");
    process_finish(&served_process);
    served_begin();
    cr_assert_eq(n_jobs(), n_after, "%s: %s", fault, printed);
    for (int again = 0; again < 2; again++) {
        EXPECT(0, "5 jobs, ", "submit", "job.toml", "--group", "g", "--seeds", "5", "--wait");
        cr_assert_eq(n_jobs(), 5);
    }
    cr_assert_eq(n_in("g", "SUCCEEDED"), 5);
    served_end();
}

Test(experiments_faults, a_daemon_that_dies_before_all_jobs_are_written_has_none)
{
    expect_whole("daemon.admit=kill@1", 0);
}

Test(experiments_faults, a_daemon_that_dies_when_the_last_job_is_written_and_not_saved_has_none)
{
    expect_whole("daemon.admit=kill@5", 0);
}

Test(experiments_faults, a_daemon_that_dies_before_its_answer_has_all_jobs)
{
    expect_whole("daemon.admitted=kill", 5);
}

Test(experiments_faults, jobs_of_a_sweep_whose_processes_are_killed_end_with_the_same_bits)
{
    folder_write("two.toml", JOB "12\ncheckpoint_every = 4\n[model]\ndropout = 0.5\n");
    const char *const arguments[] = {"submit", "two.toml",        "--sweep", "train.lr=0.1,0.2", "--seeds", "2",
                                     "-s",     "workers.count=2", "--wait",  "--group",          "calm",    NULL};
    served_begin();
    cr_assert_eq(command_finish(start(arguments)), 0, "%s", output);
    served_end();
    setenv("TRAINERD_FAULTS", "coordinator.epoch=kill@7/1,worker1.step=kill@3/2", 1);
    served_begin();
    unsetenv("TRAINERD_FAULTS");
    EXPECT(0, "4 jobs, 5 to 8\n", "submit", "two.toml", "--sweep", "train.lr=0.1,0.2", "--seeds", "2", "-s",
           "workers.count=2", "--wait", "--group", "storm");
    EXPECT(0, "  attempt        3, 2 of at most 3 restarts", "show", "8");
    for (int i = 1; i <= 4; i++) {
        char calm[PATH_MAX], storm[PATH_MAX];
        snprintf(calm, sizeof calm, "%s/runs/k-%d", folder, i);
        snprintf(storm, sizeof storm, "%s/runs/k-%d", folder, i + 4);
        results_expect_same_model(calm, storm);
    }
    served_end();
}
