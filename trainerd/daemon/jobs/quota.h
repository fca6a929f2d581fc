/* What one user's jobs may have together: how many wait and run, and the slots, GPUs and memory of those that run.
 *
 * The daemon's keys max_…_per_user. Of users it knows numbers, and names where exempt ones are read.
 */
#ifndef TRAINERD_DAEMON_QUOTA_H
#define TRAINERD_DAEMON_QUOTA_H

#include "trainerd/daemon/jobs/need.h"

#include <stddef.h>

#define QUOTA_EXEMPT_MOST 32

struct quota {
    int64_t n_queued, n_running, n_slot, n_gpu, memory; /* 0: no limit */
    uid_t exempt[QUOTA_EXEMPT_MOST];                    /* users without any */
    size_t n_exempt;
};

/* Read exempt users: names or numbers between blanks. errors  STATUS_CONFIG unknown user, or too many */
enum status quota_read_exempt(const char *names, struct quota *out);

/* What the user's running jobs may have; NEED_UNLIMITED where there is no limit. quota NULL: none */
struct need quota_find(const struct quota *quota, uid_t uid);

/* The user's most jobs that wait; 0: no limit. */
int64_t quota_queued(const struct quota *quota, uid_t uid);

/* May n_more jobs wait beside n_queued? errors  STATUS_PEER with the number, the limit and the key */
enum status quota_check_queued(const struct quota *quota, int64_t n_queued, uid_t uid, size_t n_more);

/* Could the job ever run within its user's quota? whole: the machine. errors  STATUS_CONFIG "FILE: …" */
enum status quota_check_job(const struct quota *quota, const struct need *whole, const char *file,
                            const struct job_record *job);

/* Describe the first limit that a job's need exceeds, beside what its user has / on its own. */
void quota_describe_held(const struct need *most, const struct need *has, const struct need *need, char *out,
                         size_t capacity);
void quota_describe_above(const struct need *most, const struct need *need, char *out, size_t capacity);

#endif
