/* An epoch's sample of deduplicated rows (dedup.h): of each list the rows that are drawn, in its order, and where
 * among them each own part's are. A row is drawn by its node, so for all parts of a rank or for none of them, and
 * both ends find the same lists. Sampled passes only walk in-edges.
 */
#ifndef WORKER_SAMPLE_DEDUP_H
#define WORKER_SAMPLE_DEDUP_H

#include "worker/route/dedup.h"
#include "worker/route/sample.h"

/* Memory for samples of these lists.
 *
 *   owns    borrows all; the caller owns *out: sample_dedup_close, also after a failure
 *   errors  STATUS_NOMEM
 */
enum status sample_dedup_open(const struct own_parts *own, const struct dedup *rows, struct sample_dedup **out);
void sample_dedup_close(struct sample_dedup *dedup);

/* Draw the epoch's, after each part's. */
void sample_dedup_draw(struct sample_dedup *dedup, const struct sample *sample);

/* How many rows are drawn of each list, as dedup_counts. */
const struct part_dedup *sample_dedup_counts(const struct sample_dedup *dedup);

/* The rows that are drawn of a list that is sent (device). */
const uint32_t *sample_dedup_sent(const struct sample_dedup *dedup, const struct dedup_list *list);

/* Places among a list's drawn rows of those of own part i's pair k, a part of another rank (device). */
const uint32_t *sample_dedup_scatter(const struct sample_dedup *dedup, int32_t i, int32_t k);

#endif
