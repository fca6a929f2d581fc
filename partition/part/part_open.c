/* Checks the bytes of an encoded part and points a struct part into them.
 *
 * Everything that is used as an index or a length later is checked here, once, in O(bytes); counts are bounded by the
 * number of bytes before they are added or multiplied.
 */
#include "partition/part/part.h"
#include "partition/part/part_format.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <float.h>
#include <string.h>

struct reader {
    const char *bytes;
    const struct part_header *header;
    struct part *part;
};

static const void *section(const struct reader *in, enum part_section s)
{
    return in->bytes + in->header->section[s].offset;
}

static enum status fail_at(enum part_section s, int64_t index, const char *expected)
{
    return status_fail(STATUS_DATA, "encoded part: section '%s', entry %lld: expected %s", part_section_name(s),
                       (long long)index, expected);
}

static enum status check_below(enum part_section s, const uint32_t *value, int64_t n, int64_t most,
                               const char *expected)
{
    for (int64_t i = 0; i < n; i++) {
        if (value[i] > most) {
            return fail_at(s, i, expected);
        }
    }
    return STATUS_OK;
}

static bool is_finite(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

static bool is_nan(float value)
{
    return value != value;
}

/* Finite numbers, none below `least`: 0, or any. */
static enum status check_numbers(enum part_section s, const float *value, int64_t n, float least)
{
    for (int64_t i = 0; i < n; i++) {
        if (!is_finite(value[i]) || value[i] < least) {
            return fail_at(s, i, least < 0.0f ? "a finite number" : "a finite number that is not negative");
        }
    }
    return STATUS_OK;
}

static enum status check_labels(const struct reader *in)
{
    const struct part *p = in->part;
    if (p->labels.class_weights != NULL) {
        enum status status = check_numbers(PART_SECTION_CLASS_WEIGHTS, p->labels.class_weights, p->facts.n_class,
                                           0.0f);
        if (status != STATUS_OK) {
            return status;
        }
    }
    if (p->facts.multi_label) {
        for (int64_t i = 0; i < p->n_own * p->facts.n_class; i++) {
            if (!is_finite(p->labels.rows[i]) && !is_nan(p->labels.rows[i])) {
                return fail_at(PART_SECTION_LABEL_ROWS, i, "a finite number or NaN");
            }
        }
        return STATUS_OK;
    }
    for (int64_t i = 0; i < p->n_own; i++) {
        if (p->labels.classes[i] < -1 || p->labels.classes[i] >= p->facts.n_class) {
            return fail_at(PART_SECTION_LABELS, i, "-1 or a class below n_class");
        }
    }
    return STATUS_OK;
}

static enum status check_feature_rows(const struct reader *in)
{
    const struct part *p = in->part;
    const int64_t *indptr = p->features.indptr;
    int64_t n_row = p->n_own + p->n_halo, n_value = p->features.n_value + p->features.n_halo_value;
    if (indptr[0] != 0 || indptr[p->n_own] != p->features.n_value || indptr[n_row] != n_value) {
        return fail_at(PART_SECTION_FEATURE_INDPTR, 0,
                       "0 first, the number of stored values last, and of own rows behind these");
    }
    for (int64_t r = 0; r < n_row; r++) {
        if (indptr[r + 1] < indptr[r] || indptr[r + 1] > n_value) {
            return fail_at(PART_SECTION_FEATURE_INDPTR, r + 1, "ends of rows that do not fall");
        }
        for (int64_t i = indptr[r]; i < indptr[r + 1]; i++) {
            if (p->features.indices[i] >= p->features.n_shared ||
                (i > indptr[r] && p->features.indices[i] <= p->features.indices[i - 1])) {
                return fail_at(PART_SECTION_FEATURE_INDICES, i, "ascending columns below those that all nodes share");
            }
        }
    }
    return check_numbers(PART_SECTION_FEATURE_DATA, p->features.data, n_value, -FLT_MAX);
}

/* Which columns are single nodes' own: how many are left to all. */
static enum status check_runs(const struct reader *in)
{
    struct part *p = in->part;
    int64_t end = -1;
    for (int32_t i = 0; i < p->features.embedded.n_run; i++) {
        const struct embedded_run *run = &p->features.embedded.run[i];
        if (run->begin <= end || run->end <= run->begin || run->end > p->facts.n_feature) {
            return fail_at(PART_SECTION_EMBEDDED_RUNS, i,
                           "ascending runs of columns below n_feature, apart from one another");
        }
        end = run->end;
    }
    p->features.n_shared = p->facts.n_feature - embedded_count(&p->features.embedded);
    return STATUS_OK;
}

/* The rows here that have a column of their own. */
static enum status check_embedded(const struct part *p)
{
    for (int64_t k = 0; k < p->features.n_embedded; k++) {
        int64_t row = p->features.embedded_rows[k];
        if (row >= p->n_own || (k > 0 && p->features.embedded_rows[k] <= p->features.embedded_rows[k - 1])) {
            return fail_at(PART_SECTION_EMBEDDED_ROWS, k, "ascending own rows below n_own");
        }
        if (p->features.indptr[row + 1] != p->features.indptr[row]) {
            return fail_at(PART_SECTION_EMBEDDED_ROWS, k, "a row without entries in shared columns");
        }
        if (!embedded_has(&p->features.embedded, p->features.embedded_columns[k])) {
            return fail_at(PART_SECTION_EMBEDDED_COLUMNS, k, "a column in one of the runs");
        }
    }
    return STATUS_OK;
}

#define DEGREE_EXPECTED "at most n_node neighbours (of each relation)"

static int64_t degree_most(const struct reader *in)
{
    return in->header->n_node * (in->header->edges.n_relation > 1 ? in->header->edges.n_relation : 1);
}

static enum status check_rows(const struct reader *in)
{
    const struct part *p = in->part;
    enum status status = check_below(PART_SECTION_NODE, p->node, p->n_own + p->n_halo, p->n_node - 1,
                                     "a node number below n_node");
    if (status == STATUS_OK) {
        status = check_below(PART_SECTION_DEGREE, p->degree, p->n_own, degree_most(in), DEGREE_EXPECTED);
    }
    if (status == STATUS_OK && p->facts.weighted) {
        status = check_numbers(PART_SECTION_STRENGTH, p->strength, p->n_own, 0.0f);
    }
    for (int64_t r = 0; r < p->n_own && status == STATUS_OK; r++) {
        if (p->labels.split[r] >= DATASET_SPLIT_N) {
            status = fail_at(PART_SECTION_SPLIT, r, "a split number of 0 to 4");
        }
    }
    if (status == STATUS_OK) {
        status = check_labels(in);
    }
    if (status == STATUS_OK && p->features.rows != NULL) {
        status = check_numbers(PART_SECTION_FEATURES, p->features.rows, (p->n_own + p->n_halo) * p->facts.n_feature,
                               -FLT_MAX);
    }
    if (status == STATUS_OK && p->edges.features != NULL) {
        status = check_numbers(PART_SECTION_EDGE_FEATURES, p->edges.features,
                               p->edges.n_row * p->facts.n_edge_feature, -FLT_MAX);
    }
    if (status == STATUS_OK && p->features.indptr != NULL) {
        status = check_runs(in);
        status = status == STATUS_OK ? check_feature_rows(in) : status;
        status = status == STATUS_OK ? check_embedded(p) : status;
    }
    return status;
}

/* Structure of one block whose arrays are known to lie inside their sections. */
static enum status check_block(const struct part_block *b, enum part_direction d, int32_t j, int64_t n_own)
{
    for (int64_t r = 0; r < b->n_row; r++) {
        int64_t least = b->indptr[r] + (b->rows != NULL);
        if (b->indptr[r + 1] < least || b->indptr[r + 1] > b->n_edge) {
            return part_block_fail(d, j, "an indptr that rises (by at least one in listed rows)");
        }
        if (b->rows != NULL && (b->rows[r] >= n_own || (r > 0 && b->rows[r] <= b->rows[r - 1]))) {
            return part_block_fail(d, j, "ascending own rows below n_own");
        }
        for (int64_t i = b->indptr[r]; i < b->indptr[r + 1]; i++) {
            bool within = i > b->indptr[r];
            if (b->types != NULL && within && b->types[i] < b->types[i - 1]) {
                return part_block_fail(d, j, "ascending types in each row");
            }
            within = within && (b->types == NULL || b->types[i] == b->types[i - 1]);
            if (b->cols[i] >= b->n_col || (within && b->cols[i] <= b->cols[i - 1])) {
                return part_block_fail(d, j, "ascending columns below n_col in each row (and type)");
            }
        }
    }
    return STATUS_OK;
}

/* The values of a direction's edges and payload rows, wherever in a block they stand. */
static enum status check_side_values(const struct reader *in, enum part_direction d)
{
    const struct part_counts *total = &in->header->total[d];
    enum part_section degree = part_side_section(d, PART_SIDE_DEGREE), node = part_side_section(d, PART_SIDE_NODE);
    enum part_section types = part_side_section(d, PART_SIDE_TYPES),
                      weights = part_side_section(d, PART_SIDE_WEIGHTS);
    int64_t n_node = in->header->n_node, n_typed = in->header->edges.n_relation > 0 ? total->n_edge : 0;
    enum status status = check_below(degree, section(in, degree), total->n_col, degree_most(in), DEGREE_EXPECTED);
    if (status == STATUS_OK) {
        status = check_below(node, section(in, node), total->n_col, n_node - 1, "a node number below n_node");
    }
    const uint16_t *type = section(in, types);
    for (int64_t i = 0; i < n_typed && status == STATUS_OK; i++) {
        status = type[i] < in->header->edges.n_relation ? STATUS_OK
                                                        : fail_at(types, i, "a relation below n_relation");
    }
    bool weighted = in->header->flags.weighted;
    if (status == STATUS_OK) {
        status = check_numbers(weights, section(in, weights), weighted ? total->n_edge : n_typed, 0.0f);
    }
    enum part_section edge_rows = part_side_section(d, PART_SIDE_EDGE_ROWS);
    if (status == STATUS_OK && in->header->edges.n_feature > 0) {
        status = check_below(edge_rows, section(in, edge_rows), total->n_edge, in->header->edges.n_row - 1,
                             "a row of features below n_edge_row");
    }
    enum part_section strength = part_side_section(d, PART_SIDE_STRENGTH);
    return status == STATUS_OK ? check_numbers(strength, section(in, strength), weighted ? total->n_col : 0, 0.0f)
                               : status;
}

static void point_arrays(const struct reader *in, enum part_direction d)
{
    struct part *p = in->part;
    bool typed = p->facts.n_relation > 0, weighted = typed || p->facts.weighted,
         featured = p->facts.n_edge_feature > 0;
    enum part_side values = featured ? PART_SIDE_EDGE_ROWS : PART_SIDE_WEIGHTS;
    p->arrays[d] = (struct part_arrays){
        .rows = section(in, part_side_section(d, PART_SIDE_ROWS)),
        .indptr = section(in, part_side_section(d, PART_SIDE_INDPTR)),
        .cols = section(in, part_side_section(d, PART_SIDE_COLS)),
        .degree = section(in, part_side_section(d, PART_SIDE_DEGREE)),
        .node = section(in, part_side_section(d, PART_SIDE_NODE)),
        .types = typed ? section(in, part_side_section(d, PART_SIDE_TYPES)) : NULL,
        .weights = weighted || featured ? section(in, part_side_section(d, values)) : NULL,
        .strength = p->facts.weighted ? section(in, part_side_section(d, PART_SIDE_STRENGTH)) : NULL};
}

/* The blocks of one direction, and every entry of them. */
static enum status open_side(const struct reader *in, enum part_direction d)
{
    struct part *p = in->part;
    point_arrays(in, d);
    enum status status = part_halo_acquire(&p->halo, d, in->header->n_block[d]);
    status = status == STATUS_OK ? part_blocks_open(in->header, d, p) : status;
    status = status == STATUS_OK ? check_side_values(in, d) : status;
    for (int32_t k = 0; k < in->header->n_block[d] && status == STATUS_OK; k++) {
        const struct part_block block = part_block_at(p, d, k);
        status = check_block(&block, d, p->halo.pairs[d].pair[k].part, p->n_own);
    }
    return status;
}

/* Every in-edge of the own rows is here, so each row's edges must add up to its degree. */
static enum status check_degrees(const struct part *p)
{
    uint32_t *left;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)p->n_own, sizeof *left, &left);
    if (status != STATUS_OK) {
        return status;
    }
    memcpy(left, p->degree, (size_t)p->n_own * sizeof *left);
    for (int32_t k = 0; k < p->halo.pairs[PART_DIRECTION_IN].n_pair; k++) {
        const struct part_block b = part_block_at(p, PART_DIRECTION_IN, k);
        for (int64_t r = 0; r < b.n_row; r++) {
            left[b.rows != NULL ? b.rows[r] : r] -= (uint32_t)(b.indptr[r + 1] - b.indptr[r]);
        }
    }
    for (int64_t r = 0; r < p->n_own && status == STATUS_OK; r++) {
        if (left[r] != 0) {
            status = fail_at(PART_SECTION_DEGREE, r, "the number of edges of that row in all blocks");
        }
    }
    memory_release(MEMORY_OTHER, left, (size_t)p->n_own, sizeof *left);
    return status;
}

