/* A job store in the test's folder: jobs to put there, and those that are found. A failure ends the test. */
#ifndef TESTS_SUPPORT_STORE_CASE_H
#define TESTS_SUPPORT_STORE_CASE_H

#include "trainerd/daemon/store/store.h"

#include <stddef.h>
#include <stdint.h>

#define STORE_CASE_MOST 16

extern const struct store_submission store_case_submission;
extern struct job_record store_case_found[STORE_CASE_MOST]; /* by the last store_case_find, store_case_n of them */
extern size_t store_case_n;

/* Open the folder's store. owns  the caller: store_close */
struct store *store_case_open(void);

/* A queued job of user 1000. */
struct job_record store_case_record(const char *name);

/* Insert one; its number, or less than 0: minus that of the job which has the submission id. */
int64_t store_case_insert(struct store *store, const char *name, const char *submission_id);

/* Read all jobs, at most STORE_CASE_MOST. */
void store_case_find(struct store *store);

/* The submission has n jobs of this user, numbered from `first`. */
void store_case_expect_submitted(struct store *store, uid_t uid, const char *submission_id, int64_t first, size_t n);

/* Run statements on the folder's file, which no store has open. */
void store_case_sql(const char *sql);

#endif
