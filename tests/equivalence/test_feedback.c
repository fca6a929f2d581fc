/* Error feedback: the same bits however a job is run, residuals that epochs in fp32 and exact runs leave alone, and gradients that are nearer
 * to the exact ones over many epochs. */
#include "partition/graph/dataset.h"
#include "tests/equivalence/compare.h"
#include "tests/support/device/strict.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EPOCHS = SANITIZED ? 3 : 6 };

static const char symmetric[] = "generator = \"sbm\"\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24";
static const char directed[] =
    "generator = \"rmat\"\nnodes = 512\ndegree = 6\nclasses = 4\nfeatures = 9\nundirected = \"no\"";

/* How a job is run; none of it may change a bit. */
struct way {
    int workers, threads, prefetch;
    const char *schedule, *recompute;
    const struct device_ops *device; /* NULL: the cpu */
    const char *prune;
    long long limit; /* 0: all in memory */
};

static const struct way plain = {1, 1, 1, "sequential", "never", NULL, "never", 0};

/* What is trained, and how rows travel. */
struct what {
    const char *model, *data, *exchange;
    const char *train; /* NULL: by the optimiser that jobs have */
};

static void run(const struct what *what, const struct way *way, int epochs, struct cluster_result *out)
{
    char text[2048], spill[128] = "";
    if (way->limit > 0) {
        snprintf(spill, sizeof spill, "limit = %lld\nspill = \"%s\"\n", way->limit,
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    }
    snprintf(
        text, sizeof text,
        "[dataset]\n%s\n[partition]\nparts = 4\nmethod = \"random\"\ncache = \"off\"\n[model]\n%s\n[train]\nepochs = "
        "%d\n"
        "prune = \"%s\"\n%s\n[exchange]\n%s\nschedule = \"%s\"\nprefetch = %d\n[workers]\ncount = %d\nthreads = %d\n"
        "[memory]\nrecompute = \"%s\"\n%s",
        what->data, what->model, epochs, way->prune, what->train != NULL ? what->train : "lr = 0.01", what->exchange,
        way->schedule, way->prefetch, way->workers, way->threads, way->recompute, spill);
    cluster_device = way->device;
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s, %s: %d workers: exit %d", what->model, what->exchange, way->workers,
                 out->exit_code);
}

static void expect_equal(const struct what *what, const struct way *way, const struct cluster_result *first,
                         const struct cluster_result *other)
{
    char how[1024];
    snprintf(how, sizeof how, "%s: %s: workers %d, threads %d, prefetch %d, %s, recompute %s, prune %s, limit %lld%s",
             what->model, what->exchange, way->workers, way->threads, way->prefetch, way->schedule, way->recompute,
             way->prune, way->limit, way->device == &device_strict ? ", strict" : "");
    compare_expect_same(first, other, "%s", how);
    if (way->limit == 0) {
        compare_expect_planned(other, "%s", how);
    }
}

static void expect_same_bits_from(const struct what *what, const struct way *from, const struct way *ways, size_t n)
{
    struct cluster_result first;
    run(what, from, EPOCHS, &first);
    for (size_t w = 0; w < n; w++) {
        if (compare_skips(w, n, ways[w].device == &device_strict)) {
            continue;
        }
        struct cluster_result other;
        run(what, &ways[w], EPOCHS, &other);
        expect_equal(what, &ways[w], &first, &other);
        cluster_release(&other);
    }
    cluster_release(&first);
}

static const char *const models[] = {
    "kind = \"sage\"\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true",
    "kind = \"gcn\"\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = \"batch\"",
    "kind = \"gin\"\nhidden = 16\nlearn_eps = true\nlayers = 3",
    "kind = \"sage\"\naggregator = \"max\"\nhidden = 16\nlayers = 3",
    "kind = \"gat\"\nheads = 2\nhidden = 8\nlayers = 3\ndropout = 0.5\nattention_dropout = 0.3",
    "kind = \"gatv2\"\nheads = 2\nhidden = 7\nlayers = 3\nattention_dropout = 0.3",
    "kind = \"transformer\"\nheads = 2\nhidden = 8\nlayers = 2",
    "kind = \"agnn\"\nhidden = 16\nlayers = 3",
    "kind = \"rgcn\"\nhidden = 16\ndropout = 0.3",
    "kind = \"rgcn\"\nbases = 3\nhidden = 9\nlayers = 3",
};
enum { N_MODEL = sizeof models / sizeof *models };

#define FEEDBACK "error_feedback = true\n"
static const char *const coded[] = {
    FEEDBACK "codec = \"int8\"", FEEDBACK "codec = \"int2\"\ncodec_backward = \"int8\"",
    FEEDBACK "codec = \"bf16\"\ncodec_backward = \"fp32\"", FEEDBACK "codec = \"fp32\"\ncodec_backward = \"int4\"",
    FEEDBACK "codec = \"int4\""};
enum { N_CODED = sizeof coded / sizeof *coded };

