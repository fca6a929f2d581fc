/* Graphs of the equivalence tests, as lines of [dataset]; those of folders are written below the test's folder. */
#ifndef TESTS_EQUIVALENCE_DATA_H
#define TESTS_EQUIVALENCE_DATA_H

#include <stdbool.h>
#include <stdint.h>

/* A symmetric graph, and one whose edges have directions. */
extern const char *const data_graphs[2];

/* Likewise; one node in a hundred is trained on, so that epochs can leave out rows. */
extern const char *const data_few[2];

/* What a folder of 500 nodes and 3000 edges has. */
struct data_folder {
    bool is_sparse;         /* features are mostly zeros, and stored as sparse rows */
    bool has_weights;       /* of edges */
    bool has_edge_features; /* equal ones of repeated and reverse edges */
    bool has_no_loops;
    bool is_far;      /* one node in 50 is trained on, else one in two */
    bool has_numbers; /* two labels of a node are numbers, some of them missing */
};

/* Write such a folder. The text is the caller's, until the next call but three. */
const char *data_write(const struct data_folder *what, bool is_directed);

/* Write a folder of typed nodes, of which some or all have embeddings; its file "owner" names `n_part` parts. */
const char *data_typed(const char *name, int64_t n_lonely, int n_part, bool is_bare, bool is_explicit);

#endif
