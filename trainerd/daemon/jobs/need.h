/* What a job takes of a machine or a quota: slots, GPUs, memory, and one of the jobs that may run. */
#ifndef TRAINERD_DAEMON_NEED_H
#define TRAINERD_DAEMON_NEED_H

#include "trainerd/daemon/store/job_record.h"

#define NEED_UNLIMITED INT64_MAX

struct need {
    int64_t n_slot, n_gpu, memory, n_job; /* memory in bytes */
};

/* What a job takes of the machine. Threads can share cores, and workers GPUs: a job that asks for more than there are
 * takes them all. Without any GPU it needs those that it asks for. Memory that is not known is 0. */
struct need need_of_job(const struct need *whole, const struct job_record *job);

bool need_fits(const struct need *need, const struct need *in);
/* Take it from what there is, down to 0. */
void need_take(struct need *from, const struct need *need);
void need_add(struct need *to, const struct need *need);

#endif
