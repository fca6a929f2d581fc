#include "tests/equivalence/data.h"

#include "partition/files/npy.h"
#include "protocol/base/status.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/graphs/tiny_graph.h"
#include "tests/support/graphs/typed_folder.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

const char *const data_graphs[2] = {
    "generator = 'sbm'\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24",
    "generator = 'rmat'\nnodes = 512\ndegree = 6\nclasses = 4\nfeatures = 9\nundirected = 'no'"};

const char *const data_few[2] = {
    "generator = 'sbm'\nnodes = 900\ndegree = 3\nclasses = 5\nfeatures = 24\ntrain_share = 0.01",
    "generator = 'rmat'\nnodes = 1024\ndegree = 3\nclasses = 4\nfeatures = 9\nundirected = 'no'\ntrain_share = 0.01"};

enum { N_NODE = 500, N_EDGE = 3000, N_FEATURE = 40, N_EDGE_FEATURE = 5, N_TEXT = 4 };

static char *text_next(void)
{
    static char texts[N_TEXT][512];
    static int at;
    return texts[at++ % N_TEXT];
}

static int64_t below(uint64_t row, uint32_t column, int64_t n)
{
    return (int64_t)((test_number(3, row, column) + 1.0F) / 2.0F * (float)n);
}

static void save(const char *to, const char *name, enum npy_type type, int64_t rows, int64_t columns,
                 const void *data)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", to, name);
    cr_assert_eq(npy_save(path, type, columns > 0 ? 2 : 1, (int64_t[]){rows, columns}, data), STATUS_OK, "%s",
                 status_reason());
}

static void save_edges(const char *to, const struct data_folder *what)
{
    static int64_t edges[2][N_EDGE];
    static float weights[N_EDGE], rows[N_EDGE][N_EDGE_FEATURE];
    for (int e = 0; e < N_EDGE; e++) {
        int64_t u = edges[0][e] = below((uint64_t)e, 0, N_NODE), v = edges[1][e] = below((uint64_t)e, 1, N_NODE);
        if (what->has_no_loops && u == v) {
            v = edges[1][e] = (v + 1) % N_NODE;
        }
        uint64_t pair = (uint64_t)(u < v ? u * N_NODE + v : v * N_NODE + u);
        weights[e] = 1.0F + test_number(4, (uint64_t)e, 0);
        for (uint32_t c = 0; c < N_EDGE_FEATURE; c++) {
            rows[e][c] = test_number(4, pair, c);
        }
    }
    save(to, "edges.npy", NPY_TYPE_I64, 2, N_EDGE, edges);
    if (what->has_weights) {
        save(to, "edge_weight.npy", NPY_TYPE_F32, N_EDGE, 0, weights);
    }
    if (what->has_edge_features) {
        save(to, "edge_attr.npy", NPY_TYPE_F32, N_EDGE, N_EDGE_FEATURE, rows);
    }
}

static void save_nodes(const char *to, const struct data_folder *what)
{
    static float features[N_NODE][N_FEATURE], numbers[N_NODE][2];
    static int64_t labels[N_NODE], train[N_NODE / 2];
    const uint32_t stride = what->is_far ? 50 : 2;
    for (uint32_t v = 0; v < N_NODE; v++) {
        for (uint32_t c = 0; c < N_FEATURE; c++) {
            bool is_zero = what->is_sparse && below(v, 8 + c, N_FEATURE) > 5;
            features[v][c] = is_zero ? 0.0F : test_number(5, v, c);
        }
        labels[v] = below(v, 7, 4);
        numbers[v][0] = 5.0F * features[v][0] + test_number(6, v, 0);
        numbers[v][1] = v % 3 == 1 ? NAN : features[v][1];
        train[v / stride] = v;
    }
    save(to, "features.npy", NPY_TYPE_F32, N_NODE, N_FEATURE, features);
    save(to, "train_idx.npy", NPY_TYPE_I64, N_NODE / stride, 0, train);
    if (what->has_numbers) {
        save(to, "labels.npy", NPY_TYPE_F32, N_NODE, 2, numbers);
    } else {
        save(to, "labels.npy", NPY_TYPE_I64, N_NODE, 0, labels);
    }
}

const char *data_write(const struct data_folder *what, bool is_directed)
{
    static int n_written;
    char to[256], *text = text_next();
    snprintf(to, sizeof to, "%s/data%d", folder, n_written++);
    cr_assert_eq(mkdir(to, 0700), 0);
    save_edges(to, what);
    save_nodes(to, what);
    snprintf(text, 512, "path = '%s'\nundirected = '%s'\nedge_weights = '%s'", to, is_directed ? "no" : "yes",
             what->has_weights ? "yes" : "auto");
    return text;
}

const char *data_typed(const char *name, int64_t n_lonely, int n_part, bool is_bare, bool is_explicit)
{
    char *text = text_next();
    typed_folder_write(folder_path(name), &(struct typed_folder){.n_node = 300,
                                                                 .n_edge = 2000,
                                                                 .n_lonely = n_lonely,
                                                                 .n_part = n_part,
                                                                 .is_bare = is_bare,
                                                                 .is_explicit = is_explicit});
    snprintf(text, 512, "path = '%s'", folder_path(name));
    return text;
}
