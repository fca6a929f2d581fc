/* Which jobs one pass over the queue looks at, so that no user makes passes long: a query for each user. */
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/jobs/queue.h"

#include <stdlib.h>

struct front {
    struct jobs *jobs;
    uid_t *uid; /* n_user with jobs that wait, at most n_most */
    size_t n_user, n_most;
};

static void add_user(void *context, uid_t uid, int64_t n)
{
    struct front *front = context;
    (void)n;
    if (front->n_user < front->n_most) {
        front->uid[front->n_user++] = uid;
    }
}

/* Mark the first of each user's jobs, which are in memory. */
static enum status mark_firsts(struct front *front, int64_t *ids, bool *is_front)
{
    struct store *store = jobs_store(front->jobs);
    enum status status = store_waiting(store, add_user, front);
    size_t n_most = QUEUE_FRONT_MOST / (front->n_user > 0 ? front->n_user : 1), n, n_live;
    n_most = n_most > QUEUE_FRONT_LEAST ? n_most : QUEUE_FRONT_LEAST;
    n_most = n_most < front->n_most ? n_most : front->n_most;
    const struct job_record *const *live = jobs_live(front->jobs, &n_live);
    for (size_t i = 0; i < front->n_user && status == STATUS_OK; i++) {
        status = store_first(store, front->uid[i], n_most, ids, &n);
        for (size_t k = 0; k < n && status == STATUS_OK; k++) {
            size_t place = jobs_live_place(front->jobs, ids[k]);
            if (place < n_live && live[place]->id == ids[k]) {
                is_front[place] = true;
            }
        }
    }
    return status;
}

size_t queue_front(struct jobs *jobs, bool *is_front_out)
{
    size_t n, n_front = 0;
    const struct job_record *const *live = jobs_live(jobs, &n);
    struct front front = {.jobs = jobs, .uid = memory_alloc(n + 1, sizeof *front.uid), .n_most = n};
    int64_t *ids = memory_alloc(n + 1, sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        is_front_out[i] = n <= QUEUE_FRONT_LEAST || live[i]->state != JOB_STATE_QUEUED ||
                          live[i]->queued.planning > 0;
    }
    if (n > QUEUE_FRONT_LEAST && mark_firsts(&front, ids, is_front_out) != STATUS_OK) {
        log_error("%s", status_reason());
    }
    for (size_t i = 0; i < n; i++) {
        n_front += is_front_out[i];
    }
    free(ids);
    free(front.uid);
    return n_front;
}
