/* Jobs, a machine of 4 slots, 2 GPUs and 8 GiB, and what the queue decides. Each test has its own. */
#ifndef TESTS_UNIT_DAEMON_QUEUE_CASE_H
#define TESTS_UNIT_DAEMON_QUEUE_CASE_H

#include "trainerd/daemon/jobs/queue.h"

#include <criterion/criterion.h>
#include <string.h>

#define GIB (INT64_C(1) << 30)
#define QUEUE_CASE_MOST 64

extern struct job_record jobs[QUEUE_CASE_MOST];
extern struct queue_decision decision[QUEUE_CASE_MOST];
extern struct queue_capacity whole;

/* A queued job that needs this much; ids go up in the order of calls. */
struct job_record *queued(int32_t n_slot, int64_t memory);
struct job_record *running(int32_t n_slot, int64_t memory);

/* Decide for all jobs. */
void decide(double now);

#define EXPECT(at, verdict_, reason_, words)                                                                         \
    do {                                                                                                             \
        cr_assert_eq(decision[at].verdict, QUEUE_VERDICT_##verdict_, "%d: %s", (int)decision[at].verdict,            \
                     decision[at].text);                                                                             \
        cr_assert_eq(decision[at].reason, JOB_REASON_##reason_, "%s: %s", job_reason_name(decision[at].reason),      \
                     decision[at].text);                                                                             \
        cr_assert_not_null(strstr(decision[at].text, words), "%s", decision[at].text);                               \
    } while (0)
#define STARTS(at) EXPECT(at, START, NONE, "")

#endif
