/* A worker from start to end: join, connect, receive parts, handle the coordinator's commands until finish.
 *
 * The session owns the bytes of parts, commands and reports; rows between workers go straight to the exchange. A
 * command is answered before the next one is received. Knows nothing of how an epoch is computed.
 */
#ifndef WORKER_SESSION_H
#define WORKER_SESSION_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SESSION_ANY_RANK UINT32_MAX
#define SESSION_RANK_MOST 65535

struct session_setup {
    const char *join; /* HOST:PORT of the coordinator */
    const char *token;
    const char *host;      /* the machine's name; NULL: its host name */
    uint32_t rank;         /* that it asks for; SESSION_ANY_RANK */
    bool has_gpus;         /* all GPUs that it sees are its own, whichever other workers its machine has */
    int signals;           /* a signalfd of what is passed on to the coordinator; -1: none */
    double join_timeout_s; /* how long to try to reach it */
    bool talks;            /* print on stderr what it does, and why the job ended: it was started by hand */
};

/* Serve one job to its end.
 *
 *   notes   ends the process by itself (exit code as the status would) when the coordinator aborts the job or is lost
 *   errors  STATUS_PEER, and the trainer's errors; reported to the coordinator where it can be reached
 */
enum status session_run(const struct session_setup *setup);

#endif
