/* Edges to in-edges by destination, in two passes over the stream (row_build.h); then rows are sorted and freed of
 * repeats in place.
 */
#include "partition/files/dataset_store.h"
#include "partition/graph/dataset_build.h"
#include "partition/graph/edge_features.h"
#include "partition/graph/relations.h"
#include "partition/graph/weights.h"
#include "partition/rows/row_build.h"
#include "partition/rows/row_pairs.h"
#include "protocol/base/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_MOST ((int64_t)1 << 18) /* edges: readers that share a batch out to threads wait once for each */

struct build {
    int64_t n_node;
    bool undirected;
    bool loops_stored;
    bool filling; /* the first pass counts, the second fills */
    struct row_build entries;
    int64_t *indptr;
    uint32_t *indices;
    uint16_t *types;             /* typed edges */
    struct relations *relations; /* NULL: untyped */
    bool weighted;
    float *weights;
    bool featured;      /* edges have rows of features */
    uint32_t *edge_row; /* … these */
    int64_t n_edge_row; /* of the source; rows of added loops follow */
    uint8_t *has_loop;  /* n_node: where nodes without a loop get one; else NULL */
    int64_t n_loop_in;  /* added loops */
    int64_t n_loop_out; /* removed loops */
    struct weights_mirror mirror;
};

enum status dataset_nodes_check(int64_t n_node, const char *file)
{
    if (n_node < 1) {
        return status_fail(STATUS_DATA, "%s: has no nodes, expected at least one", file);
    }
    if (n_node > (int64_t)UINT32_MAX - 1) {
        return status_fail(STATUS_DATA, "%s: has %" PRId64 " nodes, expected at most %" PRId64, file, n_node,
                           (int64_t)UINT32_MAX - 1);
    }
    return STATUS_OK;
}

/* The optional arrays of an edge. */
struct edge_values {
    int64_t type;
    float weight;
    int64_t row;
};

/* Count or add one entry; false when the second pass sees more than the first. */
static bool put(struct build *build, int64_t to, int64_t from, struct edge_values values)
{
    if (!build->filling) {
        row_build_count(&build->entries, to);
        return true;
    }
    uint32_t source = (uint32_t)from, row = (uint32_t)values.row;
    uint16_t type = (uint16_t)values.type;
    const struct row_pairs entry = {.source = &source,
                                    .type = build->types != NULL ? &type : NULL,
                                    .weight = build->weights != NULL ? &values.weight : NULL,
                                    .row = build->edge_row != NULL ? &row : NULL};
    return row_build_add(&build->entries, to, row_pairs_key(entry, 0));
}

/* An edge and, if the graph is made undirected, its reverse. The inverse of a typed loop is an edge of its own. A
 * weighted loop counts twice, as any edge that exists in both directions. */
static bool put_both(struct build *build, int64_t to, int64_t from, struct edge_values values)
{
    bool typed = build->relations != NULL, twice = build->undirected && (from != to || typed);
    struct edge_values there = values, back = values;
    there.weight = build->undirected && from == to ? 2.0f * values.weight : values.weight;
    back.type = typed ? values.type + build->relations->n : 0;
    return put(build, to, from, there) && (!twice || put(build, from, to, back));
}

/* The edge's type: counted in the first pass, read again in the second. */
static enum status type_of(struct build *build, const struct edge_source *source, int64_t edge, int64_t *out)
{
    *out = 0;
    if (build->relations == NULL || source->type == NULL) {
        return STATUS_OK;
    }
    enum status status = build->filling ? STATUS_OK : relations_count(build->relations, source, edge);
    *out = source->type(source->type_self, edge);
    return status;
}

/* Consecutive edges of the source, as they were read. */
struct batch {
    int64_t first, n;
    int64_t *from, *to; /* n */
    float *weight;      /* n; read only in the second pass of weighted edges */
};

