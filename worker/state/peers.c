#include "worker/state/peers.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>

struct peers {
    struct peers_setup setup;
    const struct device_ops *ops;
    struct device_loan loan[PEERS_N_BLOCK]; /* names of own blocks; the arena's n_bytes 0: nothing is lent */
    struct peer {
        bool here;                               /* on this machine */
        uint8_t near;                            /* while it opens: all of it is reached here */
        struct peers_block block[PEERS_N_BLOCK]; /* by addresses of this process; n_bytes 0: not reached */
    } * peer;                                    /* n_rank */
};

/* The own block that a byte lies in; PEERS_N_BLOCK: none. */
static uint32_t block_of(const struct peers *p, const void *at)
{
    uint32_t b = 0;
    while (b < PEERS_N_BLOCK && ((const char *)at < p->setup.block[b].begin ||
                                 (const char *)at >= p->setup.block[b].begin + p->setup.block[b].n_bytes)) {
        b++;
    }
    return b;
}

/* --- lending: exchange_lender --- */

static bool piece_lend(void *arg, uint32_t peer, const struct exchange_piece *piece, struct exchange_loan *out)
{
    const struct peers *p = arg;
    uint32_t b = block_of(p, piece->bytes), list = piece->rows != NULL ? block_of(p, piece->rows) : 0;
    if (!peers_near(p, peer) || b == PEERS_N_BLOCK || list == PEERS_N_BLOCK) {
        return false;
    }
    *out = (struct exchange_loan){.n_bytes = piece->n_bytes,
                                  .block = b,
                                  .at = (uint64_t)((const char *)piece->bytes - p->setup.block[b].begin),
                                  .rows_block = EXCHANGE_NO_BLOCK,
                                  .n_word = piece->n_word,
                                  .factor = piece->factor};
    if (piece->rows != NULL) {
        out->rows_block = list;
        out->rows_at = (uint64_t)((const char *)(const void *)piece->rows - p->setup.block[list].begin);
    }
    return true;
}

/* n bytes of a peer's block, in elements of so many; NULL: it has no such. */
static const void *peer_at(const struct peer *peer, uint32_t block, uint64_t at, uint64_t n, uint64_t element)
{
    uint64_t n_all = block < PEERS_N_BLOCK ? (uint64_t)peer->block[block].n_bytes : 0;
    return n <= n_all && at <= n_all - n && at % element == 0 ? peer->block[block].begin + at : NULL;
}

static enum status piece_copy(void *arg, uint32_t rank, const struct exchange_loan *loan, uint64_t after, void *out,
                              uint64_t *mark_out)
{
    const struct peers *p = arg;
    const struct peer *peer = &p->peer[rank];
    struct device *device = p->setup.device;
    bool near = peers_near(p, rank), listed = loan->rows_block != EXCHANGE_NO_BLOCK;
    uint64_t row_bytes = listed ? loan->n_word * sizeof(float) : 1, n = row_bytes > 0 ? loan->n_bytes / row_bytes : 0;
    struct device_rows how = {.n_row = (int64_t)n, .f = loan->n_word, .factor = loan->factor};
    how.x = near ? peer_at(peer, loan->block, loan->at, listed ? row_bytes : n, listed ? sizeof(float) : 1) : NULL;
    how.rows = near && listed ? peer_at(peer, loan->rows_block, loan->rows_at, 4 * n, 4) : NULL;
    if (how.x == NULL || (listed && how.rows == NULL) || row_bytes == 0 || n * row_bytes != loan->n_bytes) {
        return status_fail(STATUS_PEER, "worker %u lent %llu bytes at byte %llu of block %u, where it has fewer",
                           rank, (unsigned long long)loan->n_bytes, (unsigned long long)loan->at, loan->block);
    }
    p->ops->follow(device, DEVICE_LANE_IN, after);
    if (listed) {
        how.n_x = (peer->block[loan->block].n_bytes - (int64_t)loan->at) / (int64_t)row_bytes;
        how.beyond = p->setup.beyond;
        how.lender = rank + 1;
        p->ops->rows_take(device, DEVICE_LANE_IN, &how, out);
    } else {
        p->ops->move(device, DEVICE_LANE_IN, out, how.x, n);
    }
    *mark_out = p->ops->mark(device, DEVICE_LANE_IN);
    return STATUS_OK;
}

static bool piece_copied(void *arg, uint64_t mark)
{
    const struct peers *p = arg;
    bool passed = p->ops->passed(p->setup.device, mark);
    if (passed && *p->setup.beyond > 0) {
        exchange_fail(p->setup.exchange, status_fail(STATUS_PEER, "worker %u lent rows of an array that has fewer",
                                                     *p->setup.beyond - 1));
    }
    return passed;
}

static void all_leave(void *arg)
{
    const struct peers *p = arg;
    for (uint32_t rank = 0; rank < p->setup.n_rank; rank++) {
        for (int b = 0; b < PEERS_N_BLOCK; b++) {
            if (p->peer[rank].block[b].n_bytes > 0) {
                p->ops->leave(p->setup.device, p->peer[rank].block[b].begin);
            }
        }
        p->peer[rank] = (struct peer){0};
    }
}

/* --- opening: all tell what they lend, then whether they reach it --- */

