/* What a job leaves to its launcher: how many workers there are, and what each has of the machine.
 *
 * Settled before anything depends on it, so that plan, checkpoint, result and workers have the same numbers. Knows no
 * processes.
 */
#ifndef TRAINERD_LAUNCHER_H
#define TRAINERD_LAUNCHER_H

#include "protocol/base/status.h"
#include "protocol/job/job.h"

#include <stdbool.h>

/* Fill in workers.count and workers.threads where the job leaves them to the allocation, or to workers.hosts.
 *
 *   starts  workers are to be started: the launcher has to be usable here. A plan needs no more than a number of
 *           workers
 *   errors  STATUS_CONFIG no allocation; a count that is not the allocation's, or more than there are slots; more
 *           workers than parts
 */
enum status launcher_settle(bool starts, struct job *job_io);

/* Fill in memory.limit where the job leaves it at 0, it is of the host's memory, and the allocation has a limit.
 * After device_choose.
 *
 *   errors  STATUS_NOMEM a share that is smaller than a process is
 */
enum status launcher_limit(struct job *job_io);

/* Does the launcher start workers where the GPUs of this machine are theirs? */
bool launcher_shares_gpus(const struct job *job);

#endif
