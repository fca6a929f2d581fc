/* A daemon's inside, without its sockets, as a process that a test can kill: jobs and supervisor on a loop, driven
 * through a pipe.
 *
 * The test hears of every change of a job and keeps the newest of each. What fails here ends the test.
 */
#ifndef TESTS_SYSTEM_DAEMON_DAEMON_CASE_H
#define TESTS_SYSTEM_DAEMON_DAEMON_CASE_H

#include "trainerd/daemon/supervisor/supervisor.h"

#define DAEMON_CASE_JOBS_MOST 512

/* To be changed before the start. */
extern struct supervisor_options daemon_options;
extern struct jobs_options daemon_jobs;

extern const char *daemon_isolation; /* as daemon.isolation; NULL: no groups */
extern bool daemon_memory;           /* groups limit memory */
extern int64_t daemon_reserve_bytes; /* as daemon.reserve */

/* Called with each thing heard of a job, the daemon's first word after a start included. before: what was known.
 * NULL: none */
extern void (*daemon_heard)(const struct job_record *before, const struct job_record *after);

/* Start it on folder/state / kill it outright / end it orderly. A daemon that runs ends with the test. */
void daemon_start(void);
void daemon_kill(void);
void daemon_end(void);
/* Send it a signal. */
void daemon_signal(int number);
/* It was killed by somebody else: true once, and it may be started again. */
bool daemon_has_died(void);

/* Submit a job file with these lines and, in section [dataset], those of its graph. Paths are relative to the folder.
 */
struct daemon_job {
    const char *lines, *graph; /* NULL: karate */
    uid_t uid;                 /* whose it is; 0: ours */
    int32_t priority, max_restarts;
    double time_limit_s;
};
int64_t daemon_submit(const struct daemon_job *job);
/* The same where it may be refused: *id_out is 0 then. */
enum status daemon_try_submit(const struct daemon_job *job, int64_t *id_out);

/* Run the same job by hand, undisturbed, to folder/plain. */
void daemon_run_plain(const char *lines);

/* 'c' cancel, 'r' resume, 'R' resume by an administrator, 'k' checkpoint, 's' scale to n. Gives the status; the
 * reason is in daemon_reason. */
enum status daemon_command(char what, int64_t id, int32_t n);
extern char daemon_reason[512];

/* What is known of a job. Borrowed. */
const struct job_record *daemon_job(int64_t id);
/* Wait until its state is this one / it has ended, then say its state / it has done so many epochs in this attempt or
 * a later. */
void daemon_await(int64_t id, enum job_state state);
enum job_state daemon_await_end(int64_t id);
void daemon_await_epoch(int64_t id, int32_t attempt, int64_t epoch);
/* Wait until TRAINERD_FAULTS has stopped its coordinator in this attempt, which goes on when told so. */
void daemon_await_stopped(int64_t id, int32_t attempt);
void daemon_continue(int64_t id);
/* Wait for the next change of any job. false: patience ended */
bool daemon_hear(void);
/* Take what was said meanwhile, and up to one thing that is said within so many milliseconds. false: nothing was */
bool daemon_listen(int wait_ms);

/* Kill a job's coordinator / its worker of that rank, found below the coordinator. false: no such process now. */
bool daemon_kill_coordinator(int64_t id);
bool daemon_kill_worker(int64_t id, int which);

/* Coordinators of a job that live: more than one is a mistake. */
int daemon_n_coordinator(int64_t id);

/* The end of each test (.fini): end the daemon if it runs, find no process of ours, remove the folder. */
void daemon_case_end(void);

/* No process of ours is left but the test's own: coordinators, workers. Waits for those that are about to end. */
void daemon_expect_nobody(void);

#endif
