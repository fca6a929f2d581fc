/* Predictions with trained models, from their job files to their files: bits, memory, other graphs, what is refused. */
#include "partition/files/npy.h"
#include "partition/files/npy_header.h"
#include "protocol/files/safetensors.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SBM "generator = \"sbm\"\nnodes = 400\ndegree = 6\nfeatures = 24\nclasses = 4\ntrain_share = 0.2\n"

JOB_SUITE(predict, 900,
          "name = \"s\"\n[dataset]\n" SBM "[partition]\nparts = 5\ncache = \"off\"\n[model]\nhidden = 8\n"
          "dropout = 0.3\n[train]\nepochs = 5\nlr = 0.1\n[workers]\ncount = 2\nthreads = 1\n");

/* Planned and measured agree for each worker, in each category that both have, and nothing was taken while the model ran. */
static void expect_memory(const char *dir, const char *what)
{
    json_t *result = results_of(dir);
    results_expect_memory(result, "all", what);
    cr_assert_eq(results_number(result, "allocations_in_epochs"), 0, "%s", what);
    json_decref(result);
}

static const struct {
    const char *train, *predict; /* settings of both; of the prediction alone */
} cases[] = {
    {"--set model.kind=gcn", ""},
    {"--set model.kind=gcn --set dataset.undirected=no", "--set workers.threads=2"},
    {"--set model.kind=sage --set model.aggregator=max", ""},
    {"--set model.kind=gin --set model.norm=batch --set model.layers=3", "--set exchange.schedule=halo"},
    {"--set model.kind=gat --set model.heads=2 --set dataset.undirected=no", ""},
    {"--set model.kind=transformer", "--set exchange.prefetch=3"},
    {"--set model.kind=rgcn", ""},
    {"--set model.kind=gcn --set train.prune=always", ""},
    {"--set model.kind=gcn --set train.prune=always --set dataset.train_share=0.02 --set dataset.undirected=no", ""},
    {"--set model.kind=gcn --set model.norm=batch --set exchange.sampling=0.3", ""},
    {"--set model.kind=gcn --set exchange.codec=int4 --set exchange.guard_every=2", ""},
    {"--set model.kind=sage --set exchange.stale=1", ""},
    {"--set model.kind=gcn --set exchange.plain=true", ""},
    {"--set model.kind=gcn --set model.label_input=true", ""},
    {"--set model.kind=gcn --set dataset.labels_per_node=2", ""},
    {"--set model.kind=gat", "--set memory.spill=."},
};

Test(predict, the_logits_of_the_same_graph_and_parts_are_the_trainings_bit_for_bit)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (ways_skip(i, sizeof cases / sizeof *cases)) {
            continue;
        }
        char out[32];
        snprintf(out, sizeof out, "o%zu", i);
        job_run("%s --set output.dir=%s", cases[i].train, out);
        for (int n_worker = 1; n_worker <= 3; n_worker += 2) {
            char to[48];
            snprintf(to, sizeof to, "%s-%d", out, n_worker);
            job_run("%s --set predict.model=%s --set workers.count=%d --set output.dir=%s %s", cases[i].train, out,
                    n_worker, to, cases[i].predict);
            results_expect_same_file(folder_path(out), folder_path(to), "logits.npy");
            expect_memory(to, cases[i].train);
        }
    }
}

Test(predict, takes_a_fraction_of_the_memory_of_training)
{
    job_run("--set model.layers=4 --set model.hidden=64 --set output.dir=o");
    job_run("--set predict.model=o --set output.dir=p");
    json_t *trained = results_of("o"), *predicted = results_of("p");
    for (size_t rank = 0; rank < 2; rank++) {
        static const char *const categories[] = {"parameters", "activations"};
        for (int c = 0; c < 2; c++) {
            json_t *of[] = {json_array_get(json_object_get(trained, "memory"), rank),
                            json_array_get(json_object_get(predicted, "memory"), rank)};
            double train = results_number(json_object_get(of[0], "measured"), categories[c]);
            double predict = results_number(json_object_get(of[1], "measured"), categories[c]);
            cr_expect_lt(predict, 0.6 * train, "%s: %.0f bytes, of training %.0f", categories[c], predict, train);
        }
    }
    json_decref(predicted);
    json_decref(trained);
}

