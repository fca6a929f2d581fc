/* The control socket: connections, frames, and liveness. An unauthenticated client may send one short frame within a
 * short time; over the limit, the oldest one is evicted, so that such clients cannot keep workers out for long. A
 * worker that is evicted joins again. */
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/transport/address.h"
#include "trainerd/coordinator/fleet/fleet_state.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define UNAUTHENTICATED_MOST 64
#define UNAUTHENTICATED_S 5
#define TEXT(value) #value
#define TEXT_OF(value) TEXT(value)
#define UNAUTHENTICATED_FRAME_BYTES 65536u
#define SUSPECT_MS                                                                                                   \
    500 /* a lost worker or a failed transport is reported after this time, in which a better reason may arrive */
#define BACKLOG 128
#define HOSTS "/etc/hosts"

static void closed_note(struct fleet_client *client, const char *why)
{
    char note[LOG_LIMIT_NOTE_BYTES];
    if (log_limit_passes(&client->fleet->control.refused, clock_ms(), note)) {
        log_warn("closed the control connection from %s: %s%s", client->from, why, note);
    }
}

static void client_lost(struct fleet_client *client, const char *why)
{
    struct fleet_worker *worker = client->worker;
    if (worker != NULL) {
        char sentence[256];
        snprintf(sentence, sizeof sentence, "closed its control connection (%s)", why);
        fleet_suspect(worker, FLEET_SUSPICION_CONNECTION, STATUS_PEER, sentence);
    }
    fleet_client_close(client);
}

/* A worker that lost its peer fails, too, and may report first: a report of a lost peer is only a suspicion. */
static void worker_failed(struct fleet_worker *worker, const struct message_failed *failed)
{
    char reason[480], sentence[500];
    snprintf(reason, sizeof reason, "%.*s", (int)(failed->reason.n_bytes < 470 ? failed->reason.n_bytes : 470),
             (const char *)failed->reason.at);
    enum status status = failed->status == STATUS_OK ? STATUS_BUG : (enum status)failed->status;
    if (status == STATUS_PEER) {
        snprintf(sentence, sizeof sentence, "failed: %s", reason);
        fleet_suspect(worker, FLEET_SUSPICION_REPORT, status, sentence);
    } else {
        fleet_fail(worker->fleet, worker, status, "failed %s: %s", worker->fleet->doing, reason);
    }
}

/* Slurm signals a job's tasks, all of them, not its batch script: workers pass the signal on. */
static enum status worker_signalled(struct fleet_worker *worker, uint32_t number)
{
    struct fleet *fleet = worker->fleet;
    bool ends = number == SIGTERM || number == SIGINT;
    if (!ends && number != SIGUSR1) {
        return status_fail(STATUS_PEER, "it passed on signal %u, expected %d, %d or %d", number, SIGTERM, SIGINT,
                           SIGUSR1);
    }
    if (ends ? !fleet->is_signalled : worker->rank == 0) {
        fleet->is_signalled = fleet->is_signalled || ends;
        raise((int)number);
    }
    return STATUS_OK;
}

static enum status worker_frame(struct fleet_worker *worker, const struct control_frame *frame)
{
    struct message_heartbeat beat;
    struct message_connected connected;
    struct message_failed failed;
    struct message_signalled signalled;
    struct message_goodbye goodbye;
    enum status status;
    worker->last_seen_ms = clock_ms();
    switch (frame->id) {
    case MESSAGE_ID_heartbeat:
        return message_decode_heartbeat(frame->body, frame->n_bytes, &beat);
    case MESSAGE_ID_connected:
        status = message_decode_connected(frame->body, frame->n_bytes, &connected);
        worker->is_connected = worker->is_connected || status == STATUS_OK;
        return status;
    case MESSAGE_ID_failed:
        status = message_decode_failed(frame->body, frame->n_bytes, &failed);
        if (status == STATUS_OK) {
            worker_failed(worker, &failed);
        }
        return status;
    case MESSAGE_ID_signalled:
        status = message_decode_signalled(frame->body, frame->n_bytes, &signalled);
        if (status != STATUS_OK) {
            return status;
        }
        return worker_signalled(worker, signalled.signal);
    case MESSAGE_ID_goodbye:
        return message_decode_goodbye(frame->body, frame->n_bytes, &goodbye);
    default:
        return status_fail(STATUS_PEER, "it sent a message '%s' (%u) that workers do not send",
                           message_name(frame->id), frame->id);
    }
}

