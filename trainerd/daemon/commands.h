/* What each request of the client protocol does: one table from which requests are checked, docs/protocol.md is generated, and
 * handlers are found.
 *
 * Knows jobs and the supervisor, and no sockets beyond connection_send.
 */
#ifndef TRAINERD_DAEMON_COMMANDS_H
#define TRAINERD_DAEMON_COMMANDS_H

#include "trainerd/daemon/server.h"
#include "trainerd/daemon/supervisor.h"

struct commands;

enum status commands_open(uv_loop_t *loop, struct jobs *jobs, struct supervisor *supervisor, struct commands **out);
void commands_close(struct commands *commands);
/* The handler to open a server with. */
struct server_handler commands_handler(struct commands *commands);

#endif
