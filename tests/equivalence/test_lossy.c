/* Sampled and low-precision payloads: the same bits however a job is run, on the very rows that were drawn, and traffic that falls. */
#include "partition/graph/dataset.h"
#include "partition/part/partition.h"
#include "tests/equivalence/compare.h"
#include "tests/support/device/strict.h"
#include "tests/support/model/truth.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

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

/* What payloads lose. */
struct loss {
    double p;
    const char *codec, *backward; /* NULL: the same */
};

static const struct loss sampled = {0.3, "fp32", NULL};
static const struct way plain = {1, 1, 1, "sequential", "never", NULL, "never", 0};

static void job_write(const char *model, const char *data, const struct loss *loss, const struct way *way, int epochs,
                      const char *train, char *out, size_t n_out)
{
    char spill[128] = "";
    if (way->limit > 0) {
        snprintf(spill, sizeof spill, "limit = %lld\nspill = \"%s\"\n", way->limit,
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    }
    snprintf(out, n_out,
             "[dataset]\n%s\n[partition]\nparts = 4\nmethod = \"random\"\ncache = \"off\"\n[model]\n%s\n[train]\n"
             "epochs = %d\nprune = \"%s\"\n%s[exchange]\ncover = false\nstore_inputs = false\nsampling = "
             "%.17g\ncodec = \"%s\"\n"
             "codec_backward = \"%s\"\nschedule = \"%s\"\nprefetch = %d\n[workers]\n"
             "count = %d\nthreads = %d\n[memory]\nrecompute = \"%s\"\n%s",
             data, model, epochs, way->prune, train, loss->p, loss->codec,
             loss->backward != NULL ? loss->backward : "same", way->schedule, way->prefetch, way->workers,
             way->threads, way->recompute, spill);
}

static void run(const char *model, const char *data, const struct loss *loss, const struct way *way, int epochs,
                struct cluster_result *out)
{
    char text[2048];
    job_write(model, data, loss, way, epochs, "lr = 0.01\n", text, sizeof text);
    cluster_device = way->device;
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s: workers %d threads %d prefetch %d %s: exit %d", model, way->workers,
                 way->threads, way->prefetch, way->schedule, out->exit_code);
}

static void expect_equal(const char *model, const struct loss *loss, const struct way *way,
                         const struct cluster_result *first, const struct cluster_result *other)
{
    char how[512];
    snprintf(how, sizeof how,
             "%s: p = %g, %s, workers %d, threads %d, prefetch %d, %s, recompute %s, prune %s, limit %lld%s", model,
             loss->p, loss->codec, way->workers, way->threads, way->prefetch, way->schedule, way->recompute,
             way->prune, way->limit, way->device == &device_strict ? ", strict" : "");
    compare_expect_same(first, other, "%s", how);
    if (way->limit == 0) {
        compare_expect_planned(other, "%s", how);
    }
}

static void expect_same_bits_from(const char *model, const char *data, const struct loss *loss,
                                  const struct way *from, const struct way *ways, size_t n)
{
    struct cluster_result first;
    run(model, data, loss, from, EPOCHS, &first);
    for (size_t w = 0; w < n; w++) {
        if (compare_skips(w, n, ways[w].device == &device_strict)) {
            continue;
        }
        struct cluster_result other;
        run(model, data, loss, &ways[w], EPOCHS, &other);
        expect_equal(model, loss, &ways[w], &first, &other);
        cluster_release(&other);
    }
    cluster_release(&first);
}

