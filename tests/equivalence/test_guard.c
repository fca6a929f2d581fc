/* The accuracy guard: the same bits and back-offs however a job is run, and epochs that step by the exact gradient. */
#include "partition/graph/dataset.h"
#include "tests/equivalence/compare.h"
#include "tests/support/device/strict.h"
#include "tests/support/graphs/typed_folder.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { EPOCHS = SANITIZED ? 4 : 8 };

TestSuite(guard, .init = folder_make, .fini = folder_remove);

/* How a job is run; none of it may change a bit. */
struct way {
    int workers, threads;
    const char *schedule, *recompute;
    const struct device_ops *device; /* NULL: the cpu */
    long long limit;                 /* 0: all in memory */
};

static const struct way plain = {1, 1, "sequential", "never", NULL, 0};

static const char symmetric[] = "generator = \"sbm\"\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24";
static const char directed[] =
    "generator = \"rmat\"\nnodes = 512\ndegree = 6\nclasses = 4\nfeatures = 9\nundirected = \"no\"";

static const char *const models[] = {
    "kind = \"sage\"\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true",
    "kind = \"gcn\"\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = \"batch\"",
    "kind = \"sage\"\naggregator = \"max\"\nhidden = 16\nlayers = 3",
    "kind = \"gat\"\nheads = 2\nhidden = 8\nlayers = 3\ndropout = 0.5\nattention_dropout = 0.3",
    "kind = \"rgcn\"\nhidden = 16\ndropout = 0.3",
    "kind = \"gcn\"\nhidden = 16\nlayers = 3\nlabel_input = true",
};
enum { N_MODEL = sizeof models / sizeof *models };

static void run(const char *model, const char *data, const char *exchange, const struct way *way, int epochs,
                struct cluster_result *out)
{
    char text[2048], spill[128] = "";
    if (way->limit > 0) {
        snprintf(spill, sizeof spill, "limit = %lld\nspill = \"%s\"\n", way->limit,
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    }
    snprintf(text, sizeof text,
             "[dataset]\n%s\n[partition]\nparts = 4\nmethod = \"random\"\ncache = "
             "\"off\"\n[model]\n%s\n[train]\nepochs = %d\n"
             "prune = \"never\"\nlr = 0.01\n[exchange]\ncover = false\n%s\nschedule = \"%s\"\n[workers]\ncount = %d\n"
             "threads = %d\n[memory]\nrecompute = \"%s\"\n%s",
             data, model, epochs, exchange, way->schedule, way->workers, way->threads, way->recompute, spill);
    cluster_device = way->device;
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s, %s: %d workers: exit %d", model, exchange, way->workers, out->exit_code);
}

static void expect_equal(const char *model, const struct way *way, const struct cluster_result *first,
                         const struct cluster_result *other)
{
    compare_expect_same(first, other, "%s: %d workers", model, way->workers);
    if (way->limit == 0) {
        compare_expect_planned(other, "%s: %d workers", model, way->workers);
    }
}

static void expect_same_bits(const char *model, const char *data, const char *exchange, int64_t n_back_off_least)
{
    const struct device_ops *cpu = compare_narrow_cpu();
    struct way from = plain;
    from.device = cpu;
    const struct way ways[] = {{2, 1, "sequential", "always", cpu, 0},
                               {4, 2, "halo", "never", cpu, 0},
                               {3, 1, "sequential", "never", &device_strict, 0}};
    struct cluster_result first, other;
    run(model, data, exchange, &from, EPOCHS, &first);
    cr_expect_geq(first.n_back_off, n_back_off_least, "%s", model);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (ways_skip(w, sizeof ways / sizeof *ways)) {
            continue;
        }
        run(model, data, exchange, &ways[w], EPOCHS, &other);
        expect_equal(model, &ways[w], &first, &other);
        cluster_release(&other);
    }
    cluster_release(&first);
}

Test(guard, a_job_that_backs_off_is_the_same_however_it_is_run)
{
    for (int m = 0; m < N_MODEL; m++) {
        const char *data = m % 2 == 0 ? symmetric : directed;
        expect_same_bits(models[m], data,
                         "sampling = 0.3\ncodec = \"int4, int8@5\"\nguard_every = 2\nguard_limit = 0.01", 2);
        expect_same_bits(models[m], data,
                         "codec = \"int2\"\ncodec_backward = \"int8\"\nguard_every = 1\nguard_limit = 0.2", 0);
    }
}

