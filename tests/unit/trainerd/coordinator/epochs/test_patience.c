/* train.patience: what counts as better, and that a job that stops goes on with the same count. */
#include "tests/support/process/folder.h"
#include "tests/unit/trainerd/coordinator/epochs/training_case.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(patience, .init = folder_make, .fini = training_case_end);

Test(patience, looks_at_the_loss_where_it_is_asked_to_and_the_metric_still_chooses_the_weights)
{
    struct run *run = open_run("o", "epochs = 100\npatience = 3\npatience_monitor = \"loss\"\n");
    const double loss[] = {3.0, 2.0, 2.5, 1.75, 1.75, 2.0, 4.0}; /* the metric gets better all the time */
    memcpy(run->fleet.valid_loss, loss, sizeof loss);
    expect_done(run);
    cr_expect_eq(run->training.end, TRAINING_END_PATIENCE);
    cr_expect_eq(run->training.state.n_epoch, 7, "1.75 again is no better");
    cr_expect_eq(run->training.state.best_epoch, 6);
    cr_expect_eq(run->training.state.best.valid_loss, 4.0);
    json_t *metrics = metrics_of("o");
    cr_expect_eq(field(metrics, 3, "valid_loss"), 1.75);
}

Test(patience, takes_for_better_what_differs_by_more_than_the_least_difference)
{
    struct run *run = open_run("o", "epochs = 100\npatience = 3\nmin_delta = 0.125\n");
    const int valid[] = {25, 37, 50, 60, 61, 62, 70}; /* 0.50 is more than 0.25 + 0.125 */
    memcpy(run->fleet.valid_correct, valid, sizeof valid);
    expect_done(run);
    cr_expect_eq(run->training.state.n_epoch, 6);
    cr_expect_eq(run->training.state.best_epoch, 5, "the best weights are those of the best metric all the same");
    run = open_run("p", "epochs = 100\npatience = 2\nmin_delta = 0.5\npatience_monitor = \"loss\"\n");
    const double loss[] = {4.0, 3.5, 3.25, 3.0, 3.0}; /* 3.5 is not less than 4.0 − 0.5, 3.25 is */
    memcpy(run->fleet.valid_loss, loss, sizeof loss);
    expect_done(run);
    cr_expect_eq(run->training.state.n_epoch, 5);
}

Test(patience, interrupted_anywhere_and_resumed_counts_the_same)
{
    expect_resumed_alike("epochs = 6\npatience = 9\npatience_monitor = \"loss\"\nmin_delta = 0.25\n");
}