static void expect_same_bits(const char *model, const char *data, const struct loss *loss)
{
    const struct device_ops *cpu = compare_narrow_cpu();
    struct way first = plain;
    first.device = cpu;
    const struct way ways[] = {{1, 2, 1, "halo", "never", cpu, "never", 0},
                               {2, 1, 0, "sequential", "never", cpu, "never", 0},
                               {2, 2, 3, "sequential", "always", cpu, "never", 0},
                               {4, 1, 1, "halo", "always", cpu, "never", 0},
                               {3, 1, 1, "sequential", "never", cpu, "never", 0},
                               {1, 1, 1, "sequential", "never", &device_strict, "never", 0},
                               {3, 1, 0, "sequential", "never", &device_strict, "never", 0},
                               {4, 1, 1, "halo", "never", &device_strict, "never", 0}};
    expect_same_bits_from(model, data, loss, &first, ways, sizeof ways / sizeof *ways);
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

/* A codec for each model, with a share of the rows or all of them. */
static struct loss coded(int m, double p)
{
    static const char *const codecs[] = {"int8", "int4", "bf16", "int2"}, *const backward[] = {NULL, "int8", "fp32"};
    return (struct loss){p, codecs[m % 4], backward[m % 3]};
}

Test(lossy, every_kind_is_the_same_however_it_is_run)
{
    for (int m = 0; m < N_MODEL; m++) {
        const struct loss low = coded(m, 1.0);
        expect_same_bits(models[m], m % 2 == 0 ? symmetric : directed, &sampled);
        expect_same_bits(models[m], m % 2 == 0 ? directed : symmetric, &low);
    }
}

/* Gradients alone: rows of forward are what they are, and attention sends its gradients the way it does without a codec. */
Test(lossy, gradients_may_be_coded_alone)
{
    static const struct loss loss = {1.0, "fp32", "int4"};
    static const struct way ways[] = {{2, 1, 1, "sequential", "never", NULL, "never", 0},
                                      {4, 1, 1, "halo", "always", NULL, "never", 0}};
    static const struct loss exact = {1.0, "fp32", NULL};
    for (int m = 0; m < N_MODEL; m++) {
        struct cluster_result coded_gradients, none;
        expect_same_bits_from(models[m], symmetric, &loss, &plain, ways, 2);
        run(models[m], symmetric, &loss, &plain, 2, &coded_gradients);
        run(models[m], symmetric, &exact, &plain, 2, &none);
        cr_expect_eq(coded_gradients.loss[0], none.loss[0], "%s", models[m]);
        cr_expect_neq(coded_gradients.loss[1], none.loss[1], "%s", models[m]);
        cluster_release(&coded_gradients);
        cluster_release(&none);
    }
}

/* --- codecs over epochs --- */

static const struct loss scheduled[] = {
    {1.0, "int4, int8@2, fp32@3, bf16@5", NULL}, {1.0, "fp32, int2@1", "int8, fp32@2"}, {0.3, "int2, int8@1", NULL}};
enum { N_SCHEDULED = sizeof scheduled / sizeof *scheduled };

Test(lossy, codecs_that_change_are_the_same_however_a_job_is_run)
{
    const struct device_ops *cpu = compare_narrow_cpu();
    struct way first = plain;
    first.device = cpu;
    const struct way ways[] = {{2, 1, 3, "sequential", "always", cpu, "never", 0},
                               {4, 2, 1, "halo", "never", cpu, "never", 0},
                               {3, 1, 0, "sequential", "never", &device_strict, "never", 0}};
    for (int m = 0; m < N_MODEL; m++) {
        const struct loss *loss = &scheduled[m % N_SCHEDULED];
        expect_same_bits_from(models[m], m % 2 == 0 ? symmetric : directed, loss, &first, ways, 3);
    }
}

/* Up to the first change an epoch has the bits that it has without one; so has one with a codec that is named twice. */
Test(lossy, an_epoch_has_the_bits_of_its_own_codec)
{
    static const struct loss once = {1.0, "int8", NULL}, twice = {1.0, "int8, int8@1", NULL};
    static const struct loss changing = {1.0, "int8, int4@2", NULL};
    for (int m = 0; m < N_MODEL; m++) {
        struct cluster_result alone, other;
        struct way two = plain;
        two.workers = 2;
        run(models[m], symmetric, &once, &plain, 3, &alone);
        run(models[m], symmetric, &twice, &two, 3, &other);
        expect_equal(models[m], &twice, &two, &alone, &other);
        cluster_release(&other);
        run(models[m], symmetric, &changing, &two, 3, &other);
        cr_expect_arr_eq(other.loss, alone.loss, 2 * sizeof *alone.loss, "%s", models[m]);
        cr_expect_neq(other.loss[2], alone.loss[2], "%s", models[m]);
        cluster_release(&other);
        cluster_release(&alone);
    }
}

/* Where all rows travel as they are: gradients may be made elsewhere than without a codec, which changes rounding alone. */
Test(lossy, epochs_in_fp32_are_exact)
{
    static const struct loss exact = {1.0, "fp32", NULL}, later = {1.0, "fp32, int2@3", NULL};
    for (int m = 0; m < N_MODEL; m++) {
        struct cluster_result want, got;
        struct way two = plain;
        two.workers = 2;
        run(models[m], directed, &exact, &plain, 4, &want);
        run(models[m], directed, &later, &two, 4, &got);
        for (int e = 0; e < 3; e++) {
            cr_expect_leq(fabs(got.loss[e] - want.loss[e]), TOLERANCE_LOSS * want.loss[e],
                          "%s: epoch %d: %.9g, expected %.9g", models[m], e, got.loss[e], want.loss[e]);
        }
        cluster_release(&want);
        cluster_release(&got);
    }
}

Test(lossy, a_pruned_job_is_the_same_however_it_is_run)
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
        const struct loss both = coded(m, 0.3), low = coded(m + 1, 1.0);
        expect_same_bits_from(models[m], m % 2 == 0 ? data : one_way, &both, &first, ways, 2);
        expect_same_bits_from(models[m], m % 2 == 0 ? one_way : data, &low, &first, ways, 2);
    }
}

