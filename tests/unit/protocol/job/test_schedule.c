#include "protocol/job/schedule.h"

#include <criterion/criterion.h>

/* Built by hand rather than by job_defaults, so that these sentences say every key they rest on. */
static struct job job_with(enum job_lr_schedule schedule)
{
    struct job job = {0};
    job.train.epochs = 100;
    job.train.lr = 0.5;
    job.train.lr_schedule = (int)schedule;
    job.train.lr_step = 10;
    job.train.lr_gamma = 0.1;
    return job;
}

static void expect_rate(const struct job *job, uint32_t epoch, double rate)
{
    cr_assert_float_eq(schedule_lr(job, epoch), rate, 1e-15, "epoch %u: %.17g for %.17g", epoch,
                       schedule_lr(job, epoch), rate);
}

Test(schedule, a_constant_rate_is_the_jobs_rate_to_the_bit)
{
    struct job job = job_with(JOB_LR_SCHEDULE_CONSTANT);
    cr_assert_eq(schedule_lr(&job, 0), 0.5);
    cr_assert_eq(schedule_lr(&job, 99), 0.5);
}

Test(schedule, warm_up_rises_by_equal_steps_and_ends_at_the_full_rate)
{
    struct job job = job_with(JOB_LR_SCHEDULE_CONSTANT);
    job.train.warmup = 4;
    expect_rate(&job, 0, 0.1);
    expect_rate(&job, 1, 0.2);
    expect_rate(&job, 3, 0.4);
    expect_rate(&job, 4, 0.5);
    expect_rate(&job, 5, 0.5);
}

Test(schedule, cosine_starts_at_the_full_rate_halves_midway_and_ends_at_zero)
{
    struct job job = job_with(JOB_LR_SCHEDULE_COSINE);
    expect_rate(&job, 0, 0.5);
    expect_rate(&job, 50, 0.25);
    cr_assert_gt(schedule_lr(&job, 99), 0.0);
    expect_rate(&job, 100, 0.0);
    expect_rate(&job, 4000000000u, 0.0);
}

Test(schedule, cosine_counts_from_the_end_of_the_warm_up)
{
    struct job job = job_with(JOB_LR_SCHEDULE_COSINE);
    job.train.warmup = 20;
    expect_rate(&job, 20, 0.5);
    expect_rate(&job, 60, 0.25);
    job.train.warmup = 100;
    expect_rate(&job, 100, 0.0);
}

Test(schedule, step_reduces_the_rate_after_every_lr_step_epochs_since_the_warm_up)
{
    struct job job = job_with(JOB_LR_SCHEDULE_STEP);
    expect_rate(&job, 9, 0.5);
    expect_rate(&job, 10, 0.05);
    expect_rate(&job, 25, 0.005);
    job.train.warmup = 5;
    expect_rate(&job, 14, 0.5);
    expect_rate(&job, 15, 0.05);
}
