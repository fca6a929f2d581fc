#include "trainerd/daemon/supervisor/job_cgroups.h"

#include "protocol/base/amounts.h"
#include "protocol/base/cgroup.h"
#include "protocol/base/log.h"
#include "protocol/files/file.h"
#include "trainerd/daemon/supervisor/job_scope.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "trainerd-job-"
#define DAEMON_LEAF "trainerd-daemon" /* the daemon's own processes: a group with children holds none itself */

/* --- files of groups --- */

static void path_of(const struct job_cgroups *groups, const char *name, const char *file, char out[2 * PATH_MAX])
{
    snprintf(out, 2 * PATH_MAX, "%s%s%s%s%s", groups->path, name[0] != '\0' ? "/" : "", name,
             file[0] != '\0' ? "/" : "", file);
}

/* 0, or errno. Groups' files are there once the group is. */
static int group_write(const struct job_cgroups *groups, const char *name, const char *file, const char *text)
{
    char path[2 * PATH_MAX];
    path_of(groups, name, file, path);
    int open_file = open(path, O_WRONLY | O_CLOEXEC);
    if (open_file < 0) {
        return errno;
    }
    int error = write(open_file, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : errno;
    close(open_file);
    return error;
}

static int group_write_number(const struct job_cgroups *groups, const char *name, const char *file, int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, number);
    return group_write(groups, name, file, text);
}

/* What a group's file holds, up to its capacity; "" where there is no such file. */
static void group_read(const struct job_cgroups *groups, const char *name, const char *file, char *out,
                       size_t capacity)
{
    char path[2 * PATH_MAX];
    path_of(groups, name, file, path);
    int open_file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = open_file < 0 ? 0 : read(open_file, out, capacity - 1);
    out[n > 0 ? n : 0] = '\0';
    file_close(open_file);
}

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        bool begins = at == text || isspace((unsigned char)at[-1]),
             ends = at[n] == '\0' || isspace((unsigned char)at[n]);
        if (begins && ends) {
            return true;
        }
    }
    return false;
}

/* --- what the machine offers --- */

/* Let groups below the daemon's have controllers: the kernel requires that no process is in the daemon's own. */
static bool delegate(const struct job_cgroups *groups)
{
    char path[2 * PATH_MAX];
    if (group_write(groups, "", "cgroup.subtree_control", "+memory +cpu") == 0) {
        return true;
    }
    path_of(groups, DAEMON_LEAF, "", path);
    return (mkdir(path, 0755) == 0 || errno == EEXIST) &&
           group_write_number(groups, DAEMON_LEAF, "cgroup.procs", getpid()) == 0 &&
           group_write(groups, "", "cgroup.subtree_control", "+memory +cpu") == 0;
}

static bool open_own(const char *root, bool enforce_memory, struct job_cgroups *out)
{
    static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    char controllers[256], path[PATH_MAX], group[PATH_MAX];
    bool has_group = cgroup_own(root, group);
    for (size_t i = 0; has_group && i < sizeof mounts / sizeof *mounts; i++) {
        int n = snprintf(out->path, sizeof out->path, "%s%s%s", root, mounts[i], group);
        snprintf(path, sizeof path, "%s%s/cgroup.procs", root, mounts[i]);
        if (access(path, F_OK) != 0 || n >= PATH_MAX || access(out->path, W_OK | X_OK) != 0) {
            continue;
        }
        char *leaf = strrchr(out->path, '/'); /* of an earlier daemon */
        if (strcmp(leaf, "/" DAEMON_LEAF) == 0) {
            *leaf = '\0';
        }
        group_read(out, "", "cgroup.controllers", controllers, sizeof controllers);
        bool offers = has_word(controllers, "memory") && has_word(controllers, "cpu");
        out->has_memory = out->has_cores = offers && delegate(out);
        if (out->has_memory || !enforce_memory) {
            out->kind = JOB_CGROUPS_OWN;
            return true;
        }
    }
    snprintf(path, sizeof path, "%s/sys/fs/cgroup/memory/cgroup.procs", root);
    out->is_old = access(path, F_OK) == 0;
    return false;
}

