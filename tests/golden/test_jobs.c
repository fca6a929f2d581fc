/* The programs against the float64 references, by job file and output folder: logits, gradient, ten steps of Adam; several numbers of parts
 * and workers, every partition method, with and without pruning. */
#include "partition/files/npy.h"
#include "tests/golden/golden_case.h"
#include "tests/support/device/device_case.h"
#include "tests/support/model/gradient.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char program_path[PATH_MAX];

static void make_all(void)
{
    program_find("trainerd", program_path, sizeof program_path);
    folder_make();
}

TestSuite(golden_job, .init = make_all, .fini = folder_remove, .timeout = 900);

struct layout {
    const char *method;
    int parts, workers;
    const char *prune, *device;
};

#ifdef CUDA_EMULATED
static const struct layout layouts[] = {{"random", 1, 1, "auto", "cuda-emulated"},
                                        {"random", 5, 2, "never", "cuda-emulated"},
                                        {"metis", 4, 4, "always", "cuda-emulated"}};
#else
static const struct layout layouts[] = {
    {"random", 1, 1, "auto", "cpu"},        {"random", 2, 2, "never", "cpu"},  {"random", 3, 1, "auto", "reference"},
    {"random", 5, 2, "auto", "cpu"},        {"random", 8, 3, "never", "cpu"},  {"metis", 3, 2, "never", "cpu"},
    {"block", 3, 3, "always", "cpu"},       {"file", 3, 2, "never", "cpu"},    {"metis", 1, 1, "always", "cpu"},
    {"metis", 2, 2, "always", "reference"}, {"random", 5, 3, "always", "cpu"}, {"random", 8, 2, "always", "auto"}};
#endif

/* What an array, and a loss, may be off by. */
static const struct precision {
    const char *key; /* of [train] */
    double array, loss;
} precisions[] = {
    {"precision = 'fp32'", TOLERANCE_ARRAY, TOLERANCE_LOSS},
    {"precision = 'bf16'", TOLERANCE_BF16, TOLERANCE_BF16},
#ifdef CUDA_EMULATED
    {"products = 'tf32x3'", TOLERANCE_ARRAY, TOLERANCE_LOSS},
#else
    {"products = 'bf16'", TOLERANCE_BF16, TOLERANCE_BF16},
#endif
};
enum { N_LAYOUT = sizeof layouts / sizeof *layouts, N_PRECISION = sizeof precisions / sizeof *precisions };

struct trial {
    const struct golden_case *golden;
    const char *model;      /* [model] settings as --set arguments */
    struct program program; /* names and shapes of the weights */
    const struct layout *layout;
    const struct precision *precision;
    char where[128];
};

/* Node i to part i mod n_part, for method = "file"; the other methods ignore the file. */
static void owners_write(const struct trial *trial)
{
    FILE *file = fopen(folder_path("owners.txt"), "w");
    cr_assert_not_null(file);
    for (int64_t i = 0; i < trial->golden->n_node; i++) {
        fprintf(file, "%d\n", (int)(i % trial->layout->parts));
    }
    fclose(file);
}

/* Run the case for some epochs into folder/out. */
static void job_run(const struct trial *trial, const char *train)
{
    char command[PATH_MAX + 1024];
    FILE *file = fopen(folder_path("job.toml"), "w");
    cr_assert_not_null(file);
    fprintf(
        file,
        "[dataset]\npath = \"%s\"\nundirected = \"no\"\n[partition]\nparts = %d\nmethod = \"%s\"\ncache = \"off\"\n",
        trial->golden->folder, trial->layout->parts, trial->layout->method);
    if (strcmp(trial->layout->method, "file") == 0) {
        fprintf(file, "file = \"%s/owners.txt\"\n", folder);
    }
    fprintf(file,
            "[model]\ninit = \"%s/init.safetensors\"\n%s\n[train]\n%s\nprune = \"%s\"\n%s\n[workers]\ncount = "
            "%d\nthreads = 1\ndevice = \"%s\"\n"
            "[output]\ndir = \"%s/out\"\n",
            trial->golden->folder, trial->model, trial->precision->key, trial->layout->prune, train,
            trial->layout->workers, trial->layout->device, folder);
    fclose(file);
    snprintf(command, sizeof command, "'%s' --config %s/job.toml 2>%s/log", program_path, folder, folder);
    cr_assert_eq(system(command), 0, "%s: %s", trial->where, command);
}

static void logits_check(const struct trial *trial)
{
    struct npy npy;
    cr_assert_eq(npy_open(folder_path("out/logits.npy"), &npy), STATUS_OK, "%s", status_reason());
    int64_t n = trial->golden->n_node * trial->golden->n_class;
    cr_assert_eq(npy.rank, 2);
    cr_assert_eq(npy.shape[0] * npy.shape[1], n);
    double error = relative_error(npy.data, trial->golden->logits, n);
    cr_expect(error <= trial->precision->array, "%s: logits are off by %.1e", trial->where, error);
    npy_close(&npy);
}

