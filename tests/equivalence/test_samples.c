/* Samples in which rows, or pairs of parts, have a chance of their own. By their edges (exchange.sampling_weights): the same bits however a
 * job is run. Parts that share a machine (exchange.sampling_local): bits depend on which parts share one, and on nothing else.
 */
#include "tests/equivalence/compare.h"
#include "tests/support/device/strict.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { EPOCHS = SANITIZED ? 3 : 6 };

static const char symmetric[] = "generator = \"sbm\"\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24";
static const char directed[] =
    "generator = \"rmat\"\nnodes = 512\ndegree = 6\nclasses = 4\nfeatures = 9\nundirected = \"no\"";

static const char *const models[] = {
    "kind = \"sage\"\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true",
    "kind = \"gcn\"\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = \"batch\"",
    "kind = \"sage\"\naggregator = \"max\"\nhidden = 16\nlayers = 3",
    "kind = \"gat\"\nheads = 2\nhidden = 8\nlayers = 3\ndropout = 0.5\nattention_dropout = 0.3",
    "kind = \"transformer\"\nheads = 2\nhidden = 8\nlayers = 2",
    "kind = \"rgcn\"\nbases = 3\nhidden = 9\nlayers = 3",
};
enum { N_MODEL = sizeof models / sizeof *models };

/* How a job of four parts is run: part p on worker p mod workers, and these on machines. */
struct way {
    int workers, threads, prefetch;
    const char *schedule, *recompute;
    const uint32_t *machines; /* NULL: one */
    const struct device_ops *device;
    const char *prune;
    long long limit; /* 0: all in memory */
};

/* Parts 0 and 2, and 1 and 3, share a machine. */
static const uint32_t two[] = {0, 1}, four_on_two[] = {0, 1, 0, 1}, apart[] = {0, 1, 2, 3};
static const struct way plain = {2, 1, 1, "sequential", "never", two, NULL, "never", 0};

