/* Rows and gradients of the epoch before: the same bits however a job is run, epoch 0 exact, and no more bytes than rows and gradients once. */
#include "tests/equivalence/cluster.h"
#include "tests/support/device/strict.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCHS = SANITIZED ? 3 : 6 };

static const char symmetric[] = "generator = \"sbm\"\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24";
static const char directed[] = "generator = \"rmat\"\nnodes = 512\ndegree = 6\nclasses = 4\nfeatures = 9\nundirected = \"no\"";

/* How a job is run; none of it may change a bit. */
struct way {
    int workers, threads, prefetch;
    const char *schedule, *recompute;
    const struct device_ops *device; /* NULL: the cpu */
    const char *prune;
};

/* What it keeps; all of it changes bits. */
struct keeping {
    int stale;
    double smoothing;
    const char *codec;
};

static const struct keeping kept = {1, 0.0, "fp32"}, exact = {0, 0.0, "fp32"};
static const struct way plain = {1, 1, 1, "sequential", "never", NULL, "never"};

static void run(const char *model, const char *data, const struct keeping *keeping, const struct way *way, int epochs,
                struct cluster_result *out)
{
    char text[2048];
    snprintf(text, sizeof text,
             "[dataset]\n%s\n[partition]\nparts = 4\nmethod = \"random\"\ncache = \"off\"\n[model]\n%s\n[train]\nepochs = %d\n"
             "lr = 0.01\nprune = \"%s\"\n[exchange]\ncover = false\nstale = %d\nstale_smoothing = %.17g\ncodec = \"%s\"\n"
             "schedule = \"%s\"\nprefetch = %d\n[workers]\ncount = %d\nthreads = %d\n[memory]\nrecompute = \"%s\"\n",
             data, model, epochs, way->prune, keeping->stale, keeping->smoothing, keeping->codec, way->schedule, way->prefetch,
             way->workers, way->threads, way->recompute);
    cluster_device = way->device;
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s: workers %d threads %d prefetch %d %s: exit %d", model, way->workers, way->threads,
                 way->prefetch, way->schedule, out->exit_code);
}

static void expect_equal(const char *model, const struct keeping *keeping, const struct way *way,
                         const struct cluster_result *first, const struct cluster_result *other)
{
    char how[512];
    snprintf(how, sizeof how, "%s: smoothing %g, %s, workers %d, threads %d, prefetch %d, %s, recompute %s, prune %s%s", model,
             keeping->smoothing, keeping->codec, way->workers, way->threads, way->prefetch, way->schedule, way->recompute,
             way->prune, way->device == &device_strict ? ", strict" : "");
    cr_assert_eq(other->n_weight, first->n_weight);
    cr_expect_arr_eq(other->weights, first->weights, (size_t)first->n_weight * sizeof(float), "weights: %s", how);
    cr_expect_arr_eq(other->logits, first->logits, (size_t)first->n_logit * sizeof(float), "logits: %s", how);
    cr_expect_arr_eq(other->loss, first->loss, sizeof first->loss, "losses: %s", how);
    cr_expect_arr_eq(other->score, first->score, sizeof first->score, "scores: %s", how);
    for (int c = MEMORY_PARAMETERS; c <= MEMORY_PAYLOADS; c++) {
        cr_expect_eq(other->measured[c], other->planned[c], "%s: %s: %ld bytes measured, %ld planned",
                     memory_category_name((enum memory_category)c), how, (long)other->measured[c], (long)other->planned[c]);
    }
    cr_expect_eq(other->n_call, 0, "%s: %ld allocations in epochs", how, (long)other->n_call);
}

static void expect_same_bits_from(const char *model, const char *data, const struct keeping *keeping, const struct way *from,
                                  const struct way *ways, size_t n)
{
    struct cluster_result first;
    run(model, data, keeping, from, EPOCHS, &first);
    for (size_t w = 0; w < n; w++) {
        struct cluster_result other;
        run(model, data, keeping, &ways[w], EPOCHS, &other);
        expect_equal(model, keeping, &ways[w], &first, &other);
        cluster_release(&other);
    }
    cluster_release(&first);
}

/* With the cache of the strict device, so that windows, and sums over them, are the same. */
static const struct device_ops *narrow_cpu(void)
{
    static struct device_ops narrow;
    narrow = device_cpu;
    narrow.n_window_float = device_strict.n_window_float;
    return &narrow;
}

static void expect_same_bits(const char *model, const char *data, const struct keeping *keeping)
{
    const struct device_ops *cpu = narrow_cpu();
    struct way first = plain;
    first.device = cpu;
    const struct way ways[] = {{1, 2, 1, "halo", "never", cpu, "never"},
                               {2, 1, 0, "sequential", "never", cpu, "never"},
                               {2, 2, 3, "sequential", "always", cpu, "never"},
                               {4, 1, 1, "halo", "always", cpu, "never"},
                               {3, 1, 1, "sequential", "never", cpu, "never"},
                               {1, 1, 1, "sequential", "never", &device_strict, "never"},
                               {3, 1, 0, "sequential", "never", &device_strict, "never"},
                               {4, 1, 1, "halo", "always", &device_strict, "never"}};
    expect_same_bits_from(model, data, keeping, &first, ways, sizeof ways / sizeof *ways);
}

