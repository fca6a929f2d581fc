#include "trainerd/daemon/supervisor/job_cgroups.h"

#include "protocol/base/log.h"
#include "trainerd/daemon/supervisor/job_scope.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "trainerd-job-"
#define DAEMON_LEAF                                                                                                  \
    "trainerd-daemon" /* where the daemon itself goes: a group of version 2 with children has no processes */

/* --- files of groups --- */

static void path_of(const struct job_cgroups_tree *tree, const char *name, const char *file, char out[2 * PATH_MAX])
{
    snprintf(out, 2 * PATH_MAX, "%s%s%s%s%s", tree->path, name[0] != '\0' ? "/" : "", name,
             file[0] != '\0' ? "/" : "", file);
}

/* 0, or errno. Groups' files are there once the group is. */
static int group_write(const struct job_cgroups_tree *tree, const char *name, const char *file, const char *text)
{
    char path[2 * PATH_MAX];
    path_of(tree, name, file, path);
    int open_file = open(path, O_WRONLY | O_CLOEXEC);
    if (open_file < 0) {
        return errno;
    }
    int error = write(open_file, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : errno;
    close(open_file);
    return error;
}

static int group_write_number(const struct job_cgroups_tree *tree, const char *name, const char *file, int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, number);
    return group_write(tree, name, file, text);
}

/* What a group's file holds, up to its capacity; "" where there is none. */
static void group_read(const struct job_cgroups_tree *tree, const char *name, const char *file, char *out,
                       size_t capacity)
{
    char path[2 * PATH_MAX];
    path_of(tree, name, file, path);
    int open_file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = open_file < 0 ? 0 : read(open_file, out, capacity - 1);
    out[n > 0 ? n : 0] = '\0';
    if (open_file >= 0) {
        close(open_file);
    }
}

/* The number that stands after this word at a line's beginning; -1: none does. */
static int64_t number_after(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, n) == 0 && line[n] == ' ' && isdigit((unsigned char)line[n + 1])) {
            return strtoll(line + n + 1, NULL, 10);
        }
    }
    return -1;
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

/* The tree that has this controller; NULL: none has. */
static const struct job_cgroups_tree *tree_of(const struct job_cgroups *groups, const char *controller)
{
    for (int i = 0; i < groups->n_tree; i++) {
        const char *one = groups->tree[i].controller;
        if (one[0] == '\0' || strcmp(one, controller) == 0) {
            return &groups->tree[i];
        }
    }
    return NULL;
}

static bool is_second(const struct job_cgroups *groups)
{
    return groups->kind == JOB_CGROUPS_SECOND || groups->kind == JOB_CGROUPS_SCOPE;
}

/* --- what the machine lends --- */

