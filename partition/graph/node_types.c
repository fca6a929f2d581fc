/* See node_types.h. */
#include "partition/graph/node_types.h"

#include "partition/files/dataset_store.h"
#include "partition/graph/features_csr.h"
#include "protocol/base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static int64_t type_of(const struct node_types *types, int64_t node)
{
    return types->of_node != NULL ? npy_int(types->of_node, node) : 0;
}

enum status node_types_open(const struct npy *of_node, int64_t n_node, struct node_types *out)
{
    struct node_types types = {.of_node = of_node, .n_node = n_node, .n_type = 1};
    enum status status = of_node != NULL ? npy_expect(of_node, NPY_KIND_INTEGER, 1, n_node, 0) : STATUS_OK;
    for (int64_t v = 0; v < n_node && status == STATUS_OK; v++) {
        int64_t k = type_of(&types, v);
        if (k < 0 || k >= NODE_TYPE_MOST) {
            status = status_fail(STATUS_DATA, "%s: entry %" PRId64 " is %" PRId64 ", expected a node type of 0 to %d",
                                 of_node->name, v, k, NODE_TYPE_MOST - 1);
        }
        types.n_type = k >= types.n_type ? k + 1 : types.n_type;
    }
    if (status != STATUS_OK) {
        return status;
    }
    types.type = memory_alloc((size_t)types.n_type, sizeof *types.type);
    for (int64_t v = 0; v < n_node; v++) {
        types.type[type_of(&types, v)].n_node++;
    }
    for (int64_t k = 0; k < types.n_type; k++) {
        types.type[k].n_column = types.type[k].n_node;
    }
    *out = types;
    return STATUS_OK;
}

void node_types_close(struct node_types *types)
{
    if (types->type == NULL) {
        return;
    }
    for (int64_t k = 0; k < types->n_type; k++) {
        npy_close(&types->type[k].dense);
        csr_release(&types->type[k].sparse);
        free(types->type[k].row);
    }
    free(types->type);
    *types = (struct node_types){0};
}

static enum status rows_check(const struct node_types *types, int64_t k, const struct npy *npy, int64_t n_row)
{
    if (n_row == types->type[k].n_node) {
        return STATUS_OK;
    }
    return status_fail(STATUS_DATA,
                       "%s: has %" PRId64 " rows, expected %" PRId64 ", the nodes of type %" PRId64 "%s%s", npy->name,
                       n_row, types->type[k].n_node, k, types->of_node != NULL ? " in " : "",
                       types->of_node != NULL ? types->of_node->name : "");
}

enum status node_types_dense(struct node_types *types, int64_t k, struct npy *dense)
{
    struct node_type *type = &types->type[k];
    type->dense = *dense;
    *dense = (struct npy){0};
    enum status status = npy_expect(&type->dense, NPY_KIND_NUMBER, 2, -1, -1);
    if (status == STATUS_OK) {
        status = rows_check(types, k, &type->dense, type->dense.shape[0]);
    }
    if (status != STATUS_OK) {
        return status;
    }
    type->n_column = type->dense.shape[1];
    if (type->n_column < 1) {
        return status_fail(STATUS_DATA, "%s: has 0 columns, expected at least one", type->dense.name);
    }
    int64_t n_nonzero;
    return features_scan(&type->dense, type->n_column, &n_nonzero);
}

enum status node_types_sparse(struct node_types *types, int64_t k, struct csr *sparse)
{
    struct node_type *type = &types->type[k];
    const struct npy *indptr = &type->sparse.indptr, *indices = &type->sparse.indices;
    type->sparse = *sparse;
    *sparse = (struct csr){0};
    enum status status = npy_expect(indptr, NPY_KIND_INTEGER, 1, -1, 0);
    if (status == STATUS_OK) {
        status = rows_check(types, k, indptr, indptr->n_value - 1);
    }
    if (status == STATUS_OK) {
        status = npy_expect(indices, NPY_KIND_INTEGER, 1, -1, 0);
    }
    if (status != STATUS_OK) {
        return status;
    }
    type->n_column = type->sparse.n_column;
    for (int64_t i = 0; i < indices->n_value && type->sparse.n_column == 0; i++) {
        int64_t column = npy_int(indices, i);
        type->n_column = column >= type->n_column && column < INT32_MAX ? column + 1 : type->n_column;
    }
    return features_csr_check(&type->sparse, type->n_node, type->n_column, &type->sorted);
}

void node_types_rows(struct node_types *types, int64_t k, const struct node_rows *rows, int64_t n_column)
{
    struct node_type *type = &types->type[k];
    type->rows = *rows;
    type->n_column = n_column;
    type->row = memory_alloc((size_t)n_column, sizeof *type->row);
}

static bool has_features(const struct node_type *type)
{
    return type->dense.n_value > 0 || type->sparse.indptr.n_value > 0 ||
           (type->rows.read != NULL && type->n_node > 0);
}

/* Read row `row`, with at most n_most non-zeros. */
static enum status row_read(const struct node_type *type, int64_t row, int64_t n_most)
{
    enum status status = type->rows.read(type->rows.self, row, type->row);
    for (int64_t column = 0; column < type->n_column && status == STATUS_OK; column++) {
        if (!isfinite(type->row[column])) {
            return features_fail_not_finite(type->rows.file, row, column, (double)type->row[column]);
        }
        n_most -= type->row[column] != 0;
    }
    return status == STATUS_OK && n_most < 0
               ? status_fail(STATUS_DATA, "%s: changed while it was read", type->rows.file)
               : status;
}

