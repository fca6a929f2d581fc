/* A fleet from inside, for the files that implement it, each of which calls only those after it:
 *
 * fleet.c opening and closing · fleet_trace.c a worker's trace · fleet_guard.c the accuracy guard · fleet_command.c
 * commands and bytes over the transport · fleet_wait.c the loop · fleet_control.c the control socket, liveness ·
 * fleet_join.c hello and welcome · fleet_client.c frames out · fleet_slurm.c workers as tasks of Slurm · fleet_ssh.c
 * workers on other hosts · fleet_launch.c processes · fleet_token.c the job's secret · fleet_failure.c the first
 * failure. One thread, one libuv loop.
 */
#ifndef TRAINERD_FLEET_STATE_H
#define TRAINERD_FLEET_STATE_H

#include "protocol/base/log_limit.h"
#include "protocol/transport/neighbour.h"
#include "protocol/transport/route.h"
#include "protocol/transport/transport.h"
#include "protocol/wire/control_seal.h"
#include "protocol/wire/join_proof.h"
#include "trainerd/coordinator/fleet/fleet.h"

#include <limits.h>
#include <uv.h>

#define FLEET_TOKEN_BYTES 129
#define FLEET_MACHINE_BYTES 64
#define FLEET_COMMAND_BYTES 128
#define FLEET_SEGMENTS "/dev/shm"

/* One connection to the control socket: unauthenticated until its hello is good. */
struct fleet_client {
    uv_tcp_t tcp;
    struct fleet *fleet;
    struct fleet_worker *worker; /* NULL: unauthenticated */
    struct control_decoder decoder;
    struct join_nonces nonces;
    struct control_seal seal;
    uint64_t since_ms;
    char from[80];
    struct fleet_client *next;
};

/* Why a worker looks lost, in the order of how much it tells. */
enum fleet_suspicion {
    FLEET_SUSPICION_NONE,
    FLEET_SUSPICION_CONNECTION,
    FLEET_SUSPICION_EXIT,
    FLEET_SUSPICION_REPORT
};

struct fleet_address {
    void *bytes;
    size_t n;
};

/* A process of this machine: a worker, or its ssh. */
struct fleet_own_child {
    uv_process_t process;
    bool is_there; /* running, or not yet reaped */
    bool was_started;
    int last_words;  /* struct fleet_child; -1: closed */
    char words[320]; /* why it ended, as it has written there; "" */
};

struct fleet_suspect {
    enum fleet_suspicion suspicion;
    uint64_t since_ms; /* when it first looked lost */
    enum status status;
    char sentence[512];
};

struct fleet_worker {
    struct fleet *fleet;
    uint32_t rank;
    uint32_t pid;
    struct fleet_own_child child;
    char host[64], machine[FLEET_MACHINE_BYTES];
    char namespaces[NEIGHBOUR_BYTES], at[ROUTE_TEXT_BYTES];
    struct route route; /* this machine's end of its connection */
    uint32_t n_core, ciphers;
    struct fleet_address address, far_address; /* of its transport */
    struct fleet_client *client;
    bool has_joined, is_connected;
    uint64_t last_seen_ms;
    struct fleet_suspect suspect;
    bool has_answered;
    uint8_t answer[MESSAGE_ANSWER_MOST_BYTES];
    size_t n_answer;
    struct memory_table planned;
    struct fleet_times times;
};

/* One process for all workers: srun. */
struct fleet_step {
    uv_process_t process;
    bool is_child;      /* running or not yet reaped */
    uint64_t ended_ms;  /* 0: it has not */
    char sentence[160]; /* how it ended */
};

/* Where workers join. */
struct fleet_control {
    uv_tcp_t listener;
    bool is_listening;
    char join[300]; /* HOST:PORT for trainer-worker --join */
    char token[FLEET_TOKEN_BYTES];
    uint64_t join_by_ms;
    struct fleet_client *clients;
    struct log_limit refused; /* log lines of refused and closed connections */
};

