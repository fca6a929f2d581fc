/* Metrics of whole jobs against their definitions, which this file has in the plainest form: each metric of train.metrics, by metrics.jsonl
 * and result.json, and the loss of the validation nodes, from the job's own logits.npy.
 * source  scikit-learn's accuracy_score, f1_score, roc_auc_score, average_precision_score, r2_score, root_mean_squared_error,
 *         mean_absolute_error; torch.nn.functional's cross_entropy, binary_cross_entropy_with_logits, mse_loss
 */
#include "partition/files/npy.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define N_NODE 90
#define N_EDGE 400
#define N_FEATURE 6
#define COLUMNS_MOST 3

/* Labels as columns of 0 and 1, or of numbers; NaN: there is none. */
static double truth[N_NODE][COLUMNS_MOST];
static int n_column;
static bool is_single; /* one label a node: its column is 1 */
static double scores[N_NODE][COLUMNS_MOST];

static uint32_t state = 12345;

static uint32_t drawn(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

static int split_of(int node)
{
    return node % 3; /* 0 train, 1 valid, 2 test */
}

static void array_save(const char *name, enum npy_type type, int64_t rows, int64_t columns, const void *data)
{
    const int64_t shape[] = {rows, columns};
    cr_assert_eq(npy_save(folder_path(name), type, columns > 0 ? 2 : 1, shape, data), STATUS_OK, "%s",
                 status_reason());
}

/* A graph with features that say a little of the labels. */
static void data_save(void)
{
    static int64_t edges[2][N_EDGE], index[3][N_NODE / 3];
    static float features[N_NODE][N_FEATURE];
    for (int e = 0; e < N_EDGE; e++) {
        edges[0][e] = drawn(N_NODE);
        edges[1][e] = drawn(N_NODE);
    }
    for (int i = 0; i < N_NODE; i++) {
        index[split_of(i)][i / 3] = i;
        for (int f = 0; f < N_FEATURE; f++) {
            features[i][f] = (float)drawn(100) / 50.0F - 1.0F + (f < n_column ? 0.7F * (float)truth[i][f] : 0.0F);
        }
    }
    mkdir(folder_path("data"), 0777);
    array_save("data/edges.npy", NPY_TYPE_I64, 2, N_EDGE, edges);
    array_save("data/features.npy", NPY_TYPE_F32, N_NODE, N_FEATURE, features);
    array_save("data/train_idx.npy", NPY_TYPE_I64, N_NODE / 3, 0, index[0]);
    array_save("data/valid_idx.npy", NPY_TYPE_I64, N_NODE / 3, 0, index[1]);
    array_save("data/test_idx.npy", NPY_TYPE_I64, N_NODE / 3, 0, index[2]);
    if (is_single) {
        int64_t labels[N_NODE];
        for (int i = 0; i < N_NODE; i++) {
            labels[i] = truth[i][1] > 0.5;
        }
        array_save("data/labels.npy", NPY_TYPE_I64, N_NODE, 0, labels);
        return;
    }
    static float rows[N_NODE * COLUMNS_MOST];
    for (int i = 0; i < N_NODE * n_column; i++) {
        rows[i] = (float)truth[i / n_column][i % n_column];
    }
    array_save("data/labels.npy", NPY_TYPE_F32, N_NODE, n_column, rows);
}

static void make_all(void)
{
    folder_make();
}

TestSuite(metrics, .init = make_all, .fini = folder_remove, .timeout = 900);

/* --- definitions --- */

static bool is_positive(int node, int column)
{
    if (!is_single) {
        return scores[node][column] > 0.0;
    }
    int best = 0;
    for (int k = 1; k < n_column; k++) {
        best = scores[node][k] > scores[node][best] ? k : best;
    }
    return column == best;
}

static double accuracy(int split)
{
    double n = 0.0, n_right = 0.0;
    for (int i = 0; i < N_NODE; i++) {
        bool right = split_of(i) == split;
        n += right;
        for (int k = 0; k < n_column; k++) {
            right = right && is_positive(i, k) == (truth[i][k] > 0.5);
        }
        n_right += right;
    }
    return n_right / n;
}

/* Of one column, or of all together (column < 0): 2 tp / (2 tp + fp + fn). */
static double f1(int split, int column)
{
    double twice = 0.0, wrong = 0.0;
    for (int i = 0; i < N_NODE; i++) {
        for (int k = 0; k < n_column; k++) {
            bool counts = split_of(i) == split && (column < 0 || k == column);
            bool said = is_positive(i, k), is = truth[i][k] > 0.5;
            twice += counts && said && is ? 2.0 : 0.0;
            wrong += counts && said != is ? 1.0 : 0.0;
        }
    }
    return twice + wrong > 0.0 ? twice / (twice + wrong) : 0.0;
}

static double micro_f1(int split)
{
    return f1(split, -1);
}

static double macro_f1(int split)
{
    double sum = 0.0;
    for (int k = 0; k < n_column; k++) {
        sum += f1(split, k);
    }
    return sum / n_column;
}

/* What a column is ranked by: of two classes the difference of their logits. */
static float rank_of(int node, int column)
{
    return is_single ? (float)scores[node][1] - (float)scores[node][0] : (float)scores[node][column];
}

/* The chance that a positive is above a negative; equal ones count half. */
static double area_of(int split, int column)
{
    double n = 0.0, n_above = 0.0;
    for (int i = 0; i < N_NODE; i++) {
        for (int j = 0; j < N_NODE; j++) {
            if (split_of(i) == split && split_of(j) == split && truth[i][column] > 0.5 && truth[j][column] < 0.5) {
                float a = rank_of(i, column), b = rank_of(j, column);
                n += 1.0;
                n_above += a > b ? 1.0 : a == b ? 0.5 : 0.0;
            }
        }
    }
    return n_above / n;
}

/* The mean over the positives of the precision among those at or above them. */
static double precision_of(int split, int column)
{
    double n_positive = 0.0, sum = 0.0;
    for (int i = 0; i < N_NODE; i++) {
        double n_above = 0.0, n_right = 0.0;
        for (int j = 0; j < N_NODE; j++) {
            bool above = split_of(j) == split && rank_of(j, column) >= rank_of(i, column);
            n_above += above;
            n_right += above && truth[j][column] > 0.5;
        }
        bool counts = split_of(i) == split && truth[i][column] > 0.5;
        n_positive += counts;
        sum += counts ? n_right / n_above : 0.0;
    }
    return sum / n_positive;
}

/* Of two classes the second's; of several labels the mean. */
static double mean_of(double (*of)(int split, int column), int split)
{
    double sum = 0.0;
    for (int k = 0; k < n_column && !is_single; k++) {
        sum += of(split, k) / n_column;
    }
    return is_single ? of(split, 1) : sum;
}

static double roc_auc(int split)
{
    return mean_of(area_of, split);
}

static double average_precision(int split)
{
    return mean_of(precision_of, split);
}

static double r2_of(int split, int column)
{
    double n = 0.0, mean = 0.0, error = 0.0, spread = 0.0;
    for (int i = 0; i < N_NODE; i++) {
        n += split_of(i) == split ? 1.0 : 0.0;
        mean += split_of(i) == split ? truth[i][column] : 0.0;
    }
    for (int i = 0; i < N_NODE; i++) {
        if (split_of(i) == split) {
            error += pow(scores[i][column] - truth[i][column], 2.0);
            spread += pow(truth[i][column] - mean / n, 2.0);
        }
    }
    return 1.0 - error / spread;
}

static double power_of(int split, int column, double power)
{
    double n = 0.0, sum = 0.0;
    for (int i = 0; i < N_NODE; i++) {
        n += split_of(i) == split ? 1.0 : 0.0;
        sum += split_of(i) == split ? pow(fabs(scores[i][column] - truth[i][column]), power) : 0.0;
    }
    return sum / n;
}

static double rmse_of(int split, int column)
{
    return sqrt(power_of(split, column, 2.0));
}

static double mae_of(int split, int column)
{
    return power_of(split, column, 1.0);
}

static double r2(int split)
{
    return mean_of(r2_of, split);
}

static double rmse(int split)
{
    return mean_of(rmse_of, split);
}

static double mae(int split)
{
    return mean_of(mae_of, split);
}

/* --- losses of the validation nodes --- */

static double cross_entropy(void)
{
    double n = 0.0, sum = 0.0;
    for (int i = 0; i < N_NODE; i++) {
        if (split_of(i) == 1) {
            double all = exp(scores[i][0]) + exp(scores[i][1]);
            sum += log(all) - scores[i][truth[i][1] > 0.5];
            n += 1.0;
        }
    }
    return sum / n;
}

static double bce(void)
{
    double n = 0.0, sum = 0.0;
    for (int i = 0; i < N_NODE; i++) {
        for (int k = 0; k < n_column && split_of(i) == 1; k++) {
            double chance = 1.0 / (1.0 + exp(-scores[i][k]));
            sum -= truth[i][k] > 0.5 ? log(chance) : log(1.0 - chance);
            n += 1.0;
        }
    }
    return sum / n;
}

static double mse(void)
{
    double sum = 0.0;
    for (int k = 0; k < n_column; k++) {
        sum += power_of(1, k, 2.0) / n_column;
    }
    return sum;
}

/* --- jobs --- */

struct definition {
    const char *name;
    double (*of)(int split);
};

static void scores_read(const char *path)
{
    struct npy logits;
    cr_assert_eq(npy_open(folder_path(path), &logits), STATUS_OK, "%s", status_reason());
    cr_assert_eq(logits.n_value, N_NODE * n_column);
    for (int i = 0; i < N_NODE * n_column; i++) {
        scores[i / n_column][i % n_column] = npy_real(&logits, i);
    }
    npy_close(&logits);
}

static void expect_number(const json_t *of, const char *key, double wanted)
{
    double found = results_number(of, key);
    cr_expect_float_eq(found, wanted, 1e-6 * fmax(1.0, fabs(wanted)), "%s: %.12g, by its definition %.12g", key,
                       found, wanted);
}

/* The object has each metric of each split by its name, and the first one as *_metric. */
static void expect_metrics(const json_t *of, const struct definition *metrics, int n, const char *const splits[3])
{
    char key[64];
    for (int split = 0; split < 3; split++) {
        for (int i = 0; i < n; i++) {
            snprintf(key, sizeof key, "%s_%s", splits[split], metrics[i].name);
            expect_number(of, key, metrics[i].of(split));
        }
    }
}

/* A job with these metrics of the data in the folder: what it leaves is what the definitions say, on one worker and on three. */
static void expect_job(const char *loss, const struct definition *metrics, int n, double (*valid_loss)(void))
{
    static const char *const splits[] = {"train", "valid", "test"};
    char text[512], list[256] = "";
    for (int i = 0; i < n; i++) {
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s\"%s\"", i > 0 ? ", " : "", metrics[i].name);
    }
    snprintf(text, sizeof text,
             "[dataset]\npath = \"data\"\n[partition]\nparts = 5\ncache = \"off\"\nmethod = "
             "\"random\"\n[model]\nkind = \"sage\"\n"
             "hidden = 8\n[train]\nloss = \"%s\"\nlr = 0.02\nepochs = 12\nmetrics = [%s]\n[workers]\nthreads = "
             "1\n",
             loss, list);
    folder_write("job.toml", text);
    data_save();
    job_run("--set output.dir=one");
    char said[128];
    snprintf(said, sizeof said, "%s: train ", metrics[0].name);
    cr_expect_not_null(strstr(job_run_log, said), "%s", job_run_log);
    snprintf(said, sizeof said, "%s: valid ", metrics[1].name);
    cr_expect_not_null(strstr(job_run_log, said), "%s", job_run_log);
    job_run("--set output.dir=three --set workers.count=3");
    char one[128], three[128];
    snprintf(one, sizeof one, "%s", folder_path("one"));
    snprintf(three, sizeof three, "%s", folder_path("three"));
    results_expect_same(one, three, false);

    json_t *result = results_of("three"), *best = json_object_get(result, "best");
    json_t *epochs = results_epochs(folder_path("three"));
    json_t *line = json_array_get(epochs, (size_t)results_number(best, "epoch"));
    cr_expect_str_eq(json_string_value(json_object_get(result, "metric")), metrics[0].name);
    cr_expect_str_eq(json_string_value(json_object_get(line, "metric")), metrics[0].name);
    scores_read("three/logits.npy"); /* of the best weights */
    for (int i = 0; i < 2; i++) {
        const json_t *of = i == 0 ? best : line;
        expect_metrics(of, metrics, n, splits);
        expect_number(of, "valid_metric", metrics[0].of(1));
        expect_number(of, "test_metric", metrics[0].of(2));
        expect_number(of, "valid_loss", valid_loss());
    }
    json_decref(epochs);
    json_decref(result);

    job_run("--set predict.model=three --set output.dir=predicted --set workers.count=2");
    result = results_of("predicted");
    expect_metrics(json_object_get(result, "metrics"), metrics, n, splits);
    json_decref(result);
}