/* The sample is of nodes, not of rows that count: what is left out changes rounding alone. */
Test(lossy, a_pruned_job_has_the_results_of_all_rows)
{
    static const char data[] =
        "generator = \"sbm\"\nnodes = 900\ndegree = 3\nclasses = 5\nfeatures = 24\ntrain_share = 0.01";
    for (int m = 0; m < N_MODEL; m++) {
        struct cluster_result all, pruned;
        struct way way = plain;
        run(models[m], data, &sampled, &way, 2, &all);
        way.prune = "always";
        run(models[m], data, &sampled, &way, 2, &pruned);
        for (int e = 0; e < 2; e++) {
            cr_expect_leq(fabs(pruned.loss[e] - all.loss[e]), TOLERANCE_LOSS * all.loss[e],
                          "%s: epoch %d: %.9g, expected %.9g", models[m], e, pruned.loss[e], all.loss[e]);
        }
        cluster_release(&all);
        cluster_release(&pruned);
    }
}

static void expect_same_bits_spilled(const char *model, const struct loss *loss)
{
    static const char data[] = "generator = \"sbm\"\nnodes = 1000\ndegree = 8\nclasses = 5\nfeatures = 24";
    struct cluster_result first;
    struct way way = plain;
    run(model, data, loss, &way, 2, &first);
    for (int workers = 1; workers <= 2; workers++) {
        struct cluster_result planned, other;
        way.workers = workers;
        way.limit = 1 << 30;
        run(model, data, loss, &way, 0, &planned);
        way.limit = planned.limit_least;
        run(model, data, loss, &way, 2, &other);
        expect_equal(model, loss, &way, &first, &other);
        cr_expect_gt(other.measured[MEMORY_SPILL], 0, "%s: %d workers", model, workers);
        cr_expect_leq(other.measured[MEMORY_SPILL], other.planned[MEMORY_SPILL], "%s: %d workers", model, workers);
        cluster_release(&planned);
        cluster_release(&other);
    }
    cluster_release(&first);
}

Test(lossy, a_spilled_job_is_the_same_as_one_in_memory)
{
    for (int m = 0; m < N_MODEL; m++) {
        const struct loss both = coded(m, 0.3), low = coded(m + 1, 1.0);
        const bool all = !sanitized_leaves_out(), is_even = m % 2 == 0; /* not all: one loss for each model */
        if (all || m % 3 == 0) {
            expect_same_bits_spilled(models[m], is_even ? &sampled : &both);
        }
        if (all || m % 3 == 1 || (m % 3 == 2 && !is_even)) {
            expect_same_bits_spilled(models[m], &low);
        }
        if (is_even && (all || m % 3 == 2)) {
            static const struct loss changing = {1.0, "int8, fp32@1", NULL};
            expect_same_bits_spilled(models[m], &changing);
        }
    }
}

Test(lossy, the_reference_device_gives_the_same_bits_on_one_worker_and_three)
{
    struct way first = plain, three = plain;
    first.device = three.device = &device_reference;
    three.workers = 3;
    for (int m = 0; m < N_MODEL; m++) {
        const struct loss both = coded(m, 0.3);
        expect_same_bits_from(models[m], symmetric, &both, &first, &three, 1);
    }
}

/* --- against the definition: edges between parts count 1/p times where their source is drawn --- */

