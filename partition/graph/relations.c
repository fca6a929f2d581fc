/* See relations.h. */
#include "partition/graph/relations.h"

#include "protocol/base/memory.h"

#include <inttypes.h>
#include <stdlib.h>

void relations_open(struct relations *relations, const struct edge_source *source, bool inverse)
{
    *relations = (struct relations){.inverse = inverse,
                                    .n = source->n_relation,
                                    .n_edge = memory_alloc(RELATION_MOST, sizeof *relations->n_edge)};
}

void relations_close(struct relations *relations)
{
    free(relations->n_edge);
}

enum status relations_count(struct relations *relations, const struct edge_source *source, int64_t edge)
{
    int64_t type = source->type(source->type_self, edge);
    int64_t n = source->n_relation > 0 ? source->n_relation : RELATION_MOST;
    if (type < 0 || type >= n) {
        return status_fail(STATUS_DATA,
                           "%s: entry %" PRId64 ": relation %" PRId64 " is out of range, expected 0 to %" PRId64,
                           source->type_file, edge, type, n - 1);
    }
    relations->n_edge[type]++;
    return STATUS_OK;
}

enum status relations_finish(struct relations *relations, const struct edge_source *source)
{
    int64_t most = RELATION_MOST / (relations->inverse ? 2 : 1), n = relations->n;
    if (n == 0) {
        for (int64_t r = 0; r < RELATION_MOST; r++) {
            n = relations->n_edge[r] > 0 ? r + 1 : n;
        }
        for (int64_t r = 0; r < n; r++) {
            if (relations->n_edge[r] == 0) {
                return status_fail(STATUS_DATA,
                                   "%s: relation %" PRId64 " has no edge, expected one of each relation from 0 "
                                   "to %" PRId64 " (or the number \"relations\" in meta.json)",
                                   source->type_file, r, n - 1);
            }
        }
    }
    if (n > most) {
        return status_fail(STATUS_DATA, "%s: %" PRId64 " relations, expected at most %" PRId64 "%s",
                           source->type_file, n, most,
                           relations->inverse ? " with an inverse to each (dataset.undirected)" : "");
    }
    relations->n = n;
    return STATUS_OK;
}
