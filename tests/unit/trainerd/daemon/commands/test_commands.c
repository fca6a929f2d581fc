/* Requests as a client meets them: what each does, what it refuses, whose jobs it shows. */
#include "tests/support/process/folder.h"
#include "tests/unit/trainerd/daemon/commands/talk.h"
#include "trainerd/socket/requests.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(commands, .init = talk_begin, .fini = talk_end, .timeout = 900);

/* --- submit --- */

Test(commands, a_job_is_kept_before_it_is_acknowledged_and_the_queue_is_looked_at)
{
    json_t *answer = ask(
        SUBMIT(",\"name\":\"first\",\"priority\":5,\"time_limit_s\":60.5,\"set\":[\"train.epochs=7\"]"));
    expect_ok(answer);
    cr_assert_eq(number(answer, "job"), 1);
    cr_assert_str_eq(text(answer, "name"), "first");
    cr_assert_str_eq(text(answer, "state"), "QUEUED");
    cr_assert_eq(supervisor.n_schedule, 1);
    json_decref(answer);
    const struct job_record *record = jobs_get(jobs, 1);
    cr_assert_eq(record->priority, 5);
    cr_assert_eq(record->time_limit_s, 60.5);
    cr_assert_eq(record->max_restarts, 3, "the daemon's default");
    cr_assert_eq(record->uid, geteuid());
    struct store_submission kept;
    cr_assert_eq(store_submission_get(jobs_store(jobs), 1, &kept), STATUS_OK);
    cr_assert_str_eq(kept.set[1], "name=\"first\"", "the coordinator is told the name too");
    cr_assert_str_eq(kept.output, "/tmp/runs/first");
    store_submission_release(&kept);
}

Test(commands, the_same_submission_id_finds_the_same_job)
{
    int64_t id = submit(SUBMIT(",\"submission_id\":\"once\""));
    json_t *answer = ask(SUBMIT(",\"submission_id\":\"once\""));
    cr_assert_eq(number(answer, "job"), id);
    cr_assert(json_is_true(json_object_get(answer, "existing")));
    json_decref(answer);
    cr_assert_neq(submit(SUBMIT(",\"submission_id\":\"twice\"")), id);
}

Test(commands, what_is_wrong_with_a_submission_is_said_and_nothing_is_kept)
{
    expect_failure(ask("{\"v\":1,\"cmd\":\"submit\",\"folder\":\"/tmp\",\"config\":\"[train]\\nepoch = 3\\n\"}"), 78,
                   "2:1: unknown key 'epoch'");
    expect_failure(ask("{\"v\":1,\"cmd\":\"submit\",\"folder\":\"/tmp\"}"), 2,
                   "submit needs config: the job file's text");
    expect_failure(ask("{\"v\":1,\"cmd\":\"submit\",\"folder\":\"tmp\",\"config\":\"\"}"), 2,
                   "'tmp' is not an absolute path");
    expect_failure(ask(SUBMIT(",\"set\":[\"train.lr\"]")), 2, "expected section.key=value");
    expect_failure(ask(SUBMIT(",\"set\":\"train.lr=1\"")), 2, "submit: set is not an array of texts");
    expect_failure(ask(SUBMIT(",\"set\":[1]")), 2, "submit: set is not an array of texts");
    expect_failure(ask(SUBMIT(",\"name\":\"12\"")), 2, "name '12' is a number");
    expect_failure(ask(SUBMIT(",\"name\":\"a\\nb\"")), 2, "contains a character that is not seen");
    static const char not_seen[] = "contains a character that is not seen";
    expect_failure(ask(SUBMIT(",\"name\":\"a\\u202eb\"")), 2,
                   "name 'a\\xe2\\x80\\xaeb' contains a character that is not seen");
    expect_failure(ask(SUBMIT(",\"group\":\"a\\u200bb\"")), 2, not_seen);
    expect_failure(ask(SUBMIT(",\"tags\":[\"a\\u2066b\"]")), 2, not_seen);
    expect_failure(ask(SUBMIT(",\"submission_id\":\"a\\u0085b\"")), 2, not_seen);
    expect_failure(ask(SUBMIT(",\"set\":[\"name=\\\"a\\u2028b\\\"\"]")), 78,
                   "job.toml: name 'a\\xe2\\x80\\xa8b' contains");
    expect_failure(ask(SUBMIT(",\"name\":\"0123456789012345678901234567890123456789012345678901234567890123x\"")), 2,
                   "name has 65 bytes, expected at most 63");
    expect_failure(ask(SUBMIT(",\"file\":\"a\\nb\"")), 2, "file 'a\\x0ab' contains a character that is not seen");
    expect_failure(ask(SUBMIT(",\"file\":\"my.toml\",\"set\":[\"a\"]")), 2, "expected section.key=value");
    expect_failure(ask("{\"v\":1,\"cmd\":\"submit\",\"folder\":\"/tmp\",\"file\":\"my.toml\",\"config\":\"lr = 1\"}"),
                   78, "my.toml:1:1: unknown key 'lr'");
    expect_failure(ask(SUBMIT(",\"priority\":1000001")), 2, "priority is 1e+06, expected -1e+06 to 1e+06");
    expect_failure(ask(SUBMIT(",\"max_restarts\":-1")), 2, "max_restarts is -1, expected 0 to 1000");
    expect_failure(ask(SUBMIT(",\"time_limit_s\":-1")), 2, "time_limit_s is -1");
    expect_failure(ask(SUBMIT(",\"prio\":1")), 2,
                   "submit takes no 'prio'; it takes config, file, folder, set, jobs, name");
    size_t n;
    jobs_all(jobs, &n);
    cr_assert_eq(n, 0);
}