/* The loss of the first epochs of a job that learns nothing. */
static void truth_losses(const char *text, int n_epoch, double *loss_out)
{
    struct job job;
    struct dataset dataset;
    struct partition partition;
    struct program program;
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    cr_assert_eq(dataset_load(&job, &dataset), STATUS_OK);
    cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK);
    const struct program_input input = {
        .n_feature = dataset.n_feature, .n_class = dataset.n_class, .n_relation = dataset.n_relation};
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK);
    int64_t *ends = memory_alloc(2 * (size_t)dataset.n_edge, sizeof *ends), *from = ends, *to = ends + dataset.n_edge;
    for (int64_t v = 0; v < dataset.n_node; v++) {
        for (int64_t e = dataset.indptr[v]; e < dataset.indptr[v + 1]; e++) {
            from[e] = dataset.indices[e];
            to[e] = v;
        }
    }
    struct test_graph graph;
    struct truth truth;
    test_graph_from_edges(dataset.n_node, dataset.n_edge, from, to, dataset.loops, &graph);
    truth_open(&program, &graph, &truth);
    float *weights = memory_alloc((size_t)program.n_weight, sizeof *weights);
    program_init_weights(&program, (uint64_t)job.train.seed, weights);
    for (int64_t i = 0; i < program.n_weight; i++) {
        truth.weights[i] = weights[i];
    }
    truth.features = dataset.features_f32;
    truth.labels = dataset.labels;
    truth.split = dataset.split;
    truth.seed = (uint64_t)job.train.seed;
    truth.training = true;
    truth.sampling = sampled.p;
    truth.owner = partition.owner;
    for (int e = 0; e < n_epoch; e++) {
        truth.epoch = (uint32_t)e;
        loss_out[e] = truth_loss(&truth);
    }
    truth_release(&truth);
    test_graph_release(&graph);
    free(weights);
    free(ends);
    program_release(&program);
    partition_release(&partition);
    dataset_release(&dataset);
}

enum { TRUTH_N_EPOCH = 4, TRUTH_MOST_KINDS = 8 };

/* Losses of these kinds of models are those of the definition. All jobs first: none may be forked once this process has threads. */
static void expect_true_losses(const char *const kinds[], int n_kind, const struct loss *how)
{
    static const char data[] = "generator = \"sbm\"\nnodes = 80\ndegree = 8\nclasses = 4\nfeatures = 9";
    static char text[TRUTH_MOST_KINDS][2048];
    static double found[TRUTH_MOST_KINDS][TRUTH_N_EPOCH];
    struct way way = plain;
    way.workers = 2;
    for (int k = 0; k < n_kind; k++) {
        char model[256];
        struct cluster_result result;
        snprintf(model, sizeof model, "kind = \"%s\"\nhidden = 8\nlayers = 3\ndropout = 0.3", kinds[k]);
        job_write(model, data, how, &way, TRUTH_N_EPOCH, "lr = 0.0\noptimizer = \"sgd\"\n", text[k], sizeof text[k]);
        cluster_device = way.device;
        cluster_run(text[k], &result);
        cr_assert_eq(result.exit_code, 0);
        memcpy(found[k], result.loss, sizeof found[k]);
        cluster_release(&result);
    }
    for (int k = 0; k < n_kind; k++) {
        double loss[TRUTH_N_EPOCH];
        truth_losses(text[k], TRUTH_N_EPOCH, loss);
        for (int e = 0; e < TRUTH_N_EPOCH; e++) {
            cr_expect_leq(fabs(found[k][e] - loss[e]), TOLERANCE_LOSS * loss[e], "%s: epoch %d: %.9g, expected %.9g",
                          kinds[k], e, found[k][e], loss[e]);
        }
        cr_expect_neq(loss[0], loss[1]);
    }
}

Test(lossy, losses_are_those_of_edges_from_drawn_nodes_counted_one_over_p_times)
{
    static const char *const kinds[] = {"gcn", "sage", "gin", "gat", "gatv2", "transformer", "agnn"};
    expect_true_losses(kinds, sizeof kinds / sizeof *kinds, &sampled);
}

/* --- traffic --- */

static double payload_sent(const char *model, const char *data, double p, const char *codec)
{
    struct cluster_result result;
    const struct loss loss = {p, codec, NULL};
    struct way way = plain;
    way.workers = 4;
    run(model, data, &loss, &way, EPOCHS, &result);
    double n = (double)result.payload_sent;
    cluster_release(&result);
    return n;
}

