/* Submissions of several jobs: all or none, found again, told apart by group and tag. */
#include "tests/support/process/folder.h"
#include "tests/unit/trainerd/daemon/commands/talk.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(submit, .init = talk_begin, .fini = talk_end, .timeout = 900);

#define SWEEP                                                                                                        \
    ",\"group\":\"g\",\"tags\":[\"paper\",\"night\"],\"set\":[\"train.epochs=7\"],\"submission_id\":\"once\","       \
    "\"jobs\":["                                                                                                     \
    "[\"train.lr=0.1\",\"train.seed=1\"],[\"train.lr=0.1\",\"train.seed=2\"],[]]"

static size_t n_jobs(void)
{
    size_t n;
    jobs_all(jobs, &n);
    return n;
}

static void expect_numbers(const json_t *answer, int64_t first, size_t n)
{
    const json_t *numbers = json_object_get(answer, "jobs");
    cr_assert_eq(json_array_size(numbers), n);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(json_integer_value(json_array_get(numbers, i)), first + (int64_t)i);
    }
}

Test(submit, several_jobs_are_kept_each_with_the_settings_of_all_and_its_own)
{
    json_t *answer = ask(SUBMIT(SWEEP ",\"name\":\"n\""));
    expect_ok(answer);
    expect_numbers(answer, 1, 3);
    cr_assert_eq(number(answer, "job"), 1);
    cr_assert_str_eq(text(answer, "group"), "g");
    cr_assert_eq(supervisor.n_schedule, 1);
    json_decref(answer);
    struct store_submission kept;
    cr_assert_eq(store_submission_get(jobs_store(jobs), 2, &kept), STATUS_OK);
    cr_assert_eq(kept.n_set, 4);
    cr_assert_str_eq(kept.set[0], "train.epochs=7");
    cr_assert_str_eq(kept.set[2], "train.seed=2");
    cr_assert_str_eq(kept.set[3], "name=\"n\"");
    store_submission_release(&kept);
    const struct job_record *record = jobs_get(jobs, 3);
    cr_assert_str_eq(record->group, "g");
    cr_assert_str_eq(record->tags, "paper,night");
    static const char *const tags[] = {"paper", "night", "pap", "paper,night", ""};
    for (size_t i = 0; i < 5; i++) {
        cr_assert_eq(job_index_find(jobs_index(jobs), JOB_KEY_TAG, record->uid, tags[i])->jobs.n, i < 2 ? 3 : 0, "%s",
                     tags[i]);
    }
}

Test(submit, a_submission_sent_twice_is_one_group_with_the_same_numbers)
{
    submit(SUBMIT(""));
    for (int again = 0; again < 3; again++) {
        json_t *answer = ask(SUBMIT(SWEEP));
        cr_assert_eq(json_is_true(json_object_get(answer, "existing")), again > 0);
        expect_numbers(answer, 2, 3);
        json_decref(answer);
        cr_assert_eq(n_jobs(), 4);
    }
}

Test(submit, one_wrong_job_of_several_leaves_none_and_is_named)
{
    expect_failure(ask(SUBMIT(",\"jobs\":[[],[\"train.lr=0.1\"],[\"train.lr=-1\"]]")), 78,
                   "job 3 of 3: --set train.lr: train.lr is -1");
    expect_failure(ask(SUBMIT(",\"jobs\":[[],[\"train.epoch=1\"]]")), 78,
                   "job 2 of 2: --set train.epoch: unknown key 'epoch'");
    expect_failure(ask(SUBMIT(",\"set\":[\"output.dir=o\"],\"jobs\":[[],[]]")), 78,
                   "job 2 of 2: output.dir is 'o', as job 1's: expected a folder of its own, or none");
    expect_failure(ask(SUBMIT(",\"jobs\":[]")), 2, "the number of jobs is 0, expected 1 to 1000");
    expect_failure(ask(SUBMIT(",\"jobs\":[\"train.lr=1\"]")), 2, "submit: jobs is not an array of arrays of texts");
    expect_failure(ask(SUBMIT(",\"group\":\"12\"")), 2, "group '12' is a number");
    expect_failure(ask(SUBMIT(",\"group\":\"0123456789012345678901234567890123456789012345678901234567890123x\"")), 2,
                   "group has 65 bytes, expected at most 63");
    expect_failure(ask(SUBMIT(",\"group\":\"a/b\"")), 2, "group 'a/b' has a slash, which would name a folder");
    expect_failure(ask(SUBMIT(",\"tags\":[\"a,b\"]")), 2, "tag 'a,b' is empty, or has a comma or a blank");
    expect_failure(ask(SUBMIT(",\"tags\":[\"\"]")), 2, "tag '' is empty");
    expect_failure(ask(SUBMIT(",\"tags\":[\"012345678901234567890123456789012\"]")), 2,
                   "tag has 33 bytes, expected at most 32");
    expect_failure(ask(SUBMIT(",\"tags\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]")), 2,
                   "9 tags are given, expected at most 8");
    cr_assert_eq(n_jobs(), 0);
    cr_assert_eq(supervisor.n_schedule, 0);
    json_t *answer = ask(SUBMIT(",\"jobs\":[[\"output.dir=a\"],[\"output.dir=b\"]]"));
    expect_ok(answer);
    json_decref(answer);
}