static float value_at(const struct node_type *type, int64_t row, int64_t column)
{
    return type->rows.read != NULL ? type->row[column] : features_value(&type->dense, row * type->n_column + column);
}

/* Row `row` of a type to `indices` and `values` (NULL: only count); returns its entries. */
static int64_t row_put(const struct node_type *type, int64_t row, uint32_t *indices, float *values)
{
    const struct csr *sparse = &type->sparse;
    if (sparse->indptr.n_value > 0) {
        int64_t begin = npy_int(&sparse->indptr, row), n = npy_int(&sparse->indptr, row + 1) - begin;
        if (indices == NULL) {
            return n;
        }
        for (int64_t i = 0; i < n; i++) {
            indices[i] = (uint32_t)(type->column + npy_int(&sparse->indices, begin + i));
            values[i] = features_value(&sparse->data, begin + i);
        }
        return n;
    }
    if (!has_features(type)) {
        if (indices != NULL) {
            indices[0] = (uint32_t)(type->column + row);
            values[0] = 1.0f;
        }
        return 1;
    }
    int64_t n = 0;
    for (int64_t column = 0; column < type->n_column; column++) {
        float value = value_at(type, row, column);
        if (value != 0) {
            if (indices != NULL) {
                indices[n] = (uint32_t)(type->column + column);
                values[n] = value;
            }
            n++;
        }
    }
    return n;
}

/* Visit all nodes' rows: count their values, or fill the dataset's arrays, if they exist, of *n_value_io entries. */
static enum status rows_walk(struct node_types *types, struct dataset *out, int64_t *n_value_io)
{
    int64_t at = 0;
    for (int64_t k = 0; k < types->n_type; k++) {
        types->type[k].next = 0;
    }
    for (int64_t v = 0; v < types->n_node; v++) {
        struct node_type *type = &types->type[type_of(types, v)];
        bool fill = out->features.indices != NULL;
        if (type->rows.read != NULL) {
            enum status status = row_read(type, type->next, fill ? *n_value_io - at : INT64_MAX);
            if (status != STATUS_OK) {
                return status;
            }
        }
        at += row_put(type, type->next++, fill ? out->features.indices + at : NULL,
                      fill ? out->features.data + at : NULL);
        if (fill) {
            out->features.indptr[v + 1] = at;
        }
    }
    *n_value_io = at;
    return STATUS_OK;
}

/* Rows are sorted if the file's rows are. A repeated column is reported by the type's own row and column. */
static enum status rows_sort(const struct node_types *types, struct dataset *out)
{
    int64_t node, column, row = 0;
    if (features_csr_sort(out, &node, &column)) {
        return STATUS_OK;
    }
    const struct node_type *type = &types->type[type_of(types, node)];
    for (int64_t v = 0; v < node; v++) {
        row += &types->type[type_of(types, v)] == type;
    }
    return features_fail_repeated(type->sparse.indices.name, row, column - type->column);
}

/* Columns of types without features, neighbours as one run. */
static enum status embedded_find(const struct node_types *types, struct dataset *out)
{
    struct embedded_run *run;
    enum status status = dataset_store_block(out->store, MEMORY_FEATURES, (size_t)types->n_type, sizeof *run, &run);
    out->features.embedded = (struct embedded){.run = run};
    for (int64_t k = 0; k < types->n_type && status == STATUS_OK; k++) {
        const struct node_type *type = &types->type[k];
        int32_t *n_run = &out->features.embedded.n_run;
        if (has_features(type) || type->n_node == 0) {
            continue;
        }
        if (*n_run == 0 || run[*n_run - 1].end < type->column) {
            run[(*n_run)++] = (struct embedded_run){.begin = type->column};
        }
        run[*n_run - 1].end = type->column + type->n_column;
    }
    return status;
}

enum status node_types_features(const struct job *job, struct node_types *types, struct dataset *out)
{
    bool sorted = true;
    int64_t n_column = 0, n_value = 0;
    for (int64_t k = 0; k < types->n_type; k++) {
        struct node_type *type = &types->type[k];
        type->column = n_column;
        n_column += type->n_column;
        if (n_column > INT32_MAX) {
            return status_fail(STATUS_DATA,
                               "node types 0 to %" PRId64 " have %" PRId64 " feature columns together, expected "
                               "at most %d",
                               k, n_column, INT32_MAX);
        }
        sorted = sorted && (type->sparse.indptr.n_value == 0 || type->sorted);
    }
    out->facts.n_feature = n_column;
    out->facts.features_typed = true;
    enum status status = rows_walk(types, out, &n_value);
    if (status == STATUS_OK) {
        status = features_csr_blocks(out, n_value);
    }
    if (status == STATUS_OK) {
        status = rows_walk(types, out, &n_value);
    }
    if (status == STATUS_OK) {
        status = embedded_find(types, out);
    }
    if (status == STATUS_OK && !sorted) {
        status = rows_sort(types, out);
    }
    if (status == STATUS_OK && job->dataset.normalize_features == JOB_NORMALIZE_ROW) {
        features_csr_normalize(out);
    }
    return status;
}
