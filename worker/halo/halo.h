/* Halo passes: one aggregate over all own parts, forward or backward, block after block.
 *
 *     y_i = finish(… accumulate(begin(i), A_ij, x_j) …)      j = i, i+1, …, i+K−1 (mod K)
 *
 * A_ij are the edges between part j's rows and part i's, x_j the rows of part j that travel: own rows in place,
 * others as payloads from a source (source.h). Meanwhile other ranks are served.
 * source  Mostafa, MLSys 2022 (SAR), algorithm 1
 */
#ifndef WORKER_HALO_H
#define WORKER_HALO_H

#include "worker/state/trainer_state.h"

/* Slots and lists, once. Released with halo_close. */
struct halo *halo_open(struct trainer *trainer);
void halo_close(struct halo *halo);

/* The steps of kind HALO, BEGIN and JOIN. errors  STATUS_PEER of the exchange, STATUS_IO of the spill */
enum status halo_run(struct trainer *trainer, const struct step *step);
enum status halo_begin(struct trainer *trainer, const struct step *step);
enum status halo_join(struct trainer *trainer, const struct step *step);

#endif
