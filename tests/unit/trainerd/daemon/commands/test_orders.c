/* Orders for all jobs of a group: in slices, between which others have their turn. */
#include "tests/unit/trainerd/daemon/commands/talk.h"

#include <criterion/criterion.h>
#include <string.h>

#define N 10

static void begin(void)
{
    talk_jobs.quota = (struct quota){.n_queued = N + 2};
    talk_begin();
    supervisor.n_slice_most = 3;
    for (int i = 0; i < N; i++) {
        submit(SUBMIT(",'group':'g'"));
    }
}

TestSuite(orders, .init = begin, .fini = talk_end, .timeout = 900);

static const char cancel[] = "{'v':1,'id':5,'cmd':'cancel','group':'g'}";
static const char resume[] = "{'v':1,'id':6,'cmd':'resume','group':'g'}";

Test(orders, another_user_is_answered_between_two_slices_and_the_next_request_of_the_connection_after_the_last)
{
    struct client other_user;
    other_user_open(&other_user);
    json_decref(ask_by(&other_user, CMD("hello")));
    tell(&client, cancel);
    tell(&client, "{'v':1,'id':7,'cmd':'version'}");
    expect_answer(ask_by(&other_user, CMD("status")), OK);
    cr_assert(supervisor.n_slice <= 2, "another user waited for %d slices", supervisor.n_slice);
    expect_answer(answer_of(&client), "{'id':5,'ok':true,'jobs':[1,2,3,4,5,6,7,8,9,10]}");
    cr_assert_eq(supervisor.n_slice, 4, "it is answered before all are cancelled");
    cr_assert_str_eq(supervisor.asked, "cancel 1", "the newest come first");
    expect_answer(answer_of(&client), "{'id':7}");
    client_close(&other_user);
}

Test(orders, an_order_whose_client_leaves_is_carried_out)
{
    struct client leaving;
    client_open(&leaving, server_address(server));
    tell(&leaving, cancel);
    await(supervisor.n_slice != 0);
    client_close(&leaving);
    await(supervisor.n_slice >= 4);
    json_decref(ask(CMD("version")));
    cr_assert_eq(supervisor.n_slice, 4);
}

Test(orders, a_slice_that_cannot_be_saved_ends_the_order_and_says_how_many_are_done)
{
    supervisor.fails_in_slice = 3;
    tell(&client, cancel);
    expect_failure(answer_of(&client), 74, "6 of 10 jobs are done, then: the disk is full");
    json_decref(ask(CMD("version")));
    cr_assert_eq(supervisor.n_slice, 3);
}

/* The fake supervisor leaves all jobs as they are: what is promised and not kept is given back. */
Test(orders, jobs_that_are_about_to_wait_count_as_waiting)
{
    struct client second;
    for (int64_t id = 1; id <= N; id++) {
        job_become(id, JOB_STATE_CANCELLED);
    }
    client_open(&second, server_address(server));
    json_decref(ask_by(&second, CMD("hello")));
    tell(&client, resume);
    await(supervisor.n_slice != 0);
    cr_assert_eq(jobs_check_queued(jobs, geteuid(), 5), STATUS_OK);
    cr_assert_eq(jobs_check_queued(jobs, geteuid(), 6), STATUS_PEER,
                 "a part of a group that is resumed is not counted");
    json_decref(answer_of(&client));
    cr_assert_eq(jobs_check_queued(jobs, geteuid(), N + 2), STATUS_OK);
    client_close(&second);
}

/* Their job files are read in slices: the clock goes on with each look at it. */
Test(orders, another_user_is_answered_while_a_submission_is_read_which_is_saved_all_at_once_and_audited_once)
{
    struct client other_user, second;
    other_user_open(&other_user);
    client_open(&second, server_address(server));
    json_decref(ask_by(&other_user, CMD("hello")));
    json_decref(ask_by(&second, CMD("hello")));
    for (int64_t id = 1; id <= N; id++) {
        job_become(id, JOB_STATE_CANCELLED);
    }
    supervisor.clock_step_ns = SLICE_NS / 3;
    tell(&client, SUBMIT(",'jobs':[[],[],[],[],[],[],[],[],[],['name=\\\"last\\\"']]"));
    expect_answer(ask_by(&other_user, CMD("version")), "{'jobs':10}"); /* neither all is saved yet, nor a part */
    expect_answer(answer_of(&client), "{'ok':true,'jobs':[11,12,13,14,15,16,17,18,19,20]}");
    cr_assert_str_eq(jobs_get(jobs, N + 10)->name, "last");
    tell(&client, SUBMIT(",'jobs':[[],[],[],[],[],[],[],['train.lr=-1']]"));
    expect_failure(answer_of(&client), 69, "10 of your jobs wait, with 8 more they would be 18: expected at most 12");
    tell(&client, SUBMIT(",'jobs':[[],['train.lr=-1']]"));
    expect_failure(answer_of(&client), 78, "job 2 of 2: ");
    supervisor.clock_step_ns = 0;
    json_t *answer = ask(CMD("audit"));
    size_t n_row = json_array_size(json_object_get(answer, "rows"));
    cr_assert_eq(n_row, N + 3, "%zu rows", n_row); /* each submission of one job, the one of ten, two refusals */
    json_decref(answer);
    client_close(&other_user);
    client_close(&second);
}

Test(orders, a_daemon_that_ends_in_the_middle_does_not_wait_for_an_order)
{
    tell(&client, cancel);
    await(supervisor.n_slice != 0);
}
