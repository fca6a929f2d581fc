/* What users may ask for, and see, beside each other: quotas, priorities, shares. */
#include "tests/unit/trainerd/daemon/commands/talk.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

static void begin(void)
{
    talk_jobs.whole = (struct need){4, 2, 1 << 20, NEED_UNLIMITED};
    talk_jobs.quota = (struct quota){.n_queued = 3, .n_running = 2, .n_slot = 3, .exempt = {77}, .n_exempt = 1};
    talk_jobs.half_life_s = 1000;
    talk_begin();
}

TestSuite(fair, .init = begin, .fini = talk_end, .timeout = 900);

static size_t n_jobs(void)
{
    size_t n;
    jobs_all(jobs, &n);
    return n;
}

Test(fair, priorities_above_0_are_for_administrators)
{
    struct client other_user;
    if (!other_user_open(&other_user)) {
        cr_skip_test("needs root");
    }
    expect_failure(ask_by(&other_user, SUBMIT(",\"priority\":1")), 2,
                   "priority is 1, and those above 0 are for administrators: expected 0 or less");
    cr_assert_eq(n_jobs(), 0);
    json_t *answer = ask_by(&other_user, SUBMIT(",\"priority\":0"));
    expect_ok(answer);
    json_decref(answer);
    answer = ask_by(&other_user, SUBMIT(",\"priority\":-7"));
    expect_ok(answer);
    json_decref(answer);
    cr_assert_eq(jobs_get(jobs, 2)->priority, -7);
    submit(SUBMIT(",\"priority\":7"));
    cr_assert_eq(jobs_get(jobs, 3)->priority, 7);
    client_close(&other_user);
}

Test(fair, a_job_keeps_a_priority_above_0_where_an_administrator_resumes_it)
{
    struct client other_user;
    if (!other_user_open(&other_user)) {
        cr_skip_test("needs root");
    }
    json_t *answer = ask_by(&other_user, SUBMIT(",\"group\":\"g\""));
    expect_ok(answer);
    json_decref(answer);
    job_become(1, JOB_STATE_CANCELLED);
    static const char *const requests[] = {"{\"v\":1,\"cmd\":\"resume\",\"job\":1}",
                                           "{\"v\":1,\"cmd\":\"resume\",\"group\":\"g\"}"};
    for (size_t i = 0; i < 2; i++) {
        answer = ask_by(&other_user, requests[i]);
        expect_ok(answer);
        json_decref(answer);
        cr_assert_str_eq(supervisor.asked, "resume without priority 1");
    }
    answer = ask(requests[0]);
    expect_ok(answer);
    json_decref(answer);
    cr_assert_str_eq(supervisor.asked, "resume 1");
    client_close(&other_user);
}

Test(fair, a_submission_with_more_jobs_than_may_wait_is_refused_as_a_whole)
{
    submit(SUBMIT(",\"submission_id\":\"once\",\"jobs\":[[],[]]"));
    expect_failure(
        ask(SUBMIT(",\"jobs\":[[],[]]")), 69,
        "2 of your jobs wait, with 2 more they would be 4: expected at most 3 (daemon.max_queued_per_user)");
    cr_assert_eq(n_jobs(), 2);
    submit(SUBMIT(""));
    expect_failure(ask(SUBMIT("")), 69, "3 of your jobs wait, with 1 more they would be 4");
    json_t *answer = ask(SUBMIT(",\"submission_id\":\"once\",\"jobs\":[[],[]]")); /* sent again: its jobs are there */
    expect_ok(answer);
    cr_assert(json_is_true(json_object_get(answer, "existing")));
    json_decref(answer);
    job_become(1, JOB_STATE_PREPARING); /* it waits no more */
    submit(SUBMIT(""));
    struct client other_user;
    if (other_user_open(&other_user)) {
        answer = ask_by(&other_user, SUBMIT(",\"jobs\":[[],[],[]]"));
        expect_ok(answer);
        json_decref(answer);
        client_close(&other_user);
    }
}

Test(fair, a_job_above_its_users_quota_is_refused_with_the_key)
{
    expect_failure(ask(SUBMIT(",\"set\":[\"workers.count=2\",\"workers.threads=2\"]")), 78,
                   "job.toml: it needs 4 slots, one user's jobs may have 3 (daemon.max_slots_per_user)");
    expect_failure(ask(SUBMIT(",\"jobs\":[[],[\"workers.count=4\"]]")), 78, "job 2 of 2: job.toml: it needs 4 slots");
    cr_assert_eq(n_jobs(), 0);
    submit(SUBMIT(",\"set\":[\"workers.count=3\"]"));
}

