/* A pruned epoch, which leaves out rows that its loss does not depend on, gives the results of all rows up to rounding, and the same
 * bits however it is run. */
#include "tests/equivalence/compare.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { EPOCHS = SANITIZED ? 3 : 6 };

/* One node in a hundred is trained on; some parts have none. */
static const char symmetric[] =
    "generator = \"sbm\"\nnodes = 900\ndegree = 3\nclasses = 5\nfeatures = 24\ntrain_share = 0.01";
static const char directed[] = "generator = \"rmat\"\nnodes = 1024\ndegree = 3\nclasses = 4\nfeatures = "
                               "9\nundirected = \"no\"\ntrain_share = 0.01";

struct way {
    const char *prune;
    int parts, workers, threads, prefetch;
    const char *schedule, *recompute, *device;
    long long limit; /* 0: all in memory */
    int epochs;
};

static const struct way plain = {"always", 4, 1, 1, 1, "sequential", "auto", "cpu", 0, EPOCHS};

static void run(const char *model, const char *data, const struct way *way, struct cluster_result *out)
{
    char text[2048], spill[64] = "";
    if (way->limit > 0) {
        snprintf(spill, sizeof spill, "spill = \"%s\"\n", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    }
    snprintf(text, sizeof text,
             "[dataset]\n%s\n[partition]\nparts = %d\nmethod = \"random\"\ncache = \"off\"\n[model]\n%s\n[train]\n"
             "epochs = %d\noptimizer = \"sgd\"\nlr = 0.02\nprune = \"%s\"\n[exchange]\nschedule = \"%s\"\nprefetch = "
             "%d\n[workers]\n"
             "count = %d\nthreads = %d\ndevice = \"%s\"\n[memory]\nrecompute = \"%s\"\nlimit = %lld\n%s",
             data, way->parts, model, way->epochs, way->prune, way->schedule, way->prefetch, way->workers,
             way->threads, way->device, way->recompute, way->limit, spill);
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s: %s, %d parts, %d workers, %s, %s: exit %d", model, way->prune, way->parts,
                 way->workers, way->schedule, way->recompute, out->exit_code);
}

static double relative_difference(const float *a, const float *b, int64_t n)
{
    double apart = 0.0, size = 0.0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(apart / size);
}

/* Against all rows: with one part and with several, on either device. */
static void expect_same_results(const char *model, const char *data)
{
    static const struct way ways[] = {{"always", 1, 1, 1, 1, "sequential", "auto", "cpu", 0, EPOCHS},
                                      {"always", 5, 2, 1, 1, "sequential", "auto", "cpu", 0, EPOCHS},
                                      {"always", 3, 2, 1, 1, "halo", "always", "reference", 0, EPOCHS}};
    struct way never = plain;
    never.prune = "never";
    struct cluster_result all;
    run(model, data, &never, &all);
    cr_expect_eq(all.left_out, 0.0);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (ways_skip(w, sizeof ways / sizeof *ways)) {
            continue;
        }
        struct cluster_result pruned;
        run(model, data, &ways[w], &pruned);
        cr_expect_gt(pruned.left_out, 0.05, "%s: %.3f of the work left out", model, pruned.left_out);
        for (int e = 0; e < EPOCHS; e++) {
            cr_expect_leq(fabs(pruned.loss[e] - all.loss[e]), TOLERANCE_LOSS * all.loss[e],
                          "%s: way %zu: loss of epoch %d is "
                          "%.9g, %.9g with nothing left out",
                          model, w, e, pruned.loss[e], all.loss[e]);
        }
        double apart = relative_difference(pruned.weights, all.weights, all.n_weight);
        cr_expect_leq(apart, TOLERANCE_ARRAY, "%s: way %zu: weights are %.1e apart", model, w, apart);
        apart = relative_difference(pruned.logits, all.logits, all.n_logit);
        cr_expect_leq(apart, TOLERANCE_ARRAY, "%s: way %zu: logits are %.1e apart", model, w, apart);
        cluster_release(&pruned);
    }
    cluster_release(&all);
}

