/* trace.json: the steps of the last epoch on every worker, for ui.perfetto.dev and chrome://tracing.
 *
 * One process a worker, with tracks for its steps (and within them its parts), packing, waiting and the spill. Times
 * are microseconds by the coordinator's clock.
 */
#ifndef TRAINERD_TRACE_H
#define TRAINERD_TRACE_H

#include "protocol/files/dir.h"
#include "trainerd/coordinator/fleet/fleet.h"

/* Read all workers' traces and write the file; start_s, by the coordinator's clock, is time 0.
 *
 *   errors  STATUS_CREATE, STATUS_IO of the file, which is complete or absent; those of fleet_trace
 */
enum status trace_save(struct fleet *fleet, uint32_t n_worker, double start_s, const struct dir *dir,
                       const char *name);

#endif
