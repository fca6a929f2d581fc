/* Sampled and low-precision payloads, on the very rows that were drawn: losses, codecs over epochs, traffic that falls, error feedback. */
#include "tests/equivalence/compare.h"
#include "tests/equivalence/data.h"
#include "tests/equivalence/world.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const models[] = {
#include "tests/equivalence/models.def"
    "kind = 'sage'\naggregator = 'max'\nhidden = 16\nlayers = 3",
};
enum { N_MODEL = sizeof models / sizeof *models };

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

/* --- codecs over epochs --- */

/* Up to the first change an epoch has the bits that it has without one. Gradients alone: rows of forward are what they are. */
Test(lossy, an_epoch_has_the_bits_of_its_own_codec)
{
    for (int m = 0; m < N_MODEL; m++) {
        double alone[3], twice[3], changing[3], exact[2], coded_gradients[2];
        losses(models[m], "codec = 'int8'", NULL, 3, alone);
        losses(models[m], "codec = 'int8, int8@1'", NULL, 3, twice);
        losses(models[m], "codec = 'int8, int4@2'", NULL, 3, changing);
        losses(models[m], "codec = 'fp32'\ncodec_backward = 'int4'\ncover = false\nstore_inputs = false", NULL, 2,
               coded_gradients);
        losses(models[m], "codec = 'fp32'\ncover = false\nstore_inputs = false", NULL, 2, exact);
        cr_expect_arr_eq(twice, alone, sizeof alone, "%s", models[m]);
        cr_expect_arr_eq(changing, alone, 2 * sizeof *alone, "%s", models[m]);
        cr_expect_neq(changing[2], alone[2], "%s", models[m]);
        cr_expect_eq(coded_gradients[0], exact[0], "%s", models[m]);
        cr_expect_neq(coded_gradients[1], exact[1], "%s", models[m]);
    }
}

/* Where all rows travel as they are: gradients may be made elsewhere than without a codec, which changes rounding alone. So does what epochs
 * leave out: the sample is of nodes, not of rows that count. */
Test(lossy, epochs_in_fp32_and_pruned_samples_change_rounding_alone)
{
    static const char *const exchanges[2][2] = {{"codec = 'fp32, int2@3'", "codec = 'fp32'"},
                                                {"sampling = 0.3", "sampling = 0.3"}};
#define SGD "optimizer = 'sgd'\nlr = 0.05\n"
    static const char *const trains[2][2] = {{SGD, SGD}, {SGD "prune = 'always'", SGD "prune = 'never'"}};
    static const struct way two = {.workers = 2};
    for (int i = 0; i < 2 * N_MODEL; i++) {
        const int k = i % 2;
        struct task task = {.data = k == 0 ? data_graphs[1] : data_few[0], .model = models[i / 2], .epochs = 3};
        struct cluster_result result[2];
        for (int j = 0; j < 2; j++) {
            task.exchange = exchanges[k][j];
            task.train = trains[k][j];
            compare_run(&task, j == 0 ? &two : &compare_plain, &result[j]);
        }
        compare_losses(&task, 3, &result[0], &result[1]);
        cluster_release(&result[0]);
        cluster_release(&result[1]);
    }
}

/* --- against the definition: edges between parts count 1/p times where their source is drawn --- */

/* All jobs first: none may be forked once this process has threads. */
Test(lossy, losses_are_those_of_edges_from_drawn_nodes_counted_one_over_p_times)
{
    static const char *const kinds[] = {"gcn", "sage", "gin", "gat", "gatv2", "transformer", "agnn"};
    enum { N_EPOCH = 4, N_KIND = sizeof kinds / sizeof *kinds };
    static char text[N_KIND][COMPARE_TEXT];
    static double found[N_KIND][CLUSTER_MOST_EPOCHS];
    for (int k = 0; k < N_KIND; k++) {
        char model[256];
        static const struct way two = {.workers = 2};
        struct cluster_result result;
        snprintf(model, sizeof model, "kind = '%s'\nhidden = 8\nlayers = 3\ndropout = 0.3", kinds[k]);
        const struct task task = {.data = "generator = 'sbm'\nnodes = 80\ndegree = 8\nclasses = 4\nfeatures = 9",
                                  .model = model,
                                  .train = "lr = 0.0\noptimizer = 'sgd'",
                                  .exchange = "sampling = 0.3\ncover = false\nstore_inputs = false",
                                  .epochs = N_EPOCH};
        compare_write(&task, &two, text[k]);
        compare_run(&task, &two, &result);
        memcpy(found[k], result.loss, sizeof found[k]);
        cluster_release(&result);
    }
    for (int k = 0; k < N_KIND; k++) {
        static struct world w;
        double loss[N_EPOCH];
        world_open(text[k], &w);
        w.truth.sampling = w.job.exchange.sampling;
        for (int e = 0; e < N_EPOCH; e++) {
            w.truth.epoch = (uint32_t)e;
            loss[e] = truth_loss(&w.truth);
            cr_expect_leq(fabs(found[k][e] - loss[e]), TOLERANCE_LOSS * loss[e], "%s: epoch %d: %.9g, expected %.9g",
                          kinds[k], e, found[k][e], loss[e]);
        }
        cr_expect_neq(loss[0], loss[1]);
        world_close(&w);
    }
}

