/* Messages that a worker receives: pieces of parts and arrays go to their places, a command waits for session_handle.
 * Lengths, offsets and order are unchecked until they are checked here. */
#include "protocol/base/fault.h"
#include "protocol/base/memory.h"
#include "worker/session/session_state.h"

#include <stdio.h>
#include <stdlib.h>

#define COMMAND_MOST_BYTES ((size_t)1 << 20)

/* The first failure inside an event, whose sentence is this thread's last: others follow from it. */
static void event_fail(struct session *session, enum status status)
{
    if (session->failure.status == STATUS_OK && status != STATUS_OK) {
        session->failure.status = status;
        snprintf(session->failure.reason, sizeof session->failure.reason, "%s", status_reason());
    }
}

static struct session_bytes *bytes_find(struct session *session, const struct transport_head *head)
{
    if (head->id == MESSAGE_ID_put) {
        return &session->put_bytes;
    }
    return head->id == MESSAGE_ID_part && head->to < (uint32_t)session->placed.n_part
               ? &session->placed.parts[head->to].raw
               : NULL;
}

static void *piece_place(struct session *session, const struct transport_head *head, size_t n_bytes)
{
    struct session_bytes *to = bytes_find(session, head);
    if (to == NULL || !to->is_expected || head->total != to->n_bytes || n_bytes > to->n_bytes - to->n_placed ||
        head->offset > to->n_bytes - n_bytes) {
        event_fail(session, status_fail(STATUS_PEER, "%zu bytes at %llu of '%s' %u came that were not announced",
                                        n_bytes, (unsigned long long)head->offset, message_name(head->id), head->to));
        return NULL;
    }
    to->n_placed += n_bytes; /* more than all of it would change what is in use */
    return (char *)to->bytes + head->offset;
}

static void *command_place(struct session *session, size_t n_bytes)
{
    if (session->command.id != 0 || session->command.is_coming || n_bytes > COMMAND_MOST_BYTES) {
        event_fail(session, status_fail(STATUS_PEER, "a command of %zu bytes came out of turn, expected at most %zu",
                                        n_bytes, COMMAND_MOST_BYTES));
        return NULL;
    }
    if (n_bytes > session->command.n_room) {
        free(session->command.bytes);
        session->command.bytes = memory_alloc(n_bytes, 1);
        session->command.n_room = n_bytes;
    }
    session->command.is_coming = true;
    return session->command.bytes;
}

/* Whether it is the exchange's, where there is one yet. */
static bool is_exchanged(struct session *session, const struct transport_head *head)
{
    return session->exchange != NULL && head->kind >= TRANSPORT_KIND_FETCH && head->kind <= TRANSPORT_KIND_READ;
}

void *session_place(void *arg, const struct transport_head *head, size_t n_bytes)
{
    struct session *session = arg;
    if (is_exchanged(session, head)) {
        return exchange_place(session->exchange, head, n_bytes);
    }
    if (head->sender == session->n_rank && head->kind == TRANSPORT_KIND_DATA) {
        return piece_place(session, head, n_bytes);
    }
    if (head->sender == session->n_rank && head->kind == TRANSPORT_KIND_COMMAND) {
        return command_place(session, n_bytes);
    }
    event_fail(session, status_fail(STATUS_PEER, "peer %u sent a message of kind %u that is not for a worker",
                                    head->sender, head->kind));
    return NULL;
}

static enum status bytes_expect(struct session_bytes *bytes, enum memory_category category, uint64_t n_bytes)
{
    enum status status = memory_acquire(category, n_bytes, 1, &bytes->bytes);
    if (status == STATUS_OK) {
        bytes->n_bytes = n_bytes;
        bytes->n_placed = bytes->n_got = 0;
        bytes->is_expected = true;
    }
    return status;
}