Test(predict, attention_keeps_nothing_for_a_backward_pass)
{
    job_run("--set model.kind=gat --set model.hidden=64 --set partition.parts=1 --set workers.count=1 --set "
            "output.dir=o");
    job_run("--set predict.model=o --set partition.parts=1 --set workers.count=1 --set output.dir=p");
    json_t *result = results_of("p");
    const json_t *memory = json_array_get(json_object_get(result, "memory"), 0);
    double bytes = results_number(json_object_get(memory, "measured"), "activations");
    cr_expect_lt(bytes, 2.5 * 400 * 64 * sizeof(float), "%.0f bytes, expected the rows of one layer and of the next",
                 bytes);
    json_decref(result);
    expect_memory("p", "attention");
}

/* --- the files --- */

static struct npy array_of(const char *path)
{
    struct npy npy;
    cr_assert_eq(npy_open(folder_path(path), &npy), STATUS_OK, "%s", status_reason());
    return npy;
}

/* A ring whose labels are numbers: one or several a node. */
static void numbers_write(int64_t n_column)
{
    enum { N = 60 };
    static int64_t edges[2][N], train[N / 2], valid[N / 4];
    static float features[N][3], labels[N * 2];
    for (int64_t i = 0; i < N; i++) {
        edges[0][i] = i;
        edges[1][i] = (i + 1) % N;
        for (int64_t c = 0; c < 3; c++) {
            features[i][c] = sinf((float)(i * (c + 1)));
        }
        for (int64_t k = 0; k < n_column; k++) {
            labels[i * n_column + k] = i % 7 == 3 && k == 1 ? NAN : 3.0F * features[i][k] - 1.5F;
        }
    }
    for (int64_t i = 0; i < N / 4; i++) {
        train[2 * i] = 4 * i;
        train[2 * i + 1] = 4 * i + 1;
        valid[i] = 4 * i + 2;
    }
    const int64_t pair[] = {2, N}, rows[] = {N, n_column}, wide[] = {N, 3}, n_train = N / 2, n_valid = N / 4;
    cr_assert_eq(npy_save(folder_path("edges.npy"), NPY_TYPE_I64, 2, pair, edges), STATUS_OK);
    cr_assert_eq(npy_save(folder_path("features.npy"), NPY_TYPE_F32, 2, wide, features), STATUS_OK);
    cr_assert_eq(npy_save(folder_path("labels.npy"), NPY_TYPE_F32, n_column > 1 ? 2 : 1, rows, labels), STATUS_OK);
    cr_assert_eq(npy_save(folder_path("train_idx.npy"), NPY_TYPE_I64, 1, &n_train, train), STATUS_OK);
    cr_assert_eq(npy_save(folder_path("valid_idx.npy"), NPY_TYPE_I64, 1, &n_valid, valid), STATUS_OK);
}

/* Of errors the least is the best. */
static void expect_least(const char *dir, double best)
{
    json_t *epochs = results_epochs(folder_path(dir));
    cr_expect_eq(json_array_size(epochs), 5);
    for (size_t e = 0; e < json_array_size(epochs); e++) {
        cr_expect_geq(results_number(json_array_get(epochs, e), "valid_metric"), best, "epoch %zu", e);
    }
    json_decref(epochs);
}

#define NUMBERS "--set dataset.generator=none --set dataset.path=. --set train.loss=huber"

