/* An epoch's sample: the rows of each list that the job's row filter (models/program/row_filter.h) lets travel.
 *
 * One sample holds for all layers, forward and backward. Payloads have the sample's rows only. The parts' structure
 * stays as it is, and a pass picks the sample's edges out of it (device.h: block_sample).
 */
#ifndef WORKER_SAMPLE_H
#define WORKER_SAMPLE_H

#include "models/program/level.h"
#include "models/program/row_filter.h"
#include "worker/rows/own_parts.h"

struct sample;
struct sample_dedup;
struct dedup;

/* Rows of one list: node[rows[i]], i < n, or where rows is NULL node[i]. */
struct sample_rows {
    int64_t n;
    const uint32_t *rows, *node;
    int32_t n_hop;
    const uint32_t *n_at_hop; /* n_hop: rows up to each hop */
    uint32_t *out;            /* the drawn ones, in their order: rows[i], or i */
    uint32_t *n_drawn;        /* n_hop + 1: up to each hop, and all */
};

/* Pick those of a list that travel. threshold above UINT32_MAX: all */
void sample_filter(const struct row_filter *filter, const struct row_filter_epoch *epoch,
                   const struct sample_rows *from);

/* Memory for samples of a job that has a row filter. shared: the deduplicated rows; NULL: rows come for each part by
 * itself.
 *
 *   owns    borrows own and shared; the caller owns *out: sample_close, also after a failure
 *   errors  STATUS_NOMEM
 */
enum status sample_open(const struct own_parts *own, const struct job *job, const struct dedup *dedup,
                        struct sample **out);
void sample_close(struct sample *sample);

/* Draw the epoch's, by its level. errors  STATUS_IO of the spill */
enum status sample_draw(struct sample *sample, uint32_t epoch, const struct level *level);

/* Pick those of one more list, of the epoch that was drawn last. */
void sample_draw_rows(const struct sample *sample, const struct sample_rows *from);

/* What own parts share with others of it; NULL: rows come for each part alone. */
struct sample_dedup *sample_get_dedup(const struct sample *sample);

/* How many rows of each own part's pairs are drawn. n_own */
const struct halo_drawn *sample_drawn(const struct sample *sample);

/* The sample's rows of own part i's pair k (device): places among the payload rows of in-edges; own rows listed for
 * out-edges. */
const uint32_t *sample_received(const struct sample *sample, int32_t i, int32_t k);
const uint32_t *sample_sent(const struct sample *sample, int32_t i, int32_t k);

/* Do all rows travel in this epoch? Then blocks are as they are. */
bool sample_is_whole(const struct sample *sample);

/* 1/p: sampled rows count so many times, and so stand for all. */
double sample_factor(const struct sample *sample);

#endif
