/* What Linux control groups (a container, a Slurm step, a unit of systemd) leave this process of the machine's
 * memory.
 *
 * Reads files alone, at the places where every distribution mounts them, and takes nothing in them for granted.
 */
#ifndef PROTOCOL_CGROUP_H
#define PROTOCOL_CGROUP_H

#include <stdint.h>

/* The least memory limit of this process's control group and of all above it, version 1 and 2, in bytes.
 *
 *   root    the folder that holds proc/ and sys/, without a slash at its end: "" but in tests
 *   returns INT64_MAX where there is no limit, or nothing that can be read as one
 *   cost    opens a file per level of the hierarchy
 */
int64_t cgroup_memory_limit(const char *root);

/* How many processes the system has killed because memory ran out: of this process's group, or, where no group counts
 * them, of the machine. -1: neither counts them. A process that ended by KILL while the number rose may well be one
 * of them. */
int64_t cgroup_oom_kills(const char *root);

#endif
