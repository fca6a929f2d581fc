#include "worker/exchange/control.h"

#include "protocol/base/clock.h"
#include "protocol/base/memory.h"
#include "protocol/transport/address.h"
#include "protocol/wire/control_seal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define RETRY_MS 100
#define LINGER_MS 1000

struct control {
    int socket;
    bool talks;
    bool is_cut;
    struct control_decoder decoder;
    pthread_mutex_t sending; /* the socket's other direction, and numbers of sealed frames */
    struct control_seal seal;
    pthread_t thread;
    bool is_watched;
    int period_ms;
    int signals; /* -1: none are passed on */
    _Atomic uint32_t epoch, step;
};

/* A machine that is not there answers nothing: the kernel alone would try for two minutes. 0 ms: let it. */
static int connect_once(const struct addrinfo *found, int64_t most_ms)
{
    const struct timeval most = {most_ms / 1000, most_ms % 1000 * 1000}, for_ever = {0};
    int error = ECONNREFUSED;
    for (; found != NULL; found = found->ai_next) {
        int file = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (file >= 0 && setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most) == 0 &&
            connect(file, found->ai_addr, found->ai_addrlen) == 0) {
            setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &for_ever, sizeof for_ever);
            return file;
        }
        error = errno == EINPROGRESS ? ETIMEDOUT : errno;
        if (file >= 0) {
            close(file);
        }
    }
    errno = error;
    return -1;
}

static enum status socket_open(const char *join, double join_timeout_s, bool talks, int *out)
{
    struct address where;
    enum status status = address_parse(join, "--join", &where);
    if (status != STATUS_OK) {
        return status;
    }
    const uint64_t by = clock_ms() + (uint64_t)(join_timeout_s * 1000);
    for (;;) {
        struct addrinfo wish = {.ai_socktype = SOCK_STREAM}, *found = NULL;
        int unknown = getaddrinfo(where.host, where.port, &wish, &found);
        uint64_t now = clock_ms(), left_ms = by > now ? by - now : 1;
        *out = unknown == 0 ? connect_once(found, join_timeout_s > 0 ? (int64_t)left_ms : 0) : -1;
        int error = errno;
        if (found != NULL) {
            freeaddrinfo(found);
        }
        if (*out >= 0) {
            return STATUS_OK;
        }
        const char *why = unknown != 0 ? gai_strerror(unknown) : strerror(error);
        if (clock_ms() >= by) {
            return status_fail(STATUS_PEER, "cannot reach the coordinator at %s within %g s: %s", join,
                               join_timeout_s, why);
        }
        if (talks) {
            fprintf(stderr, "trainer-worker: no coordinator answers at %s yet (%s): trying for %g s\n", join, why,
                    join_timeout_s);
            talks = false; /* once */
        }
        poll(NULL, 0, RETRY_MS);
    }
}

/* Until all have joined nothing is said: the kernel asks now and then whether the coordinator's machine is still
 * there. */
static void alive_ask(int file)
{
    int on = 1, idle_s = 4, period_s = 1, n_most = 4;
    setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(file, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(file, IPPROTO_TCP, TCP_KEEPINTVL, &period_s, sizeof period_s);
    setsockopt(file, IPPROTO_TCP, TCP_KEEPCNT, &n_most, sizeof n_most);
}

enum status control_open(const char *join, double join_timeout_s, bool talks, struct control **out)
{
    int file;
    enum status status = socket_open(join, join_timeout_s, talks, &file);
    if (status != STATUS_OK) {
        return status;
    }
    int on = 1;
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    alive_ask(file);
    struct control *control = memory_alloc(1, sizeof *control);
    control->socket = file;
    control->talks = talks;
    control_decoder_init(&control->decoder, MESSAGE_FRAME_MOST_BYTES);
    pthread_mutex_init(&control->sending, NULL);
    *out = control;
    return STATUS_OK;
}

void control_close(struct control *control)
{
    if (control == NULL) {
        return;
    }
    close(control->socket);
    control_decoder_release(&control->decoder);
    control_seal_release(&control->seal);
    pthread_mutex_destroy(&control->sending);
    free(control);
}

/* Send a frame of n bytes, with space for a tag behind it. */
static bool bytes_send(struct control *control, char *bytes, size_t n)
{
    pthread_mutex_lock(&control->sending);
    n = control_seal_frame(&control->seal, bytes, n);
    ssize_t sent = 1;
    while (n > 0 && sent > 0) {
        sent = send(control->socket, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            sent = 1;
            continue;
        }
        bytes += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t)sent : 0;
    }
    pthread_mutex_unlock(&control->sending);
    return n == 0;
}

