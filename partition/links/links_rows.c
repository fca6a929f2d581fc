/* Which pairs of nodes are joined, by searches in sorted rows; and the graph without the edges that are held out. */
#include "partition/graph/dataset_build.h"
#include "partition/graph/edge_features.h"
#include "partition/graph/weights.h"
#include "partition/links/links_build.h"
#include "partition/rows/row_build.h"
#include "partition/rows/row_pairs.h"
#include "protocol/base/amounts.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"

int64_t links_edge_find(const struct dataset *dataset, uint32_t to, uint32_t from, int relation)
{
    const uint16_t *type = dataset->edge_type;
    int64_t begin = dataset->indptr[to], row_end = dataset->indptr[to + (int64_t)1];
    if (relation >= 0) {
        begin = ascending_find_type(type, begin, row_end, relation);
        row_end = ascending_find_type(type, begin, row_end, relation + 1);
    }
    while (begin < row_end) {
        int64_t end = type != NULL ? ascending_find_type(type, begin, row_end, type[begin] + 1) : row_end;
        int64_t at = ascending_find(dataset->indices, begin, end, from);
        if (at < end && dataset->indices[at] == from) {
            return at;
        }
        begin = end;
    }
    return -1;
}

bool links_rows_has(const struct links_rows *rows, uint32_t to, uint32_t from, int relation)
{
    int64_t begin = rows->indptr[to], end = rows->indptr[to + (int64_t)1];
    if (rows->relation != NULL) {
        begin = ascending_find_type(rows->relation, begin, end, relation);
        end = ascending_find_type(rows->relation, begin, end, relation + 1);
    }
    int64_t at = ascending_find(rows->source, begin, end, from);
    return at < end && rows->source[at] == from;
}

int links_entry_relation(const struct dataset *dataset, int64_t entry)
{
    int n = dataset->links.n_relation; /* the inverse of t is t + n */
    return n > 0 ? dataset->edge_type[entry] % n : -1;
}

bool links_are_joined(const struct dataset *dataset, const struct links_rows *held, uint32_t a, uint32_t b,
                      int relation)
{
    return links_edge_find(dataset, a, b, relation) >= 0 ||
           (!dataset->facts.symmetric && links_edge_find(dataset, b, a, relation) >= 0) ||
           links_rows_has(held, a, b, relation) || (relation >= 0 && links_rows_has(held, b, a, relation));
}

static enum status arrays_acquire(int64_t n_entry, bool typed, struct links_rows *out)
{
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)out->n_node + 1, sizeof *out->indptr, &out->indptr);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)n_entry, sizeof *out->source, &out->source);
    }
    if (status == STATUS_OK && typed) {
        status = memory_acquire(MEMORY_OTHER, (size_t)n_entry, sizeof *out->relation, &out->relation);
    }
    out->n_entry = n_entry;
    return status;
}

/* Count the entries, or add them. */
static void pass(const struct dataset *dataset, unsigned splits, bool adds, struct row_build *build)
{
    for (int s = 0; s < LINKS_SPLIT_N; s++) {
        const struct links_held *held = &dataset->links.held[s];
        const struct links_pairs *pairs = &held->positive;
        const int64_t first = held->one_way ? 1 : 0, step = held->one_way ? 2 : 1; /* tails alone, or both ends */
        for (int64_t i = first; (splits >> s & 1) != 0 && i < 2 * pairs->n; i += step) {
            uint32_t to = pairs->end[i], from = pairs->end[i ^ 1];
            uint64_t relation = pairs->relation != NULL ? pairs->relation[i / 2] : 0;
            if (!adds) {
                row_build_count(build, to);
            } else {
                ASSERT(row_build_add(build, to, relation << 32 | from));
            }
        }
    }
}

enum status links_rows_open(const struct dataset *dataset, unsigned splits, struct links_rows *out)
{
    struct row_build build;
    *out = (struct links_rows){.n_node = dataset->n_node};
    enum status status = row_build_open(dataset->n_node, &build);
    if (status != STATUS_OK) {
        return status;
    }
    pass(dataset, splits, false, &build);
    row_build_counted(&build);
    status = arrays_acquire(build.n_entry, dataset->links.n_relation > 0, out);
    const struct row_pairs rows = {.source = out->source, .type = out->relation};
    if (status == STATUS_OK) {
        status = row_build_into(&build, rows);
    }
    if (status == STATUS_OK) {
        pass(dataset, splits, true, &build);
        ASSERT(row_build_finish(&build, out->indptr));
        row_pairs_sort(out->n_node, out->indptr, rows);
    }
    row_build_close(&build);
    return status;
}

void links_rows_close(struct links_rows *rows)
{
    memory_release(MEMORY_OTHER, rows->relation, (size_t)rows->n_entry, sizeof *rows->relation);
    memory_release(MEMORY_OTHER, rows->source, (size_t)rows->n_entry, sizeof *rows->source);
    memory_release(MEMORY_OTHER, rows->indptr, (size_t)rows->n_node + 1, sizeof *rows->indptr);
    *rows = (struct links_rows){0};
}

/* Move an entry of the rows to a place before it. */
static void entry_move(struct dataset *out, int64_t from, int64_t to)
{
    out->indices[to] = out->indices[from];
    if (out->edge_type != NULL) {
        out->edge_type[to] = out->edge_type[from];
    }
    if (out->facts.weighted) {
        out->edge_weight[to] = out->edge_weight[from];
    }
    if (out->edges.row != NULL) {
        out->edges.row[to] = out->edges.row[from];
    }
}

/* Is entry i of row v an edge that is held out, or the inverse of one? */
static bool is_held(const struct links_rows *held, const struct dataset *dataset, uint32_t v, int64_t i)
{
    uint32_t from = dataset->indices[i];
    int relation = links_entry_relation(dataset, i);
    bool is_inverse = relation >= 0 && dataset->edge_type[i] != relation;
    return links_rows_has(held, is_inverse ? from : v, is_inverse ? v : from, relation);
}

enum status links_cut(const struct links_rows *held, struct dataset *out)
{
    int64_t n_entry = out->n_edge, begin = 0, to = 0;
    for (int64_t v = 0; v < out->n_node; v++) {
        int64_t end = out->indptr[v + 1];
        bool is_whole = held->relation == NULL && held->indptr[v] == held->indptr[v + 1];
        out->indptr[v] = to;
        for (int64_t i = begin; i < end; i++) {
            if (is_whole || !is_held(held, out, (uint32_t)v, i)) {
                entry_move(out, i, to++);
            }
        }
        begin = end;
    }
    out->indptr[out->n_node] = to;
    out->n_edge = to;
    if (to == n_entry) {
        return STATUS_OK;
    }
    enum status status = dataset_edges_shrink(n_entry, out);
    if (status == STATUS_OK && out->facts.weighted) { /* sums of fewer weights are finite, too */
        status = weights_strength(out->name, out->n_node, out->indptr, out->edge_weight, out->strength);
    }
    return status == STATUS_OK && out->edges.loop_features != NULL ? edge_features_loops(out) : status;
}
