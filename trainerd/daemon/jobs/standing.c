#include "trainerd/daemon/jobs/standing.h"

#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    const struct job_record *a = *(const struct job_record *const *)left,
                            *b = *(const struct job_record *const *)right;
    bool a_waits = a->state == JOB_STATE_QUEUED, b_waits = b->state == JOB_STATE_QUEUED;
    if (a_waits != b_waits) {
        return a_waits ? 1 : -1;
    }
    if (!a_waits) {
        return a->id > b->id ? -1 : a->id < b->id;
    }
    if (a->queued.place != b->queued.place) {
        return a->queued.place != 0 && (b->queued.place == 0 || a->queued.place < b->queued.place) ? -1 : 1;
    }
    return a->id < b->id ? -1 : a->id > b->id;
}

void standing_sort(const struct job_record **job, size_t n)
{
    qsort(job, n, sizeof *job, compare);
}
