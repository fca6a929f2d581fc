/* The accuracy guard: epochs that step by the exact gradient, and back-offs. */
#include "tests/equivalence/compare.h"
#include "tests/equivalence/data.h"
#include "tests/support/process/folder.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

TestSuite(guard, .init = folder_make, .fini = folder_remove);

/* The last has a maximum, which has no stale rows. */
static const char *const models[] = {
    "kind = 'sage'\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true",
    "kind = 'gcn'\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = 'batch'",
    "kind = 'gat'\nheads = 2\nhidden = 8\nlayers = 3\ndropout = 0.5\nattention_dropout = 0.3",
    "kind = 'gcn'\nhidden = 16\nlayers = 3\nlabel_input = true",
    "kind = 'rgcn'\nhidden = 16\ndropout = 0.3",
    "kind = 'sage'\naggregator = 'max'\nhidden = 16\nlayers = 3",
};
enum { N_MODEL = sizeof models / sizeof *models, N_STALE = N_MODEL - 1 };

static void run(const char *model, const char *data, const char *exchange, int workers, int epochs,
                struct cluster_result *out)
{
    char lines[256];
    snprintf(lines, sizeof lines, "cover = false\n%s", exchange);
    const struct task task = {
        .data = data, .model = model, .exchange = lines, .train = "prune = 'never'\nlr = 0.01", .epochs = epochs};
    const struct way way = {.workers = workers, .prefetch = 1, .device = &device_cpu};
    compare_run(&task, &way, out);
}

static void expect_near(const char *model, const char *what, double got, double want)
{
    cr_expect_leq(fabs(got - want), TOLERANCE_LOSS * fabs(want), "%s: %s is %.9g, expected %.9g", model, what, got,
                  want);
}

/* With a limit that nothing exceeds, compared in every epoch: the exact job, its running statistics included. */
Test(guard, epochs_that_compare_step_by_the_exact_gradient)
{
    for (int m = 0; m < N_MODEL; m++) {
        struct cluster_result exact, guarded;
        run(models[m], data_graphs[0], "sampling = 1.0", 1, 3, &exact);
        for (int sampled = 0; sampled < 2; sampled++) {
            run(models[m], data_graphs[0],
                sampled ? "sampling = 0.2\nguard_every = 1\nguard_limit = 1e6"
                        : "codec = 'int4'\nguard_every = 1\nguard_limit = 1e6",
                2, 3, &guarded);
            cr_expect_eq(guarded.n_back_off, 0);
            for (int e = 0; e < 3; e++) {
                cr_expect_gt(guarded.error[e], 0.0, "%s", models[m]);
                expect_near(models[m], "a loss", guarded.loss[e], exact.loss[e]);
            }
            double rows = exact.score[DATASET_SPLIT_TRAIN].n_row;
            if (!sampled) {
                expect_near(models[m], "the loss at the end", guarded.score[DATASET_SPLIT_TRAIN].loss / rows,
                            exact.score[DATASET_SPLIT_TRAIN].loss / rows);
            }
            cluster_release(&guarded);
        }
        cluster_release(&exact);
    }
}

/* What the epoch before left is compared, and not used; epoch 0 has nothing to compare. */
Test(guard, stale_epochs_that_compare_step_by_the_exact_gradient)
{
    for (int m = 0; m < N_STALE; m++) {
        struct cluster_result exact, guarded;
        run(models[m], data_graphs[0], "sampling = 1.0", 1, 4, &exact);
        for (int backs_off = 0; backs_off < 2; backs_off++) {
            run(models[m], data_graphs[0],
                backs_off ? "stale = 1\nguard_every = 1\nguard_limit = 0.0"
                          : "stale = 1\nguard_every = 1\nguard_limit = 1e6",
                2, 4, &guarded);
            cr_expect_eq(guarded.n_back_off, backs_off);
            for (int e = 0; e < 4; e++) {
                cr_expect_eq(guarded.error[e] > 0.0, backs_off ? e == 1 : e > 0, "%s: epoch %d", models[m], e);
                expect_near(models[m], "a loss", guarded.loss[e], exact.loss[e]);
            }
            cluster_release(&guarded);
        }
        cluster_release(&exact);
    }
}

