/* Monitoring of the daemon: /metrics (Prometheus) and /healthz, over HTTP. */
#ifndef TRAINERD_DAEMON_MONITOR_H
#define TRAINERD_DAEMON_MONITOR_H

#include "trainerd/daemon/jobs/jobs.h"
#include "trainerd/daemon/jobs/queue.h"

#include <uv.h>

struct monitor;

/* Serve them at HOST:PORT. /healthz is 200 while a change of a job can be saved, else 503 with the reason.
 *
 *   owns    borrows loop, jobs and whole; the caller owns *out: monitor_close. address "": nothing is served, *out is
 *           NULL
 *   errors  STATUS_CONFIG daemon.metrics is not an address of this machine; STATUS_CREATE
 */
enum status monitor_open(uv_loop_t *loop, const char *address, const struct jobs *jobs,
                         const struct queue_capacity *whole, struct monitor **out);
/* NULL is allowed. The loop has to run on until none of its handles is left. */
void monitor_close(struct monitor *monitor);
/* "" when nothing is served. */
const char *monitor_address(const struct monitor *monitor);

#endif
