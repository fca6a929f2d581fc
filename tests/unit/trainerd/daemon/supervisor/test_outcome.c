#include "trainerd/daemon/supervisor/outcome.h"

#include "tests/support/process/expect.h"

static const struct restart_backoff backoff = {.first_s = 1.0, .most_s = 60.0};
static struct job_record job;

static void running(void)
{
    job = (struct job_record){.id = 1,
                              .state = JOB_STATE_RUNNING,
                              .run = {.pid = 77, .pid_start = 5, .attempt_at = 100.0},
                              .gpus = 0x6,
                              .attempt = 1,
                              .max_restarts = 3,
                              .exit_code = -1,
                              .n_worker = 2};
}

TestSuite(outcome, .init = running);

/* The job's attempt runs again, and ends so. */
static void end(struct ending ending)
{
    job.state = JOB_STATE_RUNNING;
    job.run.attempt_at = 100.0;
    outcome_decide(&ending, &backoff, 110.0, &job);
}

static void end_with(enum status status, bool restartable, const char *text)
{
    end((struct ending){.status = status, .restartable = restartable, .text = text});
}

static void expect(enum job_state state, enum job_reason reason, int code, const char *words)
{
    cr_assert_eq(job.state, state, "%s: %s", job_state_name(job.state), job.reason_text);
    cr_assert_eq(job.reason, reason, "%s: %s", job_reason_name(job.reason), job.reason_text);
    cr_assert_eq(job.exit_code, code, "%d: %s", job.exit_code, job.reason_text);
    cr_assert(job.run.pid == 0 && job.gpus == 0 && job.run.attempt_at == 0.0 && job.run.slurm == 0);
    expect_words(job.reason_text, words);
}
#define EXPECT(state, reason, code, words) expect(JOB_STATE_##state, JOB_REASON_##reason, code, words)

enum flags { CANCEL = 1, CHECKPOINTED = 2, NO_RESTARTS = 4, WORN_OUT = 8, LIMITED = 16 };

/* Each ending of a first attempt: what the job is then, and whether it has lost a restart or has to wait. */
static const struct {
    struct ending ending;
    enum flags flags;
    enum job_state state;
    enum job_reason reason;
    int code;
    const char *words;
    int n_restart;
    bool waits;
} endings[] = {
#define END(...)                                                                                                     \
    {                                                                                                                \
        __VA_ARGS__                                                                                                  \
    }
#define ROW(flags, state, reason, code, words, n_restart, waits)                                                     \
    flags, JOB_STATE_##state, JOB_REASON_##reason, code, words, n_restart, waits
    /* Success is success, also of a job that was being cancelled. */
    {END(STATUS_OK, .text = "done"), ROW(CANCEL, SUCCEEDED, NONE, 0, "", 0, false)},
    /* Bad input is never tried again. */
    {END(STATUS_CONFIG, .restartable = true, .text = "a"), ROW(0, FAILED, BAD_CONFIG, 78, "a", 0, false)},
    {END(STATUS_DATA, .restartable = true, .text = "a"), ROW(0, FAILED, BAD_DATA, 65, "a", 0, false)},
    {END(STATUS_NO_INPUT, .restartable = true, .text = "a"), ROW(0, FAILED, MISSING_INPUT, 66, "a", 0, false)},
    {END(STATUS_CREATE, .restartable = true, .text = "a"), ROW(0, FAILED, CANNOT_CREATE, 73, "a", 0, false)},
    {END(STATUS_NOMEM, .restartable = true, .text = "a"), ROW(0, FAILED, OUT_OF_MEMORY, 71, "a", 0, false)},
    {END(STATUS_TRAINING, .restartable = true, .text = "a"), ROW(0, FAILED, DIVERGED, 1, "a", 0, false)},
    /* The coordinator says that no restart helps; the job may not have restarts. */
    {END(STATUS_PEER, .text = "no"), ROW(0, FAILED, WORKER_LOST, 69, "no", 0, false)},
    {END(STATUS_PEER, .restartable = true, .text = "no"), ROW(NO_RESTARTS, FAILED, WORKER_LOST, 69, "no", 0, false)},
    /* A bug, a coordinator that died, and one that others interrupted are tried again. */
    {END(STATUS_BUG, .restartable = true, .text = "a bug"), ROW(0, QUEUED, BACKING_OFF, -1, "a bug", 1, true)},
    {END(.is_lost = true, .text = "it died"), ROW(0, QUEUED, BACKING_OFF, -1, "it died; restart 1 of 3", 1, true)},
    {END(STATUS_INTERRUPTED, .restartable = true, .text = "x"), ROW(0, QUEUED, BACKING_OFF, -1, "x", 1, true)},
    {END(.is_lost = true, .text = "it died"), ROW(WORN_OUT, FAILED, COORDINATOR_LOST, 69, "it died", 3, false)},
    /* An attempt that was never let go, and one that Slurm preempted, cost no restart. */
    {END(.has_not_begun = true, .text = "b"), ROW(WORN_OUT, QUEUED, WAITING_TURN, -1, "b", 3, false)},
    {END(.has_not_begun = true, .text = "b"), ROW(CANCEL, CANCELLED, USER, 75, "", 0, false)},
    {END(STATUS_INTERRUPTED, .was_preempted = true, .restartable = true, .text = "x"),
     ROW(WORN_OUT | CHECKPOINTED, QUEUED, WAITING_TURN, -1, "x; another attempt follows", 3, true)},
    {END(STATUS_DATA, .was_preempted = true, .text = "x"), ROW(0, FAILED, BAD_DATA, 65, "x", 0, false)},
    /* A cancelled job is cancelled, however its coordinator ended. */
    {END(STATUS_INTERRUPTED, .restartable = true, .text = "x"),
     ROW(CANCEL | CHECKPOINTED, CANCELLED, USER, 75, "checkpoint", 0, false)},
    {END(.is_lost = true, .text = "killed"), ROW(CANCEL, CANCELLED, USER, 75, "", 0, false)},
    /* What the daemon stopped it for. */
    {END(STATUS_INTERRUPTED, .stopping = JOB_REASON_TIME_LIMIT, .text = ""),
     ROW(LIMITED, FAILED, TIME_LIMIT, 75, "ran for 30.5 s, its limit is 30 s", 0, false)},
    {END(STATUS_DATA, .stopping = JOB_REASON_BAD_DATA, .text = "it has zero bytes"),
     ROW(CHECKPOINTED, FAILED, BAD_DATA, 65, "it has zero bytes; a resume", 0, false)},
    {END(STATUS_IO, .stopping = JOB_REASON_LOG_LIMIT, .text = "'log' is too large"),
     ROW(0, FAILED, LOG_LIMIT, 74, "'log' is too large", 0, false)},
    {END(STATUS_INTERRUPTED, .stopping = JOB_REASON_RESCALING, .text = ""),
     ROW(0, QUEUED, RESCALING, -1, "", 0, false)},
};

