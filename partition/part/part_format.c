/* Layout of an encoded part: where each section lies follows from the counts alone. */
#include "partition/part/part_format.h"

#include <string.h>

static const struct {
    const char *text;
    size_t element;
} section_rows[PART_SECTION_N] = {
#define X(name, text, type) {text, sizeof(type)},
    PART_SECTION_LIST(X)
#undef X
};

const char *part_section_name(enum part_section section)
{
    return section_rows[section].text;
}

enum part_section part_side_section(enum part_direction direction, enum part_side side)
{
    enum part_section first = direction == PART_DIRECTION_IN ? PART_SECTION_IN_BLOCKS : PART_SECTION_OUT_BLOCKS;
    return (enum part_section)((int)first + (int)side);
}

/* Elements of every section, in n_out of zeros; false on overflow. */
static bool count_elements(const struct part_header *header, uint64_t *n_out)
{
    uint64_t n_own = (uint64_t)header->n_own, n_row = n_own + (uint64_t)header->n_halo;
    uint64_t label_row_values, feature_values, edge_feature_values;
    if (__builtin_mul_overflow((uint64_t)header->edges.n_row, (uint64_t)header->edges.n_feature,
                               &edge_feature_values) ||
        __builtin_mul_overflow(n_own, (uint64_t)header->n_class, &label_row_values) ||
        __builtin_mul_overflow(n_row, (uint64_t)header->features.n_column, &feature_values)) {
        return false;
    }
    bool dense = header->flags.features == PART_FEATURES_DENSE;
    bool sparse = header->flags.features == PART_FEATURES_SPARSE;
    n_out[PART_SECTION_NODE] = n_row;
    n_out[PART_SECTION_DEGREE] = n_own;
    n_out[PART_SECTION_STRENGTH] = header->flags.weighted ? n_own : 0;
    n_out[PART_SECTION_SPLIT] = n_own;
    n_out[PART_SECTION_LABELS] = header->flags.multi_label ? 0 : n_own;
    n_out[PART_SECTION_LABEL_ROWS] = header->flags.multi_label ? label_row_values : 0;
    n_out[PART_SECTION_CLASS_WEIGHTS] = header->flags.class_weighted ? (uint64_t)header->n_class : 0;
    n_out[PART_SECTION_FEATURES] = dense ? feature_values : 0;
    n_out[PART_SECTION_FEATURE_INDPTR] = sparse ? n_row + 1 : 0;
    n_out[PART_SECTION_FEATURE_INDICES] =
        sparse ? (uint64_t)header->features.n_value + (uint64_t)header->features.n_halo_value : 0;
    n_out[PART_SECTION_FEATURE_DATA] = n_out[PART_SECTION_FEATURE_INDICES];
    n_out[PART_SECTION_EMBEDDED_RUNS] = (uint64_t)header->features.n_embedded_run;
    n_out[PART_SECTION_EMBEDDED_ROWS] = (uint64_t)header->features.n_embedded;
    n_out[PART_SECTION_EMBEDDED_COLUMNS] = (uint64_t)header->features.n_embedded;
    n_out[PART_SECTION_EDGE_FEATURES] = edge_feature_values;
    n_out[PART_SECTION_LINK_ROWS] = header->links.n > 0 ? (uint64_t)header->n_part : 0;
    n_out[PART_SECTION_LINK_ENDS] = n_out[PART_SECTION_LINK_ROWS];
    n_out[PART_SECTION_LINK_INDPTR] = header->links.n > 0 ? n_own + 1 : 0;
    n_out[PART_SECTION_LINK_PLACES] = (uint64_t)header->links.n_here;
    n_out[PART_SECTION_LINK_TYPES] = header->flags.link_typed ? (uint64_t)header->links.n_here : 0;
    for (enum part_direction d = PART_DIRECTION_IN; d < (header->flags.symmetric ? 1 : PART_DIRECTION_N); d++) {
        const struct part_counts *total = &header->total[d];
        uint64_t *n = &n_out[part_side_section(d, PART_SIDE_BLOCKS)], n_block = (uint64_t)header->n_block[d];
        uint64_t n_edge = (uint64_t)total->n_edge, n_col = (uint64_t)total->n_col;
        n[PART_SIDE_BLOCKS] = n_block;
        n[PART_SIDE_ROWS] = (uint64_t)total->n_row;
        n[PART_SIDE_INDPTR] = (uint64_t)total->n_row + n_own + n_block;
        n[PART_SIDE_COLS] = n_edge;
        n[PART_SIDE_DEGREE] = n_col;
        n[PART_SIDE_NODE] = n_col;
        n[PART_SIDE_TYPES] = header->edges.n_relation > 0 ? n_edge : 0;
        n[PART_SIDE_WEIGHTS] = header->edges.n_relation > 0 || header->flags.weighted ? n_edge : 0;
        n[PART_SIDE_STRENGTH] = header->flags.weighted ? n_col : 0;
        n[PART_SIDE_EDGE_ROWS] = header->edges.n_feature > 0 ? n_edge : 0;
        n[PART_SIDE_HOPS] = n_block * (uint64_t)header->n_hop;
    }
    return true;
}