Test(commands, an_unknown_or_missing_command_is_refused)
{
    expect_failure(ask("{\"v\":1,\"cmd\":\"format\"}"), 2, "there is no command 'format'");
    expect_failure(ask("{\"v\":1}"), 2, "cmd is missing");
    expect_failure(ask("{\"v\":1,\"cmd\":\"version\",\"x\":1}"), 2, "version takes no 'x'; it takes nothing");
    expect_failure(ask("{\"v\":1,\"cmd\":\"show\"}"), 2, "show needs job: a job's number or name");
    expect_failure(ask("{\"v\":1,\"cmd\":\"show\",\"job\":true}"), 2, "show: job is not a job's number or name");
}

/* --- status --- */

Test(commands, status_pages_through_jobs_from_the_newest_and_counts_states)
{
    for (int i = 0; i < 5; i++) {
        submit(SUBMIT(""));
    }
    job_become(2, JOB_STATE_CANCELLED);
    json_t *answer = ask("{\"v\":1,\"cmd\":\"status\",\"limit\":2}"), *list = json_object_get(answer, "jobs");
    cr_assert_eq(json_array_size(list), 2);
    cr_assert_eq(number(json_array_get(list, 0), "id"), 5);
    cr_assert_eq(number(json_object_get(answer, "counts"), "QUEUED"), 4);
    cr_assert_eq(number(json_object_get(answer, "counts"), "CANCELLED"), 1);
    cr_assert_eq(number(answer, "before"), 4);
    json_decref(answer);
    answer = ask("{\"v\":1,\"cmd\":\"status\",\"before\":4,\"limit\":3,\"active\":true}");
    list = json_object_get(answer, "jobs");
    cr_assert_eq(json_array_size(list), 2, "job 2 has ended");
    cr_assert_eq(number(json_array_get(list, 1), "id"), 1);
    cr_assert_null(json_object_get(answer, "before"));
    json_decref(answer);
    expect_failure(ask("{\"v\":1,\"cmd\":\"status\",\"limit\":1001}"), 2, "limit is 1001, expected 1 to 1000");
}

