/* The order of jobs that have not ended: those that run, the newest first, then those that wait, by their place in
 * the queue. A pure function. */
#ifndef TRAINERD_DAEMON_STANDING_H
#define TRAINERD_DAEMON_STANDING_H

#include "trainerd/daemon/store/job_record.h"

#include <stddef.h>

/* Put n records into this order. One whose place is not known yet has come after the queue's last pass: it is last.
 * cost  n log n */
void standing_sort(const struct job_record **job, size_t n);

#endif
