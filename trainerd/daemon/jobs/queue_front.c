/* Which jobs one pass over the queue looks at, so that no user makes passes long: a query for each user. */
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/jobs/queue.h"

#include <stdlib.h>

/* Mark the first jobs of each user. ids, uids: room for as many as live */
static enum status mark_firsts(struct jobs *jobs, int64_t *ids, int64_t *uids, bool *is_front)
{
    size_t n, n_user, n_id;
    struct store *store = jobs_store(jobs);
    const struct job_record *const *live = jobs_live(jobs, &n);
    enum status status = store_waiting(store, n, uids, &n_user);
    size_t n_most = QUEUE_FRONT_MOST / (n_user > 0 ? n_user : 1);
    n_most = n_most > QUEUE_FRONT_LEAST ? n_most : QUEUE_FRONT_LEAST;
    for (size_t i = 0; i < n_user && status == STATUS_OK; i++) {
        status = store_first(store, (uid_t)uids[i], n_most < n ? n_most : n, ids, &n_id);
        for (size_t k = 0; k < n_id && status == STATUS_OK; k++) {
            size_t place = jobs_live_place(jobs, ids[k]);
            if (place < n && live[place]->id == ids[k]) {
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
    int64_t *ids = memory_alloc(n + 1, sizeof *ids), *uids = memory_alloc(n + 1, sizeof *uids);
    for (size_t i = 0; i < n; i++) {
        is_front_out[i] = n <= QUEUE_FRONT_LEAST || live[i]->state != JOB_STATE_QUEUED ||
                          live[i]->queued.planning > 0;
    }
    if (n > QUEUE_FRONT_LEAST && mark_firsts(jobs, ids, uids, is_front_out) != STATUS_OK) {
        log_error("%s", status_reason());
    }
    for (size_t i = 0; i < n; i++) {
        n_front += is_front_out[i];
    }
    free(ids);
    free(uids);
    return n_front;
}
