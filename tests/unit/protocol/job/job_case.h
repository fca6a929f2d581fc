/* Texts of job files, read or refused: for tests of keys and of rules across them. A failure ends the test. */
#ifndef TESTS_UNIT_PROTOCOL_JOB_CASE_H
#define TESTS_UNIT_PROTOCOL_JOB_CASE_H

#include "protocol/job/job.h"

#define GRAPH "[dataset]\ngenerator = \"karate\"\n"

extern struct job job_case_scratch;

/* Read a text / with a setting over it, as "job.toml". */
enum status job_case_load(const char *text, struct job *out);
enum status job_case_load_set(const char *text, const char *setting, struct job *out);

/* It ended so, and the reason has every one of these parts; the last is NULL. */
void job_case_refused(enum status status, enum status want, const char *const *part);

/* The text is refused as a bad job file, and the reason has every one of these parts. */
#define REFUSED(text, ...)                                                                                           \
    job_case_refused(job_case_load(text, &job_case_scratch), STATUS_CONFIG, (const char *const[]){__VA_ARGS__, NULL})
#define SETTING_REFUSED(setting, ...)                                                                                \
    job_case_refused(job_case_load_set(GRAPH, setting, &job_case_scratch), STATUS_CONFIG,                            \
                     (const char *const[]){__VA_ARGS__, NULL})

#endif