static enum status put_batch(struct build *build, const struct edge_source *source, const struct batch *batch)
{
    const int64_t *from = batch->from, *to = batch->to;
    for (int64_t i = 0; i < batch->n; i++) {
        bool source_bad = from[i] < 0 || from[i] >= build->n_node;
        if (source_bad || to[i] < 0 || to[i] >= build->n_node) {
            const char *file = source->n_node_file;
            return status_fail(STATUS_DATA,
                               "%s: %s %" PRId64 ": %s %" PRId64 " is out of range, expected 0 to %" PRId64 "%s%s",
                               source->file, source->unit, batch->first + i, source_bad ? "source" : "destination",
                               source_bad ? from[i] : to[i], build->n_node - 1, file != NULL ? ", the rows of " : "",
                               file != NULL ? file : "");
        }
        if (from[i] == to[i] && !build->loops_stored) {
            build->n_loop_out++;
            continue;
        }
        if (from[i] == to[i] && build->has_loop != NULL) {
            build->has_loop[to[i]] = 1;
        }
        struct edge_values values = {.row = batch->first + i};
        enum status status = type_of(build, source, batch->first + i, &values.type);
        if (status != STATUS_OK) {
            return status;
        }
        values.weight = build->filling && build->weighted ? batch->weight[i] : 0.0f;
        if (build->filling && build->weighted && build->undirected) {
            weights_mirror_add(&build->mirror, from[i], to[i], values.weight);
        }
        if (!put_both(build, to[i], from[i], values)) {
            return status_fail(STATUS_DATA, "%s: changed while it was read", source->file);
        }
    }
    return STATUS_OK;
}

static enum status pass(struct build *build, const struct edge_source *source)
{
    int64_t n_batch = source->n_edge < BATCH_MOST ? source->n_edge : BATCH_MOST;
    struct batch batch = {.from = memory_alloc((size_t)n_batch, sizeof *batch.from),
                          .to = memory_alloc((size_t)n_batch, sizeof *batch.to),
                          .weight = memory_alloc((size_t)n_batch, sizeof *batch.weight)};
    build->n_loop_out = 0;
    enum status status = STATUS_OK;
    for (int64_t first = 0; first < source->n_edge && status == STATUS_OK; first += n_batch) {
        batch.first = first;
        batch.n = source->n_edge - first < n_batch ? source->n_edge - first : n_batch;
        status = source->read(source->self, first, batch.n, batch.from, batch.to);
        if (status == STATUS_OK && build->weighted && build->filling) {
            status = weights_read(source, first, batch.n, batch.weight);
        }
        if (status == STATUS_OK) {
            status = put_batch(build, source, &batch);
        }
    }
    free(batch.weight);
    free(batch.to);
    free(batch.from);
    return status;
}

/* Give each node without a loop one of weight 1, with a row of features of its own. */
static void loops_put(struct build *build)
{
    build->n_loop_in = 0;
    if (build->has_loop == NULL) {
        return;
    }
    for (int64_t v = 0; v < build->n_node; v++) {
        if (!build->has_loop[v]) {
            build->n_loop_in += put(build, v, v, (struct edge_values){.weight = 1.0f, .row = build->n_edge_row + v});
        }
    }
}

/* Properties of edges and their reverses, without loops, which are their own reverse. */
struct reverses {
    int64_t n_edge;    /* all of them, */
    int64_t n_missing; /* and those without a reverse */
    bool differ;       /* a reverse has another weight */
};

/* By ascending destinations, the entries with source u come in ascending order, as do row u's entries: the two lists
 * are merged. */
