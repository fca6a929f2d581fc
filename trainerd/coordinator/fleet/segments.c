#include "trainerd/coordinator/fleet/segments.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static const char prefix[] = "ucx_shm_posix_";

/* The kernel grants a write lease only when no other process has the file open; a mapping counts as open. */
static bool is_orphan(int folder, const char *name)
{
    int file = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool orphan = file >= 0 && fcntl(file, F_SETLEASE, F_WRLCK) == 0;
    if (file >= 0) {
        close(file);
    }
    return orphan;
}

int segments_sweep(const char *folder)
{
    DIR *entries = opendir(folder);
    if (entries == NULL) {
        return 0;
    }
    /* The signal of a broken lease. */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGIO, &ignore, &before);
    int n_removed = 0;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) == 0 && is_orphan(dirfd(entries), entry->d_name) &&
            unlinkat(dirfd(entries), entry->d_name, 0) == 0) {
            n_removed++;
        }
    }
    sigaction(SIGIO, &before, NULL);
    closedir(entries);
    return n_removed;
}