Test(fair, jobs_of_a_group_are_resumed_all_or_none)
{
    for (int64_t id = 1; id <= 2; id++) {
        submit(SUBMIT(",\"group\":\"g\""));
        job_become(id, JOB_STATE_CANCELLED);
    }
    submit(SUBMIT(""));
    submit(SUBMIT(""));
    expect_failure(ask("{\"v\":1,\"cmd\":\"resume\",\"group\":\"g\"}"), 69,
                   "2 of your jobs wait, with 2 more they would be 4: expected at most 3");
    cr_assert_str_eq(supervisor.asked, "", "some were resumed");
    job_become(4, JOB_STATE_CANCELLED);
    json_t *answer = ask("{\"v\":1,\"cmd\":\"resume\",\"group\":\"g\"}");
    expect_ok(answer);
    cr_assert_eq(json_array_size(json_object_get(answer, "jobs")), 2);
    json_decref(answer);
}

static const json_t *user_of(const json_t *answer, int64_t uid)
{
    const json_t *user;
    size_t i;
    json_array_foreach(json_object_get(answer, "users"), i, user)
    {
        if (number(user, "uid") == uid) {
            return user;
        }
    }
    return NULL;
}

Test(fair, users_show_what_they_have_may_have_and_have_used)
{
    submit(SUBMIT(",\"set\":[\"workers.count=2\"]"));
    submit(SUBMIT(""));
    job_become(1, JOB_STATE_PREPARING);
    shares_set(jobs_shares(jobs), &(struct store_use){.uid = geteuid(), .used = 30, .at = 1e12});
    shares_set(jobs_shares(jobs), &(struct store_use){.uid = 77, .used = 10, .at = 1e12});
    shares_set(jobs_shares(jobs), &(struct store_use){.uid = 78, .used = 0.1, .at = 1e12});
    json_t *answer = ask("{\"v\":1,\"cmd\":\"users\"}");
    expect_ok(answer);
    const json_t *own = user_of(answer, geteuid()), *limits = json_object_get(own, "limits");
    cr_assert_eq(json_array_size(json_object_get(answer, "users")), 2, "a use that is over is not shown");
    cr_assert_eq(json_real_value(json_object_get(answer, "half_life_s")), 1000);
    cr_assert_eq(number(own, "queued"), 1);
    cr_assert_eq(number(own, "running"), 1);
    cr_assert_eq(number(own, "slots"), 2);
    cr_assert_float_eq(json_real_value(json_object_get(own, "used_s")), 30, 1e-6);
    cr_assert_float_eq(json_real_value(json_object_get(own, "share")), 0.75, 1e-6);
    cr_assert_eq(number(limits, "queued"), 3);
    cr_assert_eq(number(limits, "running"), 2);
    cr_assert_eq(number(limits, "slots"), 3);
    cr_assert(json_is_null(json_object_get(limits, "gpus")) && json_is_null(json_object_get(limits, "memory")));
    limits = json_object_get(user_of(answer, 77), "limits");
    cr_assert(json_is_null(json_object_get(limits, "queued")) && json_is_null(json_object_get(limits, "slots")),
              "an exempt user has limits");
    json_decref(answer);
}

Test(fair, a_user_sees_of_others_how_many_jobs_they_have_alone)
{
    struct client other_user;
    if (!other_user_open(&other_user)) {
        cr_skip_test("needs root");
    }
    submit(SUBMIT(""));
    shares_set(jobs_shares(jobs), &(struct store_use){.uid = 77, .used = 10, .at = 1e12});
    json_t *answer = ask_by(&other_user, "{\"v\":1,\"cmd\":\"users\"}");
    expect_ok(answer);
    const json_t *own = user_of(answer, STRANGER), *other = user_of(answer, geteuid());
    cr_assert_eq(json_array_size(json_object_get(answer, "users")), 2, "one who has used, and has no jobs, is shown");
    cr_assert_eq(number(own, "queued"), 0);
    cr_assert_not_null(json_object_get(own, "used_s"));
    cr_assert_eq(number(other, "queued"), 1);
    cr_assert_eq(json_object_size(other), 4, "uid, user, queued and running alone");
    cr_assert_null(json_object_get(other, "used_s"));
    json_decref(answer);
    client_close(&other_user);
}
