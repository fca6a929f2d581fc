/* A process as /proc shows it, for tests that look for those that a program has left. */
#ifndef TESTS_SUPPORT_PROCESS_LOOK_H
#define TESTS_SUPPORT_PROCESS_LOOK_H

#include <stdbool.h>
#include <sys/types.h>

/* Parent and name of a process; false: it is gone, or has ended and waits to be reaped. */
bool process_look(pid_t pid, pid_t *parent_out, char name_out[64]);

#endif
