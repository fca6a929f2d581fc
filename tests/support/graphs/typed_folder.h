/* A dataset folder of typed nodes and edges, written for a test: nodes of type 0 have labels and four feature columns, nodes of
 * type 1 have no features, nodes of type 2 have three feature columns.
 */
#ifndef TESTS_SUPPORT_TYPED_FOLDER_H
#define TESTS_SUPPORT_TYPED_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#define TYPED_N_CLASS 4

struct typed_folder {
    int64_t n_node;   /* type v % 3 */
    int64_t n_edge;   /* drawn, of three relations; with duplicates */
    int64_t n_lonely; /* further nodes of type 1 without edges */
    int n_part;       /* lines of "owner" in the folder, for partition.method = "file" */
    bool is_bare;     /* no node has features */
    bool is_explicit; /* type 1's features are written as an identity matrix, which is the meaning of no features */
};

/* Write the dataset to a new folder `path`. A failure ends the test. */
void typed_folder_write(const char *path, const struct typed_folder *what);

#endif
