/* A transport over UCX from the inside: what transport_ucx.c (its life) and transport_ucx_message.c (what it carries)
 * share. Private to transport_ucx*.c.
 */
#ifndef PROTOCOL_TRANSPORT_UCX_H
#define PROTOCOL_TRANSPORT_UCX_H

#include "protocol/transport/transport.h"
#include "protocol/transport/transport_seal.h"

#include <ucp/api/ucp.h>

/* A send under way. UCX 1.13 reads the head until completion, so the copy lives here. */
struct send {
    struct sealed_head head; /* of a plain message its first member alone */
    uint8_t *buffer;         /* of the sealed body; NULL: not sealed */
    struct transport *transport;
    const void *body;
    size_t n_bytes;
    int *n_pending;
    struct send *next; /* free list, or queue of sends to the own number */
};

/* A receive under way that UCX itself writes to its place: by rendezvous, or into a GPU's memory. */
struct receive {
    struct sealed_head head; /* of a plain message its first member alone */
    struct transport *transport;
    void *body;
    struct receive *next; /* free list */
};

struct receive_block {
    struct receive_block *next;
    struct receive receives[];
};

/* Sends to the own number, in order: the transport delivers them itself. */
struct own_sends {
    struct send *first, **last;
};

struct receive_records {
    struct receive_block *blocks;
    struct receive *free;
};

struct transport {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t n_address;
    ucp_worker_attr_t far; /* its address */
    int event_fd;
    ucp_ep_h *endpoints; /* n_peer; NULL where not connected */
    uint32_t self, n_peer, attempt;
    struct transport_events events;
    struct send *sends;
    struct send *free_send;
    int n_send_most, n_sending;
    struct own_sends own;
    struct receive_records received;
    struct sealing *sealing; /* NULL: messages are plain */
    bool in_event;
    bool reaches_gpus; /* bodies of payloads may lie in their memory */
    bool is_crowded;   /* more processes than cores: spinning only takes time from the others */
    enum status failed;
    char reason[512];
    struct transport_traffic traffic;
};

/* Take the records of sends and receives / have UCX call for each message that comes / give the records back. */
void transport_records_make(struct transport *transport, int n_send_most);
ucs_status_t transport_hear(struct transport *transport);
void transport_records_release(struct transport *transport);

/* The first failure stays, with the sentence that status_fail was last given; returns it. */
enum status transport_fail(struct transport *transport, enum status failed);

/* One turn of UCX and of the sends to the own number; false when nothing moved. */
bool transport_turn(struct transport *transport);

#endif