/* Epochs before the first that compares are those of the job without a guard. */
Test(guard, other_epochs_are_as_without)
{
    for (int m = 0; m < N_MODEL; m++) {
        struct cluster_result without, guarded;
        run(models[m], data_graphs[1], "sampling = 0.3\ncodec = 'int8'", 1, 4, &without);
        run(models[m], data_graphs[1], "sampling = 0.3\ncodec = 'int8'\nguard_every = 3", 1, 4, &guarded);
        cr_expect_arr_eq(guarded.loss, without.loss, 2 * sizeof *without.loss, "%s", models[m]);
        cr_expect_neq(guarded.loss[2], without.loss[2], "%s", models[m]);
        cr_expect(guarded.error[1] == 0.0 && guarded.error[2] > 0.0 && guarded.error[3] == 0.0);
        cluster_release(&without);
        cluster_release(&guarded);
    }
}

/* All steps are exact, so both have the same weights in epoch 1, and the same errors of it. */
Test(guard, rows_are_drawn_as_in_a_job_that_begins_with_their_share)
{
    static const char *const pairs[2][2] = {
        {"sampling = 0.1\nguard_every = 1\nguard_limit = 0.0", "sampling = 0.2\nguard_every = 1\nguard_limit = 1e6"},
        {"sampling = 0.0\nguard_every = 1\nguard_limit = 0.0",
         "sampling = 0.01\nguard_every = 1\nguard_limit = 1e6"}};
    for (int i = 0; i < 2; i++) {
        struct cluster_result backed_off, begun;
        run(models[0], data_graphs[1], pairs[i][0], 1, 2, &backed_off);
        run(models[0], data_graphs[1], pairs[i][1], 1, 2, &begun);
        cr_expect_gt(begun.error[1], 0.0);
        cr_expect_neq(backed_off.error[0], begun.error[0]);
        cr_expect_eq(backed_off.error[1], begun.error[1], "%s: %.17g, %.17g", pairs[i][0], backed_off.error[1],
                     begun.error[1]);
        cluster_release(&backed_off);
        cluster_release(&begun);
    }
}

/* Backed off for long enough, a job is exact, and has nothing to compare. */
Test(guard, back_offs_end_at_the_exact_job)
{
    struct cluster_result result;
    run(models[0], data_graphs[0], "sampling = 0.3\ncodec = 'int8'\nguard_every = 1\nguard_limit = 0.0", 1, 5,
        &result);
    cr_expect_eq(result.n_back_off, 2);
    for (int e = 0; e < 5; e++) {
        cr_expect_eq(result.error[e] > 0.0, e < 2, "epoch %d: %g", e, result.error[e]);
    }
    cluster_release(&result);
}

/* Gradients of embeddings lie with their parts: their sums go along the tree, in another order than where all workers have these weights. */
Test(guard, embeddings_are_compared_too)
{
    static const char model[] = "kind = 'rgcn'\nhidden = 16\ndropout = 0.3",
                      exchange[] = "sampling = 0.3\nguard_every = 2\nguard_limit = 0.01";
    struct cluster_result own, given;
    run(model, data_typed("own", 0, 4, false, false), exchange, 1, COMPARE_EPOCHS, &own);
    run(model, data_typed("given", 0, 4, false, true), exchange, 1, COMPARE_EPOCHS, &given);
    cr_assert(own.n_embedding > 0 && given.n_embedding == 0);
    for (int e = 0; e < COMPARE_EPOCHS; e++) {
        cr_expect_leq(fabs(own.error[e] - given.error[e]), 1e-9 * given.error[e], "epoch %d: %.12g, %.12g", e,
                      own.error[e], given.error[e]);
    }
    cr_expect_gt(own.n_back_off, 0);
    cluster_release(&own);
    cluster_release(&given);
}
