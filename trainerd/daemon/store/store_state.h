/* The inside of a store, for the files store*: its base, statements and lock, and how they fail. */
#ifndef TRAINERD_DAEMON_STORE_STATE_H
#define TRAINERD_DAEMON_STORE_STATE_H

#include "trainerd/daemon/store/store.h"
#include "trainerd/daemon/store/store_audit.h"
#include "trainerd/daemon/store/store_row.h"

#include <limits.h>
#include <sqlite3.h>

#define STORE_VERSION 8
#define STORE_OLD ".version-%lld" /* after the store's name: a copy of it as an older trainerd had it */
#define STORE_SQL_BYTES (3 * STORE_ROW_BYTES)

/* Tables that later versions have brought: version 3 an id, which the folders of its jobs are marked with
 * (folders.h); version 4 submissions of several jobs, each with its place there; version 5 records of who changed
 * what (store_audit.h), whose numbers are not used again, so that what was removed is seen; version 8 indexes, by
 * which jobs are listed, counted and put in order (store_query.c). */
#define STORE_FACTS                                                                                                  \
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT);"                                                        \
    "INSERT INTO facts VALUES ('id', lower(hex(randomblob(16))));"
#define STORE_BY_SUBMISSION                                                                                          \
    "CREATE UNIQUE INDEX by_submission ON jobs (uid, submission_id, place) WHERE submission_id <> '';"
#define STORE_AUDIT_TABLE                                                                                            \
    "CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, uid INTEGER, peer TEXT, what TEXT, job "     \
    "INTEGER, "                                                                                                      \
    "exit_code INTEGER, text TEXT);"

#define STORE_HAS_ENDED "state IN ('SUCCEEDED', 'FAILED', 'CANCELLED')"
/* A partial index covers what it is asked only with the column of its condition. */
#define STORE_INDEXES                                                                                                \
    "CREATE INDEX by_state ON jobs (state, ended_at);"                                                               \
    "CREATE INDEX by_turn ON jobs (uid, state, priority DESC) WHERE state = 'QUEUED';"                               \
    "CREATE INDEX by_name ON jobs (name, uid);"                                                                      \
    "CREATE INDEX by_group ON jobs (uid, job_group, state) WHERE job_group <> '';"                                   \
    "CREATE INDEX by_tags ON jobs (uid, tags, state) WHERE tags <> '';"

enum store_statement {
    STORE_INSERT,
    STORE_UPDATE,
    STORE_LAST,
    STORE_HISTORY,
    STORE_HISTORY_OF,
    STORE_FIND,
    STORE_SUBMISSION,
    STORE_AUDIT,
    STORE_AUDIT_OF,
    STORE_AUDIT_CUT,
    STORE_FACT,
    STORE_FACT_PUT,
    STORE_USES,
    STORE_REMOVE,
    STORE_REMOVE_HISTORY,
    STORE_COUNT,
    STORE_NAMED,
    STORE_NAMED_OF,
    STORE_WAITING,
    STORE_WAITING_OF,
    STORE_FIRST,
    STORE_RECENT,
    STORE_ENDS,
    STORE_GET,
    STORE_EACH_OPEN,
    STORE_N_STATEMENT
};

/* What a filter has. */
enum { STORE_OF_ALL, STORE_OF_GROUP, STORE_OF_TAG, STORE_OF_BOTH, STORE_N_FILTER };

/* The request whose changes are saved now. */
struct store_request {
    struct store_audit row; /* its texts are those below */
    char from[STORE_AUDIT_FROM_BYTES], what[STORE_AUDIT_WHAT_BYTES];
    bool is_open, is_saved; /* under way; a row was saved with a change of it */
};

struct store {
    sqlite3 *base;
    sqlite3_stmt *statement[STORE_N_STATEMENT];
    sqlite3_stmt *select[STORE_N_FILTER][STORE_N_STATES], *count[STORE_N_FILTER]; /* NULL: not used yet */
    int lock;                                                                     /* -1: not held */
    char path[PATH_MAX];
    char id[STORE_ID_BYTES];
    struct store_request request;
    int64_t n_of_state[JOB_STATE_N], n_more[JOB_STATE_N]; /* jobs in each state; more, when the transaction ends */
    bool keeps_copy;                                      /* an upgrade puts a copy of the old store beside it */
    bool found_no_space;                                  /* the last failure: the disk is full */
};

/* Fail with SQLite's message. STATUS_IO may pass, as a full disk does; damage, STATUS_DATA, does not. */
enum status store_fail(struct store *store, const char *doing);

enum status store_run(struct store *store, const char *sql, const char *doing);

/* --- store_statement.c --- */

/* At its first use; when a store is opened, all: one that lacks a table is refused. errors  of store_fail */
enum status store_prepare(struct store *store, enum store_statement which);
void store_finalize(struct store *store);

/* Bind values in their order. types: "i" int64_t, "d" double, "t" a text, borrowed until the end. NULL: it fails */
sqlite3_stmt *store_bind(struct store *store, enum store_statement which, const char *types, ...);

/* After its last step, which returned `code`: it is free for the next use. errors  of store_fail */
enum status store_end(struct store *store, sqlite3_stmt *statement, int code, const char *doing);
/* One step, and its end. */
enum status store_step(struct store *store, sqlite3_stmt *statement, const char *doing);
/* Read the first column of all rows. */
enum status store_ids(struct store *store, sqlite3_stmt *statement, int64_t *ids_out, size_t *n_out);

/* --- store_open.c --- */

/* End a transaction: commit it, or after a failure, also of its beginning, roll it back and keep the reason. */
enum status store_finish(struct store *store, enum status status, const char *doing);

/* Within a transaction: a row of the request under way, if there is one, with this job (0: none). */
enum status store_audit_change(struct store *store, int64_t job);

/* Within a transaction: a fact / what a user has used. */
enum status store_fact_save(struct store *store, const char *name, const char *value);
enum status store_use_save(struct store *store, const struct store_use *use);

/* The first number of a query's first row. */
enum status store_number(struct store *store, const char *sql, int64_t *out);

/* One daemon per folder: take its lock. errors  STATUS_PEER another has it; STATUS_CREATE */
enum status store_lock(struct store *store, const char *folder);

/* Open or make the file `store->path`, check it and upgrade it. errors  those of store_open */
enum status store_open_file(struct store *store);

/* Open it as it is, to read. errors  STATUS_DATA it is no store, or a newer version's; STATUS_NO_INPUT */
enum status store_open_to_read(struct store *store);

/* Count all jobs. errors  STATUS_IO, STATUS_DATA */
enum status store_count_all(struct store *store);

/* Give a file another name in its folder, and let that be on the disk. errors  STATUS_CREATE, STATUS_IO */
enum status store_place(const char *from, const char *to);

/* --- store_upgrade.c --- */

/* Upgrade from an older version, all or nothing. keeps_copy: leave a copy of the old store, FILE.version-N.
 *
 *   errors  STATUS_CREATE, STATUS_IO: the store is as it was
 */
enum status store_upgrade(struct store *store, int64_t version);

/* Keep in the store which trainerd writes it. errors  STATUS_IO */
enum status store_sign(struct store *store);

/* Fail, with the trainerd that wrote it, where it says so, and the ways out. */
enum status store_refuse_newer(struct store *store, int64_t version);

#endif