/* The numbers of jobs in an answer, which is released: "4,2 skip 2". */
static void expect_jobs(json_t *answer, const char *expected)
{
    char got[128] = "";
    size_t i, n = 0;
    const json_t *job;
    json_array_foreach(json_object_get(answer, "jobs"), i, job)
    {
        n += (size_t)snprintf(got + n, sizeof got - n, "%s%lld", i > 0 ? "," : "", (long long)number(job, "id"));
    }
    if (json_object_get(answer, "skip") != NULL) {
        snprintf(got + n, sizeof got - n, " skip %lld", (long long)number(answer, "skip"));
    }
    cr_assert_str_eq(got, expected);
    json_decref(answer);
}

Test(commands, status_pages_through_jobs_by_their_turn)
{
    for (int i = 0; i < 6; i++) {
        submit(SUBMIT(""));
    }
    job_become(1, JOB_STATE_CANCELLED);
    job_become(3, JOB_STATE_CANCELLED);
    jobs_place(jobs, 2, 3);
    jobs_place(jobs, 4, 2);
    jobs_place(jobs, 5, 1); /* that of the last is not found yet */
    expect_jobs(ask("{\"v\":1,\"cmd\":\"status\",\"by_turn\":true}"), "5,4,2,6,3,1");
    expect_jobs(ask("{\"v\":1,\"cmd\":\"status\",\"by_turn\":true,\"limit\":2}"), "5,4 skip 2");
    expect_jobs(ask("{\"v\":1,\"cmd\":\"status\",\"by_turn\":true,\"skip\":2,\"limit\":2}"), "2,6 skip 4");
    expect_jobs(ask("{\"v\":1,\"cmd\":\"status\",\"by_turn\":true,\"skip\":2,\"active\":true}"), "2,6");
    expect_jobs(ask("{\"v\":1,\"cmd\":\"status\",\"by_turn\":true,\"skip\":7}"), "");
    json_t *answer = ask("{\"v\":1,\"cmd\":\"status\",\"by_turn\":true,\"limit\":1}");
    cr_assert_eq(number(json_array_get(json_object_get(answer, "jobs"), 0), "position"), 1);
    cr_assert_eq(number(json_object_get(answer, "counts"), "QUEUED"), 4);
    json_decref(answer);
    expect_failure(ask("{\"v\":1,\"cmd\":\"status\",\"by_turn\":true,\"skip\":-1}"), 2,
                   "skip is -1, expected 0 to 1e+09");
}

Test(commands, status_finds_a_job_by_number_or_name)
{
    submit(SUBMIT(",\"name\":\"one\""));
    json_t *answer = ask("{\"v\":1,\"cmd\":\"status\",\"job\":\"one\"}");
    cr_assert_eq(number(json_array_get(json_object_get(answer, "jobs"), 0), "id"), 1);
    json_decref(answer);
    answer = ask("{\"v\":1,\"cmd\":\"status\",\"job\":1}");
    cr_assert_str_eq(text(json_array_get(json_object_get(answer, "jobs"), 0), "name"), "one");
    json_decref(answer);
    expect_failure(ask("{\"v\":1,\"cmd\":\"status\",\"job\":\"two\"}"), 66, "there is no job 'two'");
    expect_failure(ask("{\"v\":1,\"cmd\":\"status\",\"job\":-1}"), 66, "there is no job '-1'");
}

Test(commands, a_backup_of_all_users_jobs_is_for_administrators)
{
    char request[512];
    submit(SUBMIT(""));
    snprintf(request, sizeof request, "{\"v\":1,\"cmd\":\"backup\",\"path\":\"%s/copy\"}", folder);
    json_t *answer = ask(request);
    expect_ok(answer);
    cr_assert_eq(number(answer, "jobs"), 1);
    json_decref(answer);
    cr_assert(folder_has("copy"));
    expect_failure(ask(request), 73, "File exists");
    expect_failure(ask("{\"v\":1,\"cmd\":\"backup\",\"path\":\"copy\"}"), 2, "is not an absolute path");
    struct client other_user;
    if (!other_user_open(&other_user)) {
        cr_skip_test("needs root");
    }
    cr_assert_eq(unlink(folder_path("copy")), 0);
    expect_failure(ask_by(&other_user, request), 2, "expected root, or the daemon's user");
    cr_assert_not(folder_has("copy"));
    client_close(&other_user);
}