static enum status reverses_find(const struct dataset *dataset, struct reverses *out)
{
    uint32_t *seen;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)dataset->n_node, sizeof *seen, &seen);
    if (status != STATUS_OK) {
        return status;
    }
    *out = (struct reverses){0};
    for (int64_t row = 0; row < dataset->n_node; row++) {
        for (int64_t i = dataset->indptr[row]; i < dataset->indptr[row + 1]; i++) {
            uint32_t from = dataset->indices[i];
            int64_t at = dataset->indptr[from] + seen[from], end = dataset->indptr[from + (int64_t)1];
            while (at < end && dataset->indices[at] < row) {
                at++;
            }
            seen[from] = (uint32_t)(at - dataset->indptr[from]);
            bool there = at < end && dataset->indices[at] == row;
            out->n_edge += from != row;
            out->n_missing += !there;
            out->differ = out->differ ||
                          (there && dataset->facts.weighted && dataset->edge_weight[at] != dataset->edge_weight[i]);
        }
    }
    memory_release(MEMORY_OTHER, seen, (size_t)dataset->n_node, sizeof *seen);
    return STATUS_OK;
}

/* Are out-edges the in-edges? If not, and the job file does not decide, a remark reports what is done. */
static enum status symmetric_find(const struct job *job, const struct edge_source *source, struct dataset *out)
{
    struct reverses found;
    enum status status = reverses_find(out, &found);
    if (status != STATUS_OK) {
        return status;
    }
    out->facts.symmetric = found.n_missing == 0 && !found.differ && out->edges.row == NULL;
    out->both_ways = out->facts.symmetric;
    if (found.n_missing > 0 && job->dataset.undirected == JOB_SWITCH_AUTO && !out->predicts) {
        log_warn(
            "%s: %.1f %% of the edges have no reverse, so messages pass one way: dataset.undirected = \"yes\" adds "
            "the reverse edges, \"no\" ends this warning",
            source->file, 100.0 * (double)found.n_missing / (double)found.n_edge);
    }
    return STATUS_OK;
}

/* The meaning of self_loops = "auto" is the definition of the model's kind. */
void dataset_count(const struct dataset *dataset, struct graph_counts *out)
{
    const int64_t n_loop = dataset->facts.loops == GRAPH_LOOPS_IMPLICIT ? 1 : 0;
    double n_edge = 0.0, logs = 0.0;
    for (int64_t node = 0; node < dataset->n_node; node++) {
        double degree = (double)(dataset->indptr[node + 1] - dataset->indptr[node] + n_loop);
        n_edge += degree;
        logs += log1p(degree);
    }
    double n_node = (double)dataset->n_node;
    *out = (struct graph_counts){dataset->n_node, (int64_t)n_edge, n_edge / n_node, logs / n_node};
}

static enum graph_loops loops_of(const struct job *job)
{
    if (job->dataset.self_loops != JOB_SWITCH_AUTO) {
        return job->dataset.self_loops == JOB_SWITCH_YES ? GRAPH_LOOPS_IMPLICIT : GRAPH_LOOPS_NONE;
    }
    return model_kind_of(job)->adds_loops ? GRAPH_LOOPS_IMPLICIT : GRAPH_LOOPS_STORED;
}

static enum status arrays_acquire(struct build *build, struct dataset *out)
{
    size_t n_node = (size_t)build->n_node, n_entry = (size_t)build->entries.n_entry;
    struct dataset_store *store = out->store;
    enum status status = dataset_store_block(store, MEMORY_STRUCTURE, n_node + 1, sizeof *build->indptr,
                                             &build->indptr);
    if (status == STATUS_OK) {
        status = dataset_store_block(store, MEMORY_STRUCTURE, n_entry, sizeof *build->indices, &build->indices);
    }
    if (status == STATUS_OK && build->relations != NULL) {
        status = dataset_store_block(store, MEMORY_STRUCTURE, n_entry, sizeof *build->types, &build->types);
    }
    if (status == STATUS_OK && build->weighted) {
        status = dataset_store_block(store, MEMORY_STRUCTURE, n_entry, sizeof *build->weights, &build->weights);
    }
    if (status == STATUS_OK && build->featured) {
        status = dataset_store_block(store, MEMORY_STRUCTURE, n_entry, sizeof *build->edge_row, &build->edge_row);
    }
    return status;
}

