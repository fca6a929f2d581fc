/* Messages between processes: a fixed head and a body of bytes, to a peer by number. UCX active messages underneath.
 *
 * Only transport_ucx*.[ch] include UCX. One thread uses a transport. Addresses are exchanged over the
 * control socket, and the death of a peer is found by heartbeats and waitpid, not here. A sending or receiving
 * process calls transport_progress or transport_wait; nothing moves otherwise. Nothing is allocated after open and
 * connect. Numbers of peers: worker rank r is peer r, the coordinator is peer n_rank.
 */
#ifndef PROTOCOL_TRANSPORT_H
#define PROTOCOL_TRANSPORT_H

#include "protocol/base/status.h"
#include "protocol/transport/seal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRANSPORT_MAGIC 0x31445254u /* "TRD1" */

/* Kinds of messages. BODY kinds carry messages.def bodies 32-63, the others raw bytes. */
enum transport_kind {
    TRANSPORT_KIND_COMMAND = 1, /* coordinator → worker: an encoded message */
    TRANSPORT_KIND_REPORT,      /* worker → coordinator: an encoded message */
    TRANSPORT_KIND_DATA,        /* either way: a piece of a part, of weights, of logits … */
    TRANSPORT_KIND_FETCH,       /* worker → worker: send me this (no body) */
    TRANSPORT_KIND_PAYLOAD,     /* worker → worker: here it is, … */
    TRANSPORT_KIND_LENT,        /* … or there it lies, in memory that the receiver reaches */
    TRANSPORT_KIND_READ         /* worker → worker: what was lent has been read (no body) */
};

/* Head of every message: 48 bytes, little-endian, sent as it is in memory. */
struct transport_head {
    uint32_t magic;   /* TRANSPORT_MAGIC, set by transport_send */
    uint32_t attempt; /* messages of another attempt are dropped, set by transport_send */
    uint32_t sender;  /* peer number, set by transport_send */
    uint16_t kind;    /* enum transport_kind */
    uint16_t id;      /* COMMAND, REPORT: the message's id; DATA: what; FETCH and what follows it: the op */
    uint32_t epoch;
    uint32_t phase;  /* likewise: see worker/exchange/exchange.h */
    uint32_t to;     /* part (or tree node) that receives it */
    uint32_t from;   /* part (or tree node) it comes from */
    uint64_t offset; /* DATA: where this piece goes */
    uint64_t total;  /* DATA: bytes of all pieces together */
};

/* Called from progress. `place` returns where n_bytes of body go (NULL: refuse, which ends the transport with
 * STATUS_PEER and status_reason); it is not called for a message without a body. `arrived` reports the message, its
 * body in place (or NULL). Both may send, as long as sends are free, but not progress. Heads are checked for magic,
 * attempt, sender and kind before. */
struct transport_events {
    void *arg;
    void *(*place)(void *arg, const struct transport_head *head, size_t n_bytes);
    void (*arrived)(void *arg, const struct transport_head *head, void *body, size_t n_bytes);
};

struct transport;

/* Undo side effects of loading UCX: handlers of SEGV, BUS, ILL and FPE, which keep others from taking these, and
 * warnings. transport_open also does this. */
void transport_calm(void);
/* Shared memory of each kind for one process: UCX 1.13 uses 4.3 MB before the first message, and more for waiting
 * messages. */
#define TRANSPORT_SHARED_BYTES ((int64_t)8 << 20)
#define TRANSPORT_SHARED "/dev/shm"

/* Start UCX in this process (crash handlers off, host memory).
 *
 *   devices      UCX_NET_DEVICES, where the environment does not set it (route_devices); NULL, "": all
 *   n_peer       most peers; self the own number; attempt fences messages
 *   n_send_most  most sends under way at once; transport_send waits (progressing) when they are all taken
 *   owns         the caller owns *out: transport_close
 *   errors       STATUS_PEER with UCX's own message
 */
enum status transport_open(uint32_t self, uint32_t n_peer, uint32_t attempt, int n_send_most, const char *devices,
                           const struct transport_events *events, struct transport **out);

/* Flush what is under way (bounded to a few seconds), close the endpoints, stop UCX. NULL is allowed. */
void transport_close(struct transport *transport);

/* The peers are gone, or leave with nothing under way: nothing moves any more, bodies may be given back, closing does
 * not wait for them. */
void transport_abandon(struct transport *transport);

/* Own address, for other processes; and the same without shared memory, for processes that cannot share it
 * (neighbour.h). Borrowed for the transport's life. */
const void *transport_address(const struct transport *transport, size_t *n_bytes_out);
const void *transport_far_address(const struct transport *transport, size_t *n_bytes_out);

/* The number and attempt become known only at wire-up: set before the first connect (open with n_peer 0 until
 * then). */
void transport_identify(struct transport *transport, uint32_t self, uint32_t n_peer, uint32_t attempt);

/* Make peer reachable. errors  STATUS_PEER the address cannot be used */
enum status transport_connect(struct transport *transport, uint32_t peer, const void *address, size_t n_bytes);

/* Seal every message from now on, and accept only sealed ones: heads are authenticated, bodies encrypted as well
 * where the peer is on another machine. Before the first connect, once.
 *
 *   near    n_peer: 1 where the peer is on this machine, so that its bodies travel as they are
 *   notes   takes TRANSPORT_SEAL_BYTES (MEMORY_OTHER); bodies no longer lie in a GPU's memory. A message that is not
 *           sealed, or changed, ends the transport with STATUS_PEER; one that came before is dropped
 *   errors  STATUS_NOMEM
 */
#define TRANSPORT_SEAL_PIECE_BYTES                                                                                   \
    ((size_t)1 << 20)            /* a longer body of DATA or PAYLOAD travels as several messages */
#define TRANSPORT_SEAL_N_PIECE 8 /* under way at once */
#define TRANSPORT_SEAL_BYTES (TRANSPORT_SEAL_N_PIECE * TRANSPORT_SEAL_PIECE_BYTES)
enum status transport_seal(struct transport *transport, const struct seal_secret *secret, const uint8_t *near);

/* Send head and body. Returns at once; `*n_pending` (may be NULL) is raised now and lowered when the body may be
 * reused. A send to the own number is delivered through place and arrived. */
enum status transport_send(struct transport *transport, uint32_t peer, const struct transport_head *head,
                           const void *body, size_t n_bytes, int *n_pending);

/* Let messages move; returns the first failure, sticking. */
enum status transport_progress(struct transport *transport);

/* Progress; when nothing moved for a few microseconds sleep until something may have, or timeout_ms is over.
 * For loops `while (!done) { transport_wait(t, 100); }`. */
enum status transport_wait(struct transport *transport, int timeout_ms);

/* For an outer event loop: readable when progress may be due; arm returns false when progress must be called
 * first. */
int transport_event_fd(const struct transport *transport);
bool transport_arm(struct transport *transport);

/* Are messages sealed? */
bool transport_seals(const struct transport *transport);

/* Bytes of bodies so far, PAYLOAD kind only and all kinds; and what sealing adds to heads, tags included. */
struct transport_traffic {
    uint64_t payload_sent, payload_received, all_sent, all_received, seal_sent;
};
struct transport_traffic transport_traffic(const struct transport *transport);

/* May bodies of payloads lie in a GPU's memory? Where this UCX was built for CUDA and finds it. */
bool transport_reaches_gpus(const struct transport *transport);

/* "UCX 1.13.1" */
const char *transport_library(void);

#endif