Test(commands, draining_is_for_administrators_said_in_status_and_kept_by_the_store)
{
    struct jobs *again;
    json_t *answer = ask("{\"v\":1,\"cmd\":\"status\"}");
    cr_assert(json_is_false(json_object_get(answer, "draining")));
    json_decref(answer);
    answer = ask("{\"v\":1,\"cmd\":\"drain\"}");
    expect_ok(answer);
    cr_assert_eq(number(answer, "running"), 0);
    json_decref(answer);
    answer = ask("{\"v\":1,\"cmd\":\"status\"}");
    cr_assert(json_is_true(json_object_get(answer, "draining")));
    json_decref(answer);
    struct client other_user;
    if (other_user_open(&other_user)) {
        expect_failure(ask_by(&other_user, "{\"v\":1,\"cmd\":\"undrain\"}"), 2,
                       "undrain is of all users' jobs: expected root, or the daemon's user");
        client_close(&other_user);
    }
    cr_assert(jobs_drain(jobs));
    cr_assert_eq(store_backup(jobs_store(jobs), folder_path("copy")), STATUS_OK, "%s", status_reason());
    struct store_repaired done;
    cr_assert_eq(jobs_restore(folder_path("new"), NULL, folder_path("copy"), &done), STATUS_OK, "%s",
                 status_reason());
    cr_assert_eq(jobs_open(folder_path("new"), NULL, &again), STATUS_OK, "%s", status_reason());
    cr_assert(jobs_drain(again));
    jobs_close(again);
    answer = ask("{\"v\":1,\"cmd\":\"undrain\"}");
    expect_ok(answer);
    json_decref(answer);
    cr_assert_not(jobs_drain(jobs));
}

/* Rows of the audit, the newest first. owns  the caller has the reference */
static json_t *audit(void)
{
    json_t *answer = ask("{\"v\":1,\"cmd\":\"audit\"}"), *rows = json_incref(json_object_get(answer, "rows"));
    expect_ok(answer);
    cr_assert_null(json_object_get(answer, "before"));
    json_decref(answer);
    return rows;
}

Test(commands, changes_and_refusals_are_audited_and_reading_is_not)
{
    submit(SUBMIT(",\"name\":\"one\""));
    json_decref(ask("{\"v\":1,\"cmd\":\"status\"}"));
    json_decref(ask("{\"v\":1,\"cmd\":\"show\",\"job\":1}"));
    expect_failure(ask("{\"v\":1,\"cmd\":\"show\",\"job\":9}"), 66, "there is no job");
    json_decref(ask("{\"v\":1,\"cmd\":\"cancel\",\"job\":\"one\"}"));
    expect_failure(ask("{\"v\":1,\"cmd\":\"cancel\",\"job\":9}"), 66, "there is no job");
    json_decref(ask("{\"v\":1,\"cmd\":\"drain\"}"));
    json_t *rows = audit();
    static const struct {
        const char *what;
        int64_t job, code;
        const char *text;
    } expected[] = {
        {"drain", 0, 0, ""}, {"cancel", 9, 66, "there is no job '9'"}, {"cancel", 1, 0, ""}, {"submit", 1, 0, ""}};
    cr_assert_eq(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = json_array_get(rows, i);
        cr_assert_str_eq(text(row, "what"), expected[i].what);
        cr_assert_eq(json_integer_value(json_object_get(row, "job")), expected[i].job);
        cr_assert_eq(number(row, "exit_code"), expected[i].code);
        cr_assert_str_eq(text(row, "text"), expected[i].text);
        cr_assert_eq(number(row, "uid"), geteuid());
        cr_assert_eq(strncmp(text(row, "from"), "unix, process ", 14), 0, "%s", text(row, "from"));
    }
    json_decref(rows);
    json_t *answer = ask("{\"v\":1,\"cmd\":\"audit\",\"limit\":3}");
    cr_assert_eq(number(answer, "before"), 2);
    json_decref(answer);
    answer = ask("{\"v\":1,\"cmd\":\"audit\",\"before\":2}");
    cr_assert_str_eq(text(json_array_get(json_object_get(answer, "rows"), 0), "what"), "submit");
    json_decref(answer);
    expect_failure(ask("{\"v\":1,\"cmd\":\"audit\",\"limit\":1001}"), 2, "limit is 1001, expected 1 to 1000");
}

