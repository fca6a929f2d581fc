/* Orders for all jobs of a group: in slices, between which others have their turn. */
#include "protocol/base/clock.h"
#include "tests/unit/trainerd/daemon/commands/talk.h"
#include "trainerd/daemon/store/store_audit.h"

#include <criterion/criterion.h>
#include <string.h>

#define N 10

static void begin(void)
{
    talk_jobs.quota = (struct quota){.n_queued = N + 2};
    talk_begin();
    supervisor.n_slice_most = 3;
    for (int i = 0; i < N; i++) {
        submit(SUBMIT(",\"group\":\"g\""));
    }
}

TestSuite(orders, .init = begin, .fini = talk_end, .timeout = 900);

static const char cancel[] = "{\"v\":1,\"id\":5,\"cmd\":\"cancel\",\"group\":\"g\"}\n";
static const char resume[] = "{\"v\":1,\"id\":6,\"cmd\":\"resume\",\"group\":\"g\"}\n";

Test(orders, another_user_is_answered_between_two_slices_and_the_next_request_of_the_connection_after_the_last)
{
    struct client other_user;
    if (!other_user_open(&other_user)) {
        cr_skip_test("needs root");
    }
    json_decref(ask_by(&other_user, "{\"v\":1,\"cmd\":\"hello\"}"));
    client_send(&client, cancel);
    client_send(&client, "{\"v\":1,\"id\":7,\"cmd\":\"version\"}\n");
    json_t *answer = ask_by(&other_user, "{\"v\":1,\"cmd\":\"status\"}");
    expect_ok(answer);
    json_decref(answer);
    cr_assert(supervisor.n_slice <= 2, "another user waited for %d slices", supervisor.n_slice);
    answer = answer_of(&client);
    cr_assert(number(answer, "id") == 5 && supervisor.n_slice == 4, "it is answered before all are cancelled");
    expect_ok(answer);
    const json_t *numbers = json_object_get(answer, "jobs");
    cr_assert_eq(json_array_size(numbers), N);
    for (int i = 0; i < N; i++) {
        cr_assert_eq(json_integer_value(json_array_get(numbers, (size_t)i)), i + 1);
    }
    cr_assert_str_eq(supervisor.asked, "cancel 1", "the newest come first");
    json_decref(answer);
    answer = answer_of(&client);
    cr_assert_eq(number(answer, "id"), 7);
    json_decref(answer);
    client_close(&other_user);
}

Test(orders, an_order_whose_client_leaves_is_carried_out)
{
    struct client leaving;
    client_open(&leaving, server_address(server));
    client_send(&leaving, cancel);
    double since_s = clock_s();
    while (supervisor.n_slice == 0) {
        turn(since_s);
    }
    client_close(&leaving);
    while (supervisor.n_slice < 4) {
        turn(since_s);
    }
    json_decref(ask("{\"v\":1,\"cmd\":\"version\"}"));
    cr_assert_eq(supervisor.n_slice, 4);
}

Test(orders, a_slice_that_cannot_be_saved_ends_the_order_and_says_how_many_are_done)
{
    supervisor.fails_in_slice = 3;
    client_send(&client, cancel);
    expect_failure(answer_of(&client), 74, "6 of 10 jobs are done, then: the disk is full");
    json_decref(ask("{\"v\":1,\"cmd\":\"version\"}"));
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
    json_decref(ask_by(&second, "{\"v\":1,\"cmd\":\"hello\"}"));
    client_send(&client, resume);
    double since_s = clock_s();
    while (supervisor.n_slice == 0) {
        turn(since_s);
    }
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
    if (!other_user_open(&other_user)) {
        cr_skip_test("needs root");
    }
    client_open(&second, server_address(server));
    json_decref(ask_by(&other_user, "{\"v\":1,\"cmd\":\"hello\"}"));
    json_decref(ask_by(&second, "{\"v\":1,\"cmd\":\"hello\"}"));
    for (int64_t id = 1; id <= N; id++) {
        job_become(id, JOB_STATE_CANCELLED);
    }
    supervisor.clock_step_ns = SLICE_NS / 3;
    client_send(&client, SUBMIT(",\"jobs\":[[],[],[],[],[],[],[],[],[],[\"name=\\\"last\\\"\"]]") "\n");
    json_t *answer = ask_by(&other_user, "{\"v\":1,\"cmd\":\"version\"}");
    cr_assert_eq(number(answer, "jobs"), N, "another user waited until all was saved, or a part is");
    json_decref(answer);
    answer = answer_of(&client);
    expect_ok(answer);
    cr_assert_eq(json_array_size(json_object_get(answer, "jobs")), 10);
    json_decref(answer);
    cr_assert_str_eq(jobs_get(jobs, N + 10)->name, "last");
    client_send(&client, SUBMIT(",\"jobs\":[[],[],[],[],[],[],[],[\"train.lr=-1\"]]") "\n");
    expect_failure(answer_of(&client), 69, "10 of your jobs wait, with 8 more they would be 18: expected at most 12");
    client_send(&client, SUBMIT(",\"jobs\":[[],[\"train.lr=-1\"]]") "\n");
    expect_failure(answer_of(&client), 78, "job 2 of 2: ");
    supervisor.clock_step_ns = 0;
    answer = ask("{\"v\":1,\"cmd\":\"audit\"}");
    size_t n_row = json_array_size(json_object_get(answer, "rows"));
    cr_assert_eq(n_row, N + 3, "%zu rows", n_row); /* each submission of one job, the one of ten, two refusals */
    json_decref(answer);
    client_close(&other_user);
    client_close(&second);
}

Test(orders, a_daemon_that_ends_in_the_middle_does_not_wait_for_an_order)
{
    client_send(&client, cancel);
    double since_s = clock_s();
    while (supervisor.n_slice == 0) {
        turn(since_s);
    }
}
