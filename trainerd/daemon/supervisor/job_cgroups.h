/* Control groups of jobs, version 2: one for each attempt and each planning. The kernel holds the group to its
 * memory, shares cores by its slots, and lists its processes at the end, also those that left its session.
 *
 * A group is a folder below the daemon's own group, or a scope that systemd makes beside the daemon's service. Its
 * name contains the store, the job and the attempt, so that a later daemon finds it. Knows pids and bytes, not
 * records.
 */
#ifndef TRAINERD_DAEMON_JOB_CGROUPS_H
#define TRAINERD_DAEMON_JOB_CGROUPS_H

#include "protocol/base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define JOB_CGROUPS_NAME_BYTES 96
#define JOB_CGROUPS_PLAN 0 /* the attempt's number of a planning */

enum job_cgroups_kind { JOB_CGROUPS_NONE, JOB_CGROUPS_SCOPE, JOB_CGROUPS_OWN };

struct job_cgroups {
    enum job_cgroups_kind kind;
    bool has_memory, has_cores; /* the kernel limits memory; it shares cores */
    bool is_old;                /* no groups, and the machine has version 1 */
    char store[33];
    char path[PATH_MAX]; /* where groups are made */
    char busctl[PATH_MAX];
};

/* Open the groups that daemon.isolation names: "auto", "scope", "cgroup" or "none".
 *
 *   root    the folder that holds proc/, sys/ and run/, without a slash at its end: "" but in tests
 *   store   the store's id (store.h)
 *   errors  STATUS_CONFIG another word, or the machine lacks what is required: why
 */
enum status job_cgroups_open(const char *root, const char *isolation, bool enforce_memory, const char *store,
                             struct job_cgroups *out);
/* For the log: "control groups below /sys/fs/cgroup/…, memory enforced". */
void job_cgroups_text(const struct job_cgroups *groups, char *out, size_t capacity);

/* The name of an attempt's group; of a planning's with JOB_CGROUPS_PLAN. */
void job_cgroup_name(const struct job_cgroups *groups, int64_t job, int32_t attempt,
                     char out[JOB_CGROUPS_NAME_BYTES]);

/* Put a process that waits at its gate into a new group, or into an empty one of a dead daemon.
 *
 *   units   memory: bytes, 0: no limit; n_slot: its share of cores where they are scarce
 *   errors  STATUS_IO
 */
enum status job_cgroup_begin(const struct job_cgroups *groups, const char *name, int64_t memory, int32_t n_slot,
                             pid_t pid);

/* How many of its processes were killed since its memory ran out; 0 also where there is no such group. */
int64_t job_cgroup_oom_kills(const struct job_cgroups *groups, const char *name);
/* Its limit in bytes; INT64_MAX: none. */
int64_t job_cgroup_limit(const struct job_cgroups *groups, const char *name);

/* Send KILL to all of its processes. true: there were some, or there may be; call it again until it returns false. */
bool job_cgroup_kill(const struct job_cgroups *groups, const char *name);
/* Remove it once it is empty. false: it is still there. */
bool job_cgroup_remove(const struct job_cgroups *groups, const char *name);

/* End and remove groups of this store that a dead daemon left and that nothing uses. */
void job_cgroups_sweep(const struct job_cgroups *groups,
                       bool (*is_used)(const void *context, int64_t job, int32_t attempt), const void *context);

#endif