Test(commands, ten_refusals_of_a_user_are_audited_in_a_minute)
{
    for (int i = 0; i < 25; i++) {
        json_decref(ask("{\"v\":1,\"cmd\":\"resume\",\"job\":9}"));
    }
    json_t *rows = audit();
    cr_assert_eq(json_array_size(rows), 10);
    json_decref(rows);
}

Test(commands, the_audit_is_for_administrators)
{
    struct client other_user;
    if (!other_user_open(&other_user)) {
        cr_skip_test("needs root");
    }
    expect_failure(ask_by(&other_user, "{\"v\":1,\"cmd\":\"audit\"}"), 2, "expected root, or the daemon's user");
    client_close(&other_user);
}

Test(commands, another_users_job_shows_name_owner_and_state_and_takes_no_orders)
{
    submit(SUBMIT(",\"name\":\"mine\""));
    struct client other_user;
    if (!other_user_open(&other_user)) {
        cr_skip_test("needs root");
    }
    json_t *answer = ask_by(&other_user, "{\"v\":1,\"cmd\":\"status\"}");
    json_t *job = json_array_get(json_object_get(answer, "jobs"), 0);
    cr_assert_str_eq(text(job, "name"), "mine");
    cr_assert_str_eq(text(job, "state"), "QUEUED");
    cr_assert_null(json_object_get(job, "reason"));
    cr_assert_eq(json_object_size(job), 5);
    json_decref(answer);
    static const char *const orders[] = {"cancel", "resume", "checkpoint", "logs",
                                         "watch",  "show",   "metrics",    "workers"};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        char request[128];
        snprintf(request, sizeof request, "{\"v\":1,\"cmd\":\"%s\",\"job\":1}", orders[i]);
        expect_failure(ask_by(&other_user, request), 2, "job 1 is another user's");
    }
    expect_failure(ask_by(&other_user, "{\"v\":1,\"cmd\":\"scale\",\"job\":1,\"workers\":2}"), 2,
                   "job 1 is another user's");
    expect_failure(ask_by(&other_user, "{\"v\":1,\"cmd\":\"cancel\",\"job\":\"mine\"}"), 66,
                   "there is no job 'mine'");
    cr_assert_str_eq(supervisor.asked, "");
    json_decref(ask_by(&other_user, SUBMIT(",\"name\":\"theirs\"")));
    cr_assert_eq(jobs_get(jobs, 2)->uid, STRANGER);
    expect_ok(answer = ask("{\"v\":1,\"cmd\":\"cancel\",\"job\":2}"));
    json_decref(answer);
    client_close(&other_user);
}

/* --- orders --- */

Test(commands, orders_reach_the_supervisor_and_its_refusals_the_client)
{
    submit(SUBMIT(",\"name\":\"a\""));
    static const char *const orders[] = {"cancel", "resume", "checkpoint"};
    for (size_t i = 0; i < 3; i++) {
        char request[128], asked[64];
        snprintf(request, sizeof request, "{\"v\":1,\"cmd\":\"%s\",\"job\":\"a\"}", orders[i]);
        snprintf(asked, sizeof asked, "%s 1", orders[i]);
        json_t *answer = ask(request);
        expect_ok(answer);
        cr_assert_eq(number(answer, "job"), 1);
        json_decref(answer);
        cr_assert_str_eq(supervisor.asked, asked);
    }
    json_decref(ask("{\"v\":1,\"cmd\":\"scale\",\"job\":1,\"workers\":4}"));
    cr_assert_str_eq(supervisor.asked, "scale 1 to 4");
    expect_failure(ask("{\"v\":1,\"cmd\":\"scale\",\"job\":1,\"workers\":0}"), 2,
                   "workers is 0, expected 1 to 65536");
    job_become(1, JOB_STATE_CANCELLED);
    expect_failure(ask("{\"v\":1,\"cmd\":\"cancel\",\"job\":1}"), 2, "job 1 has ended");
}