Test(feedback, every_kind_is_the_same_however_it_is_run)
{
    const struct device_ops *cpu = compare_narrow_cpu();
    struct way first = plain;
    first.device = cpu;
    const struct way ways[] = {{1, 2, 1, "halo", "never", cpu, "never", 0},
                               {2, 2, 3, "sequential", "always", cpu, "never", 0},
                               {3, 1, 0, "sequential", "never", cpu, "never", 0},
                               {4, 1, 1, "halo", "always", cpu, "never", 0},
                               {1, 1, 1, "sequential", "always", &device_strict, "never", 0},
                               {3, 1, 0, "sequential", "never", &device_strict, "never", 0}};
    for (int m = 0; m < N_MODEL; m++) {
        const struct what what = {models[m], m % 2 == 0 ? symmetric : directed, coded[m % N_CODED], NULL};
        expect_same_bits_from(&what, &first, ways, sizeof ways / sizeof *ways);
    }
}

/* A row that is not drawn keeps its residual. */
Test(feedback, samples_are_the_same_however_they_are_run)
{
    static const struct way ways[] = {{2, 2, 0, "sequential", "always", NULL, "never", 0},
                                      {4, 1, 1, "halo", "never", NULL, "never", 0}};
    static const char *const shares[] = {"sampling = 0.4\n", "sampling = 0.2\n", "sampling = 0.0\n"};
    for (int m = 0; m < N_MODEL; m++) {
        char exchange[256];
        snprintf(exchange, sizeof exchange, "%s%s", shares[m % 3], coded[m % N_CODED]);
        const struct what what = {models[m], m % 2 == 0 ? directed : symmetric, exchange, NULL};
        expect_same_bits_from(&what, &plain, ways, 2);
    }
}

Test(feedback, codecs_that_change_and_a_guard_that_backs_off_are_the_same_however_they_are_run)
{
    static const char *const changing[] = {FEEDBACK "codec = \"int4, int8@2, fp32@3, int2@4\"",
                                           FEEDBACK "codec = \"fp32, int2@1\"\ncodec_backward = \"int8, fp32@2\"",
                                           FEEDBACK "codec = \"int2\"\nguard_every = 2\nguard_limit = 0.01",
                                           FEEDBACK
                                           "sampling = 0.3\ncodec = \"int4\"\nguard_every = 2\nguard_limit = 0.01"};
    static const struct way ways[] = {{2, 1, 3, "sequential", "always", NULL, "never", 0},
                                      {4, 2, 1, "halo", "never", NULL, "never", 0}};
    for (int m = 0; m < N_MODEL; m++) {
        const struct what what = {models[m], m % 2 == 0 ? symmetric : directed, changing[m % 4], NULL};
        expect_same_bits_from(&what, &plain, ways, 2);
    }
}

Test(feedback, a_pruned_job_is_the_same_however_it_is_run)
{
    static const char data[] =
        "generator = \"sbm\"\nnodes = 900\ndegree = 3\nclasses = 5\nfeatures = 24\ntrain_share = 0.01";
    static const char one_way[] = "generator = \"rmat\"\nnodes = 1024\ndegree = 3\nclasses = 4\nfeatures = 9\n"
                                  "undirected = \"no\"\ntrain_share = 0.01";
    struct way first = plain;
    first.prune = "always";
    const struct way ways[] = {{2, 1, 0, "sequential", "never", NULL, "always", 0},
                               {4, 1, 1, "halo", "always", NULL, "always", 0}};
    for (int m = 0; m < N_MODEL; m++) {
        char exchange[256];
        snprintf(exchange, sizeof exchange, "%s%s", m % 3 == 0 ? "sampling = 0.5\n" : "", coded[m % N_CODED]);
        const struct what what = {models[m], m % 2 == 0 ? data : one_way, exchange, NULL};
        expect_same_bits_from(&what, &first, ways, 2);
    }
}

/* Residuals lie in memory, also where rows do not. */
Test(feedback, a_spilled_job_is_the_same_as_one_in_memory)
{
    static const char data[] = "generator = \"sbm\"\nnodes = 1000\ndegree = 8\nclasses = 5\nfeatures = 24";
    for (int m = 0; m < N_MODEL; m++) {
        char exchange[256];
        snprintf(exchange, sizeof exchange, "%s%s", m % 2 == 0 ? "sampling = 0.5\n" : "", coded[m % N_CODED]);
        const struct what what = {models[m], data, exchange, NULL};
        struct cluster_result first, planned, other;
        struct way way = plain;
        run(&what, &plain, 3, &first);
        way.workers = 1 + m % 2;
        way.limit = 1 << 30;
        run(&what, &way, 0, &planned);
        way.limit = planned.limit_least;
        run(&what, &way, 3, &other);
        expect_equal(&what, &way, &first, &other);
        cr_expect_gt(other.measured[MEMORY_SPILL], 0, "%s", models[m]);
        cr_expect_leq(other.measured[MEMORY_SPILL], other.planned[MEMORY_SPILL], "%s", models[m]);
        cr_expect_eq(other.measured[MEMORY_PAYLOADS], other.planned[MEMORY_PAYLOADS], "%s", models[m]);
        cluster_release(&first);
        cluster_release(&planned);
        cluster_release(&other);
    }
}

