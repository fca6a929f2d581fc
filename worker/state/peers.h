/* Memory of other workers' GPUs on this machine (D90): payloads between near workers are lent where they lie, and
 * copied from GPU to GPU (exchange_lender). Every worker lends the same blocks, in the same order. Two are near where
 * each reaches all that the other lends; between others payloads go through host memory (staging.h).
 */
#ifndef WORKER_PEERS_H
#define WORKER_PEERS_H

#include "models/device/device.h"
#include "worker/exchange/exchange.h"

/* The arena, gradients, sums of global ops, lists of shared rows, and the part, where each rank has one. */
#define PEERS_N_BLOCK 5

struct peers_setup {
    struct device *device;
    struct exchange *exchange;
    uint32_t rank, n_rank;
    const uint32_t *machine_of_rank; /* n_rank: equal where ranks share a machine; NULL: none do */
    uint32_t *beyond;                /* SHARED memory, 0: the rank + 1 of a lender with bad lists of rows */
    struct peers_block {
        char *begin;     /* as it was acquired */
        int64_t n_bytes; /* 0: no such block; then begin is not used */
    } block[PEERS_N_BLOCK];
};

struct peers;

/* Say what is lent, and reach what others lend; all ranks together. *out stays NULL where there is nothing to reach.
 * What cannot be reached is no failure: a warning says why. When the exchange lends no more, nothing is reached: this
 * has to be so on all ranks before any releases its memory.
 *
 *   owns    copies the setup; the caller owns *out: peers_close
 *   errors  STATUS_PEER of the exchange
 */
enum status peers_open(const struct peers_setup *setup, struct peers **out);
void peers_close(struct peers *peers);

/* Is that rank near? PEERS_ALL: are all others? Of NULL: no. */
#define PEERS_ALL UINT32_MAX
bool peers_near(const struct peers *peers, uint32_t rank);

/* Does this byte lie in a block that is lent? */
bool peers_lends(const struct peers *peers, const void *at);

#endif
