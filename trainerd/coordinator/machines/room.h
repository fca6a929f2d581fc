/* What a machine must allow before a fleet starts on it: processes and threads, open files of its
 * coordinator, and shared memory of its processes. UCX finds out late and without numbers ("Input/output error", "No
 * resources are available"). Knows no fleet.
 */
#ifndef TRAINERD_ROOM_H
#define TRAINERD_ROOM_H

#include "protocol/base/status.h"
#include "protocol/job/job.h"

/* For this job's fleet. Of local workers it sets UCX_TLS, where the environment does not: shared memory and no
 * network, of System V where /dev/shm has too little, which it says on stderr.
 *
 *   errors  STATUS_NOMEM too few files may be open, or neither kind of shared memory has room: both numbers, and what
 *           to set
 */
enum status room_check(const struct job *job);

/* For all processes and threads of a job that has just begun.
 *   errors  STATUS_NOMEM too few may be started, with both numbers and what to set */
enum status room_for_tasks(const struct job *job);

#endif
