/* Requests as a client meets them: what each does, what it refuses, whose jobs it shows. */
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/unit/trainerd/daemon/commands/talk.h"
#include "trainerd/daemon/errors.h"
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
    gives(SUBMIT(",'name':'first','priority':5,'time_limit_s':60.5,'set':['train.epochs=7']"),
          "{'ok':true,'job':1,'name':'first','state':'QUEUED'}");
    cr_assert_eq(supervisor.n_schedule, 1);
    const struct job_record *record = jobs_get(jobs, 1);
    cr_assert(record->priority == 5 && record->time_limit_s == 60.5 && record->uid == geteuid());
    cr_assert_eq(record->max_restarts, 3, "the daemon's default");
    struct store_submission kept;
    cr_assert_eq(store_submission_get(jobs_store(jobs), 1, &kept), STATUS_OK);
    cr_assert_str_eq(kept.set[1], "name=\"first\"", "the coordinator is told the name too");
    cr_assert_str_eq(kept.output, "/tmp/runs/first");
    store_submission_release(&kept);
}

Test(commands, the_same_submission_id_finds_the_same_job)
{
    submit(SUBMIT(",'submission_id':'once'"));
    gives(SUBMIT(",'submission_id':'once'"), "{'job':1,'existing':true}");
    gives(SUBMIT(",'submission_id':'twice'"), "{'job':2,'existing':false}");
}

Test(commands, what_is_wrong_with_a_submission_is_said_and_nothing_is_kept)
{
    fails(CMD_OF("submit", "'folder':'/tmp','config':'[train]\\nepoch = 3\\n'"), 78, "2:1: unknown key 'epoch'");
    fails(CMD_OF("submit", "'folder':'/tmp'"), 2, "submit needs config: the job file's text");
    fails(CMD_OF("submit", "'folder':'tmp','config':''"), 2, "'tmp' is not an absolute path");
    fails(SUBMIT(",'set':['train.lr']"), 2, "expected section.key=value");
    fails(SUBMIT(",'set':'train.lr=1'"), 2, "submit: set is not an array of texts");
    fails(SUBMIT(",'set':[1]"), 2, "submit: set is not an array of texts");
    fails(SUBMIT(",'name':'12'"), 2, "name '12' is a number");
    static const char not_seen[] = "contains an invisible character";
    fails(SUBMIT(",'name':'a\\u202eb'"), 2, "name 'a\\xe2\\x80\\xaeb' contains an invisible character");
    fails(SUBMIT(",'group':'a\\u200bb'"), 2, not_seen);
    fails(SUBMIT(",'tags':['a\\u2066b']"), 2, not_seen);
    fails(SUBMIT(",'submission_id':'a\\u0085b'"), 2, not_seen);
    fails(SUBMIT(",'set':['name=\\\"a\\u2028b\\\"']"), 78, "job.toml: name 'a\\xe2\\x80\\xa8b' contains");
    fails(SUBMIT(",'name':'0123456789012345678901234567890123456789012345678901234567890123x'"), 2,
          "name has 65 bytes, expected at most 63");
    fails(SUBMIT(",'file':'a\\nb'"), 2, "file 'a\\x0ab' contains an invisible character");
    fails(SUBMIT(",'file':'my.toml','set':['a']"), 2, "expected section.key=value");
    fails(CMD_OF("submit", "'folder':'/tmp','file':'my.toml','config':'lr = 1'"), 78,
          "my.toml:1:1: unknown key 'lr'");
    fails(SUBMIT(",'priority':1000001"), 2, "priority is 1e+06, expected -1e+06 to 1e+06");
    fails(SUBMIT(",'max_restarts':-1"), 2, "max_restarts is -1, expected 0 to 1000");
    fails(SUBMIT(",'time_limit_s':-1"), 2, "time_limit_s is -1");
    fails(SUBMIT(",'prio':1"), 2, "submit takes no 'prio'; it takes config, file, folder, set, jobs, name");
    cr_assert_eq(n_jobs(), 0);
}

