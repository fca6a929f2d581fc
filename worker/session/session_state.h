/* What the session's files share. session.c a worker's life · session_join.c hello and welcome · session_command.c
 * commands. */
#ifndef WORKER_SESSION_STATE_H
#define WORKER_SESSION_STATE_H

#include "protocol/job/job.h"
#include "protocol/transport/transport.h"
#include "protocol/wire/message.h"
#include "worker/exchange/control.h"
#include "worker/session/session.h"
#include "worker/spill/spill.h"
#include "worker/state/trainer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes on their way in: a part, or an array to be set. */
struct session_bytes {
    void *bytes;
    size_t n_bytes, n_placed, n_got;
    bool is_expected;
    bool is_spilled; /* of session.spill, which then holds it until all is there */
};

struct session_part {
    struct session_bytes raw;
    struct part part;
    bool is_open;
};

/* Parts by rank. */
struct session_placed {
    int32_t n_part; /* 0: not placed yet */
    uint32_t *rank_of_part;
    uint32_t *machine_of_rank;  /* n_rank */
    struct session_part *parts; /* n_part */
    int32_t n_own;
    struct part **own; /* n_part: the open ones, NULL elsewhere */
};

/* The last command that came. */
struct session_command {
    uint8_t *bytes;
    size_t n_room, n;
    bool is_coming; /* its body has a place */
    unsigned id;    /* 0: no command waits */
};

/* The first failure inside an event of the transport. */
struct session_failure {
    enum status status;
    char reason[1024];
};

struct session {
    struct control *control;
    struct transport *transport;
    struct job job;
    uint32_t rank, n_rank;
    uint32_t n_thread;
    bool talks;    /* session_setup */
    bool has_gpus; /* of its own: session_setup */

    struct session_placed placed;
    const struct device_ops *ops;
    struct spill *spill; /* memory.spill; NULL: none */
    struct exchange *exchange;
    struct trainer *trainer;

    struct session_command command;
    struct session_bytes put_bytes;            /* of an array that is to be set, … */
    struct message_put put;                    /* … as it was announced */
    uint8_t answer[MESSAGE_ANSWER_MOST_BYTES]; /* n_answer bytes, encoded */
    size_t n_answer;
    int n_pending;
    uint32_t epoch, step; /* how far, for the heartbeats */
    bool is_finished;
    struct session_failure failure;
};

/* --- session.c --- */
/* A line for who started this worker by hand; nothing where it was started otherwise. */
void session_say(const struct session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- session_join.c --- */
/* Hello, welcome, addresses: everybody can be sent to when it returns. */
enum status session_join(struct session *session, const struct session_setup *setup);

/* --- session_receive.c --- */
/* Events of the transport. */
void *session_place(void *arg, const struct transport_head *head, size_t n_bytes);
void session_arrived(void *arg, const struct transport_head *head, void *body, size_t n_bytes);
/* Bytes of this rank's row of worker_state.def; 0: this rank does not have it. */
size_t session_state_bytes(struct session *session, uint32_t what, uint32_t part);

/* --- session_command.c --- */
/* Obey the command that waits. */
enum status session_handle(struct session *session);
/* Encode an answer of this kind, send it, and wait until it has left. */
#define SESSION_ANSWER(session, kind, message)                                                                       \
    session_answer(session, MESSAGE_ID_##kind,                                                                       \
                   message_encode_##kind(message, (session)->answer, sizeof(session)->answer, &(session)->n_answer))
enum status session_answer(struct session *session, unsigned id, enum status encoded);

#endif
