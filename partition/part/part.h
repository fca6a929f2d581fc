/* One part as a worker gets it: own rows, blocks of edges by the part their sources live in, and who needs which
 * rows.
 *
 * A part is sent and stored as one sequence of bytes (magic, version, section table, sections on 64-byte borders,
 * XXH3-64 per section). part_open checks every byte of structure once and then points into the bytes: no copy.
 * "Own rows" are places in the part's order (0 … n_own-1); payload rows are the sender's boundary rows, ascending.
 */
#ifndef PARTITION_PART_H
#define PARTITION_PART_H

#include "partition/graph/dataset.h"
#include "partition/part/part_halo.h"
#include "partition/part/partition.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The edges between this part's rows and the payload rows of one other part (or this part's own rows: the
 * diagonal). */
struct part_block {
    int64_t n_row; /* rows listed; the diagonal lists all n_own */
    int64_t n_col; /* payload rows; n_own on the diagonal */
    int64_t n_edge;
    const uint32_t *rows;  /* n_row: own rows, ascending; NULL on the diagonal (row r is own row r) */
    const int64_t *indptr; /* n_row + 1 */
    const uint32_t *cols;  /* n_edge: payload rows, ascending in a row; typed: in each run of one type */
    const uint16_t *types; /* n_edge: relations, ascending in a row; NULL when untyped */
    union {
        /* n_edge: the edges' own, or typed: 1 / in-edges of the destination with the edge's relation; or NULL */
        const float *weights;
        const uint32_t *edge_rows; /* n_edge, where the part has edge_features: each edge's row of them */
    };
    /* n_col: stored in-degree of each payload row in the whole graph (implied loops not counted) */
    const uint32_t *degree;
    const float *strength; /* n_col: sum of the weights of its in-edges in the whole graph; NULL unless weighted */
    const uint32_t *node;  /* n_col: dataset node id of each payload row */
};

/* Own rows, ascending, that another part takes. */
struct part_send {
    int64_t n_row;
    const uint32_t *rows;
};

/* The arrays of one direction's blocks, block after block as in halo.pairs; the diagonal has its share of indptr,
 * cols, types and weights alone. */
struct part_arrays {
    const uint32_t *rows, *cols, *degree, *node;
    const int64_t *indptr; /* one more than rows for each block */
    const uint16_t *types;
    union {
        const float *weights;
        const uint32_t *edge_rows;
    };
    const float *strength;
};

/* Arrays of edges that are written: taken out of a part, or made. */
struct part_edges {
    int64_t *indptr;
    uint32_t *cols;
    float *weights; /* NULL unless weighted */
};

/* Features of own rows, and behind them of halo rows where the part stores these. */
struct part_node_features {
    int64_t n_shared;        /* columns that are not one node's own, of all nodes */
    int64_t n_value;         /* stored values of sparse ones */
    int64_t n_halo_value;    /* of halo rows */
    const float *rows;       /* n_own + n_halo × n_feature, or NULL when sparse */
    const int64_t *indptr;   /* n_own + n_halo + 1, or NULL when dense */
    const uint32_t *indices; /* numbers of shared columns */
    const float *data;
    struct embedded embedded;         /* the other columns, of all nodes */
    int64_t n_embedded;               /* own rows that have such a column, and nothing else */
    const uint32_t *embedded_rows;    /* n_embedded: ascending; a one at … */
    const uint32_t *embedded_columns; /* … this column of all */
};

struct part_labels {
    const int32_t *classes;           /* n_own, or NULL when multi_label */
    const float *rows;                /* n_own × n_class, or NULL */
    const float *class_weights;       /* n_class, not negative; NULL: 1 each */
    double loss_weight;               /* that its training loss is a mean over */
    const uint8_t *split;             /* n_own */
    int64_t n_split[DATASET_SPLIT_N]; /* of the whole graph, as the dataset's */
};

/* task.kind = "link": pairs with an edge, each at both of its ends (links_places.h) */
struct part_links {
    int64_t n;              /* of the whole graph; 0: another task, and the rest is NULL */
    int64_t n_joined;       /* different ones of these: a pair may have two edges */
    const uint32_t *rows;   /* n_part: own rows of every part */
    const int64_t *ends;    /* n_part: ends of pairs in own rows of every part */
    const int64_t *indptr;  /* n_own + 1 */
    const uint32_t *places; /* other ends, ascending in a row: places in the order of all parts' rows */
    const uint16_t *types;  /* of pairs (links_places.h), ascending where places are equal; NULL: none counts */
};

struct part_edge_features {
    int64_t n_row;         /* one for all edges of the part, in either direction, that share it */
    const float *features; /* n_row × n_edge_feature; NULL: no features of edges */
};

