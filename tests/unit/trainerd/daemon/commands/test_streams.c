/* Logs, events and metrics as they come: whole lines, in order, as fast as they are read, and nobody else's. */
#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/unit/trainerd/daemon/commands/talk.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(streams, .init = talk_begin, .fini = talk_end, .timeout = 900);

/* Begin a stream of job 1. */
static void stream(const char *command, const char *fields)
{
    char request[128];
    snprintf(request, sizeof request, "{'v':1,'id':9,'cmd':'%s','job':1%s}", command, fields);
    tell(&client, request);
}

static void expect_log(const char *words)
{
    json_t *event = answer_of(&client);
    cr_assert_str_eq(text(event, "text"), words);
    expect_answer(event, "{'event':'log'}");
}

static void expect_event(const char *expected)
{
    expect_answer(answer_of(&client), expected);
}
#define END "{'end':true,'id':9}"

Test(streams, logs_give_what_there_is_and_end)
{
    submit(SUBMIT(""));
    stream("logs", "");
    expect_event(END);
    job_write(1, "log", "one\ntwo \xff\xc3\xa4\x1b[31m\nthree");
    job_write(1, "rank-3.log", "of rank 3\n");
    stream("logs", "");
    expect_log("one\ntwo \xef\xbf\xbd\xc3\xa4\x1b[31m\nthree");
    expect_event(END);
    stream("logs", ",'tail':2");
    expect_log("two \xef\xbf\xbd\xc3\xa4\x1b[31m\nthree");
    expect_event(END);
    stream("logs", ",'rank':3");
    expect_log("of rank 3\n");
    expect_event(END);
    fails(CMD_OF("logs", "'job':1,'rank':-1"), 2, "rank is -1, expected 0 to 65535");
    fails(CMD_OF("logs", "'job':1,'tail':-1"), 2, "tail is -1, expected 0 or more");
}

Test(streams, a_followed_log_goes_on_in_whole_lines_until_the_job_has_ended)
{
    submit(SUBMIT(""));
    stream("logs", ",'follow':true");
    job_become(1, JOB_STATE_PREPARING);
    job_write(1, "log", "one\n");
    expect_log("one\n");
    job_write(1, "log", "two\nthr");
    expect_log("two\n");
    job_write(1, "log", "ee\n");
    expect_log("three\n");
    job_write(1, "log", "last words");
    job_become(1, JOB_STATE_FAILED);
    expect_log("last words");
    expect_event(END);
}

Test(streams, what_a_user_puts_in_the_way_of_his_log_is_not_read_for_him)
{
    char path[PATH_MAX + 16];
    submit(SUBMIT(""));
    job_write(1, "events.jsonl", "");
    jobs_folder(jobs, 1, path);
    strcat(path, "/log");
    cr_assert_eq(symlink("/etc/passwd", path), 0);
    fails(CMD_OF("logs", "'job':1"), 65, "symbolic links");
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    fails(CMD_OF("logs", "'job':1"), 65, "it is not a regular file");
    cr_assert_eq(unlink(path), 0);
    folder_write("other", "somebody else's\n");
    cr_assert_eq(chmod(folder_path("other"), 0600), 0);
    cr_assert_eq(chmod(folder, 0755), 0);
    cr_assert_eq(link(folder_path("other"), path), 0);
    struct client other_user;
    other_user_open(&other_user);
    json_decref(ask_by(&other_user, SUBMIT("")));
    job_write(2, "events.jsonl", "");
    char theirs[PATH_MAX + 16];
    jobs_folder(jobs, 2, theirs);
    cr_assert_eq(chown(theirs, STRANGER, (gid_t)-1), 0);
    strcat(theirs, "/log");
    cr_assert_eq(link(path, theirs), 0);
    expect_failure(ask_by(&other_user, CMD_OF("logs", "'job':2")), 74, "Permission denied");
    client_close(&other_user);
}

Test(streams, watch_tells_states_at_once_events_as_they_come_and_the_end_last)
{
    submit(SUBMIT(""));
    stream("watch", "");
    expect_event("{'event':'job','job':{'state':'QUEUED'}}");
    job_write(1, "events.jsonl",
              "garbage\n{\"event\":\"epoch\",\"id\":\"x\",\"epoch\":1,\"loss\":null}\n[1]\n{\"no\":1}\n");
    expect_event("{'event':'epoch','id':9}"); /* lines cannot answer for another request */
    job_become(1, JOB_STATE_RUNNING - 2);
    expect_event("{'job':{'state':'PREPARING'}}");
    job_write(1, "events.jsonl", "{\"event\":\"end\",\"exit_code\":0}\n");
    job_become(1, JOB_STATE_SUCCEEDED);
    expect_event("{'event':'end'}");
    expect_event("{'job':{'state':'SUCCEEDED'}}");
    expect_event(END);
}