static enum status frame_send(struct control *control, void *frame, size_t n_bytes)
{
    control->is_cut = !bytes_send(control, frame, n_bytes);
    return control->is_cut ? status_fail(STATUS_PEER, "cannot send to the coordinator: %s", strerror(errno))
                           : STATUS_OK;
}

enum status control_send(struct control *control, void *frame, size_t n_bytes)
{
    frame = memory_grow(frame, n_bytes + SEAL_TAG_BYTES);
    enum status status = frame_send(control, frame, n_bytes);
    free(frame);
    return status;
}

void control_use_seal(struct control *control, const struct seal_secret *secret, uint32_t rank)
{
    control_seal_start(&control->seal, secret, rank, true);
}

/* The next frame that came whole, opened. */
static enum status frame_next(struct control *control, struct control_frame *out, bool *whole_out)
{
    enum status status = control_decoder_next(&control->decoder, out, whole_out);
    return status == STATUS_OK && *whole_out ? control_seal_take(&control->seal, out) : status;
}

/* The status and words of an abort. */
static enum status aborted(const struct control_frame *frame)
{
    struct message_abort abort;
    enum status status = message_decode_abort(frame->body, frame->n_bytes, &abort);
    if (status != STATUS_OK) {
        return status;
    }
    return status_fail(abort.status == STATUS_OK ? STATUS_PEER : (enum status)abort.status,
                       "the coordinator ended the job: %.*s",
                       (int)(abort.reason.n_bytes < 900 ? abort.reason.n_bytes : 900), (const char *)abort.reason.at);
}

/* Take in what is there (waiting for some of it). */
static enum status bytes_receive(struct control *control)
{
    size_t capacity;
    void *buffer = control_decoder_buffer(&control->decoder, &capacity);
    ssize_t n;
    do {
        n = recv(control->socket, buffer, capacity, 0);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        control->is_cut = true;
        return status_fail(STATUS_PEER, "lost the coordinator: %s",
                           n == 0 ? "it closed the connection" : strerror(errno));
    }
    control_decoder_fill(&control->decoder, (size_t)n);
    return STATUS_OK;
}

void control_route(const struct control *control, struct route *out)
{
    route_read(control->socket, out);
}

bool control_is_cut(const struct control *control)
{
    return control->is_cut;
}