static void client_buffer(uv_handle_t *handle, size_t wish, uv_buf_t *out)
{
    struct fleet_client *client = handle->data;
    (void)wish;
    out->base = control_decoder_buffer(&client->decoder, &out->len);
}

static void client_received(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct fleet_client *client = stream->data;
    (void)buffer;
    if (n < 0) {
        client_lost(client, n == UV_EOF ? "end of file" : uv_strerror((int)n));
        return;
    }
    control_decoder_fill(&client->decoder, (size_t)n);
    bool whole = true;
    while (whole) {
        struct control_frame frame;
        enum status status = control_decoder_next(&client->decoder, &frame, &whole);
        if (status == STATUS_OK && whole && client->worker == NULL) {
            fleet_hello(client, &frame);
            if (client->worker == NULL) {
                fleet_client_close(client);
                return;
            }
            client->decoder.n_most = MESSAGE_FRAME_MOST_BYTES;
        } else if (status == STATUS_OK && whole) {
            status = control_seal_take(&client->seal, &frame);
            if (status == STATUS_OK) {
                status = worker_frame(client->worker, &frame);
            }
        }
        if (status != STATUS_OK) {
            closed_note(client, status_reason());
            client_lost(client, status_reason());
            return;
        }
    }
}

static void address_print(const struct sockaddr_storage *address, char *out, size_t capacity)
{
    char host[64] = "?", port[8] = "?";
    getnameinfo((const struct sockaddr *)address, sizeof *address, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, capacity, address->ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

/* The address that workers connect to: the host's name instead of "any address". */
static void join_print(const struct sockaddr_storage *address, char *out, size_t capacity)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    char host[HOST_NAME_MAX + 1] = "";
    address_print(address, out, capacity);
    if (address->ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)
                                       : v4->sin_addr.s_addr == INADDR_ANY) {
        gethostname(host, sizeof host - 1);
        snprintf(out, capacity, "%s:%u", host, ntohs(address->ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port));
    }
}

static void client_options(struct fleet_client *client)
{
    struct sockaddr_storage address = {0};
    int n_address = sizeof address;
    uv_tcp_getpeername(&client->tcp, (struct sockaddr *)&address, &n_address);
    address_print(&address, client->from, sizeof client->from);
    uv_tcp_nodelay(&client->tcp, 1);
    uv_os_fd_t file;
    unsigned most_ms = (unsigned)(client->fleet->job->workers.heartbeat_timeout * 1000);
    if (uv_fileno((uv_handle_t *)&client->tcp, &file) == 0) {
        setsockopt(file, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
        /* A worker that waits for others sends no heartbeats: the kernel probes its machine every second. */
        int on = 1, period_s = 1;
        setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        setsockopt(file, IPPROTO_TCP, TCP_KEEPIDLE, &period_s, sizeof period_s);
        setsockopt(file, IPPROTO_TCP, TCP_KEEPINTVL, &period_s, sizeof period_s);
    }
}

/* Over the limit: evict the oldest unauthenticated client, the first of the list. */
static void unauthenticated_limit(struct fleet *fleet)
{
    struct fleet_client *oldest = NULL;
    int n = 0;
    for (struct fleet_client *client = fleet->control.clients; client != NULL; client = client->next) {
        if (client->worker == NULL) {
            oldest = oldest == NULL ? client : oldest;
            n++;
        }
    }
    if (n >= UNAUTHENTICATED_MOST) {
        fleet_client_close(oldest);
    }
}

static void client_connects(uv_stream_t *listener, int error)
{
    struct fleet *fleet = listener->data;
    if (error != 0) {
        log_warn("cannot accept a control connection: %s", uv_strerror(error));
        return;
    }
    unauthenticated_limit(fleet);
    struct fleet_client *client = memory_alloc(1, sizeof *client);
    client->fleet = fleet;
    client->since_ms = clock_ms();
    control_decoder_init(&client->decoder, UNAUTHENTICATED_FRAME_BYTES);
    uv_tcp_init(&fleet->loop, &client->tcp);
    client->tcp.data = client;
    struct fleet_client **last = &fleet->control.clients;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = client;
    if (uv_accept(listener, (uv_stream_t *)&client->tcp) != 0 ||
        uv_read_start((uv_stream_t *)&client->tcp, client_buffer, client_received) != 0) {
        fleet_client_close(client);
        return;
    }
    client_options(client);
    fleet_challenge(client);
}

/* Once a suspicion is SUSPECT_MS old: the worker to report. A worker that reported a lost peer is not the cause, so
 * one that ended without a report comes first; then the one that was suspected first. */
static struct fleet_worker *culprit(struct fleet *fleet, uint64_t now)
{
    struct fleet_worker *best = NULL;
    bool is_due = false;
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        struct fleet_worker *worker = &fleet->workers[rank];
        if (worker->suspect.suspicion == FLEET_SUSPICION_NONE) {
            continue;
        }
        bool has_report = worker->suspect.suspicion == FLEET_SUSPICION_REPORT;
        bool best_has_report = best != NULL && best->suspect.suspicion == FLEET_SUSPICION_REPORT;
        is_due = is_due || now - worker->suspect.since_ms > SUSPECT_MS;
        if (best == NULL || has_report < best_has_report ||
            (has_report == best_has_report && worker->suspect.since_ms < best->suspect.since_ms)) {
            best = worker;
        }
    }
    return is_due ? best : NULL;
}

