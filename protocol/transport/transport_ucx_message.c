/* Sending and receiving of heads and bodies, and the progress of both. All records of sends and receives are
 * allocated at open. */
#include "protocol/base/clock.h"
#include "protocol/base/memory.h"
#include "protocol/transport/transport_head.h"
#include "protocol/transport/transport_ucx.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AM_ID 1
#define SPIN_NS 30000ll
#define SPIN_CROWDED_NS 5000ll
#define PROGRESS_MOST 256 /* calls in one transport_progress: endless arrivals must not keep the caller for ever */
#define RECEIVES_LEAST 64

enum status transport_fail(struct transport *transport, enum status failed)
{
    if (transport->failed == STATUS_OK) {
        transport->failed = failed;
        snprintf(transport->reason, sizeof transport->reason, "%s", status_reason());
    }
    return transport->failed;
}

static enum status state(const struct transport *transport)
{
    return transport->failed == STATUS_OK ? STATUS_OK : status_fail(transport->failed, "%s", transport->reason);
}

/* --- records --- */

static void send_release(struct send *send)
{
    struct transport *transport = send->transport;
    if (transport->sealing != NULL) {
        sealing_buffer_return(transport->sealing, send->buffer);
    }
    if (send->n_pending != NULL) {
        --*send->n_pending;
    }
    send->next = transport->free_send;
    transport->free_send = send;
    transport->n_sending--;
}

static void receives_grow(struct transport *transport)
{
    int n = transport->n_send_most > RECEIVES_LEAST ? transport->n_send_most : RECEIVES_LEAST;
    struct receive_block *block = memory_alloc(1, sizeof *block + (size_t)n * sizeof block->receives[0]);
    block->next = transport->received.blocks;
    transport->received.blocks = block;
    for (int i = 0; i < n; i++) {
        block->receives[i].transport = transport;
        block->receives[i].next = transport->received.free;
        transport->received.free = &block->receives[i];
    }
}

void transport_records_make(struct transport *transport, int n_send_most)
{
    transport->n_send_most = n_send_most;
    transport->sends = memory_alloc((size_t)n_send_most, sizeof *transport->sends);
    for (int i = 0; i < n_send_most; i++) {
        transport->sends[i].transport = transport;
        transport->sends[i].next = transport->free_send;
        transport->free_send = &transport->sends[i];
    }
    transport->own.last = &transport->own.first;
    receives_grow(transport);
}

