/* Rows and gradients of the epoch before: the same bits however a job is run, epoch 0 exact, and no more bytes than rows and gradients once. */
#include "partition/graph/dataset.h"
#include "partition/part/partition.h"
#include "tests/equivalence/compare.h"
#include "tests/support/device/strict.h"
#include "tests/support/model/truth.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"
#include "worker/plan/memory_plan.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
};

/* What it keeps; all of it changes bits. */
struct keeping {
    int stale;
    const char *codec;
};

static const struct keeping kept = {1, "fp32"}, exact = {0, "fp32"};
static const struct way plain = {1, 1, 1, "sequential", "never", NULL, "never"};

static void job_write(const char *model, const char *data, const struct keeping *keeping, const struct way *way,
                      int epochs, const char *train, char *out, size_t n_out)
{
    snprintf(out, n_out,
             "[dataset]\n%s\n[partition]\nparts = 4\nmethod = \"random\"\ncache = "
             "\"off\"\n[model]\n%s\n[train]\nepochs = %d\n"
             "%sprune = \"%s\"\n[exchange]\ncover = false\nstale = %d\ncodec = \"%s\"\n"
             "schedule = \"%s\"\nprefetch = %d\n[workers]\ncount = %d\nthreads = %d\n[memory]\nrecompute = \"%s\"\n",
             data, model, epochs, train, way->prune, keeping->stale, keeping->codec, way->schedule, way->prefetch,
             way->workers, way->threads, way->recompute);
}

static void run(const char *model, const char *data, const struct keeping *keeping, const struct way *way, int epochs,
                struct cluster_result *out)
{
    char text[2048];
    job_write(model, data, keeping, way, epochs, "lr = 0.01\n", text, sizeof text);
    cluster_device = way->device;
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s: workers %d threads %d prefetch %d %s: exit %d", model, way->workers,
                 way->threads, way->prefetch, way->schedule, out->exit_code);
}

static void expect_equal(const char *model, const struct keeping *keeping, const struct way *way,
                         const struct cluster_result *first, const struct cluster_result *other)
{
    char how[512];
    snprintf(how, sizeof how, "%s: %s, workers %d, threads %d, prefetch %d, %s, recompute %s, prune %s%s", model,
             keeping->codec, way->workers, way->threads, way->prefetch, way->schedule, way->recompute, way->prune,
             way->device == &device_strict ? ", strict" : "");
    compare_expect_same(first, other, "%s", how);
    compare_expect_planned(other, "%s", how);
}

static void expect_same_bits_from(const char *model, const char *data, const struct keeping *keeping,
                                  const struct way *from, const struct way *ways, size_t n)
{
    struct cluster_result first;
    run(model, data, keeping, from, EPOCHS, &first);
    for (size_t w = 0; w < n; w++) {
        if (compare_skips(w, n, ways[w].device == &device_strict)) {
            continue;
        }
        struct cluster_result other;
        run(model, data, keeping, &ways[w], EPOCHS, &other);
        expect_equal(model, keeping, &ways[w], &first, &other);
        cluster_release(&other);
    }
    cluster_release(&first);
}

