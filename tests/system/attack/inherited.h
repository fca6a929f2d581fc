/* Files of a job's folder that its coordinator has inherited, in the hands of the job's owner. */
#ifndef TESTS_SYSTEM_ATTACK_INHERITED_H
#define TESTS_SYSTEM_ATTACK_INHERITED_H

#include "tests/system/attack/work.h"

#include <sys/types.h>

enum { INHERITED_MOST = 32, INHERITED_BYTES = 64 };

/* Wait, for so many seconds at most, until the job has a coordinator; its process, 0: none yet. */
pid_t inherited_await(const struct work *work, double wait_s);

/* A copy of the coordinator's descriptor of that number, below INHERITED_MOST, where that is a file of the job's
 * folder: its name there. -1: not a file of the job. owns  the caller closes it */
int inherited_take(pid_t coordinator, int number, char name_out[INHERITED_BYTES]);

#endif
