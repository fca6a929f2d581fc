/* The memory that control groups (a container, a Slurm step, a systemd unit) leave to this process.
 *
 * Reads files at the places where distributions mount them, and checks their contents. Version 2 only.
 */
#ifndef PROTOCOL_CGROUP_H
#define PROTOCOL_CGROUP_H

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

#endif