Test(predict, numbers_are_predicted_as_they_are)
{
    for (int64_t n_column = 1; n_column <= 2; n_column++) {
        numbers_write(n_column);
        job_run(NUMBERS " --set train.metric=rmse --set output.dir=o%d", (int)n_column);
        job_run(NUMBERS " --set predict.model=o%d --set workers.count=1 --set output.dir=p%d", (int)n_column,
                (int)n_column);
        char path[32];
        snprintf(path, sizeof path, "o%d", (int)n_column);
        json_t *trained = results_of(path);
        cr_expect_eq(results_number(json_object_get(trained, "dataset"), "outputs"), (double)n_column);
        cr_expect_null(json_object_get(json_object_get(trained, "dataset"), "classes"));
        cr_expect(json_is_null(json_object_get(trained, "confusion")));
        cr_expect_str_eq(json_string_value(json_object_get(trained, "metric")), "rmse");
        double valid = results_number(json_object_get(trained, "best"), "valid_metric");
        expect_least(path, valid);
        snprintf(path, sizeof path, "p%d", (int)n_column);
        json_t *predicted = results_of(path);
        cr_expect_eq(results_number(json_object_get(predicted, "metrics"), "valid"), valid,
                     "the same weights, rows and parts");
        snprintf(path, sizeof path, "p%d/predictions.npy", (int)n_column);
        struct npy found = array_of(path);
        snprintf(path, sizeof path, "p%d/logits.npy", (int)n_column);
        struct npy logits = array_of(path);
        cr_expect(found.type == NPY_TYPE_F32 && found.rank == (n_column > 1 ? 2 : 1) &&
                  found.n_value == 60 * n_column);
        cr_expect_arr_eq(found.data, logits.data, (size_t)found.n_value * sizeof(float));
        npy_close(&logits);
        npy_close(&found);
        json_decref(predicted);
        json_decref(trained);
    }
}

Test(predict, probabilities_are_those_of_the_training_and_models_of_numbers_have_no_such)
{
    job_run("--set output.dir=o --set output.probabilities=true");
    job_run("--set predict.model=o --set output.dir=p --set output.probabilities=true --set workers.count=1");
    results_expect_same_file(folder_path("o"), folder_path("p"), "probabilities.npy");
    json_t *trained = results_of("o"), *predicted = results_of("p");
    const json_t *errors = json_object_get(trained, "calibration_error");
    cr_expect(results_number(errors, "valid") > 0.0 && results_number(errors, "test") > 0.0);
    cr_expect(json_equal(errors, json_object_get(predicted, "calibration_error")));
    json_decref(predicted);
    json_decref(trained);
    numbers_write(1);
    job_run(NUMBERS " --set output.dir=o");
    int code = job_run_code("", "--set dataset.generator=none --set dataset.path=. --set predict.model=o --set "
                                "output.dir=p --set output.probabilities=true");
    cr_expect_eq(code, 78, "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "output.probabilities does not go with 'o/best.safetensors'"), "%s",
                       job_run_log);
}

Test(predict, a_node_s_class_is_the_first_of_its_greatest_logits)
{
    job_run("--set output.dir=o");
    job_run("--set predict.model=o --set output.dir=p");
    struct npy logits = array_of("p/logits.npy"), classes = array_of("p/predictions.npy");
    cr_assert(classes.type == NPY_TYPE_I64 && classes.rank == 1 && classes.n_value == 400 && logits.shape[1] == 4);
    for (int64_t node = 0; node < 400; node++) {
        int64_t best = 0;
        for (int64_t k = 1; k < 4; k++) {
            best = npy_real(&logits, 4 * node + k) > npy_real(&logits, 4 * node + best) ? k : best;
        }
        cr_assert_eq(npy_int(&classes, node), best, "node %ld", (long)node);
    }
    npy_close(&classes);
    npy_close(&logits);
    json_t *result = results_of("p"), *trained = results_of("o"), *metrics = json_object_get(result, "metrics");
    const json_t *best = json_object_get(trained, "best");
    cr_assert_eq(results_number(metrics, "test"), results_number(best, "test_metric"));
    cr_assert_eq(results_number(metrics, "train"), results_number(best, "train_metric"));
    cr_assert(json_is_null(json_object_get(metrics, "other")));
    cr_assert_gt(results_number(metrics, "all"), 0.0);
    /* metrics.jsonl, logits.npy, predictions.npy, and the splits, which were drawn */
    cr_assert_eq(json_object_size(json_object_get(result, "files")), 3 + 3);
    json_decref(trained);
    json_decref(result);
}

Test(predict, of_several_labels_each_is_there_where_its_probability_is_above_a_half)
{
    job_run("--set output.dir=o --set dataset.labels_per_node=2 --set train.epochs=60");
    job_run("--set predict.model=o --set output.dir=p --set dataset.labels_per_node=2");
    struct npy logits = array_of("p/logits.npy"), labels = array_of("p/predictions.npy");
    int64_t n = 0;
    cr_assert(labels.type == NPY_TYPE_U8 && labels.rank == 2 && labels.shape[0] == 400 && labels.shape[1] == 4);
    for (int64_t i = 0; i < 4 * 400; i++) {
        cr_assert_eq(npy_int(&labels, i), npy_real(&logits, i) > 0.0, "number %ld", (long)i);
        n += npy_int(&labels, i);
    }
    cr_assert(n > 0 && n < 4 * 400, "%ld labels: the test shows nothing", (long)n);
    npy_close(&labels);
    npy_close(&logits);
}

