/* The models against float64 references made with PyTorch: logits, loss, gradients, ten Adam steps. */
#include "tests/golden/golden_case.h"
#include "tests/support/executor.h"
#include "tests/support/model/gradient.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static struct job job;

static void defaults(void)
{
    job_defaults(&job);
    job.model.layers = 2;
    job.model.hidden = 16;
}

TestSuite(golden, .init = defaults);

/* Weights and both moments, as an optimiser's step takes them. */
struct state {
    int64_t n;
    float *init, *weights, *m, *v, *grad;
};

static void logits_check(const struct golden_case *golden, const struct program *program, struct executor *x, const char *where)
{
    int64_t n = golden->graph.n_node * golden->n_class;
    float *logits = memory_alloc((size_t)n, sizeof *logits);
    executor_value(x, program->logits, logits);
    double error = relative_error(logits, golden->logits, n);
    cr_assert(error <= TOLERANCE_ARRAY, "%s: logits are off by %.1e", where, error);
    free(logits);
}

/* init − sgd1 is the gradient: one step of SGD with rate 1. */
static void gradient_check_sgd(const struct golden_case *golden, const struct program *program, const struct state *state,
                               const char *where)
{
    float *after = memory_alloc((size_t)state->n, sizeof *after);
    double *truth = memory_alloc((size_t)state->n, sizeof *truth);
    golden_weights(golden, "sgd1.safetensors", program, after);
    for (int64_t i = 0; i < state->n; i++) {
        truth[i] = (double)state->init[i] - after[i];
    }
    double error = relative_error(state->grad, truth, state->n);
    cr_assert(error <= TOLERANCE_ARRAY, "%s: gradients are off by %.1e", where, error);
    free(truth);
    free(after);
}

static void adam_check(const struct golden_case *golden, const struct program *program, struct executor *x, struct state *state,
                       const struct device_ops *ops, const char *where)
{
    struct device *device;
    cr_assert_eq(ops->open(1, &device), STATUS_OK);
    for (int t = 0; t < GOLDEN_N_LOSS; t++) {
        double loss = executor_forward(x, state->weights);
        double error = fabs(loss - golden->adam_loss[t]) / golden->adam_loss[t];
        cr_assert(error <= TOLERANCE_LOSS, "%s: loss after %d Adam steps is off by %.1e", where, t, error);
        if (t == GOLDEN_N_LOSS - 1) {
            break;
        }
        const struct device_now now = {
            .lr = 0.01, .correction_1 = 1.0 - pow(0.9, t + 1), .correction_2 = 1.0 - pow(0.999, t + 1)};
        struct device_step step = {.optimizer = DEVICE_OPTIMIZER_ADAM,
                                   .weight_decay = 5e-4,
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .epsilon = 1e-8,
                                   .now = &now};
        executor_backward(x, state->grad);
        ops->step(device, &step, state->n, state->grad, state->weights, state->m, state->v);
        cr_assert_eq(device_sync(device), STATUS_OK);
    }
    float *after = memory_alloc((size_t)state->n, sizeof *after);
    double *truth = memory_alloc((size_t)state->n, sizeof *truth);
    golden_weights(golden, "adam10.safetensors", program, after);
    for (int64_t i = 0; i < state->n; i++) {
        truth[i] = after[i];
    }
    double error = relative_error(state->weights, truth, state->n);
    cr_assert(error <= TOLERANCE_ARRAY, "%s: weights after ten Adam steps are off by %.1e", where, error);
    free(truth);
    free(after);
    ops->close(device);
}