enum status control_receive(struct control *control, struct control_frame *out)
{
    for (;;) {
        bool whole;
        enum status status = frame_next(control, out, &whole);
        if (status == STATUS_OK && whole) {
            return out->id == MESSAGE_ID_abort ? aborted(out) : STATUS_OK;
        }
        if (status == STATUS_OK) {
            status = bytes_receive(control);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
}

static _Noreturn void die(const struct control *control, enum status status)
{
    if (control->talks) {
        fprintf(stderr, "trainer-worker: %s\n", status_reason());
    }
    _exit(status_exit_code(status));
}

/* True when the coordinator has said goodbye. */
static bool frames_heed(struct control *control)
{
    struct control_frame frame;
    bool whole = true;
    while (whole) {
        enum status status = frame_next(control, &frame, &whole);
        if (status == STATUS_OK && whole && frame.id == MESSAGE_ID_goodbye) {
            return true;
        }
        if (status == STATUS_OK && whole && frame.id == MESSAGE_ID_abort) {
            status = aborted(&frame);
        }
        if (status != STATUS_OK) {
            die(control, status);
        }
    }
    return false;
}

/* Send a message of n bytes that was encoded behind a frame's head, with space for a tag. In the caller's memory: an
 * epoch allocates nothing, in no thread. */
static void encoded_send(struct control *control, enum status encoded, unsigned id, uint8_t *frame, size_t n)
{
    enum status status = encoded;
    if (status == STATUS_OK) {
        control_head(frame, id, n);
        status = frame_send(control, frame, CONTROL_HEAD_BYTES + n);
    }
    if (status != STATUS_OK) {
        die(control, status);
    }
}

static void beat(struct control *control)
{
    struct message_heartbeat message = {.epoch = atomic_load(&control->epoch), .step = atomic_load(&control->step)};
    uint8_t frame[CONTROL_HEAD_BYTES + 8 + SEAL_TAG_BYTES];
    size_t n;
    enum status status = message_encode_heartbeat(&message, frame + CONTROL_HEAD_BYTES, 8, &n);
    encoded_send(control, status, MESSAGE_ID_heartbeat, frame, n);
}

/* Pass on the signals that have come. */
static void signals_pass(struct control *control)
{
    struct signalfd_siginfo came;
    while (read(control->signals, &came, sizeof came) == (ssize_t)sizeof came) {
        struct message_signalled message = {.signal = came.ssi_signo};
        uint8_t frame[CONTROL_HEAD_BYTES + 4 + SEAL_TAG_BYTES];
        size_t n;
        enum status status = message_encode_signalled(&message, frame + CONTROL_HEAD_BYTES, 4, &n);
        encoded_send(control, status, MESSAGE_ID_signalled, frame, n);
    }
}

static void *watch(void *arg)
{
    struct control *control = arg;
    uint64_t due = clock_ms();
    for (;;) {
        if (frames_heed(control)) {
            return NULL;
        }
        uint64_t now = clock_ms();
        if (now >= due) {
            beat(control);
            due = now + (uint64_t)control->period_ms;
        }
        /* poll passes over a descriptor of -1 */
        struct pollfd events[] = {{.fd = control->socket, .events = POLLIN},
                                  {.fd = control->signals, .events = POLLIN}};
        int n_event = poll(events, 2, (int)(due - now));
        if (n_event > 0 && events[1].revents != 0) {
            signals_pass(control);
        }
        if (n_event > 0 && events[0].revents != 0) {
            enum status status = bytes_receive(control);
            if (status != STATUS_OK) {
                die(control, status);
            }
        }
    }
}

enum status control_watch(struct control *control, double heartbeat_timeout_s, int signals)
{
    control->signals = signals;
    /* A vanished host never closes its connection: the kernel gives up on unanswered heartbeats after this long. */
    unsigned most_ms = (unsigned)(heartbeat_timeout_s * 1000);
    setsockopt(control->socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
    control->period_ms = (int)most_ms / 4;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the main thread */
    int error = pthread_create(&control->thread, NULL, watch, control);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        return status_fail(STATUS_NOMEM, "cannot start the heartbeat thread: %s", strerror(error));
    }
    control->is_watched = true;
    return STATUS_OK;
}

void control_progress(struct control *control, uint32_t epoch, uint32_t step)
{
    atomic_store(&control->epoch, epoch);
    atomic_store(&control->step, step);
}

void control_linger(struct control *control)
{
    if (control->is_watched && control->talks) {
        poll(NULL, 0, LINGER_MS); /* the thread reads, and ends us */
    }
}

void control_part(struct control *control)
{
    if (control->is_watched) {
        pthread_join(control->thread, NULL);
        control->is_watched = false;
    }
}
