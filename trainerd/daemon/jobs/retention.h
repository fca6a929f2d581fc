/* Which jobs' records are kept no longer: a pure function of records, limits and the time. */
#ifndef TRAINERD_DAEMON_RETENTION_H
#define TRAINERD_DAEMON_RETENTION_H

#include "trainerd/daemon/store/job_record.h"

#include <stddef.h>

struct retention {
    double days;   /* after their end; 0: always */
    int64_t n_job; /* that have ended, the last to end; 0: all */
};

/* Find jobs that have ended and are kept no longer, those that ended first before others.
 *
 *   shapes  all n · ids_out n_most
 *   units   now in seconds since 1970
 *   notes   A job whose planning has not ended yet is kept
 *   Returns how many were found, at most n_most.
 */
size_t retention_find(const struct retention *retention, const struct job_record *const *all, size_t n, double now,
                      int64_t *ids_out, size_t n_most);

#endif
