/* A worker's life: join, wire up, take parts, obey the coordinator's commands until it says finish.
 *
 * Bytes of parts, commands and reports are the session's; rows between workers go straight to the exchange. One command is
 * answered before the next one comes. Knows nothing of how an epoch is computed.
 */
#ifndef WORKER_SESSION_H
#define WORKER_SESSION_H

#include "protocol/status.h"

#include <stdbool.h>

struct session_setup {
    const char *join; /* HOST:PORT of the coordinator */
    const char *token;
    double join_timeout_s; /* how long to try to reach it */
    bool talks;            /* say on stderr why the job ended */
};

/* Serve one job to its end.
 *
 *   notes   ends the process by itself (exit code as the status would) when the coordinator aborts the job or is lost
 *   errors  STATUS_PEER, and whatever the trainer fails with; the coordinator was told if it could be
 */
enum status session_run(const struct session_setup *setup);

#endif