/* --- show, workers --- */

Test(commands, show_gives_the_submission_history_last_epoch_and_result)
{
    char request[512];
    snprintf(request, sizeof request, SUBMIT(",\"set\":[\"output.dir=%s/out\"]"), folder);
    submit(request);
    job_become(1, JOB_STATE_PREPARING);
    json_t *answer = ask("{\"v\":1,\"cmd\":\"show\",\"job\":1}");
    expect_ok(answer);
    cr_assert(json_is_null(json_object_get(answer, "last")));
    cr_assert(json_is_null(json_object_get(answer, "result")));
    cr_assert_str_eq(text(answer, "folder"), "/tmp");
    cr_assert_str_eq(text(answer, "config"), "[dataset]\ngenerator = \"karate\"\n");
    cr_assert_eq(json_array_size(json_object_get(answer, "history")), 2);
    cr_assert_str_eq(text(json_array_get(json_object_get(answer, "history"), 1), "state"), "PREPARING");
    json_decref(answer);
    cr_assert_eq(mkdir(folder_path("out"), 0700), 0);
    folder_write("out/metrics.jsonl", "{\"epoch\":0,\"loss\":2.5}\n{\"epoch\":1,\"loss\":1.5}\n");
    char *result = malloc(200000);
    sprintf(result, "{\"seconds\":{\"total\":%*s3.5}}", 150000, "");
    folder_write("out/result.json", result);
    free(result);
    answer = ask("{\"v\":1,\"cmd\":\"show\",\"job\":1}");
    cr_assert(json_is_null(json_object_get(answer, "last")), "of a job before");
    cr_assert(json_is_null(json_object_get(answer, "result")), "of a job before");
    json_decref(answer);
    job_epochs(1, 2);
    answer = ask("{\"v\":1,\"cmd\":\"show\",\"job\":1}");
    cr_assert_eq(number(json_object_get(answer, "last"), "epoch"), 1);
    cr_assert_eq(
        json_real_value(json_object_get(json_object_get(json_object_get(answer, "result"), "seconds"), "total")),
        3.5);
    json_decref(answer);
}

/* Let the job's own folder lead to its run. */
static void lead(const char *target)
{
    char path[PATH_MAX + 16];
    job_write(1, "log", "");
    jobs_folder(jobs, 1, path);
    strcat(path, "/run");
    unlink(path);
    cr_assert_eq(symlink(target, path), 0);
}

static void expect_loss(double loss, const char *output)
{
    json_t *answer = ask("{\"v\":1,\"cmd\":\"show\",\"job\":1}");
    cr_assert_eq(json_real_value(json_object_get(json_object_get(answer, "last"), "loss")), loss);
    cr_assert_eq(json_real_value(json_object_get(json_object_get(answer, "result"), "loss")), loss);
    cr_assert_str_eq(text(answer, "output"), output);
    json_decref(answer);
}

Test(commands, show_gives_what_the_jobs_own_run_has_written_whatever_is_in_its_output_folder)
{
    char request[512], run[128], out[128], results[PATH_MAX + 16];
    snprintf(request, sizeof request, SUBMIT(",\"set\":[\"output.dir=%s/out\"]"), folder);
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(run, sizeof run, "%s/out/.run-1", folder);
    submit(request);
    job_epochs(1, 1);
    cr_assert(mkdir(out, 0700) == 0 && mkdir(run, 0700) == 0);
    folder_write("out/metrics.jsonl", "{\"loss\":9.5}\n");
    folder_write("out/result.json", "{\"loss\":9.5}");
    folder_write("out/.run-1/metrics.jsonl", "{\"loss\":2.5}\n");
    folder_write("out/.run-1/result.json", "{\"loss\":2.5}");
    lead(run);
    expect_loss(2.5, run);
    lead("results");
    jobs_folder(jobs, 1, results);
    cr_assert_eq(mkdir(strcat(results, "/results"), 0700), 0);
    job_write(1, "results/metrics.jsonl", "{\"loss\":1.5}\n");
    job_write(1, "results/result.json", "{\"loss\":1.5}");
    expect_loss(1.5, out);
    lead("/nowhere");
    json_t *answer = ask("{\"v\":1,\"cmd\":\"show\",\"job\":1}");
    cr_assert(json_is_null(json_object_get(answer, "last")) && json_is_null(json_object_get(answer, "result")));
    json_decref(answer);
}

