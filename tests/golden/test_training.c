/* How a model is trained, against PyTorch in float64: losses, clipped gradients, weights of classes, metrics, numbers in place of classes
 * (training.json, which make_training.py makes), what layers can read besides features (layers.json, make_layers.py), and every kind of
 * layer where edges lead one way (directed.json, make_directed.py); texts that no kind has (programs.json, make_programs.py). By job file
 * and output folder, on several parts and workers. */
#include "partition/files/npy.h"
#include "protocol/files/dir.h"
#include "protocol/files/safetensors.h"
#include "tests/support/graphs/npy_save.h"
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

TestSuite(golden_training, .init = make_all, .fini = folder_remove, .timeout = 900);

struct layout {
    int parts, workers;
    const char *device, *prune;
};

#ifdef CUDA_EMULATED
static const struct layout layouts[] = {{1, 1, "cuda-emulated", "auto"}, {5, 2, "cuda-emulated", "always"}};
#else
static const struct layout layouts[] = {
    {1, 1, "cpu", "auto"}, {5, 2, "cpu", "always"}, {3, 1, "reference", "never"}, {8, 3, "cpu", "never"}};
#endif

/* The case's text of this name, or what stands for it. */
static const char *text_of(const json_t *one, const char *name, const char *otherwise)
{
    const json_t *text = json_object_get(one, name);
    return text != NULL ? json_string_value(text) : otherwise;
}

/* The graph that a case is of. */
static void graph_find(const json_t *one, char out[PATH_MAX])
{
    char path[PATH_MAX];
    const char *shared = getenv("TRAINERD_SHARED");
    snprintf(path, sizeof path, "%s/golden/%s", shared != NULL ? shared : "../shared", text_of(one, "graph", "gcn"));
    if (realpath(path, out) == NULL) {
        cr_skip_test("%s does not exist; set TRAINERD_SHARED to the folder that holds golden/", path);
    }
}

static void shell(const char *command)
{
    cr_assert_eq(system(command), 0, "%s", command);
}

/* Number i of an array, or of its rows of `width`. */
static const json_t *number_at(const json_t *values, int64_t width, int64_t i)
{
    const json_t *row = json_array_get(values, (size_t)(i / width));
    return json_is_array(row) ? json_array_get(row, (size_t)(i % width)) : row;
}

static void array_save(const char *path, enum npy_type type, const json_t *values, int64_t n, int64_t width,
                       const void *data)
{
    const int64_t shape[] = {n, width};
    int rank = json_is_array(json_array_get(values, 0)) ? 2 : 1;
    cr_assert_eq(npy_save(path, type, rank, shape, data), STATUS_OK, "%s", status_reason());
}

/* Numbers, or rows of them; null: NaN. Those without a point are integers. */
static void array_write(const char *path, const json_t *values)
{
    bool rows = json_is_array(json_array_get(values, 0));
    int64_t n = (int64_t)json_array_size(values),
            width = rows ? (int64_t)json_array_size(json_array_get(values, 0)) : 1;
    float *all = malloc((size_t)(n * width) * sizeof *all);
    int64_t *integers = malloc((size_t)(n * width) * sizeof *integers);
    cr_assert(all != NULL && integers != NULL);
    for (int64_t i = 0; i < n * width; i++) {
        const json_t *value = number_at(values, width, i);
        all[i] = json_is_null(value) ? NAN : (float)json_number_value(value);
        integers[i] = json_integer_value(value);
    }
    bool whole = json_is_integer(number_at(values, width, 0));
    array_save(path, whole ? NPY_TYPE_I64 : NPY_TYPE_F32, values, n, width, whole ? (const void *)integers : all);
    free(integers);
    free(all);
}

#define WEIGHT_MOST 32

/* Tensors of these shapes as make_layers.py begins with them; the number of tensors. weights_free frees them. */
static int weights_make(const json_t *shapes, struct safetensor list[WEIGHT_MOST])
{
    const char *name;
    json_t *shape;
    int n = 0;
    json_object_foreach((json_t *)(uintptr_t)shapes, name, shape)
    {
        cr_assert_lt(n, WEIGHT_MOST);
        struct safetensor *one = &list[n];
        int64_t size = 1;
        *one = (struct safetensor){.name = name, .n_dim = (int)json_array_size(shape)};
        for (int d = 0; d < one->n_dim; d++) {
            size *= one->shape[d] = json_integer_value(json_array_get(shape, (size_t)d));
        }
        one->data = malloc((size_t)size * sizeof *one->data);
        cr_assert_not_null(one->data);
        for (int64_t i = 0; i < size; i++) {
            one->data[i] = (float)((73 * i + 29 * n) % 257 - 128) / 512.0F;
        }
        n++;
    }
    return n;
}

