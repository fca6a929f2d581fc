#include "tests/support/model/gradient.h"

#include "tests/support/device/strict.h"
#include "tests/support/model/trained.h"
#include "tests/support/model/truth.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Slow devices, the strict one and an emulated GPU, run with 1 and 3 parts alone. */
static bool test_takes(const struct device_ops *ops, int n_part)
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

static void gradients_compare(const struct gradient_case *one, const struct program *plain, const char *where,
                              const float *grad, const double *truth)
{
    double all = norm(truth, plain->n_weight), cancelled = fmax(TOLERANCE_CANCELLED, one->tolerance);
    cr_assert(all > 0.0, "%s: nothing to compare", one->what);
    for (int p = 0; p < plain->n_param; p++) {
        const struct parameter *param = &plain->param[p];
        int64_t n = parameter_size(param);
        double error = relative_error(grad + param->offset, truth + param->offset, n);
        double size = norm(truth + param->offset, n);
        double most = fmax(fmax(TOLERANCE_ARRAY, one->tolerance),
                           size > 0.0 ? cancelled * all / size : cancelled * all);
        cr_assert(error <= most, "%s, %s: gradient of %s is off by %.1e", one->what, where, param->name, error);
    }
}

/* What a program computes of one cut, in double. */
struct expected {
    double loss, *logits, *gradient; /* logits of an evaluation; loss and gradient of training */
};