Test(commands, workers_are_those_of_the_attempt_that_runs)
{
    submit(SUBMIT(""));
    job_become(1, JOB_STATE_RUNNING - 2);
    job_become(1, JOB_STATE_RUNNING);
    job_write(1, "events.jsonl",
              "{\"attempt\":0,\"event\":\"workers\",\"workers\":[{\"rank\":0,\"pid\":1}]}\n"
              "{\"attempt\":1,\"event\":\"workers\",\"workers\":[{\"rank\":0,\"pid\":7},{\"rank\":1,\"pid\":8}]}\n"
              "{\"attempt\":1,\"event\":\"epoch\"}\n");
    json_t *answer = ask("{\"v\":1,\"cmd\":\"workers\",\"job\":1}");
    cr_assert_eq(number(answer, "coordinator"), 4711);
    json_t *list = json_object_get(answer, "workers");
    cr_assert_eq(json_array_size(list), 2);
    cr_assert_eq(number(json_array_get(list, 1), "pid"), 8);
    json_decref(answer);
    job_become(1, JOB_STATE_SUCCEEDED);
    answer = ask("{\"v\":1,\"cmd\":\"workers\",\"job\":1}");
    cr_assert_eq(json_array_size(json_object_get(answer, "workers")), 0);
    json_decref(answer);
}

/* --- GPUs --- */

#define ON_GPUS(n) ",\"set\":[\"workers.device=" CUDA "\",\"workers.count=" #n "\",\"partition.parts=4\"]"
#ifdef CUDA_EMULATED
#define CUDA "cuda-emulated"
#else
#define CUDA "cuda"
#endif

/* The job runs on GPUs. */
static void hold(int64_t id, uint64_t set)
{
    struct job_record record = *jobs_get(jobs, id);
    record.gpus = set;
    cr_assert_eq(jobs_change(jobs, &record), STATUS_OK, "%s", status_reason());
}

Test(commands, a_job_on_gpus_is_refused_where_there_are_none)
{
    submit(SUBMIT(ON_GPUS(3))); /* on 2, in turn */
    cr_assert_eq(jobs_get(jobs, 1)->n_gpu, 3);
    gpus.n = 0;
    expect_failure(ask(SUBMIT(ON_GPUS(1) ",\"file\":\"my.toml\"")), 78,
                   "my.toml: workers.device is \"" CUDA
                   "\", but the daemon has no GPUs to give (daemon.gpus, in trainerd.toml)");
    submit(SUBMIT(""));
}

Test(commands, a_job_for_an_allocation_of_slurm_or_without_a_number_of_workers_is_refused)
{
    expect_failure(ask(SUBMIT(",\"set\":[\"workers.launcher=slurm\"],\"file\":\"my.toml\"")), 78,
                   "my.toml: workers.launcher = \"slurm\" is for trainerd --config in a batch script of Slurm "
                   "(docs/cluster.md); the "
                   "daemon's jobs run outside of allocations (daemon.runner), with another launcher");
    expect_failure(ask(SUBMIT(",\"set\":[\"workers.launcher=ssh\",\"workers.hosts=hosts\"],\"file\":\"my.toml\"")),
                   78,
                   "my.toml: workers.count is 0, the slots of workers.hosts, and the daemon has to know how many "
                   "workers to wait for: "
                   "expected a number");
    submit(SUBMIT(
        ",\"set\":[\"workers.launcher=ssh\",\"workers.hosts=hosts\",\"workers.count=2\",\"partition.parts=2\"]"));
}

