#include "tests/support/graphs/typed_folder.h"
#include "tests/support/graphs/npy_save.h"

#include "partition/files/npy.h"
#include "protocol/base/memory.h"
#include "tests/support/graphs/tiny_graph.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static void save(const char *path, const char *name, enum npy_type type, int64_t rows, int64_t columns,
                 const void *data)
{
    char file[PATH_MAX];
    int64_t shape[] = {rows, columns};
    snprintf(file, sizeof file, "%s/%s", path, name);
    cr_assert_eq(npy_save(file, type, columns > 0 ? 2 : 1, shape, data), STATUS_OK, "%s", status_reason());
}

static int64_t draw(uint64_t seed, int64_t i, uint32_t column, int64_t below)
{
    return (int64_t)((test_number(seed, (uint64_t)i, column) + 1.0f) / 2.0f * (float)below);
}

static void write_edges(const char *path, const struct typed_folder *what)
{
    int64_t n = what->n_edge;
    int64_t *edges = memory_alloc((size_t)(2 * n), sizeof *edges), *types = memory_alloc((size_t)n, sizeof *types);
    for (int64_t e = 0; e < n; e++) {
        edges[e] = draw(1, e, 0, what->n_node);
        edges[n + e] = draw(1, e, 1, what->n_node);
        types[e] = draw(1, e, 2, 3);
    }
    save(path, "edges.npy", NPY_TYPE_I64, 2, n, edges);
    save(path, "edge_type.npy", NPY_TYPE_I64, n, 0, types);
    free(edges);
    free(types);
}

static void write_nodes(const char *path, const struct typed_folder *what)
{
    int64_t n = what->n_node + what->n_lonely, n_set[3] = {0};
    int64_t *types = memory_alloc((size_t)n, sizeof *types), *labels = memory_alloc((size_t)n, sizeof *labels);
    int64_t *set = memory_alloc((size_t)(3 * n), sizeof *set);
    for (int64_t v = 0; v < n; v++) {
        types[v] = v < what->n_node ? v % 3 : 1;
        labels[v] = types[v] == 0 ? v / 3 % TYPED_N_CLASS : -1;
        int64_t split = v % 5 % 3;
        if (types[v] == 0) {
            set[split * n + n_set[split]++] = v;
        }
    }
    save(path, "node_type.npy", NPY_TYPE_I64, n, 0, types);
    save(path, "labels.npy", NPY_TYPE_I64, n, 0, labels);
    save(path, "train_idx.npy", NPY_TYPE_I64, n_set[0], 0, set);
    save(path, "valid_idx.npy", NPY_TYPE_I64, n_set[1], 0, set + n);
    save(path, "test_idx.npy", NPY_TYPE_I64, n_set[2], 0, set + 2 * n);
    free(types);
    free(labels);
    free(set);
}

static void write_features(const char *path, int type, int64_t n, int64_t columns)
{
    char name[32];
    float *rows = memory_alloc((size_t)(n * columns), sizeof *rows);
    for (int64_t i = 0; i < n * columns; i++) {
        int64_t row = i / columns, column = i % columns;
        rows[i] = type == 1 ? (row == column ? 1.0f : 0.0f)
                            : test_number(2, (uint64_t)(3 * row + type), (uint32_t)column);
    }
    snprintf(name, sizeof name, "feat_t%d.npy", type);
    save(path, name, NPY_TYPE_F32, n, columns, rows);
    free(rows);
}

static void write_owners(const char *path, const struct typed_folder *what)
{
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%s/owner", path);
    FILE *out = fopen(file, "w");
    cr_assert_not_null(out);
    for (int64_t v = 0; v < what->n_node + what->n_lonely; v++) {
        fprintf(out, "%d\n", (int)(v < what->n_node ? draw(3, v, 0, what->n_part) : v % what->n_part));
    }
    fclose(out);
}

void typed_folder_write(const char *path, const struct typed_folder *what)
{
    cr_assert_eq(mkdir(path, 0700), 0);
    write_edges(path, what);
    write_nodes(path, what);
    if (!what->is_bare) {
        write_features(path, 0, (what->n_node + 2) / 3, 4);
        write_features(path, 2, what->n_node / 3, 3);
    }
    int64_t n = (what->n_node + 1) / 3 + what->n_lonely;
    if (what->is_explicit) {
        write_features(path, 1, n, n);
    }
    if (what->n_part > 0) {
        write_owners(path, what);
    }
}
