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
    if (__builtin_mul_overflow((uint64_t)header->n_edge_row, (uint64_t)header->n_edge_feature,
                               &edge_feature_values) ||
        __builtin_mul_overflow(n_own, (uint64_t)header->n_class, &label_row_values) ||
        __builtin_mul_overflow(n_row, (uint64_t)header->n_feature, &feature_values)) {
        return false;
    }
    bool dense = header->features == PART_FEATURES_DENSE;
    bool sparse = header->features == PART_FEATURES_SPARSE;
    n_out[PART_SECTION_NODE] = n_row;
    n_out[PART_SECTION_DEGREE] = n_own;
    n_out[PART_SECTION_STRENGTH] = header->weighted ? n_own : 0;
    n_out[PART_SECTION_SPLIT] = n_own;
    n_out[PART_SECTION_LABELS] = header->multi_label ? 0 : n_own;
    n_out[PART_SECTION_LABEL_ROWS] = header->multi_label ? label_row_values : 0;
    n_out[PART_SECTION_CLASS_WEIGHTS] = header->class_weighted ? (uint64_t)header->n_class : 0;
    n_out[PART_SECTION_FEATURES] = dense ? feature_values : 0;
    n_out[PART_SECTION_FEATURE_INDPTR] = sparse ? n_row + 1 : 0;
    n_out[PART_SECTION_FEATURE_INDICES] = sparse ? (uint64_t)header->n_feature_value + (uint64_t)header->n_halo_value
                                                 : 0;
    n_out[PART_SECTION_FEATURE_DATA] = n_out[PART_SECTION_FEATURE_INDICES];
    n_out[PART_SECTION_EMBEDDED_RUNS] = (uint64_t)header->n_embedded_run;
    n_out[PART_SECTION_EMBEDDED_ROWS] = (uint64_t)header->n_embedded;
    n_out[PART_SECTION_EMBEDDED_COLUMNS] = (uint64_t)header->n_embedded;
    n_out[PART_SECTION_EDGE_FEATURES] = edge_feature_values;
    n_out[PART_SECTION_LINK_ROWS] = header->n_link > 0 ? (uint64_t)header->n_part : 0;
    n_out[PART_SECTION_LINK_ENDS] = n_out[PART_SECTION_LINK_ROWS];
    n_out[PART_SECTION_LINK_INDPTR] = header->n_link > 0 ? n_own + 1 : 0;
    n_out[PART_SECTION_LINK_PLACES] = (uint64_t)header->n_link_here;
    n_out[PART_SECTION_LINK_TYPES] = header->link_typed ? (uint64_t)header->n_link_here : 0;
    for (enum part_direction d = PART_DIRECTION_IN; d < (header->symmetric ? 1 : PART_DIRECTION_N); d++) {
        const struct part_counts *total = &header->total[d];
        uint64_t *n = &n_out[part_side_section(d, PART_SIDE_BLOCKS)], n_block = (uint64_t)header->n_block[d];
        uint64_t n_edge = (uint64_t)total->n_edge, n_col = (uint64_t)total->n_col;
        n[PART_SIDE_BLOCKS] = n_block;
        n[PART_SIDE_ROWS] = (uint64_t)total->n_row;
        n[PART_SIDE_INDPTR] = (uint64_t)total->n_row + n_own + n_block;
        n[PART_SIDE_COLS] = n_edge;
        n[PART_SIDE_DEGREE] = n_col;
        n[PART_SIDE_NODE] = n_col;
        n[PART_SIDE_TYPES] = header->n_relation > 0 ? n_edge : 0;
        n[PART_SIDE_WEIGHTS] = header->n_relation > 0 || header->weighted ? n_edge : 0;
        n[PART_SIDE_STRENGTH] = header->weighted ? n_col : 0;
        n[PART_SIDE_EDGE_ROWS] = header->n_edge_feature > 0 ? n_edge : 0;
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
    header->counts = dataset->counts;
    header->n_feature = dataset->n_feature;
    header->n_embedded_run = dataset->embedded.n_run;
    memcpy(header->n_split, dataset->n_split, sizeof header->n_split);
    header->n_relation = dataset->n_relation;
    header->n_relation_given = dataset->n_relation_given;
    header->link_typed = dataset->links.n_relation > 0 || dataset->links.is_directed;
    header->n_class = dataset->n_class;
    header->multi_label = dataset->multi_label;
    header->class_weighted = dataset->class_weight != NULL;
    header->loss_weight = dataset->loss_weight > 0.0 ? dataset->loss_weight
                                                     : (double)dataset->n_split[DATASET_SPLIT_TRAIN];
    header->features_typed = dataset->features_typed;
    header->weighted = dataset->weighted;
    header->n_edge_feature = dataset->n_edge_feature;
    header->covered = partition->covered;
    header->stores = partition->stores;
    header->symmetric = dataset->symmetric;
    header->loops = (uint8_t)dataset->loops;
    header->features = dataset->n_feature == 0           ? PART_FEATURES_NONE
                       : dataset->feature_indptr != NULL ? PART_FEATURES_SPARSE
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
            n_value += dataset->feature_indptr[node[r] + (int64_t)1] - dataset->feature_indptr[node[r]];
        }
    }
    return n_value;
}
