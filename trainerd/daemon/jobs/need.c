#include "trainerd/daemon/jobs/need.h"

#include "protocol/base/amounts.h"

/* Both are at least 0. */
static int64_t sum(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

struct need need_of_job(const struct need *whole, const struct job_record *job)
{
    return (struct need){.n_slot = smaller(job->n_slot, whole->n_slot),
                         .n_gpu = whole->n_gpu > 0 ? smaller(job->n_gpu, whole->n_gpu) : job->n_gpu,
                         .memory = job->memory < 0 ? 0 : job->memory,
                         .n_job = 1};
}

bool need_fits(const struct need *need, const struct need *in)
{
    return need->n_slot <= in->n_slot && need->n_gpu <= in->n_gpu && need->memory <= in->memory &&
           need->n_job <= in->n_job;
}

void need_take(struct need *from, const struct need *need)
{
    from->n_slot -= smaller(from->n_slot, need->n_slot);
    from->n_gpu -= smaller(from->n_gpu, need->n_gpu);
    from->memory -= smaller(from->memory, need->memory);
    from->n_job -= smaller(from->n_job, need->n_job);
}

void need_add(struct need *to, const struct need *need)
{
    to->n_slot = sum(to->n_slot, need->n_slot);
    to->n_gpu = sum(to->n_gpu, need->n_gpu);
    to->memory = sum(to->memory, need->memory);
    to->n_job = sum(to->n_job, need->n_job);
}