static void device_check(const struct gradient_case *one, const struct trained *t, const struct device_ops *ops,
                         const float *weights, const struct expected *expected)
{
    char where[64];
    const struct program *plain = t->setup.plain;
    int64_t n_logit = one->graph->n_node * plain->value[plain->logits].width;
    float *grad = memory_alloc((size_t)plain->n_weight, sizeof *grad),
          *logits = memory_alloc((size_t)n_logit, sizeof *logits);
    snprintf(where, sizeof where, "%s, %d parts", ops->name, t->partition.n_part);
    double found = trained_run(t, ops, weights, logits, grad);
    double error = relative_error(logits, expected->logits, n_logit);
    cr_assert(error <= fmax(TOLERANCE_ARRAY, one->tolerance), "%s, %s: logits are off by %.1e", one->what, where,
              error);
    cr_assert(fabs(found - expected->loss) <= fmax(TOLERANCE_LOSS, one->tolerance) * expected->loss,
              "%s, %s: loss %.9g, expected %.9g", one->what, where, found, expected->loss);
    gradients_compare(one, plain, where, grad, expected->gradient);
    free(logits);
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

/* Rows of the features; the caller frees them. */
static float *features_draw(const struct gradient_case *one)
{
    const struct program *program = one->program;
    int64_t n = one->graph->n_node, f = program->value[0].width;
    float *features = memory_alloc((size_t)(n * f), sizeof *features);
    for (int64_t i = 0; i < n * f; i++) {
        float number = test_number(1, (uint64_t)(i / f), (uint32_t)(i % f));
        features[i] = one->zeros && fabsf(number) < 0.6f ? 0.0f : number;
    }
    if (program->embedded.n_run > 0) {
        features_embed(program, n, features);
    }
    return features;
}

/* A copy that the dataset owns. */
static void *copy_of(const void *from, size_t n_bytes)
{
    void *copy = memory_alloc(1, n_bytes + 1);
    return n_bytes > 0 ? memcpy(copy, from, n_bytes) : copy;
}

static void features_fill(const struct program *program, const float *features, struct dataset *d)
{
    int64_t n_value = 0, n = d->n_node * program->value[0].width;
    d->facts.n_feature = program->value[0].width;
    float *values = copy_of(features, (size_t)n * sizeof *values);
    if (!program->value[0].is_sparse) {
        d->features.f32 = values;
        return;
    }
    size_t n_run = (size_t)program->embedded.n_run;
    d->features.embedded = (struct embedded){
        .n_run = (int64_t)n_run, .run = copy_of(program->embedded.run, n_run * sizeof *program->embedded.run)};
    d->facts.features_typed = n_run > 0;
    d->features.indptr = memory_alloc((size_t)d->n_node + 1, sizeof *d->features.indptr);
    d->features.indices = memory_alloc((size_t)n, sizeof *d->features.indices);
    d->features.data = values;
    for (int64_t i = 0; i < n; i++) {
        if (features[i] != 0.0F) {
            d->features.indices[n_value] = (uint32_t)(i % d->facts.n_feature);
            values[n_value++] = features[i];
        }
        d->features.indptr[i / d->facts.n_feature + 1] = n_value;
    }
}

static void labels_fill(const struct gradient_case *one, struct dataset *d)
{
    const struct objective *o = one->objective;
    size_t n = (size_t)d->n_node, n_class = (size_t)one->program->value[one->program->logits].width;
    d->facts.n_class = (int32_t)n_class;
    d->of_links = o != NULL && o->negatives > 0;
    d->facts.n_relation_given = d->facts.n_relation;
    d->links.is_directed = d->of_links && one->program->scorer != NULL;
    d->links.n_relation = d->of_links ? one->program->n_scored : 0;
    memset(d->labels.n_split, 0, sizeof d->labels.n_split);
    for (size_t v = 0; v < n; v++) {
        d->labels.classes[v] = (int32_t)(0.5f * (1.0f + test_number(2, v, 0)) * (float)n_class);
        d->labels.split[v] = d->of_links || test_number(3, v, 0) < 0.3f ? DATASET_SPLIT_TRAIN : DATASET_SPLIT_TEST;
        d->labels.n_split[d->labels.split[v]]++;
    }
    d->facts.multi_label = o != NULL && o->label_rows != NULL;
    d->labels.rows = d->facts.multi_label ? copy_of(o->label_rows, n * n_class * sizeof *d->labels.rows) : NULL;
    d->labels.class_weights = o != NULL && o->weights != NULL
                                  ? copy_of(o->weights, n_class * sizeof *d->labels.class_weights)
                                  : NULL;
    d->labels.loss_weight = objective_weight(o, d->n_node, d->facts.n_class, d->labels.classes, d->labels.split);
}

/* The graph with inputs as the program takes them; edges' features are drawn like nodes'. */
static struct dataset dataset_make(const struct gradient_case *one, const float *features)
{
    struct tiny_graph graph = *one->graph;
    graph.features = TINY_FEATURES_NONE;
    struct dataset d = tiny_build(&graph);
    features_fill(one->program, features, &d);
    labels_fill(one, &d);
    for (int64_t i = 0; i < d.edges.n_row * d.facts.n_edge_feature; i++) {
        ((float *)(uintptr_t)d.edges.features)[i] = test_number(4, (uint64_t)i, 0);
    }
    return d;
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

void gradient_check(const struct gradient_case *one)
{
    struct program plain = plain_of(one->program);
    float *features = features_draw(one), *weights = weights_draw(&plain);
    struct dataset dataset = dataset_make(one, features);
    const struct trained_setup setup = {.program = one->program,
                                        .plain = &plain,
                                        .dataset = &dataset,
                                        .objective = one->objective,
                                        .seed = SEED,
                                        .epoch = EPOCH,
                                        .sampling = one->sampling};
    struct truth truth;
    truth_open(&plain, &dataset, &truth);
    truth.features = features;
    truth.labels = dataset.labels.classes;
    truth.split = dataset.labels.split;
    truth.seed = SEED;
    truth.epoch = EPOCH;
    truth.objective = one->objective;
    for (int64_t i = 0; i < plain.n_weight; i++) {
        truth.weights[i] = weights[i];
    }
    struct expected expected = {.gradient = memory_alloc((size_t)plain.n_weight, sizeof(double)),
                                .logits = truth.value[plain.logits]};
    const size_t first = ways_first() % 2; /* of each two tests one takes the even numbers */
    for (size_t k = first; k < sizeof part_counts / sizeof *part_counts; k += 2) {
        struct trained trained;
        trained_open(&setup, part_counts[k], &trained);
        truth.owner = trained.partition.owner;
        truth.partition = &trained.partition;
        if (k == first || one->sampling > 0.0 || dataset.of_links) { /* which edges count depends on the parts */
            truth.training = true;
            truth.sampling = one->sampling;
            truth_gradient(&truth, expected.gradient);
            expected.loss = truth_loss(&truth);
            truth.training = false;
            truth.sampling = 0.0;
            truth_loss(&truth);
        }
        for (size_t d = 0; d < sizeof test_devices / sizeof *test_devices; d++) {
            if (test_takes(test_devices[d], part_counts[k])) {
                device_check(one, &trained, test_devices[d], weights, &expected);
            }
        }
        trained_close(&trained);
    }
    free(expected.gradient);
    truth_release(&truth);
    free(plain.param);
    free(dataset.labels.class_weights);
    tiny_release(&dataset);
    free(features);
    free(weights);
}
