/* train.lr_schedule = "reduce_on_plateau": when the rate falls, and that a job that stops goes on with the same. */
#include "tests/support/process/folder.h"
#include "tests/unit/trainerd/coordinator/epochs/training_case.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(plateau, .init = folder_make, .fini = training_case_end);

#define PLATEAU "lr = 0.5\nlr_schedule = \"reduce_on_plateau\"\nlr_gamma = 0.1\nlr_patience = 1\n"
#define BY_METRIC PLATEAU "lr_monitor = \"metric\"\n"

static void expect_rates(const char *name, const double *rates, size_t n)
{
    json_t *metrics = metrics_of(name);
    cr_assert_eq(json_array_size(metrics), n);
    for (size_t i = 0; i < n; i++) {
        cr_expect_float_eq(field(metrics, i, "lr"), rates[i], 1e-15, "epoch %zu: %.17g for %.17g", i,
                           field(metrics, i, "lr"), rates[i]);
    }
}

Test(plateau, the_rate_falls_after_more_than_patience_evaluations_without_a_better_metric)
{
    struct run *run = open_run("o", BY_METRIC "epochs = 9\n");
    const int valid[] = {40, 30, 40, 39, 39, 50, 10, 10, 60}; /* 40 again is no better */
    memcpy(run->fleet.valid_correct, valid, sizeof valid);
    expect_done(run);
    expect_rates("o", (const double[]){0.5, 0.5, 0.5, 0.05, 0.05, 0.005, 0.005, 0.005, 0.0005}, 9);
    cr_expect_float_eq(run->fleet.factor, 0.001, 1e-15);
    cr_expect_str_eq(run->fleet.said, "TkTTrTTrTkTTrTk");
}

Test(plateau, better_is_more_than_the_threshold)
{
    struct run *run = open_run("o", BY_METRIC "epochs = 5\nlr_threshold = 0.1\n");
    const int valid[] = {40, 43, 44, 45, 45}; /* 44.1 is better */
    memcpy(run->fleet.valid_correct, valid, sizeof valid);
    expect_done(run);
    expect_rates("o", (const double[]){0.5, 0.5, 0.5, 0.05, 0.05}, 5);
}

Test(plateau, the_loss_is_looked_at_unless_the_metric_is_asked_for)
{
    struct run *run = open_run("o", PLATEAU "epochs = 6\n"); /* the fake fleet's loss stays, its metric gets better */
    expect_done(run);
    expect_rates("o", (const double[]){0.5, 0.5, 0.5, 0.05, 0.05, 0.005}, 6);
}

Test(plateau, the_rate_ends_at_its_least)
{
    struct run *run = open_run("o", PLATEAU "epochs = 8\nlr_min = 0.02\n");
    expect_done(run);
    expect_rates("o", (const double[]){0.5, 0.5, 0.5, 0.05, 0.05, 0.02, 0.02, 0.02}, 8);
}

Test(plateau, evaluations_in_the_warm_up_do_not_count)
{
    struct run *run = open_run("o", PLATEAU "epochs = 7\nwarmup = 3\n");
    expect_done(run);
    expect_rates("o", (const double[]){0.125, 0.25, 0.375, 0.5, 0.5, 0.5, 0.05}, 7);
}

Test(plateau, interrupted_anywhere_and_resumed_the_rate_falls_at_the_same_epochs)
{
    expect_resumed_alike(PLATEAU "epochs = 9\n");
}

Test(plateau, a_rollback_halves_what_the_evaluations_have_left_of_the_rate)
{
    struct run *run = open_run("o", PLATEAU "epochs = 6\ncheckpoint_every = 4\non_nan = \"rollback\"\n");
    run->fleet.nan_at = 4;
    run->fleet.nan_above = 0.06;
    expect_done(run);
    cr_expect_eq(run->training.state.n_rollback, 1);
    expect_rates("o", (const double[]){0.5, 0.5, 0.5, 0.05, 0.025, 0.0025}, 6);
}