void transport_records_release(struct transport *transport)
{
    for (struct receive_block *block = transport->received.blocks, *next; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    free(transport->sends);
}

/* --- receiving --- */

/* A message whose body is in place: call the events' `arrived`. */
static void deliver(struct transport *transport, const struct transport_head *head, void *body, size_t n_bytes)
{
    if (head->sender != transport->self) {
        transport->traffic.all_received += n_bytes;
        transport->traffic.payload_received += head->kind == TRANSPORT_KIND_PAYLOAD ? n_bytes : 0;
    }
    transport->in_event = true;
    transport->events.arrived(transport->events.arg, head, body, n_bytes);
    transport->in_event = false;
}

/* Where the body goes; NULL without a body (n_bytes 0) or when it was refused, which ends the transport. */
static void *place(struct transport *transport, const struct transport_head *head, size_t n_bytes)
{
    if (n_bytes == 0) {
        return NULL;
    }
    transport->in_event = true;
    void *body = transport->events.place(transport->events.arg, head, n_bytes);
    transport->in_event = false;
    if (body == NULL) {
        transport_fail(transport, STATUS_PEER);
    }
    return body;
}

/* Whether a message is to be taken in; a head that no peer sends ends the transport. */
static bool head_check(struct transport *transport, const void *header, size_t n_header, size_t n_body,
                       struct sealed_head *out)
{
    if (transport->failed != STATUS_OK) {
        return false;
    }
    bool is_fresh;
    const struct transport_reader reader = {transport->self, transport->n_peer, transport->attempt};
    enum status status = transport->sealing != NULL
                             ? sealing_read_head(transport->sealing, header, n_header, n_body, transport->attempt,
                                                 out, &is_fresh)
                             : transport_head_read(header, n_header, &reader, &out->head, &is_fresh);
    if (status != STATUS_OK) {
        transport_fail(transport, status);
        return false;
    }
    return is_fresh;
}

/* Where messages are sealed, open a body, from where it lies to its place; false where it was changed, which ends the
 * transport. */
static bool body_take(struct transport *transport, const struct sealed_head *head, const void *from, void *body,
                      size_t n_bytes)
{
    if (n_bytes == 0) {
        return true;
    }
    if (transport->sealing != NULL) {
        enum status status = sealing_open_body(transport->sealing, head, from, body);
        return status == STATUS_OK || transport_fail(transport, status) == STATUS_OK;
    }
    if (from != body) {
        memcpy(body, from, n_bytes);
    }
    return true;
}

static void receive_done(void *request, ucs_status_t status, size_t n_bytes, void *arg)
{
    struct receive *receive = arg;
    struct transport *transport = receive->transport;
    if (request != NULL) {
        ucp_request_free(request);
    }
    if (status == UCS_OK) {
        if (body_take(transport, &receive->head, receive->body, receive->body, n_bytes)) {
            deliver(transport, &receive->head.head, receive->body, n_bytes);
        }
    } else if (status != UCS_ERR_CANCELED) {
        transport_fail(transport, status_fail(STATUS_PEER, "cannot receive %zu bytes from peer %u: %s", n_bytes,
                                              receive->head.head.sender, ucs_status_string(status)));
    }
    receive->next = transport->received.free;
    transport->received.free = receive;
}

/* A body that the sender still holds: fetch it to where it belongs. */
static void receive_start(struct transport *transport, const struct sealed_head *head, void *descriptor, void *body,
                          size_t n_bytes)
{
    if (transport->received.free == NULL) {
        receives_grow(transport);
    }
    struct receive *receive = transport->received.free;
    transport->received.free = receive->next;
    receive->head = *head;
    receive->body = body;
    ucp_request_param_t how = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.recv_am = receive_done,
        .user_data = receive,
    };
    ucs_status_ptr_t request = ucp_am_recv_data_nbx(transport->worker, descriptor, body, n_bytes, &how);
    if (!UCS_PTR_IS_PTR(request)) {
        receive_done(NULL, UCS_PTR_STATUS(request), n_bytes, receive);
    }
}