static void weights_free(struct safetensor *list, int n)
{
    for (int i = 0; i < n; i++) {
        free(list[i].data);
    }
}

static void weights_write(const json_t *shapes)
{
    struct safetensor list[WEIGHT_MOST] = {{0}};
    struct dir dir;
    int n = weights_make(shapes, list);
    cr_assert_eq(dir_open(folder, DIR_LAST_FOLLOWED, &dir), STATUS_OK, "%s", status_reason());
    cr_assert_eq(safetensors_save(&dir, "init.safetensors", list, (size_t)n, NULL, 0), STATUS_OK, "%s",
                 status_reason());
    dir_close(&dir);
    weights_free(list, n);
}

/* The case's data set, in folder/data, initial weights, and the files that its job names. */
static void case_write(const char *graph, const json_t *one)
{
    char command[4 * PATH_MAX];
    const char *name;
    json_t *values;
    snprintf(command, sizeof command,
             "cp configs/programs/*.gnn '%s' && cd '%s' && rm -rf data && mkdir data && cp '%s'/*.npy data/ && cp "
             "'%s/init.safetensors' . && cd data && rm logits.npy %s",
             folder, folder, graph, graph, text_of(one, "without", ""));
    shell(command);
    if (json_object_get(one, "shapes") != NULL) {
        weights_write(json_object_get(one, "shapes"));
    }
    json_object_foreach(json_object_get(one, "data"), name, values)
    {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "data/%s", name);
        array_write(folder_path(path), values);
    }
    if (json_object_get(one, "labels") != NULL) {
        array_write(folder_path("data/labels.npy"), json_object_get(one, "labels"));
    }
    json_object_foreach(json_object_get(one, "files"), name, values)
    {
        array_write(folder_path(name), values);
    }
}

/* Train `epochs` with these lines of [train]. */
static void job_run(const json_t *one, const struct layout *layout, size_t epochs, const char *train,
                    const char *where)
{
    char command[2 * PATH_MAX];
    const json_int_t hidden = json_integer_value(json_object_get(one, "hidden"));
    FILE *file = fopen(folder_path("job.toml"), "w");
    cr_assert_not_null(file);
    fprintf(file,
            "[dataset]\npath = \"data\"\nundirected = \"no\"\n%s\n[partition]\nparts = %d\nmethod = \"%s\"\ncache = "
            "\"off\"\n"
            "[model]\n%s\nhidden = %lld\ninit = \"init.safetensors\"\n[train]\nepochs = %zu\nprune = \"%s\"\n%s\n"
            "[workers]\ncount = %d\nthreads = 1\ndevice = \"%s\"\n[output]\ndir = \"out\"\n",
            text_of(one, "dataset", ""), layout->parts, text_of(one, "method", "random"),
            text_of(one, "model", "kind = \"gcn\""), (long long)(hidden > 0 ? hidden : 16), epochs, layout->prune,
            train, layout->workers, layout->device);
    fclose(file);
    snprintf(command, sizeof command, "cd '%s' && rm -rf out && '%s' --config job.toml 2>log || { cat log; exit 1; }",
             folder, program_path);
    cr_assert_eq(system(command), 0, "%s: %s", where, train);
}

static double *numbers_of(const json_t *values)
{
    double *out = malloc((json_array_size(values) + 1) * sizeof *out);
    cr_assert_not_null(out);
    for (size_t i = 0; i < json_array_size(values); i++) {
        out[i] = json_number_value(json_array_get(values, i));
    }
    return out;
}

/* Column `key` of metrics.jsonl against the case's `name`; nothing where the case has none. */
static void column_check(const json_t *one, const char *name, const char *key, double tolerance, const char *where)
{
    const json_t *expected = json_object_get(one, name);
    char line[4096];
    size_t n = 0;
    if (expected == NULL) {
        return;
    }
    FILE *file = fopen(folder_path("out/metrics.jsonl"), "r");
    cr_assert_not_null(file);
    for (; fgets(line, sizeof line, file) != NULL; n++) {
        json_t *row = json_loads(line, 0, NULL);
        const json_t *found = json_object_get(row, key);
        double want = json_number_value(json_array_get(expected, n)), got = json_number_value(found);
        cr_expect(json_is_number(found) && fabs(got - want) <= tolerance * fabs(want),
                  "%s: %s of epoch %zu is %.9g, expected %.9g", where, key, n, got, want);
        json_decref(row);
    }
    fclose(file);
    cr_expect_eq(n, json_array_size(expected), "%s: %zu lines of metrics", where, n);
}

