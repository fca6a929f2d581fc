/* Covers of deduplicated rows: rows and sums instead of rows alone. */
#ifndef WORKER_DEDUP_COVER_H
#define WORKER_DEDUP_COVER_H

#include "worker/route/dedup_state.h"

/* A list of own rows that are given, as a cover of the edges up to the hop: counts of it, and with `write` its rows
 * and its sums' edges, from dedup' counts on, which go on behind it. Returns rows and sums. All lists are given
 * before any is taken, and all edges' are taken last, as these trim the blocks of both where they lie. */
uint32_t dedup_cover_give(struct dedup *dedup, const struct dedup_way *way, const struct dedup_merge *merge,
                          struct dedup_sent *list, bool write);

/* Likewise one that is taken: node ids and scales of what comes, and blocks trimmed to it. */
uint32_t dedup_cover_take(struct dedup *dedup, const struct dedup_way *way, const struct dedup_merge *merge,
                          bool write);

#endif
