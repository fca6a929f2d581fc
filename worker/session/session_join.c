/* Wire-up: the control socket proves who we are, then addresses of the transport are swapped over it. */
#include "protocol/fault.h"
#include "protocol/log.h"
#include "protocol/memory.h"
#include "worker/session/session_state.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sends under way at once; more wait for their turn inside transport_send. */
#define N_SEND 256

static enum status hello_send(struct session *session, const struct session_setup *setup)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    cpu_set_t cores;
    size_t n_address, n;
    const void *address = transport_address(session->transport, &n_address);
    struct message_hello hello = {
        .version = MESSAGE_VERSION,
        .token = message_text(setup->token),
        .host = message_text(setup->host != NULL ? setup->host : host),
        .pid = (uint32_t)getpid(),
        .rank = setup->rank,
        .n_core = sched_getaffinity(0, sizeof cores, &cores) == 0 ? (uint32_t)CPU_COUNT(&cores) : 1,
        .address = {address, (uint32_t)n_address},
    };
    void *frame = control_frame_hello(&hello, &n);
    return link_send(session->link, frame, n);
}

static enum status frame_expect(struct session *session, unsigned id, struct control_frame *out)
{
    enum status status = link_receive(session->link, out);
    if (status == STATUS_OK && out->id != id) {
        return status_fail(STATUS_PEER, "the coordinator sent a message '%s' (%u), expected '%s'", message_name(out->id),
                           out->id, message_name(id));
    }
    return status;
}

static enum status welcome_take(struct session *session)
{
    struct control_frame frame;
    struct message_welcome welcome;
    enum status status = frame_expect(session, MESSAGE_ID_welcome, &frame);
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
        return status_fail(STATUS_PEER, "the coordinator makes this worker %u of %u, expected one of %lld", welcome.rank,
                           welcome.n_rank, (long long)session->job.workers.count);
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
    status = session->job.memory.spill[0] != '\0' ? spill_open(session->job.memory.spill, &session->spill) : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    if (session->spill != NULL) {
        spill_limit(session->spill, 0); /* one part after another, until there is a plan */
    }
    transport_identify(session->transport, session->rank, session->n_rank + 1, welcome.attempt);
    return transport_connect(session->transport, session->n_rank, welcome.address.at, welcome.address.n_bytes);
}

static enum status peers_take(struct session *session)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i + 1 < session->n_rank; i++) {
        struct control_frame frame;
        struct message_peer peer;
        status = frame_expect(session, MESSAGE_ID_peer, &frame);
        if (status == STATUS_OK) {
            status = message_decode_peer(frame.body, frame.n_bytes, &peer);
        }
        if (status == STATUS_OK) {
            status = transport_connect(session->transport, peer.rank, peer.address.at, peer.address.n_bytes);
        }
    }
    return status;
}

enum status session_join(struct session *session, const struct session_setup *setup)
{
    const struct transport_events events = {session, session_place, session_arrived};
    enum status status = transport_open(0, 0, 0, N_SEND, &events, &session->transport);
    if (status == STATUS_OK) {
        status = link_open(setup->join, setup->join_timeout_s, setup->talks, &session->link);
    }
    if (status == STATUS_OK) {
        status = hello_send(session, setup);
    }
    if (status == STATUS_OK) {
        status = welcome_take(session);
    }
    if (status == STATUS_OK) {
        status = peers_take(session);
    }
    if (status == STATUS_OK) {
        status = link_watch(session->link, session->job.workers.heartbeat_timeout, setup->signals);
    }
    if (status != STATUS_OK) {
        return status;
    }
    log_init("trainer-worker", (int)session->rank, log_level());
    struct message_connected connected = {.rank = session->rank};
    size_t n;
    void *frame = control_frame_connected(&connected, &n);
    return link_send(session->link, frame, n);
}