Test(commands, an_unknown_or_missing_command_is_refused)
{
    fails(CMD("format"), 2, "there is no command 'format'");
    fails("{'v':1}", 2, "cmd is missing");
    fails(CMD_OF("version", "'x':1"), 2, "version takes no 'x'; it takes nothing");
    fails(CMD("show"), 2, "show needs job: a job's number or name");
    fails(CMD_OF("show", "'job':true"), 2, "show: job is not a job's number or name");
}

/* --- status --- */

Test(commands, status_pages_through_jobs_from_the_newest_and_counts_states)
{
    for (int i = 0; i < 5; i++) {
        submit(SUBMIT(""));
    }
    job_become(2, JOB_STATE_CANCELLED);
    gives(CMD_OF("status", "'limit':2"),
          "{'jobs':[{'id':5},{'id':4}],'counts':{'QUEUED':4,'CANCELLED':1},'before':4}");
    json_t *answer = ask(CMD_OF("status", "'before':4,'limit':3,'active':true")); /* job 2 has ended */
    cr_assert_null(json_object_get(answer, "before"));
    expect_answer(answer, "{'jobs':[{'id':3},{'id':1}]}");
    fails(CMD_OF("status", "'limit':1001"), 2, "limit is 1001, expected 1 to 1000");
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
    expect_jobs(ask(CMD_OF("status", "'by_turn':true")), "5,4,2,6,3,1");
    expect_jobs(ask(CMD_OF("status", "'by_turn':true,'limit':2")), "5,4 skip 2");
    expect_jobs(ask(CMD_OF("status", "'by_turn':true,'skip':2,'limit':2")), "2,6 skip 4");
    expect_jobs(ask(CMD_OF("status", "'by_turn':true,'skip':2,'active':true")), "2,6");
    expect_jobs(ask(CMD_OF("status", "'by_turn':true,'skip':7")), "");
    gives(CMD_OF("status", "'by_turn':true,'limit':1"), "{'jobs':[{'position':1}],'counts':{'QUEUED':4}}");
    fails(CMD_OF("status", "'by_turn':true,'skip':-1"), 2, "skip is -1, expected 0 to 1e+09");
}

Test(commands, status_finds_a_job_by_number_or_name)
{
    submit(SUBMIT(",'name':'one'"));
    gives(CMD_OF("status", "'job':'one'"), "{'jobs':[{'id':1}]}");
    gives(CMD_OF("status", "'job':1"), "{'jobs':[{'name':'one'}]}");
    fails(CMD_OF("status", "'job':'two'"), 66, "there is no job 'two'");
    fails(CMD_OF("status", "'job':-1"), 66, "there is no job '-1'");
}

Test(commands, a_backup_of_all_users_jobs_is_for_administrators)
{
    char request[512];
    submit(SUBMIT(""));
    snprintf(request, sizeof request, CMD_OF("backup", "'path':'%s/copy'"), folder);
    gives(request, "{'ok':true,'jobs':1}");
    cr_assert(folder_has("copy"));
    fails(request, 73, "File exists");
    fails(CMD_OF("backup", "'path':'copy'"), 2, "is not an absolute path");
    struct client other_user;
    other_user_open(&other_user);
    cr_assert_eq(unlink(folder_path("copy")), 0);
    expect_failure(ask_by(&other_user, request), 2, "expected root, or the daemon's user");
    cr_assert_not(folder_has("copy"));
    client_close(&other_user);
}

Test(commands, draining_is_for_administrators_said_in_status_and_kept_by_the_store)
{
    struct jobs *again;
    struct store_repaired done;
    gives(CMD("status"), "{'draining':false}");
    gives(CMD("drain"), "{'ok':true,'running':0}");
    gives(CMD("status"), "{'draining':true}");
    expect_done(store_backup(jobs_store(jobs), folder_path("copy")));
    expect_done(jobs_restore(folder_path("new"), NULL, folder_path("copy"), &done));
    expect_done(jobs_open(folder_path("new"), NULL, &again));
    cr_assert(jobs_drain(again));
    jobs_close(again);
    gives(CMD("undrain"), OK);
    cr_assert_not(jobs_drain(jobs));
    struct client other_user;
    other_user_open(&other_user);
    expect_failure(ask_by(&other_user, CMD("drain")), 2,
                   "drain is of all users' jobs: expected root, or the daemon's user");
    client_close(&other_user);
}

