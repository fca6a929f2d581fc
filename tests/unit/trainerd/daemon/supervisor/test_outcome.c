#include "trainerd/daemon/supervisor/outcome.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const struct restart_backoff backoff = {.first_s = 1.0, .most_s = 60.0};
static struct job_record job;

static void running(void)
{
    job = (struct job_record){.id = 1,
                              .state = JOB_STATE_RUNNING,
                              .pid = 77,
                              .pid_start = 5,
                              .gpus = 0x6,
                              .attempt = 1,
                              .attempt_at = 100.0,
                              .max_restarts = 3,
                              .exit_code = -1,
                              .n_worker = 2};
}

TestSuite(outcome, .init = running);

static void end_with(enum status status, bool restartable, const char *text)
{
    outcome_decide(&(struct ending){.status = status, .restartable = restartable, .text = text}, &backoff, 110.0,
                   &job);
}

#define EXPECT(state_, reason_, code)                                                                                \
    do {                                                                                                             \
        cr_assert_eq(job.state, JOB_STATE_##state_, "%s: %s", job_state_name(job.state), job.reason_text);           \
        cr_assert_eq(job.reason, JOB_REASON_##reason_, "%s: %s", job_reason_name(job.reason), job.reason_text);      \
        cr_assert_eq(job.exit_code, code, "%d", job.exit_code);                                                      \
        cr_assert_eq(job.pid, 0);                                                                                    \
        cr_assert_eq(job.gpus, 0);                                                                                   \
        cr_assert_eq(job.attempt_at, 0.0);                                                                           \
    } while (0)

Test(outcome, success_is_success_even_of_a_job_that_was_being_cancelled)
{
    job.cancel = true;
    end_with(STATUS_OK, false, "done");
    EXPECT(SUCCEEDED, NONE, 0);
    cr_assert_eq(job.ran_s, 10.0);
}

Test(outcome, what_a_restart_may_mend_is_tried_again_after_a_wait_that_doubles)
{
    double wait_s[] = {1.0, 2.0, 4.0};
    for (int i = 0; i < 3; i++) {
        int32_t n = job.n_restart;
        running();
        job.n_restart = n;
        end_with(STATUS_PEER, true, "worker 1 was killed");
        EXPECT(QUEUED, BACKING_OFF, -1);
        cr_assert_eq(job.next_attempt_at, 110.0 + wait_s[i]);
        cr_assert(strstr(job.reason_text, "worker 1 was killed; restart") && strstr(job.reason_text, "of 3"), "%s",
                  job.reason_text);
    }
    job.state = JOB_STATE_RUNNING;
    end_with(STATUS_PEER, true, "worker 1 was killed");
    EXPECT(FAILED, WORKER_LOST, 69);
    cr_assert_not_null(strstr(job.reason_text, "no restarts are left"), "%s", job.reason_text);
}

Test(outcome, a_job_that_loses_a_worker_again_goes_on_with_one_less)
{
    static const int32_t n_worker[] = {3, 2, 1, 1};
    job.n_worker = 3;
    job.max_restarts = 4;
    for (int i = 0; i < 4; i++) {
        job.state = JOB_STATE_RUNNING;
        end_with(STATUS_PEER, true, "worker 1 was killed");
        EXPECT(QUEUED, BACKING_OFF, -1);
        cr_assert_eq(job.n_worker, n_worker[i], "%d after loss %d", (int)job.n_worker, i + 1);
        cr_assert_eq(strstr(job.reason_text, "with one worker less") != NULL, i == 1 || i == 2, "%s",
                     job.reason_text);
    }
    running();
    job.n_restart = 2;
    outcome_decide(
        &(struct ending){.status = STATUS_PEER, .restartable = true, .is_local = true, .text = "worker 1 was killed"},
        &backoff, 110.0, &job);
    cr_assert_eq(job.n_worker, 2, "the machine that it ran on is still there");
    running();
    job.n_restart = 2;
    job.n_worker_least = 2;
    end_with(STATUS_PEER, true, "worker 1 was killed");
    cr_assert_eq(job.n_worker, 2, "one alone has not enough memory");
    running();
    job.n_restart = 2;
    end_with(STATUS_IO, true, "the disk is full");
    cr_assert_eq(job.n_worker, 2, "it is not its workers that it lost");
}

Test(outcome, bad_input_is_never_tried_again)
{
    static const struct {
        enum status status;
        enum job_reason reason;
        int code;
    } cases[] = {{STATUS_CONFIG, JOB_REASON_BAD_CONFIG, 78},      {STATUS_DATA, JOB_REASON_BAD_DATA, 65},
                 {STATUS_NO_INPUT, JOB_REASON_MISSING_INPUT, 66}, {STATUS_CREATE, JOB_REASON_CANNOT_CREATE, 73},
                 {STATUS_NOMEM, JOB_REASON_OUT_OF_MEMORY, 71},    {STATUS_TRAINING, JOB_REASON_DIVERGED, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        running();
        end_with(cases[i].status, true, "the reason, word for word");
        cr_assert_eq(job.state, JOB_STATE_FAILED);
        cr_assert_eq(job.reason, cases[i].reason);
        cr_assert_eq(job.exit_code, cases[i].code);
        cr_assert_str_eq(job.reason_text, "the reason, word for word");
    }
}

Test(outcome, a_coordinators_word_that_no_restart_helps_counts)
{
    end_with(STATUS_PEER, false, "no");
    EXPECT(FAILED, WORKER_LOST, 69);
}

Test(outcome, a_bug_is_tried_once_more)
{
    end_with(STATUS_BUG, true, "a bug");
    EXPECT(QUEUED, BACKING_OFF, -1);
    job.state = JOB_STATE_RUNNING;
    end_with(STATUS_BUG, true, "a bug");
    EXPECT(FAILED, INTERNAL, 70);
}

Test(outcome, a_coordinator_that_died_is_replaced_and_one_that_was_interrupted_by_others_too)
{
    outcome_decide(&(struct ending){.is_lost = true, .text = "its coordinator died"}, &backoff, 110.0, &job);
    EXPECT(QUEUED, BACKING_OFF, -1);
    job.state = JOB_STATE_RUNNING;
    end_with(STATUS_INTERRUPTED, true, "interrupted");
    EXPECT(QUEUED, BACKING_OFF, -1);
    job.n_restart = 3;
    outcome_decide(&(struct ending){.is_lost = true, .text = "its coordinator died"}, &backoff, 110.0, &job);
    EXPECT(FAILED, COORDINATOR_LOST, 69);
}

Test(outcome, an_attempt_that_was_never_let_go_costs_neither_a_restart_nor_time)
{
    const struct ending ending = {.has_not_begun = true, .text = "the daemon died"};
    job.n_restart = job.max_restarts;
    outcome_decide(&ending, &backoff, 110.0, &job);
    EXPECT(QUEUED, WAITING_TURN, -1);
    cr_assert_eq(job.n_restart, job.max_restarts);
    cr_assert_eq(job.next_attempt_at, 0.0);
    cr_assert_eq(job.ran_s, 0.0);
    cr_assert_str_eq(job.reason_text, "the daemon died");
    job.state = JOB_STATE_PREPARING;
    job.cancel = true;
    outcome_decide(&ending, &backoff, 120.0, &job);
    EXPECT(CANCELLED, USER, 75);
}

Test(outcome, a_job_that_slurm_refuses_is_tried_again_within_its_restarts_and_on_as_many_workers)
{
    const struct ending ending = {.was_refused = true, .text = "sbatch: Invalid account"};
    int32_t n_worker = job.n_worker;
    job.slurm = 7;
    for (int i = 0; i < job.max_restarts; i++) {
        job.state = JOB_STATE_SUBMITTED;
        outcome_decide(&ending, &backoff, 110.0, &job);
        EXPECT(QUEUED, BACKING_OFF, -1);
    }
    cr_assert(job.n_worker == n_worker && job.slurm == 0);
    job.state = JOB_STATE_SUBMITTED;
    outcome_decide(&ending, &backoff, 110.0, &job);
    EXPECT(FAILED, SLURM_REFUSED, 69);
    cr_assert_str_eq(job.reason_text, "sbatch: Invalid account; no restarts are left");
}

Test(outcome, a_preempted_attempt_is_followed_by_another_and_costs_no_restart)
{
    job.n_restart = job.max_restarts;
    job.checkpointed = true;
    outcome_decide(
        &(struct ending){.status = STATUS_INTERRUPTED, .was_preempted = true, .restartable = true, .text = "x"},
        &backoff, 110.0, &job);
    EXPECT(QUEUED, WAITING_TURN, -1);
    cr_assert(job.n_restart == job.max_restarts && job.next_attempt_at > 110.0);
    cr_assert_str_eq(job.reason_text, "x; another attempt follows");
    running();
    outcome_decide(&(struct ending){.status = STATUS_DATA, .was_preempted = true, .text = "x"}, &backoff, 110.0,
                   &job);
    EXPECT(FAILED, BAD_DATA, 65);
}

Test(outcome, no_restarts_means_none)
{
    job.max_restarts = 0;
    end_with(STATUS_PEER, true, "worker 0 was lost");
    EXPECT(FAILED, WORKER_LOST, 69);
    cr_assert_str_eq(job.reason_text, "worker 0 was lost");
}

Test(outcome, a_cancelled_job_is_cancelled_however_its_coordinator_ended)
{
    job.cancel = job.checkpointed = true;
    end_with(STATUS_INTERRUPTED, true, "interrupted");
    EXPECT(CANCELLED, USER, 75);
    cr_assert_not_null(strstr(job.reason_text, "checkpoint"), "%s", job.reason_text);
    running();
    job.cancel = true;
    outcome_decide(&(struct ending){.is_lost = true, .text = "killed"}, &backoff, 110.0, &job);
    EXPECT(CANCELLED, USER, 75);
    cr_assert_null(strstr(job.reason_text, "checkpoint"), "%s", job.reason_text);
}

Test(outcome, a_time_limit_fails_the_job_with_both_times)
{
    job.time_limit_s = 30.0;
    job.ran_s = 20.5;
    outcome_decide(&(struct ending){.status = STATUS_INTERRUPTED, .stopping = JOB_REASON_TIME_LIMIT, .text = ""},
                   &backoff, 110.0, &job);
    EXPECT(FAILED, TIME_LIMIT, 75);
    cr_assert_not_null(strstr(job.reason_text, "ran for 30.5 s, its limit is 30 s"), "%s", job.reason_text);
}

Test(outcome, spoiled_events_fail_the_job_and_a_checkpoint_is_named)
{
    job.checkpointed = true;
    outcome_decide(
        &(struct ending){.status = STATUS_DATA, .stopping = JOB_REASON_BAD_DATA, .text = "it has zero bytes"},
        &backoff, 110.0, &job);
    EXPECT(FAILED, BAD_DATA, 65);
    cr_assert_not_null(strstr(job.reason_text, "it has zero bytes; a resume"), "%s", job.reason_text);
}

Test(outcome, a_job_that_wrote_too_much_fails_with_the_file_and_no_restart)
{
    job.max_restarts = 3;
    outcome_decide(
        &(struct ending){.status = STATUS_IO, .stopping = JOB_REASON_LOG_LIMIT, .text = "'log' is too large"},
        &backoff, 110.0, &job);
    EXPECT(FAILED, LOG_LIMIT, 74);
    cr_assert_str_eq(job.reason_text, "'log' is too large");
}

Test(outcome, a_job_that_is_scaled_goes_on_at_once_and_no_restart_is_counted)
{
    outcome_decide(&(struct ending){.status = STATUS_INTERRUPTED, .stopping = JOB_REASON_RESCALING, .text = ""},
                   &backoff, 110.0, &job);
    EXPECT(QUEUED, RESCALING, -1);
    cr_assert_eq(job.next_attempt_at, 0.0);
    cr_assert_eq(job.n_restart, 0);
}

Test(outcome, a_long_reason_keeps_its_beginning)
{
    char text[JOB_REASON_BYTES];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    end_with(STATUS_PEER, true, text);
    cr_assert_str_eq(job.reason_text, text);
}
