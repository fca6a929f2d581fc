/* The bytes of an encoded part: header with the section table, then the sections on 64-byte borders.
 *
 * Shared by part_encode, part_open and part_sizes, which all take the layout from part_layout: a table that is not
 * exactly what the counts ask for is refused. Integers are little-endian. Private to those files and to tests.
 */
#ifndef PARTITION_PART_FORMAT_H
#define PARTITION_PART_FORMAT_H

#include "partition/part/part.h"

#include <stddef.h>
#include <stdint.h>

#define PART_MAGIC "TRNDPART"
#define PART_VERSION 17u
#define PART_ALIGN 64
#define PART_N_PART_MOST 65536

/*    name             text                element */
/* clang-format off */
#define PART_SECTION_LIST(X)                                   \
    X(NODE,            "node",             uint32_t)           \
    X(DEGREE,          "degree",           uint32_t)           \
    X(STRENGTH,        "strength",         float)              \
    X(SPLIT,           "split",            uint8_t)            \
    X(LABELS,          "labels",           int32_t)            \
    X(LABEL_ROWS,      "label rows",       float)              \
    X(CLASS_WEIGHTS,   "class weights",    float)              \
    X(FEATURES,        "features",         float)              \
    X(FEATURE_INDPTR,  "feature indptr",   int64_t)            \
    X(FEATURE_INDICES, "feature indices",  uint32_t)           \
    X(FEATURE_DATA,    "feature data",     float)              \
    X(EMBEDDED_RUNS,   "embedded runs",    struct embedded_run) \
    X(EMBEDDED_ROWS,   "embedded rows",    uint32_t)           \
    X(EMBEDDED_COLUMNS, "embedded columns", uint32_t)          \
    X(EDGE_FEATURES,   "edge features",    float)              \
    X(LINK_ROWS,       "link rows",        uint32_t)           \
    X(LINK_ENDS,       "link ends",        int64_t)            \
    X(LINK_INDPTR,     "link indptr",      int64_t)            \
    X(LINK_PLACES,     "link places",      uint32_t)           \
    X(LINK_TYPES,      "link types",       uint16_t)           \
    X(IN_BLOCKS,       "in blocks",        struct part_listed) \
    X(IN_ROWS,         "in rows",          uint32_t)           \
    X(IN_INDPTR,       "in indptr",        int64_t)            \
    X(IN_COLS,         "in columns",       uint32_t)           \
    X(IN_DEGREE,       "in degree",        uint32_t)           \
    X(IN_NODE,         "in node",          uint32_t)           \
    X(IN_TYPES,        "in types",         uint16_t)           \
    X(IN_WEIGHTS,      "in weights",       float)              \
    X(IN_STRENGTH,     "in strength",      float)              \
    X(IN_EDGE_ROWS,    "in edge rows",     uint32_t)           \
    X(IN_HOPS,         "in hops",          uint32_t)           \
    X(OUT_BLOCKS,      "out blocks",       struct part_listed) \
    X(OUT_ROWS,        "out rows",         uint32_t)           \
    X(OUT_INDPTR,      "out indptr",       int64_t)            \
    X(OUT_COLS,        "out columns",      uint32_t)           \
    X(OUT_DEGREE,      "out degree",       uint32_t)           \
    X(OUT_NODE,        "out node",         uint32_t)           \
    X(OUT_TYPES,       "out types",        uint16_t)           \
    X(OUT_WEIGHTS,     "out weights",      float)              \
    X(OUT_STRENGTH,    "out strength",     float)              \
    X(OUT_EDGE_ROWS,   "out edge rows",    uint32_t)           \
    X(OUT_HOPS,        "out hops",         uint32_t)
/* clang-format on */

enum part_section {
#define X(name, text, type) PART_SECTION_##name,
    PART_SECTION_LIST(X)
#undef X
        PART_SECTION_N
};

/* The sections of a direction follow one another in the list's order. */
enum part_side {
    PART_SIDE_BLOCKS,
    PART_SIDE_ROWS,
    PART_SIDE_INDPTR,
    PART_SIDE_COLS,
    PART_SIDE_DEGREE,
    PART_SIDE_NODE,
    PART_SIDE_TYPES,
    PART_SIDE_WEIGHTS,
    PART_SIDE_STRENGTH,
    PART_SIDE_EDGE_ROWS,
    PART_SIDE_HOPS
};

/* A block that has an edge, or the diagonal. Blocks lie one after another in the direction's sections, part numbers
 * ascending; the diagonal has no rows, degrees, strengths and nodes of its own there (they are all rows, and sections
 * "degree", "strength" and "node"). Its edges are the last entry of its indptr. */
