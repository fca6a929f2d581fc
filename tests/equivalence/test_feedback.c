/* Residuals of error feedback: what they are, and gradients that are nearer to the exact ones over many epochs. */
#include "tests/equivalence/compare.h"
#include "tests/equivalence/data.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* Weights stay what they are, so that losses differ by what payloads lose alone. */
#define STILL "lr = 0.0\noptimizer = 'sgd'\nprune = 'never'"
#define FEEDBACK "error_feedback = true\n"

/* Without dropout, whose masks are others in each epoch. */
static const char *const still[] = {"kind = 'sage'\nhidden = 16\nlayers = 3", "kind = 'gcn'\nhidden = 16\nlayers = 3",
                                    "kind = 'sage'\naggregator = 'max'\nhidden = 16\nlayers = 3",
                                    "kind = 'gat'\nheads = 2\nhidden = 8\nlayers = 3",
                                    "kind = 'gatv2'\nheads = 2\nhidden = 8\nlayers = 3"};
enum { N_STILL = sizeof still / sizeof *still };

/* Losses of the first epochs of a job. */
static void losses(const char *model, const char *exchange, const char *train, int epochs, double *out)
{
    const struct task task = {
        .data = data_graphs[0], .model = model, .exchange = exchange, .train = train, .epochs = epochs};
    struct cluster_result result;
    compare_run(&task, &compare_plain, &result);
    memcpy(out, result.loss, (size_t)epochs * sizeof *out);
    cluster_release(&result);
}

/* Epoch 0 has nothing to add; epoch 1 has. */
Test(feedback, what_the_first_epoch_lost_changes_the_second)
{
    for (int m = 0; m < N_STILL; m++) {
        double fed[2], alone[2];
        losses(still[m], FEEDBACK "codec = 'int2'", STILL, 2, fed);
        losses(still[m], "codec = 'int2'", STILL, 2, alone);
        cr_expect_eq(fed[0], alone[0], "%s", still[m]);
        cr_expect_neq(fed[1], alone[1], "%s", still[m]);
    }
}

Test(feedback, epochs_in_fp32_leave_nothing_to_add)
{
    for (int m = 0; m < N_STILL; m++) {
        double between[6], before[6], never[6];
        losses(still[m], FEEDBACK "codec = 'int2, fp32@2, int2@4'", STILL, 6, between);
        losses(still[m], FEEDBACK "codec = 'fp32, int2@4'", STILL, 6, before);
        losses(still[m], FEEDBACK "codec = 'int2'", STILL, 6, never);
        cr_expect_eq(between[2], before[2], "%s: rows in fp32 are as they are", still[m]);
        cr_expect_arr_eq(between + 4, before + 4, 2 * sizeof *before, "%s", still[m]);
        cr_expect_neq(between[4], never[4], "%s", still[m]);
    }
}

/* The approximate run of an epoch that compares moves residuals on, its exact run does not. */
Test(feedback, a_guard_changes_no_residual)
{
    for (int m = 0; m < N_STILL; m++) {
        double guarded[6], without[6];
        losses(still[m], FEEDBACK "codec = 'int2'\nguard_every = 2\nguard_limit = 1e6", STILL, 6, guarded);
        losses(still[m], FEEDBACK "codec = 'int2'", STILL, 6, without);
        for (int e = 0; e < 6; e++) {
            cr_expect_eq(guarded[e] == without[e], e % 2 == 0, "%s: epoch %d: %.9g, %.9g", still[m], e, guarded[e],
                         without[e]);
        }
    }
}

static void run_steps(const char *model, const char *exchange, struct cluster_result *out)
{
    const struct task task = {.data = data_graphs[0],
                              .model = model,
                              .exchange = exchange,
                              .train = "lr = 1e-2\noptimizer = 'sgd'\nprune = 'never'",
                              .epochs = 60};
    compare_run(&task, &compare_plain, out);
}

/* How far the steps of many epochs lie from exact ones, of which each is next to nothing, over their length. */
static double steps_error(const char *model, const char *exchange, const struct cluster_result *exact)
{
    struct cluster_result result;
    double error = 0.0, length = 0.0;
    run_steps(model, exchange, &result);
    for (int64_t i = 0; i < exact->n_weight; i++) {
        error += pow((double)result.weights[i] - (double)exact->weights[i], 2.0);
        length += pow((double)exact->weights[i] - (double)exact->initial[i], 2.0);
    }
    cluster_release(&result);
    return sqrt(error / length);
}

/* Errors of single epochs cancel out, to first order: where nothing has a kink, sums of gradients are nearer to exact ones. */
Test(feedback, gradients_of_many_epochs_are_nearer_to_exact_ones)
{
    static const char *const smooth[] = {
        "kind = 'sage'\nhidden = 16\nlayers = 3\nactivation = 'gelu'",
        "kind = 'gcn'\nhidden = 16\nlayers = 3\nactivation = 'gelu'",
        "kind = 'transformer'\nheads = 2\nhidden = 16\nlayers = 2\nactivation = 'gelu'",
        "kind = 'agnn'\nhidden = 16\nlayers = 3\nactivation = 'gelu'"};
    for (size_t m = 0; m < sizeof smooth / sizeof *smooth; m++) {
        if (ways_skip(m, sizeof smooth / sizeof *smooth)) {
            continue;
        }
        struct cluster_result exact;
        run_steps(smooth[m], "sampling = 1.0", &exact);
        double fed = steps_error(smooth[m], FEEDBACK "codec = 'int8'", &exact);
        double alone = steps_error(smooth[m], "codec = 'int8'", &exact);
        cr_expect_leq(3.0 * fed, alone, "%s: %g with feedback, %g without", smooth[m], fed, alone);
        cluster_release(&exact);
    }
}