static void expect_same_bits(const char *model, const char *data, const struct keeping *keeping)
{
    const struct device_ops *cpu = compare_narrow_cpu();
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

/* What is kept is what travelled: with a codec that is coded rows, of which attention makes gradients. */
Test(stale, every_kind_is_the_same_with_a_codec)
{
    static const char *const codecs[] = {"fp32", "int8", "int4, int8@2", "bf16", "int8, fp32@1, int2@2"};
    enum { N_CODEC = sizeof codecs / sizeof *codecs };
    const struct device_ops *cpu = compare_narrow_cpu();
    const struct way first = {1, 1, 1, "sequential", "never", cpu, "never"};
    const struct way ways[] = {{2, 2, 0, "sequential", "always", cpu, "never"},
                               {4, 1, 1, "halo", "never", cpu, "never"},
                               {3, 1, 1, "sequential", "never", &device_strict, "never"}};
    for (int m = 0; m < N_MODEL; m++) {
        const struct keeping coded = {1, codecs[m % N_CODEC]};
        expect_same_bits_from(models[m], m % 2 == 0 ? directed : symmetric, &coded, &first, ways, 3);
    }
}

/* An epoch reads what the one before has written down: a codec's rows count an epoch after its first. */
Test(stale, rows_have_the_codec_of_the_epoch_that_made_them)
{
    static const struct keeping changes = {1, "fp32, int2@1"}, stays = {1, "fp32, int2@100"};
    for (int m = 0; m < N_MODEL; m++) {
        struct cluster_result changed, same;
        run(models[m], symmetric, &changes, &plain, 3, &changed);
        run(models[m], symmetric, &stays, &plain, 3, &same);
        cr_expect_arr_eq(changed.loss, same.loss, 2 * sizeof *same.loss, "%s", models[m]);
        cr_expect_neq(changed.loss[2], same.loss[2], "%s", models[m]);
        cluster_release(&changed);
        cluster_release(&same);
    }
}

Test(stale, a_pruned_job_is_the_same_however_it_is_run)
{
    static const char data[] =
        "generator = \"sbm\"\nnodes = 900\ndegree = 3\nclasses = 5\nfeatures = 24\ntrain_share = 0.01";
    static const char one_way[] = "generator = \"rmat\"\nnodes = 1024\ndegree = 3\nclasses = 4\nfeatures = 9\n"
                                  "undirected = \"no\"\ntrain_share = 0.01";
    struct way first = plain;
    first.prune = "always";
    const struct way ways[] = {{2, 1, 0, "sequential", "never", NULL, "always"},
                               {4, 1, 1, "halo", "always", NULL, "always"}};
    for (int m = 0; m < N_MODEL; m++) {
        expect_same_bits_from(models[m], m % 2 == 0 ? data : one_way, &kept, &first, ways, 2);
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
            const struct keeping keeping = {stale, "fp32"};
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

/* --- against the definition, in double on the whole graph --- */

/* A job of one data set, with the truth over its graph. */
struct world {
    struct job job;
    struct dataset dataset;
    struct partition partition;
    struct program program;
    struct test_graph graph;
    struct truth truth;
    int64_t *ends;
};

static void world_open(const char *text, struct world *w)
{
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &w->job), STATUS_OK, "%s", status_reason());
    cr_assert_eq(dataset_load(&w->job, &w->dataset), STATUS_OK);
    cr_assert_eq(partition_build(&w->dataset, &w->job, &w->partition), STATUS_OK);
    const struct dataset *d = &w->dataset;
    struct program_input input = {.n_feature = d->n_feature, .n_class = d->n_class, .n_relation = d->n_relation};
    cr_assert_eq(program_build(&w->job, &input, &w->program), STATUS_OK);
    input.stores = memory_plan_stores(&w->job, &w->program, false, d->n_node, w->partition.n_part > 1,
                                      (uint32_t)w->job.workers.count); /* as in the cluster */
    program_release(&w->program);
    cr_assert_eq(program_build(&w->job, &input, &w->program), STATUS_OK);
    w->ends = memory_alloc(2 * (size_t)d->n_edge, sizeof *w->ends);
    for (int64_t v = 0; v < d->n_node; v++) {
        for (int64_t e = d->indptr[v]; e < d->indptr[v + 1]; e++) {
            w->ends[e] = d->indices[e];
            w->ends[d->n_edge + e] = v;
        }
    }
    test_graph_from_edges(d->n_node, d->n_edge, w->ends, w->ends + d->n_edge, d->loops, &w->graph);
    truth_open(&w->program, &w->graph, &w->truth);
    float *weights = memory_alloc((size_t)w->program.n_weight, sizeof *weights);
    program_init_weights(&w->program, (uint64_t)w->job.train.seed, weights);
    for (int64_t i = 0; i < w->program.n_weight; i++) {
        w->truth.weights[i] = weights[i];
    }
    free(weights);
    w->truth.features = d->features_f32;
    w->truth.labels = d->labels;
    w->truth.split = d->split;
    w->truth.seed = (uint64_t)w->job.train.seed;
    w->truth.training = true;
    w->truth.owner = w->partition.owner;
}

static void world_close(struct world *w)
{
    truth_release(&w->truth);
    test_graph_release(&w->graph);
    free(w->ends);
    program_release(&w->program);
    partition_release(&w->partition);
    dataset_release(&w->dataset);
}

/* Does some aggregate take this value's rows of other parts in every epoch? */
static bool travels(const struct program *program, int value)
{
    bool any = false;
    if (program->value[value].hop == PROGRAM_HOP_HALO) {
        return false;
    }
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        any = any || (op->kind == OP_KIND_AGGREGATE && !op->is_static && (op->in[0] == value || op->in[1] == value));
    }
    return any;
}

/* What epochs keep, by value; NULL where nothing is. */
struct memory_of_truth {
    double **held, **made,
        **used; /* rows; gradients that were made of them; those that are added to the values' own */
};

static void memory_open(const struct world *w, struct memory_of_truth *m)
{
    double ***const lists[] = {&m->held, &m->made, &m->used};
    for (int k = 0; k < 3; k++) {
        *lists[k] = memory_alloc((size_t)w->program.n_value, sizeof **lists[k]);
        for (int v = 0; v < w->program.n_value; v++) {
            size_t n = (size_t)(w->dataset.n_node * w->program.value[v].width);
            (*lists[k])[v] = travels(&w->program, v) ? memory_alloc(n, sizeof ***lists[k]) : NULL;
        }
    }
}

static void memory_close(const struct world *w, struct memory_of_truth *m)
{
    double **const lists[] = {m->held, m->made, m->used};
    for (int k = 0; k < 3; k++) {
        for (int v = 0; v < w->program.n_value; v++) {
            free(lists[k][v]);
        }
        free(lists[k]);
    }
}

/* Gradients of the objective by what is held, from the last value to the first: in epoch 0 those of a value are made with those of the
 * values behind it. */
