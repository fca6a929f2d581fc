/* A server on the test's loop, in its folder: TestSuite(x, .init = server_case_begin, .fini = server_case_end). */
#ifndef TESTS_SUPPORT_SERVER_CASE_H
#define TESTS_SUPPORT_SERVER_CASE_H

#include "trainerd/daemon/server/server.h"

extern struct server *server; /* NULL: not open */

void server_case_begin(void);
/* Close it, if it is open, and the loop: no handle may be left. */
void server_case_end(void);

/* Options of a server with room for this many connections, also of one user, and long deadlines. */
struct server_options server_case_options(const char *address, int32_t n_most);
void server_case_open(const struct server_options *options, struct server_handler handler);
/* Close it, and open it with other options or none. */
void server_case_close(void);

#endif