/* Models without a maximum, which has no stale rows. */
static const int summing[] = {0, 1, 3, 5};

Test(guard, a_stale_job_is_the_same_however_it_is_run)
{
    for (int k = 0; k < 4; k++) {
        const char *data = k % 2 == 0 ? symmetric : directed;
        expect_same_bits(models[summing[k]], data, "stale = 1\nguard_every = 3\nguard_limit = 0.01", 1);
        expect_same_bits(models[summing[k]], data, "stale = 1\nguard_every = 2\nguard_limit = 1e6", 0);
    }
}

/* What an epoch reads has the codec of the one before, or none where that one compared. */
Test(guard, a_stale_job_with_codecs_is_the_same_however_it_is_run)
{
    for (int k = 0; k < 4; k++) {
        const char *data = k % 2 == 0 ? directed : symmetric;
        expect_same_bits(models[summing[k]], data,
                         "stale = 1\ncodec = \"int4, int8@2, bf16@5\"\nguard_every = 3\nguard_limit = 1e6", 0);
        expect_same_bits(models[summing[k]], data,
                         "stale = 1\ncodec = \"int4\"\ncodec_backward = \"int8\"\nguard_every = 1\nguard_limit = 0.0",
                         2);
    }
}

Test(guard, a_spilled_job_is_the_same_as_one_in_memory)
{
    static const char data[] = "generator = \"sbm\"\nnodes = 3000\ndegree = 8\nclasses = 5\nfeatures = 24";
    static const char exchange[] = "sampling = 0.3\ncodec = \"int4\"\nguard_every = 2\nguard_limit = 0.0";
    struct cluster_result first, planned, other;
    run(models[0], data, exchange, &plain, 4, &first);
    cr_expect_eq(first.n_back_off, 2);
    struct way way = plain;
    way.workers = 2;
    way.limit = 1 << 30;
    run(models[0], data, exchange, &way, 0, &planned);
    way.limit = planned.limit_least;
    run(models[0], data, exchange, &way, 4, &other);
    expect_equal(models[0], &way, &first, &other);
    cluster_release(&first);
    cluster_release(&planned);
    cluster_release(&other);
}

/* Gradients of embeddings lie with their parts: their sums go along the tree. */
Test(guard, embeddings_are_compared_too)
{
    static const char model[] = "kind = \"rgcn\"\nhidden = 16\ndropout = 0.3";
    char data[512];
    struct typed_folder what = {.n_node = 300, .n_edge = 2000, .n_part = 4};
    typed_folder_write(folder_path("own"), &what);
    what.is_explicit = true;
    typed_folder_write(folder_path("given"), &what);
    static const char exchange[] = "sampling = 0.3\nguard_every = 2\nguard_limit = 0.01";
    snprintf(data, sizeof data, "path = \"%s\"", folder_path("own"));
    expect_same_bits(model, data, exchange, 2);
    /* As where all workers have these weights, but for the order of the sums. */
    struct cluster_result own, given;
    run(model, data, exchange, &plain, EPOCHS, &own);
    snprintf(data, sizeof data, "path = \"%s\"", folder_path("given"));
    run(model, data, exchange, &plain, EPOCHS, &given);
    cr_assert(own.n_embedding > 0 && given.n_embedding == 0);
    for (int e = 0; e < EPOCHS; e++) {
        cr_expect_leq(fabs(own.error[e] - given.error[e]), 1e-9 * given.error[e], "epoch %d: %.12g, %.12g", e,
                      own.error[e], given.error[e]);
    }
    cluster_release(&own);
    cluster_release(&given);
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
        struct way two = plain;
        two.workers = 2;
        run(models[m], symmetric, "sampling = 1.0", &plain, 3, &exact);
        run(models[m], symmetric, "codec = \"int4\"\nguard_every = 1\nguard_limit = 1e6", &two, 3, &guarded);
        cr_expect_eq(guarded.n_back_off, 0);
        for (int e = 0; e < 3; e++) {
            cr_expect_gt(guarded.error[e], 0.0, "%s", models[m]);
            expect_near(models[m], "a loss", guarded.loss[e], exact.loss[e]);
        }
        double rows = exact.score[DATASET_SPLIT_TRAIN].n_row;
        expect_near(models[m], "the loss at the end", guarded.score[DATASET_SPLIT_TRAIN].loss / rows,
                    exact.score[DATASET_SPLIT_TRAIN].loss / rows);
        cluster_release(&guarded);
        run(models[m], symmetric, "sampling = 0.2\nguard_every = 1\nguard_limit = 1e6", &two, 3, &guarded);
        for (int e = 0; e < 3; e++) {
            expect_near(models[m], "a loss", guarded.loss[e], exact.loss[e]);
        }
        cluster_release(&guarded);
        cluster_release(&exact);
    }
}

