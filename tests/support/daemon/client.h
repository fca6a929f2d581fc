/* Clients of a server that runs in the same thread: raw sockets, and a loop that is turned until something has
 * happened. */
#ifndef TESTS_SUPPORT_CLIENT_H
#define TESTS_SUPPORT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

extern uv_loop_t loop;

struct client {
    int file;
    char *got; /* what came and was not taken yet, with NUL */
    size_t n_got, n_taken;
    bool is_closed;
};

/* Turn the loop once. The test fails when patience since then has ended. */
void turn(double since_s);

/* Connect to an address as server_address gives it. */
void client_open(struct client *client, const char *address);
void client_close(struct client *client);

/* Send all bytes, turning the loop while there is no room. */
void client_send_bytes(struct client *client, const void *bytes, size_t n);
void client_send(struct client *client, const char *text);

/* The next line, without its end: valid until the next call. NULL: the connection ended before. */
const char *client_line(struct client *client);

/* Wait until the server has closed it. */
void client_expect_end(struct client *client);

#endif
