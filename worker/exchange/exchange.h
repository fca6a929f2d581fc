/* Rows between parts: fetch what is needed, serve what others need, never compute.
 *
 * Pull by credit: who needs a payload asks for it when it has room (at most prefetch + 1 asked for at once), who has it
 * packs and sends when it gets there. Requests are fixed in number, so nothing is allocated after open. Uses the transport;
 * while anybody waits here, others are served. A key names one payload of the whole job.
 */
#ifndef WORKER_EXCHANGE_H
#define WORKER_EXCHANGE_H

#include "protocol/status.h"
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
    EXCHANGE_PHASE_BACKWARD_2, /* an aggregate's second round backward */
    EXCHANGE_PHASE_EVALUATE,
    EXCHANGE_PHASE_REDUCE, /* up the tree; op 0 gradients and loss, op 1 scores, from op 2 on global ops' sums */
    EXCHANGE_PHASE_SPREAD  /* down the ranks */
};

/* Part of a payload, as it leaves. */
struct exchange_piece {
    const void *bytes;
    size_t n_bytes; /* none only where the payload has none */
    size_t total;   /* of the whole payload */
};

/* What this rank serves during one phase of one op: `pack` makes the payload for (to, from), or as much of it as it likes, from
 * byte `at` on; a piece stays where it lies until `sent` is called for it. Called from exchange_wait, exchange_settle and
 * exchange_progress, never otherwise. */
struct exchange_offer {
    void *arg;
    /* false: no room now, ask again later */
    bool (*pack)(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out);
    void (*sent)(void *arg, const void *bytes);
};

struct exchange;
struct trace;

/*   n_request  most requests that can be waiting for this rank at once (all peers together)
 *   n_fetch    most fetches of this rank under way at once
 *   owns       the caller owns *out: exchange_close; borrows the transport (set later with exchange_attach)
 */
enum status exchange_open(int n_request, int n_fetch, struct exchange **out);
void exchange_close(struct exchange *exchange);
void exchange_attach(struct exchange *exchange, struct transport *transport);

/* The transport's events for kinds FETCH and PAYLOAD; the worker's session passes these on. */
void *exchange_place(struct exchange *exchange, const struct transport_head *head, size_t n_bytes);
void exchange_arrived(struct exchange *exchange, const struct transport_head *head, void *body, size_t n_bytes);

/* Begin serving (epoch, phase, op); `n_serve` payloads will be asked for in all. */
void exchange_serve(struct exchange *exchange, const struct exchange_key *key, const struct exchange_offer *offer, int n_serve);

/* Ask `peer` for a payload of exactly n_bytes, to be written to `room`. Returns a handle for exchange_wait. */
enum status exchange_fetch(struct exchange *exchange, uint32_t peer, const struct exchange_key *key, void *room, size_t n_bytes,
                           int *handle_out);

/* Wait until that payload is there, serving others meanwhile. errors  STATUS_PEER */
enum status exchange_wait(struct exchange *exchange, int handle);

/* Wait until all n_serve payloads were asked for, sent and may be reused. Ends exchange_serve. */
enum status exchange_settle(struct exchange *exchange);

/* A payload could not be made: this and all that follows here ends with `code`, whose sentence was said. Returns it. */
enum status exchange_fail(struct exchange *exchange, enum status code);

/* Let messages move for a moment without waiting: called between kernels so that others are not kept waiting. */
enum status exchange_progress(struct exchange *exchange);

/* Write down every wait from now on; NULL: not any more. */
void exchange_trace(struct exchange *exchange, struct trace *trace);

/* Seconds spent waiting so far. */
double exchange_wait_s(const struct exchange *exchange);

#endif