/* The daemon's own group in a hierarchy: below `mount`, as a line "n:controllers:group" of /proc/self/cgroup says. false: there is no such line */
static bool own_group(const char *root, const char *controller, const char *mount, char out[PATH_MAX])
{
    char path[PATH_MAX], line[PATH_MAX];
    bool found = false;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *group = names != NULL ? strchr(names + 1, ':') : NULL;
        if (group == NULL || group[1] != '/') {
            continue;
        }
        *names++ = *group++ = '\0';
        found = controller[0] == '\0' ? strcmp(line, "0") == 0 && names[0] == '\0' : strcmp(names, controller) == 0;
        /* ".." is a group outside of those that a container sees. */
        group = strstr(group, "/..") != NULL || strcmp(group, "/") == 0 ? "" : group;
        if (snprintf(out, PATH_MAX, "%s%s%s", root, mount, group) >= PATH_MAX) {
            found = false;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

static bool can_make(const char *path)
{
    return access(path, W_OK | X_OK) == 0;
}

static bool add_tree(struct job_cgroups *groups, const char *root, const char *controller, const char *mount)
{
    struct job_cgroups_tree *tree = &groups->tree[groups->n_tree];
    tree->controller = controller;
    if (!own_group(root, controller, mount, tree->path) || !can_make(tree->path)) {
        return false;
    }
    groups->n_tree++;
    return true;
}

/* Let groups below the daemon's have controllers, which takes that no process is in the daemon's own. */
static bool delegate(const struct job_cgroups_tree *tree)
{
    char path[2 * PATH_MAX];
    if (group_write(tree, "", "cgroup.subtree_control", "+memory +cpu") == 0) {
        return true;
    }
    path_of(tree, DAEMON_LEAF, "", path);
    return (mkdir(path, 0755) == 0 || errno == EEXIST) &&
           group_write_number(tree, DAEMON_LEAF, "cgroup.procs", getpid()) == 0 &&
           group_write(tree, "", "cgroup.subtree_control", "+memory +cpu") == 0;
}

static bool open_second(const char *root, bool enforce_memory, struct job_cgroups *out)
{
    static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    char controllers[256], path[PATH_MAX];
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
        out->n_tree = 0;
        snprintf(path, sizeof path, "%s%s/cgroup.procs", root, mounts[i]);
        if (access(path, F_OK) != 0 || !add_tree(out, root, "", mounts[i])) {
            continue;
        }
        char *leaf = strrchr(out->tree[0].path, '/'); /* of a daemon that was there before */
        if (strcmp(leaf, "/" DAEMON_LEAF) == 0) {
            *leaf = '\0';
        }
        group_read(&out->tree[0], "", "cgroup.controllers", controllers, sizeof controllers);
        bool offers = has_word(controllers, "memory") && has_word(controllers, "cpu");
        out->has_memory = out->has_cores = offers && delegate(&out->tree[0]);
        out->kind = JOB_CGROUPS_SECOND;
        if (out->has_memory || !enforce_memory) {
            return true;
        }
    }
    out->n_tree = 0;
    out->kind = JOB_CGROUPS_NONE;
    return false;
}

static bool open_first(const char *root, bool enforce_memory, struct job_cgroups *out)
{
    out->n_tree = 0;
    out->has_memory = add_tree(out, root, "memory", "/sys/fs/cgroup/memory");
    out->has_cores = add_tree(out, root, "cpu", "/sys/fs/cgroup/cpu") ||
                     add_tree(out, root, "cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct");
    add_tree(out, root, "freezer", "/sys/fs/cgroup/freezer");
    bool is_enough = out->n_tree > 0 && (out->has_memory || !enforce_memory);
    out->kind = is_enough ? JOB_CGROUPS_FIRST : JOB_CGROUPS_NONE;
    return is_enough;
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
    /* Version 2 first where it can do all; where the machine has its controllers in version 1, that. */
    found = found ||
            ((is_auto || wants_group) && (open_second(root, true, out) || open_first(root, enforce_memory, out) ||
                                          (!enforce_memory && open_second(root, false, out))));
    if (wants_group && !found) {
        return status_fail(
            STATUS_CONFIG,
            "daemon.isolation is \"cgroup\": no group can be made below the daemon's own%s; expected cgroup version "
            "2, delegated with the controllers memory and cpu, or version 1",
            enforce_memory ? " whose memory is limited" : "");
    }
    out->has_memory = out->has_memory && enforce_memory;
    return STATUS_OK;
}

void job_cgroups_text(const struct job_cgroups *groups, char *out, size_t capacity)
{
    static const char *const kinds[] = {"no control groups of their own", "scopes of systemd",
                                        "control groups of version 2", "control groups of version 1"};
    bool has_place = groups->n_tree > 0 && groups->kind != JOB_CGROUPS_SCOPE;
    snprintf(out, capacity, "%s%s%.512s, memory %s, cores %s", kinds[groups->kind], has_place ? " below " : "",
             has_place ? groups->tree[0].path : "", groups->has_memory ? "enforced" : "not enforced",
             groups->has_cores ? "shared by slots" : "not shared");
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

/* A share of the cores for each slot: 1024 of version 1 are 100 of version 2. */
static int64_t weight_of(const struct job_cgroups *groups, int32_t n_slot)
{
    int64_t n = n_slot > 0 ? n_slot : 1, weight = is_second(groups) ? 100 * n : 1024 * n,
            most = is_second(groups) ? 10000 : 262144;
    return weight < most ? weight : most;
}

static int limit_memory(const struct job_cgroups *groups, const char *name, int64_t memory)
{
    const struct job_cgroups_tree *tree = tree_of(groups, "memory");
    if (!groups->has_memory || memory <= 0) {
        return 0;
    }
    int error = group_write_number(tree, name, is_second(groups) ? "memory.max" : "memory.limit_in_bytes", memory);
    /* Swap would let a job that has outgrown its plan crawl. Not every kernel counts it. */
    if (error == 0 && is_second(groups)) {
        (void)group_write(tree, name, "memory.swap.max", "0");
    } else if (error == 0) {
        (void)group_write_number(tree, name, "memory.memsw.limit_in_bytes", memory);
    }
    return error;
}

enum status job_cgroup_begin(const struct job_cgroups *groups, const char *name, int64_t memory, int32_t n_slot,
                             pid_t pid)
{
    char path[2 * PATH_MAX];
    int error = 0;
    if (groups->kind == JOB_CGROUPS_SCOPE) {
        return job_scope_begin(groups, name, groups->has_memory ? memory : 0, weight_of(groups, n_slot), pid);
    }
    for (int i = 0; i < groups->n_tree && error == 0; i++) {
        path_of(&groups->tree[i], name, "", path);
        error = mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : errno;
    }
    error = error == 0 ? limit_memory(groups, name, memory) : error;
    if (error == 0 && groups->has_cores) {
        const struct job_cgroups_tree *tree = tree_of(groups, "cpu");
        tree = tree != NULL ? tree : tree_of(groups, "cpu,cpuacct");
        error = group_write_number(tree, name, is_second(groups) ? "cpu.weight" : "cpu.shares",
                                   weight_of(groups, n_slot));
    }
    for (int i = 0; i < groups->n_tree && error == 0; i++) {
        error = group_write_number(&groups->tree[i], name, "cgroup.procs", pid);
    }
    if (error != 0) {
        status_fail(STATUS_IO, "cannot make the control group '%s': %s", name, strerror(error));
        (void)job_cgroup_remove(groups, name);
        return STATUS_IO;
    }
    return STATUS_OK;
}

int64_t job_cgroup_oom_kills(const struct job_cgroups *groups, const char *name)
{
    char text[1024] = "";
    const struct job_cgroups_tree *tree = tree_of(groups, "memory");
    if (tree != NULL) {
        group_read(tree, name, is_second(groups) ? "memory.events" : "memory.oom_control", text, sizeof text);
    }
    int64_t n = number_after(text, "oom_kill");
    return n > 0 ? n : 0;
}

int64_t job_cgroup_limit(const struct job_cgroups *groups, const char *name)
{
    char text[64] = "";
    const struct job_cgroups_tree *tree = tree_of(groups, "memory");
    if (tree != NULL) {
        group_read(tree, name, is_second(groups) ? "memory.max" : "memory.limit_in_bytes", text, sizeof text);
    }
    return isdigit((unsigned char)text[0]) ? strtoll(text, NULL, 10) : INT64_MAX;
}

/* KILL to each that is listed; how many. */
static int kill_listed(const struct job_cgroups_tree *tree, const char *name)
{
    char path[2 * PATH_MAX];
    int pid, n = 0;
    path_of(tree, name, "cgroup.procs", path);
    FILE *file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &pid) == 1) {
        if (pid > 1 && pid != getpid()) {
            n += kill(pid, SIGKILL) == 0;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return n;
}

/* Version 1: frozen, so that none forks while the list is read; a frozen process dies when it is thawed. */
static bool kill_first(const struct job_cgroups *groups, const char *name)
{
    const struct job_cgroups_tree *freezer = tree_of(groups, "freezer");
    const struct job_cgroups_tree *tree = freezer != NULL ? freezer : &groups->tree[0];
    if (freezer != NULL) {
        (void)group_write(freezer, name, "freezer.state", "FROZEN");
    }
    int n = kill_listed(tree, name);
    if (freezer != NULL) {
        (void)group_write(freezer, name, "freezer.state", "THAWED");
    }
    return n > 0;
}

bool job_cgroup_kill(const struct job_cgroups *groups, const char *name)
{
    char text[256];
    if (groups->n_tree == 0) {
        return false;
    }
    if (!is_second(groups)) {
        return kill_first(groups, name);
    }
    group_read(&groups->tree[0], name, "cgroup.events", text, sizeof text);
    if (number_after(text, "populated") != 1) {
        return false;
    }
    if (group_write(&groups->tree[0], name, "cgroup.kill", "1") != 0) { /* Linux before 5.14 */
        (void)kill_listed(&groups->tree[0], name);
    }
    return true;
}

bool job_cgroup_remove(const struct job_cgroups *groups, const char *name)
{
    char path[2 * PATH_MAX];
    bool is_gone = true;
    for (int i = 0; i < groups->n_tree; i++) {
        path_of(&groups->tree[i], name, "", path);
        is_gone = (rmdir(path) == 0 || errno == ENOENT) && is_gone;
    }
    return is_gone;
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
    for (int i = 0; i < groups->n_tree; i++) {
        DIR *all = opendir(groups->tree[i].path);
        for (struct dirent *one = all != NULL ? readdir(all) : NULL; one != NULL; one = readdir(all)) {
            int64_t job;
            int32_t attempt;
            if (!name_read(groups, one->d_name, &job, &attempt) || is_used(context, job, attempt)) {
                continue;
            }
            bool had_any = job_cgroup_kill(groups, one->d_name);
            bool is_gone = job_cgroup_remove(groups, one->d_name);
            log_info("the control group %s of a daemon before is %s", one->d_name,
                     is_gone   ? "removed"
                     : had_any ? "ended"
                               : "left");
        }
        if (all != NULL) {
            closedir(all);
        }
    }
}
