/* How a client becomes a worker: proof of the token, version, rank, and the addresses of all workers. */
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/version.h"
#include "trainerd/coordinator/fleet/fleet_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For status_reason. */
static void refuse(struct fleet_client *client)
{
    const char *why = status_reason();
    struct message_abort abort = {.status = STATUS_PEER, .reason = message_text(why)};
    size_t n;
    void *frame = control_frame_abort(&abort, &n);
    fleet_client_send(client, frame, n);
    char note[LOG_LIMIT_NOTE_BYTES];
    if (log_limit_passes(&client->fleet->control.refused, clock_ms(), note)) {
        log_warn("refused %s: %s%s", client->from, why, note);
    }
}

/* The rank that it asks for; else, started here, the child with that pid; started by hand, the first free rank. NULL:
 * there is none, for status_reason. */
static struct fleet_worker *rank_find(struct fleet *fleet, uint32_t wish, uint32_t pid)
{
    if (wish != MESSAGE_NO_RANK) {
        struct fleet_worker *worker = wish < fleet->n_worker ? &fleet->workers[wish] : NULL;
        if (worker != NULL && !worker->has_joined && !worker->child.was_started) {
            return worker;
        }
        status_fail(STATUS_PEER, "it asks for rank %u of %u, which is taken, or not one of them", wish,
                    fleet->n_worker);
        return NULL;
    }
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        struct fleet_worker *worker = &fleet->workers[rank];
        if (!worker->has_joined && (!worker->child.was_started || worker->pid == pid)) {
            return worker;
        }
    }
    status_fail(STATUS_PEER, "all workers of the job have joined");
    return NULL;
}

static enum status address_check(const struct message_span *address)
{
    return address->n_bytes > 0 && address->n_bytes <= MESSAGE_ADDRESS_MOST_BYTES
               ? STATUS_OK
               : status_fail(STATUS_PEER, "its address has %u bytes, expected 1 to %u", address->n_bytes,
                             MESSAGE_ADDRESS_MOST_BYTES);
}

static enum status hello_read(struct fleet_client *client, const struct control_frame *frame,
                              struct message_hello *out)
{
    if (frame->id == MESSAGE_HELLO_1 || frame->id == MESSAGE_HELLO_2 || frame->id == MESSAGE_HELLO_3 ||
        frame->id == MESSAGE_HELLO_4 || frame->id == MESSAGE_HELLO_5) {
        return status_fail(
            STATUS_PEER,
            "the worker is of an older version of trainerd than its coordinator: install trainerd " TRAINERD_VERSION
            " on its machine");
    }
    if (frame->id != MESSAGE_ID_hello) {
        return status_fail(STATUS_PEER, "the first message is not a hello");
    }
    enum status status = message_decode_hello(frame->body, frame->n_bytes, out);
    if (status != STATUS_OK) {
        return status;
    }
    if (out->version != MESSAGE_VERSION) {
        return status_fail(STATUS_PEER,
                           "the worker has version %u of the protocol, its coordinator %u: install the coordinator's "
                           "trainerd, " TRAINERD_VERSION ", on the worker's machine",
                           out->version, MESSAGE_VERSION);
    }
    status = join_nonce_take(out->nonce, client->nonces.worker);
    if (status == STATUS_OK &&
        !join_is_proven(client->fleet->control.token, &client->nonces, frame->id, frame->body, frame->n_bytes)) {
        status = status_fail(STATUS_PEER, "the token is not this job's");
    }
    if (status != STATUS_OK || (status = address_check(&out->address)) != STATUS_OK) {
        return status;
    }
    return address_check(&out->far_address);
}

void fleet_challenge(struct fleet_client *client)
{
    size_t n;
    join_nonce(client->nonces.coordinator);
    const struct message_challenge challenge = {.version = MESSAGE_VERSION,
                                                .nonce = {client->nonces.coordinator, JOIN_NONCE_BYTES}};
    void *frame = control_frame_challenge(&challenge, &n);
    fleet_client_send(client, frame, n);
}

static void text_take(char out[64], const struct message_span *text)
{
    snprintf(out, 64, "%.*s", (int)(text->n_bytes < 63 ? text->n_bytes : 63), (const char *)text->at);
}

