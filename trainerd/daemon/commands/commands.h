/* What each request of the client protocol does: requests.def lists them, here are their handlers, and who may ask
 * for what.
 *
 * Knows jobs and the supervisor, and no sockets beyond connection_send.
 */
#ifndef TRAINERD_DAEMON_COMMANDS_H
#define TRAINERD_DAEMON_COMMANDS_H

#include "trainerd/daemon/server/server.h"
#include "trainerd/daemon/supervisor/supervisor.h"

struct commands;

/*   max_restarts  of jobs that are submitted without
 *   owns          borrows loop, jobs and supervisor; the caller owns *out: commands_close, after server_close. The
 *                 loop has to run on until nothing of it is left, and frees it then
 */
enum status commands_open(uv_loop_t *loop, struct jobs *jobs, struct supervisor *supervisor, int32_t max_restarts,
                          struct commands **out);
void commands_close(struct commands *commands);
/* The handler to open a server with. */
struct server_handler commands_handler(struct commands *commands);

#endif
