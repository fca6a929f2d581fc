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

struct state {
    int64_t n;
    float *init, *weights, *grad;
};

static void logits_check(const struct golden_case *golden, const struct program *program, struct executor *x,
                         const char *where)
{
    int64_t n = golden->graph.n_node * golden->n_class;
    float *logits = memory_alloc((size_t)n, sizeof *logits);
    executor_value(x, program->logits, logits);
    double error = relative_error(logits, golden->logits, n);
    cr_assert(error <= TOLERANCE_ARRAY, "%s: logits are off by %.1e", where, error);
    free(logits);
}

/* init − sgd1 is the gradient: one step of SGD with rate 1. */
static void gradient_check_sgd(const struct golden_case *golden, const struct program *program,
                               const struct state *state, const char *where)
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

/* What an optimiser's step takes, in a device's memory. */
struct optimizer {
    struct device *device;
    struct device_now *now;
    size_t n_bytes; /* of each array */
    float *weights, *m, *v, *grad;
};

static void optimizer_open(const struct device_ops *ops, const struct state *state, struct optimizer *out)
{
    float **arrays[] = {&out->weights, &out->m, &out->v, &out->grad};
    out->n_bytes = (size_t)state->n * sizeof(float);
    cr_assert_eq(ops->open(1, &out->device), STATUS_OK, "%s", status_reason());
    cr_assert_eq(ops->acquire(out->device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, sizeof *out->now, &out->now),
                 STATUS_OK);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(ops->acquire(out->device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, out->n_bytes, arrays[i]),
                     STATUS_OK);
    }
    ops->copy(out->device, out->weights, state->weights, out->n_bytes);
}

static void optimizer_close(const struct device_ops *ops, struct optimizer *o)
{
    float *arrays[] = {o->weights, o->m, o->v, o->grad};
    for (int i = 0; i < 4; i++) {
        ops->release(o->device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, arrays[i], o->n_bytes);
    }
    ops->release(o->device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, o->now, sizeof *o->now);
    ops->close(o->device);
}

/* Step t of Adam, from 0: the state's gradients to its weights. */
static void optimizer_step(const struct device_ops *ops, struct optimizer *o, int t, struct state *state)
{
    const struct device_now now = {
        .lr = 0.01, .correction_1 = 1.0 - pow(0.9, t + 1), .correction_2 = 1.0 - pow(0.999, t + 1)};
    const struct device_step step = {.optimizer = DEVICE_OPTIMIZER_ADAM,
                                     .weight_decay = 5e-4,
                                     .beta1 = 0.9,
                                     .beta2 = 0.999,
                                     .epsilon = 1e-8,
                                     .now = o->now};
    ops->copy(o->device, o->now, &now, sizeof now);
    ops->copy(o->device, o->grad, state->grad, o->n_bytes);
    ops->step(o->device, &step, state->n, o->grad, o->weights, o->m, o->v);
    ops->copy(o->device, state->weights, o->weights, o->n_bytes);
    cr_assert_eq(device_sync(o->device), STATUS_OK, "%s", status_reason());
}

static void adam_check(const struct golden_case *golden, const struct program *program, struct executor *x,
                       struct state *state, const struct device_ops *ops, const char *where)
{
    struct optimizer optimizer;
    optimizer_open(ops, state, &optimizer);
    for (int t = 0; t < GOLDEN_N_LOSS; t++) {
        double loss = executor_forward(x, state->weights);
        double error = fabs(loss - golden->adam_loss[t]) / golden->adam_loss[t];
        cr_assert(error <= TOLERANCE_LOSS, "%s: loss after %d Adam steps is off by %.1e", where, t, error);
        if (t == GOLDEN_N_LOSS - 1) {
            break;
        }
        executor_backward(x, state->grad);
        optimizer_step(ops, &optimizer, t, state);
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
    optimizer_close(ops, &optimizer);
}

static void run(const char *name, const struct golden_case *golden, const struct program *program,
                const struct device_ops *ops, int n_part)
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
    float **arrays[] = {&state.init, &state.weights, &state.grad};
    for (int i = 0; i < 3; i++) {
        *arrays[i] = memory_alloc((size_t)state.n, sizeof(float));
    }
    golden_weights(golden, "init.safetensors", program, state.init);
    golden_weights(golden, "init.safetensors", program, state.weights);
    double loss = executor_forward(x, state.init), error = fabs(loss - golden->loss) / golden->loss;
    cr_assert(error <= TOLERANCE_LOSS, "%s: loss is off by %.1e", where, error);
    logits_check(golden, program, x, where);
    executor_backward(x, state.grad);
    gradient_check_sgd(golden, program, &state, where);
    adam_check(golden, program, x, &state, ops, where);
    for (int i = 0; i < 3; i++) {
        free(*arrays[i]);
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
                if (test_takes(test_devices[d], parts[k])) {
                    run(name, &golden, &program, test_devices[d], parts[k]);
                }
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
