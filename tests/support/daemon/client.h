/* Clients of a server that runs in the same thread: raw sockets, and the event loop, which the test runs until an event has
 * occurred. */
#ifndef TESTS_SUPPORT_CLIENT_H
#define TESTS_SUPPORT_CLIENT_H

#include "protocol/base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

extern uv_loop_t loop;

struct client {
    int file;
    char *got; /* bytes received, those already returned by client_line included, then NUL */
    size_t n_got, n_taken;
    bool is_closed;
};

/* Run the loop once, without blocking. The test fails once PATIENCE_S have passed since since_s. */
void turn(double since_s);
/* Run the loop until a condition holds. */
#define await(condition)                                                                                             \
    do {                                                                                                             \
        double begun_s = clock_s();                                                                                  \
        while (!(condition)) {                                                                                       \
            turn(begun_s);                                                                                           \
        }                                                                                                            \
    } while (0)

/* Connect to an address in the form that server_address returns. */
void client_open(struct client *client, const char *address);
void client_close(struct client *client);

/* Send all bytes, running the loop while the socket's buffer is full. */
void client_send_bytes(struct client *client, const void *bytes, size_t n);
void client_send(struct client *client, const char *text);

/* The next line, without its end: valid until the next call. NULL: the connection ended before a line was complete. */
const char *client_line(struct client *client);

/* Wait until the server has closed the connection. */
void client_expect_end(struct client *client);

#endif