/* Own rows of all parts, and the other ends of own rows' pairs. */
static enum status check_links(const struct reader *in)
{
    const struct part *p = in->part;
    int64_t n_row = 0, n_left = 2 * p->links.n;
    for (int32_t q = 0; p->links.n > 0 && q < p->n_part; q++) {
        n_row += p->links.rows[q];
        if (p->links.ends[q] < 0 || p->links.ends[q] > n_left) {
            return fail_at(PART_SECTION_LINK_ENDS, q, "ends of pairs, two for each pair of the graph");
        }
        n_left -= p->links.ends[q];
    }
    if (p->links.n > 0 && (n_left != 0 || p->links.ends[p->part] != in->header->links.n_here)) {
        return fail_at(PART_SECTION_LINK_ENDS, p->part,
                       "ends of own rows' pairs, and with all parts' two for each pair");
    }
    if (p->links.n > 0 && (n_row != p->n_node || p->links.rows[p->part] != p->n_own)) {
        return fail_at(PART_SECTION_LINK_ROWS, p->part, "own rows of all parts, which add up to n_node");
    }
    if (p->links.n > 0 && (p->links.indptr[0] != 0 || p->links.indptr[p->n_own] != in->header->links.n_here)) {
        return fail_at(PART_SECTION_LINK_INDPTR, 0, "0 first and the number of places last");
    }
    for (int64_t r = 0; p->links.n > 0 && r < p->n_own; r++) {
        if (p->links.indptr[r + 1] < p->links.indptr[r] || p->links.indptr[r + 1] > in->header->links.n_here) {
            return fail_at(PART_SECTION_LINK_INDPTR, r + 1, "ends of rows that do not fall");
        }
        for (int64_t i = p->links.indptr[r]; i < p->links.indptr[r + 1]; i++) {
            if (p->links.places[i] >= p->n_node ||
                (i > p->links.indptr[r] && p->links.places[i] < p->links.places[i - 1])) {
                return fail_at(PART_SECTION_LINK_PLACES, i, "places below n_node that do not fall in a row");
            }
            if (p->links.types != NULL &&
                p->links.types[i] >= 2 * (p->facts.n_relation_given > 0 ? p->facts.n_relation_given : 1)) {
                return fail_at(PART_SECTION_LINK_TYPES, i, "a relation of the pairs");
            }
        }
    }
    return STATUS_OK;
}