enum status job_cgroups_open(const char *root, const char *isolation, bool enforce_memory, const char *store,
                             struct job_cgroups *out)
{
    bool is_auto = strcmp(isolation, "auto") == 0, wants_scope = strcmp(isolation, "scope") == 0;
    bool wants_group = strcmp(isolation, "cgroup") == 0;
    *out = (struct job_cgroups){.kind = JOB_CGROUPS_NONE};
    snprintf(out->store, sizeof out->store, "%s", store);
    if (!is_auto && !wants_scope && !wants_group && strcmp(isolation, "none") != 0) {
        return status_fail(STATUS_CONFIG,
                           "daemon.isolation is '%.64s', expected \"auto\", \"scope\", \"cgroup\" or \"none\"",
                           isolation);
    }
    char why[256] = "";
    bool found = (is_auto || wants_scope) && job_scope_open(root, out, why, sizeof why);
    if (wants_scope && !found) {
        return status_fail(STATUS_CONFIG,
                           "daemon.isolation is \"scope\": %s; expected a daemon of root's under systemd, with D-Bus",
                           why);
    }
    found = found || ((is_auto || wants_group) && open_own(root, enforce_memory, out));
    if (wants_group && !found) {
        return status_fail(STATUS_CONFIG,
                           "daemon.isolation is \"cgroup\": no group can be made below the daemon's own%s; expected "
                           "cgroup version 2, delegated with the controllers memory and cpu",
                           enforce_memory ? " whose memory is limited" : "");
    }
    out->has_memory = out->has_memory && enforce_memory;
    return STATUS_OK;
}

void job_cgroups_text(const struct job_cgroups *groups, char *out, size_t capacity)
{
    static const char *const kinds[] = {"no control groups of their own", "scopes of systemd",
                                        "control groups below "};
    static const char old[] = ": this machine has control groups of version 1; expected version 2, delegated to the "
                              "daemon with the controllers memory and cpu, or systemd";
    snprintf(out, capacity, "%s%.512s, memory %s, cores %s%s", kinds[groups->kind],
             groups->kind == JOB_CGROUPS_OWN ? groups->path : "", groups->has_memory ? "enforced" : "not enforced",
             groups->has_cores ? "shared by slots" : "not shared", groups->is_old ? old : "");
}

void job_cgroup_name(const struct job_cgroups *groups, int64_t job, int32_t attempt, char out[JOB_CGROUPS_NAME_BYTES])
{
    char number[16] = "plan";
    if (attempt != JOB_CGROUPS_PLAN) {
        snprintf(number, sizeof number, "%d", (int)attempt);
    }
    snprintf(out, JOB_CGROUPS_NAME_BYTES, PREFIX "%.32s-%lld-%s%s", groups->store, (long long)job, number,
             groups->kind == JOB_CGROUPS_SCOPE ? ".scope" : "");
}

/* --- one group --- */

static int limit_memory(const struct job_cgroups *groups, const char *name, int64_t memory)
{
    if (!groups->has_memory || memory <= 0) {
        return 0;
    }
    int error = group_write_number(groups, name, "memory.max", memory);
    /* Swap would let a job that has outgrown its plan crawl. Not every kernel counts it. */
    if (error == 0) {
        (void)group_write(groups, name, "memory.swap.max", "0");
    }
    return error;
}