Test(prune, every_model_gives_the_results_of_all_rows)
{
    expect_same_results("kind = \"gcn\"\nhidden = 16\ndropout = 0.5\ninput_dropout = 0.3", symmetric);
    expect_same_results("kind = \"gcn\"\nhidden = 16\nlayers = 3\nnorm = \"layer\"", directed);
    expect_same_results("kind = \"sage\"\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true", symmetric);
    expect_same_results("kind = \"sage\"\naggregator = \"max\"\nhidden = 16\ndropout = 0.2", directed);
    expect_same_results("kind = \"gin\"\nhidden = 16\nlearn_eps = true\ndropout = 0.5", symmetric);
    expect_same_results("kind = \"appnp\"\nhidden = 16\nsteps = 4\ndropout = 0.5", symmetric);
    expect_same_results("kind = \"rgcn\"\nbases = 3\nhidden = 9\nresidual = true", directed);
    expect_same_results("kind = \"rgcn\"\nhidden = 16\ndropout = 0.3", symmetric);
}

Test(prune, attention_gives_the_results_of_all_rows)
{
    expect_same_results(
        "kind = \"gat\"\nhidden = 8\nheads = 3\nout_heads = 2\ndropout = 0.4\nattention_dropout = 0.4", symmetric);
    expect_same_results("kind = \"gat\"\nhidden = 8\nheads = 2\nlayers = 3\nresidual = true", directed);
    expect_same_results("kind = \"gatv2\"\nhidden = 8\nheads = 3\nattention_dropout = 0.4", symmetric);
    expect_same_results("kind = \"transformer\"\nhidden = 8\nheads = 3\ndropout = 0.4", directed);
    expect_same_results("kind = \"agnn\"\nhidden = 16\nsteps = 2", symmetric);
}

Test(prune, layers_that_are_read_twice_and_labels_as_input_give_the_results_of_all_rows)
{
    expect_same_results("kind = \"gcn\"\nhidden = 16\nlayers = 3\ndropout = 0.5\njumping_knowledge = \"max\"",
                        symmetric);
    expect_same_results("kind = \"sage\"\nhidden = 9\nlayers = 3\njumping_knowledge = \"concat\"", directed);
    expect_same_results("kind = \"gcn\"\nhidden = 16\nlayers = 2\nlabel_input = true\nlabel_rate = 0.3", symmetric);
    expect_same_results("kind = \"gcn\"\nhidden = 17\nlayers = 4\nresidual = true\nlinear_layers = 2", symmetric);
}

/* Its statistics are over all nodes: layers before it compute all rows, layers after it are pruned. */
Test(prune, batch_norm_gives_the_results_of_all_rows)
{
    expect_same_results("kind = \"sage\"\nhidden = 16\nlayers = 3\nnorm = \"batch\"", symmetric);
    expect_same_results("kind = \"gat\"\nheads = 2\nhidden = 8\nlayers = 2\nnorm = \"batch\"", directed);
}

/* Nine parts, some pairs of which have no edge that counts at a hop: covers of each hop (which rows travel), or all of its rows (spilled). */
Test(prune, covers_of_hops_change_no_bit_however_the_job_is_run)
{
    static const struct way ways[] = {{"always", 9, 2, 1, 0, "sequential", "auto", "cpu", 0, EPOCHS},
                                      {"always", 9, 9, 1, 1, "sequential", "always", "cpu", 0, EPOCHS},
                                      {"always", 9, 4, 2, 3, "halo", "auto", "cpu", 0, EPOCHS},
                                      {"always", 9, 3, 1, 1, "sequential", "never", "cpu", 1 << 30, EPOCHS}};
    static const char *const models[] = {"kind = \"sage\"\nhidden = 16\nlayers = 3\ndropout = 0.2",
                                         "kind = \"gcn\"\nhidden = 16\nlayers = 3\nresidual = true",
                                         "kind = \"appnp\"\nhidden = 9\nsteps = 3"};
    struct way one = plain;
    one.parts = 9;
    for (size_t m = 0; m < 2 * sizeof models / sizeof *models; m++) {
        const char *model = models[m / 2], *data = m % 2 == 0 ? symmetric : directed;
        struct cluster_result first;
        run(model, data, &one, &first);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            if (ways_skip(w, sizeof ways / sizeof *ways)) {
                continue;
            }
            struct cluster_result other;
            run(model, data, &ways[w], &other);
            compare_expect_same(&first, &other, "%s, %s: way %zu", model, m % 2 == 0 ? "symmetric" : "directed", w);
            cluster_release(&other);
        }
        cluster_release(&first);
    }
}

