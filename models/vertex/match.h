/* Patterns of operations that one op computes. Shared by the files of this folder. */
#ifndef MODELS_VERTEX_MATCH_H
#define MODELS_VERTEX_MATCH_H

#include "models/vertex/emit.h"

/* Is it a commutative operation of this kind, with an operand of kind `first`? Its operands, that one first. */
bool match_operands(const struct vertex_trace *trace, int32_t op, enum vertex_op_kind kind, enum vertex_op_kind first,
                    int32_t *first_out, int32_t *second_out);

/* The numbers in a row, or in a weight; 0 for -1. */
int64_t match_size(const struct vertex_trace *trace, int32_t op);

/* What an edge counts in a linear aggregate. */
enum match_factor { MATCH_FACTOR_NONE, MATCH_FACTOR_WEIGHT, MATCH_FACTOR_NORM };

struct match_sum {
    int32_t source; /* the operation of nodes whose rows are summed */
    enum match_factor factor;
    enum aggregate_kind kind;
};

/* sum(e.norm * e.src.a), sum([e.weight *] e.src.a), mean(…): linear aggregates. false: another reduction */
bool match_sum(const struct vertex_trace *trace, int32_t op, struct match_sum *out);

/* Operations; -1: the kind has no such. */
struct match_attention {
    enum aggregate_kind kind;
    int32_t value, key, query; /* GAT: key and query are what their heads' numbers are made by, one for each head */
    int32_t att, edge, att_edge, beta; /* weights: PARAMETER */
    int64_t n_head;
    double slope, scale, dropout;
};

/* sum(dropout(softmax(…)) * e.src.a) of one of the attentions. */
bool match_attention(const struct vertex_trace *trace, int32_t op, struct match_attention *out);

struct match_relation {
    int32_t source, weight, comp; /* comp: -1 without bases */
};

/* One term of Σ_r mean_r(e.src.a) @ w[r]: its relation; -1: another operation. */
int32_t match_relation(const struct vertex_trace *trace, int32_t op, struct match_relation *out);

#endif
