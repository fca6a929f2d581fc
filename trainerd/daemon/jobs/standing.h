/* The order of open jobs: those that run, the newest first, then those that wait, by place. A pure function. */
#ifndef TRAINERD_DAEMON_STANDING_H
#define TRAINERD_DAEMON_STANDING_H

#include "trainerd/daemon/store/job_record.h"

#include <stddef.h>

/* Sort n records. A job without a place yet came after the queue's last pass: it is last. cost  n log n */
void standing_sort(const struct job_record **job, size_t n);

#endif
