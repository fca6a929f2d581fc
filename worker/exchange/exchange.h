/* Rows between parts: fetch payloads, serve other ranks' fetches, never compute.
 *
 * Pull by credit: a receiver fetches a payload when it has a free slot (at most prefetch + 1 at once); the sender
 * packs and sends it when it polls. The number of requests is fixed, so nothing is allocated after open. While a rank
 * waits here, it serves the others. A key names one payload of the job. A piece that the receiver reaches where it
 * lies is lent (exchange_lender): a message says where, the receiver copies it, and says when it has.
 */
#ifndef WORKER_EXCHANGE_H
#define WORKER_EXCHANGE_H

#include "protocol/base/status.h"
#include "protocol/transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One payload: (epoch, phase, op) say when, (to, from) which pair of parts or tree nodes. */
struct exchange_key {
    uint32_t epoch;
    uint32_t phase; /* enum exchange_phase */
    uint16_t op;
    uint32_t to, from;
};

enum exchange_phase {
    EXCHANGE_PHASE_STATIC = 1, /* static ops before epoch 0 */
    EXCHANGE_PHASE_FORWARD,
    EXCHANGE_PHASE_BACKWARD,
    EXCHANGE_PHASE_BACKWARD_2, /* an aggregate's second halo pass backward */
    EXCHANGE_PHASE_EVALUATE,
    EXCHANGE_PHASE_ASK,        /* rows that a payload of BACKWARD or BACKWARD_2 is made of, before it is */
    EXCHANGE_PHASE_REDUCE,     /* up the tree; op 0 gradients and loss, op 1 scores, from op 2 on global ops' sums */
    EXCHANGE_PHASE_BROADCAST,  /* down the ranks */
    EXCHANGE_PHASE_LINKS,      /* rows that score pairs of nodes, … */
    EXCHANGE_PHASE_LINKS_2,    /* … and once more, with slopes of the scores */
    EXCHANGE_PHASE_PEERS,      /* on opening: which memory is lent, and whether it is reached */
    EXCHANGE_PHASE_STALE_ROWS, /* for the next epoch (exchange.stale); these two are asked for at any time */
    EXCHANGE_PHASE_STALE_GRADIENTS
};

/* Part of a payload, as it leaves. */
struct exchange_piece {
    const void *bytes;
    size_t n_bytes; /* 0 only for an empty payload */
    size_t total;   /* bytes of the payload */
    /* not NULL: of the rows of n_word 4-byte elements that begin at `bytes`, the listed ones times the factor; for
     * receivers alone that reach both (exchange_lender) */
    const uint32_t *rows;
    uint32_t n_word;
    float factor;
};

/* Where a piece lies for a receiver that reaches it: bytes of blocks that both ranks number alike. */
struct exchange_loan {
    uint64_t n_bytes, at, rows_at;
    uint32_t block, rows_block; /* EXCHANGE_NO_BLOCK: all bytes, not listed rows */
    uint32_t n_word;
    float factor;
};
#define EXCHANGE_NO_BLOCK UINT32_MAX

/* Pieces of one payload that a receiver copies at once, at most: arrays of rows as they lie, and slots for others. */
#define EXCHANGE_LOANS_MOST 12

/* What lends pieces, and copies lent ones. */
struct exchange_lender {
    void *arg;
    /* false: the peer does not reach it, so its bytes travel */
    bool (*lend)(void *arg, uint32_t peer, const struct exchange_piece *piece, struct exchange_loan *out);
    /* Begin to copy what it lent, when the device's mark `after` has passed. errors  STATUS_PEER no such place */
    enum status (*copy)(void *arg, uint32_t peer, const struct exchange_loan *loan, uint64_t after, void *out,
                        uint64_t *mark_out);
    bool (*copied)(void *arg, uint64_t mark); /* never waits */
    void (*leave)(void *arg);                 /* it ends: nothing is lent or copied any more */
};

/* What this rank serves during one phase of one op: `pack` makes the payload for (to, from), or as much of it as it
 * likes, from byte `at` on; a piece stays where it lies until `sent` is called for it. Called from exchange_wait,
 * exchange_settle and exchange_progress, never otherwise. */
struct exchange_offer {
    void *arg;
    /* false: no free slot now, or the device makes it still (exchange_hurry); it is called again later */
    bool (*pack)(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out);
    /* Likewise of phase ASK with the same epoch and op; NULL: there are none. */
    bool (*pack_asked)(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out);
    void (*sent)(void *arg, const void *bytes);
};

