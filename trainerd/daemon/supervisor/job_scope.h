/* Scopes that systemd makes outside of the daemon's service, by busctl, for a process that waits at its gate. */
#ifndef TRAINERD_DAEMON_JOB_SCOPE_H
#define TRAINERD_DAEMON_JOB_SCOPE_H

#include "trainerd/daemon/supervisor/job_cgroups.h"

/* Can this daemon have scopes? false: why */
bool job_scope_open(const char *root, struct job_cgroups *groups, char *why, size_t capacity);

/* As job_cgroup_begin, once the process is in its scope. cost  blocks the daemon for up to 10 s. errors  STATUS_IO */
enum status job_scope_begin(const struct job_cgroups *groups, const char *name, int64_t memory, int64_t weight,
                            pid_t pid);

#endif