/* Of the bytes that rows take in training: less those of an epoch that sends none. Every node is drawn once an epoch, and nearly all
 * go to three other parts. */
Test(lossy, bytes_of_payloads_are_the_share_of_all)
{
    static const char *const kinds[] = {"sage", "gcn", "gin"};
    for (int k = 0; k < 3; k++) {
        char model[128];
        snprintf(model, sizeof model, "kind = \"%s\"\nhidden = 32\nlayers = 3", kinds[k]);
        double none = payload_sent(model, symmetric, 0.0, "fp32"), all = payload_sent(model, symmetric, 1.0, "fp32");
        double some = payload_sent(model, symmetric, 0.3, "fp32"), share = (some - none) / (all - none);
        cr_expect_leq(fabs(share - 0.3), 4.0 * sqrt(0.3 * 0.7 / (600.0 * EPOCHS)), "%s: %.4f of the bytes", kinds[k],
                      share);
    }
}

/* An aggregate's rows come, come again for backward, and their gradients return: three times what travels once, where exact backward
 * moves a row and two numbers more per head. */
Test(lossy, attention_moves_half_as_much_again_per_row_at_most)
{
    static const char model[] = "kind = \"gat\"\nheads = 4\nhidden = 16\nlayers = 3";
    double none = payload_sent(model, symmetric, 0.0, "fp32"), all = payload_sent(model, symmetric, 1.0, "fp32");
    double share = (payload_sent(model, symmetric, 0.1, "fp32") - none) / (all - none);
    cr_expect_leq(share, 0.16 + 4.0 * 1.5 * sqrt(0.1 * 0.9 / (600.0 * EPOCHS)), "%.4f of the bytes", share);
}

/* At 256 columns, with what says how a row was coded; and what a tenth of the rows in 8 bits leaves. */
Test(lossy, bytes_of_coded_rows_are_their_bits)
{
    static const char model[] = "kind = \"sage\"\nhidden = 256\nlayers = 3\nlinear_layers = 1\ninput_dropout = 0.2";
    static const struct {
        const char *codec;
        double most;
    } bars[] = {{"bf16", 0.5}, {"int8", 0.255}, {"int4", 0.130}, {"int2", 0.067}};
    static const char wide[] = "generator = \"sbm\"\nnodes = 300\ndegree = 8\nclasses = 5\nfeatures = 256";
    double none = payload_sent(model, wide, 0.0, "fp32"), all = payload_sent(model, wide, 1.0, "fp32");
    for (size_t i = 0; i < sizeof bars / sizeof *bars; i++) {
        double share = (payload_sent(model, wide, 1.0, bars[i].codec) - none) / (all - none);
        cr_expect_leq(share, bars[i].most, "%s: %.4f of the bytes", bars[i].codec, share);
    }
}

/* Bytes follow the codec of each epoch, and memory is planned for the longest rows. */
Test(lossy, bytes_are_those_of_each_epochs_codec)
{
    static const char model[] = "kind = \"sage\"\nhidden = 32\nlayers = 3";
    double all = payload_sent(model, symmetric, 1.0, "fp32, fp32@1"),
           low = payload_sent(model, symmetric, 1.0, "int8");
    double most = payload_sent(model, symmetric, 1.0, "int8, int8@1");
    cr_expect_eq(low, most);
    for (int e = 1; e < EPOCHS; e++) {
        char codec[64];
        snprintf(codec, sizeof codec, "int8, fp32@%d", e);
        double each = (payload_sent(model, symmetric, 1.0, codec) - low) / (EPOCHS - e);
        cr_expect_eq(each * EPOCHS, payload_sent(model, symmetric, 1.0, "fp32, int8@100") - low);
    }
    cr_expect_leq(all, payload_sent(model, symmetric, 1.0, "fp32, int8@100"));
}

Test(lossy, a_share_of_none_trains_on_each_part_alone)
{
    static const char apart[] = "generator = \"sbm\"\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24";
    for (int m = 0; m < N_MODEL; m++) {
        const struct loss none = {0.0, "fp32", NULL};
        struct way four = plain;
        struct cluster_result first, other;
        four.workers = 4;
        run(models[m], apart, &none, &plain, 2, &first);
        run(models[m], apart, &none, &four, 2, &other);
        expect_equal(models[m], &none, &four, &first, &other);
        cluster_release(&first);
        cluster_release(&other);
    }
}
