/* What the fleet's files share: its workers, its connections, and who does what.
 *
 * fleet.c the calls · fleet_launch.c processes · fleet_control.c the control socket, liveness · fleet_join.c hello and welcome
 * · fleet_token.c the job's secret · fleet_command.c commands and bytes over the transport. One thread, one libuv loop.
 */
#ifndef TRAINERD_FLEET_STATE_H
#define TRAINERD_FLEET_STATE_H

#include "protocol/transport/control.h"
#include "protocol/transport/transport.h"
#include "trainerd/coordinator/fleet/fleet.h"

#include <uv.h>

#define FLEET_TOKEN_BYTES 129
#define FLEET_ANSWER_BYTES 1024

/* One connection to the control socket: a stranger until its hello is good. */
struct fleet_client {
    uv_tcp_t tcp;
    struct fleet *fleet;
    struct fleet_worker *worker; /* NULL: a stranger */
    struct control_decoder decoder;
    uint64_t came_ms;
    char from[80];
    struct fleet_client *next;
};

/* Why a worker looks lost, the more telling the greater. */
enum fleet_suspicion { FLEET_SUSPICION_NONE, FLEET_SUSPICION_CONNECTION, FLEET_SUSPICION_EXIT, FLEET_SUSPICION_WORDS };

struct fleet_worker {
    struct fleet *fleet;
    uint32_t rank;
    uint32_t pid;
    uv_process_t process;
    bool is_child; /* a process of ours, running or not yet reaped */
    bool was_started;
    char host[64];
    uint32_t n_core;
    void *address; /* of its transport */
    size_t n_address;
    struct fleet_client *client;
    bool has_joined, is_connected;
    uint64_t heard_ms;
    enum fleet_suspicion suspicion;
    uint64_t suspect_ms; /* when it began to look lost */
    enum status suspect_status;
    char suspect[512];
    bool has_answered;
    uint8_t answer[FLEET_ANSWER_BYTES];
    size_t n_answer;
    int64_t planned[MEMORY_N];
};

struct fleet {
    const struct job *job;
    struct fleet_setup setup;
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_timer_t tick;
    uv_poll_t transport_poll;
    bool is_listening, is_polling;
    bool is_welcomed; /* workers are expected to be heard of from now on */
    char join[300];   /* HOST:PORT for trainer-worker --join */
    char token[FLEET_TOKEN_BYTES];
    uint32_t attempt;
    uint32_t n_worker;
    struct fleet_worker *workers;
    struct fleet_client *clients;
    uint64_t entered_ms; /* when the present call began to run the loop: nobody was listened to before */
    uint64_t join_by_ms;
    char doing[64]; /* "in epoch 12", for reasons */

    enum status failed; /* the first failure; sticks */
    char reason[900];
    bool has_ended; /* no worker is left */

    struct transport *transport;
    uint64_t cut_ms; /* when the transport failed, with the sentence `cut`; 0: it has not */
    char cut[512];
    int n_pending;      /* sends under way */
    int n_pending_most; /* the present wait is for this many or fewer */
    unsigned expected;  /* id of the report that is waited for; 0 none */
    uint32_t data_from; /* the one rank whose bytes, or answer, are waited for */
    uint8_t *data_to;
    size_t n_data, n_data_placed, n_data_got;
    int32_t n_part;
    int32_t *rank_of_part;
};

/* --- fleet.c --- */
/* Note the first failure; "worker 1 (pid 123)" is put before the sentence when `worker` is given. */
void fleet_fail(struct fleet *fleet, const struct fleet_worker *worker, enum status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Note that the transport failed, for the reason that status_reason has. It knows little: a worker's own words, if they come
 * soon, say more. */
void fleet_cut(struct fleet *fleet);
/* Begin a call: what a worker that fails meanwhile was busy with. */
void fleet_begin(struct fleet *fleet, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* After a failure: abort and kill the others, reap all. Returns the failure, with its reason. */
enum status fleet_end(struct fleet *fleet);
/* Run everything until done says so. errors  the fleet's failure; no worker is left then */
enum status fleet_await(struct fleet *fleet, bool (*done)(const struct fleet *fleet));
/* Run the loop until done or until the time is over; failures do not end it. Returns whether done. */
bool fleet_linger(struct fleet *fleet, bool (*done)(const struct fleet *fleet), uint64_t most_ms);

/* --- fleet_token.c --- */
/* A fresh secret of 256 bits, in hexadecimal / the same kept in a file: read, or made with mode 0600. */
enum status fleet_token_make(char token[FLEET_TOKEN_BYTES]);
enum status fleet_token_load(const char *path, char token[FLEET_TOKEN_BYTES]);
/* In the same time wherever they differ. */
bool fleet_token_is(const char *token, struct message_span offered);

/* --- fleet_launch.c --- */
enum status fleet_launch(struct fleet *fleet);
/* Threads of each of n_here workers on a machine of n_core cores. */
uint32_t fleet_n_thread(const struct job *job, uint32_t n_core, uint32_t n_here);
bool fleet_is_childless(const struct fleet *fleet);
/* Kill what is left and reap it. */
void fleet_kill(struct fleet *fleet);

/* --- fleet_control.c --- */
enum status fleet_listen(struct fleet *fleet);
void fleet_unlisten(struct fleet *fleet);                                         /* no more strangers */
void fleet_client_send(struct fleet_client *client, void *frame, size_t n_bytes); /* takes the frame */
void fleet_client_close(struct fleet_client *client);
/* A worker looks lost: what it says itself, or what another's end explains, may come in a moment and tell more. */
void fleet_suspect(struct fleet_worker *worker, enum fleet_suspicion suspicion, enum status status, const char *sentence);
bool fleet_is_clientless(const struct fleet *fleet);
void fleet_tick(uv_timer_t *tick);

/* --- fleet_join.c --- */
/* A stranger's hello: makes it a worker, or sends it away with the reason. */
void fleet_hello(struct fleet_client *client, const struct control_frame *frame);
/* All have joined: tell them who they are and who the others are. */
enum status fleet_welcome(struct fleet *fleet);

/* --- fleet_command.c --- */
enum status fleet_transport_open(struct fleet *fleet);
/* Tell every worker to end orderly. errors  none: who does not listen is killed later */
void fleet_finish(struct fleet *fleet);

#endif
