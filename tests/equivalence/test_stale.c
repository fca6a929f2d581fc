/* Rows and gradients of the epoch before: epoch 0 exact, losses by the definition, and no more bytes than rows and gradients once. */
#include "tests/equivalence/compare.h"
#include "tests/equivalence/data.h"
#include "tests/equivalence/world.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {
#include "tests/equivalence/models.def"
    "kind = 'appnp'\nhidden = 12\nsteps = 3",
};
enum { N_MODEL = sizeof models / sizeof *models };

static const char *const exchange_of[2] = {"cover = false\nstale = 0", "cover = false\nstale = 1"};

static void run(const char *model, const char *exchange, int workers, int epochs, struct cluster_result *out)
{
    const struct task task = {.data = data_graphs[0],
                              .model = model,
                              .exchange = exchange,
                              .train = "lr = 0.01\nprune = 'never'",
                              .epochs = epochs};
    const struct way way = {.workers = workers, .device = &device_cpu};
    compare_run(&task, &way, out);
}

/* An epoch reads what the one before has written down: a codec's rows count an epoch after its first. */
Test(stale, rows_have_the_codec_of_the_epoch_that_made_them)
{
    for (int m = 0; m < N_MODEL; m++) {
        struct cluster_result changed, same;
        run(models[m], "stale = 1\ncodec = 'fp32, int2@1'", 1, 3, &changed);
        run(models[m], "stale = 1\ncodec = 'fp32, int2@100'", 1, 3, &same);
        cr_expect_arr_eq(changed.loss, same.loss, 2 * sizeof *same.loss, "%s", models[m]);
        cr_expect_neq(changed.loss[2], same.loss[2], "%s", models[m]);
        cluster_release(&changed);
        cluster_release(&same);
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
            run(models[m], exchange_of[stale], 1, 1, &one[stale]);
            run(models[m], exchange_of[stale], 1, 3, &two[stale]);
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

static double payload_sent(const char *model, int stale)
{
    struct cluster_result result;
    run(model, exchange_of[stale], 4, COMPARE_EPOCHS, &result);
    double n = (double)result.payload_sent;
    cluster_release(&result);
    return n;
}

/* Attention's rows come once, as nothing asks for them again, and their gradients return; with two numbers per head more each way. */
Test(stale, bytes_are_those_of_rows_once_and_gradients_once)
{
    static const char gcn[] = "kind = 'gcn'\nhidden = 64\nlayers = 3",
                      gat[] = "kind = 'gat'\nheads = 4\nhidden = 16\nlayers = 3";
    double share = payload_sent(gcn, 1) / payload_sent(gcn, 0);
    cr_expect_leq(fabs(share - 1.0), 1e-3, "%.4f of the bytes", share);
    share = payload_sent(gat, 1) / payload_sent(gat, 0);
    cr_expect_leq(share, 1.0, "%.4f of the bytes", share);
}

/* --- against the definition, in double on the whole graph --- */

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

/* Rows of forward, gradients of what was read, gradients that return an epoch later: each changes the losses that follow. All jobs first: none
 * may be forked once this process has threads. */
Test(stale, losses_are_those_of_rows_and_gradients_of_the_epoch_before)
{
    static const char *const kinds[] = {"gcn", "sage", "gin", "gat", "gatv2", "transformer", "agnn", "appnp"};
    enum { N_EPOCH = SANITIZED ? 3 : 5, N_KIND = sizeof kinds / sizeof *kinds };
    static char text[N_KIND][COMPARE_TEXT];
    static double found[N_KIND][2][N_EPOCH];
    for (int k = 0; k < 2 * N_KIND; k++) {
        char model[256];
        bool grows = strcmp(kinds[k / 2], "gin") == 0; /* its sums */
        struct cluster_result result;
        snprintf(model, sizeof model,
                 "kind = '%s'\nhidden = 4\nlayers = 3\ndropout = 0.2\nsteps = 2\nactivation = 'elu'", kinds[k / 2]);
        const struct task task = {
            .data = "generator = 'sbm'\nnodes = 40\ndegree = 5\nclasses = 3\nfeatures = 5\ntrain_share = 0.6",
            .model = model,
            .exchange = exchange_of[k % 2],
            .train = grows ? "lr = 0.01\noptimizer = 'sgd'\nprune = 'never'"
                           : "lr = 0.3\noptimizer = 'sgd'\nprune = 'never'",
            .epochs = N_EPOCH};
        const struct way way = {.workers = 2, .prefetch = 1, .device = &device_cpu};
        compare_write(&task, &way, text[k / 2]);
        compare_run(&task, &way, &result);
        memcpy(found[k / 2][k % 2], result.loss, sizeof **found);
        cluster_release(&result);
    }
    for (size_t k = 0; k < N_KIND; k++) {
        if (ways_skip(k, N_KIND)) { /* the slow truth alone: all jobs were run */
            continue;
        }
        double loss[N_EPOCH];
        truth_losses(text[k], N_EPOCH, loss);
        for (int e = 0; e < N_EPOCH; e++) {
            cr_expect_leq(fabs(found[k][1][e] - loss[e]), TOLERANCE_LOSS * loss[e],
                          "%s: epoch %d: %.9g, expected %.9g", kinds[k], e, found[k][1][e], loss[e]);
        }
        cr_expect_gt(fabs(found[k][0][N_EPOCH - 1] - loss[N_EPOCH - 1]), 100.0 * TOLERANCE_LOSS * loss[N_EPOCH - 1],
                     "%s", kinds[k]);
    }
}