/* Payloads of the phases KEPT, which lie there whole before they are sent. Called as an offer is. */
struct exchange_stock {
    void *arg;
    /* false: not made yet; it is called again later */
    bool (*find)(void *arg, const struct exchange_key *key, struct exchange_piece *out);
};

struct exchange;
struct trace;
struct traffic;

/*   n_request  most requests that can be waiting for this rank at once (all peers together)
 *   n_fetch    most fetches of this rank under way at once
 *   owns       the caller owns it: exchange_close; borrows the transport (set later with exchange_attach)
 */
struct exchange *exchange_open(int n_request, int n_fetch);
void exchange_close(struct exchange *exchange);
void exchange_attach(struct exchange *exchange, struct transport *transport);
/* Lend pieces, and take lent ones, from now on; NULL: no longer. When nothing is under way. */
void exchange_lend(struct exchange *exchange, const struct exchange_lender *lender);

/* The transport's events for kinds FETCH, PAYLOAD, LENT and READ; the worker's session passes these on. */
void *exchange_place(struct exchange *exchange, const struct transport_head *head, size_t n_bytes);
void exchange_arrived(struct exchange *exchange, const struct transport_head *head, void *body, size_t n_bytes);

/* Begin serving (epoch, phase, op); `n_serve` payloads will be fetched in all. */
void exchange_serve(struct exchange *exchange, const struct exchange_key *key, const struct exchange_offer *offer,
                    int n_serve);

/* Fetch a payload of exactly n_bytes from `peer` into `out`. Returns a handle for exchange_wait. */
enum status exchange_fetch(struct exchange *exchange, uint32_t peer, const struct exchange_key *key, void *out,
                           size_t n_bytes, int *handle_out);

/* The device may write there when this mark has passed (0, as at first: now). Only what is lent needs it. */
void exchange_after(struct exchange *exchange, int handle, uint64_t mark);

/* Is that payload there? Never waits. */
bool exchange_is_there(const struct exchange *exchange, int handle);

/* Wait until that payload is there, serving others meanwhile. errors  STATUS_PEER */
enum status exchange_wait(struct exchange *exchange, int handle);

/* Wait until all n_serve payloads were fetched and sent, and their slots are free. Ends exchange_serve. */
enum status exchange_settle(struct exchange *exchange);

/* Serve payloads of a stock from now on, besides what is offered; it is empty until exchange_stock_add. NULL: no
 * longer. */
void exchange_stock(struct exchange *exchange, const struct exchange_stock *stock);

/* So many more payloads of the stock will be fetched. */
void exchange_stock_add(struct exchange *exchange, int64_t n);

/* Wait until all of them were fetched and sent. */
enum status exchange_stock_settle(struct exchange *exchange);

/* A payload could not be made: this and all later calls end with `code`, whose reason is set already. Returns it. */
enum status exchange_fail(struct exchange *exchange, enum status code);

/* From within an offer: a payload will be made in a moment, so do not sleep until a message comes. */
void exchange_hurry(struct exchange *exchange);

/* May payloads lie in a GPU's memory (transport_reaches_gpus)? Not before there is a transport. */
bool exchange_reaches_gpus(const struct exchange *exchange);

/* Does the transport seal messages (transport_seals)? Not before there is a transport. */
bool exchange_seals(const struct exchange *exchange);

struct exchange_counts {       /* so far */
    int64_t n_fetched, n_sent; /* payloads, pieces of payloads */
    int64_t n_carried;         /* bytes sent that were not lent; … */
    int64_t n_lent, n_copied;  /* … lent, and copied by this rank */
    double pack_s, wait_s;     /* making payloads; waiting for others, packing aside */
};
struct exchange_counts exchange_counts(const struct exchange *exchange);

/* Let messages move for a moment without waiting: called between kernels and inside long ones, so that other ranks
 * wait less. Does nothing where a payload is being made: that may run kernels. */
enum status exchange_progress(struct exchange *exchange);
/* While held, exchange_progress does nothing. */
void exchange_hold(struct exchange *exchange, bool holds);

/* Count every payload that arrives from now on; NULL: no longer. */
void exchange_count(struct exchange *exchange, struct traffic *traffic);

/* Record every wait from now on; NULL: no longer. */
void exchange_trace(struct exchange *exchange, struct trace *trace);

/* A payload, or a piece of one, was made since then: this time does not count as waiting. */
void exchange_packed(struct exchange *exchange, double begin_s);

#endif
