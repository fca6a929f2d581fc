/* See edge_features.h. */
#include "partition/graph/edge_features.h"

#include "partition/files/dataset_store.h"
#include "partition/graph/features_csr.h"
#include "partition/rows/row_pairs.h"
#include "protocol/base/log.h"

#include <inttypes.h>

enum status edge_features_choose(const struct job *job, const char *file, bool there, bool *use_out)
{
    int asked = job->dataset.edge_features;
    bool takes = model_kind_of(job)->takes_edge_features;
    *use_out = there && takes && asked != JOB_SWITCH_NO;
    if (asked == JOB_SWITCH_YES && !there) {
        return status_fail(STATUS_NO_INPUT,
                           "%s: no such file, expected the features of the edges for dataset.edge_features = \"yes\"",
                           file);
    }
    if (asked == JOB_SWITCH_AUTO && there && !takes && job->model.kind == JOB_KIND_PROGRAM) {
        log_warn("%s is not used: the program does not read e.feature", file);
    } else if (asked == JOB_SWITCH_AUTO && there && !takes) {
        log_warn("%s is not used: model.kind = \"%s\" takes no features of edges%s", file,
                 job_choice_text("model", "kind", job->model.kind),
                 job_takes_edge_weights(job) ? "; weights are in edge_weight.npy, one number an edge" : "");
    }
    return STATUS_OK;
}

enum status edge_features_attach(struct npy *features, struct edge_source *source)
{
    if (features->rank > 0 && features->shape[0] != source->n_edge) {
        return status_fail(STATUS_DATA, "%s: has %" PRId64 " rows, expected %" PRId64 ", the edges of %s",
                           features->name, features->shape[0], source->n_edge, source->file);
    }
    bool flat = features->rank == 1;
    enum status status = npy_expect(features, NPY_KIND_NUMBER, flat ? 1 : 2, source->n_edge, flat ? 0 : -1);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t n_column = flat ? 1 : features->shape[1];
    if (n_column < 1 || n_column > INT32_MAX) {
        return status_fail(STATUS_DATA, "%s: has %" PRId64 " columns, expected 1 to %d", features->name, n_column,
                           INT32_MAX);
    }
    int64_t n_nonzero;
    source->features = features;
    return features_scan(features, n_column, &n_nonzero);
}

enum status edge_features_take(struct npy *npy, struct dataset *out)
{
    out->edges.n_row = npy->shape[0];
    out->facts.n_edge_feature = npy->rank == 1 ? 1 : npy->shape[1];
    if (out->edges.n_row > (int64_t)UINT32_MAX - out->n_node) {
        return status_fail(STATUS_DATA,
                           "%s: has %" PRId64 " rows, expected at most %" PRId64 " where there are %" PRId64 " nodes",
                           npy->name, out->edges.n_row, (int64_t)UINT32_MAX - out->n_node, out->n_node);
    }
    if (npy->type == NPY_TYPE_F32 && !npy->by_columns) {
        out->edges.features = npy->data;
        dataset_store_keep(out->store, npy);
        return STATUS_OK;
    }
    enum status status = features_floats(npy, out->store, &out->edges.features);
    if (status == STATUS_OK) {
        npy_close(npy);
    }
    return status;
}

static bool same(const struct dataset *dataset, uint32_t a, uint32_t b)
{
    const float *x = dataset_edge_features(dataset, a), *y = dataset_edge_features(dataset, b);
    for (int64_t c = 0; c < dataset->facts.n_edge_feature; c++) {
        if (x[c] != y[c]) {
            return false;
        }
    }
    return true;
}

enum status edge_features_rows_unique(const char *file, const struct dataset *dataset, int64_t *indptr,
                                      uint32_t *indices, uint32_t *edge_row, int64_t *n_loop_out)
{
    int64_t to = 0, n_loop = 0, begin = 0;
    for (int64_t v = 0; v < dataset->n_node; v++) {
        int64_t end = indptr[v + 1];
        indptr[v] = to;
        for (int64_t i = begin; i < end; i++) {
            bool repeats = i > begin && indices[i] == indices[to - 1];
            if (repeats && !same(dataset, edge_row[to - 1], edge_row[i])) {
                return status_fail(STATUS_DATA,
                                   "%s: rows %" PRIu32 " and %" PRIu32
                                   " differ, and both are of the edge between nodes %" PRIu32 " and %" PRId64
                                   ": expected equal rows, since an edge that is there again, or as the reverse of "
                                   "another (dataset.undirected), is one edge",
                                   file, edge_row[to - 1], edge_row[i], indices[i], v);
            }
            if (!repeats) {
                n_loop += indices[i] == v;
                indices[to] = indices[i];
                edge_row[to++] = edge_row[i];
            }
        }
        begin = end;
    }
    indptr[dataset->n_node] = to;
    *n_loop_out = n_loop;
    return STATUS_OK;
}

static void loop_mean(const struct dataset *dataset, int64_t v)
{
    int64_t n = dataset->facts.n_edge_feature, begin = dataset->indptr[v], end = dataset->indptr[v + 1];
    for (int64_t c = 0; c < n; c++) {
        double sum = 0.0;
        for (int64_t i = begin; i < end; i++) {
            sum += dataset->indices[i] != v ? dataset_edge_features(dataset, dataset->edges.row[i])[c] : 0.0;
        }
        /* One of the entries is the loop itself. */
        dataset->edges.loop_features[v * n + c] = end - begin > 1 ? (float)(sum / (double)(end - begin - 1)) : 0.0F;
    }
}

enum status edge_features_loops(struct dataset *out)
{
    enum status status = STATUS_OK;
    if (out->edges.loop_features == NULL) {
        status = dataset_store_block(out->store, MEMORY_FEATURES, (size_t)(out->n_node * out->facts.n_edge_feature),
                                     sizeof *out->edges.loop_features, &out->edges.loop_features);
    }
    if (status != STATUS_OK) {
        return status;
    }
#pragma omp parallel for schedule(dynamic, 1024) if (out->n_edge > ROWS_PARALLEL_LEAST)
    for (int64_t v = 0; v < out->n_node; v++) {
        loop_mean(out, v);
    }
    return STATUS_OK;
}

enum status edge_features_check_alone(const struct job *job, const struct dataset *dataset)
{
    const struct {
        const char *reads, *of;
        bool is_there;
        int line;
    } rows[] = {{"e.feature", "features", dataset->facts.n_edge_feature > 0, job->program.line.feature},
                {"e.weight or e.norm", "weights", dataset->facts.weighted, job->program.line.weight},
                {"e.relation", "types", dataset->facts.n_relation > 0, job->program.line.relation}};
    int first = -1;
    for (int i = 0; job->model.kind == JOB_KIND_PROGRAM && i < 3; i++) {
        if (rows[i].is_there && first >= 0) {
            return status_fail(
                STATUS_CONFIG,
                "model.program: line %d reads %s, and line %d %s, while the edges of %s have %s and %s: "
                "expected one of the two%s",
                rows[first].line, rows[first].reads, rows[i].line, rows[i].reads, dataset->name, rows[first].of,
                rows[i].of,
                dataset->facts.weighted ? ", or dataset.edge_weights = \"no\", by which each weight is 1" : "");
        }
        first = rows[i].is_there ? i : first;
    }
    return STATUS_OK;
}