/* What the epoch before left is compared, and not used; epoch 0 has none. */
Test(guard, stale_epochs_that_compare_step_by_the_exact_gradient)
{
    for (int k = 0; k < 4; k++) {
        const char *model = models[summing[k]];
        struct cluster_result exact, guarded;
        struct way two = plain;
        two.workers = 2;
        run(model, symmetric, "sampling = 1.0", &plain, 4, &exact);
        for (int backs_off = 0; backs_off < 2; backs_off++) {
            char exchange[128];
            snprintf(exchange, sizeof exchange, "stale = 1\nguard_every = 1\nguard_limit = %g",
                     backs_off ? 0.0 : 1e6);
            run(model, symmetric, exchange, &two, 4, &guarded);
            cr_expect_eq(guarded.n_back_off, backs_off);
            for (int e = 0; e < 4; e++) {
                cr_expect_eq(guarded.error[e] > 0.0, backs_off ? e == 1 : e > 0, "%s: epoch %d", model, e);
                expect_near(model, "a loss", guarded.loss[e], exact.loss[e]);
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
        run(models[m], directed, "sampling = 0.3\ncodec = \"int8\"", &plain, 4, &without);
        run(models[m], directed, "sampling = 0.3\ncodec = \"int8\"\nguard_every = 3", &plain, 4, &guarded);
        cr_expect_arr_eq(guarded.loss, without.loss, 2 * sizeof *without.loss, "%s", models[m]);
        cr_expect_neq(guarded.loss[2], without.loss[2], "%s", models[m]);
        cr_expect(guarded.error[1] == 0.0 && guarded.error[2] > 0.0 && guarded.error[3] == 0.0);
        cluster_release(&without);
        cluster_release(&guarded);
    }
}

/* All steps are exact, so both have the same weights in epoch 1, and the same errors of it. */
static void expect_same_error(double before, double after)
{
    struct cluster_result backed_off, begun;
    char exchange[256];
    snprintf(exchange, sizeof exchange, "sampling = %g\nguard_every = 1\nguard_limit = 0.0", before);
    run(models[0], directed, exchange, &plain, 2, &backed_off);
    snprintf(exchange, sizeof exchange, "sampling = %g\nguard_every = 1\nguard_limit = 1e6", after);
    run(models[0], directed, exchange, &plain, 2, &begun);
    cr_expect_gt(begun.error[1], 0.0);
    cr_expect_neq(backed_off.error[0], begun.error[0]);
    cr_expect_eq(backed_off.error[1], begun.error[1], "from %g to %g: %.17g, %.17g", before, after,
                 backed_off.error[1], begun.error[1]);
    cluster_release(&backed_off);
    cluster_release(&begun);
}

Test(guard, rows_are_drawn_as_in_a_job_that_begins_with_their_share)
{
    expect_same_error(0.1, 0.2);
    expect_same_error(0.0, 0.01);
}

/* Backed off for long enough, a job is exact, and has nothing to compare. */
Test(guard, back_offs_end_at_the_exact_job)
{
    struct cluster_result result;
    run(models[0], symmetric, "sampling = 0.3\ncodec = \"int8\"\nguard_every = 1\nguard_limit = 0.0", &plain, 5,
        &result);
    cr_expect_eq(result.n_back_off, 2);
    for (int e = 0; e < 5; e++) {
        cr_expect_eq(result.error[e] > 0.0, e < 2, "epoch %d: %g", e, result.error[e]);
    }
    cluster_release(&result);
}
