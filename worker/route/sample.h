/* Boundary-node sampling: which of a payload's rows travel in a training epoch.
 *
 * A row goes to a part that takes it when its draw, keyed by (seed, epoch, node), is below the threshold p · 2³²:
 * both ends draw the same, so no index travels, and one sample holds for all layers, forward and backward. Payloads
 * count sampled rows alone; structure stays as it is, and a pass picks its edges out of it (device.h: block_sample).
 * source  Wan et al., MLSys 2022 (BNS-GCN): there the sender draws and sends its list, and pairs with p · rows < 1
 *         send nothing
 */
#ifndef WORKER_SAMPLE_H
#define WORKER_SAMPLE_H

#include "protocol/base/random.h"
#include "worker/state/trainer_state.h"

/* Rows of one list: node[rows[i]], i < n, or where rows is NULL node[i]. */
struct sample_rows {
    int64_t n;
    const uint32_t *rows, *node;
    uint64_t threshold; /* p · 2³² */
    int32_t n_hop;
    const uint32_t *n_at_hop; /* n_hop: rows up to each hop */
    uint32_t *out;            /* the drawn ones, in their order: rows[i], or i */
    uint32_t *n_drawn;        /* n_hop + 1: up to each hop, and all */
};

/* Draw those of a list that travel. */
void sample_filter(const struct random_key *key, const struct sample_rows *from);

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

/* The threshold of the epoch's level. */
uint64_t sample_threshold(const struct trainer *trainer);

/* Do all rows travel in this epoch? Then blocks are as they are. */
bool sample_is_whole(const struct trainer *trainer);

/* 1/p: sampled rows count so many times, and so stand for all. */
double sample_factor(const struct trainer *trainer);

#endif
