/* Handlers of the client protocol's requests (requests.def), and which user may send which.
 *
 * Knows jobs and the supervisor, and no sockets beyond connection_send.
 */
#ifndef TRAINERD_DAEMON_COMMANDS_H
#define TRAINERD_DAEMON_COMMANDS_H

#include "trainerd/daemon/server/server.h"
#include "trainerd/daemon/supervisor/supervisor.h"

struct commands;

struct commands_options {
    int32_t max_restarts; /* of jobs that are submitted without it */
    const char *submit_users,
        *submit_groups; /* names between blanks: who may submit jobs (submitters.h); both NULL or "": all users */
};

/*   owns          borrows loop, jobs and supervisor, copies options; the caller owns *out: commands_close, after
 * server_close. The loop has to
 *                 run on until none of its handles is left, and then frees it
 */
enum status commands_open(uv_loop_t *loop, struct jobs *jobs, struct supervisor *supervisor,
                          const struct commands_options *options, struct commands **out);
void commands_close(struct commands *commands);
/* The handler to open a server with. */
struct server_handler commands_handler(struct commands *commands);

#endif