enum status job_cgroup_begin(const struct job_cgroups *groups, const char *name, int64_t memory, int32_t n_slot,
                             pid_t pid)
{
    char path[2 * PATH_MAX];
    int64_t weight = 100 * (n_slot < 1 ? 1 : n_slot > 100 ? 100 : n_slot); /* 10000 is the most */
    if (groups->kind == JOB_CGROUPS_SCOPE) {
        return job_scope_begin(groups, name, groups->has_memory ? memory : 0, weight, pid);
    }
    path_of(groups, name, "", path);
    int error = mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : errno;
    error = error == 0 ? limit_memory(groups, name, memory) : error;
    if (error == 0 && groups->has_cores) {
        error = group_write_number(groups, name, "cpu.weight", weight);
    }
    error = error == 0 ? group_write_number(groups, name, "cgroup.procs", pid) : error;
    if (error != 0) {
        status_fail(STATUS_IO, "cannot make the control group '%s': %s", name, strerror(error));
        (void)job_cgroup_remove(groups, name);
        return STATUS_IO;
    }
    return STATUS_OK;
}

int64_t job_cgroup_oom_kills(const struct job_cgroups *groups, const char *name)
{
    char path[2 * PATH_MAX];
    path_of(groups, name, "memory.events", path);
    return larger(cgroup_number_read(path, "oom_kill"), 0);
}

int64_t job_cgroup_limit(const struct job_cgroups *groups, const char *name)
{
    char path[2 * PATH_MAX];
    path_of(groups, name, "memory.max", path);
    return cgroup_number(path);
}

/* Linux before 5.14: KILL to each process that is listed. */
static void kill_listed(const struct job_cgroups *groups, const char *name)
{
    char path[2 * PATH_MAX];
    int pid;
    path_of(groups, name, "cgroup.procs", path);
    FILE *file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &pid) == 1) {
        if (pid > 1 && pid != getpid()) {
            (void)kill(pid, SIGKILL);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

bool job_cgroup_kill(const struct job_cgroups *groups, const char *name)
{
    char path[2 * PATH_MAX];
    path_of(groups, name, "cgroup.events", path);
    if (groups->kind == JOB_CGROUPS_NONE || cgroup_number_read(path, "populated") != 1) {
        return false;
    }
    if (group_write(groups, name, "cgroup.kill", "1") != 0) {
        kill_listed(groups, name);
    }
    return true;
}

bool job_cgroup_remove(const struct job_cgroups *groups, const char *name)
{
    char path[2 * PATH_MAX];
    path_of(groups, name, "", path);
    return groups->kind == JOB_CGROUPS_NONE || rmdir(path) == 0 || errno == ENOENT;
}

/* --- groups of dead daemons --- */

/* The job and attempt that a name is of. false: it is not a group of this store's */
static bool name_read(const struct job_cgroups *groups, const char *name, int64_t *job_out, int32_t *attempt_out)
{
    char mine[JOB_CGROUPS_NAME_BYTES];
    long long job = 0;
    int attempt = JOB_CGROUPS_PLAN, n = snprintf(mine, sizeof mine, PREFIX "%.32s-", groups->store);
    if (strncmp(name, mine, (size_t)n) != 0 || sscanf(name + n, "%lld-%d", &job, &attempt) < 1) {
        return false;
    }
    job_cgroup_name(groups, job, attempt, mine);
    *job_out = job;
    *attempt_out = attempt;
    return strcmp(mine, name) == 0;
}

void job_cgroups_sweep(const struct job_cgroups *groups,
                       bool (*is_used)(const void *context, int64_t job, int32_t attempt), const void *context)
{
    DIR *all = groups->kind != JOB_CGROUPS_NONE ? opendir(groups->path) : NULL;
    for (struct dirent *one = all != NULL ? readdir(all) : NULL; one != NULL; one = readdir(all)) {
        int64_t job;
        int32_t attempt;
        if (!name_read(groups, one->d_name, &job, &attempt) || is_used(context, job, attempt)) {
            continue;
        }
        bool had_any = job_cgroup_kill(groups, one->d_name), is_gone = job_cgroup_remove(groups, one->d_name);
        log_info("the control group %s of an earlier daemon is %s", one->d_name,
                 is_gone   ? "removed"
                 : had_any ? "ended"
                           : "left");
    }
    if (all != NULL) {
        closedir(all);
    }
}