Test(submit, a_submission_is_limited_in_jobs_and_in_bytes)
{
    size_t n = 0, capacity = 1 << 18;
    char *request = calloc(capacity, 1);
    n += (size_t)snprintf(request, capacity, "%s",
                          "{\"v\":1,\"id\":1,\"cmd\":\"submit\",\"folder\":\"/tmp\",\"config\":\"#");
    memset(request + n, 'x', 20000);
    n += 20000;
    size_t begin = n += (size_t)snprintf(request + n, capacity - n, "\",\"jobs\":[[]");
    for (int i = 1; i < 1001; i++) {
        n += (size_t)snprintf(request + n, capacity - n, ",[]");
    }
    snprintf(request + n, capacity - n, "]}");
    expect_failure(ask(request), 2, "the number of jobs is 1001, expected 1 to 1000");
    snprintf(request + begin + 999 * 3, capacity - begin, "]}");
    expect_failure(
        ask(request), 2,
        "1000 jobs have job files and settings of 20001000 bytes, expected at most 16777216 in one submission");
    free(request);
    cr_assert_eq(n_jobs(), 0);
}

/* How many jobs status gives, and that it counts as many. */
static size_t n_shown(struct client *from, const char *request)
{
    json_t *answer = ask_by(from, request), *counts = json_object_get(answer, "counts");
    size_t n = json_array_size(json_object_get(answer, "jobs")), n_counted = 0;
    const char *state;
    const json_t *count;
    json_object_foreach(counts, state, count)
    {
        n_counted += (size_t)json_integer_value(count);
    }
    cr_assert_eq(n, n_counted);
    json_decref(answer);
    return n;
}

Test(submit, status_shows_the_jobs_of_a_group_or_tag_alone)
{
    submit(SUBMIT(SWEEP));
    submit(SUBMIT(",\"group\":\"g\",\"tags\":[\"paper\"]"));
    submit(SUBMIT(",\"group\":\"h\",\"tags\":[\"paper\"]"));
    submit(SUBMIT(""));
    cr_assert_eq(n_shown(&client, "{\"v\":1,\"cmd\":\"status\"}"), 6);
    cr_assert_eq(n_shown(&client, "{\"v\":1,\"cmd\":\"status\",\"group\":\"g\"}"), 4);
    cr_assert_eq(n_shown(&client, "{\"v\":1,\"cmd\":\"status\",\"tag\":\"paper\"}"), 5);
    cr_assert_eq(n_shown(&client, "{\"v\":1,\"cmd\":\"status\",\"tag\":\"night\"}"), 3);
    cr_assert_eq(n_shown(&client, "{\"v\":1,\"cmd\":\"status\",\"group\":\"h\",\"tag\":\"paper\"}"), 1);
    cr_assert_eq(n_shown(&client, "{\"v\":1,\"cmd\":\"status\",\"group\":\"\"}"), 0);
    json_t *answer = ask("{\"v\":1,\"cmd\":\"status\",\"job\":4}"),
           *job = json_array_get(json_object_get(answer, "jobs"), 0);
    cr_assert_str_eq(text(job, "group"), "g");
    cr_assert_str_eq(json_string_value(json_array_get(json_object_get(job, "tags"), 0)), "paper");
    json_decref(answer);
    struct client other_user;
    if (!other_user_open(&other_user)) {
        cr_skip_test("needs root");
    }
    cr_assert_eq(n_shown(&other_user, "{\"v\":1,\"cmd\":\"status\",\"group\":\"g\"}"), 0, "a group is its owner's");
    expect_failure(ask_by(&other_user, "{\"v\":1,\"cmd\":\"cancel\",\"group\":\"g\"}"), 66, "there is no group 'g'");
    client_close(&other_user);
}

Test(submit, a_group_is_cancelled_and_resumed_where_that_makes_sense)
{
    submit(SUBMIT(SWEEP));
    submit(SUBMIT(""));
    job_become(1, JOB_STATE_CANCELLED);
    json_t *answer = ask("{\"v\":1,\"cmd\":\"cancel\",\"group\":\"g\"}");
    expect_ok(answer);
    expect_numbers(answer, 2, 2);
    cr_assert_str_eq(supervisor.asked, "cancel 2", "the newest came first");
    json_decref(answer);
    answer = ask("{\"v\":1,\"cmd\":\"resume\",\"group\":\"g\"}");
    expect_numbers(answer, 1, 1);
    cr_assert_str_eq(supervisor.asked, "resume 1");
    json_decref(answer);
    expect_failure(ask("{\"v\":1,\"cmd\":\"cancel\",\"group\":\"none\"}"), 66, "there is no group 'none'");
    expect_failure(ask("{\"v\":1,\"cmd\":\"cancel\"}"), 2, "cancel takes either job or group");
    expect_failure(ask("{\"v\":1,\"cmd\":\"resume\",\"job\":1,\"group\":\"g\"}"), 2,
                   "resume takes either job or group");
}