/* However late the file is read for the first time: no event of it is older than the watch. */
Test(streams, a_watcher_of_a_job_that_has_not_begun_misses_nothing)
{
    submit(SUBMIT(""));
    job_write(1, "events.jsonl", "{\"event\":\"epoch\",\"epoch\":1}\n");
    stream("watch", "");
    expect_event("{'event':'job'}");
    expect_event("{'event':'epoch'}");
}

Test(streams, a_follower_that_does_not_read_keeps_nothing_in_memory_and_misses_nothing)
{
    submit(SUBMIT(""));
    static char words[4 << 20];
    for (size_t i = 0; i + 64 <= sizeof words - 1; i += 64) {
        sprintf(words + i, "%062zu\n", i);
        words[i + 63] = '\n';
        words[i + 62] = '.';
    }
    job_write(1, "log", words);
    stream("logs", "");
    double since_s = clock_s();
    await(clock_s() - since_s >= 0.3);
    size_t at = 0;
    for (;;) {
        json_t *event = answer_of(&client);
        if (json_is_true(json_object_get(event, "end"))) {
            json_decref(event);
            break;
        }
        const char *piece = text(event, "text");
        cr_assert_leq(strlen(piece), 65536);
        cr_assert_eq(memcmp(words + at, piece, strlen(piece)), 0, "at %zu", at);
        at += strlen(piece);
        json_decref(event);
    }
    cr_assert_eq(at, strlen(words));
}

Test(streams, followers_whose_client_goes_leave_nothing_behind)
{
    submit(SUBMIT(""));
    job_write(1, "log", "one\n");
    for (int i = 0; i < 20; i++) {
        struct client other;
        client_open(&other, server_address(server));
        tell(&other, "{'v':1,'id':9,'cmd':'logs','job':1,'follow':true}\n{'v':1,'cmd':'show','job':1}");
        if (i % 2 == 0) {
            client_line(&other);
        }
        client_close(&other);
    }
    job_become(1, JOB_STATE_CANCELLED);
    json_decref(ask(CMD("version")));
}

Test(streams, too_many_streams_on_a_connection_are_refused)
{
    submit(SUBMIT(""));
    for (int i = 0; i < 16; i++) {
        stream("logs", ",'follow':true");
    }
    fails(CMD_OF("logs", "'job':1,'follow':true"), 2, "16 answers are under way");
}

Test(streams, metrics_are_the_lines_of_the_jobs_own_file)
{
    char request[512];
    snprintf(request, sizeof request, SUBMIT(",'set':['output.dir=%s/out']"), folder);
    submit(request);
    cr_assert_eq(mkdir(folder_path("out"), 0700), 0);
    folder_write("out/metrics.jsonl", "{\"epoch\":0,\"loss\":2.5}\n{\"epoch\":1,\"loss\":1.5}\n");
    stream("metrics", ",'tail':1");
    expect_event(END); /* before its first epoch the lines are of a job before */
    job_epochs(1, 2);
    stream("metrics", ",'tail':1");
    expect_event("{'event':'epoch','epoch':1}");
    expect_event(END);
}

Test(streams, a_followed_file_that_becomes_shorter_goes_on_from_its_new_end)
{
    char request[512];
    snprintf(request, sizeof request, SUBMIT(",'set':['output.dir=%s/out']"), folder);
    submit(request);
    cr_assert_eq(mkdir(folder_path("out"), 0700), 0);
    job_epochs(1, 2);
    folder_write("out/metrics.jsonl", "{\"epoch\":0}\n{\"epoch\":1}\n");
    stream("metrics", ",'follow':true");
    json_decref(answer_of(&client));
    json_decref(answer_of(&client));
    cr_assert_eq(truncate(folder_path("out/metrics.jsonl"), 12), 0); /* as a restart from a checkpoint does */
    double since_s = clock_s();
    await(clock_s() - since_s >= 0.5);
    FILE *file = fopen(folder_path("out/metrics.jsonl"), "a");
    fputs("{\"epoch\":7}\n", file);
    fclose(file);
    expect_event("{'epoch':7}");
}

Test(streams, a_stream_of_a_job_that_is_kept_no_longer_ends)
{
    static const struct retention one = {.n_job = 1};
    submit(SUBMIT(""));
    job_write(1, "log", "one\n");
    stream("logs", ",'follow':true");
    expect_log("one\n");
    submit(SUBMIT(""));
    job_become(1, JOB_STATE_CANCELLED);
    job_become(2, JOB_STATE_CANCELLED);
    const struct slice slice = slice_begin(uv_hrtime);
    jobs_retain(jobs, &one, &slice);
    cr_assert_null(jobs_get(jobs, 1));
    expect_event(END);
}
