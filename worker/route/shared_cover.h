/* Covers of shared rows: rows and sums instead of rows alone. */
#ifndef WORKER_SHARED_COVER_H
#define WORKER_SHARED_COVER_H

#include "worker/route/shared_rows_state.h"

/* A list of own rows that are given, as a cover of the edges up to the hop: counts of it, and with `write` its rows
 * and its sums' edges, from shared_rows' counts on, which go on behind it. Returns rows and sums. All lists are given
 * before any is taken, and all edges' are taken last, as these trim the blocks of both where they lie. */
uint32_t shared_cover_give(struct shared_rows *shared, const struct shared_way *way, const struct shared_merge *merge,
                           struct shared_given *list, bool write);

/* Likewise one that is taken: node ids and scales of what comes, and blocks trimmed to it. */
uint32_t shared_cover_take(struct shared_rows *shared, const struct shared_way *way, const struct shared_merge *merge,
                           bool write);

#endif
