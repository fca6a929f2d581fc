/* One op of the truth at work. Shared by the truth*.c files. */
#ifndef TESTS_SUPPORT_TRUTH_STATE_H
#define TESTS_SUPPORT_TRUTH_STATE_H

#include "tests/support/model/truth.h"

#include "protocol/base/random.h"

/* Its inputs, parameters and output on the whole graph. */
struct evaluation {
    const struct truth *truth;
    int index; /* of the op */
    const struct op *op;
    int64_t n, f_in, f; /* rows; columns of the first input and of the output */
    const double *x[OP_N_IN], *w[OP_N_PARAM];
    const double *held[OP_N_IN]; /* NULL: as x */
    double *y;
};

/* Row `from` of input k as an edge to row `to` reads it. */
const double *truth_source(const struct evaluation *e, int k, int64_t from, int64_t to);

struct random_key truth_key(const struct evaluation *e, enum random_stream stream);

/* How often an edge counts: with sampling not at all, or more than once, where it leads from one part to another; but
 * what is the same in every epoch, or what each part makes of stored inputs, is made of all edges. */
double truth_edge_count(const struct evaluation *e, int64_t from, int64_t to);

/* What an aggregate's scale of a node is made of: the number of its in-edges, or the sum of their weights. */
double truth_degree(const struct dataset *graph, bool counts, int64_t node);

/* truth_tile.c: ops that are tile programs, of rows and of edges. */
void truth_rows(const struct evaluation *e);
void truth_edges(const struct evaluation *e);

/* The mean loss over edges, plus that over drawn pairs, from filled values. In truth_links.c. */
double truth_links_loss(const struct truth *t);

#endif