static void gradients_make(struct world *w, struct memory_of_truth *m)
{
    for (int v = w->program.n_value - 1; v >= 0; v--) {
        if (m->held[v] != NULL) {
            truth_gradient_held(&w->truth, v, m->made[v]);
        }
    }
}

/* The next epoch adds what this one made. */
static void gradients_use(const struct world *w, struct memory_of_truth *m)
{
    for (int v = 0; v < w->program.n_value; v++) {
        if (m->used[v] != NULL) {
            memcpy(m->used[v], m->made[v],
                   (size_t)(w->dataset.n_node * w->program.value[v].width) * sizeof **m->used);
        }
    }
}

static void rows_hold(const struct world *w, double *const *from, struct memory_of_truth *m)
{
    for (int v = 0; v < w->program.n_value; v++) {
        if (m->held[v] != NULL) {
            memcpy(m->held[v], from[v], (size_t)(w->dataset.n_node * w->program.value[v].width) * sizeof **m->held);
        }
    }
}

/* Losses of the first epochs of a job with plain steps. An epoch's rows are copied before differences overwrite the values. */
static void truth_losses(const char *text, int n_epoch, double *loss_out)
{
    static struct world w;
    struct memory_of_truth m, next;
    world_open(text, &w);
    memory_open(&w, &m);
    memory_open(&w, &next);
    double *grad = memory_alloc((size_t)w.program.n_weight, sizeof *grad);
    for (int e = 0; e < n_epoch; e++) {
        w.truth.epoch = (uint32_t)e;
        w.truth.held = e > 0 ? m.held : NULL;
        w.truth.returned = e > 0 ? m.used : NULL;
        loss_out[e] = truth_loss(&w.truth);
        rows_hold(&w, w.truth.value, &next);
        truth_gradient(&w.truth, grad);
        if (e == 0) { /* its gradients are those of its own rows */
            rows_hold(&w, next.held, &m);
            w.truth.held = m.held;
            w.truth.returned = m.made;
        }
        gradients_make(&w, &m);
        gradients_use(&w, &m);
        rows_hold(&w, next.held, &m);
        for (int64_t i = 0; i < w.program.n_weight; i++) {
            w.truth.weights[i] -= w.job.train.lr * grad[i];
        }
    }
    free(grad);
    memory_close(&w, &next);
    memory_close(&w, &m);
    world_close(&w);
}

/* Rows of forward, gradients of what was read, gradients that return an epoch later: each changes the losses that follow. */
Test(stale, losses_are_those_of_rows_and_gradients_of_the_epoch_before)
{
    static const char data[] =
        "generator = \"sbm\"\nnodes = 40\ndegree = 5\nclasses = 3\nfeatures = 5\ntrain_share = 0.6";
    static const char *const kinds[] = {"gcn", "sage", "gin", "gat", "gatv2", "transformer", "agnn", "appnp"};
    enum { N_EPOCH = SANITIZED ? 3 : 5, N_KIND = sizeof kinds / sizeof *kinds };
    static char text[N_KIND][2048];
    static double found[N_KIND][N_EPOCH], found_exact[N_KIND][N_EPOCH];
    struct way way = plain;
    way.workers = 2;
    for (int k = 0; k < 2 * N_KIND; k++) { /* all jobs first: none may be forked once this process has threads */
        const struct keeping keeping = {k % 2, "fp32"};
        char model[256], other[2048], *to = k % 2 == 1 ? text[k / 2] : other;
        struct cluster_result result;
        snprintf(model, sizeof model,
                 "kind = \"%s\"\nhidden = 4\nlayers = 3\ndropout = 0.2\nsteps = 2\nactivation = \"elu\"",
                 kinds[k / 2]);
        bool grows = strcmp(kinds[k / 2], "gin") == 0; /* its sums */
        job_write(model, data, &keeping, &way, N_EPOCH,
                  grows ? "lr = 0.01\noptimizer = \"sgd\"\n" : "lr = 0.3\noptimizer = \"sgd\"\n", to, sizeof other);
        cluster_device = way.device;
        cluster_run(to, &result);
        cr_assert_eq(result.exit_code, 0);
        memcpy((k % 2 == 1 ? found : found_exact)[k / 2], result.loss, sizeof *found);
        cluster_release(&result);
    }
    for (size_t k = 0; k < N_KIND; k++) {
        if (ways_skip(k, N_KIND)) { /* the slow truth alone: all jobs were run */
            continue;
        }
        double loss[N_EPOCH];
        truth_losses(text[k], N_EPOCH, loss);
        for (int e = 0; e < N_EPOCH; e++) {
            cr_expect_leq(fabs(found[k][e] - loss[e]), TOLERANCE_LOSS * loss[e], "%s: epoch %d: %.9g, expected %.9g",
                          kinds[k], e, found[k][e], loss[e]);
        }
        cr_expect_gt(fabs(found_exact[k][N_EPOCH - 1] - loss[N_EPOCH - 1]),
                     100.0 * TOLERANCE_LOSS * loss[N_EPOCH - 1], "%s", kinds[k]);
    }
}
