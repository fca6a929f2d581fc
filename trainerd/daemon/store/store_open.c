/* How a store is opened: its lock, its tables and their versions. */
#include "trainerd/daemon/store/store.h"

#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "trainerd/daemon/store/store_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORE_APPLICATION 0x74726e64 /* "trnd" */

/* --- errors --- */

#define EXPECTED                                                                                                     \
    "; expected a job store that is not damaged. trainctl restore FILE takes a backup of it, trainctl repair what "  \
    "can be read"

enum status store_fail(struct store *store, const char *doing)
{
    int code = sqlite3_errcode(store->base) & 0xff;
    store->found_no_space = code == SQLITE_FULL;
    bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    return status_fail(damaged ? STATUS_DATA : STATUS_IO, "cannot %s in '%s': %s%s", doing, store->path,
                       sqlite3_errmsg(store->base),
                       damaged                ? EXPECTED
                       : code == SQLITE_IOERR ? file_limit_text()
                                              : "");
}

enum status store_run(struct store *store, const char *sql, const char *doing)
{
    return sqlite3_exec(store->base, sql, NULL, NULL, NULL) == SQLITE_OK ? STATUS_OK : store_fail(store, doing);
}

enum status store_finish(struct store *store, enum status status, const char *doing)
{
    if (status != STATUS_OK || (status = store_run(store, "COMMIT", doing)) != STATUS_OK) {
        sqlite3_exec(store->base, "ROLLBACK", NULL, NULL, NULL);
    }
    for (int state = 0; state < JOB_STATE_N && status == STATUS_OK; state++) {
        store->n_of_state[state] += store->n_more[state];
    }
    memset(store->n_more, 0, sizeof store->n_more);
    store->request.is_saved = store->request.is_saved || (store->request.is_open && status == STATUS_OK);
    return status;
}

/* --- opening --- */

/* Make the state folder, and take away what others may do there: they neither list nor change it. Below root's,
 * users' jobs under Slurm reach their own folders by name. */
static enum status folder_close(const char *folder)
{
    struct stat about;
    enum status status = file_folder_make(folder, NULL);
    if (status != STATUS_OK || stat(folder, &about) != 0) {
        return status;
    }
    const mode_t open = about.st_mode & (geteuid() == 0 ? 0066 : 0077);
    if (open != 0 && about.st_uid == geteuid() && chmod(folder, (about.st_mode & 07777) & ~open) != 0) {
        return status_fail(STATUS_CREATE, "cannot close the state folder '%s' to other users: %s", folder,
                           strerror(errno));
    }
    return STATUS_OK;
}

/* The lock ends with the process. Unlike flock's, a forked child does not hold it before it executes a program. */
enum status store_lock(struct store *store, const char *folder)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/lock", folder) >= (int)sizeof path) {
        return status_fail(STATUS_CREATE, "the state folder's path is too long: '%.64s…'", folder);
    }
    store->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (store->lock < 0) {
        return status_fail(STATUS_CREATE, "cannot make '%s': %s", path, strerror(errno));
    }
    const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(store->lock, F_SETLK, &whole) != 0) {
        return errno == EACCES || errno == EAGAIN
                   ? status_fail(STATUS_PEER, "another daemon serves the state folder '%s'", folder)
                   : status_fail(STATUS_CREATE, "cannot lock '%s': %s", path, strerror(errno));
    }
    return STATUS_OK;
}