bool part_layout(struct part_header *header)
{
    const uint64_t most = (uint64_t)1 << 56;
    uint64_t n[PART_SECTION_N] = {0};
    uint64_t at = sizeof *header;
    if (!count_elements(header, n)) {
        return false;
    }
    for (int s = 0; s < PART_SECTION_N; s++) {
        uint64_t n_bytes;
        if (__builtin_mul_overflow(n[s], section_rows[s].element, &n_bytes) || n_bytes > most - at) {
            return false;
        }
        at = (at + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
        header->section[s].offset = at;
        header->section[s].n_bytes = n_bytes;
        at += n_bytes;
        if (at > most - PART_ALIGN) {
            return false;
        }
    }
    header->n_bytes = (int64_t)at;
    return true;
}

void part_header_init(struct part_header *header, const struct dataset *dataset, const struct partition *partition)
{
    memset(header, 0, sizeof *header);
    memcpy(header->magic, PART_MAGIC, sizeof header->magic);
    header->version = PART_VERSION;
    header->n_section = PART_SECTION_N;
    header->n_part = partition->n_part;
    header->n_hop = partition->n_hop;
    header->n_node = dataset->n_node;
    header->counts = dataset->facts.counts;
    header->features.n_column = dataset->facts.n_feature;
    header->features.n_embedded_run = dataset->features.embedded.n_run;
    memcpy(header->n_split, dataset->labels.n_split, sizeof header->n_split);
    header->edges.n_relation = dataset->facts.n_relation;
    header->edges.n_relation_given = dataset->facts.n_relation_given;
    header->flags.link_typed = dataset->links.n_relation > 0 || dataset->links.is_directed;
    header->n_class = dataset->facts.n_class;
    header->flags.multi_label = dataset->facts.multi_label;
    header->flags.class_weighted = dataset->labels.class_weights != NULL;
    header->loss_weight = dataset->labels.loss_weight > 0.0 ? dataset->labels.loss_weight
                                                            : (double)dataset->labels.n_split[DATASET_SPLIT_TRAIN];
    header->flags.features_typed = dataset->facts.features_typed;
    header->flags.weighted = dataset->facts.weighted;
    header->edges.n_feature = dataset->facts.n_edge_feature;
    header->flags.covered = partition->covered;
    header->flags.stores = partition->stores;
    header->flags.symmetric = dataset->facts.symmetric;
    header->flags.loops = (uint8_t)dataset->facts.loops;
    header->flags.features = dataset->facts.n_feature == 0      ? PART_FEATURES_NONE
                             : dataset->features.indptr != NULL ? PART_FEATURES_SPARSE
                                                                : PART_FEATURES_DENSE;
}

int64_t part_feature_values(const struct dataset *dataset, const uint32_t *node, int64_t n, int64_t *n_embedded_out)
{
    int64_t n_value = 0;
    *n_embedded_out = 0;
    for (int64_t r = 0; r < n; r++) {
        if (dataset_is_embedded(dataset, node[r])) {
            (*n_embedded_out)++;
        } else {
            n_value += dataset->features.indptr[node[r] + (int64_t)1] - dataset->features.indptr[node[r]];
        }
    }
    return n_value;
}