Test(commands, changes_and_refusals_are_audited_and_reading_is_not)
{
    submit(SUBMIT(",'name':'one'"));
    json_decref(ask(CMD("status")));
    json_decref(ask(CMD_OF("show", "'job':1")));
    fails(CMD_OF("show", "'job':9"), 66, "there is no job");
    json_decref(ask(CMD_OF("cancel", "'job':'one'")));
    fails(CMD_OF("cancel", "'job':9"), 66, "there is no job");
    json_decref(ask(CMD("drain")));
    json_t *answer = ask(CMD("audit"));
    cr_assert_null(json_object_get(answer, "before"));
    const json_t *row = json_array_get(json_object_get(answer, "rows"), 0);
    cr_assert_eq(number(row, "uid"), geteuid());
    cr_assert_eq(strncmp(text(row, "from"), "unix, process ", 14), 0, "%s", text(row, "from"));
    expect_answer(answer, "{'rows':[{'what':'drain','job':null,'exit_code':0,'text':''},"
                          "{'what':'cancel','job':9,'exit_code':66,'text':'there is no job `9`'},"
                          "{'what':'cancel','job':1,'exit_code':0},{'what':'submit','job':1,'exit_code':0}]}");
    gives(CMD_OF("audit", "'limit':3"), "{'before':2}");
    gives(CMD_OF("audit", "'before':2"), "{'rows':[{'what':'submit'}]}");
    fails(CMD_OF("audit", "'limit':1001"), 2, "limit is 1001, expected 1 to 1000");
}

Test(commands, ten_refusals_of_a_user_are_audited_in_a_minute)
{
    for (int i = 0; i < 25; i++) {
        json_decref(ask(CMD_OF("resume", "'job':9")));
    }
    gives(CMD("audit"), "{'rows':[{},{},{},{},{},{},{},{},{},{}]}");
}

Test(commands, another_users_job_shows_name_owner_and_state_and_takes_no_orders)
{
    static const char *const orders[] = {"cancel", "resume", "checkpoint", "logs",
                                         "watch",  "show",   "metrics",    "workers"};
    struct client other_user;
    submit(SUBMIT(",'name':'mine'"));
    other_user_open(&other_user);
    json_t *answer = ask_by(&other_user, CMD("status")), *job = json_array_get(json_object_get(answer, "jobs"), 0);
    cr_assert_eq(json_object_size(job), 5);
    cr_assert_not_null(json_object_get(job, "owner"));
    expect_answer(answer, "{'jobs':[{'name':'mine','state':'QUEUED'}]}");
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        char request[128];
        snprintf(request, sizeof request, "{'v':1,'cmd':'%s','job':1}", orders[i]);
        expect_failure(ask_by(&other_user, request), 2, "job 1 is another user's");
    }
    expect_failure(ask_by(&other_user, CMD_OF("scale", "'job':1,'workers':2")), 2, "job 1 is another user's");
    expect_failure(ask_by(&other_user, CMD_OF("cancel", "'job':'mine'")), 66, "there is no job 'mine'");
    expect_failure(ask_by(&other_user, CMD("audit")), 2, "expected root, or the daemon's user");
    cr_assert_str_eq(supervisor.asked, "");
    json_decref(ask_by(&other_user, SUBMIT(",'name':'theirs'")));
    cr_assert_eq(jobs_get(jobs, 2)->uid, STRANGER);
    gives(CMD_OF("cancel", "'job':2"), OK);
    client_close(&other_user);
}

/* --- orders --- */