Test(metrics, of_two_classes_are_as_they_are_defined)
{
    static const struct definition all[] = {{"roc_auc", roc_auc},
                                            {"accuracy", accuracy},
                                            {"macro_f1", macro_f1},
                                            {"micro_f1", micro_f1},
                                            {"average_precision", average_precision}};
    is_single = true;
    n_column = 2;
    for (int i = 0; i < N_NODE; i++) {
        truth[i][1] = drawn(3) == 0 ? 1.0 : 0.0;
        truth[i][0] = 1.0 - truth[i][1];
    }
    expect_job("cross_entropy", all, 5, cross_entropy);
}

Test(metrics, of_several_labels_are_as_they_are_defined)
{
    static const struct definition all[] = {{"average_precision", average_precision},
                                            {"micro_f1", micro_f1},
                                            {"macro_f1", macro_f1},
                                            {"roc_auc", roc_auc}};
    n_column = 3;
    for (int i = 0; i < N_NODE * 3; i++) {
        truth[i / 3][i % 3] = drawn(3) == 0 ? 1.0 : 0.0;
    }
    expect_job("bce", all, 4, bce);
}

Test(metrics, of_numbers_are_as_they_are_defined)
{
    static const struct definition all[] = {{"rmse", rmse}, {"mae", mae}, {"r2", r2}};
    n_column = 2;
    for (int i = 0; i < N_NODE * 2; i++) {
        truth[i / 2][i % 2] = drawn(1000) / 250.0;
    }
    expect_job("mse", all, 3, mse);
}
