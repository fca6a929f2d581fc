#include "trainerd/daemon/jobs/retention.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

#define DAY_S 86400.0

/* What is sorted, beside each other in memory. */
struct ended {
    double at;
    int64_t id;
};

static int compare_ends(const void *left, const void *right)
{
    const struct ended *a = left, *b = right;
    if (a->at != b->at) {
        return a->at < b->at ? -1 : 1;
    }
    return a->id < b->id ? -1 : a->id > b->id;
}

size_t retention_find(const struct retention *retention, const struct job_record *const *all, size_t n, double now,
                      int64_t *ids_out, size_t n_most)
{
    if (retention->days <= 0.0 && retention->n_job <= 0) {
        return 0;
    }
    struct ended *ended = memory_alloc(n + 1, sizeof *ended);
    size_t n_ended = 0, n_found = 0;
    for (size_t i = 0; i < n; i++) {
        if (job_state_ended(all[i]->state) && all[i]->queued.planning == 0) {
            ended[n_ended++] = (struct ended){all[i]->times.ended_at, all[i]->id};
        }
    }
    qsort(ended, n_ended, sizeof *ended, compare_ends);
    for (size_t i = 0; i < n_ended && n_found < n_most; i++) {
        bool is_old = retention->days > 0.0 && now - ended[i].at > DAY_S * retention->days;
        bool is_many = retention->n_job > 0 && (int64_t)(n_ended - i) > retention->n_job;
        if (is_old || is_many) {
            ids_out[n_found++] = ended[i].id;
        }
    }
    free(ended);
    return n_found;
}