Test(commands, orders_reach_the_supervisor_and_its_refusals_the_client)
{
    static const char *const orders[] = {"cancel", "resume", "checkpoint"};
    submit(SUBMIT(",'name':'a'"));
    for (size_t i = 0; i < 3; i++) {
        char request[128], asked[64];
        snprintf(request, sizeof request, "{'v':1,'cmd':'%s','job':'a'}", orders[i]);
        snprintf(asked, sizeof asked, "%s 1", orders[i]);
        gives(request, "{'ok':true,'job':1}");
        cr_assert_str_eq(supervisor.asked, asked);
    }
    gives(CMD_OF("scale", "'job':1,'workers':4"), OK);
    cr_assert_str_eq(supervisor.asked, "scale 1 to 4");
    fails(CMD_OF("scale", "'job':1,'workers':0"), 2, "workers is 0, expected 1 to 65536");
    job_become(1, JOB_STATE_CANCELLED);
    fails(CMD_OF("cancel", "'job':1"), 2, "job 1 has ended");
}

/* --- show, workers --- */

Test(commands, show_gives_the_submission_history_last_epoch_and_result)
{
    static const char show[] = CMD_OF("show", "'job':1");
    char request[512], *result = malloc(200000);
    snprintf(request, sizeof request, SUBMIT(",'set':['output.dir=%s/out']"), folder);
    submit(request);
    job_become(1, JOB_STATE_PREPARING);
    gives(show, "{'ok':true,'last':null,'result':null,'folder':'/tmp','history':[{},{'state':'PREPARING'}],"
                "'config':'[dataset]\\ngenerator = \\\"karate\\\"\\n'}");
    cr_assert_eq(mkdir(folder_path("out"), 0700), 0);
    folder_write("out/metrics.jsonl", "{\"epoch\":0,\"loss\":2.5}\n{\"epoch\":1,\"loss\":1.5}\n");
    sprintf(result, "{\"seconds\":{\"total\":%*s3.5}}", 150000, "");
    folder_write("out/result.json", result);
    free(result);
    gives(show, "{'last':null,'result':null}"); /* the files are an earlier job's */
    job_epochs(1, 2);
    gives(show, "{'last':{'epoch':1},'result':{'seconds':{'total':3.5}}}");
}

/* Let the job's own folder lead to its run. */
static void lead(const char *target)
{
    char line[PATH_MAX];
    snprintf(line, sizeof line, "%s\n", target);
    job_write(1, "runs", line);
}

static void expect_loss(double loss, const char *output)
{
    json_t *answer = ask(CMD_OF("show", "'job':1"));
    cr_assert_eq(json_real_value(json_object_get(json_object_get(answer, "last"), "loss")), loss);
    cr_assert_eq(json_real_value(json_object_get(json_object_get(answer, "result"), "loss")), loss);
    cr_assert_str_eq(text(answer, "output"), output);
    json_decref(answer);
}

Test(commands, show_gives_what_the_jobs_own_run_has_written_whatever_is_in_its_output_folder)
{
    char request[512], run[128], out[128];
    snprintf(request, sizeof request, SUBMIT(",'set':['output.dir=%s/out']"), folder);
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
    lead("published");
    job_write(1, "metrics.jsonl", "{\"loss\":1.5}\n");
    job_write(1, "result.json", "{\"loss\":1.5}");
    expect_loss(1.5, out);
    lead("/nowhere");
    json_t *answer = ask(CMD_OF("show", "'job':1"));
    cr_assert(json_is_null(json_object_get(answer, "last")) && json_is_null(json_object_get(answer, "result")));
    json_decref(answer);
}

Test(commands, workers_are_those_of_the_attempt_that_runs)
{
    submit(SUBMIT(""));
    job_run(1);
    job_write(1, "events.jsonl",
              "{\"attempt\":0,\"event\":\"workers\",\"workers\":[{\"rank\":0,\"pid\":1}]}\n"
              "{\"attempt\":1,\"event\":\"workers\",\"workers\":[{\"rank\":0,\"pid\":7},{\"rank\":1,\"pid\":8}]}\n"
              "{\"attempt\":1,\"event\":\"epoch\"}\n");
    gives(CMD_OF("workers", "'job':1"), "{'coordinator':4711,'workers':[{'pid':7},{'pid':8}]}");
    job_become(1, JOB_STATE_SUCCEEDED);
    gives(CMD_OF("workers", "'job':1"), "{'workers':[]}");
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
    expect_done(jobs_change(jobs, &record));
}