/* relu of the first layer's output through the linear layer behind it: the logits. */
Test(predict, embeddings_are_what_norm_and_activation_make_of_a_layer_where_they_are_asked_for)
{
    static float scale[8], shift[8], other[4][8 * 24];
    const struct safetensor tensors[] = {
        {.name = "norms.0.weight", .n_dim = 1, .shape = {8}, .data = scale},
        {.name = "norms.0.bias", .n_dim = 1, .shape = {8}, .data = shift},
        {.name = "convs.0.lin.weight", .n_dim = 2, .shape = {8, 24}, .data = other[0]},
        {.name = "convs.0.bias", .n_dim = 1, .shape = {8}, .data = other[1]},
        {.name = "convs.1.lin.weight", .n_dim = 2, .shape = {4, 8}, .data = other[2]},
        {.name = "convs.1.bias", .n_dim = 1, .shape = {4}, .data = other[3]}};
    static const char *const layers[] = {"convs.0", "norms.0", "acts.0"};
    struct npy rows[3];
    job_run("--set output.dir=o --set model.norm=layer");
    for (int i = 0; i < 3; i++) {
        char path[32];
        job_run("--set predict.model=o --set output.dir=p%d --set output.embeddings=%s --set workers.count=%d", i,
                layers[i], 1 + i);
        snprintf(path, sizeof path, "p%d", i);
        expect_memory(path, layers[i]);
        snprintf(path, sizeof path, "p%d/embeddings.npy", i);
        rows[i] = array_of(path);
        cr_assert(rows[i].shape[0] == 400 && rows[i].shape[1] == 8);
    }
    cr_assert_eq(safetensors_load(folder_path("o/best.safetensors"), tensors, 6), STATUS_OK, "%s", status_reason());
    for (int64_t i = 0; i < 400; i++) {
        double mean = 0.0, variance = 0.0;
        for (int64_t k = 0; k < 8; k++) {
            mean += npy_real(&rows[0], 8 * i + k) / 8.0;
        }
        for (int64_t k = 0; k < 8; k++) {
            variance += pow(npy_real(&rows[0], 8 * i + k) - mean, 2.0) / 8.0;
        }
        for (int64_t k = 0; k < 8; k++) {
            double norm = npy_real(&rows[1], 8 * i + k);
            double wanted = (npy_real(&rows[0], 8 * i + k) - mean) / sqrt(variance + 1e-5) * scale[k] + shift[k];
            cr_assert_float_eq(norm, wanted, 1e-4, "norm, row %ld, column %ld", (long)i, (long)k);
            cr_assert_eq(npy_real(&rows[2], 8 * i + k), fmax(norm, 0.0), "activation, row %ld, column %ld", (long)i,
                         (long)k);
        }
    }
    for (int i = 0; i < 3; i++) {
        npy_close(&rows[i]);
    }
}