static struct fleet_address address_take(const struct message_span *address)
{
    struct fleet_address copy = {memory_alloc(address->n_bytes, 1), address->n_bytes};
    memcpy(copy.bytes, address->at, copy.n);
    return copy;
}

/* Where a worker is, and the way by which it came. */
static void place_take(struct fleet_worker *worker, const struct message_hello *hello)
{
    uv_os_fd_t file;
    text_take(worker->host, &hello->host);
    text_take(worker->machine, &hello->machine);
    text_take(worker->namespaces, &hello->namespaces);
    text_take(worker->at, &hello->at);
    worker->address = address_take(&hello->address);
    worker->far_address = address_take(&hello->far_address);
    if (uv_fileno((uv_handle_t *)&worker->client->tcp, &file) == 0) {
        route_read(file, &worker->route);
    }
}

void fleet_hello(struct fleet_client *client, const struct control_frame *frame)
{
    struct message_hello hello;
    struct fleet_worker *worker = NULL;
    if (hello_read(client, frame, &hello) == STATUS_OK) {
        worker = rank_find(client->fleet, hello.rank, hello.pid);
    }
    if (worker == NULL) {
        refuse(client);
        return;
    }
    client->worker = worker;
    worker->client = client;
    worker->has_joined = true;
    worker->pid = hello.pid;
    worker->n_core = hello.n_core;
    worker->ciphers = hello.ciphers;
    worker->last_seen_ms = clock_ms();
    place_take(worker, &hello);
    if (!worker->child.was_started) {
        fprintf(stderr, "worker %u joined: pid %u on %s, %u cores\n", worker->rank, worker->pid, worker->host,
                worker->n_core);
    }
}

static uint32_t n_on_host(const struct fleet *fleet, const char *host)
{
    uint32_t n = 0;
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        n += strcmp(fleet->workers[rank].host, host) == 0;
    }
    return n;
}

/* The coordinator's own place, as a worker names its own. */
static void place_own(struct fleet_worker *out)
{
    neighbour_self(out->namespaces);
    gethostname(out->host, sizeof out->host - 1);
    clock_boot_id(out->machine);
}

static bool is_near(const struct fleet_worker *one, const struct fleet_worker *other)
{
    return strcmp(one->host, other->host) == 0 && strcmp(one->machine, other->machine) == 0;
}

/* Which of all peers, workers and the coordinator, may see bodies of this one's as they are. */
static void near_find(const struct fleet *fleet, const struct fleet_worker *worker, uint8_t *near)
{
    for (uint32_t peer = 0; peer <= fleet->n_worker; peer++) {
        near[peer] = fleet->job->workers.encryption != JOB_ENCRYPTION_ON && is_near(worker, &fleet->workers[peer]);
    }
}

/* May they share memory? */
static bool shares_memory(const struct fleet_worker *one, const struct fleet_worker *other)
{
    return strcmp(one->machine, other->machine) == 0 && strcmp(one->namespaces, other->namespaces) == 0;
}

/* The address of a worker for another process. */
static const struct fleet_address *address_for(const struct fleet_worker *worker, const struct fleet_worker *other)
{
    return shares_memory(worker, other) ? &worker->address : &worker->far_address;
}

bool fleet_apart(const struct fleet *fleet, uint32_t *one_out, uint32_t *other_out)
{
    for (uint32_t i = 0; i < fleet->n_worker; i++) {
        for (uint32_t k = i + 1; k <= fleet->n_worker; k++) {
            const struct fleet_worker *one = &fleet->workers[i], *other = &fleet->workers[k];
            if (strcmp(one->machine, other->machine) == 0 && !shares_memory(one, other)) {
                *one_out = i;
                *other_out = k;
                return true;
            }
        }
    }
    return false;
}

