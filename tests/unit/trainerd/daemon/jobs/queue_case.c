#include "tests/unit/trainerd/daemon/jobs/queue_case.h"

struct job_record jobs[QUEUE_CASE_MOST];
struct queue_decision decision[QUEUE_CASE_MOST];
struct queue_capacity whole = {.n_slot = 4, .gpus = 0x5, .memory = 8 * GIB};

struct job_record *queued(int32_t n_slot, int64_t memory)
{
    static int64_t id;
    struct job_record *job = &jobs[id++];
    cr_assert_leq(id, QUEUE_CASE_MOST);
    *job = (struct job_record){.id = id, .state = JOB_STATE_QUEUED, .n_slot = n_slot, .memory = memory};
    return job;
}

struct job_record *running(int32_t n_slot, int64_t memory)
{
    struct job_record *job = queued(n_slot, memory);
    job->state = JOB_STATE_RUNNING;
    return job;
}

void decide(double now)
{
    const struct job_record *all[QUEUE_CASE_MOST];
    size_t n = 0;
    while (n < QUEUE_CASE_MOST && jobs[n].id != 0) {
        all[n] = &jobs[n];
        n++;
    }
    queue_decide(all, n, &whole, now, decision);
}