/* Report what is overdue: unauthenticated clients, suspicions, silent workers, workers that have not joined. */
void fleet_tick(uv_timer_t *tick)
{
    struct fleet *fleet = tick->data;
    const uint64_t now = clock_ms();
    const uint64_t silence_ms = (uint64_t)(fleet->job->workers.heartbeat_timeout * 1000);
    for (struct fleet_client *client = fleet->control.clients, *next; client != NULL; client = next) {
        next = client->next;
        if (client->worker == NULL && now - client->since_ms > UNAUTHENTICATED_S * 1000) {
            closed_note(client, "no hello within " TEXT_OF(UNAUTHENTICATED_S) " s");
            fleet_client_close(client);
        }
    }
    const struct fleet_worker *lost = culprit(fleet, now);
    if (lost != NULL) {
        const char *words = lost->child.words;
        fleet_fail(fleet, lost, lost->suspect.status, "%s %s%s%s", lost->suspect.sentence, fleet->doing,
                   words[0] != '\0' ? ": " : "", words);
    }
    if (fleet->failure.transport_ms > 0 && now - fleet->failure.transport_ms > SUSPECT_MS) {
        fleet_fail(fleet, NULL, STATUS_PEER, "%s %s", fleet->failure.transport, fleet->doing);
    }
    if (fleet->step.ended_ms > 0 && now - fleet->step.ended_ms > SUSPECT_MS) {
        fleet_fail(fleet, NULL, STATUS_PEER, "%s %s", fleet->step.sentence, fleet->doing);
    }
    uint32_t n_joined = 0;
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        struct fleet_worker *worker = &fleet->workers[rank];
        n_joined += worker->has_joined;
        /* Nothing is received between two calls: silence counts from the later of its last message and the call. */
        uint64_t since = worker->last_seen_ms > fleet->entered_ms ? worker->last_seen_ms : fleet->entered_ms;
        if (fleet->is_welcomed && worker->suspect.suspicion == FLEET_SUSPICION_NONE && now - since > silence_ms) {
            fleet_fail(fleet, worker, STATUS_PEER,
                       "was silent for %.1f s %s, more than workers.heartbeat_timeout allows",
                       (double)(now - since) / 1000, fleet->doing);
        }
    }
    if (n_joined < fleet->n_worker && now > fleet->control.join_by_ms) {
        fleet_fail(fleet, NULL, STATUS_PEER, "%u of %u workers joined within %g s (workers.join_timeout)", n_joined,
                   fleet->n_worker, fleet->job->workers.join_timeout);
    }
}

