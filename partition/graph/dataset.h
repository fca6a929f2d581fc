/* A dataset in memory: in-edges by destination, features, labels, splits; checked, de-duplicated, as the job file
 * says.
 *
 * Comes from a folder (npy, ogb, npz: one file each) or a generator. After dataset_load everything in it is valid:
 * indices in range, rows sorted and unique, features finite, training nodes in no other split. Independent of parts.
 */
#ifndef PARTITION_DATASET_H
#define PARTITION_DATASET_H

#include "partition/graph/links.h"
#include "protocol/base/status.h"
#include "protocol/job/job.h"
#include "protocol/wire/embedded.h"
#include "protocol/wire/graph_facts.h"

#include <stdbool.h>
#include <stdint.h>

/* A node's splits. Validation and test nodes may be the same; training nodes are in no other split. */
enum dataset_split {
    DATASET_SPLIT_NONE,
    DATASET_SPLIT_TRAIN,
    DATASET_SPLIT_VALID,
    DATASET_SPLIT_TEST,
    DATASET_SPLIT_VALID_TEST,
    DATASET_SPLIT_N
};

/* Is a node with these splits in this one? */
static inline bool dataset_split_has(uint8_t of_node, int split)
{
    return of_node == split ||
           (of_node == DATASET_SPLIT_VALID_TEST && (split == DATASET_SPLIT_VALID || split == DATASET_SPLIT_TEST));
}

/* Where the splits come from. */
enum dataset_origin {
    DATASET_ORIGIN_NONE,  /* no splits: every node is outside */
    DATASET_ORIGIN_GIVEN, /* with the data */
    DATASET_ORIGIN_DRAWN
};

struct dataset_splits {
    enum dataset_origin origin;
    int64_t index, n; /* GIVEN: which one, from 0, of how many */
    int64_t seed;     /* DRAWN: by this seed, … */
    char how[96];     /* … so: "20 training and 30 validation nodes per class" */
};

/* Arrays of a dataset that a resumed job must have the same, beside its edges (dataset_fingerprint). */
enum dataset_content {
    DATASET_CONTENT_LABELS,
    DATASET_CONTENT_FEATURES,
    DATASET_CONTENT_TRAIN, /* the splits, in the order of enum dataset_split, and of links */
    DATASET_CONTENT_VALID,
    DATASET_CONTENT_TEST,
    DATASET_CONTENT_CLASS_WEIGHTS,
    DATASET_CONTENT_N
};
#define DATASET_CLASS_NAMES_BYTES 65536 /* of class names in JSON, which results also have */

/* One of the three holds them (none when n_feature is 0); values as in the file, row-normalised if the job file says
 * so. */
struct dataset_features {
    const float *f32;    /* n_node × n_feature */
    const uint16_t *f16; /* the same, IEEE half */
    int64_t *indptr;     /* n_node + 1, with indices and data */
    uint32_t *indices;   /* columns, ascending and unique in a row */
    float *data;
    /* columns of nodes without features: a one at its own column is such a node's only entry */
    struct embedded embedded;
};

/* Labels, and who is trained and judged by them. */
struct dataset_labels {
    int32_t *classes; /* n_node, -1 none; NULL when multi_label, and of a prediction without labels */
    float *rows;      /* n_node × n_class, NaN: unknown; NULL unless multi_label */
    /* a JSON list of n_class texts below DATASET_CLASS_NAMES_BYTES; NULL: classes have only numbers */
    char *class_names;
    float *class_weights; /* n_class: train.class_weights; NULL: 1 each, and of a prediction */
    /* that the training loss is a mean over, where that is not the number of training nodes; else 0 */
    double loss_weight;
    uint8_t *split; /* n_node: enum dataset_split */
    /* nodes that are in each (dataset_split_has): nodes of VALID_TEST count in three */
    int64_t n_split[DATASET_SPLIT_N];
    struct dataset_splits splits;
};

/* Features of edges; all NULL without. An edge and its reverse that was added have the same row. */
struct dataset_edge_features {
    uint32_t *row;         /* n_edge: a row of features, or n_row + v: row v of loop_features */
    int64_t n_row;         /* rows of the file */
    const float *features; /* n_row × n_edge_feature: as in the file, finite */
    float *loop_features;  /* n_node × n_edge_feature: of loops that a definition adds; NULL where it adds none */
};

struct dataset {
    char name[128];
    char file[DATASET_CONTENT_N][256]; /* that each was read from; "": none, or several */
    /* for a prediction: labels and splits may be missing (dataset_fit_model replaces them) */
    bool predicts;
    int64_t n_node;
    int64_t n_edge; /* stored, after symmetrising, de-duplicating and taking loops out */
    struct graph_facts facts;
    bool regression; /* job_regresses */
    bool of_links;   /* job_predicts_links: edges are what is trained on; labels and splits are not read */
    bool both_ways;  /* dataset.undirected added the reverse of each edge, or it is symmetric without */