static enum status rows_fill(struct build *build, const struct edge_source *source, struct dataset *out)
{
    enum status status = pass(build, source);
    if (status != STATUS_OK) {
        return status;
    }
    loops_put(build);
    if (build->relations != NULL && source->type != NULL) {
        status = relations_finish(build->relations, source);
    }
    if (status == STATUS_OK) {
        row_build_counted(&build->entries);
        status = arrays_acquire(build, out);
    }
    if (status == STATUS_OK) {
        const struct row_pairs rows = {
            .source = build->indices, .type = build->types, .weight = build->weights, .row = build->edge_row};
        status = row_build_into(&build->entries, rows);
    }
    if (status == STATUS_OK) {
        build->filling = true;
        status = pass(build, source);
    }
    if (status == STATUS_OK) {
        loops_put(build);
        if (!row_build_finish(&build->entries, build->indptr)) {
            status = status_fail(STATUS_DATA, "%s: changed while it was read", source->file);
        }
    }
    return status;
}

/* Rows in order, each entry once; *n_kept_out: remaining edges of the source. */
static enum status rows_finish(struct build *build, const char *feature_file, const struct dataset *out,
                               int64_t *n_kept_out)
{
    enum status status = STATUS_OK;
    row_pairs_sort(build->n_node, build->indptr, build->entries.out);
    if (build->relations != NULL) {
        row_pairs_unique(build->n_node, build->indptr, build->entries.out);
        *n_kept_out = build->indptr[build->n_node] / (build->undirected ? 2 : 1);
        return STATUS_OK;
    }
    int64_t n_loop = 0;
    if (build->weighted) {
        n_loop = weights_rows_unique(build->n_node, build->indptr, build->indices, build->weights);
    } else if (build->featured) {
        status = edge_features_rows_unique(feature_file, out, build->indptr, build->indices, build->edge_row,
                                           &n_loop);
    } else {
        n_loop = row_pairs_unique(build->n_node, build->indptr, build->entries.out);
    }
    int64_t n_edge = build->indptr[build->n_node];
    *n_kept_out = (build->undirected ? (n_edge - n_loop) / 2 + n_loop : n_edge) - build->n_loop_in;
    return status;
}

enum status dataset_edges_shrink(int64_t n_entry, struct dataset *out)
{
    if (out->n_edge == n_entry) {
        return STATUS_OK;
    }
    enum status status = dataset_store_shrink(out->store, &out->indices, (size_t)out->n_edge);
    if (status == STATUS_OK && out->edge_type != NULL) {
        status = dataset_store_shrink(out->store, &out->edge_type, (size_t)out->n_edge);
    }
    if (status == STATUS_OK && out->facts.weighted) {
        status = dataset_store_shrink(out->store, &out->edge_weight, (size_t)out->n_edge);
    }
    if (status == STATUS_OK && out->edges.row != NULL) {
        status = dataset_store_shrink(out->store, &out->edges.row, (size_t)out->n_edge);
    }
    return status;
}

/* With weights or features, edges include the loops that a definition adds. A stored loop keeps what it has, but
 * where the definition of a kind gives all loops new features (GATConv and GATv2Conv). */
static enum status loops_choose(const struct job *job, struct build *build, struct dataset *out)
{
    enum status status = STATUS_OK;
    out->facts.loops = loops_of(job);
    bool adds = out->facts.loops == GRAPH_LOOPS_IMPLICIT && (build->weighted || build->featured);
    bool replaces = !build->weighted && model_kind_of(job)->adds_loops && job->model.kind != JOB_KIND_PROGRAM;
    build->loops_stored = out->facts.loops == GRAPH_LOOPS_STORED || (adds && !replaces);
    if (adds) {
        status = memory_acquire(MEMORY_OTHER, (size_t)build->n_node, sizeof *build->has_loop, &build->has_loop);
        out->facts.loops = GRAPH_LOOPS_STORED;
    }
    return status;
}

