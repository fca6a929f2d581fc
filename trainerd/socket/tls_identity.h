/* A daemon's key and certificate from inside, for tls*.c. */
#ifndef TRAINERD_DAEMON_TLS_IDENTITY_H
#define TRAINERD_DAEMON_TLS_IDENTITY_H

#include "trainerd/socket/tls.h"

#include <gnutls/gnutls.h>

struct tls_identity {
    gnutls_certificate_credentials_t credentials;
    char fingerprint[TLS_FINGERPRINT_BYTES];
};

/* A certificate's fingerprint. errors  STATUS_PEER */
enum status tls_fingerprint_make(const gnutls_datum_t *certificate, char out[TLS_FINGERPRINT_BYTES]);

#endif
