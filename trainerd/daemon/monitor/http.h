/* A few pages over HTTP, for monitoring: GET and HEAD, one request per connection, answered from the loop.
 *
 * The only file that sees libmicrohttpd, which parses requests of unauthenticated clients, without a thread of its
 * own. Connections are few, and each is closed after HTTP_LIFE_MS, or while all are taken after HTTP_FULL_LIFE_MS, so
 * that clients who ask nothing keep others waiting for a moment alone. Knows no jobs: the caller prints the pages.
 */
#ifndef TRAINERD_DAEMON_HTTP_H
#define TRAINERD_DAEMON_HTTP_H

#include "protocol/base/status.h"

#include <stddef.h>
#include <stdio.h>
#include <uv.h>

#define HTTP_N_CONNECTION 32
#define HTTP_LIFE_MS 5000
#define HTTP_FULL_LIFE_MS 200
#define HTTP_ADDRESS_BYTES 80

struct http_page {
    const char *path, *content_type;
    /* Print it. A status other than OK becomes 503 with what was printed, or the reason when nothing was. */
    enum status (*print)(void *context, FILE *file);
};

struct http;

struct http_pages {
    const struct http_page *page;
    size_t n;
    void *context; /* of print */
};

/* Serve pages at HOST:PORT.
 *
 *   what    the key or option that the address came from, for messages
 *   owns    borrows loop and what pages points to; the caller owns *out: http_close
 *   errors  STATUS_CONFIG no such address; STATUS_CREATE cannot listen there
 */
enum status http_open(uv_loop_t *loop, const char *address, const char *what, const struct http_pages *pages,
                      struct http **out);

/* Close all connections. The loop has to run on until none of its handles is left, and then frees it. */
void http_close(struct http *http);

/* The address it listens on, HOST:PORT in numbers. */
const char *http_address(const struct http *http);

#endif