static enum status strength_build(const struct build *build, const struct edge_source *source, struct dataset *out)
{
    enum status status = dataset_store_block(out->store, MEMORY_STRUCTURE, (size_t)out->n_node, sizeof *out->strength,
                                             &out->strength);
    return status == STATUS_OK
               ? weights_strength(source->weight_file, out->n_node, build->indptr, out->edge_weight, out->strength)
               : status;
}

enum status dataset_graph_build(const struct job *job, const struct edge_source *source, bool auto_undirected,
                                struct dataset *out)
{
    struct build build = {
        .n_node = out->n_node, .weighted = source->weight_read != NULL, .featured = source->features != NULL};
    char feature_file[NPY_NAME_BYTES] = "";
    struct relations relations = {.n = 1};
    build.undirected = job->dataset.undirected == JOB_SWITCH_AUTO ? auto_undirected
                                                                  : job->dataset.undirected == JOB_SWITCH_YES;
    bool typed = dataset_wants_types(job);
    if (typed && source->type == NULL && job->dataset.generator == JOB_GENERATOR_NONE) {
        char reader[48] = "";
        if (job->program.line.relation > 0) {
            snprintf(reader, sizeof reader, ", whose line %d reads e.relation", job->program.line.relation);
        }
        return status_fail(STATUS_DATA,
                           "%s: the edges have no types, expected edge_type.npy or raw/triplet-type-list.csv.gz "
                           "for model.kind = \"%s\"%s",
                           source->file, job_choice_text("model", "kind", job->model.kind), reader);
    }
    if (typed && source->type != NULL) {
        relations_open(&relations, source, build.undirected);
    }
    build.relations = typed ? &relations : NULL;

    enum status status = loops_choose(job, &build, out);
    if (status == STATUS_OK && build.featured) {
        memcpy(feature_file, source->features->name, sizeof feature_file);
        status = edge_features_take(source->features, out);
        build.n_edge_row = out->edges.n_row;
    }
    if (status == STATUS_OK) {
        status = row_build_open(build.n_node, &build.entries);
    }
    if (status == STATUS_OK) {
        status = rows_fill(&build, source, out);
    }
    relations_close(&relations);
    bool adds_loops = build.has_loop != NULL;
    memory_release(MEMORY_OTHER, build.has_loop, (size_t)build.n_node, sizeof *build.has_loop);
    int64_t n_kept = 0;
    if (status == STATUS_OK) {
        status = rows_finish(&build, feature_file, out, &n_kept);
    }
    int64_t n_entry = build.entries.n_entry;
    row_build_close(&build.entries);
    if (status != STATUS_OK) {
        return status;
    }
    out->indptr = build.indptr;
    out->indices = build.indices;
    out->edge_type = build.types;
    out->edge_weight = build.weights;
    out->facts.weighted = build.weighted;
    out->edges.row = build.edge_row;
    out->facts.n_relation_given = typed ? (int32_t)relations.n : 0;
    out->facts.n_relation = out->facts.n_relation_given * (build.undirected ? 2 : 1);
    out->both_ways = build.undirected;
    out->n_edge = build.indptr[out->n_node];
    out->n_duplicate = source->n_edge - build.n_loop_out - n_kept;
    weights_mirror_remark(&build.mirror, source);
    status = dataset_edges_shrink(n_entry, out);
    if (status == STATUS_OK && out->facts.weighted) {
        status = strength_build(&build, source, out);
    }
    if (status == STATUS_OK && build.featured && adds_loops) {
        status = edge_features_loops(out);
    }
    if (status != STATUS_OK || typed) {
        return status;
    }
    out->facts.symmetric = !build.featured;
    return build.undirected ? STATUS_OK : symmetric_find(job, source, out);
}
