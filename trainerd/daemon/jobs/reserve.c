#include "trainerd/daemon/jobs/reserve.h"

#include "protocol/base/log.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static void hold(struct reserve *reserve)
{
    int file = open(reserve->path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    int error = file < 0 || fallocate(file, 0, 0, reserve->n_bytes) != 0 || ftruncate(file, reserve->n_bytes) != 0
                    ? errno
                    : 0;
    reserve->is_held = error == 0;
    if (error != 0 && !reserve->has_warned) {
        log_warn("cannot keep %" PRId64 " bytes for the store in '%s' (daemon.reserve): %s", reserve->n_bytes,
                 reserve->path, strerror(error));
        reserve->has_warned = true;
    }
    if (error != 0 && file >= 0) {
        (void)!ftruncate(file, 0);
    }
    file_close(file);
}

void reserve_open(struct reserve *reserve, const char *folder, int64_t n_bytes)
{
    *reserve = (struct reserve){.n_bytes = n_bytes};
    int n = snprintf(reserve->path, sizeof reserve->path, "%s/reserve", folder);
    if (n_bytes == 0 || n >= (int)sizeof reserve->path) {
        reserve->n_bytes = 0;
        unlink(reserve->path); /* of a daemon that kept one */
    } else {
        hold(reserve);
    }
}

bool reserve_release(struct reserve *reserve)
{
    if (!reserve->is_held || truncate(reserve->path, 0) != 0) {
        return false;
    }
    reserve->is_held = false;
    log_warn("the disk of '%s' is full: its %" PRId64 " bytes are given to the store", reserve->path,
             reserve->n_bytes);
    return true;
}

void reserve_refill(struct reserve *reserve)
{
    struct statvfs disk;
    if (reserve->n_bytes > 0 && !reserve->is_held && statvfs(reserve->path, &disk) == 0 &&
        (double)disk.f_bfree * (double)disk.f_frsize >= 2.0 * (double)reserve->n_bytes) {
        hold(reserve);
    }
}