static void expect_same_bits(const char *model, const char *data)
{
    static const struct way ways[] = {{"always", 4, 1, 2, 1, "halo", "auto", "cpu", 0, EPOCHS},
                                      {"always", 4, 2, 1, 0, "sequential", "auto", "cpu", 0, EPOCHS},
                                      {"always", 4, 2, 2, 3, "sequential", "always", "cpu", 0, EPOCHS},
                                      {"always", 4, 4, 1, 1, "sequential", "auto", "cpu", 0, EPOCHS},
                                      {"always", 4, 3, 2, 1, "halo", "always", "cpu", 0, EPOCHS},
                                      {"always", 4, 2, 1, 1, "sequential", "never", "cpu", 1 << 30, EPOCHS}};
    struct cluster_result first;
    run(model, data, &plain, &first);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (ways_skip(w, sizeof ways / sizeof *ways)) {
            continue;
        }
        struct cluster_result other;
        run(model, data, &ways[w], &other);
        compare_expect_same(&first, &other, "%s: way %zu", model, w);
        if (ways[w].limit == 0) {
            compare_expect_planned(&other, "%s: way %zu", model, w);
        }
        cluster_release(&other);
    }
    cluster_release(&first);
}

Test(prune, bits_are_the_same_however_the_job_is_run)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 16\ndropout = 0.5\nlayers = 3\nresidual = true", symmetric);
    expect_same_bits("kind = \"sage\"\naggregator = \"max\"\nhidden = 16\nlayers = 3\ndropout = 0.2", directed);
    expect_same_bits("kind = \"gat\"\nhidden = 8\nheads = 2\nlayers = 3\nresidual = true\nattention_dropout = 0.4",
                     directed);
    expect_same_bits("kind = \"gatv2\"\nhidden = 8\nheads = 3\ndropout = 0.4\nnorm = \"layer\"", symmetric);
    expect_same_bits("kind = \"rgcn\"\nbases = 3\nhidden = 9\nlayers = 3\nresidual = true", directed);
    expect_same_bits("kind = \"sage\"\nhidden = 16\nlayers = 3\nnorm = \"batch\"\njumping_knowledge = \"max\"\n"
                     "label_input = true\nlabel_rate = 0.3",
                     symmetric);
}

Test(prune, auto_prunes_where_that_saves_a_tenth_of_the_work_and_changes_no_bit_elsewhere)
{
    const char *model = "kind = \"gcn\"\nhidden = 16\nlayers = 3", *few = symmetric;
    const char *many = "generator = \"sbm\"\nnodes = 900\ndegree = 8\nclasses = 5\nfeatures = 24\ntrain_share = 0.9";
    const char *const hows[] = {"auto", "always", "never"};
    struct cluster_result with_few[3], with_many[3];
    for (int i = 0; i < 3; i++) {
        struct way way = plain;
        way.prune = hows[i];
        run(model, few, &way, &with_few[i]);
        run(model, many, &way, &with_many[i]);
    }
    cr_expect_gt(with_few[0].left_out, 0.1);
    cr_expect_eq(with_few[0].left_out, with_few[1].left_out);
    compare_expect_same(&with_few[1], &with_few[0], "auto, as always");
    cr_expect_lt(with_few[1].planned[MEMORY_ACTIVATIONS], with_few[2].planned[MEMORY_ACTIVATIONS],
                 "gradients have fewer rows");
    cr_expect(with_many[1].left_out > 0.0 && with_many[1].left_out <= 0.1, "%.3f left out", with_many[1].left_out);
    cr_expect_eq(with_many[0].left_out, 0.0);
    compare_expect_same(&with_many[2], &with_many[0], "auto, as never");
    for (int i = 0; i < 3; i++) {
        cluster_release(&with_few[i]);
        cluster_release(&with_many[i]);
    }
}