Test(commands, a_job_on_gpus_is_refused_where_there_are_none)
{
    submit(SUBMIT(ON_GPUS(3))); /* on 2, in turn */
    cr_assert_eq(jobs_get(jobs, 1)->n_gpu, 3);
    gpus.n = 0;
    fails(SUBMIT(ON_GPUS(1) ",'file':'my.toml'"), 78,
          "my.toml: workers.device is \"" CUDA
          "\", but the daemon has no GPUs to give (daemon.gpus, in trainerd.toml)");
    submit(SUBMIT(""));
}

Test(commands, a_job_for_an_allocation_of_slurm_or_without_a_number_of_workers_is_refused)
{
    fails(SUBMIT(",'set':['workers.launcher=slurm'],'file':'my.toml'"), 78,
          "my.toml: workers.launcher = \"slurm\" is for trainerd --config in a batch script of Slurm "
          "(docs/cluster.md); the daemon's jobs run outside of allocations (daemon.runner), with another launcher");
    fails(SUBMIT(",'set':['workers.launcher=ssh','workers.hosts=hosts'],'file':'my.toml'"), 78,
          "my.toml: workers.count is 0, the slots of workers.hosts, and the daemon has to know how many workers to "
          "wait for: expected a number");
    submit(SUBMIT(",'set':['workers.launcher=ssh','workers.hosts=hosts','workers.count=2','partition.parts=2']"));
}

Test(commands, every_gpu_is_listed_with_the_job_that_holds_it)
{
    submit(SUBMIT(""));
    submit(SUBMIT(ON_GPUS(1) ",'name':'big'"));
    job_run(2);
    hold(2, 0x8);
    json_t *answer = ask(CMD("gpus"));
    cr_assert_str_neq(text(json_array_get(json_object_get(answer, "gpus"), 1), "owner"), "");
    expect_answer(answer, "{'ok':true,'gpus':[{'gpu':0,'name':'H100','uuid':'GPU-a','memory':1000,'job':null,"
                          "'owner':null},{'gpu':3,'name':null,'memory':null,'job':2,'job_name':'big'}]}");
    gives(CMD("status"), "{'jobs':[{'gpus_held':[3]},{'gpus_held':[]}]}");
}

Test(commands, workers_are_on_their_jobs_gpus_in_turn)
{
    submit(SUBMIT(ON_GPUS(2)));
    job_run(1);
    hold(1, 0x28); /* 3, and 5, which the daemon has no more */
    job_write(1, "events.jsonl",
              "{\"attempt\":1,\"event\":\"workers\",\"workers\":[{\"rank\":0},{\"rank\":1},{\"rank\":2},7]}\n");
    gives(CMD_OF("workers", "'job':1"),
          "{'workers':[{'gpu':3},{'gpu':5},{'gpu':3},7],'gpus':[{'gpu':3},{'gpu':5,'uuid':null}]}");
    hold(1, 0);
    gives(CMD_OF("workers", "'job':1"), "{'workers':[{'gpu':null},{'gpu':null},{'gpu':null},7],'gpus':[]}");
}

/* --- the reference --- */

static void expect_page(const char *path, void (*describe)(FILE *file))
{
    char *made = NULL, *kept = calloc(1, 1 << 20);
    size_t n;
    FILE *file = fopen(path, "r"), *memory = open_memstream(&made, &n);
    if (file == NULL) {
        cr_skip_test("not started at the root of the source");
    }
    describe(memory);
    fclose(memory);
    cr_assert_gt(fread(kept, 1, (1 << 20) - 1, file), 0);
    fclose(file);
    cr_assert_not_null(strstr(kept, made), "%s is not what `make docs` writes", path);
    free(made);
    free(kept);
}

Test(commands, the_reference_in_docs_is_made_from_the_table)
{
    expect_page("docs/protocol.md", requests_describe);
}

Test(commands, the_page_of_errors_is_made_from_the_lists_of_statuses_and_reasons)
{
    expect_page("docs/errors.md", errors_describe);
}