static ucs_status_t receive_callback(void *arg, const void *header, size_t n_header, void *data, size_t n_bytes,
                                     const ucp_am_recv_param_t *how)
{
    struct transport *transport = arg;
    struct sealed_head head;
    if (!head_check(transport, header, n_header, n_bytes, &head)) {
        return UCS_OK; /* UCX drops the body, also one that the sender still holds */
    }
    void *body = place(transport, &head.head, n_bytes);
    if (n_bytes > 0 && body == NULL) {
        return UCS_OK;
    }
    /* To memory that the host may not reach UCX itself has to write. */
    bool lies_here = (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0 && n_bytes > 0;
    bool unpacks = transport->reaches_gpus && head.head.kind == TRANSPORT_KIND_PAYLOAD && lies_here;
    if ((how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 || unpacks) {
        receive_start(transport, &head, data, body, n_bytes);
        return UCS_INPROGRESS;
    }
    if (body_take(transport, &head, data, body, n_bytes)) {
        deliver(transport, &head.head, body, n_bytes);
    }
    return UCS_OK;
}

ucs_status_t transport_hear(struct transport *transport)
{
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = AM_ID,
        .flags = transport->reaches_gpus ? UCP_AM_FLAG_PERSISTENT_DATA : 0,
        .cb = receive_callback,
        .arg = transport,
    };
    return ucp_worker_set_am_recv_handler(transport->worker, &handler);
}

/* The sends to the own number that wait now (not those that their delivery adds); false when none waits. */
static bool deliver_own(struct transport *transport)
{
    struct send *first = transport->own.first;
    transport->own.first = NULL;
    transport->own.last = &transport->own.first;
    for (struct send *send = first, *next; send != NULL; send = next) {
        next = send->next;
        void *body = transport->failed == STATUS_OK ? place(transport, &send->head.head, send->n_bytes) : NULL;
        if (body != NULL) {
            memcpy(body, send->body, send->n_bytes);
        }
        if (transport->failed == STATUS_OK) {
            deliver(transport, &send->head.head, body, send->n_bytes);
        }
        send_release(send);
    }
    return first != NULL;
}

/* --- sending --- */

static void send_done(void *request, ucs_status_t status, void *arg)
{
    struct send *send = arg;
    ucp_request_free(request);
    if (status != UCS_OK && status != UCS_ERR_CANCELED) {
        transport_fail(send->transport, status_fail(STATUS_PEER, "cannot send %zu bytes: %s", send->n_bytes,
                                                    ucs_status_string(status)));
    }
    send_release(send);
}

/* Wait until there is a free record, and a buffer where a body is to be sealed. Returns false where the transport has
 * failed. */
static bool send_await(struct transport *transport, bool seals, uint8_t **buffer_out)
{
    *buffer_out = seals ? sealing_buffer(transport->sealing) : NULL;
    while (transport->failed == STATUS_OK && (transport->free_send == NULL || (seals && *buffer_out == NULL))) {
        if (transport->in_event) {
            transport_fail(transport,
                           status_fail(STATUS_BUG, "all %d sends are taken while a message is being taken in",
                                       transport->n_send_most));
            break;
        }
        transport_wait(transport, 100);
        if (seals && *buffer_out == NULL) {
            *buffer_out = sealing_buffer(transport->sealing);
        }
    }
    return transport->failed == STATUS_OK;
}

/* A free record. NULL: the transport has failed. */
static struct send *send_take(struct transport *transport, bool seals)
{
    uint8_t *buffer;
    if (!send_await(transport, seals, &buffer)) {
        return NULL;
    }
    struct send *send = transport->free_send;
    transport->free_send = send->next;
    transport->n_sending++;
    send->buffer = buffer;
    return send;
}

/* Give a message to UCX. */
static enum status send_post(struct transport *transport, uint32_t peer, struct send *send, const void *body)
{
    size_t n_head = transport->sealing != NULL ? sizeof send->head : sizeof send->head.head;
    transport->traffic.all_sent += send->n_bytes;
    transport->traffic.payload_sent += send->head.head.kind == TRANSPORT_KIND_PAYLOAD ? send->n_bytes : 0;
    transport->traffic.seal_sent += n_head - sizeof send->head.head;
    /* A rendezvous has the receiver read the sender's memory, and UCX aborts it when the sender dies meanwhile. The
     * coordinator outlives its workers, so messages to it are sent eagerly; and so are those that say where something
     * lies, of which the receiver has one place. */
    ucp_request_param_t how = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = peer + 1 == transport->n_peer || send->head.head.kind == TRANSPORT_KIND_LENT ? UCP_AM_SEND_FLAG_EAGER
                                                                                              : 0,
        .cb.send = send_done,
        .user_data = send,
    };
    size_t n_bytes = send->n_bytes;
    ucs_status_ptr_t request = ucp_am_send_nbx(transport->endpoints[peer], AM_ID, &send->head, n_head, body, n_bytes,
                                               &how);
    if (UCS_PTR_IS_PTR(request)) {
        return STATUS_OK;
    }
    send_release(send);
    if (UCS_PTR_IS_ERR(request)) {
        return transport_fail(transport, status_fail(STATUS_PEER, "cannot send %zu bytes to peer %u: %s", n_bytes,
                                                     peer, ucs_status_string(UCS_PTR_STATUS(request))));
    }
    return STATUS_OK;
}