/* The line of /etc/hosts that has a name, from 1; 0: none has. */
static int hosts_line(const char *name)
{
    char line[1024];
    int number = 0, found = 0;
    FILE *file = fopen(HOSTS, "re");
    while (file != NULL && found == 0 && fgets(line, sizeof line, file) != NULL) {
        char *rest = NULL, *word = strtok_r(line, " \t\n", &rest);
        number++;
        while (word != NULL && word[0] != '#' && found == 0) {
            found = strcasecmp(word, name) == 0 ? number : 0;
            word = strtok_r(NULL, " \t\n", &rest);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

/* Debian gives a machine's own name the address 127.0.1.1, which is another machine's own as well. */
static void loopback_warn(const struct address *where, const struct sockaddr *found)
{
    char address[64], line[64] = "as this machine's resolver says";
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)found;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)found;
    bool is_v6 = found->sa_family == AF_INET6;
    bool is_loopback = is_v6 ? IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)
                             : ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    inet_ntop(found->sa_family, is_v6 ? (const void *)&v6->sin6_addr : &v4->sin_addr, address, sizeof address);
    if (!is_loopback || strcmp(where->host, address) == 0 || strcmp(where->host, "localhost") == 0) {
        return;
    }
    int number = hosts_line(where->host);
    if (number > 0) {
        snprintf(line, sizeof line, "by line %d of " HOSTS, number);
    }
    log_warn("workers.listen: '%s' is %s here, %s: workers of other machines cannot join there; give the address by "
             "which they reach this machine, or correct that line",
             where->host, address, line);
}

static enum status listener_bind(struct fleet *fleet, const struct address *where)
{
    struct addrinfo wish = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    int error = getaddrinfo(where->host, where->port, &wish, &found);
    if (error != 0) {
        return status_fail(STATUS_CONFIG, "workers.listen: cannot find '%s': %s", where->host, gai_strerror(error));
    }
    loopback_warn(where, found->ai_addr);
    error = uv_tcp_bind(&fleet->control.listener, found->ai_addr, 0);
    freeaddrinfo(found);
    if (error == 0) {
        error = uv_listen((uv_stream_t *)&fleet->control.listener, BACKLOG, client_connects);
    }
    return error == 0 ? STATUS_OK
                      : status_fail(STATUS_PEER, "cannot listen on %s port %s: %s", where->host, where->port,
                                    uv_strerror(error));
}

enum status fleet_listen(struct fleet *fleet)
{
    const struct job_workers *how = &fleet->job->workers;
    struct address where = {.port = "0"};
    bool is_near = how->launcher == JOB_LAUNCHER_LOCAL || how->launcher == JOB_LAUNCHER_MANUAL;
    snprintf(where.host, sizeof where.host, "%s", is_near ? "127.0.0.1" : "0.0.0.0");
    enum status status = STATUS_OK;
    if (how->launcher != JOB_LAUNCHER_LOCAL && how->listen[0] != '\0') {
        status = address_parse(how->listen, "workers.listen", &where);
    }
    if (status != STATUS_OK) {
        return status;
    }
    uv_tcp_init(&fleet->loop, &fleet->control.listener);
    fleet->control.listener.data = fleet;
    fleet->control.is_listening = true;
    status = listener_bind(fleet, &where);
    if (status != STATUS_OK) {
        return status;
    }
    struct sockaddr_storage address = {0};
    int n_address = sizeof address;
    uv_tcp_getsockname(&fleet->control.listener, (struct sockaddr *)&address, &n_address);
    join_print(&address, fleet->control.join, sizeof fleet->control.join);
    return STATUS_OK;
}

void fleet_unlisten(struct fleet *fleet)
{
    if (fleet->control.is_listening) {
        uv_close((uv_handle_t *)&fleet->control.listener, NULL);
        fleet->control.is_listening = false;
    }
    for (struct fleet_client *client = fleet->control.clients, *next; client != NULL; client = next) {
        next = client->next;
        if (client->worker == NULL) {
            fleet_client_close(client);
        }
    }
}
