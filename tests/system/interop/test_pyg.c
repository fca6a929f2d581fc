/* Results in PyTorch Geometric: the Python package's load-into-pyg loads the weights into its modules, strictly, and finds the
 * logits that the job wrote. The graph is directed, has loops, repeated edges and nodes nothing points at.
 */
#include "partition/files/npy.h"
#include "protocol/base/status.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/graphs/tiny_graph.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PYTHON                                                                                                       \
    "PYTHONPATH=python:build/python /usr/bin/python3 " /* where scripts/install-deps --test puts the package */

enum { N_NODE = 60, N_EDGE = 320, N_FEATURE = 12, N_CLASS = 4 };

static char trainerd[PATH_MAX];
static char words[1 << 14]; /* what the last command said */

/* Run a shell command printed from a format; its exit code. */
static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int shell(const char *format, ...)
{
    char command[2 * PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    size_t n = (size_t)vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    cr_assert_lt(n + 6, sizeof command);
    strcat(command, " 2>&1");
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    words[fread(words, 1, sizeof words - 1, pipe)] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static void save(const char *name, enum npy_type type, int rank, const int64_t *shape, const void *values)
{
    char path[128];
    snprintf(path, sizeof path, "data/%s", name);
    cr_assert_eq(npy_save(folder_path(path), type, rank, shape, values), STATUS_OK, "%s", status_reason());
}

static void write_features(uint64_t seed)
{
    float features[N_NODE][N_FEATURE];
    for (int i = 0; i < N_NODE; i++) {
        for (int c = 0; c < N_FEATURE; c++) {
            features[i][c] = test_number(seed, (uint64_t)i, (uint32_t)c);
        }
    }
    save("features.npy", NPY_TYPE_F32, 2, (int64_t[]){N_NODE, N_FEATURE}, features);
}

/* The same kind of rows, most of them zeros that are not stored. */
static void write_sparse_features(void)
{
    int64_t indptr[N_NODE + 1] = {0}, columns[N_NODE * N_FEATURE], n = 0;
    float values[N_NODE * N_FEATURE];
    for (int i = 0; i < N_NODE; i++) {
        for (int c = i % 3; c < N_FEATURE && i % 7 != 0; c += 3) {
            columns[n] = c;
            values[n++] = test_number(5, (uint64_t)i, (uint32_t)c);
        }
        indptr[i + 1] = n;
    }
    save("feat_indptr.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE + 1}, indptr);
    save("feat_indices.npy", NPY_TYPE_I64, 1, &n, columns);
    save("feat_data.npy", NPY_TYPE_F32, 1, &n, values);
    cr_assert_eq(unlink(folder_path("data/features.npy")), 0);
    cr_assert_eq(shell("echo '{\"nodes\": %d, \"features\": %d}' > %s/data/meta.json", N_NODE, N_FEATURE, folder), 0);
}

static void write_dataset(void)
{
    int64_t edges[2][N_EDGE], labels[N_NODE], train[N_NODE];
    for (int e = 0; e < N_EDGE; e++) { /* nodes 0 and 1 receive nothing; some edges come twice, some are loops */
        uint64_t row = (uint64_t)(e % (N_EDGE - 10));
        int64_t from = (int64_t)((test_number(1, row, 0) + 1) / 2 * N_NODE);
        int64_t to = 2 + (int64_t)((test_number(1, row, 1) + 1) / 2 * (N_NODE - 2));
        edges[0][e] = from;
        edges[1][e] = e % 40 == 0 && from > 1 ? from : to;
    }
    for (int i = 0; i < N_NODE; i++) {
        labels[i] = i % N_CLASS;
        train[i] = i;
    }
    save("edges.npy", NPY_TYPE_I64, 2, (int64_t[]){2, N_EDGE}, edges);
    save("labels.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE}, labels);
    save("train_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE / 2}, train);
    write_features(2);
}

/* Three relations, among them repeats of one edge in another one. */
static void write_types(void)
{
    int64_t types[N_EDGE];
    for (int e = 0; e < N_EDGE; e++) {
        types[e] = e < 3 ? e : (int64_t)((test_number(6, (uint64_t)e, 0) + 1) / 2 * 3);
    }
    save("edge_type.npy", NPY_TYPE_I64, 1, (int64_t[]){N_EDGE}, types);
}

/* Half of the nodes with rows of their own, half without any. */
static void write_node_types(void)
{
    int64_t types[N_NODE];
    float rows[N_NODE / 2][5];
    for (int i = 0; i < N_NODE; i++) {
        types[i] = i % 2;
        for (int c = 0; c < 5; c++) {
            rows[i / 2][c] = test_number(7, (uint64_t)i, (uint32_t)c);
        }
    }
    save("node_type.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE}, types);
    save("feat_t1.npy", NPY_TYPE_F32, 2, (int64_t[]){N_NODE / 2, 5}, rows);
    cr_assert_eq(unlink(folder_path("data/features.npy")), 0);
}

static void make_all(void)
{
    const struct {
        const char *module, *name;
    } needed[] = {{"torch", "PyTorch"}, {"torch_geometric", "PyTorch Geometric"}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (shell(PYTHON "-c 'from importlib.util import find_spec; exit(find_spec(\"%s\") is None)'",
                  needed[i].module) != 0) {
            cr_skip_test("%s is not there: scripts/install-deps --test", needed[i].name);
        }
    }
    program_find("trainerd", trainerd, sizeof trainerd);
    folder_make();
    cr_assert_eq(mkdir(folder_path("data"), 0700), 0);
    write_dataset();
}

TestSuite(pyg, .init = make_all, .fini = folder_remove, .timeout = 900);

/* Train into a folder with these --set settings, as words of a shell. */
static void train_into(const char *run, const char *settings)
{
    folder_write(
        "job.toml",
        "[dataset]\npath = \"data\"\n[partition]\nparts = 3\ncache = \"off\"\n[model]\nhidden = 16\ndropout = 0.5\n"
        "[train]\nepochs = 10\n[workers]\ncount = 2\nthreads = 1\n");
    cr_assert_eq(shell("cd %s && %s --config job.toml --set output.dir=%s %s", folder, trainerd, run, settings), 0,
                 "%s", words);
}

static void train(const char *settings)
{
    train_into("run", settings);
}

/* Nothing in Python is instrumented, and its share of the time is large: under the sanitizers jobs alone are run. */
static void load_into_pyg(int expected)
{
    if (!SANITIZED) {
        cr_assert_eq(shell(PYTHON "-m trainerd load-into-pyg %s/run %s/data", folder, folder), expected, "%s", words);
        cr_assert(expected == 0 || strstr(words, "logits differ") != NULL, "%s", words);
    }
}

struct model {
    const char *name, *settings;
};

/* All models by one process: to import PyTorch takes longer than to compare a model. */
static void expect_same_logits(const struct model *models, size_t n)
{
    char runs[2048] = "";
    for (size_t m = 0; m < n; m++) {
        train_into(models[m].name, models[m].settings);
        snprintf(runs + strlen(runs), sizeof runs - strlen(runs), " %s", models[m].name);
    }
    if (!SANITIZED) {
        int code = shell("path=$PWD; cd %s; PYTHONPATH=$path/python:$path/build/python /usr/bin/python3 -c '\n"
                         "import sys\n"
                         "from trainerd.__main__ import main\n"
                         "sys.exit(sum((print(run, flush=True) or main([\"load-into-pyg\", run, \"data\"])) != 0\n"
                         "             for run in sys.argv[1:]))' %s",
                         folder, runs);
        cr_assert_eq(code, 0, "%d of %zu models: %s", code, n, words);
        size_t n_loaded = 0;
        for (const char *at = words; (at = strstr(at, "tensors loaded")) != NULL; at++) {
            n_loaded++;
        }
        cr_assert_eq(n_loaded, n, "%s", words);
    }
}
#define EXPECT_SAME_LOGITS(models) expect_same_logits(models, sizeof(models) / sizeof *(models))

static const struct model plain[] = {
    {"gcn", "--set model.kind=gcn --set model.layers=3"},
    {"sage_with_means", "--set model.kind=sage --set model.aggregator=mean"},
    {"sage_with_maxima", "--set model.kind=sage --set model.aggregator=max"},
    {"sage_with_sums", "--set model.kind=sage --set model.aggregator=sum --set model.activation=elu"},
    {"gin_with_a_trained_epsilon", "--set model.kind=gin --set model.learn_eps=true"},
    {"appnp", "--set model.kind=appnp --set model.alpha=0.2"},
    {"gcnii", "--set model.kind=gcnii --set model.layers=5 --set model.alpha=0.2 --set model.theta=1.5"},
    {"gcnii_with_norms_and_residuals",
     "--set model.kind=gcnii --set model.layers=3 --set model.norm=batch --set model.residual=true "
     "--set model.residual_linear=true"},
    {"sgc", "--set model.kind=sgc --set model.steps=3"},
    {"gat", "--set model.kind=gat --set model.heads=3 --set model.hidden=8 --set model.attention_dropout=0.5 --set "
            "model.layers=3"},
    {"gat_with_averaged_heads", "--set model.kind=gat --set model.heads=3 --set model.out_heads=2 --set "
                                "model.hidden=8 --set model.residual=true"},
    {"gatv2", "--set model.kind=gatv2 --set model.heads=2 --set model.out_heads=3"},
    {"transformer", "--set model.kind=transformer --set model.heads=2 --set model.out_heads=3"},
    {"agnn", "--set model.kind=agnn --set model.steps=3 --set model.layers=3"},
    {"attention_before_linear_layers",
     "--set model.kind=gat --set model.heads=2 --set model.layers=3 --set model.linear_layers=1"},
    {"norms_residuals_and_linear_layers",
     "--set model.kind=sage --set model.layers=4 --set model.linear_layers=2 --set model.norm=layer "
     "--set model.residual=true --set model.activation=gelu"},
    {"linear_residuals_where_widths_agree",
     "--set model.kind=gcn --set model.layers=3 --set model.residual=true --set model.residual_linear=true"},
    {"batch_norm_from_its_running_statistics", "--set model.kind=gcn --set model.layers=3 --set model.norm=batch"},
    {"layers_side_by_side",
     "--set model.kind=gat --set model.layers=3 --set model.heads=2 --set model.jumping_knowledge=concat "
     "--set model.norm=batch"},
    {"the_greatest_of_all_layers",
     "--set model.kind=sage --set model.layers=3 --set model.jumping_knowledge=max --set model.residual=true"},
    {"labels_as_input", "--set model.kind=sage --set model.label_input=true"},
    {"other_loops_and_reverse_edges", "--set model.kind=gcn --set dataset.self_loops=no --set dataset.undirected=yes "
                                      "--set model.activation=leaky_relu"},
};

Test(pyg, every_layer_and_option_gives_the_same_logits)
{
    EXPECT_SAME_LOGITS(plain);
}

Test(pyg, normalized_sparse_features_give_the_same_logits)
{
    write_sparse_features();
    train("--set model.kind=gcn --set dataset.normalize_features=row");
    load_into_pyg(0);
}

Test(pyg, other_features_give_other_logits)
{
    train("--set model.kind=gin");
    write_features(3);
    load_into_pyg(1);
}

/* Some repeats and loops among them, and one of weight 0. */
static void write_weights(void)
{
    float weights[N_EDGE];
    for (int e = 0; e < N_EDGE; e++) {
        weights[e] = e == 7 ? 0.0f : 1.0f + test_number(8, (uint64_t)e, 0);
    }
    save("edge_weight.npy", NPY_TYPE_F32, 1, (int64_t[]){N_EDGE}, weights);
}

static const struct model weighted[] = {
    {"weighted_gcn", "--set model.kind=gcn --set model.layers=3"},
    {"weighted_gcn_with_reverse_edges", "--set model.kind=gcn --set dataset.undirected=yes"},
    {"weighted_gcn_without_loops", "--set model.kind=gcn --set dataset.self_loops=no"},
    {"weighted_appnp", "--set model.kind=appnp --set dataset.edge_weights=yes"},
    {"weighted_gcnii", "--set model.kind=gcnii --set model.layers=3"},
    {"weighted_sgc", "--set model.kind=sgc --set model.steps=3"},
    {"weighted_means", "--set model.kind=sage --set dataset.edge_weights=yes"},
    {"weighted_sums_with_reverse_edges",
     "--set model.kind=sage --set model.aggregator=sum --set dataset.undirected=yes --set dataset.edge_weights=yes"},
    {"weighted_means_over_added_loops",
     "--set model.kind=sage --set model.layers=3 --set dataset.self_loops=yes --set dataset.edge_weights=yes"},
    {"weighted_gin", "--set model.kind=gin --set dataset.edge_weights=yes"},
    {"weights_that_a_layer_does_not_take_unasked_change_nothing", "--set model.kind=sage"},
};

Test(pyg, layers_that_take_weights_of_edges_give_the_same_logits)
{
    write_weights();
    EXPECT_SAME_LOGITS(weighted);
}

Test(pyg, other_weights_give_other_logits)
{
    write_weights();
    train("--set model.kind=gcn");
    cr_assert_eq(unlink(folder_path("data/edge_weight.npy")), 0);
    load_into_pyg(1);
}

/* Repeats of an edge and its reverse have the same row. */
static void write_edge_features(uint64_t seed, int64_t n_column)
{
    struct npy edges;
    float rows[N_EDGE * 3];
    cr_assert_eq(npy_open(folder_path("data/edges.npy"), &edges), STATUS_OK, "%s", status_reason());
    for (int64_t e = 0; e < N_EDGE; e++) {
        int64_t from = npy_int(&edges, e), to = npy_int(&edges, N_EDGE + e);
        uint64_t pair = (uint64_t)(from < to ? from * N_NODE + to : to * N_NODE + from);
        for (int64_t c = 0; c < n_column; c++) {
            rows[e * n_column + c] = test_number(seed, pair, (uint32_t)c);
        }
    }
    npy_close(&edges);
    save("edge_attr.npy", NPY_TYPE_F32, n_column > 1 ? 2 : 1, (int64_t[]){N_EDGE, n_column}, rows);
}

static const struct model featured[] = {
    {"gat_with_features_of_edges",
     "--set model.kind=gat --set model.heads=3 --set model.hidden=8 --set model.layers=3"},
    {"gat_with_features_of_edges_in_both_directions",
     "--set model.kind=gat --set model.heads=2 --set model.out_heads=2 --set dataset.undirected=yes"},
    {"gat_with_features_of_edges_without_loops",
     "--set model.kind=gat --set model.heads=2 --set dataset.self_loops=no"},
    {"gatv2_with_features_of_edges", "--set model.kind=gatv2 --set model.heads=2 --set model.out_heads=3"},
    {"transformer_with_features_of_edges",
     "--set model.kind=transformer --set model.heads=2 --set model.out_heads=3 --set model.attention_dropout=0.4"},
    {"transformer_with_features_of_edges_and_added_loops",
     "--set model.kind=transformer --set model.heads=2 --set dataset.self_loops=yes"},
};

Test(pyg, attention_over_edges_with_features_gives_the_same_logits)
{
    write_edge_features(9, 3);
    EXPECT_SAME_LOGITS(featured);
}

Test(pyg, one_feature_of_each_edge_gives_the_same_logits_and_another_one_others)
{
    write_edge_features(9, 1);
    train("--set model.kind=gat");
    load_into_pyg(0);
    write_edge_features(10, 1);
    load_into_pyg(1);
}

Test(pyg, rgcn_gives_the_same_logits)
{
    write_types();
    train("--set model.kind=rgcn --set model.layers=3 --set model.residual=true");
    load_into_pyg(0);
}

Test(pyg, rgcn_of_nodes_without_features_gives_the_same_logits)
{
    write_types();
    cr_assert_eq(unlink(folder_path("data/features.npy")), 0);
    train("--set model.kind=rgcn --set model.embedding=false");
    load_into_pyg(0);
    train("--set model.kind=rgcn --set model.embedding=false --set model.bases=2 --set model.layers=3 --set "
          "model.residual=true");
    load_into_pyg(0);
}

Test(pyg, rgcn_of_diagonal_blocks_gives_the_same_logits)
{
    write_types();
    train("--set model.kind=rgcn --set model.blocks=4");
    load_into_pyg(0);
}

Test(pyg, rgcn_with_bases_and_typed_nodes_gives_the_same_logits)
{
    write_types();
    write_node_types();
    train("--set model.kind=rgcn --set model.bases=2 --set dataset.undirected=yes");
    load_into_pyg(0);
}
