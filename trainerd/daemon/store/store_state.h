/* The inside of a store, for the files store*: its base, statements and lock, and how they fail. */
#ifndef TRAINERD_DAEMON_STORE_STATE_H
#define TRAINERD_DAEMON_STORE_STATE_H

#include "trainerd/daemon/store/store.h"
#include "trainerd/daemon/store/store_audit.h"
#include "trainerd/daemon/store/store_row.h"

#include <limits.h>
#include <sqlite3.h>

#define STORE_VERSION 7
#define STORE_OLD ".version-%lld" /* after the store's name: a copy of it as an older trainerd had it */
#define STORE_SQL_BYTES (3 * STORE_ROW_BYTES)

/* Tables that later versions have brought: version 3 an id, which the folders of its jobs are marked with
 * (folders.h); version 4 submissions of several jobs, each with its place there; version 5 records of who changed
 * what (store_audit.h), whose numbers are not used again, so that what was removed is seen. */
#define STORE_FACTS                                                                                                  \
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT);"                                                        \
    "INSERT INTO facts VALUES ('id', lower(hex(randomblob(16))));"
#define STORE_BY_SUBMISSION                                                                                          \
    "CREATE UNIQUE INDEX by_submission ON jobs (uid, submission_id, place) WHERE submission_id <> '';"
#define STORE_AUDIT_TABLE                                                                                            \
    "CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, uid INTEGER, peer TEXT, what TEXT, job "     \
    "INTEGER, "                                                                                                      \
    "exit_code INTEGER, text TEXT);"

enum store_statement {
    STORE_INSERT,
    STORE_UPDATE,
    STORE_SAME,
    STORE_HISTORY,
    STORE_FIND,
    STORE_AUDIT,
    STORE_N_STATEMENT
};

/* The request whose changes are saved now. */
struct store_request {
    struct store_audit row; /* its texts are those below */
    char from[STORE_AUDIT_FROM_BYTES], what[STORE_AUDIT_WHAT_BYTES];
    bool is_open, is_saved; /* under way; a row was saved with a change of it */
};

struct store {
    sqlite3 *base;
    sqlite3_stmt *statement[STORE_N_STATEMENT];
    int lock; /* -1: not held */
    char path[PATH_MAX];
    char id[STORE_ID_BYTES];
    struct store_request request;
    bool keeps_copy;     /* an upgrade puts a copy of the old store beside it */
    bool found_no_space; /* the last failure: the disk is full */
};

/* Fail with SQLite's message. STATUS_IO may pass, as a full disk does; damage, STATUS_DATA, does not. */
enum status store_fail(struct store *store, const char *doing);

enum status store_run(struct store *store, const char *sql, const char *doing);

/* End a transaction: commit it, or roll it back and keep the reason. */
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

/* Let a folder's names be on the disk. errors  STATUS_IO */
enum status store_sync_folder(const char *folder);

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
