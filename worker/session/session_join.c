/* Wire-up over the control socket: both sides prove the token, then exchange transport addresses. */
#include "protocol/base/clock.h"
#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/base/version.h"
#include "protocol/files/file.h"
#include "protocol/transport/neighbour.h"
#include "protocol/wire/join_proof.h"
#include "worker/session/session_state.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Sends under way at once; more wait for their turn inside transport_send. */
#define N_SEND 256
#define FILES_OWN 24                /* a worker's open files: 17, and its device's and the spill's */
#define FILES_EACH 2                /* for each other process, over TCP */
#define AGAIN_MOST_NS 60000000000ll /* a worker joins again and again for no longer than this */

/* A worker's end of the proof. */
struct join {
    const char *token;
    struct join_nonces nonces;
    char boot[CLOCK_BOOT_BYTES]; /* the machine */
    char namespaces[NEIGHBOUR_BYTES];
    char at[ROUTE_TEXT_BYTES];
};

static enum status hello_send(struct session *session, const struct session_setup *setup, const struct join *join)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    cpu_set_t cores;
    size_t n_address, n_far, n;
    const void *address = transport_address(session->transport, &n_address);
    const void *far = transport_far_address(session->transport, &n_far);
    struct message_hello hello = {
        .version = MESSAGE_VERSION,
        .nonce = {join->nonces.worker, JOIN_NONCE_BYTES},
        .host = message_text(setup->host != NULL ? setup->host : host),
        .machine = message_text(join->boot),
        .namespaces = message_text(join->namespaces),
        .at = message_text(join->at),
        .pid = (uint32_t)getpid(),
        .rank = setup->rank,
        .n_core = sched_getaffinity(0, sizeof cores, &cores) == 0 ? (uint32_t)CPU_COUNT(&cores) : 1,
        .ciphers = seal_ciphers(),
        .address = {address, (uint32_t)n_address},
        .far_address = {far, (uint32_t)n_far},
        .proof = join_proof_blank(),
    };
    void *frame = control_frame_hello(&hello, &n);
    join_prove(join->token, &join->nonces, frame, n);
    return control_send(session->control, frame, n);
}

static enum status frame_expect(struct session *session, unsigned id, struct control_frame *out)
{
    enum status status = control_receive(session->control, out);
    if (status == STATUS_OK && out->id != id) {
        return status_fail(STATUS_PEER, "the coordinator sent a message '%s' (%u), expected '%s'",
                           message_name(out->id), out->id, message_name(id));
    }
    return status;
}

static enum status challenge_take(struct session *session, struct join *join)
{
    struct control_frame frame;
    struct message_challenge challenge;
    enum status status = frame_expect(session, MESSAGE_ID_challenge, &frame);
    if (status == STATUS_OK) {
        status = message_decode_challenge(frame.body, frame.n_bytes, &challenge);
    }
    if (status == STATUS_OK && challenge.version != MESSAGE_VERSION) {
        return status_fail(
            STATUS_PEER,
            "the coordinator has version %u of the protocol, this worker, of trainerd " TRAINERD_VERSION
            ", version %u: install the coordinator's trainerd on this machine",
            challenge.version, MESSAGE_VERSION);
    }
    join_nonce(join->nonces.worker);
    if (status != STATUS_OK) {
        return status;
    }
    return join_nonce_take(challenge.nonce, join->nonces.coordinator);
}

/* As frame_expect, from a coordinator that has the token. */
static enum status proven_expect(struct session *session, const struct join *join, unsigned id,
                                 struct control_frame *out)
{
    enum status status = frame_expect(session, id, out);
    if (status == STATUS_OK && !join_is_proven(join->token, &join->nonces, id, out->body, out->n_bytes)) {
        return status_fail(STATUS_PEER, "the coordinator's message '%s' does not prove that it has this job's token",
                           message_name(id));
    }
    return status;
}

static enum status peer_connect(struct session *session, const struct join *join, uint32_t peer,
                                const struct message_span *at, const struct message_span *address)
{
    enum status status = transport_connect(session->transport, peer, address->at, address->n_bytes);
    if (status != STATUS_OK) {
        char who[24] = "the coordinator", where[ROUTE_TEXT_BYTES];
        if (peer < session->n_rank) {
            snprintf(who, sizeof who, "worker %u", peer);
        }
        snprintf(where, sizeof where, "%.*s", (int)(at->n_bytes < 90 ? at->n_bytes : 90), (const char *)at->at);
        return route_fail(status, who, where, join->at);
    }
    return STATUS_OK;
}

/* From now on messages are sealed, where the coordinator says so. */
static enum status seal_start(struct session *session, const struct join *join, const struct message_welcome *welcome)
{
    struct seal_secret secret = {.token = join->token, .attempt = welcome->attempt};
    if (welcome->cipher >= SEAL_N || (welcome->cipher != SEAL_NONE && (seal_ciphers() >> welcome->cipher & 1) == 0) ||
        welcome->session.n_bytes != SEAL_SESSION_BYTES || welcome->near.n_bytes != welcome->n_rank + 1) {
        return status_fail(STATUS_PEER,
                           "the coordinator wants cipher %u, with a session number of %u bytes and a list of %u "
                           "machines, expected one of this worker's, %d and %u",
                           welcome->cipher, welcome->session.n_bytes, welcome->near.n_bytes, SEAL_SESSION_BYTES,
                           welcome->n_rank + 1);
    }
    if (welcome->cipher == SEAL_NONE) {
        return STATUS_OK;
    }
    secret.cipher = (enum seal_cipher)welcome->cipher;
    memcpy(secret.session, welcome->session.at, SEAL_SESSION_BYTES);
    control_use_seal(session->control, &secret, welcome->rank);
    return transport_seal(session->transport, &secret, welcome->near.at);
}