/* The same in the spill, held until all of it came. */
static enum status bytes_expect_spilled(struct session *session, struct session_bytes *bytes, uint64_t n_bytes)
{
    if (n_bytes > INT64_MAX) {
        return status_fail(STATUS_PEER, "%llu bytes are announced, more than there can be",
                           (unsigned long long)n_bytes);
    }
    enum status status = spill_take(session->spill, (int64_t)n_bytes, &bytes->bytes);
    const struct spill_range all = {bytes->bytes, (int64_t)n_bytes, SPILL_WRITE};
    if (status == STATUS_OK) {
        status = spill_pin(session->spill, &all, 1);
    }
    if (status == STATUS_OK) {
        *bytes = (struct session_bytes){
            .bytes = bytes->bytes, .n_bytes = n_bytes, .is_expected = true, .is_spilled = true};
    }
    return status;
}

static void bytes_add(struct session *session, struct session_bytes *bytes, size_t n_bytes)
{
    bytes->n_got += n_bytes;
    if (bytes->is_spilled && bytes->n_got == bytes->n_bytes) {
        const struct spill_range all = {bytes->bytes, (int64_t)bytes->n_bytes, SPILL_WRITE};
        spill_unpin(session->spill, &all, 1);
    }
}

static enum status part_take(struct session *session)
{
    struct message_part part;
    FAULT(SHIP);
    enum status status = message_decode_part(session->command.bytes, session->command.n, &part);
    if (status != STATUS_OK) {
        return status;
    }
    if (part.part >= (uint32_t)session->placed.n_part || session->placed.rank_of_part[part.part] != session->rank ||
        session->placed.parts[part.part].raw.is_expected) {
        return status_fail(STATUS_PEER, "part %u of %d is announced, expected one of this rank's, once", part.part,
                           session->placed.n_part);
    }
    struct session_bytes *raw = &session->placed.parts[part.part].raw;
    return session->spill != NULL ? bytes_expect_spilled(session, raw, part.n_bytes)
                                  : bytes_expect(raw, MEMORY_STRUCTURE, part.n_bytes);
}

size_t session_state_bytes(struct session *session, uint32_t what, uint32_t part)
{
    return worker_state_row(what) != NULL && part < (uint32_t)session->placed.n_part
               ? (size_t)trainer_state_bytes(session->trainer, (enum worker_state)what, (int32_t)part)
               : 0;
}

/* Await an array that is to be set. */
static enum status put_take(struct session *session)
{
    struct message_put put;
    enum status status = message_decode_put(session->command.bytes, session->command.n, &put);
    if (status != STATUS_OK) {
        return status;
    }
    if (session->trainer == NULL) {
        return status_fail(STATUS_PEER, "array %u is to be set before this rank was ready", put.what);
    }
    const struct worker_state_row *row = worker_state_row(put.what);
    size_t expected = row != NULL && row->is_set ? session_state_bytes(session, put.what, put.part) : 0;
    if (expected == 0 || session->put_bytes.is_expected) {
        return status_fail(STATUS_PEER, "array %u of part %u is to be set, which this rank does not have, or not now",
                           put.what, put.part);
    }
    if (put.n_bytes != expected) {
        return status_fail(STATUS_PEER, "array %u of part %u is to be set to %llu bytes, expected %zu", put.what,
                           put.part, (unsigned long long)put.n_bytes, expected);
    }
    session->put = put;
    return bytes_expect(&session->put_bytes, MEMORY_OTHER, put.n_bytes);
}

static void command_arrived(struct session *session, const struct transport_head *head, size_t n_bytes)
{
    session->command.n = n_bytes;
    session->command.is_coming = false;
    switch (head->id) {
    case MESSAGE_ID_part:
        event_fail(session, part_take(session));
        return;
    case MESSAGE_ID_put:
        event_fail(session, put_take(session));
        return;
    default:
        session->command.id = head->id;
    }
}

void session_arrived(void *arg, const struct transport_head *head, void *body, size_t n_bytes)
{
    struct session *session = arg;
    control_progress(session->control, session->epoch, ++session->step);
    if (is_exchanged(session, head)) {
        exchange_arrived(session->exchange, head, body, n_bytes);
    } else if (body == NULL) {
        event_fail(session,
                   status_fail(STATUS_PEER, "peer %u sent an empty message of kind %u", head->sender, head->kind));
    } else if (head->kind == TRANSPORT_KIND_DATA) {
        bytes_add(session, bytes_find(session, head), n_bytes);
    } else {
        command_arrived(session, head, n_bytes);
    }
}