/* The first failure; it stays. */
struct fleet_failure {
    enum status status;
    char reason[900];
    bool has_ended;        /* no worker is left */
    uint64_t transport_ms; /* when the transport failed, with this sentence; 0: it has not */
    char transport[512];
};

/* What the present call waits for. */
struct fleet_transfer {
    int n_pending;      /* sends under way */
    int n_pending_most; /* the wait is for this many or fewer */
    unsigned expected;  /* id of the report that is waited for; 0: no report */
    uint32_t from;      /* the one rank whose bytes, or answer, are waited for */
    uint8_t *to;
    size_t n, n_placed, n_got; /* bytes */
};

struct fleet {
    const struct job *job;
    struct fleet_setup setup;
    uv_loop_t loop;
    uv_timer_t tick;
    uv_poll_t transport_poll;
    bool is_polling;
    bool is_welcomed; /* workers send heartbeats from now on */
    struct fleet_control control;
    uint32_t attempt;
    struct seal_secret secret; /* cipher SEAL_NONE: messages are plain */
    uint32_t n_worker;
    struct fleet_worker *workers; /* n_worker; behind them the coordinator's own place, from fleet_welcome on */
    struct fleet_step step;
    bool is_signalled;   /* a worker has passed on a signal to end */
    uint64_t entered_ms; /* when the present call began to run the loop: between calls, nothing is received */
    char doing[64];      /* "in epoch 12", for reasons */
    struct fleet_failure failure;
    struct transport *transport;
    int64_t n_oom_kill; /* cgroup_oom_kills before the first worker was started */
    struct fleet_transfer transfer;
    uint8_t command[FLEET_COMMAND_BYTES]; /* n_command bytes, encoded */
    size_t n_command;
    int32_t n_part;
    int32_t *rank_of_part;
};