/* Choose the cipher that all processors have, or none where nothing is to be sealed. */
static enum status cipher_choose(struct fleet *fleet)
{
    uint8_t *near = memory_alloc(fleet->n_worker + 1, 1);
    near_find(fleet, &fleet->workers[fleet->n_worker], near);
    bool is_apart = memchr(near, 0, fleet->n_worker) != NULL && fleet->job->workers.launcher != JOB_LAUNCHER_LOCAL;
    uint32_t ciphers = seal_ciphers();
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        ciphers &= fleet->workers[rank].ciphers;
    }
    fleet->secret = (struct seal_secret){.token = fleet->control.token, .attempt = fleet->attempt};
    seal_session_draw(fleet->secret.session);
    enum status status = STATUS_OK;
    if (fleet->job->workers.encryption == JOB_ENCRYPTION_ON ||
        (fleet->job->workers.encryption == JOB_ENCRYPTION_AUTO && is_apart)) {
        fleet->secret.cipher = seal_cipher_choose(ciphers);
        status = fleet->secret.cipher == SEAL_NONE
                     ? status_fail(
                           STATUS_PEER,
                           "the workers have no cipher in common, expected the coordinator's version of trainerd")
                     : transport_seal(fleet->transport, &fleet->secret, near);
    }
    free(near);
    return status;
}

static void welcome_send(struct fleet *fleet, struct fleet_worker *worker, const char *job)
{
    char at[ROUTE_TEXT_BYTES];
    size_t n_address, n;
    route_print(&worker->route, at);
    const void *address = shares_memory(&fleet->workers[fleet->n_worker], worker)
                              ? transport_address(fleet->transport, &n_address)
                              : transport_far_address(fleet->transport, &n_address);
    uint8_t *near = memory_alloc(fleet->n_worker + 1, 1);
    near_find(fleet, worker, near);
    struct message_welcome welcome = {
        .attempt = fleet->attempt,
        .rank = worker->rank,
        .n_rank = fleet->n_worker,
        .job = message_text(job),
        .n_thread = fleet_n_thread(fleet->job, worker->n_core, n_on_host(fleet, worker->host)),
        .cipher = fleet->secret.cipher,
        .session = {fleet->secret.session, SEAL_SESSION_BYTES},
        .near = {near, fleet->n_worker + 1},
        .at = message_text(at),
        .address = {address, (uint32_t)n_address},
        .proof = join_proof_blank(),
    };
    void *frame = control_frame_welcome(&welcome, &n);
    free(near);
    join_prove(fleet->control.token, &worker->client->nonces, frame, n);
    fleet_client_send(worker->client, frame, n);
    if (fleet->secret.cipher != SEAL_NONE) {
        control_seal_start(&worker->client->seal, &fleet->secret, worker->rank, false);
    }
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        if (rank != worker->rank) {
            struct fleet_worker *other = &fleet->workers[rank];
            const struct fleet_address *to = address_for(other, worker);
            struct message_peer peer = {.rank = rank,
                                        .at = message_text(other->at),
                                        .address = {to->bytes, (uint32_t)to->n},
                                        .proof = join_proof_blank()};
            frame = control_frame_peer(&peer, &n);
            join_prove(fleet->control.token, &worker->client->nonces, frame, n);
            fleet_client_send(worker->client, frame, n);
        }
    }
}

enum status fleet_welcome(struct fleet *fleet)
{
    struct fleet_worker *own = &fleet->workers[fleet->n_worker];
    place_own(own);
    enum status chosen = cipher_choose(fleet);
    if (chosen != STATUS_OK) {
        return chosen;
    }
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        struct fleet_worker *worker = &fleet->workers[rank];
        const struct fleet_address *to = address_for(worker, own);
        if (transport_connect(fleet->transport, rank, to->bytes, to->n) != STATUS_OK) {
            char who[96], at[ROUTE_TEXT_BYTES];
            snprintf(who, sizeof who, "worker %u on %s", rank, worker->host);
            route_print(&worker->route, at);
            route_fail(STATUS_PEER, who, worker->at, at);
            fleet_transport_failed(fleet); /* it may have died since it joined, which is soon seen and says more */
            return STATUS_OK;
        }
    }
    char *job = job_print(fleet->job);
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        struct fleet_worker *worker = &fleet->workers[rank];
        if (worker->client != NULL) { /* NULL: it disconnected, and is a suspect */
            welcome_send(fleet, worker, job);
        }
    }
    free(job);
    return STATUS_OK;
}
