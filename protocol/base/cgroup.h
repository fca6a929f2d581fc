/* The memory that control groups (a container, a Slurm step, a systemd unit) leave to this process.
 *
 * Reads files at the places where distributions mount them, and checks their contents. Version 2 only.
 */
#ifndef PROTOCOL_CGROUP_H
#define PROTOCOL_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* The least memory limit of this process's control group and of all above it (version 2), in bytes.
 *
 *   root    the folder that holds proc/ and sys/, without a slash at its end: "" but in tests
 *   returns INT64_MAX without a readable limit
 *   cost    opens a file per level of the hierarchy
 */
int64_t cgroup_memory_limit(const char *root);

/* Number of processes that the system has killed because memory ran out: in this process's group or, if no group
 * counts them, on the machine. -1: neither counts them. A process that ended by KILL while the number rose is
 * probably one of them. */
int64_t cgroup_oom_kills(const char *root);

/* This process's group below the folder where groups are mounted: "/system.slice/x.service", or "" for that folder.
 * root as above. false: it is in none of version 2 */
bool cgroup_own(const char *root, char out[PATH_MAX]);

/* The number in a group's file; INT64_MAX where the file has no number ("max") or does not exist. */
int64_t cgroup_number(const char *path);

/* The number behind a word that begins a line, in a file of groups or of /proc; -1: there is no such line. */
int64_t cgroup_number_read(const char *path, const char *word);

#endif
