/* The pass that moves operations from edges to nodes. */
#ifndef MODELS_VERTEX_MOVE_H
#define MODELS_VERTEX_MOVE_H

#include "protocol/vertex/trace.h"

/* What depends on one end of an edge alone is computed there, once for each node: f(e.src.a) becomes e.src.f(a).
 * Factors that are known before training leave sums and means, and these are taken of each term of a sum.
 *
 *   moves false: nothing is moved, the operations are copied
 *   divides: a mean becomes a sum over the number of in-edges, since a program's aggregates share one set of scales,
 *            which is that of e.norm
 *   owns  borrows *trace, of a complete trace; the caller owns *out: vertex_trace_release
 *   cost  linear in the operations, but for a search among them */
void vertex_move(const struct vertex_trace *trace, bool moves, bool divides, struct vertex_trace *out);

#endif
