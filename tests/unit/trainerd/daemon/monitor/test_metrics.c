#include "tests/support/daemon/exposition.h"
#include "trainerd/daemon/monitor/metrics.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_JOB 200

static struct job_record records[N_JOB];
static const struct job_record *jobs[N_JOB];
static size_t n_job;
static const struct queue_capacity whole = {.n_slot = 8, .gpus = 0x7, .memory = 1000};

/* Another job in that state, its numbers not known. */
static struct job_record *add(enum job_state state)
{
    struct job_record *job = &records[n_job];
    *job = (struct job_record){.id = (int64_t)n_job + 1,
                               .name = "cora",
                               .state = state,
                               .n_slot = 3,
                               .memory = 400,
                               .attempt = state == JOB_STATE_QUEUED ? 0 : 1,
                               .progress = {.loss = NAN,
                                            .train_metric = NAN,
                                            .valid_metric = NAN,
                                            .test_metric = NAN,
                                            .epoch_s = NAN,
                                            .seconds_left = NAN,
                                            .compute_s = NAN,
                                            .wait_s = NAN,
                                            .evaluate_s = NAN,
                                            .bytes_sent = NAN,
                                            .bytes_received = NAN,
                                            .memory = NAN}};
    jobs[n_job++] = job;
    return job;
}

static const char *print(void)
{
    static char *text;
    free(text);
    size_t n;
    FILE *file = open_memstream(&text, &n);
    int64_t n_of_state[JOB_STATE_N] = {0};
    for (size_t i = 0; i < n_job; i++) {
        n_of_state[jobs[i]->state]++;
    }
    metrics_print(file, jobs, n_job, n_of_state, &whole);
    fclose(file);
    const char *wrong = exposition_fault(text);
    cr_assert_null(wrong, "%s", wrong);
    return text;
}

/* A job with all numbers, and a name that wants escaping. */
static struct job_record *add_whole(void)
{
    struct job_record *job = add(JOB_STATE_RUNNING);
    snprintf(job->name, sizeof job->name, "a \"b\"\\c\nd\xff");
    job->run.n_restart = 2;
    job->progress = (struct job_progress){.epoch = 7,
                                          .n_epoch = 20,
                                          .loss = 0.125,
                                          .train_metric = 0.9,
                                          .valid_metric = 0.8,
                                          .test_metric = 0.7,
                                          .epoch_s = 1.5,
                                          .seconds_left = 19.5,
                                          .compute_s = 1,
                                          .wait_s = 0.5,
                                          .evaluate_s = 0.25,
                                          .bytes_sent = 4096,
                                          .bytes_received = 8192,
                                          .memory = 390};
    return job;
}

Test(metrics, without_a_job_they_say_what_there_is_and_what_the_process_takes)
{
    const char *text = print();
    cr_assert_eq(exposition_value(text, "trainerd_jobs{state=\"QUEUED\"}"), 0);
    cr_assert_eq(exposition_value(text, "trainerd_slots{state=\"free\"}"), 8);
    cr_assert_eq(exposition_value(text, "trainerd_build_info{version=\"0.1.0\"}"), 1);
    cr_assert_gt(exposition_value(text, "process_resident_memory_bytes"), 1e6);
    cr_assert_gt(exposition_value(text, "process_start_time_seconds"), 1e9);
    int open = dup(0);
    double n_file = exposition_value(text, "process_open_fds");
    cr_assert_eq(exposition_value(print(), "process_open_fds"), n_file + 1);
    close(open);
}

Test(metrics, jobs_are_counted_by_state_and_hold_what_they_run_with)
{
    add(JOB_STATE_QUEUED)->reason = JOB_REASON_WAITING_SLOTS;
    add(JOB_STATE_QUEUED)->reason = JOB_REASON_WAITING_SLOTS;
    add(JOB_STATE_PREPARING)->gpus = 0x1;
    add(JOB_STATE_RUNNING)->gpus = 0xc;
    add(JOB_STATE_FAILED);
    const char *text = print();
    cr_assert_eq(exposition_value(text, "trainerd_jobs{state=\"QUEUED\"}"), 2);
    cr_assert_eq(exposition_value(text, "trainerd_jobs{state=\"FAILED\"}"), 1);
    cr_assert_eq(exposition_value(text, "trainerd_jobs_queued{reason=\"WAITING_SLOTS\"}"), 2);
    cr_assert_eq(exposition_value(text, "trainerd_slots{state=\"used\"}"), 6);
    cr_assert_eq(exposition_value(text, "trainerd_slots{state=\"free\"}"), 2);
    cr_assert_eq(exposition_value(text, "trainerd_gpus{state=\"used\"}"), 2,
                 "one that the daemon has no more is not counted");
    cr_assert_eq(exposition_value(text, "trainerd_gpus{state=\"free\"}"), 1);
    cr_assert_eq(exposition_value(text, "trainerd_memory_bytes{state=\"used\"}"), 800);
    cr_assert_eq(exposition_value(text, "trainerd_memory_bytes{state=\"free\"}"), 200);
}

Test(metrics, a_running_job_has_every_number_under_its_escaped_name)
{
    add_whole();
    const char *text = print();
#define OF "{job=\"1\",name=\"a \\\"b\\\"\\\\c\\\\x0ad\\\\xff\""
    cr_assert_eq(exposition_value(text, "trainerd_job_epoch" OF "}"), 7, "%s", text);
    cr_assert_eq(exposition_value(text, "trainerd_job_epochs" OF "}"), 20);
    cr_assert_eq(exposition_value(text, "trainerd_job_loss" OF "}"), 0.125);
    cr_assert_eq(exposition_value(text, "trainerd_job_metric" OF ",split=\"valid\"}"), 0.8);
    cr_assert_eq(exposition_value(text, "trainerd_job_epoch_seconds" OF "}"), 1.5);
    cr_assert_eq(exposition_value(text, "trainerd_job_phase_seconds" OF ",phase=\"wait\"}"), 0.5);
    cr_assert_eq(exposition_value(text, "trainerd_job_epoch_bytes" OF ",direction=\"received\"}"), 8192);
    cr_assert_eq(exposition_value(text, "trainerd_job_seconds_left" OF "}"), 19.5);
    cr_assert_eq(exposition_value(text, "trainerd_job_memory_bytes" OF ",by=\"plan\"}"), 400);
    cr_assert_eq(exposition_value(text, "trainerd_job_memory_bytes" OF ",by=\"measure\"}"), 390);
    cr_assert_eq(exposition_value(text, "trainerd_job_restarts_total" OF "}"), 2);
}

Test(metrics, what_is_not_known_is_left_out)
{
    add(JOB_STATE_PREPARING)->memory = -1;
    const char *text = print();
    cr_assert(isnan(exposition_value(text, "trainerd_job_loss{job=\"1\",name=\"cora\"}")));
    cr_assert_null(strstr(text, "by=\"plan\""));
    cr_assert_null(strstr(text, "nan"));
}

Test(metrics, a_job_that_waits_for_its_first_attempt_adds_no_series)
{
    add(JOB_STATE_QUEUED);
    add(JOB_STATE_QUEUED)->attempt = 1;
    const char *text = print();
    cr_assert_null(strstr(text, "job=\"1\""));
    cr_assert_not_null(strstr(text, "job=\"2\""));
}

Test(metrics, promtool_finds_nothing_to_say)
{
    add_whole();
    add(JOB_STATE_FAILED);
    const char *words = exposition_promtool(print());
    if (words == NULL) {
        cr_skip("promtool is not there: scripts/install-deps --test brings it");
    }
    cr_assert_str_eq(words, "");
}
