/* Payloads kept from one training epoch to the next (exchange.stale).
 *
 * A pass of training reads what its payloads held in the epoch before: it lies here, for parts of this rank and of
 * others alike. The last pass that reads a payload makes the present epoch's, and these are on their way while the
 * epoch goes on; at its end all are there. Epoch 0 has no earlier payloads: its passes make and await their payloads
 * first. Knows places and requests, not how payloads are made.
 *
 *     y_i  = Σ_j∈own a_ij x_j(t) + Σ_j∈others a_ij x_j(t−1)
 *     dx_j = own edges' + Σ_parts dx_j(t−1), made of what these parts read
 *
 * source  Wan et al., ICLR 2022 (PipeGCN), algorithm 1; its epoch 0 reads zeros, and its parts drop out others' rows
 *         themselves
 */
#ifndef WORKER_STALE_H
#define WORKER_STALE_H

#include "worker/state/trainer_state.h"

/* Where the program has stale buffers; else trainer->routes.stale stays NULL. errors  STATUS_NOMEM. Closed also
 * after a failure */
enum status stale_open(struct trainer *trainer);
void stale_close(struct trainer *trainer);

/* Let fetches move on, without waiting; wait until all of them, and what others fetch, are done. errors 
 * STATUS_PEER */
enum status stale_progress(struct trainer *trainer);
enum status stale_settle(struct trainer *trainer);

#endif
