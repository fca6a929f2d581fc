/* Columns of the features that belong to one node: the embeddings of nodes of a type without features.
 *
 * Features of several node types lie side by side, and a type without any has one column for each of its nodes. A
 * weight's entries at such columns belong to the part that owns the node; all other columns are shared, and numbered
 * without them. Independent of nodes and parts.
 */
#ifndef PROTOCOL_EMBEDDED_H
#define PROTOCOL_EMBEDDED_H

#include <stdbool.h>
#include <stdint.h>

struct embedded_run {
    int64_t begin, end; /* columns begin … end-1 */
};

struct embedded {
    int32_t n_run;                  /* 0: none */
    const struct embedded_run *run; /* n_run: ascending, apart from one another, none empty */
};

/* How many columns they are. */
int64_t embedded_count(const struct embedded *embedded);

/* cost, of all three  n_run: neighbouring types are one run, so there are few */
bool embedded_has(const struct embedded *embedded, int64_t column);

/* A shared column's number among the shared ones, and back. */
int64_t embedded_shared(const struct embedded *embedded, int64_t column);
int64_t embedded_column(const struct embedded *embedded, int64_t shared);

#endif
