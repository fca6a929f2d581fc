/* An epoch's sample: the rows of each list that the job's row filter (models/program/row_filter.h) lets travel.
 *
 * One sample holds for all layers, forward and backward. Payloads have the sample's rows only. The parts' structure
 * stays as it is, and a pass picks the sample's edges out of it (device.h: block_sample).
 */
#ifndef WORKER_SAMPLE_H
#define WORKER_SAMPLE_H

#include "models/program/row_filter.h"
#include "worker/state/trainer_state.h"

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

/* Where the share may be below 1; else trainer->routes.sample stays NULL. errors  STATUS_NOMEM; STATUS_IO of the
 * spill. Closed also after a failure */
enum status sample_open(struct trainer *trainer);
void sample_close(struct trainer *trainer);

/* Draw this epoch's. errors  STATUS_IO of the spill */
enum status sample_draw(struct trainer *trainer);

/* What own parts share with others of it; NULL: rows come for each part alone. */
struct sample_shared *sample_shared_of(const struct sample *sample);

/* How many rows of each own part's pairs are drawn. n_own */
const struct halo_drawn *sample_drawn(const struct sample *sample);

/* The sample's rows of own part i's pair k (device): places among the payload rows of in-edges; own rows listed for
 * out-edges. */
const uint32_t *sample_taken(const struct trainer *trainer, int32_t i, int32_t k);
const uint32_t *sample_given(const struct trainer *trainer, int32_t i, int32_t k);

/* Do all rows travel in this epoch? Then blocks are as they are. */
bool sample_is_whole(const struct trainer *trainer);

/* 1/p: sampled rows count so many times, and so stand for all. */
double sample_factor(const struct trainer *trainer);

#endif