struct part {
    int32_t part;
    int32_t n_part;
    int64_t n_own;
    /* payload rows of in-edges, pair after pair, behind own rows in `node` and features; 0: not stored */
    int64_t n_halo;
    int64_t n_node; /* of the whole graph, as these: */
    struct graph_facts facts;
    int32_t n_hop;   /* own rows are ordered by hop, edges to the nearest training node (reach.h); 0: they are not */
    bool covered;    /* what rows get from another part is summed alone (part_cover.h) */
    bool stores;     /* features of halo rows are stored here, too */
    int64_t n_bytes; /* of the encoded part */
    void *bytes;     /* n_bytes: itself, where all arrays below lie */

    const uint32_t *node;   /* n_own + n_halo: dataset node ids */
    const uint32_t *degree; /* n_own: stored in-degree in the whole graph (implied loops not counted) */
    const float *strength;  /* n_own: sum of the weights of in-edges; NULL unless weighted */
    struct part_node_features features;
    struct part_labels labels;
    struct part_links links;
    struct part_edge_features edges;

    struct part_halo halo;                       /* sizes of blocks; not in the part's bytes */
    struct part_arrays arrays[PART_DIRECTION_N]; /* both the same when symmetric */
};

/* The pair's block; that with part q, which is empty (n_row 0) where there is no edge. */
struct part_block part_block_at(const struct part *part, enum part_direction d, int32_t pair);
struct part_block part_block(const struct part *part, enum part_direction d, int32_t q);

/* Take a direction's columns out of the part, of covers also ends and weights: they are the caller's to write, though
 * in the part's bytes. The part has NULL in their place; where it is symmetric, in both directions. */
struct part_edges part_take_edges(struct part *part, enum part_direction d, bool covers);

/* Own rows that part q takes: those with an edge towards it, which are the rows of the opposite direction's block. */
struct part_send part_send(const struct part *part, enum part_direction d, int32_t q);

/* Rows of hop ≤ h, which come first wherever rows are listed; all of them where h ≥ n_hop. Own rows; and edges whose
 * destination's hop is ≤ hop. Neither reads the part's bytes. */
int64_t part_rows_own(const struct part *part, int32_t hop);
int64_t part_edges(const struct part *part, enum part_direction d, int32_t hop);

/* The sizes of all parts that a memory plan, placement and --plan need; no features loaded. */
struct part_sizes {
    int64_t n_own;
    int64_t n_edge;          /* stored edges into the part */
    int64_t n_feature_value; /* stored feature values, in shared columns */
    int64_t n_embedded;      /* own rows with a column of their own */
    int64_t n_halo;          /* halo rows whose features are stored with the part, … */
    int64_t n_halo_value;    /* … and of these stored values */
    int64_t n_edge_row;      /* rows of the edges' features */
    int64_t n_link_here;     /* pairs of task.kind = "link" (links_places.h) */
    int64_t n_bytes;         /* of the encoded part */
    struct part_halo halo;
};

/* Sizes of every part: out n_part, released with part_sizes_release. cost  n_edge reads; with features of edges a bit
 * for each row of the file */
enum status part_sizes_build(const struct dataset *dataset, const struct partition *partition,
                             struct part_sizes **out);
void part_sizes_release(struct part_sizes *sizes, int32_t n_part);

/* What encoding the parts of one partition needs of the graph, prepared once.
 *
 *   owns    borrows dataset and partition until part_encoder_close; NULL may be closed
 *   errors  STATUS_NOMEM
 *   cost    n_node × 4 bytes; with features of edges 4 for each row of the file; where the graph is not symmetric
 *           also a scan of all edges, and for each edge out of a part 4 bytes (typed: 6, with weights or features:
 *           8), of as many parts at once as hold a quarter of all edges
 */
struct part_encoder;
enum status part_encoder_open(const struct dataset *dataset, const struct partition *partition,
                              struct part_encoder **out);
void part_encoder_close(struct part_encoder *encoder);

/* Encode one part.
 *
 *   owns    the caller owns *bytes_out (memory_acquire, MEMORY_OTHER, *n_out × 1)
 *   errors  STATUS_NOMEM
 *   cost    edges, payload rows and features of this part, 4 bytes for each of its edges; where the graph is not
 *           symmetric also at most 18 scans of all edges for all parts, asked for in ascending order
 */
enum status part_encoder_encode(struct part_encoder *encoder, int32_t part, void **bytes_out, size_t *n_out);

/* Check encoded bytes and point a part into them.
 *
 *   owns    *out borrows `bytes` (64-byte aligned, alive as long as *out), to read them (but see part_take_edges);
 *           part_release gives back the small tables
 *   errors  STATUS_DATA with the section and what was expected: short, wrong magic or version, checksum, an index out
 *           of range, rows not ascending, shapes that disagree
 */
enum status part_open(void *bytes, size_t n_bytes, struct part *out);
void part_release(struct part *part);

#endif
