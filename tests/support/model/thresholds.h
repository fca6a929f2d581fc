/* Thresholds of rows by the definition, edge by edge over the whole graph: what importance sampling draws by. */
#ifndef TESTS_SUPPORT_THRESHOLDS_H
#define TESTS_SUPPORT_THRESHOLDS_H

#include "models/program/program.h"
#include "tests/support/graphs/graph.h"

/* Of each node's row for each part: out n_node × n_part, 0 where that part takes no such row. The program's aggregates are sums, of one
 * kind. */
void test_thresholds(const struct program *program, const struct test_graph *graph, int n_part, const int32_t *owner,
                     double p, uint32_t *out);

#endif