/* Say who this is, and wait to be welcomed. */
static enum status greet(struct session *session, const struct session_setup *setup, struct join *join, bool says,
                         struct control_frame *out)
{
    enum status status = challenge_take(session, join);
    if (status == STATUS_OK) {
        status = hello_send(session, setup, join);
    }
    if (status == STATUS_OK && says) {
        session_say(session, "connected to %s, waiting until the job's other workers are, too", setup->join);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return proven_expect(session, join, MESSAGE_ID_welcome, out);
}

/* A coordinator that many connect to closes connections that have proved nothing yet, the oldest first, without a
 * word. This one may be among them: try again, as long as something listens there. */
static enum status welcome_await(struct session *session, const struct session_setup *setup, struct join *join,
                                 struct control_frame *out)
{
    const int64_t by = clock_ns() + AGAIN_MOST_NS;
    enum status status = greet(session, setup, join, true, out);
    while (status != STATUS_OK && control_is_cut(session->control) && clock_ns() < by) {
        struct control *next;
        char reason[256];
        snprintf(reason, sizeof reason, "%s", status_reason());
        if (control_open(setup->join, 0, false, &next) != STATUS_OK) {
            return status_fail(status, "%s", reason); /* it is gone, which is why it closed */
        }
        control_close(session->control);
        session->control = next;
        status = greet(session, setup, join, false, out);
    }
    return status;
}

static enum status welcome_take(struct session *session, const struct session_setup *setup, struct join *join)
{
    struct control_frame frame;
    struct message_welcome welcome;
    enum status status = welcome_await(session, setup, join, &frame);
    if (status == STATUS_OK) {
        status = message_decode_welcome(frame.body, frame.n_bytes, &welcome);
    }
    if (status == STATUS_OK) {
        status = job_load_text(welcome.job.at, welcome.job.n_bytes, "the coordinator's job", NULL, 0, &session->job);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (welcome.n_rank != session->job.workers.count || welcome.rank >= welcome.n_rank) {
        return status_fail(STATUS_PEER, "the coordinator makes this worker %u of %u, expected one of %lld",
                           welcome.rank, welcome.n_rank, (long long)session->job.workers.count);
    }
    char what[64];
    snprintf(what, sizeof what, "a worker of %u", welcome.n_rank);
    bool is_local = session->job.workers.launcher == JOB_LAUNCHER_LOCAL;
    status = is_local ? STATUS_OK : file_room(FILES_OWN + FILES_EACH * (int64_t)welcome.n_rank, what);
    if (status != STATUS_OK) {
        return status;
    }
    transport_identify(session->transport, welcome.rank, welcome.n_rank + 1, welcome.attempt);
    status = seal_start(session, join, &welcome);
    if (status != STATUS_OK) {
        return status;
    }
    char who[24];
    snprintf(who, sizeof who, "worker%u", welcome.rank);
    status = fault_arm(who, welcome.attempt);
    if (status != STATUS_OK) {
        return status;
    }
    FAULT(WIRE_UP);
    session->rank = welcome.rank;
    session->n_rank = welcome.n_rank;
    session->n_thread = welcome.n_thread;
    status = session->job.memory.spill[0] != '\0' ? spill_open(session->job.memory.spill, &session->spill)
                                                  : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    if (session->spill != NULL) {
        spill_limit(session->spill, 0); /* one part after another, until there is a plan */
    }
    return peer_connect(session, join, session->n_rank, &welcome.at, &welcome.address);
}

static enum status peers_take(struct session *session, const struct join *join)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i + 1 < session->n_rank; i++) {
        struct control_frame frame;
        struct message_peer peer;
        status = proven_expect(session, join, MESSAGE_ID_peer, &frame);
        if (status == STATUS_OK) {
            status = message_decode_peer(frame.body, frame.n_bytes, &peer);
        }
        if (status == STATUS_OK) {
            status = peer_connect(session, join, peer.rank, &peer.at, &peer.address);
        }
    }
    return status;
}

enum status session_join(struct session *session, const struct session_setup *setup)
{
    const struct transport_events events = {session, session_place, session_arrived};
    struct join join = {.token = setup->token};
    clock_boot_id(join.boot);
    neighbour_self(join.namespaces);
    enum status status = file_room(FILES_OWN, "a worker");
    if (status == STATUS_OK) {
        status = control_open(setup->join, setup->join_timeout_s, setup->talks, &session->control);
    }
    if (status == STATUS_OK) {
        struct route route;
        char devices[ROUTE_DEVICES_BYTES];
        control_route(session->control, &route);
        route_print(&route, join.at);
        route_devices(&route, 1, devices);
        status = transport_open(0, 0, 0, N_SEND, devices, &events, &session->transport);
    }
    if (status == STATUS_OK && (status = welcome_take(session, setup, &join)) == STATUS_OK) {
        status = peers_take(session, &join);
    }
    if (status == STATUS_OK) {
        status = control_watch(session->control, session->job.workers.heartbeat_timeout, setup->signals);
    }
    if (status != STATUS_OK) {
        return status;
    }
    log_init("trainer-worker", (int)session->rank, log_level());
    char name[JOB_TEXT_BYTES];
    printable_copy(session->job.job.name, name, sizeof name);
    session_say(session, "worker %u of %u of job '%.200s', with %u thread%s", session->rank, session->n_rank, name,
                session->n_thread, session->n_thread == 1 ? "" : "s");
    struct message_connected connected = {.rank = session->rank};
    size_t n;
    void *frame = control_frame_connected(&connected, &n);
    return control_send(session->control, frame, n);
}