static void run(const char *model, const char *data, const char *exchange, const struct way *way, int epochs,
                struct cluster_result *out)
{
    char text[2048], spill[128] = "";
    if (way->limit > 0) {
        snprintf(spill, sizeof spill, "limit = %lld\nspill = \"%s\"\n", way->limit,
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    }
    snprintf(text, sizeof text,
             "[dataset]\n%s\n[partition]\nparts = 4\nmethod = \"random\"\ncache = \"off\"\n[model]\n%s\n[train]\n"
             "epochs = %d\nprune = \"%s\"\nlr = 0.01\n[exchange]\ncover = false\n%s\nschedule = \"%s\"\nprefetch = "
             "%d\n[workers]\n"
             "count = %d\nthreads = %d\n[memory]\nrecompute = \"%s\"\n%s",
             data, model, epochs, way->prune, exchange, way->schedule, way->prefetch, way->workers, way->threads,
             way->recompute, spill);
    cluster_device = way->device;
    cluster_machines = way->machines;
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s: exit %d", text, out->exit_code);
}

static void expect_equal(const char *model, const struct way *way, const struct cluster_result *first,
                         const struct cluster_result *other)
{
    compare_expect_same(first, other, "%s: %d workers", model, way->workers);
    if (way->limit == 0) {
        compare_expect_planned(other, "%s: %d workers", model, way->workers);
    }
}

static void expect_same(const char *model, const char *data, const char *exchange, const char *other_exchange,
                        const struct way *first, const struct way *ways, size_t n)
{
    struct cluster_result want;
    run(model, data, exchange, first, EPOCHS, &want);
    for (size_t w = 0; w < n; w++) {
        if (ways_skip(w, n)) {
            continue;
        }
        struct cluster_result got;
        run(model, data, other_exchange, &ways[w], EPOCHS, &got);
        expect_equal(model, &ways[w], &want, &got);
        cluster_release(&got);
    }
    cluster_release(&want);
}

Test(samples, parts_that_share_one_give_the_same_bits_however_they_are_run)
{
    static const char *const exchanges[] = {"sampling = 0.2\nsampling_local = 0.6",
                                            "sampling = 0.0\nsampling_local = 1.0",
                                            "sampling = 0.3\nsampling_local = 1.0\ncodec = \"int8\""};
    const struct device_ops *cpu = compare_narrow_cpu();
    struct way first = plain;
    first.device = cpu;
    const struct way ways[] = {{2, 2, 0, "halo", "always", two, cpu, "never", 0},
                               {4, 1, 1, "halo", "never", four_on_two, cpu, "never", 0},
                               {4, 1, 3, "sequential", "always", four_on_two, cpu, "never", 0},
                               {4, 1, 1, "sequential", "never", four_on_two, &device_strict, "never", 0}};
    for (int m = 0; m < N_MODEL; m++) {
        const char *data = m % 2 == 0 ? symmetric : directed;
        expect_same(models[m], data, exchanges[m % 3], exchanges[m % 3], &first, ways, sizeof ways / sizeof *ways);
    }
}

Test(samples, pruned_parts_that_share_one_give_the_same_bits)
{
    static const char data[] =
        "generator = \"sbm\"\nnodes = 900\ndegree = 3\nclasses = 5\nfeatures = 24\ntrain_share = 0.01";
    static const char *const exchanges[] = {"sampling = 0.2\nsampling_local = 0.6",
                                            "sampling = 0.2\nsampling_local = 1.0"};
    struct way first = plain;
    first.prune = "always";
    const struct way ways[] = {{4, 1, 0, "halo", "never", four_on_two, NULL, "always", 0}};
    for (int m = 0; m < N_MODEL; m++) {
        expect_same(models[m], data, exchanges[0], exchanges[0], &first, ways, 1);
        expect_same(models[m], data, exchanges[1], exchanges[1], &first, ways, 1);
    }
}

static void expect_same_spilled(const char *model, const char *data, const char *exchange)
{
    struct cluster_result want, planned, got;
    struct way way = plain;
    run(model, data, exchange, &way, 2, &want);
    way.limit = 1 << 30;
    run(model, data, exchange, &way, 0, &planned);
    way.limit = planned.limit_least;
    run(model, data, exchange, &way, 2, &got);
    expect_equal(model, &way, &want, &got);
    cr_expect_leq(got.measured[MEMORY_SPILL], got.planned[MEMORY_SPILL], "%s", model);
    cluster_release(&got);
    cluster_release(&planned);
    cluster_release(&want);
}

Test(samples, spilled_parts_that_share_one_give_the_same_bits)
{
    static const char data[] = "generator = \"sbm\"\nnodes = 3000\ndegree = 8\nclasses = 5\nfeatures = 24";
    for (int m = 0; m < N_MODEL; m++) {
        expect_same_spilled(models[m], data, "sampling = 0.2\nsampling_local = 0.6");
    }
}

/* On one machine the one share counts alone, on machines of their own the other one, but for parts of one worker. */
Test(samples, each_pair_has_the_share_of_its_kind)
{
    const struct way alike[] = {{1, 1, 1, "sequential", "never", NULL, NULL, "never", 0},
                                {4, 1, 1, "sequential", "never", NULL, NULL, "never", 0}};
    const struct way four[] = {{4, 1, 1, "sequential", "never", apart, NULL, "never", 0}};
    for (int m = 0; m < N_MODEL; m++) {
        const char *data = m % 2 == 0 ? symmetric : directed;
        expect_same(models[m], data, "sampling = 0.3", "sampling = 0.7\nsampling_local = 0.3", &alike[0], alike, 2);
        expect_same(models[m], data, "sampling = 0.3", "sampling = 0.3\nsampling_local = 0.7", &four[0], four, 1);
    }
}

/* All rows of one machine's pairs travel: with all parts on one, the loss is the exact one within rounding. */
Test(samples, a_share_of_one_is_exact)
{
    const struct way way = {2, 1, 1, "sequential", "never", NULL, NULL, "never", 0};
    for (int m = 0; m < N_MODEL; m++) {
        struct cluster_result exact, local;
        run(models[m], symmetric, "sampling = 1.0", &way, 2, &exact);
        run(models[m], symmetric, "sampling = 0.0\nsampling_local = 1.0", &way, 2, &local);
        for (int e = 0; e < 2; e++) {
            cr_expect_leq(fabs(local.loss[e] - exact.loss[e]), TOLERANCE_LOSS * exact.loss[e],
                          "%s: epoch %d: %.9g, exact %.9g", models[m], e, local.loss[e], exact.loss[e]);
        }
        cluster_release(&local);
        cluster_release(&exact);
    }
}

/* --- by edges --- */

static const char *const sums[] = {
    "kind = \"sage\"\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true",
    "kind = \"gcn\"\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = \"batch\"",
    "kind = \"gin\"\nhidden = 16\nlearn_eps = true\nlayers = 3",
};
enum { N_SUM = sizeof sums / sizeof *sums };
static const char edges[] = "sampling = 0.2\nsampling_weights = \"edges\"";
static const char edges_coded[] = "sampling = 0.2\nsampling_weights = \"edges\"\ncodec = \"int8\"";

Test(samples, rows_drawn_by_their_edges_give_the_same_bits_however_a_job_is_run)
{
    const struct device_ops *cpu = compare_narrow_cpu();
    const struct way first = {1, 1, 1, "sequential", "never", NULL, cpu, "never", 0};
    const struct way ways[] = {{1, 2, 1, "halo", "never", NULL, cpu, "never", 0},
                               {2, 1, 0, "sequential", "always", NULL, cpu, "never", 0},
                               {3, 2, 3, "sequential", "never", apart, cpu, "never", 0},
                               {4, 1, 1, "halo", "always", NULL, cpu, "never", 0},
                               {1, 1, 1, "sequential", "never", NULL, &device_strict, "never", 0},
                               {4, 1, 1, "halo", "never", NULL, &device_strict, "never", 0}};
    for (int m = 0; m < N_SUM; m++) {
        expect_same(sums[m], symmetric, edges, edges, &first, ways, sizeof ways / sizeof *ways);
        expect_same(sums[m], directed, edges_coded, edges_coded, &first, ways, sizeof ways / sizeof *ways);
    }
}

Test(samples, pruned_rows_drawn_by_their_edges_give_the_same_bits)
{
    static const char data[] = "generator = \"rmat\"\nnodes = 1024\ndegree = 3\nclasses = 4\nfeatures = 9\n"
                               "undirected = \"no\"\ntrain_share = 0.01";
    const struct way first = {1, 1, 1, "sequential", "never", NULL, NULL, "always", 0};
    const struct way ways[] = {{2, 1, 0, "sequential", "never", NULL, NULL, "always", 0},
                               {4, 1, 1, "halo", "always", NULL, NULL, "always", 0}};
    for (int m = 0; m < N_SUM; m++) {
        expect_same(sums[m], data, edges, edges, &first, ways, 2);
    }
}

Test(samples, spilled_rows_drawn_by_their_edges_give_the_same_bits)
{
    static const char data[] = "generator = \"sbm\"\nnodes = 3000\ndegree = 8\nclasses = 5\nfeatures = 24";
    for (int m = 0; m < N_SUM; m++) {
        expect_same_spilled(sums[m], data, m == 1 ? edges_coded : edges);
    }
}

/* Chances of one machine's pairs and of rows together; rows of a share of 1 have none of their own. */
Test(samples, rows_drawn_by_their_edges_may_share_a_machine)
{
    static const char both[] = "sampling = 0.2\nsampling_local = 0.5\nsampling_weights = \"edges\"",
                      exact[] = "sampling = 0.2\nsampling_local = 1.0\nsampling_weights = \"edges\"";
    const struct way ways[] = {{4, 1, 1, "halo", "never", four_on_two, NULL, "never", 0}};
    for (int m = 0; m < N_SUM; m++) {
        expect_same(sums[m], directed, both, both, &plain, ways, 1);
        expect_same(sums[m], symmetric, exact, exact, &plain, ways, 1);
    }
}

Test(samples, rows_drawn_by_their_edges_give_the_same_bits_on_the_reference_device)
{
    const struct way first = {1, 1, 1, "sequential", "never", NULL, &device_reference, "never", 0};
    const struct way three = {3, 1, 1, "sequential", "never", NULL, &device_reference, "never", 0};
    for (int m = 0; m < N_SUM; m++) {
        expect_same(sums[m], directed, edges_coded, edges_coded, &first, &three, 1);
    }
}
