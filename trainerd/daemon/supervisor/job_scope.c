#include "trainerd/daemon/supervisor/job_scope.h"

#include "protocol/base/clock.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLICE "system.slice"
#define ANSWER_MS 10000

bool job_scope_open(const char *root, struct job_cgroups *groups, char *why, size_t capacity)
{
    static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    static const char *const needs[] = {"/run/systemd/system", "/run/dbus/system_bus_socket"};
    char path[PATH_MAX];
    if (geteuid() != 0) {
        snprintf(why, capacity, "the daemon is not root's");
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s", root, needs[i]);
        if (access(path, F_OK) != 0) {
            snprintf(why, capacity, "there is no %s", needs[i]);
            return false;
        }
    }
    snprintf(groups->busctl, sizeof groups->busctl, "%s/usr/bin/busctl", root);
    if (access(groups->busctl, X_OK) != 0) {
        snprintf(why, capacity, "there is no /usr/bin/busctl");
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s/" SLICE "/cgroup.procs", root, mounts[i]);
        if (access(path, W_OK) == 0) {
            groups->kind = JOB_CGROUPS_SCOPE;
            snprintf(groups->path, sizeof groups->path, "%s%s/" SLICE, root, mounts[i]);
            groups->has_memory = groups->has_cores = true;
            return true;
        }
    }
    snprintf(why, capacity, "the groups of " SLICE " cannot be written to");
    return false;
}

/* Wait for a child's end; false: it was not in time, or failed. */
static bool child_ends_well(pid_t child)
{
    int how = -1, pidfd = (int)syscall(SYS_pidfd_open, child, 0u);
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    int n = 0;
    while (pidfd >= 0 && (n = poll(&end, 1, ANSWER_MS)) < 0 && errno == EINTR) {
    }
    if (n <= 0) {
        kill(child, SIGKILL);
    }
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
    }
    file_close(pidfd);
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

/* systemd has answered before it has moved the process: it has by when the scope's list is not empty. */
static bool has_moved(const struct job_cgroups *groups, const char *name)
{
    char path[2 * PATH_MAX], text[16];
    snprintf(path, sizeof path, "%s/%s/cgroup.procs", groups->path, name);
    uint64_t since_ms = clock_ms();
    bool is_there = false;
    while (!is_there && clock_ms() - since_ms < ANSWER_MS) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        is_there = file >= 0 && read(file, text, sizeof text) > 0;
        file_close(file);
        if (!is_there) {
            poll(NULL, 0, 2);
        }
    }
    return is_there;
}

enum status job_scope_begin(const struct job_cgroups *groups, const char *name, int64_t memory, int64_t weight,
                            pid_t pid)
{
    char text[1024], limit[96] = "", *argv[40], *rest = NULL;
    size_t n = 0;
    if (memory > 0) {
        snprintf(limit, sizeof limit, "MemoryMax t %lld MemorySwapMax t 0 ", (long long)memory);
    }
    snprintf(text, sizeof text,
             "busctl --system --quiet call org.freedesktop.systemd1 /org/freedesktop/systemd1 "
             "org.freedesktop.systemd1.Manager StartTransientUnit ssa(sv)a(sa(sv)) %s fail %d PIDs au 1 %d "
             "CollectMode s inactive-or-failed CPUWeight t %lld Description s job-of-trainerd %s0",
             name, memory > 0 ? 6 : 4, (int)pid, (long long)weight, limit);
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        argv[n++] = word;
    }
    argv[n] = NULL;
    pid_t child;
    int error = posix_spawn(&child, groups->busctl, NULL, NULL, argv, environ);
    if (error != 0) {
        return status_fail(STATUS_IO, "cannot start %s: %s", groups->busctl, strerror(error));
    }
    return child_ends_well(child) && has_moved(groups, name)
               ? STATUS_OK
               : status_fail(STATUS_IO, "systemd made no scope %s (journalctl says why)", name);
}
