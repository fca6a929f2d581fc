/* Between the device and the transport: what is sent goes to SHARED memory first, what arrives goes on to the device.
 *
 * On a unified device both places are the same bytes, and nothing here copies or waits; nor is there a block where
 * the transport reaches the device's memory itself. Between near workers (peers.h) payloads lie on the device at both
 * ends, and the block is for the others. One block, used by one halo pass or one reduction at a time.
 */
#ifndef WORKER_STAGING_H
#define WORKER_STAGING_H

#include "worker/state/trainer_state.h"

/* Bytes for or from another rank. */
struct staged {
    uint32_t peer; /* PEERS_ALL: for any */
    int64_t at;    /* their place in the block */
    void *device;  /* where they lie on the device */
    int64_t n_bytes;
    device_mark free;   /* when what lay there before has left the block; set by staging_in */
    device_mark unread; /* from then on no operation reads or writes what lies on the device */
};

/* Where the transport reads or writes; operations may write there, too. */
void *staging_place(const struct trainer *trainer, const struct staged *what);

/* Fetch a payload there, as exchange_fetch, when it may be written. errors  of the device; STATUS_PEER */
enum status staging_fetch(const struct trainer *trainer, const struct staged *what, const struct exchange_key *key,
                          int *handle_out);

/* Copy device memory there. Returns when it may be sent. */
device_mark staging_out(const struct trainer *trainer, const struct staged *what);

/* Has the device come to the mark behind what leaves? Else the offer is called again. A failed device ends the
 * exchange. */
bool staging_is_made(const struct trainer *trainer, device_mark made);

/* What was fetched goes to the device, before all that operations do from now on. */
void staging_in(const struct trainer *trainer, struct staged *what);

#endif
