/* Handlers of the client protocol's requests (requests.def), and which user may send which.
 *
 * Knows jobs and the supervisor, and no sockets beyond connection_send.
 */
#ifndef TRAINERD_DAEMON_COMMANDS_H
#define TRAINERD_DAEMON_COMMANDS_H

#include "trainerd/daemon/server/server.h"
#include "trainerd/daemon/supervisor/supervisor.h"

struct commands;

/*   max_restarts  of jobs that are submitted without it
 *   owns          borrows loop, jobs and supervisor; the caller owns *out: commands_close, after server_close. The loop has to
 *                 run on until none of its handles is left, and then frees it
 */
enum status commands_open(uv_loop_t *loop, struct jobs *jobs, struct supervisor *supervisor, int32_t max_restarts,
                          struct commands **out);
void commands_close(struct commands *commands);
/* The handler to open a server with. */
struct server_handler commands_handler(struct commands *commands);

#endif