/* Send one message; `seals` where its body is encrypted, which has at most TRANSPORT_SEAL_PIECE_BYTES then. */
static enum status message_send(struct transport *transport, uint32_t peer, const struct transport_head *head,
                                const void *body, size_t n_bytes, bool seals, int *n_pending)
{
    struct send *send = send_take(transport, seals);
    if (send == NULL) {
        return state(transport);
    }
    send->head.head = *head;
    send->head.head.magic = TRANSPORT_MAGIC;
    send->head.head.attempt = transport->attempt;
    send->head.head.sender = transport->self;
    send->body = body;
    send->n_bytes = n_bytes;
    send->n_pending = n_pending;
    if (n_pending != NULL) {
        ++*n_pending;
    }
    if (peer == transport->self) {
        send->next = NULL;
        *transport->own.last = send;
        transport->own.last = &send->next;
        return STATUS_OK;
    }
    if (transport->sealing != NULL) {
        sealing_close_message(transport->sealing, peer, &send->head, body, n_bytes, send->buffer);
    }
    return send_post(transport, peer, send, send->buffer != NULL ? send->buffer : body);
}

/* Send a body in sealed pieces, each a message. */
static enum status pieces_send(struct transport *transport, uint32_t peer, const struct transport_head *head,
                               const char *body, size_t n_bytes, int *n_pending)
{
    struct transport_head piece = *head;
    if (n_bytes > TRANSPORT_SEAL_PIECE_BYTES && head->kind != TRANSPORT_KIND_DATA &&
        head->kind != TRANSPORT_KIND_PAYLOAD) {
        return status_fail(STATUS_BUG, "a message of kind %u has %zu bytes, expected at most %zu", head->kind,
                           n_bytes, TRANSPORT_SEAL_PIECE_BYTES);
    }
    enum status status = STATUS_OK;
    for (size_t at = 0; status == STATUS_OK && at < n_bytes; at += TRANSPORT_SEAL_PIECE_BYTES) {
        size_t left = n_bytes - at;
        piece.offset = head->offset + at;
        status = message_send(transport, peer, &piece, body + at,
                              left < TRANSPORT_SEAL_PIECE_BYTES ? left : TRANSPORT_SEAL_PIECE_BYTES, true, n_pending);
    }
    return status;
}

enum status transport_send(struct transport *transport, uint32_t peer, const struct transport_head *head,
                           const void *body, size_t n_bytes, int *n_pending)
{
    if (peer >= transport->n_peer || (peer != transport->self && transport->endpoints[peer] == NULL)) {
        return status_fail(STATUS_BUG, "peer %u of %u is not connected", peer, transport->n_peer);
    }
    bool seals = transport->sealing != NULL && n_bytes > 0 && peer != transport->self &&
                 sealing_covers(transport->sealing, peer);
    return seals ? pieces_send(transport, peer, head, body, n_bytes, n_pending)
                 : message_send(transport, peer, head, body, n_bytes, false, n_pending);
}

/* --- progress --- */

bool transport_turn(struct transport *transport)
{
    bool moved = transport->own.first != NULL && deliver_own(transport);
    return ucp_worker_progress(transport->worker) != 0 || moved;
}

enum status transport_progress(struct transport *transport)
{
    for (int i = 0; i < PROGRESS_MOST && transport->failed == STATUS_OK && transport_turn(transport); i++) {
    }
    return state(transport);
}

enum status transport_wait(struct transport *transport, int timeout_ms)
{
    int64_t until = clock_ns() + (transport->is_crowded ? SPIN_CROWDED_NS : SPIN_NS);
    do {
        if (transport->failed != STATUS_OK || transport_turn(transport)) {
            return transport_progress(transport);
        }
        if (transport->is_crowded) {
            sched_yield();
        }
    } while (clock_ns() < until);
    if (transport_arm(transport)) {
        struct pollfd event = {.fd = transport->event_fd, .events = POLLIN};
        poll(&event, 1, timeout_ms);
    }
    return transport_progress(transport);
}

bool transport_arm(struct transport *transport)
{
    return transport->own.first == NULL && transport->failed == STATUS_OK &&
           ucp_worker_arm(transport->worker) == UCS_OK;
}

struct transport_traffic transport_traffic(const struct transport *transport)
{
    return transport->traffic;
}
