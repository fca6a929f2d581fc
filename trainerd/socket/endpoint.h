/* A daemon's address: unix:PATH or tcp:HOST:PORT as text, and the default.
 *
 * Both sides of the client protocol parse addresses here. Opens nothing.
 */
#ifndef TRAINERD_DAEMON_ENDPOINT_H
#define TRAINERD_DAEMON_ENDPOINT_H

#include "protocol/base/status.h"
#include "protocol/transport/address.h"

#include <stdbool.h>

#define ENDPOINT_PATH_BYTES 108 /* of sockaddr_un, with NUL */
#define ENDPOINT_TEXT_BYTES 300

struct endpoint {
    bool is_unix;
    char path[ENDPOINT_PATH_BYTES]; /* is_unix */
    struct address tcp;             /* otherwise */
};

/*   what    the key or option the text came from, for the message
 *   errors  STATUS_CONFIG neither unix:PATH nor tcp:HOST:PORT; a path longer than a socket's name may be
 */
enum status endpoint_parse(const char *text, const char *what, struct endpoint *out);

/* The address as text, the same for all ways to write it. out ENDPOINT_TEXT_BYTES */
void endpoint_print(const struct endpoint *endpoint, char *out);

/* unix:$XDG_RUNTIME_DIR/trainerd.sock; for root unix:/run/trainerd/trainerd.sock; else
 * unix:/tmp/trainerd-<uid>/trainerd.sock. out ENDPOINT_TEXT_BYTES */
void endpoint_default(char *out);

#endif
