#include "trainerd/socket/tls.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/socket/tls_identity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3"
#define HANDSHAKE_MOST_BYTES 16384 /* of one message; a client sends less than one, a daemon's certificate has less */
#define SHAKE_MOST_BYTES 131072    /* of all: the library waits for the rest of a message that says it is longer */

/* Bytes that wait: [from … to) of capacity. */
struct pile {
    char *bytes;
    size_t from, to, capacity;
};

struct tls {
    gnutls_session_t session;
    gnutls_certificate_credentials_t none; /* the client's: it has no certificate */
    const struct tls_identity *identity;   /* NULL: the client's end */
    struct pile in, out;
    size_t n_fed; /* bytes that came before the handshake was complete */
    bool is_open, has_ended;
    char fingerprint[TLS_FINGERPRINT_BYTES];
};

static void pile_add(struct pile *pile, const void *bytes, size_t n)
{
    size_t n_there = pile->to - pile->from;
    if (pile->to + n > pile->capacity) {
        size_t capacity = 2 * (n_there + n);
        char *larger = memory_alloc(capacity, 1);
        if (n_there > 0) {
            memcpy(larger, pile->bytes + pile->from, n_there);
        }
        free(pile->bytes);
        *pile = (struct pile){larger, 0, n_there, capacity};
    }
    if (n > 0) {
        memcpy(pile->bytes + pile->to, bytes, n);
        pile->to += n;
    }
}

static void pile_empty(struct pile *pile)
{
    free(pile->bytes);
    *pile = (struct pile){0};
}

/* --- GnuTLS's view of a socket --- */

static ssize_t push(gnutls_transport_ptr_t context, const void *bytes, size_t n)
{
    struct tls *tls = context;
    pile_add(&tls->out, bytes, n);
    return (ssize_t)n;
}

static ssize_t pull(gnutls_transport_ptr_t context, void *out, size_t n)
{
    struct tls *tls = context;
    size_t n_there = tls->in.to - tls->in.from;
    if (n_there == 0) {
        gnutls_transport_set_errno(tls->session, EAGAIN);
        return -1;
    }
    n = n < n_there ? n : n_there;
    memcpy(out, tls->in.bytes + tls->in.from, n);
    tls->in.from += n;
    if (tls->in.from == tls->in.to) { /* an idle connection has no buffer */
        pile_empty(&tls->in);
    }
    return (ssize_t)n;
}

static int pull_ready(gnutls_transport_ptr_t context, unsigned wait_ms)
{
    const struct tls *tls = context;
    (void)wait_ms;
    return tls->in.to > tls->in.from;
}

/* --- life --- */

struct tls *tls_open(const struct tls_identity *identity)
{
    struct tls *tls = memory_alloc(1, sizeof *tls);
    unsigned end = identity != NULL ? GNUTLS_SERVER : GNUTLS_CLIENT;
    tls->identity = identity;
    int error = gnutls_init(&tls->session, end | GNUTLS_NONBLOCK | GNUTLS_NO_TICKETS | GNUTLS_NO_SIGNAL);
    error = error == 0 ? gnutls_priority_set_direct(tls->session, VERSIONS, NULL) : error;
    if (error == 0 && identity == NULL) {
        error = gnutls_certificate_allocate_credentials(&tls->none);
    }
    error = error == 0 ? gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE,
                                                identity != NULL ? identity->credentials : tls->none)
                       : error;
    ASSERT(error == 0); /* memory, or a GnuTLS without TLS 1.3 */
    gnutls_handshake_set_max_packet_length(tls->session, HANDSHAKE_MOST_BYTES);
    gnutls_transport_set_ptr(tls->session, tls);
    gnutls_transport_set_push_function(tls->session, push);
    gnutls_transport_set_pull_function(tls->session, pull);
    gnutls_transport_set_pull_timeout_function(tls->session, pull_ready);
    return tls;
}

void tls_close(struct tls *tls)
{
    if (tls != NULL) {
        gnutls_deinit(tls->session);
        if (tls->none != NULL) {
            gnutls_certificate_free_credentials(tls->none);
        }
        pile_empty(&tls->in);
        pile_empty(&tls->out);
        free(tls);
    }
}

