/* Arrays that wait in pinned host memory between forward and backward (plan/offload.h): copied beside the work, in
 * lanes of their own. */
#ifndef WORKER_HOMES_H
#define WORKER_HOMES_H

#include "worker/state/trainer_state.h"

/* Take the memory. errors  STATUS_NOMEM */
enum status homes_open(struct trainer *trainer);
void homes_close(struct trainer *trainer);

/* A step that stores or fetches an array, or ends that. The host waits for nothing. */
enum status homes_run(struct trainer *trainer, const struct step *step);

#endif
