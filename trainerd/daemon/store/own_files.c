#include "trainerd/daemon/store/own_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

bool own_files_are(const char *folder)
{
    struct stat about;
    return lstat(folder, &about) == 0 ? S_ISDIR(about.st_mode) && about.st_uid == geteuid() : errno == ENOENT;
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
};

static void compare(void *context, int dir, const char *name, int64_t n)
{
    struct largest *largest = context;
    (void)dir;
    if (n > largest->n) {
        largest->n = n;
        snprintf(largest->name, NAME_MAX + 1, "%s", name);
    }
}

int64_t own_files_largest(const char *folder, char name_out[NAME_MAX + 1])
{
    struct largest largest = {.name = name_out};
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
