/* How the store of an older trainerd becomes one of this version: a list of changes, one for each version, made in
 * one transaction, after a copy of the store as it was has been put beside it. So a daemon that is killed meanwhile
 * leaves the old store, or the new one, and there is a way back. */
#include "protocol/base/fault.h"
#include "protocol/base/version.h"
#include "trainerd/daemon/store/store_state.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DOING "bring it up to date"

/* What a version changes. */
struct change {
    const char *sql;
    /* The columns of jobs change. Rows that a repair has set aside keep those that they have, under another name: the
     * next repair makes its own table. */
    bool has_columns;
};

/* clang-format off */
static const struct change changes[STORE_VERSION + 1] = {
    /* GPUs that attempts hold. Running attempts saw all of the daemon's GPUs; their workers use the first ones. */
    [2] = {"ALTER TABLE jobs ADD COLUMN gpus INTEGER NOT NULL DEFAULT 0;"
           "UPDATE jobs SET gpus = CASE WHEN n_gpu < 63 THEN (1 << n_gpu) - 1 ELSE -1 END "
           "WHERE n_gpu > 0 AND state IN ('PREPARING', 'STARTING', 'RUNNING');", false},
    [3] = {STORE_FACTS, false},
    [4] = {"ALTER TABLE jobs ADD COLUMN place INTEGER NOT NULL DEFAULT 0;ALTER TABLE jobs ADD COLUMN job_group "
           "TEXT;ALTER TABLE jobs ADD COLUMN tags TEXT;ALTER TABLE jobs ADD COLUMN n_part INTEGER NOT NULL DEFAULT "
           "0;ALTER TABLE jobs ADD COLUMN metric TEXT;ALTER TABLE jobs ADD COLUMN best_valid_metric REAL;ALTER "
           "TABLE jobs ADD COLUMN best_test_metric REAL;DROP INDEX by_submission;" STORE_BY_SUBMISSION, true},
    [5] = {STORE_AUDIT_TABLE, false},
    /* The numbers of Slurm's jobs. */
    [6] = {"ALTER TABLE jobs ADD COLUMN slurm INTEGER NOT NULL DEFAULT 0;", true},
    /* How few workers a plan holds for. */
    [7] = {"ALTER TABLE jobs ADD COLUMN n_worker_least INTEGER NOT NULL DEFAULT 0;"
           "ALTER TABLE jobs ADD COLUMN n_byte_fewer INTEGER NOT NULL DEFAULT 0;", true},
    [8] = {STORE_INDEXES, false},
};
/* clang-format on */

static enum status rename_aside(struct store *store, int64_t version)
{
    char sql[64];
    int64_t n_aside = 0;
    enum status status = store_number(store, "SELECT count(*) FROM sqlite_master WHERE name = 'aside'", &n_aside);
    snprintf(sql, sizeof sql, "ALTER TABLE aside RENAME TO aside_%lld", (long long)version);
    return status == STATUS_OK && n_aside > 0 ? store_run(store, sql, DOING) : status;
}

/* The store as it was, whole or not at all: `trainctl restore` takes it. */
static enum status keep_copy(struct store *store, int64_t version)
{
    char path[PATH_MAX], new_path[PATH_MAX];
    snprintf(path, sizeof path, "%.4000s" STORE_OLD, store->path, (long long)version);
    snprintf(new_path, sizeof new_path, "%.4050s.new", path);
    unlink(new_path); /* of an upgrade that was killed; only the folder's owner can have made it */
    enum status status = store_backup(store, new_path);
    if (status != STATUS_OK) {
        return status;
    }
    return store_place(new_path, path);
}

enum status store_upgrade(struct store *store, int64_t version)
{
    char sql[64];
    enum status status = store->keeps_copy ? keep_copy(store, version) : STATUS_OK;
    FAULT(UPGRADE);
    if (status != STATUS_OK || (status = store_run(store, "BEGIN IMMEDIATE", DOING)) != STATUS_OK) {
        return status;
    }
    for (int64_t next = version + 1; next <= STORE_VERSION && status == STATUS_OK; next++) {
        status = store_run(store, changes[next].sql, DOING);
        status = status == STATUS_OK && changes[next].has_columns ? rename_aside(store, next - 1) : status;
        FAULT(UPGRADE);
    }
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d", STORE_VERSION);
    if (status == STATUS_OK) {
        status = store_run(store, sql, DOING);
    }
    FAULT(UPGRADE);
    status = store_finish(store, status, DOING);
    FAULT(UPGRADE);
    return status;
}

/* --- which trainerd wrote it --- */

enum status store_sign(struct store *store)
{
    char last[STORE_FACT_BYTES];
    enum status status = store_fact_get(store, "trainerd", last);
    return status == STATUS_OK && strcmp(last, TRAINERD_VERSION) != 0
               ? store_fact_put(store, "trainerd", TRAINERD_VERSION)
               : status;
}

enum status store_refuse_newer(struct store *store, int64_t version)
{
    char writer[STORE_FACT_BYTES] = "", copy[PATH_MAX] = "";
    if (store_fact_get(store, "trainerd", writer) != STATUS_OK || strspn(writer, "0123456789.") != strlen(writer)) {
        writer[0] = '\0'; /* what a newer version says there may be anything */
    }
    for (int64_t old = STORE_VERSION; old > 0; old--) {
        snprintf(copy, sizeof copy, "%.4000s" STORE_OLD, store->path, (long long)old);
        if (access(copy, F_OK) == 0) {
            break;
        }
        copy[0] = '\0';
    }
    bool is_known = writer[0] != '\0', has_copy = copy[0] != '\0';
    return status_fail(STATUS_DATA,
                       "'%s' has version %lld, written by %s%s; this is trainerd " TRAINERD_VERSION
                       ", which expected version %d or older. Start %s%s again, or a newer one, or take %s%s",
                       store->path, (long long)version, is_known ? "trainerd " : "a newer trainerd", writer,
                       STORE_VERSION, is_known ? "trainerd " : "that trainerd", writer,
                       has_copy ? "the store as it was before the upgrade: trainctl restore "
                                : "a backup from before the upgrade: trainctl restore FILE",
                       copy);
}
