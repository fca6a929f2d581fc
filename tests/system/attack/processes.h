/* The processes below the test: it is the one that orphans of its daemon are given to (PR_SET_CHILD_SUBREAPER), so
 * that none leaves its tree. */
#ifndef TESTS_SYSTEM_ATTACK_PROCESSES_H
#define TESTS_SYSTEM_ATTACK_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum process_kind { PROCESS_COORDINATOR, PROCESS_WORKER, PROCESS_PLANNER, PROCESS_ANY };

/* Take orphans from here on. And let this process and the daemon have thousands of connections. */
void processes_begin(void);

/* Reap what has ended. The status of the watched process is kept: processes_ended gives true once it has, and its
 * status. */
void processes_watch(pid_t pid);
bool processes_ended(int *status_out);

/* Processes of that kind that live below the test. */
size_t processes_find(enum process_kind kind, pid_t out[], size_t n_most);

/* None is left; waits for those that are about to end. */
void processes_expect_none(void);

/* The most bytes that were ever resident of a process. */
size_t processes_peak(pid_t pid);

/* Open descriptors of a process. */
int processes_n_file(pid_t pid);

#endif
