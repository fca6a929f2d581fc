/* A halo pass's payloads in the spill: each part's rows are read once, and what others take of them is written down,
 * for parts of this rank and of others. Knows places, not how payloads are made.
 */
#ifndef WORKER_PAYLOADS_H
#define WORKER_PAYLOADS_H

#include "worker/rows/halo_routes.h"
#include "worker/spill/spill.h"

#include <stdint.h>

struct payloads {
    struct spill *spill;
    char *at, *asked_at;
    int32_t n_own;
    int64_t *n_before; /* n_own + 1: pairs of the own parts before, in the direction that has more */
    /* by own part and pair: rows before a payload's; those for one part lie together */
    int64_t *begin[HALO_DIRECTION_N];
    bool *made;       /* n_own: this pass's are there */
    bool *asked_made; /* n_own: likewise rows that gradients are made of */
};

/* Take n_bytes of the spill, enough for every pass, and n_asked bytes for rows that payloads are made of; lay out
 * payloads of own parts (numbers ascending).
 *
 *   owns    the caller owns *out: payloads_close, also after a failure
 *   errors  STATUS_IO, STATUS_NOMEM of spill_take
 */
enum status payloads_open(struct spill *spill, int64_t n_bytes, int64_t n_asked, const struct part_halo *const *own,
                          int32_t n_own, struct payloads **out);
void payloads_close(struct payloads *payloads);

/* A pass begins: nothing is there yet. */
void payloads_reset(struct payloads *payloads);

/* Where the payload of own part i for its pair k lies. */
struct spill_range payloads_range(const struct payloads *payloads, enum halo_direction direction, int32_t i,
                                  int32_t k, int64_t n_bytes, int64_t row_bytes, enum spill_access access);

/* Where the rows of own part i that gradients of its pair k (of out-edges) are made of lie. */
struct spill_range payloads_asked_range(const struct payloads *payloads, int32_t i, int32_t k, int64_t n_bytes,
                                        int64_t row_bytes, enum spill_access access);

#endif