static const char *const models[] = {
    "kind = \"sage\"\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true",
    "kind = \"gcn\"\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = \"batch\"",
    "kind = \"gin\"\nhidden = 16\nlearn_eps = true\nlayers = 3",
    "kind = \"sage\"\nhidden = 16\nlayers = 2\ninput_dropout = 0.3",
    "kind = \"gat\"\nheads = 2\nhidden = 8\nlayers = 3\ndropout = 0.5\nattention_dropout = 0.3",
    "kind = \"gatv2\"\nheads = 2\nhidden = 7\nlayers = 3\nattention_dropout = 0.3",
    "kind = \"transformer\"\nheads = 2\nhidden = 8\nlayers = 2",
    "kind = \"agnn\"\nhidden = 16\nlayers = 3",
    "kind = \"rgcn\"\nhidden = 16\ndropout = 0.3",
    "kind = \"rgcn\"\nbases = 3\nhidden = 9\nlayers = 3",
    "kind = \"appnp\"\nhidden = 12\nsteps = 3",
};
enum { N_MODEL = sizeof models / sizeof *models };

Test(stale, every_kind_is_the_same_however_it_is_run)
{
    for (int m = 0; m < N_MODEL; m++) {
        expect_same_bits(models[m], m % 2 == 0 ? symmetric : directed, &kept);
    }
}

/* What is kept is what travelled: with a codec that is coded rows, of which attention makes gradients, and averages are of decoded ones. */
Test(stale, every_kind_is_the_same_with_a_codec_and_a_moving_average)
{
    static const char *const codecs[] = {"fp32", "int8", "int4", "bf16"};
    static const struct way ways[] = {{2, 2, 0, "sequential", "always", NULL, "never"},
                                      {4, 1, 1, "halo", "never", NULL, "never"}};
    for (int m = 0; m < N_MODEL; m++) {
        const struct keeping smoothed = {1, 0.9, codecs[m % 4]};
        expect_same_bits_from(models[m], m % 2 == 0 ? directed : symmetric, &smoothed, &plain, ways, 2);
    }
}

Test(stale, a_pruned_job_is_the_same_however_it_is_run)
{
    static const char data[] = "generator = \"sbm\"\nnodes = 900\ndegree = 3\nclasses = 5\nfeatures = 24\ntrain_share = 0.01";
    static const char one_way[] = "generator = \"rmat\"\nnodes = 1024\ndegree = 3\nclasses = 4\nfeatures = 9\n"
                                  "undirected = \"no\"\ntrain_share = 0.01";
    struct way first = plain;
    first.prune = "always";
    const struct way ways[] = {{2, 1, 0, "sequential", "never", NULL, "always"}, {4, 1, 1, "halo", "always", NULL, "always"}};
    const struct keeping smoothed = {1, 0.5, "fp32"};
    for (int m = 0; m < N_MODEL; m++) {
        expect_same_bits_from(models[m], m % 2 == 0 ? data : one_way, m % 3 == 0 ? &smoothed : &kept, &first, ways, 2);
    }
}

Test(stale, the_reference_device_gives_the_same_bits_on_one_worker_and_three)
{
    struct way first = plain, three = plain;
    first.device = three.device = &device_reference;
    three.workers = 3;
    for (int m = 0; m < N_MODEL; m++) {
        expect_same_bits_from(models[m], symmetric, &kept, &first, &three, 1);
    }
}

static void expect_near(const char *model, const struct cluster_result *found, const struct cluster_result *expected)
{
    double apart = 0.0, most = 0.0;
    for (int64_t i = 0; i < expected->n_logit; i++) {
        apart = fmax(apart, fabs((double)found->logits[i] - (double)expected->logits[i]));
        most = fmax(most, fabs((double)expected->logits[i]));
    }
    cr_expect_leq(apart, 1e-3 * most, "%s: logits after epoch 0 are %g apart, of %g", model, apart, most);
}

/* Epoch 0 makes the step that an exact one makes: so the loss of epoch 1, whose rows are stale, is another, and what epoch 0 leaves is the
 * same within rounding. */
Test(stale, epoch_0_is_exact)
{
    for (int m = 0; m < N_MODEL; m++) {
        struct cluster_result one[2], two[2];
        for (int stale = 0; stale < 2; stale++) {
            const struct keeping keeping = {stale, 0.9, "fp32"};
            run(models[m], symmetric, &keeping, &plain, 1, &one[stale]);
            run(models[m], symmetric, &keeping, &plain, 3, &two[stale]);
        }
        cr_expect_leq(fabs(one[1].loss[0] - one[0].loss[0]), TOLERANCE_LOSS * one[0].loss[0], "%s", models[m]);
        if (strstr(models[m], "norm") == NULL) { /* with batch norm an exact job evaluates by running statistics */
            expect_near(models[m], &one[1], &one[0]);
        }
        cr_expect_neq(two[1].loss[2], two[0].loss[2], "%s: nothing is stale", models[m]);
        for (int stale = 0; stale < 2; stale++) {
            cluster_release(&one[stale]);
            cluster_release(&two[stale]);
        }
    }
}

static double payload_sent(const char *model, const struct keeping *keeping)
{
    struct cluster_result result;
    struct way way = plain;
    way.workers = 4;
    run(model, symmetric, keeping, &way, EPOCHS, &result);
    double n = (double)result.payload_sent;
    cluster_release(&result);
    return n;
}

/* Attention's rows come once, as nothing asks for them again, and their gradients return; with two numbers per head more each way. */
Test(stale, bytes_are_those_of_rows_once_and_gradients_once)
{
    double sum = payload_sent("kind = \"gcn\"\nhidden = 64\nlayers = 3", &kept);
    double of_exact = payload_sent("kind = \"gcn\"\nhidden = 64\nlayers = 3", &exact);
    cr_expect_leq(fabs(sum / of_exact - 1.0), 1e-3, "%.4f of the bytes", sum / of_exact);
    double gat = payload_sent("kind = \"gat\"\nheads = 4\nhidden = 16\nlayers = 3", &kept);
    of_exact = payload_sent("kind = \"gat\"\nheads = 4\nhidden = 16\nlayers = 3", &exact);
    cr_expect_leq(gat, of_exact, "%.4f of the bytes", gat / of_exact);
}
