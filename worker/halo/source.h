/* Payload sources: where the rows of another part come from. A codec or a sample of rows enters here;
 * worker/README.md has the steps.
 *
 * One interface, an implementation for each way: rows in the same process are read in place, rows of other ranks are
 * fetched, spilled rows are read from the file, and finished gradients return to the owner of the rows that they
 * belong to.
 */
#ifndef WORKER_SOURCE_H
#define WORKER_SOURCE_H

#include "worker/halo/halo_state.h"

struct payload_source {
    /* Make the other part's rows readable for the own one: point the call's block, payload, scales and node ids at
     * them. */
    enum status (*take)(struct halo *h, const struct halo_pair *pair, struct op_call *call);
    /* The block is done: its rows may go. NULL: nothing to do. */
    enum status (*done)(struct halo *h, const struct halo_pair *pair);
    /* Before the pass's first block, and behind its last. NULL: nothing to do. errors  STATUS_PEER, STATUS_IO */
    enum status (*begin)(struct halo *h);
    enum status (*end)(struct halo *h);
};

extern const struct payload_source source_in_place; /* the other part is of this rank */
extern const struct payload_source
    source_packed; /* likewise, but the aggregate wants payload rows: packed in scratch */
extern const struct payload_source source_fetched; /* the other part is of another rank */
extern const struct payload_source source_stale;   /* payloads of the epoch before */
extern const struct payload_source
    /* the other part is of this rank, its rows and payloads lie in the spill, written before any block */
    source_spilled;
extern const struct payload_source source_gathered; /* likewise, but payloads are packed when a block wants them */
extern const struct payload_source
    source_replicated; /* of any rank: rows are made here, behind own ones, of stored inputs */

/* Deduplicated rows: all own parts are done with the part that came by; a payload that was waited for may go. errors 
 * STATUS_PEER */
enum status source_fetched_pass(struct halo *h);

/* Where payloads are gathered one after another: halo_group_walk pins it. */
struct spill_range source_gathered_place(const struct halo *h);

/* Spilled or gathered: whatever moves fewer bytes in a pass that begins. */
const struct payload_source *source_of_spill(const struct halo *h);

/* exchange_offer's pack and sent, of payloads that lie in the spill. */
bool source_spilled_pack(struct halo *h, const struct halo_route *route, size_t at, struct exchange_piece *out);
bool source_spilled_pack_asked(struct halo *h, const struct halo_route *route, size_t at, struct exchange_piece *out);
void source_spilled_sent(struct halo *h, const void *bytes);

/* Where in the workspace a payload is packed that does not come from another rank, or not for one part alone. */
int64_t source_packed_at(const struct halo *h);

/* The payload of the other part's rows lies at `payload`, as payload rows or, where blocks' columns count shared
 * ones, as the list has them: point the call at it. */
void source_point(struct halo *h, const struct halo_pair *pair, const void *payload, struct op_call *call);

#endif
