#include "tests/support/model/gradient.h"

#include "tests/support/device/strict.h"
#include "tests/support/executor.h"
#include "tests/support/model/truth.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#define SEED 4
#define EPOCH 3

static const int part_counts[] = {1, 2, 3, 5};

const struct device_ops *const test_devices[TEST_N_DEVICE] = {
#ifdef CUDA_EMULATED
    &device_cuda,
#else
    &device_reference,
    &device_cpu,
    &device_strict,
#endif
};

bool test_takes(const struct device_ops *ops, int n_part)
{
    bool fast = ops == &device_reference || ops == &device_cpu;
    return fast || n_part == 1 || n_part == 3;
}

double norm(const double *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    return sqrt(sum);
}

double relative_error(const float *x, const double *truth, int64_t n)
{
    double sum = 0.0, size = norm(truth, n);
    for (int64_t i = 0; i < n; i++) {
        sum += (x[i] - truth[i]) * (x[i] - truth[i]);
    }
    return size > 0.0 ? sqrt(sum) / size : sqrt(sum);
}

static void values_compare(const struct gradient_case *one, const char *where, struct executor *x,
                           const struct truth *truth)
{
    for (int v = 1; v < one->program->n_value; v++) {
        if (one->program->value[v].is_sparse) {
            continue;
        }
        int64_t n = one->graph->n_node * one->program->value[v].width;
        float *value = memory_alloc((size_t)n, sizeof *value);
        executor_value(x, v, value);
        double error = relative_error(value, truth->value[v], n);
        cr_assert(error <= TOLERANCE_ARRAY, "%s, %s: value %d is off by %.1e", one->what, where, v, error);
        free(value);
    }
}

static void gradients_compare(const struct gradient_case *one, const struct program *plain, const char *where,
                              const float *grad, const double *truth)
{
    double all = norm(truth, plain->n_weight);
    cr_assert(all > 0.0, "%s: nothing to compare", one->what);
    for (int p = 0; p < plain->n_param; p++) {
        const struct parameter *param = &plain->param[p];
        int64_t n = parameter_size(param);
        double error = relative_error(grad + param->offset, truth + param->offset, n);
        double size = norm(truth + param->offset, n);
        double most = fmax(TOLERANCE_ARRAY,
                           size > 0.0 ? TOLERANCE_CANCELLED * all / size : TOLERANCE_CANCELLED * all);
        cr_assert(error <= most, "%s, %s: gradient of %s is off by %.1e", one->what, where, param->name, error);
    }
}

static void part_count_check(const struct gradient_case *one, struct executor_setup *setup, struct truth *truth,
                             double loss, const float *weights, const double *gradient)
{
    char where[64];
    snprintf(where, sizeof where, "%s, %d parts", setup->ops->name, setup->n_part);
    float *grad = memory_alloc((size_t)setup->plain->n_weight, sizeof *grad);
    struct executor *x = executor_open(setup);
    double found = executor_forward(x, weights);
    cr_assert(fabs(found - loss) <= TOLERANCE_LOSS * loss, "%s, %s: loss %.9g, expected %.9g", one->what, where,
              found, loss);
    values_compare(one, where, x, truth);
    executor_backward(x, grad);
    gradients_compare(one, setup->plain, where, grad, gradient);
    executor_close(x);
    free(grad);
}

/* The program with every weight in one piece. */
static struct program plain_of(const struct program *program)
{
    struct program plain = *program;
    plain.embedded = (struct embedded){.n_run = 0};
    plain.n_weight = plain.n_embedding = 0;
    plain.param = memory_alloc((size_t)program->n_param, sizeof *plain.param);
    for (int p = 0; p < program->n_param; p++) {
        plain.param[p] = program->param[p];
        plain.param[p].embedding_at = -1;
        plain.param[p].n_shared = parameter_size(&program->param[p]);
        plain.param[p].offset = plain.n_weight;
        plain.n_weight += plain.param[p].n_shared;
    }
    return plain;
}

/* Every other node has the next embedded column and no other, while there are any; embedded columns of other nodes are 0. */
static void features_embed(const struct program *program, int64_t n, float *features)
{
    int64_t f = program->value[0].width, column = -1;
    cr_assert_leq(embedded_count(&program->embedded), n / 2);
    for (int64_t r = 1; r < n; r += 2) {
        column++;
        while (column < f && !embedded_has(&program->embedded, column)) {
            column++;
        }
        if (column >= f) {
            break;
        }
        for (int64_t c = 0; c < f; c++) {
            features[r * f + c] = c == column ? 1.0f : 0.0f;
        }
    }
    for (int64_t i = 0; i < n * f; i++) {
        bool own = features[i] == 1.0f && i / f % 2 == 1;
        features[i] = own || !embedded_has(&program->embedded, i % f) ? features[i] : 0.0f;
    }
}

