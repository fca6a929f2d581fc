/* The job of a test's folder, run to its end from a line of settings: for tests of what whole jobs leave behind. A failure ends the test. */
#ifndef TESTS_SUPPORT_JOB_RUN_H
#define TESTS_SUPPORT_JOB_RUN_H

#include <jansson.h>

extern char job_run_log[1 << 16]; /* standard error of the job that ended last */

/* Run the folder's job.toml on the coordinator beside the test program; it ends with exit code 0. Its streams go to the folder's files
 * stdout and stderr.
 *
 *   format  of the settings, "--set train.epochs=%d --resume": a shell reads them
 */
void job_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same with a shell's settings of the environment before it, "TRAINERD_FAULTS=..."; the exit code, 128 and more where a signal ended it. */
int job_run_code(const char *environment, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same: it ends with this exit code, and its standard error has `part`. */
void job_run_expect(int code, const char *part, const char *environment, const char *settings);

/* The job's plan (--plan --json); the caller releases it. */
json_t *job_run_plan(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