static void run(const char *name, const struct golden_case *golden, const struct program *program, const struct device_ops *ops,
                int n_part)
{
    char where[128];
    snprintf(where, sizeof where, "%s, %s, %d parts", name, ops->name, n_part);
    struct executor_setup setup = {.program = program,
                                   .ops = ops,
                                   .graph = &golden->graph,
                                   .n_part = n_part,
                                   .training = true,
                                   .features = golden->features,
                                   .labels = golden->labels,
                                   .split = golden->split};
    struct executor *x = executor_open(&setup);
    struct state state = {.n = program->n_weight};
    float **arrays[] = {&state.init, &state.weights, &state.m, &state.v, &state.grad};
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(memory_acquire(MEMORY_OTHER, (size_t)state.n, sizeof(float), arrays[i]), STATUS_OK);
    }
    golden_weights(golden, "init.safetensors", program, state.init);
    golden_weights(golden, "init.safetensors", program, state.weights);
    double loss = executor_forward(x, state.init), error = fabs(loss - golden->loss) / golden->loss;
    cr_assert(error <= TOLERANCE_LOSS, "%s: loss is off by %.1e", where, error);
    logits_check(golden, program, x, where);
    executor_backward(x, state.grad);
    gradient_check_sgd(golden, program, &state, where);
    adam_check(golden, program, x, &state, ops, where);
    for (int i = 0; i < 5; i++) {
        memory_release(MEMORY_OTHER, *arrays[i], (size_t)state.n, sizeof(float));
    }
    executor_close(x);
}

/* Parts 8 of 96 nodes: some blocks are empty. Dense and sparse features hold the same numbers. */
static void check(const char *name, enum dataset_loops loops)
{
    static const int parts[] = {1, 2, 3, 5, 8};
    struct golden_case golden;
    golden_open(name, &golden);
    golden.graph.loops = loops;
    for (int sparse = 0; sparse < 2; sparse++) {
        const struct program_input input = {.n_feature = golden.n_feature,
                                            .n_class = golden.n_class,
                                            .is_sparse = sparse > 0,
                                            .n_relation = golden.graph.n_relation};
        struct program program;
        cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
        for (int d = 0; d < TEST_N_DEVICE; d++) {
            for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
                run(name, &golden, &program, test_devices[d], parts[k]);
            }
        }
        program_release(&program);
    }
    golden_close(&golden);
}

Test(golden, gcn_is_gcnconv_of_pytorch_geometric)
{
    job.model.kind = JOB_KIND_GCN;
    check("gcn", DATASET_LOOPS_IMPLICIT);
}

Test(golden, sage_is_sageconv_of_pytorch_geometric)
{
    job.model.kind = JOB_KIND_SAGE;
    check("sage", DATASET_LOOPS_STORED);
}

Test(golden, gin_is_ginconv_of_pytorch_geometric)
{
    job.model.kind = JOB_KIND_GIN;
    job.model.learn_eps = true;
    check("gin", DATASET_LOOPS_STORED);
}

Test(golden, appnp_is_appnp_of_pytorch_geometric)
{
    job.model.kind = JOB_KIND_APPNP;
    job.model.alpha = 0.1;
    job.model.steps = 10;
    check("appnp", DATASET_LOOPS_IMPLICIT);
}

static void attention(int kind, int64_t heads, int64_t out_heads)
{
    job.model.kind = kind;
    job.model.hidden = 16 / heads;
    job.model.heads = heads;
    job.model.out_heads = out_heads;
    job.model.activation = JOB_ACTIVATION_ELU;
}

Test(golden, gat_is_gatconv)
{
    attention(JOB_KIND_GAT, 4, 1);
    check("gat", DATASET_LOOPS_IMPLICIT);
}

Test(golden, gat_with_averaged_heads_is_gatconv_without_concat)
{
    attention(JOB_KIND_GAT, 4, 3);
    check("gat_mean_heads", DATASET_LOOPS_IMPLICIT);
}

Test(golden, gatv2_is_gatv2conv)
{
    attention(JOB_KIND_GATV2, 4, 1);
    check("gatv2", DATASET_LOOPS_IMPLICIT);
}

Test(golden, rgcn_is_rgcnconv)
{
    job.model.kind = JOB_KIND_RGCN;
    check("rgcn", DATASET_LOOPS_STORED);
}

Test(golden, rgcn_with_bases_is_rgcnconv)
{
    job.model.kind = JOB_KIND_RGCN;
    job.model.bases = 2;
    check("rgcn_basis", DATASET_LOOPS_STORED);
}