enum status store_number(struct store *store, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    if (sqlite3_prepare_v2(store->base, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        status = store_fail(store, "read");
    } else {
        *out = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return status;
}

static enum status make_tables(struct store *store)
{
    char row[STORE_ROW_BYTES], sql[STORE_SQL_BYTES];
    store_row_print(STORE_ROW_DECLARED, row);
    snprintf(
        sql, sizeof sql,
        "BEGIN IMMEDIATE;CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, submission_id TEXT, config TEXT, "
        "settings BLOB, folder TEXT, output TEXT, place INTEGER NOT NULL DEFAULT 0, %s);" STORE_BY_SUBMISSION
            STORE_INDEXES
        "CREATE TABLE history (job INTEGER, at REAL, state TEXT, reason TEXT, attempt INTEGER, text TEXT);"
        "CREATE INDEX by_job ON history (job);" STORE_FACTS STORE_AUDIT_TABLE "PRAGMA application_id = %d;"
        "PRAGMA user_version = %d;",
        row, STORE_APPLICATION, STORE_VERSION);
    return store_finish(store, store_run(store, sql, "make tables"), "make tables");
}

static enum status read_id(struct store *store)
{
    char id[STORE_FACT_BYTES];
    enum status status = store_fact_get(store, "id", id);
    if (status == STATUS_OK && (strlen(id) != STORE_ID_BYTES - 1 || strspn(id, "0123456789abcdef") != strlen(id))) {
        status = status_fail(STATUS_DATA, "the id of '%s' is '%.40s', expected %d hexadecimal digits", store->path,
                             id, STORE_ID_BYTES - 1);
    }
    snprintf(store->id, sizeof store->id, "%.*s", STORE_ID_BYTES - 1, id);
    return status;
}

/* The version of the file; 0: it is new. errors  STATUS_DATA it is another program's, or of a newer version */
static enum status find_version(struct store *store, int64_t *version_out)
{
    int64_t application = 0, n_table = 0;
    enum status status = store_number(store, "PRAGMA application_id", &application);
    if (status == STATUS_OK && (status = store_number(store, "PRAGMA user_version", version_out)) == STATUS_OK) {
        status = store_number(store, "SELECT count(*) FROM sqlite_master", &n_table);
    }
    if (status != STATUS_OK || (application == 0 && *version_out == 0 && n_table == 0)) {
        return status;
    }
    if (application != STORE_APPLICATION) {
        return status_fail(STATUS_DATA, "'%s' is another program's SQLite file; expected a job store", store->path);
    }
    if (*version_out < 1 || *version_out > STORE_VERSION) {
        return store_refuse_newer(store, *version_out);
    }
    return STATUS_OK;
}

/* A new file gets its tables, an older one what its version lacks. */
static enum status check_version(struct store *store)
{
    int64_t version = 0;
    enum status status = find_version(store, &version);
    if (status == STATUS_OK && version < STORE_VERSION) {
        status = version == 0 ? make_tables(store) : store_upgrade(store, version);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return read_id(store);
}

static enum status check_pages(struct store *store)
{
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    if (sqlite3_prepare_v2(store->base, "PRAGMA quick_check(1)", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        status = store_fail(store, "check pages");
    } else {
        const char *result = (const char *)sqlite3_column_text(statement, 0);
        if (result == NULL || strcmp(result, "ok") != 0) {
            status = status_fail(STATUS_DATA, "'%s' is damaged: %.200s" EXPECTED, store->path,
                                 result == NULL ? "quick_check gave no result" : result);
        }
    }
    sqlite3_finalize(statement);
    return status;
}

enum status store_open_file(struct store *store)
{
    /* SQLite creates its other files with the mode of this one. */
    int file = open(store->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return status_fail(STATUS_CREATE, "cannot open '%s': %s", store->path, strerror(errno));
    }
    close(file);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(store->path, &store->base, flags, NULL) != SQLITE_OK) {
        return status_fail(STATUS_CREATE, "cannot open '%s': %s", store->path, sqlite3_errmsg(store->base));
    }
    /* Exclusive: SQLite then needs no shared mapping, which a full disk would turn into a SIGBUS. */
    enum status status = store_run(
        store,
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "PRAGMA temp_store = MEMORY;",
        "begin");
    if (status == STATUS_OK && (status = check_version(store)) == STATUS_OK &&
        (status = check_pages(store)) == STATUS_OK) {
        for (int i = 0; i < STORE_N_STATEMENT && status == STATUS_OK; i++) {
            status = store_prepare(store, (enum store_statement)i);
        }
    }
    if (status == STATUS_OK && (status = store_count_all(store)) == STATUS_OK) {
        (void)store_sign(
            store); /* for people alone: a disk that is full now does not keep the daemon from starting */
    }
    return status;
}

enum status store_open_to_read(struct store *store)
{
    int64_t version = 0;
    if (access(store->path, F_OK) != 0) {
        return status_fail(STATUS_NO_INPUT, "cannot open '%s': %s", store->path, strerror(errno));
    }
    if (sqlite3_open_v2(store->path, &store->base, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        return status_fail(STATUS_IO, "cannot open '%s': %s", store->path, sqlite3_errmsg(store->base));
    }
    enum status status = find_version(store, &version);
    return status == STATUS_OK && version == 0
               ? status_fail(STATUS_DATA, "'%s' is empty; expected a job store", store->path)
               : status;
}

const char *store_id(const struct store *store)
{
    return store->id;
}

bool store_found_no_space(const struct store *store)
{
    return store->found_no_space;
}

enum status store_open(const char *folder, struct store **out)
{
    struct store *store = memory_alloc(1, sizeof *store);
    store->lock = -1;
    enum status status = folder_close(folder);
    if (status == STATUS_OK) {
        status = store_lock(store, folder);
    }
    if (status == STATUS_OK &&
        snprintf(store->path, sizeof store->path, "%s/jobs.sqlite", folder) >= (int)sizeof store->path) {
        status = status_fail(STATUS_CREATE, "the state folder's path is too long: '%.64s…'", folder);
    }
    store->keeps_copy = true;
    if (status != STATUS_OK || (status = store_open_file(store)) != STATUS_OK) {
        store_close(store);
        return status;
    }
    *out = store;
    return STATUS_OK;
}

void store_close(struct store *store)
{
    if (store == NULL) {
        return;
    }
    store_finalize(store);
    sqlite3_close(store->base);
    file_close(store->lock);
    free(store);
}