/* --- traffic --- */

static double payload_sent(double p, const char *codec)
{
    char exchange[256];
    snprintf(exchange, sizeof exchange, "cover = false\nstore_inputs = false\nsampling = %.17g\ncodec = '%s'", p,
             codec);
    const struct task task = {
        .data = "generator = 'sbm'\nnodes = 300\ndegree = 8\nclasses = 5\nfeatures = 256",
        .model = "kind = 'sage'\nhidden = 256\nlayers = 3\nlinear_layers = 1\ninput_dropout = 0.2",
        .exchange = exchange,
        .train = "prune = 'never'"};
    static const struct way four = {.workers = 4};
    struct cluster_result result;
    compare_run(&task, &four, &result);
    double n = (double)result.payload_sent;
    cluster_release(&result);
    return n;
}

/* At 256 columns, with what says how a row was coded. Other jobs' bytes are their plan's: tests/system/jobs/test_traffic.c. */
Test(lossy, bytes_of_coded_rows_are_their_bits)
{
    static const struct {
        const char *codec;
        double most;
    } bars[] = {{"bf16", 0.5}, {"int8", 0.255}, {"int4", 0.130}, {"int2", 0.067}};
    double none = payload_sent(0.0, "fp32"), all = payload_sent(1.0, "fp32");
    for (size_t i = 0; i < sizeof bars / sizeof *bars; i++) {
        double share = (payload_sent(1.0, bars[i].codec) - none) / (all - none);
        cr_expect_leq(share, bars[i].most, "%s: %.4f of the bytes", bars[i].codec, share);
    }
}

/* --- error feedback: what residuals are, and gradients that are nearer to the exact ones over many epochs --- */

/* Weights stay what they are, so that losses differ by what payloads lose alone. */
#define STILL "lr = 0.0\noptimizer = 'sgd'\nprune = 'never'"
#define FEEDBACK "error_feedback = true\n"

/* Without dropout, whose masks are others in each epoch. */
static const char *const still[] = {"kind = 'sage'\nhidden = 16\nlayers = 3", "kind = 'gcn'\nhidden = 16\nlayers = 3",
                                    "kind = 'sage'\naggregator = 'max'\nhidden = 16\nlayers = 3",
                                    "kind = 'gat'\nheads = 2\nhidden = 8\nlayers = 3",
                                    "kind = 'gatv2'\nheads = 2\nhidden = 8\nlayers = 3"};
enum { N_STILL = sizeof still / sizeof *still };

/* Epoch 0 has nothing to add; epoch 1 has. */
Test(lossy, feedback_what_the_first_epoch_lost_changes_the_second)
{
    for (int m = 0; m < N_STILL; m++) {
        double fed[2], alone[2];
        losses(still[m], FEEDBACK "codec = 'int2'", STILL, 2, fed);
        losses(still[m], "codec = 'int2'", STILL, 2, alone);
        cr_expect_eq(fed[0], alone[0], "%s", still[m]);
        cr_expect_neq(fed[1], alone[1], "%s", still[m]);
    }
}

Test(lossy, feedback_epochs_in_fp32_leave_nothing_to_add)
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
Test(lossy, feedback_a_guard_changes_no_residual)
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

/* Distance of many epochs' steps from exact ones, over their length. A single step's distance is too small. */
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
Test(lossy, feedback_gradients_of_many_epochs_are_nearer_to_exact_ones)
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