/* --- bytes --- */

void tls_feed(struct tls *tls, const void *bytes, size_t n)
{
    pile_add(&tls->in, bytes, n);
    tls->n_fed += tls->is_open ? 0 : n;
}

char *tls_take(struct tls *tls, size_t *n_out)
{
    char *bytes = tls->out.bytes;
    *n_out = tls->out.to;
    if (tls->out.to == 0) {
        return NULL;
    }
    tls->out = (struct pile){0};
    return bytes;
}

static enum status fail(struct tls *tls, const char *what, int error)
{
    bool is_alert = error == GNUTLS_E_FATAL_ALERT_RECEIVED || error == GNUTLS_E_WARNING_ALERT_RECEIVED;
    const char *alert = is_alert ? gnutls_alert_get_name(gnutls_alert_get(tls->session)) : NULL;
    if (!is_alert) {
        gnutls_alert_send_appropriate(tls->session, error);
    }
    return status_fail(STATUS_PEER, "%s: %s%s%s", what, gnutls_strerror(error), alert != NULL ? ": " : "",
                       alert != NULL ? alert : "");
}

/* The certificate whose key has signed the handshake. */
static enum status note_fingerprint(struct tls *tls)
{
    unsigned n = 0;
    if (tls->identity != NULL) {
        memcpy(tls->fingerprint, tls->identity->fingerprint, sizeof tls->fingerprint);
        return STATUS_OK;
    }
    const gnutls_datum_t *certificate = gnutls_certificate_get_peers(tls->session, &n);
    if (certificate == NULL || n == 0) {
        return status_fail(STATUS_PEER, "the daemon has shown no certificate");
    }
    return tls_fingerprint_make(&certificate[0], tls->fingerprint);
}

enum status tls_shake(struct tls *tls, bool *done_out)
{
    int error = 0;
    *done_out = tls->is_open;
    if (tls->is_open) {
        return STATUS_OK;
    }
    do {
        error = gnutls_handshake(tls->session);
    } while (error == GNUTLS_E_INTERRUPTED || error == GNUTLS_E_WARNING_ALERT_RECEIVED);
    if (error == GNUTLS_E_AGAIN && tls->n_fed <= SHAKE_MOST_BYTES) {
        return STATUS_OK;
    }
    if (error == GNUTLS_E_AGAIN) {
        return status_fail(STATUS_PEER, "the TLS handshake is not complete after %d bytes", SHAKE_MOST_BYTES);
    }
    if (error != 0) {
        return fail(tls, "the TLS handshake failed", error);
    }
    enum status status = note_fingerprint(tls);
    tls->is_open = *done_out = status == STATUS_OK;
    return status;
}

enum status tls_read(struct tls *tls, void *out, size_t room, size_t *n_out)
{
    ssize_t n;
    *n_out = 0;
    if (tls->has_ended) {
        return STATUS_OK;
    }
    do {
        n = gnutls_record_recv(tls->session, out, room);
    } while (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_WARNING_ALERT_RECEIVED);
    if (n == GNUTLS_E_AGAIN) {
        return STATUS_OK;
    }
    if (n < 0) {
        return fail(tls, "the TLS connection is broken", (int)n);
    }
    tls->has_ended = n == 0;
    *n_out = (size_t)n;
    return STATUS_OK;
}

bool tls_has_bytes(const struct tls *tls)
{
    return !tls->has_ended && (tls->in.to > tls->in.from || gnutls_record_check_pending(tls->session) > 0);
}

bool tls_has_ended(const struct tls *tls)
{
    return tls->has_ended;
}

enum status tls_write(struct tls *tls, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t sent = gnutls_record_send(tls->session, at, n);
        if (sent < 0 && sent != GNUTLS_E_INTERRUPTED) {
            return fail(tls, "the TLS connection is broken", (int)sent);
        }
        at += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t)sent : 0;
    }
    return STATUS_OK;
}

void tls_end(struct tls *tls)
{
    if (tls->is_open) {
        gnutls_bye(tls->session, GNUTLS_SHUT_WR);
    }
}

const char *tls_fingerprint(const struct tls *tls)
{
    return tls->fingerprint;
}
