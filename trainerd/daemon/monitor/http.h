/* A few pages over HTTP, for monitoring: GET and HEAD, one request per connection, answered at once from the daemon's loop.
 *
 * The only file that sees libmicrohttpd, which parses what strangers send; it has no thread of its own. Connections are few
 * and each has HTTP_LIFE_MS in all, so that slow ones cannot stay. Knows nothing of jobs: what a page holds is its printer's.
 */
#ifndef TRAINERD_DAEMON_HTTP_H
#define TRAINERD_DAEMON_HTTP_H

#include "protocol/status.h"

#include <stddef.h>
#include <stdio.h>
#include <uv.h>

#define HTTP_N_CONNECTION 32
#define HTTP_LIFE_MS 5000
#define HTTP_ADDRESS_BYTES 80

struct http_page {
    const char *path, *content_type;
    /* Print it. A status other than OK becomes 503 with what was printed, or the reason when nothing was. */
    enum status (*print)(void *context, FILE *file);
};

struct http;

/* Serve pages at HOST:PORT.
 *
 *   what    the key or option the address came from, for messages
 *   owns    borrows loop, pages (n_page) and context; the caller owns *out: http_close
 *   errors  STATUS_CONFIG no such address; STATUS_CREATE it cannot be listened on
 */
enum status http_open(uv_loop_t *loop, const char *address, const char *what, const struct http_page *pages, size_t n_page,
                      void *context, struct http **out);

/* Ends all connections. The loop has to run on until nothing of it is left there, and frees it then. */
void http_close(struct http *http);

/* Where it listens, HOST:PORT in numbers. */
const char *http_address(const struct http *http);

#endif