Test(commands, every_gpu_is_listed_with_the_job_that_holds_it)
{
    submit(SUBMIT(""));
    submit(SUBMIT(ON_GPUS(1) ",\"name\":\"big\""));
    job_become(2, JOB_STATE_RUNNING - 2);
    job_become(2, JOB_STATE_RUNNING);
    hold(2, 0x8);
    json_t *answer = ask("{\"v\":1,\"cmd\":\"gpus\"}"), *list = json_object_get(answer, "gpus");
    const json_t *first = json_array_get(list, 0), *second = json_array_get(list, 1);
    expect_ok(answer);
    cr_assert_eq(json_array_size(list), 2);
    cr_assert_eq(number(first, "gpu"), 0);
    cr_assert_str_eq(text(first, "name"), "H100");
    cr_assert_str_eq(text(first, "uuid"), "GPU-a");
    cr_assert_eq(number(first, "memory"), 1000);
    cr_assert(json_is_null(json_object_get(first, "job")) && json_is_null(json_object_get(first, "owner")));
    cr_assert_eq(number(second, "gpu"), 3);
    cr_assert(json_is_null(json_object_get(second, "name")) && json_is_null(json_object_get(second, "memory")));
    cr_assert_eq(number(second, "job"), 2);
    cr_assert_str_eq(text(second, "job_name"), "big");
    cr_assert_str_neq(text(second, "owner"), "");
    json_decref(answer);
    answer = ask("{\"v\":1,\"cmd\":\"status\"}");
    list = json_object_get(answer, "jobs");
    const json_t *held = json_object_get(json_array_get(list, 0), "gpus_held");
    cr_assert_eq(json_array_size(held), 1);
    cr_assert_eq(json_integer_value(json_array_get(held, 0)), 3);
    cr_assert_eq(json_array_size(json_object_get(json_array_get(list, 1), "gpus_held")), 0);
    json_decref(answer);
}

Test(commands, workers_are_on_their_jobs_gpus_in_turn)
{
    submit(SUBMIT(ON_GPUS(2)));
    job_become(1, JOB_STATE_RUNNING - 2);
    job_become(1, JOB_STATE_RUNNING);
    hold(1, 0x28); /* 3, and 5, which the daemon has no more */
    job_write(1, "events.jsonl",
              "{\"attempt\":1,\"event\":\"workers\",\"workers\":[{\"rank\":0},{\"rank\":1},{\"rank\":2},7]}\n");
    json_t *answer = ask("{\"v\":1,\"cmd\":\"workers\",\"job\":1}"), *list = json_object_get(answer, "workers");
    static const int64_t expected[] = {3, 5, 3};
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(number(json_array_get(list, i), "gpu"), expected[i], "%zu", i);
    }
    list = json_object_get(answer, "gpus");
    cr_assert_eq(json_array_size(list), 2);
    cr_assert_eq(number(json_array_get(list, 1), "gpu"), 5);
    cr_assert(json_is_null(json_object_get(json_array_get(list, 1), "uuid")));
    json_decref(answer);
    hold(1, 0);
    answer = ask("{\"v\":1,\"cmd\":\"workers\",\"job\":1}");
    cr_assert_eq(json_array_size(json_object_get(answer, "gpus")), 0);
    cr_assert(json_is_null(json_object_get(json_array_get(json_object_get(answer, "workers"), 0), "gpu")));
    json_decref(answer);
}

/* --- the reference --- */

Test(commands, the_reference_in_docs_is_made_from_the_table)
{
    char *made = NULL, *kept = calloc(1, 1 << 20);
    size_t n;
    FILE *file = fopen("docs/protocol.md", "r"), *memory = open_memstream(&made, &n);
    if (file == NULL) {
        cr_skip_test("not started at the root of the source");
    }
    requests_describe(memory);
    fclose(memory);
    cr_assert_gt(fread(kept, 1, (1 << 20) - 1, file), 0);
    fclose(file);
    cr_assert_not_null(strstr(kept, made), "docs/protocol.md is not what `make docs` writes");
    free(made);
    free(kept);
}
