/* Features of a graph without features: from its degrees, or one column for each node. The latter is never stored as
 * a matrix: a node has one entry, and the learned weights of its column are stored with the node
 * (protocol/wire/embedded.h).
 */
#include "partition/files/dataset_store.h"
#include "partition/graph/dataset_build.h"
#include "partition/graph/node_types.h"

#include <math.h>

enum { COLUMN_ONE, COLUMN_IN, COLUMN_OUT, N_COLUMN };

/* Edges out of each node, without loops. */
static enum status degrees_out(const struct dataset *dataset, float *rows)
{
    uint32_t *degree;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)dataset->n_node, sizeof *degree, &degree);
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t node = 0; node < dataset->n_node; node++) {
        for (int64_t i = dataset->indptr[node]; i < dataset->indptr[node + 1]; i++) {
            degree[dataset->indices[i]] += dataset->indices[i] != node;
        }
    }
    for (int64_t node = 0; node < dataset->n_node; node++) {
        rows[node * N_COLUMN + COLUMN_OUT] = (float)log1p((double)degree[node]);
    }
    memory_release(MEMORY_OTHER, degree, (size_t)dataset->n_node, sizeof *degree);
    return STATUS_OK;
}

static enum status degrees_make(const struct job *job, struct dataset *out)
{
    float *rows;
    enum status status = dataset_store_block(out->store, MEMORY_FEATURES, (size_t)out->n_node,
                                             N_COLUMN * sizeof *rows, &rows);
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t node = 0; node < out->n_node; node++) {
        int64_t n = 0;
        for (int64_t i = out->indptr[node]; i < out->indptr[node + 1]; i++) {
            n += out->indices[i] != node;
        }
        rows[node * N_COLUMN + COLUMN_ONE] = 1.0f;
        rows[node * N_COLUMN + COLUMN_IN] = (float)log1p((double)n);
    }
    status = degrees_out(out, rows);
    if (status == STATUS_OK && job->dataset.normalize_features == JOB_NORMALIZE_ROW) {
        dataset_rows_normalize(rows, out->n_node, N_COLUMN);
    }
    out->facts.n_feature = N_COLUMN;
    out->features.f32 = rows;
    return status;
}

static enum status columns_make(const struct job *job, struct dataset *out)
{
    struct node_types types = {0};
    enum status status = node_types_open(NULL, out->n_node, &types);
    if (status == STATUS_OK) {
        status = node_types_features(job, &types, out);
    }
    node_types_close(&types);
    return status;
}

enum status dataset_features_make(const struct job *job, struct dataset *out)
{
    out->features.f32 = NULL;
    out->features.f16 = NULL;
    out->features.indptr = NULL;
    out->features.indices = NULL;
    out->features.data = NULL;
    out->features.embedded = (struct embedded){0};
    out->facts.features_typed = false;
    return job->dataset.features == JOB_WORD(JOB_FEATURES_DEGREE) ? degrees_make(job, out) : columns_make(job, out);
}