/* init − after is the gradient when the step was SGD with rate 1. */
static void gradient_check_sgd(const struct trial *trial)
{
    int64_t n = trial->program.n_weight;
    float *init = memory_alloc((size_t)n, sizeof *init), *got = memory_alloc((size_t)n, sizeof *got);
    double *truth = memory_alloc((size_t)n, sizeof *truth);
    golden_weights_file(folder_path("out/model.safetensors"), &trial->program, got);
    golden_weights(trial->golden, "sgd1.safetensors", &trial->program, init);
    for (int64_t i = 0; i < n; i++) {
        truth[i] = -(double)init[i];
    }
    golden_weights(trial->golden, "init.safetensors", &trial->program, init);
    for (int64_t i = 0; i < n; i++) {
        truth[i] += init[i];
        got[i] = init[i] - got[i];
    }
    double error = relative_error(got, truth, n);
    cr_expect(error <= trial->precision->array, "%s: gradients are off by %.1e", trial->where, error);
    free(truth);
    free(got);
    free(init);
}

/* After ten steps of Adam. */
static void weights_check(const struct trial *trial)
{
    int64_t n = trial->program.n_weight;
    float *want = memory_alloc((size_t)n, sizeof *want), *got = memory_alloc((size_t)n, sizeof *got);
    double *truth = memory_alloc((size_t)n, sizeof *truth);
    golden_weights_file(folder_path("out/model.safetensors"), &trial->program, got);
    golden_weights(trial->golden, "adam10.safetensors", &trial->program, want);
    for (int64_t i = 0; i < n; i++) {
        truth[i] = want[i];
    }
    double error = relative_error(got, truth, n);
    cr_expect(error <= trial->precision->array, "%s: weights after ten steps are off by %.1e", trial->where, error);
    free(truth);
    free(got);
    free(want);
}

static void losses_check(const struct trial *trial)
{
    char line[4096];
    FILE *file = fopen(folder_path("out/metrics.jsonl"), "r");
    cr_assert_not_null(file);
    int n = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        cr_assert_lt(n, GOLDEN_N_LOSS - 1, "%s: more lines than epochs", trial->where);
        json_t *row = json_loads(line, 0, NULL);
        double want = trial->golden->adam_loss[n], got = json_number_value(json_object_get(row, "loss"));
        cr_expect(fabs(got - want) / want <= trial->precision->loss, "%s: loss of epoch %d is %.9g, expected %.9g",
                  trial->where, n, got, want);
        json_decref(row);
        n++;
    }
    fclose(file);
    cr_expect_eq(n, GOLDEN_N_LOSS - 1, "%s: %d lines of metrics", trial->where, n);
}

static void check(const char *name, const char *model)
{
    struct golden_case golden;
    golden_open(name, &golden);
    struct trial trial = {.golden = &golden, .model = model};
    char text[512];
    snprintf(text, sizeof text, "[dataset]\npath = \"x\"\n[model]\n%s\n", model);
    static struct job job;
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    struct program_input input = {
        .facts = {.n_feature = golden.n_feature, .n_class = golden.n_class, .n_relation = golden.n_relation}};
    cr_assert_eq(program_build(&job, &input, &trial.program), STATUS_OK, "%s", status_reason());
    for (size_t i = 0; i < N_LAYOUT * N_PRECISION; i++) {
        if (ways_skip(i, N_LAYOUT * N_PRECISION)) {
            continue;
        }
        trial.layout = &layouts[i % N_LAYOUT];
        trial.precision = &precisions[i / N_LAYOUT];
        snprintf(trial.where, sizeof trial.where, "%s, %s, %s, %d parts, %d workers, prune %s", name,
                 trial.precision->key, trial.layout->method, trial.layout->parts, trial.layout->workers,
                 trial.layout->prune);
        owners_write(&trial);
        job_run(&trial, "epochs = 0");
        logits_check(&trial);
        job_run(&trial, "epochs = 1\noptimizer = \"sgd\"\nlr = 1.0");
        gradient_check_sgd(&trial);
        job_run(&trial, "epochs = 10\nlr = 0.01\nweight_decay = 5e-4");
        losses_check(&trial);
        weights_check(&trial);
    }
    program_release(&trial.program);
    golden_close(&golden);
}

#define AGREES(name, model)                                                                                          \
    Test(golden_job, name##_agrees_for_every_number_of_parts_and_partition)                                          \
    {                                                                                                                \
        check(#name, model);                                                                                         \
    }
#define ATTENTION "heads = 4\nhidden = 4\nactivation = \"elu\"\n"
AGREES(gcn, "kind = \"gcn\"\nhidden = 16")
AGREES(sage, "kind = \"sage\"\nhidden = 16")
AGREES(gin, "kind = \"gin\"\nhidden = 16\nlearn_eps = true")
AGREES(appnp, "kind = \"appnp\"\nhidden = 16\nalpha = 0.1\nsteps = 10")
AGREES(gat, ATTENTION "kind = \"gat\"")
AGREES(gat_mean_heads, ATTENTION "kind = \"gat\"\nout_heads = 3")
AGREES(gatv2, ATTENTION "kind = \"gatv2\"")
AGREES(rgcn, "kind = \"rgcn\"\nhidden = 16")
AGREES(rgcn_basis, "kind = \"rgcn\"\nhidden = 16\nbases = 2")