/* Features, labels and splits of all nodes; the caller frees them. */
static void inputs_draw(const struct gradient_case *one, struct executor_setup *setup)
{
    const struct program *program = one->program;
    int64_t n = one->graph->n_node, f = program->value[0].width, n_class = program->value[program->logits].width;
    float *features = memory_alloc((size_t)(n * f), sizeof *features);
    int32_t *labels = memory_alloc((size_t)n, sizeof *labels);
    uint8_t *split = memory_alloc((size_t)n, sizeof *split);
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f; c++) {
            float number = test_number(1, (uint64_t)r, (uint32_t)c);
            features[r * f + c] = one->zeros && fabsf(number) < 0.6f ? 0.0f : number;
        }
        labels[r] = (int32_t)(0.5f * (1.0f + test_number(2, (uint64_t)r, 0)) * (float)n_class);
        split[r] = test_number(3, (uint64_t)r, 0) < 0.3f ? DATASET_SPLIT_TRAIN : DATASET_SPLIT_TEST;
    }
    if (program->embedded.n_run > 0) {
        features_embed(program, n, features);
    }
    setup->features = features;
    setup->labels = labels;
    setup->split = split;
}

/* Initial weights; biases, norms and epsilons away from their initial constants. */
static float *weights_draw(const struct program *program)
{
    float *weights = memory_alloc((size_t)program->n_weight, sizeof *weights);
    program_init_weights(program, 11, weights);
    for (int p = 0; p < program->n_param; p++) {
        const struct parameter *param = &program->param[p];
        int64_t n = param->bound == 0.0 ? parameter_size(param) : 0;
        for (int64_t i = 0; i < n; i++) {
            weights[param->offset + i] += 0.3f * test_number(5, (uint64_t)p, (uint32_t)i);
        }
    }
    return weights;
}

/* A part for each node. */
static void owners_draw(int64_t n, int n_part, int32_t *owner)
{
    for (int64_t v = 0; v < n; v++) {
        owner[v] = (int32_t)(0.5F * (1.0F + test_number(SEED + 99, (uint64_t)v, 0)) * (float)n_part);
    }
}

void gradient_check(const struct gradient_case *one)
{
    struct program plain = plain_of(one->program);
    struct executor_setup setup = {.program = one->program,
                                   .plain = &plain,
                                   .graph = one->graph,
                                   .seed = SEED,
                                   .epoch = EPOCH,
                                   .training = one->training,
                                   .objective = one->objective};
    inputs_draw(one, &setup);
    float *weights = weights_draw(&plain);
    double *gradient = memory_alloc((size_t)plain.n_weight, sizeof *gradient);
    struct truth truth;
    truth_open(&plain, one->graph, &truth);
    truth.features = setup.features;
    truth.labels = setup.labels;
    truth.split = setup.split;
    truth.seed = SEED;
    truth.epoch = EPOCH;
    truth.training = one->training;
    truth.objective = one->objective;
    truth.sampling = setup.sampling = one->sampling;
    for (int64_t i = 0; i < plain.n_weight; i++) {
        truth.weights[i] = weights[i];
    }
    int32_t *owner = memory_alloc((size_t)one->graph->n_node, sizeof *owner);
    truth.owner = setup.owner = owner;
    double loss = 0.0;
    for (size_t k = 0; k < sizeof part_counts / sizeof *part_counts; k += SANITIZED ? 2 : 1) {
        setup.n_part = part_counts[k];
        owners_draw(one->graph->n_node, setup.n_part, owner);
        if (k == 0 || one->sampling > 0.0) { /* which edges count depends on the parts */
            truth_gradient(&truth, gradient);
            loss = truth_loss(&truth);
        }
        for (size_t d = 0; d < sizeof test_devices / sizeof *test_devices; d++) {
            setup.ops = test_devices[d];
            if (test_takes(setup.ops, setup.n_part)) {
                part_count_check(one, &setup, &truth, loss, weights, gradient);
            }
        }
    }
    free(owner);
    truth_release(&truth);
    free(plain.param);
    free((void *)(uintptr_t)setup.features);
    free((void *)(uintptr_t)setup.labels);
    free((void *)(uintptr_t)setup.split);
    free(weights);
    free(gradient);
}