/* Halo rows are the payload rows of in-edges. */
static enum status check_halo(const struct part *p)
{
    for (int64_t r = 0; r < p->n_halo; r++) {
        if (p->node[p->n_own + r] != p->arrays[PART_DIRECTION_IN].node[r]) {
            return fail_at(PART_SECTION_NODE, p->n_own + r, "the node of that payload row of in-edges");
        }
    }
    return STATUS_OK;
}

static void point_rows(const struct reader *in)
{
    struct part *p = in->part;
    const struct part_header *h = in->header;
    bool sparse = h->flags.features == PART_FEATURES_SPARSE;
    p->part = h->part;
    p->n_part = h->n_part;
    p->n_own = h->n_own;
    p->n_node = h->n_node;
    p->facts.counts = h->counts;
    p->facts.n_feature = h->features.n_column;
    p->features.embedded = (struct embedded){.n_run = (int32_t)h->features.n_embedded_run,
                                             .run = section(in, PART_SECTION_EMBEDDED_RUNS)};
    p->features.n_embedded = h->features.n_embedded;
    p->features.n_value = h->features.n_value;
    p->stores = h->flags.stores;
    p->n_halo = h->n_halo;
    p->features.n_halo_value = h->features.n_halo_value;
    p->facts.n_edge_feature = h->edges.n_feature;
    p->edges.n_row = h->edges.n_row;
    p->facts.features_typed = h->flags.features_typed;
    p->facts.n_class = h->n_class;
    p->facts.multi_label = h->flags.multi_label;
    p->facts.symmetric = h->flags.symmetric;
    p->facts.n_relation = (int32_t)h->edges.n_relation;
    p->facts.n_relation_given = (int32_t)h->edges.n_relation_given;
    p->n_hop = (int32_t)h->n_hop;
    p->facts.weighted = h->flags.weighted;
    p->covered = h->flags.covered;
    p->facts.loops = (enum graph_loops)h->flags.loops;
    p->halo = (struct part_halo){
        .part = h->part, .n_part = h->n_part, .n_hop = p->n_hop, .symmetric = h->flags.symmetric};
    memcpy(p->labels.n_split, h->n_split, sizeof p->labels.n_split);
    p->labels.loss_weight = h->loss_weight;
    p->labels.class_weights = h->flags.class_weighted ? section(in, PART_SECTION_CLASS_WEIGHTS) : NULL;
    p->n_bytes = h->n_bytes;
    p->node = section(in, PART_SECTION_NODE);
    p->degree = section(in, PART_SECTION_DEGREE);
    p->strength = h->flags.weighted ? section(in, PART_SECTION_STRENGTH) : NULL;
    p->labels.split = section(in, PART_SECTION_SPLIT);
    p->labels.classes = h->flags.multi_label ? NULL : section(in, PART_SECTION_LABELS);
    p->labels.rows = h->flags.multi_label ? section(in, PART_SECTION_LABEL_ROWS) : NULL;
    p->features.rows = h->flags.features == PART_FEATURES_DENSE ? section(in, PART_SECTION_FEATURES) : NULL;
    p->features.indptr = sparse ? section(in, PART_SECTION_FEATURE_INDPTR) : NULL;
    p->features.indices = sparse ? section(in, PART_SECTION_FEATURE_INDICES) : NULL;
    p->features.data = sparse ? section(in, PART_SECTION_FEATURE_DATA) : NULL;
    p->features.embedded_rows = section(in, PART_SECTION_EMBEDDED_ROWS);
    p->features.embedded_columns = section(in, PART_SECTION_EMBEDDED_COLUMNS);
    p->links.n = h->links.n;
    p->links.n_joined = h->links.n_joined;
    p->links.rows = h->links.n > 0 ? section(in, PART_SECTION_LINK_ROWS) : NULL;
    p->links.ends = h->links.n > 0 ? section(in, PART_SECTION_LINK_ENDS) : NULL;
    p->links.indptr = h->links.n > 0 ? section(in, PART_SECTION_LINK_INDPTR) : NULL;
    p->links.places = h->links.n > 0 ? section(in, PART_SECTION_LINK_PLACES) : NULL;
    p->links.types = h->links.n > 0 && h->flags.link_typed ? section(in, PART_SECTION_LINK_TYPES) : NULL;
    p->edges.features = h->edges.n_feature > 0 ? section(in, PART_SECTION_EDGE_FEATURES) : NULL;
}