struct part_listed {
    uint32_t part; /* the other one */
    uint32_t n_row;
    uint32_t n_col;
};

/* Sums over a direction's blocks; the diagonal's n_row and n_col left out. */
struct part_counts {
    int64_t n_row;
    int64_t n_col;
    int64_t n_edge;
};

enum part_features { PART_FEATURES_NONE, PART_FEATURES_DENSE, PART_FEATURES_SPARSE };

struct part_section_row {
    uint64_t offset;
    uint64_t n_bytes;
    uint64_t checksum; /* XXH3-64 */
};

struct part_header {
    char magic[8];
    uint32_t version;
    uint32_t n_section;
    int64_t n_bytes; /* header and all sections */
    int32_t part;
    int32_t n_part;
    int64_t n_own;
    /* rows behind own ones in "node" and the features: where it stores them, all payload rows of in-edges */
    int64_t n_halo;
    int64_t n_node;
    int64_t n_hop; /* 0: own rows are not ordered by hop */
    struct {
        int64_t n_column;
        int64_t n_value; /* stored values of sparse features */
        int64_t n_halo_value;
        int64_t n_embedded; /* own rows with a column of their own */
        int64_t n_embedded_run;
    } features;
    struct {
        int64_t n_relation;       /* 0: untyped */
        int64_t n_relation_given; /* of these, those that are not inverse ones */
        int64_t n_feature;        /* columns of the edges' features; 0: none */
        int64_t n_row;            /* rows of them */
    } edges;
    struct {
        int64_t n;        /* task.kind = "link": pairs of nodes with an edge, of the whole graph; else 0 */
        int64_t n_here;   /* of those the ones of own rows, counted at both ends */
        int64_t n_joined; /* different ones of the whole graph */
    } links;
    int64_t n_split[DATASET_SPLIT_N];
    double loss_weight; /* of the whole graph's training rows */
    struct graph_counts counts;
    int32_t n_class;
    struct {
        uint8_t multi_label;
        uint8_t symmetric;
        uint8_t loops;
        uint8_t features; /* enum part_features */
        uint8_t features_typed;
        uint8_t weighted; /* weights and strengths; typed edges have weights alone */
        uint8_t covered;  /* as the partition is */
        uint8_t stores;   /* likewise */
        uint8_t class_weighted;
        uint8_t link_typed; /* pairs of links have types (links_places.h) */
        uint8_t unused[2];  /* 0 */
    } flags;
    int32_t n_block[PART_DIRECTION_N]; /* listed; OUT: 0 when symmetric */
    struct part_counts total[PART_DIRECTION_N];
    struct part_section_row section[PART_SECTION_N];
    uint64_t checksum; /* XXH3-64 of all that stands before it */
};

const char *part_section_name(enum part_section section);

/* Number of a direction's section. */
enum part_section part_side_section(enum part_direction direction, enum part_side side);

/* Fill offsets and sizes of the section table and n_bytes from the header's counts (none negative).
 * false when they overflow: no part can be that large. */
bool part_layout(struct part_header *header);

/* Fill the header's counts of dataset and partition: everything but part, n_own, n_halo, values, n_embedded,
 * n_edge_row, n_link, n_link_here, n_joined and total. */
void part_header_init(struct part_header *header, const struct dataset *dataset, const struct partition *partition);

/* Check the hops of an otherwise open part and fill in its halo's: counts within the payloads, training rows alone at
 * hop 0, no edge that skips a hop. errors  STATUS_DATA */
enum status part_hops_open(const void *bytes, struct part *part);

/* Stored values in shared columns of these nodes' sparse features, and how many of the nodes have a column of their
 * own. */
int64_t part_feature_values(const struct dataset *dataset, const uint32_t *node, int64_t n, int64_t *n_embedded_out);

/* Size, magic, version, checksums, scalars, and the section table against the layout that the counts ask for;
 * part_open's first half. errors  STATUS_DATA */
enum status part_header_check(const void *bytes, size_t n_bytes, bool checksums);

/* The blocks that an open part's direction lists, into its halo, whose memory is acquired: numbers, counts and where
 * each one's indptr ends; totals as the header says. In part_blocks.c. errors  STATUS_DATA */
enum status part_blocks_open(const struct part_header *header, enum part_direction d, struct part *part);

/* What is wrong with the block with part q. */
enum status part_block_fail(enum part_direction d, int32_t q, const char *expected);

/* part_open, with or without looking at the checksums (a fuzzer gets past them only so). */
enum status part_check(void *bytes, size_t n_bytes, bool checksums, struct part *out);

#endif