static void blocks_lend(struct peers *p)
{
    enum status status = STATUS_OK;
    for (int b = 0; b < PEERS_N_BLOCK && status == STATUS_OK && !exchange_reaches_gpus(p->setup.exchange); b++) {
        const struct peers_block *block = &p->setup.block[b];
        if (block->n_bytes > 0) {
            status = p->ops->lend(p->setup.device, block->begin, (size_t)block->n_bytes, &p->loan[b]);
        }
    }
    if (status != STATUS_OK) {
        log_warn("payloads to and from other workers go through host memory: %s", status_reason());
        p->loan[0].n_bytes = 0;
    }
}

/* Reach all that a worker lends, or say why not. */
static void peer_reach(const struct peers *p, uint32_t rank, const struct device_loan *loan)
{
    struct peer *peer = &p->peer[rank];
    if (p->loan[0].n_bytes == 0) {
        return;
    }
    enum status status = loan[0].n_bytes > 0 ? STATUS_OK : status_fail(STATUS_PEER, "it lends none of its GPU's");
    for (int b = 0; b < PEERS_N_BLOCK && status == STATUS_OK; b++) {
        if (loan[b].n_bytes > 0) {
            status = p->ops->reach(p->setup.device, &loan[b], &peer->block[b].begin);
            peer->block[b].n_bytes = status == STATUS_OK ? (int64_t)loan[b].n_bytes : 0;
        }
    }
    peer->near = status == STATUS_OK;
    if (!peer->near) {
        log_warn("payloads to and from worker %u go through host memory: %s", rank, status_reason());
    }
}

static bool told_pack(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out)
{
    const struct peers *p = arg;
    (void)at;
    if (to >= p->setup.n_rank || from > 1) {
        exchange_fail(p->setup.exchange, status_fail(STATUS_PEER, "worker %u asks for part %u of memory", to, from));
        return false;
    }
    out->bytes = from == 0 ? (const void *)p->loan : &p->peer[to].near;
    out->n_bytes = out->total = from == 0 ? sizeof p->loan : sizeof p->peer[to].near;
    return true;
}

static enum status told_take(struct peers *p, uint32_t rank, const struct exchange_key *key)
{
    struct device_loan loan[PEERS_N_BLOCK];
    uint8_t near = 0;
    int handle;
    enum status status = exchange_fetch(p->setup.exchange, rank, key, key->from == 0 ? (void *)loan : &near,
                                        key->from == 0 ? sizeof loan : sizeof near, &handle);
    if (status == STATUS_OK) {
        status = exchange_wait(p->setup.exchange, handle);
    }
    if (status == STATUS_OK && key->from == 0) {
        peer_reach(p, rank, loan);
    }
    p->peer[rank].near = p->peer[rank].near && (key->from == 0 || near == 1);
    return status;
}

/* Two ranks are near only if each has reached the other's memory, so both come to the same answer. */
static enum status all_tell(struct peers *p, int n_here)
{
    const struct exchange_offer offer = {.arg = p, .pack = told_pack};
    enum status status = STATUS_OK;
    for (uint16_t round = 0; round < 2 && status == STATUS_OK; round++) {
        const struct exchange_key key = {
            .phase = EXCHANGE_PHASE_PEERS, .op = round, .to = p->setup.rank, .from = round};
        exchange_serve(p->setup.exchange, &key, &offer, n_here);
        for (uint32_t rank = 0; rank < p->setup.n_rank && status == STATUS_OK; rank++) {
            status = p->peer[rank].here ? told_take(p, rank, &key) : STATUS_OK;
        }
        status = status == STATUS_OK ? exchange_settle(p->setup.exchange) : status;
    }
    return status;
}

enum status peers_open(const struct peers_setup *setup, struct peers **out)
{
    const uint32_t *machine = setup->machine_of_rank;
    int n_here = 0;
    if (machine == NULL || setup->device->ops->lend == NULL || exchange_seals(setup->exchange)) {
        return STATUS_OK;
    }
    struct peers *p = *out = memory_alloc(1, sizeof *p);
    p->setup = *setup;
    p->ops = setup->device->ops;
    p->peer = memory_alloc(setup->n_rank, sizeof *p->peer);
    for (uint32_t rank = 0; rank < setup->n_rank; rank++) {
        p->peer[rank].here = rank != setup->rank && machine[rank] == machine[setup->rank];
        n_here += p->peer[rank].here;
    }
    exchange_lend(setup->exchange,
                  &(struct exchange_lender){
                      .arg = p, .lend = piece_lend, .copy = piece_copy, .copied = piece_copied, .leave = all_leave});
    if (n_here == 0) {
        return STATUS_OK;
    }
    blocks_lend(p);
    return all_tell(p, n_here);
}

void peers_close(struct peers *p)
{
    if (p != NULL) {
        exchange_lend(p->setup.exchange, NULL);
        free(p->peer);
        free(p);
    }
}

bool peers_near(const struct peers *p, uint32_t rank)
{
    if (p == NULL || rank != PEERS_ALL) {
        return p != NULL && rank < p->setup.n_rank && p->peer[rank].near;
    }
    uint32_t n = 0;
    for (uint32_t other = 0; other < p->setup.n_rank; other++) {
        n += p->peer[other].near;
    }
    return n + 1 == p->setup.n_rank;
}

bool peers_lends(const struct peers *p, const void *at)
{
    return p != NULL && block_of(p, at) < PEERS_N_BLOCK;
}
