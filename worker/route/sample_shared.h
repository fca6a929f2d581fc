/* An epoch's sample of shared rows (shared_rows.h): of each list the rows that are drawn, in its order, and where
 * among them each own part's are. A row is drawn by its node, so for all parts of a rank or for none of them, and
 * both ends find the same lists. Sampled passes only walk in-edges.
 */
#ifndef WORKER_SAMPLE_SHARED_H
#define WORKER_SAMPLE_SHARED_H

#include "worker/route/sample.h"
#include "worker/route/shared_rows.h"

/* Memory for samples of these lists.
 *
 *   owns    borrows all; the caller owns *out: sample_shared_close, also after a failure
 *   errors  STATUS_NOMEM
 */
enum status sample_shared_open(const struct own_parts *own, const struct shared_rows *rows,
                               struct sample_shared **out);
void sample_shared_close(struct sample_shared *shared);

/* Draw the epoch's, after each part's. */
void sample_shared_draw(struct sample_shared *shared, const struct sample *sample);

/* How many rows are drawn of each list, as shared_rows_counts. */
const struct part_shared *sample_shared_counts(const struct sample_shared *shared);

/* The rows that are drawn of a list that is given (device). */
const uint32_t *sample_shared_given(const struct sample_shared *shared, const struct shared_list *list);

/* Places among a list's drawn rows of those of own part i's pair k, a part of another rank (device). */
const uint32_t *sample_shared_spread(const struct sample_shared *shared, int32_t i, int32_t k);

#endif