    int64_t *indptr;     /* n_node + 1: row = destination */
    uint32_t *indices;   /* n_edge: sources, ascending and unique in a row; typed: in each run of one type */
    uint16_t *edge_type; /* n_edge: relations, ascending in a row; NULL when untyped */
    float *edge_weight;  /* n_edge: finite, not negative; NULL unless weighted */
    float *strength;     /* n_node: sum of the weights of a node's in-edges, finite; NULL unless weighted */
    struct dataset_edge_features edges;
    struct dataset_features features;
    struct dataset_labels labels;
    struct links links; /* of task.kind = "link" alone */

    /* edges of the files left out: the same edge (or, undirected, its reverse) was there already */
    int64_t n_duplicate;
    struct dataset_store *store; /* owns what the pointers above point to: mappings and blocks */
};

/* Nodes that are in a split; in a job of links held-out edges. */
static inline int64_t dataset_n_in_split(const struct dataset *dataset, enum dataset_split split)
{
    const struct links_held *held = dataset->links.held;
    return !dataset->of_links             ? dataset->labels.n_split[split]
           : split == DATASET_SPLIT_VALID ? held[LINKS_SPLIT_VALID].positive.n
           : split == DATASET_SPLIT_TEST  ? held[LINKS_SPLIT_TEST].positive.n
                                          : 0;
}

/* Load job->dataset: a folder in any known format, or a generator's graph.
 *
 *   notes   edges keep their types only for model.kind = "rgcn"; any other model gets the same edges without them,
 *           each pair of nodes once. A generator's edges are of one relation. undirected adds to typed edges their
 *           inverse, type t + R. Edge weights are read for models that use them (weights_choose): reverse edges get
 *           the same weight, weights of repeats are added, as PyTorch Geometric's to_undirected and coalesce do. Node
 *           types' features become one sparse matrix, the types' columns side by side; a type without features has a
 *           column of ones, one for each of its nodes. Edge features are read for kinds that use them
 *           (edge_features_choose): repeats are one edge, and loops that a definition adds have the mean of the
 *           node's other in-edges, as PyTorch Geometric's add_self_loops with fill_value = "mean"
 *   units   memory at most 1.3 × the bytes of the arrays that stay, without mapped files; also the entries of repeats
 *           until the rows are sorted, and members of .npz archives, which are inflated in memory
 *   owns    the caller owns *out and gives it back with dataset_release; files are mapped where they allow
 *   errors  STATUS_NO_INPUT a file or folder that is not there · STATUS_DATA contents that break a rule (file,
 *           position, what was expected) · STATUS_NOMEM; *out untouched then
 *   cost    reads the edges twice, everything else once; sorts the edges by counting, each row in place
 */
enum status dataset_load(const struct job *job, struct dataset *out);

void dataset_release(struct dataset *dataset);

/* The features of an edge, by its edges.row: n_edge_feature of them. */
static inline const float *dataset_edge_features(const struct dataset *dataset, int64_t edge_row)
{
    return edge_row < dataset->edges.n_row
               ? dataset->edges.features + edge_row * dataset->facts.n_edge_feature
               : dataset->edges.loop_features + (edge_row - dataset->edges.n_row) * dataset->facts.n_edge_feature;
}

/* The number of splits at a path (dataset.split), without reading the graph.
 * errors  STATUS_NO_INPUT, STATUS_DATA it is no data set; split files with different numbers of splits */
enum status dataset_count_splits(const char *path, int64_t *out);

/* The requirements of a trained model on a graph for predictions. */
struct dataset_model {
    const char *folder; /* for messages: the model's path */
    int64_t n_feature;
    int32_t n_class;
    bool multi_label, regression, of_links;
    int32_t n_relation; /* 0: untyped */
    int64_t n_edge_feature;
    bool label_input; /* its input includes labels of training nodes */
    /* nodes of its graph with a feature column, and so weights, of their own; 0: none */
    int64_t n_embedded;
    struct graph_counts counts;
    const char *graph;       /* dataset_fingerprint of its graph; "": not known */
    const char *class_names; /* as of a dataset; NULL: not known */
};

/* Make the dataset of a prediction one of the model's classes or outputs, with their names (borrowed): existing
 * labels are checked; without labels, every node is unlabelled. errors  STATUS_DATA the required and the found value
 * · STATUS_NOMEM */
enum status dataset_fit_model(struct dataset *dataset, const struct dataset_model *model);

/* Copy feature rows as float32: out[r] = features of node[r].
 *
 *   shapes  node n_row · out n_row × n_feature, dense also where the features are sparse
 */
void dataset_feature_rows(const struct dataset *dataset, const uint32_t *node, int64_t n_row, float *out);

/* Is this node's only entry of the sparse features in a column of its own? */
bool dataset_is_embedded(const struct dataset *dataset, int64_t node);

/* A hash of each of these, never 0: the same for the same values in files of the same form, at any path.
 * cost  reads them once */
void dataset_contents(const struct dataset *dataset, uint64_t out[DATASET_CONTENT_N]);

/* Count what vertex programs read of the whole graph. */
void dataset_count(const struct dataset *dataset, struct graph_counts *out);

/* A 128-bit name of the graph's structure (nodes, edges, types; not features), as 32 hex digits and a NUL: the
 * partition cache's key. With `values` also of the edges' weights and features: a resumed job must have the same. */
void dataset_fingerprint(const struct dataset *dataset, bool values, char out[33]);

#endif