enum status part_check(void *bytes, size_t n_bytes, bool checksums, struct part *out)
{
    ASSERT((uintptr_t)bytes % PART_ALIGN == 0);
    enum status status = part_header_check(bytes, n_bytes, checksums);
    if (status != STATUS_OK) {
        return status;
    }
    struct part part = {.bytes = bytes};
    struct reader in = {.bytes = bytes, .header = bytes, .part = &part};
    point_rows(&in);
    int n_side = part.facts.symmetric ? 1 : PART_DIRECTION_N;
    status = check_rows(&in);
    for (int d = 0; d < n_side && status == STATUS_OK; d++) {
        status = open_side(&in, (enum part_direction)d);
    }
    if (status == STATUS_OK) {
        status = check_degrees(&part);
    }
    if (status == STATUS_OK) {
        status = check_halo(&part);
    }
    if (status == STATUS_OK) {
        status = check_links(&in);
    }
    part_halo_mirror(&part.halo);
    if (part.facts.symmetric) {
        part.arrays[PART_DIRECTION_OUT] = part.arrays[PART_DIRECTION_IN];
    }
    status = status == STATUS_OK ? part_hops_open(bytes, &part) : status;
    if (status != STATUS_OK) {
        part_release(&part);
        return status;
    }
    *out = part;
    return STATUS_OK;
}

enum status part_open(void *bytes, size_t n_bytes, struct part *out)
{
    return part_check(bytes, n_bytes, true, out);
}

void part_release(struct part *part)
{
    part_halo_release(&part->halo);
}