Test(outcome, each_ending_leads_to_the_state_that_it_says_with_its_reason_and_restarts)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        enum flags flags = endings[i].flags;
        running();
        job.run.cancel = flags & CANCEL;
        job.run.checkpointed = flags & CHECKPOINTED;
        job.run.n_restart = flags & WORN_OUT ? job.max_restarts : 0;
        job.max_restarts = flags & NO_RESTARTS ? 0 : job.max_restarts;
        job.time_limit_s = flags & LIMITED ? 30.0 : 0.0;
        job.run.ran_s = flags & LIMITED ? 20.5 : 0.0;
        end(endings[i].ending);
        expect(endings[i].state, endings[i].reason, endings[i].code, endings[i].words);
        cr_assert_eq(job.run.n_restart, endings[i].n_restart, "row %zu: %d", i, (int)job.run.n_restart);
        cr_assert_eq(job.run.next_attempt_at > 110.0, endings[i].waits, "row %zu", i);
        if (endings[i].ending.has_not_begun) {
            cr_assert_eq(job.run.ran_s, 0.0);
        } else if (flags == 0) {
            cr_assert_eq(job.run.ran_s, 10.0, "row %zu", i);
        }
        if (endings[i].state == JOB_STATE_CANCELLED && !(flags & CHECKPOINTED)) {
            cr_assert_null(strstr(job.reason_text, "checkpoint"), "%s", job.reason_text);
        }
    }
}

Test(outcome, what_a_restart_may_mend_is_tried_again_after_a_wait_that_doubles)
{
    static const double wait_s[] = {1.0, 2.0, 4.0};
    for (int i = 0; i < 3; i++) {
        end_with(STATUS_PEER, true, "worker 1 was killed");
        EXPECT(QUEUED, BACKING_OFF, -1, "worker 1 was killed; restart");
        expect_words(job.reason_text, "of 3");
        cr_assert_eq(job.run.next_attempt_at, 110.0 + wait_s[i]);
    }
    end_with(STATUS_PEER, true, "worker 1 was killed");
    EXPECT(FAILED, WORKER_LOST, 69, "no restarts are left");
    running();
    end_with(STATUS_BUG, true, "a bug");
    end_with(STATUS_BUG, true, "a bug");
    EXPECT(FAILED, INTERNAL, 70, "a bug");
}

Test(outcome, a_job_that_loses_a_worker_again_goes_on_with_one_less)
{
    static const int32_t n_worker[] = {3, 2, 1, 1};
    job.n_worker = 3;
    job.max_restarts = 4;
    for (int i = 0; i < 4; i++) {
        end_with(STATUS_PEER, true, "worker 1 was killed");
        EXPECT(QUEUED, BACKING_OFF, -1, i == 1 || i == 2 ? "with one worker less" : "");
        cr_assert_eq(job.n_worker, n_worker[i], "%d after loss %d", (int)job.n_worker, i + 1);
        cr_assert_eq(strstr(job.reason_text, "worker less") != NULL, i == 1 || i == 2, "%s", job.reason_text);
    }
    running();
    job.run.n_restart = 2;
    end((struct ending){.status = STATUS_PEER, .restartable = true, .is_local = true, .text = "x"});
    cr_assert_eq(job.n_worker, 2, "the machine that it ran on is still there");
    running();
    job.run.n_restart = 2;
    job.plan.n_worker_least = 2;
    end_with(STATUS_PEER, true, "x");
    cr_assert_eq(job.n_worker, 2, "one alone has not enough memory");
    running();
    job.run.n_restart = 2;
    end_with(STATUS_IO, true, "the disk is full");
    cr_assert_eq(job.n_worker, 2, "it did not lose workers");
}

Test(outcome, a_job_that_slurm_refuses_is_tried_again_within_its_restarts_and_on_as_many_workers)
{
    const struct ending ending = {.was_refused = true, .text = "sbatch: Invalid account"};
    for (int i = 0; i < 3; i++) {
        job.run.slurm = 7;
        end(ending);
        EXPECT(QUEUED, BACKING_OFF, -1, "sbatch: Invalid account");
    }
    cr_assert_eq(job.n_worker, 2);
    end(ending);
    EXPECT(FAILED, SLURM_REFUSED, 69, "sbatch: Invalid account; no restarts are left");
}

Test(outcome, a_long_reason_keeps_its_beginning)
{
    char text[JOB_REASON_BYTES];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    end_with(STATUS_PEER, true, text);
    cr_assert_str_eq(job.reason_text, text);
}