/* --- fleet_failure.c --- */
/* Begin a call. The text goes into the reason of a worker that fails meanwhile: "in epoch 3". */
void fleet_begin(struct fleet *fleet, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Record the first failure. When `worker` is given, "worker 1 (pid 123)" is put before the sentence. */
void fleet_fail(struct fleet *fleet, const struct fleet_worker *worker, enum status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Record that the transport failed, with status_reason. A worker's own report, if one comes soon, is more precise. */
void fleet_transport_failed(struct fleet *fleet);
/* Record that a worker looks lost. Its own report, or the end of another worker, may soon give the true cause. */
void fleet_suspect(struct fleet_worker *worker, enum fleet_suspicion suspicion, enum status status,
                   const char *sentence);

/* --- fleet_token.c --- */
/* A fresh secret of 256 bits, in hexadecimal / the secret in a file: read, or made with mode 0600. */
enum status fleet_token_make(char token[FLEET_TOKEN_BYTES]);
enum status fleet_token_load(const char *path, char token[FLEET_TOKEN_BYTES]);
/* --- fleet_slurm.c --- */
/* Start all workers as one step of Slurm's allocation. */
enum status fleet_launch_slurm(struct fleet *fleet);

/* --- fleet_ssh.c --- */
/* Start each worker by an ssh of its own, on the hosts of workers.hosts. */
enum status fleet_launch_ssh(struct fleet *fleet);

/* --- fleet_launch.c --- */
enum status fleet_launch(struct fleet *fleet);

/* A child process with the token on a descriptor of its own, and its stderr where `rank`'s is.
 *
 *   program    a path, or a name in PATH
 *   arguments  end in NULL
 *   token_at   0, standard input, or 3
 *   last_words gets a socket, the caller's to close, which has what the child writes to where it has read the token;
 *   NULL: nobody asks
 *   errors     STATUS_PEER it cannot be started; STATUS_CREATE its log
 */
struct fleet_child {
    const char *program;
    char **arguments, **environment;
    int token_at;
    uint32_t rank;
    int *last_words;
    uv_exit_cb ended;
    void *data;
};
enum status fleet_child_start(struct fleet *fleet, const struct fleet_child *child, uv_process_t *out);

/* The child's environment: the coordinator's, and defaults that the user has not set. */
#define FLEET_N_SETTING 6
struct fleet_environment {
    char settings[FLEET_N_SETTING][64];
    char **all; /* ends in NULL; the caller frees it */
};
/*   n_thread    0: what the machine has
 *   have_cores  all threads of the workers on the machine have a core each */
void fleet_environment_init(uint32_t n_thread, bool have_cores, struct fleet_environment *out);

/* The program of workers: workers.program, or trainer-worker beside this program. */
enum status fleet_worker_program(const struct job *job, char out[PATH_MAX]);

/* Threads of each of n_here workers on a machine of n_core cores. */
uint32_t fleet_n_thread(const struct job *job, uint32_t n_core, uint32_t n_here);

/* --- fleet_client.c --- */
void fleet_client_send(struct fleet_client *client, void *frame, size_t n_bytes); /* takes the frame */
void fleet_client_close(struct fleet_client *client);
bool fleet_is_clientless(const struct fleet *fleet);

/* --- fleet_join.c --- */
/* Handle the hello of an unauthenticated client: make it a worker, or refuse it with the reason. */
void fleet_challenge(struct fleet_client *client);
void fleet_hello(struct fleet_client *client, const struct control_frame *frame);
/* All have joined: send each its rank and the addresses of the others. errors  STATUS_PEER no cipher in common */
enum status fleet_welcome(struct fleet *fleet);

/* --- fleet_control.c --- */
enum status fleet_listen(struct fleet *fleet);
void fleet_unlisten(struct fleet *fleet); /* close the listener and all unauthenticated clients */
void fleet_tick(uv_timer_t *tick);        /* check silence, suspicions, and who has not joined */

/* --- fleet_wait.c --- */
/* Run the loop until done. errors  the fleet's failure; no worker is left then */
enum status fleet_await(struct fleet *fleet, bool (*done)(const struct fleet *fleet));
/* Run the loop until done, at most so long; failures do not end it. Returns whether done. */
bool fleet_linger(struct fleet *fleet, bool (*done)(const struct fleet *fleet), uint64_t most_ms);
/* After a failure: abort and kill the other workers, reap all. Returns the failure, with its reason. */
enum status fleet_end(struct fleet *fleet);
bool fleet_is_childless(const struct fleet *fleet);
/* Kill the child processes that are left, and reap them. */
void fleet_kill(struct fleet *fleet);

/* --- fleet_trace.c --- */
/* Clock offset of a worker that read worker_s between before_s and after_s; 0: both may read the same clock. */
double fleet_clock_offset(double before_s, double after_s, double worker_s);

/* --- fleet_command.c --- */
/* Encode a command of this kind, of at most FLEET_COMMAND_BYTES; it stays until the next one. */
#define FLEET_ENCODE(fleet, kind, message)                                                                           \
    message_encode_##kind(message, (fleet)->command, sizeof(fleet)->command, &(fleet)->n_command)
/* Encode it, send it to all workers / to one, and wait for their answers, which have its id: worker->answer. */
#define FLEET_COMMAND(fleet, kind, message)                                                                          \
    fleet_command(fleet, MESSAGE_ID_##kind, FLEET_ENCODE(fleet, kind, message))
#define FLEET_ASK(fleet, rank, kind, message)                                                                        \
    fleet_ask(fleet, rank, MESSAGE_ID_##kind, FLEET_ENCODE(fleet, kind, message))
enum status fleet_command(struct fleet *fleet, unsigned id, enum status encoded);
enum status fleet_ask(struct fleet *fleet, uint32_t rank, unsigned id, enum status encoded);
/* An answer that cannot be read, for status_reason, ends the job. */
enum status fleet_answer_bad(struct fleet *fleet, const struct fleet_worker *worker);
enum status fleet_transport_open(struct fleet *fleet);
/* Send every worker "finish". errors  none: a worker that does not answer is killed later */
void fleet_finish(struct fleet *fleet);

#endif