Test(feedback, the_reference_device_gives_the_same_bits_on_one_worker_and_three)
{
    struct way first = plain, three = plain;
    first.device = three.device = &device_reference;
    three.workers = 3;
    for (int m = 0; m < N_MODEL; m++) {
        const struct what what = {models[m], symmetric, coded[m % N_CODED], NULL};
        expect_same_bits_from(&what, &first, &three, 1);
    }
}

/* --- what residuals are --- */

/* Weights stay what they are, so that losses differ by what payloads lose alone. */
#define STILL "lr = 0.0\noptimizer = \"sgd\""

/* Without dropout, whose masks are others in each epoch. */
static const char *const still[] = {
    "kind = \"sage\"\nhidden = 16\nlayers = 3", "kind = \"gcn\"\nhidden = 16\nlayers = 3",
    "kind = \"sage\"\naggregator = \"max\"\nhidden = 16\nlayers = 3",
    "kind = \"gat\"\nheads = 2\nhidden = 8\nlayers = 3", "kind = \"gatv2\"\nheads = 2\nhidden = 8\nlayers = 3"};
enum { N_STILL = sizeof still / sizeof *still };

static void losses(const char *model, const char *exchange, int epochs, double *out)
{
    const struct what what = {model, symmetric, exchange, STILL};
    struct cluster_result result;
    run(&what, &plain, epochs, &result);
    memcpy(out, result.loss, (size_t)epochs * sizeof *out);
    cluster_release(&result);
}

/* Epoch 0 has nothing to add; epoch 1 has. */
Test(feedback, what_the_first_epoch_lost_changes_the_second)
{
    for (int m = 0; m < N_STILL; m++) {
        double fed[2], alone[2];
        losses(still[m], FEEDBACK "codec = \"int2\"", 2, fed);
        losses(still[m], "codec = \"int2\"", 2, alone);
        cr_expect_eq(fed[0], alone[0], "%s", still[m]);
        cr_expect_neq(fed[1], alone[1], "%s", still[m]);
    }
}

Test(feedback, epochs_in_fp32_leave_nothing_to_add)
{
    for (int m = 0; m < N_STILL; m++) {
        double between[6], before[6], never[6];
        losses(still[m], FEEDBACK "codec = \"int2, fp32@2, int2@4\"", 6, between);
        losses(still[m], FEEDBACK "codec = \"fp32, int2@4\"", 6, before);
        losses(still[m], FEEDBACK "codec = \"int2\"", 6, never);
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
        losses(still[m], FEEDBACK "codec = \"int2\"\nguard_every = 2\nguard_limit = 1e6", 6, guarded);
        losses(still[m], FEEDBACK "codec = \"int2\"", 6, without);
        for (int e = 0; e < 6; e++) {
            cr_expect_eq(guarded[e] == without[e], e % 2 == 0, "%s: epoch %d: %.9g, %.9g", still[m], e, guarded[e],
                         without[e]);
        }
    }
}

/* How far the steps of many epochs lie from exact ones, of which each is next to nothing, over their length. */
static double steps_error(const char *model, const char *exchange, const struct cluster_result *begin,
                          const struct cluster_result *exact)
{
    const struct what what = {model, symmetric, exchange, "lr = 1e-2\noptimizer = \"sgd\""};
    struct cluster_result result;
    double error = 0.0, length = 0.0;
    run(&what, &plain, 60, &result);
    for (int64_t i = 0; i < exact->n_weight; i++) {
        error += pow((double)result.weights[i] - (double)exact->weights[i], 2.0);
        length += pow((double)exact->weights[i] - (double)begin->weights[i], 2.0);
    }
    cluster_release(&result);
    return sqrt(error / length);
}

/* Errors of single epochs cancel out, to first order: where nothing has a kink, sums of gradients are nearer to exact ones. */
Test(feedback, gradients_of_many_epochs_are_nearer_to_exact_ones)
{
    static const char *const smooth[] = {
        "kind = \"sage\"\nhidden = 16\nlayers = 3\nactivation = \"gelu\"",
        "kind = \"gcn\"\nhidden = 16\nlayers = 3\nactivation = \"gelu\"",
        "kind = \"transformer\"\nheads = 2\nhidden = 16\nlayers = 2\nactivation = \"gelu\"",
        "kind = \"agnn\"\nhidden = 16\nlayers = 3\nactivation = \"gelu\""};
    for (size_t m = 0; m < sizeof smooth / sizeof *smooth; m++) {
        if (ways_skip(m, sizeof smooth / sizeof *smooth)) {
            continue;
        }
        const struct what what = {smooth[m], symmetric, "sampling = 1.0", "lr = 1e-2\noptimizer = \"sgd\""};
        struct cluster_result begin, exact;
        run(&what, &plain, 0, &begin);
        run(&what, &plain, 60, &exact);
        double fed = steps_error(smooth[m], FEEDBACK "codec = \"int8\"", &begin, &exact);
        double alone = steps_error(smooth[m], "codec = \"int8\"", &begin, &exact);
        cr_expect_leq(3.0 * fed, alone, "%s: %g with feedback, %g without", smooth[m], fed, alone);
        cluster_release(&begin);
        cluster_release(&exact);
    }
}
