/* What the tests of the fleet share: a small job, and what they look at when it is over. Failing, these end the test. */
#ifndef TESTS_SUPPORT_FLEET_CASE_H
#define TESTS_SUPPORT_FLEET_CASE_H

#include "protocol/job/job.h"

#include <sys/types.h>

/* A job on the karate club in so many parts, for so many workers of this machine. */
struct job fleet_case(int n_worker, int n_part);

/* The reason of the last failure holds all these words; NULL ends them. */
void fleet_check_reason(const char *const words[]);

/* Its seconds in "was silent for N s" lie between the timeout and five times that. */
void fleet_check_silence(double timeout_s);

/* Children of a process, as many as fit, in the order they were started; how many. */
int fleet_workers(pid_t coordinator, pid_t pids[], int n_most);

/* No child is left, neither running nor dead. */
void fleet_check_childless(void);

#endif