/* Rows of the initial weights; nothing where the case has none. */
static void logits_check(const json_t *one, const struct layout *layout, const char *where)
{
    const json_t *expected = json_object_get(one, "logits");
    struct npy npy;
    if (expected == NULL) {
        return;
    }
    job_run(one, layout, 0, "", where);
    cr_assert_eq(npy_open(folder_path("out/logits.npy"), &npy), STATUS_OK, "%s", status_reason());
    cr_assert_eq((size_t)npy.n_value, json_array_size(expected));
    double *truth = numbers_of(expected), error = relative_error(npy.data, truth, npy.n_value);
    cr_expect(error <= TOLERANCE_ARRAY, "%s: logits are off by %.1e", where, error);
    npy_close(&npy);
    free(truth);
}

/* Initial weights less those after a step of SGD with rate 1, each tensor against its gradient, relative to all gradients;
 * nothing where the case has none. */
static void gradients_check(const json_t *one, const struct layout *layout, const char *where)
{
    const json_t *expected = json_object_get(one, "gradients");
    struct safetensor init[WEIGHT_MOST] = {{0}}, after[WEIGHT_MOST] = {{0}};
    if (expected == NULL) {
        return;
    }
    int n = weights_make(json_object_get(one, "shapes"), init);
    weights_make(json_object_get(one, "shapes"), after);
    job_run(one, layout, 1, "optimizer = \"sgd\"\nlr = 1.0", where);
    cr_assert_eq(safetensors_load(folder_path("out/model.safetensors"), after, (size_t)n), STATUS_OK, "%s",
                 status_reason());
    double errors[WEIGHT_MOST] = {0}, all = 0.0;
    for (int t = 0; t < n; t++) {
        const json_t *gradient = json_object_get(expected, init[t].name);
        const size_t size = json_array_size(gradient);
        double *truth = numbers_of(gradient);
        for (size_t i = 0; i < size; i++) {
            errors[t] += pow((double)init[t].data[i] - (double)after[t].data[i] - truth[i], 2.0);
            all += truth[i] * truth[i];
        }
        free(truth);
    }
    for (int t = 0; t < n; t++) {
        double error = sqrt(errors[t] / all);
        cr_expect(error <= TOLERANCE_ARRAY, "%s: the gradient of %s is off by %.1e", where, init[t].name, error);
    }
    weights_free(init, n);
    weights_free(after, n);
}

static void cases_run(const char *path)
{
    json_error_t error;
    json_t *cases = json_load_file(path, 0, &error);
    cr_assert_not_null(cases, "%s:%d: %s", path, error.line, error.text);
    cr_assert_gt(json_array_size(cases), 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        char graph[PATH_MAX];
        const json_t *one = json_array_get(cases, i);
        graph_find(one, graph);
        case_write(graph, one);
        for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
            char where[256];
            if (ways_skip(l, sizeof layouts / sizeof *layouts)) {
                continue;
            }
            snprintf(where, sizeof where, "%s, %s, %d parts, %d workers",
                     json_string_value(json_object_get(one, "name")), layouts[l].device, layouts[l].parts,
                     layouts[l].workers);
            logits_check(one, &layouts[l], where);
            gradients_check(one, &layouts[l], where);
            job_run(one, &layouts[l], json_array_size(json_object_get(one, "losses")), text_of(one, "train", ""),
                    where);
            column_check(one, "losses", "loss", TOLERANCE_LOSS, where);
            column_check(one, "norms", "grad_norm", TOLERANCE_ARRAY, where);
            column_check(one, "rates", "lr", TOLERANCE_SCORE, where);
            column_check(one, "valid", "valid_metric", TOLERANCE_LOSS, where);
        }
    }
    json_decref(cases);
}

Test(golden_training, losses_norms_rates_and_metrics_are_those_of_pytorch)
{
    cases_run("tests/golden/training.json");
}

Test(golden_training,
     weighted_sums_rows_of_nodes_own_and_features_of_edges_have_the_losses_of_their_formulas_in_pytorch)
{
    cases_run("tests/golden/layers.json");
}

Test(golden_training, every_kind_of_layer_has_the_losses_of_its_formula_where_all_edges_lead_downstream)
{
    cases_run("tests/golden/directed.json");
}

Test(golden_training, texts_that_no_kind_has_have_the_logits_gradients_and_losses_of_pytorch_geometrics_modules)
{
    cases_run("tests/golden/programs.json");
}
