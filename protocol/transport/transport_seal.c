#include "protocol/transport/transport_seal.h"

#include "protocol/base/memory.h"
#include "protocol/transport/transport_head.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct sealed_head) == 96, "the head is sent as it is in memory");

/* One direction with one peer. */
struct sealed_peer {
    struct seal_key *key; /* of what it sends */
    uint64_t n_sent;      /* to it */
    struct seal_window came;
    bool is_near;
};

struct sealing {
    uint32_t self, n_peer;
    struct seal_key *key;
    struct sealed_peer *peers; /* n_peer */
    uint8_t *bytes;            /* TRANSPORT_SEAL_BYTES */
    uint8_t *free[TRANSPORT_SEAL_N_PIECE];
    int n_free;
};

enum status sealing_open(const struct seal_secret *secret, uint32_t self, uint32_t n_peer, const uint8_t *near,
                         struct sealing **out)
{
    struct sealing *s = memory_alloc(1, sizeof *s);
    enum status status = memory_acquire(MEMORY_OTHER, TRANSPORT_SEAL_BYTES, 1, &s->bytes);
    if (status != STATUS_OK) {
        free(s);
        return status;
    }
    s->self = self;
    s->n_peer = n_peer;
    s->key = seal_key_make(secret, SEAL_MESSAGES, self);
    s->peers = memory_alloc(n_peer, sizeof *s->peers);
    for (uint32_t peer = 0; peer < n_peer; peer++) {
        s->peers[peer].key = seal_key_make(secret, SEAL_MESSAGES, peer);
        s->peers[peer].is_near = near[peer] != 0;
    }
    for (int i = 0; i < TRANSPORT_SEAL_N_PIECE; i++) {
        s->free[s->n_free++] = s->bytes + (size_t)i * TRANSPORT_SEAL_PIECE_BYTES;
    }
    *out = s;
    return STATUS_OK;
}

void sealing_close(struct sealing *s)
{
    if (s == NULL) {
        return;
    }
    for (uint32_t peer = 0; peer < s->n_peer; peer++) {
        seal_key_free(s->peers[peer].key);
    }
    seal_key_free(s->key);
    free(s->peers);
    memory_release(MEMORY_OTHER, s->bytes, TRANSPORT_SEAL_BYTES, 1);
    free(s);
}

bool sealing_covers(const struct sealing *s, uint32_t peer)
{
    return !s->peers[peer].is_near;
}

uint8_t *sealing_buffer(struct sealing *s)
{
    return s->n_free > 0 ? s->free[--s->n_free] : NULL;
}

void sealing_buffer_return(struct sealing *s, uint8_t *buffer)
{
    if (buffer != NULL) {
        s->free[s->n_free++] = buffer;
    }
}

/* What authenticates a head, or a body: two nonces of one message. */
static struct seal_message head_message(const struct sealed_head *head, uint32_t to)
{
    return (struct seal_message){
        .to = to, .sequence = 2 * head->sequence, .beside = head, .n_beside = offsetof(struct sealed_head, tag)};
}

static struct seal_message body_message(const struct sealed_head *head, uint32_t to)
{
    return (struct seal_message){.to = to, .sequence = 2 * head->sequence + 1};
}

void sealing_close_message(struct sealing *s, uint32_t peer, struct sealed_head *head, const void *body,
                           size_t n_body, uint8_t *buffer)
{
    head->sequence = s->peers[peer].n_sent++;
    head->n_body = n_body;
    memset(head->body_tag, 0, sizeof head->body_tag);
    if (buffer != NULL) {
        const struct seal_message message = body_message(head, peer);
        seal_close(s->key, &message, body, n_body, buffer, head->body_tag);
    }
    const struct seal_message message = head_message(head, peer);
    seal_close(s->key, &message, NULL, 0, NULL, head->tag);
}

enum status sealing_read_head(struct sealing *s, const void *bytes, size_t n_bytes, size_t n_body, uint32_t attempt,
                              struct sealed_head *out, bool *is_fresh_out)
{
    if (n_bytes != sizeof *out) {
        return status_fail(STATUS_PEER, "a message has a head of %zu bytes, expected the %zu of a sealed one",
                           n_bytes, sizeof *out);
    }
    memcpy(out, bytes, sizeof *out);
    const struct transport_reader reader = {s->self, s->n_peer, attempt};
    enum status status = transport_head_read(&out->head, sizeof out->head, &reader, &out->head, is_fresh_out);
    if (status != STATUS_OK || !*is_fresh_out) {
        return status;
    }
    struct sealed_peer *sender = &s->peers[out->head.sender];
    const struct seal_message message = head_message(out, s->self);
    if (!seal_open(sender->key, &message, NULL, 0, out->tag, NULL) || out->n_body != n_body) {
        return status_fail(STATUS_PEER, "a message that names peer %u as its sender is not sealed by that peer's key",
                           out->head.sender);
    }
    *is_fresh_out = seal_window_admit(&sender->came, out->sequence);
    return STATUS_OK;
}

enum status sealing_open_body(struct sealing *s, const struct sealed_head *head, const void *body, void *out)
{
    const struct sealed_peer *sender = &s->peers[head->head.sender];
    if (sender->is_near) {
        if (body != out) {
            memcpy(out, body, head->n_body);
        }
        return STATUS_OK;
    }
    const struct seal_message message = body_message(head, s->self);
    return seal_open(sender->key, &message, body, head->n_body, head->body_tag, out)
               ? STATUS_OK
               : status_fail(STATUS_PEER, "a body of %llu bytes from peer %u was changed on its way",
                             (unsigned long long)head->n_body, head->head.sender);
}
