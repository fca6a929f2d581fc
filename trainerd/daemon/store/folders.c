#include "trainerd/daemon/store/folders.h"

#include "protocol/base/log.h"
#include "protocol/files/dir.h"
#include "trainerd/daemon/store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK ".store"
#define DIGITS_MOST 18 /* of a number that fits 63 bits */

/* A job's number; 0: the name is not a number. */
static int64_t number_of(const char *name)
{
    size_t n = strlen(name);
    return n <= DIGITS_MOST && n > 0 && name[0] != '0' && strspn(name, "0123456789") == n ? strtoll(name, NULL, 10)
                                                                                          : 0;
}

enum status folders_highest(const char *jobs, int64_t *out)
{
    *out = 0;
    DIR *all = opendir(jobs);
    if (all == NULL) {
        return errno == ENOENT ? STATUS_OK
                               : status_fail(STATUS_CREATE, "cannot read the folder '%s': %s", jobs, strerror(errno));
    }
    for (const struct dirent *entry; (entry = readdir(all)) != NULL;) {
        int64_t number = number_of(entry->d_name);
        *out = number > *out ? number : *out;
    }
    closedir(all);
    return STATUS_OK;
}

/* found "": there is no mark */
static enum status mark_read(const struct dir *dir, char found[STORE_ID_BYTES])
{
    int file;
    enum status status = dir_file_open(dir, MARK, &file);
    found[0] = '\0';
    if (status != STATUS_OK) {
        return status == STATUS_NO_INPUT ? STATUS_OK : status;
    }
    ssize_t n = read(file, found, STORE_ID_BYTES - 1);
    found[n > 0 ? n : 0] = '\0';
    close(file);
    return STATUS_OK;
}

enum status folders_mark(const char *jobs, const char *id)
{
    struct dir dir;
    const struct iovec piece = {.iov_base = (void *)id, .iov_len = strlen(id)};
    enum status status = dir_open(jobs, DIR_LAST_NO_LINK, &dir);
    if (status == STATUS_OK) {
        status = dir_replace(&dir, MARK, &piece, 1);
        dir_close(&dir);
    }
    return status;
}

#define WAY_OUT                                                                                                      \
    "trainctl restore FILE takes a backup of it, trainctl repair goes on with this one, above all numbers that "     \
    "folders have"

enum status folders_check(const char *jobs, const char *id, int64_t highest)
{
    struct dir dir;
    char found[STORE_ID_BYTES];
    int64_t highest_folder = 0;
    enum status status = dir_open(jobs, DIR_LAST_NO_LINK, &dir);
    if (status != STATUS_OK) {
        return status;
    }
    status = mark_read(&dir, found);
    dir_close(&dir);
    if (status == STATUS_OK) {
        status = folders_highest(jobs, &highest_folder);
    }
    if (status != STATUS_OK || (highest_folder <= highest && strcmp(found, id) == 0)) {
        return status;
    }
    if (highest_folder > highest) {
        return status_fail(STATUS_DATA,
                           "the folder '%s/%lld' is there, but the store's jobs have had numbers up to %lld: the "
                           "store is new, or an older one. " WAY_OUT,
                           jobs, (long long)highest_folder, (long long)highest);
    }
    if (found[0] != '\0' && highest_folder > 0) {
        return status_fail(STATUS_DATA, "the folders in '%s' are those of another store's jobs. " WAY_OUT, jobs);
    }
    if (folders_mark(jobs, id) != STATUS_OK) { /* on a full disk jobs are looked after all the same */
        log_warn("%s", status_reason());
    }
    return STATUS_OK;
}

enum status folders_make(const char *folder, const struct job_record *record)
{
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return status_fail(STATUS_CREATE, "cannot make the job's folder '%s': %s", folder, strerror(errno));
    }
    struct stat about;
    if (lstat(folder, &about) != 0 || !S_ISDIR(about.st_mode)) {
        return status_fail(STATUS_CREATE, "'%s' is not a folder; expected the job's folder", folder);
    }
    /* Daemons before this version gave it to the job's owner. */
    return about.st_uid == geteuid() || about.st_uid == record->uid
               ? STATUS_OK
               : status_fail(
                     STATUS_CREATE,
                     "'%s' belongs to user %u; expected a folder of the daemon's, or of user %u, whose job this is",
                     folder, (unsigned)about.st_uid, (unsigned)record->uid);
}

/* Names of protocol/files/job_files.h, and those of older trainerds. */
static bool is_of_job(const char *name)
{
    static const char *const names[] = {"runs", "events.jsonl", "metrics.jsonl", "result.json", "log", "lock"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    size_t n = strlen(name);
    return n > 9 && strncmp(name, "rank-", 5) == 0 && strcmp(name + n - 4, ".log") == 0;
}

/* Give what is beneath; until the folder itself is given no other user can have put anything into it. */
static void give_files(const struct dir *dir, const struct job_record *record)
{
    DIR *all = opendir(dir->path);
    for (const struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        if (is_of_job(entry->d_name)) {
            (void)!fchownat(dirfd(all), entry->d_name, record->uid, record->gid, AT_SYMLINK_NOFOLLOW);
        }
    }
    if (all != NULL) {
        closedir(all);
    }
}

enum status folders_give(const char *folder, const struct job_record *record)
{
    struct dir dir;
    struct stat about;
    enum status status = dir_open(folder, DIR_LAST_NO_LINK, &dir);
    if (status != STATUS_OK) {
        return status;
    }
    if (fstat(dir.file, &about) == 0 && about.st_uid == geteuid() && record->uid != geteuid()) {
        give_files(&dir, record);
        if (fchown(dir.file, record->uid, record->gid) != 0) {
            status = status_fail(STATUS_CREATE, "cannot give '%s' to user %u: %s", folder, (unsigned)record->uid,
                                 strerror(errno));
        }
    }
    dir_close(&dir);
    return status;
}

void folders_remove(const char *folder)
{
    struct dir dir, results;
    char target[PATH_MAX];
    if (dir_open(folder, DIR_LAST_NO_LINK, &dir) != STATUS_OK) {
        return;
    }
    dir_files_remove(&dir, is_of_job);
    if (dir_inner(&dir, "results", false, &results) == STATUS_OK) { /* and `run`: of older trainerds */
        dir_files_remove(&results, is_of_job);
        dir_close(&results);
        unlinkat(dir.file, "results", AT_REMOVEDIR);
    }
    if (readlinkat(dir.file, "run", target, sizeof target) >= 0) {
        unlinkat(dir.file, "run", 0);
    }
    dir_close(&dir);
    if (rmdir(folder) != 0 && errno != ENOENT) {
        log_warn("cannot remove the folder '%s' of an expired job: %s", folder, strerror(errno));
    }
}