Test(predict, embeddings_are_a_layers_output_before_its_activation)
{
    static float first[8 * 24], first_bias[8], weight[4 * 8], bias[4];
    const struct safetensor tensors[] = {{.name = "convs.0.lin.weight", .n_dim = 2, .shape = {8, 24}, .data = first},
                                         {.name = "convs.0.bias", .n_dim = 1, .shape = {8}, .data = first_bias},
                                         {.name = "lins.0.weight", .n_dim = 2, .shape = {4, 8}, .data = weight},
                                         {.name = "lins.0.bias", .n_dim = 1, .shape = {4}, .data = bias}};
    job_run("--set output.dir=o --set model.linear_layers=1");
    job_run("--set predict.model=o --set output.dir=p --set output.embeddings=convs.0 --set workers.count=3");
    cr_assert_eq(safetensors_load(folder_path("o/best.safetensors"), tensors, 4), STATUS_OK, "%s", status_reason());
    struct npy logits = array_of("p/logits.npy"), rows = array_of("p/embeddings.npy");
    bool any_below = false;
    cr_assert(rows.type == NPY_TYPE_F32 && rows.rank == 2 && rows.shape[0] == 400 && rows.shape[1] == 8);
    for (int64_t i = 0; i < 4 * 400; i++) {
        double sum = bias[i % 4];
        for (int64_t k = 0; k < 8; k++) {
            double value = npy_real(&rows, i / 4 * 8 + k);
            any_below = any_below || value < 0.0;
            sum += fmax(value, 0.0) * weight[i % 4 * 8 + k];
        }
        cr_assert_float_eq(npy_real(&logits, i), sum, 1e-4, "logit %ld", (long)i);
    }
    cr_assert(any_below);
    npy_close(&rows);
    npy_close(&logits);
    expect_memory("p", "embeddings");
    job_run("--set predict.model=o --set output.dir=last --set output.embeddings=lins.0");
    results_expect_same_file(folder_path("last"), folder_path("p"), "logits.npy");
    size_t n_logits, n_last;
    char *a = results_bytes(folder_path("last/logits.npy"), &n_logits),
         *b = results_bytes(folder_path("last/embeddings.npy"), &n_last);
    cr_assert(n_logits == n_last && memcmp(a, b, n_last) == 0, "the last layer's output are the logits");
    free(a);
    free(b);
}

/* --- other graphs --- */

#define N_OTHER 50
#define N_LABELLED 20

static void array_write(const char *name, enum npy_type type, int n_dim, const int64_t *shape, const void *values,
                        size_t n)
{
    char header[256];
    size_t n_header = npy_header_write(type, n_dim, shape, header, sizeof header);
    FILE *file = fopen(folder_path(name), "wb");
    cr_assert(file != NULL && fwrite(header, 1, n_header, file) == n_header && fwrite(values, 1, n, file) == n, "%s",
              name);
    fclose(file);
}

/* The folder g: a circle with chords and features of 24 columns; with labels, but for no more than N_LABELLED nodes. */
static void other_graph_write(bool with_labels)
{
    static int64_t edges[2][2 * N_OTHER], labels[N_OTHER];
    static float features[N_OTHER][24];
    for (int64_t v = 0; v < N_OTHER; v++) {
        edges[0][v] = v;
        edges[1][v] = (v + 1) % N_OTHER;
        edges[0][N_OTHER + v] = v;
        edges[1][N_OTHER + v] = (7 * v + 3) % N_OTHER;
        labels[v] = v < N_LABELLED ? 1 : -1;
        for (int k = 0; k < 24; k++) {
            features[v][k] = sinf((float)(24 * v + k));
        }
    }
    cr_assert_eq(mkdir(folder_path("g"), 0777), 0);
    array_write("g/edges.npy", NPY_TYPE_I64, 2, (const int64_t[]){2, 2 * N_OTHER}, edges, sizeof edges);
    array_write("g/features.npy", NPY_TYPE_F32, 2, (const int64_t[]){N_OTHER, 24}, features, sizeof features);
    if (with_labels) {
        array_write("g/labels.npy", NPY_TYPE_I64, 1, (const int64_t[]){N_OTHER}, labels, sizeof labels);
    }
}

#define OTHER "--set dataset.generator=none --set dataset.path=g "

Test(predict, another_graph_needs_neither_labels_nor_splits)
{
    job_run("--set output.dir=o --set dataset.undirected=yes --set dataset.normalize_features=row");
    other_graph_write(false);
    job_run("--set predict.model=o " OTHER "--set output.dir=p");
    cr_assert_not_null(strstr(job_run_log, "50 nodes predicted; no accuracy: the data set has no labels"), "%s",
                       job_run_log);
    json_t *result = results_of("p"), *metrics = json_object_get(result, "metrics"),
           *job = json_object_get(result, "job");
    cr_assert(json_is_null(json_object_get(metrics, "all")) && json_is_null(json_object_get(metrics, "test")));
    const json_t *dataset = json_object_get(job, "dataset");
    cr_assert_str_eq(json_string_value(json_object_get(dataset, "undirected")), "yes", "the model's");
    cr_assert_str_eq(json_string_value(json_object_get(dataset, "normalize_features")), "row", "the model's");
    json_decref(result);
    job_run("--set predict.model=o " OTHER "--set output.dir=q --set workers.count=5");
    results_expect_same_file(folder_path("p"), folder_path("q"), "logits.npy");
}

