#include "trainerd/daemon/store/own_files.h"

#include "protocol/files/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files of an older daemon's job stay as they are, also where its owner is the daemon's own user. */
bool own_files_are(const char *folder)
{
    struct dir dir;
    struct stat about;
    enum status status = dir_open(folder, DIR_LAST_NO_LINK, &dir);
    if (status != STATUS_OK) {
        return status == STATUS_NO_INPUT;
    }
    bool is_ours = fstat(dir.file, &about) == 0 && about.st_uid == geteuid();
    bool has_runs = fstatat(dir.file, "runs", &about, AT_SYMLINK_NOFOLLOW) == 0;
    bool is_begun = fstatat(dir.file, "events.jsonl", &about, AT_SYMLINK_NOFOLLOW) == 0;
    dir_close(&dir);
    return is_ours && (has_runs || !is_begun);
}

static int append(const struct dir *dir, const char *name, int64_t n_most)
{
    struct stat about;
    int file = openat(dir->file, name, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file >= 0 && fstat(file, &about) == 0 && about.st_size >= n_most) {
        (void)!ftruncate(file, 0);
    }
    return file;
}

enum status own_files_open(const char *folder, int32_t n_rank, int64_t n_most, struct job_files *out, int *log_out)
{
    struct dir dir;
    char name[JOB_FILE_NAME_BYTES] = OWN_FILES_LOG;
    int n = JOB_FILE_RANK_0 + (n_rank < JOB_FILES_RANK_MOST ? n_rank : JOB_FILES_RANK_MOST);
    *out = (struct job_files){.most_bytes = n_most};
    *log_out = -1;
    enum status status = dir_open(folder, DIR_LAST_NO_LINK, &dir);
    if (status != STATUS_OK) {
        return status;
    }
    while (out->n < n) { /* "runs" is the first, so that events never lie there without it */
        job_files_name(out->n, name);
        out->file[out->n] = append(&dir, name, n_most);
        if (out->file[out->n] < 0) {
            break;
        }
        out->n++;
    }
    if (out->n == n) {
        snprintf(name, sizeof name, OWN_FILES_LOG);
        *log_out = append(&dir, name, n_most);
    }
    if (*log_out < 0) {
        status = status_fail(STATUS_CREATE, "cannot open '%s/%s': %s", folder, name, strerror(errno));
        own_files_close(out, -1);
    }
    dir_close(&dir);
    return status;
}

void own_files_close(struct job_files *files, int log)
{
    for (int i = 0; i < files->n; i++) {
        close(files->file[i]);
    }
    if (log >= 0) {
        close(log);
    }
    files->n = 0;
}

/* A hole has no blocks, and blocks may lie behind the end. */
static int64_t bytes_of(const struct stat *about)
{
    int64_t n_block = 512 * (int64_t)about->st_blocks;
    return about->st_size > n_block ? about->st_size : n_block;
}

/* Call `each` for every plain file of the folder. */
static void each_file(const char *folder, void (*each)(void *context, int dir, const char *name, int64_t n),
                      void *context)
{
    DIR *all = opendir(folder);
    for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        struct stat about;
        if (fstatat(dirfd(all), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode)) {
            each(context, dirfd(all), entry->d_name, bytes_of(&about));
        }
    }
    if (all != NULL) {
        closedir(all);
    }
}

struct largest {
    int64_t n;
    char *name;
    bool is_owners; /* the folder */
};

static void compare(void *context, int dir, const char *name, int64_t n)
{
    struct largest *largest = context;
    (void)dir;
    if (n > largest->n && !(largest->is_owners && strcmp(name, "events.jsonl") == 0)) {
        largest->n = n;
        snprintf(largest->name, NAME_MAX + 1, "%s", name);
    }
}

int64_t own_files_largest(const char *folder, char name_out[NAME_MAX + 1])
{
    struct largest largest = {.name = name_out, .is_owners = !own_files_are(folder)};
    name_out[0] = '\0';
    each_file(folder, compare, &largest);
    return largest.n;
}

static void cut(void *context, int dir, const char *name, int64_t n)
{
    const int64_t *n_most = context;
    int file = n > *n_most ? openat(dir, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    struct stat about;
    if (file >= 0) {
        bool is_long = fstat(file, &about) == 0 && about.st_size > *n_most;
        (void)!ftruncate(file, is_long ? *n_most : about.st_size); /* what is behind the end goes, too */
        close(file);
    }
}

void own_files_cut(const char *folder, int64_t n_most)
{
    each_file(folder, cut, &n_most);
}
