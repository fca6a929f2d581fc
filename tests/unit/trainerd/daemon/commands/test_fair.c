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

Test(fair, priorities_above_0_are_for_administrators)
{
    struct client other_user;
    other_user_open(&other_user);
    expect_failure(ask_by(&other_user, SUBMIT(",'priority':1")), 2,
                   "priority is 1, and those above 0 are for administrators: expected 0 or less");
    cr_assert_eq(n_jobs(), 0);
    expect_answer(ask_by(&other_user, SUBMIT(",'priority':0")), OK);
    expect_answer(ask_by(&other_user, SUBMIT(",'priority':-7")), OK);
    submit(SUBMIT(",'priority':7"));
    cr_assert(jobs_get(jobs, 2)->priority == -7 && jobs_get(jobs, 3)->priority == 7);
    client_close(&other_user);
}

Test(fair, a_job_keeps_a_priority_above_0_where_an_administrator_resumes_it)
{
    static const char *const requests[] = {CMD_OF("resume", "'job':1"), CMD_OF("resume", "'group':'g'")};
    struct client other_user;
    other_user_open(&other_user);
    expect_answer(ask_by(&other_user, SUBMIT(",'group':'g'")), OK);
    job_become(1, JOB_STATE_CANCELLED);
    for (size_t i = 0; i < 2; i++) {
        expect_answer(ask_by(&other_user, requests[i]), OK);
        cr_assert_str_eq(supervisor.asked, "resume without priority 1");
    }
    gives(requests[0], OK);
    cr_assert_str_eq(supervisor.asked, "resume 1");
    client_close(&other_user);
}

Test(fair, a_submission_with_more_jobs_than_may_wait_is_refused_as_a_whole)
{
    struct client other_user;
    submit(SUBMIT(",'submission_id':'once','jobs':[[],[]]"));
    fails(SUBMIT(",'jobs':[[],[]]"), 69,
          "2 of your jobs wait, with 2 more they would be 4: expected at most 3 (daemon.max_queued_per_user)");
    cr_assert_eq(n_jobs(), 2);
    submit(SUBMIT(""));
    fails(SUBMIT(""), 69, "3 of your jobs wait, with 1 more they would be 4");
    gives(SUBMIT(",'submission_id':'once','jobs':[[],[]]"), "{'ok':true,'existing':true}"); /* its jobs are there */
    job_become(1, JOB_STATE_PREPARING);                                                     /* it waits no more */
    submit(SUBMIT(""));
    other_user_open(&other_user);
    expect_answer(ask_by(&other_user, SUBMIT(",'jobs':[[],[],[]]")), OK);
    client_close(&other_user);
}

Test(fair, a_job_above_its_users_quota_is_refused_with_the_key)
{
    fails(SUBMIT(",'set':['workers.count=2','workers.threads=2']"), 78,
          "job.toml: it needs 4 slots, one user's jobs may have 3 (daemon.max_slots_per_user)");
    fails(SUBMIT(",'jobs':[[],['workers.count=4']]"), 78, "job 2 of 2: job.toml: it needs 4 slots");
    cr_assert_eq(n_jobs(), 0);
    submit(SUBMIT(",'set':['workers.count=3']"));
}

Test(fair, jobs_of_a_group_are_resumed_all_or_none)
{
    for (int64_t id = 1; id <= 2; id++) {
        submit(SUBMIT(",'group':'g'"));
        job_become(id, JOB_STATE_CANCELLED);
    }
    submit(SUBMIT(""));
    submit(SUBMIT(""));
    fails(CMD_OF("resume", "'group':'g'"), 69,
          "2 of your jobs wait, with 2 more they would be 4: expected at most 3");
    cr_assert_str_eq(supervisor.asked, "", "some were resumed");
    job_become(4, JOB_STATE_CANCELLED);
    gives(CMD_OF("resume", "'group':'g'"), "{'ok':true,'jobs':[1,2]}");
}

/* The caller has the reference. */
static json_t *user_of(const json_t *answer, int64_t uid)
{
    json_t *user;
    size_t i;
    json_array_foreach(json_object_get(answer, "users"), i, user)
    {
        if (number(user, "uid") == uid) {
            return json_incref(user);
        }
    }
    cr_assert_fail("user %d is not shown", (int)uid);
    return NULL;
}

static void use(uid_t uid, double used)
{
    shares_set(jobs_shares(jobs), &(struct store_use){.uid = uid, .used = used, .at = 1e12});
}

Test(fair, users_show_what_they_have_may_have_and_have_used)
{
    submit(SUBMIT(",'set':['workers.count=2']"));
    submit(SUBMIT(""));
    job_become(1, JOB_STATE_PREPARING);
    use(geteuid(), 30);
    use(77, 10);
    use(78, 0.1);
    json_t *answer = ask(CMD("users")), *own = user_of(answer, geteuid()), *exempt = user_of(answer, 77);
    cr_assert_eq(json_array_size(json_object_get(answer, "users")), 2, "a use that is over is not shown");
    expect_answer(own, "{'queued':1,'running':1,'slots':2,'used_s':30,'share':0.75,'limits':{'queued':3,'running':2,"
                       "'slots':3,'gpus':null,'memory':null}}");
    expect_answer(exempt, "{'limits':{'queued':null,'slots':null}}");
    expect_answer(answer, "{'ok':true,'half_life_s':1000}");
}

Test(fair, a_user_sees_of_others_how_many_jobs_they_have_alone)
{
    struct client other_user;
    other_user_open(&other_user);
    submit(SUBMIT(""));
    use(77, 10);
    json_t *answer = ask_by(&other_user, CMD("users")), *own = user_of(answer, STRANGER),
           *other = user_of(answer, geteuid());
    cr_assert_eq(json_array_size(json_object_get(answer, "users")), 2, "one who has used, and has no jobs, is shown");
    cr_assert_eq(json_object_size(other), 4, "uid, user, queued and running alone");
    cr_assert(json_object_get(own, "used_s") != NULL && json_object_get(other, "used_s") == NULL);
    expect_answer(own, "{'queued':0}");
    expect_answer(other, "{'queued':1}");
    json_decref(answer);
    client_close(&other_user);
}