Test(predict, labels_outside_of_all_splits_are_scored)
{
    job_run("--set output.dir=o");
    other_graph_write(true);
    job_run("--set predict.model=o " OTHER "--set output.dir=p");
    struct npy classes = array_of("p/predictions.npy");
    double n_right = 0.0;
    for (int64_t node = 0; node < N_LABELLED; node++) {
        n_right += npy_int(&classes, node) == 1;
    }
    npy_close(&classes);
    json_t *result = results_of("p"), *metrics = json_object_get(result, "metrics");
    cr_assert_eq(results_number(metrics, "other"), n_right / N_LABELLED);
    cr_assert_eq(results_number(metrics, "all"), n_right / N_LABELLED);
    json_decref(result);
}

static void expect_refused(int code, const char *settings, const char *reason)
{
    cr_assert_eq(job_run_code("", "%s", settings), code, "%s", job_run_log);
    cr_assert_not_null(strstr(job_run_log, reason), "%s", job_run_log);
}

Test(predict, what_cannot_be_predicted_is_refused_with_the_reason)
{
    job_run("--set output.dir=o");
    expect_refused(65, "--set predict.model=o --set dataset.features=25 --set output.dir=p",
                   "dataset 'sbm' has 25 feature columns, expected 24, as many as the model in 'o' was trained with");
    expect_refused(66, "--set predict.model=nowhere --set output.dir=p",
                   "predict.model: 'nowhere': No such file or directory");
    expect_refused(78, "--set predict.model=o --set output.dir=p --set output.embeddings=convs.7",
                   "the model has no layer of that name, expected one of convs.0, acts.0, convs.1");
    expect_refused(
        78, "--set predict.model=o --set output.dir=o",
        "output.dir = 'o' has the results of a training, which those of a prediction would replace: expected another "
        "folder, as in --set output.dir=o-predict");
    expect_refused(2, "--set predict.model=o --set output.dir=p --resume", "a prediction has no checkpoints");
    cr_assert_not(folder_has("p"));
    job_run("--set predict.model=o --set output.dir=p");
    expect_refused(66, "--set predict.model=p --set output.dir=q",
                   "has neither best.safetensors nor model.safetensors");
}

Test(predict, without_output_dir_its_runs_have_a_link_of_their_own)
{
    char target[128] = "";
    job_run("--set train.epochs=2");
    job_run("--set predict.model=runs/s");
    job_run("--set predict.model=runs/s");
    results_expect_same_file(folder_path("runs/s"), folder_path("runs/s-predict"), "logits.npy");
    cr_assert_gt(readlink(folder_path("runs/s-predict"), target, sizeof target - 1), 0);
    cr_assert_eq(strncmp(target, "s-predict-", 10), 0, "%s", target);
    json_t *result = results_of("runs/s-predict"), *model = json_object_get(result, "model");
    cr_assert_not_null(strstr(json_string_value(json_object_get(model, "folder")), "/runs/s-2"),
                       "the run, not the link to it");
    json_decref(result);
}

Test(predict, its_plan_has_no_step_of_training)
{
    job_run("--set output.dir=o");
    json_t *plan = job_run_plan("--steps --set predict.model=o --set workers.count=2");
    json_t *worker = json_array_get(json_object_get(plan, "workers"), 0), *step;
    size_t i;
    cr_assert_eq(results_number(plan, "bytes_per_epoch"), 0);
    cr_assert_gt(results_number(plan, "bytes_per_evaluation"), 0);
    json_array_foreach(json_object_get(worker, "steps"), i, step)
    {
        const char *phase = json_string_value(json_object_get(step, "phase"));
        const char *what = json_string_value(json_object_get(step, "what"));
        cr_assert(strcmp(phase, "static") == 0 || strcmp(phase, "evaluate") == 0, "%s", phase);
        cr_assert_null(strstr(what, "backward"), "%s", what);
    }
    cr_assert_gt(i, 3);
    json_decref(plan);
}
