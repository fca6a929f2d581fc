#include "tests/system/attack/processes.h"

#include "protocol/base/clock.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/process_look.h"
#include "tests/system/attack/campaign.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_PROCESS = 8192, N_FILE = 8192 };

struct entry {
    pid_t pid, parent;
    char name[64];
};

static pid_t watched;
static bool watched_ended;
static int watched_status;

void processes_begin(void)
{
    cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){N_FILE, N_FILE}), 0);
}

void processes_watch(pid_t pid)
{
    watched = pid;
    watched_ended = false;
}

bool processes_ended(int *status_out)
{
    int status;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
        if (pid == watched) {
            watched_ended = true;
            watched_status = status;
        }
    }
    *status_out = watched_status;
    return watched_ended;
}

static bool read_entry(pid_t pid, struct entry *out)
{
    *out = (struct entry){.pid = pid};
    return process_look(pid, &out->parent, out->name);
}

static size_t read_all(struct entry all[N_PROCESS])
{
    DIR *proc = opendir("/proc");
    size_t n = 0;
    for (struct dirent *one = readdir(proc); one != NULL && n < N_PROCESS; one = readdir(proc)) {
        n += isdigit((unsigned char)one->d_name[0]) && read_entry(atoi(one->d_name), &all[n]);
    }
    closedir(proc);
    return n;
}

static const struct entry *find(const struct entry all[], size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++) {
        if (all[i].pid == pid) {
            return &all[i];
        }
    }
    return NULL;
}

static bool is_below_us(const struct entry all[], size_t n, const struct entry *one)
{
    for (int depth = 0; one != NULL && depth < 64; depth++) {
        if (one->parent == getpid()) {
            return true;
        }
        one = find(all, n, one->parent);
    }
    return false;
}

static bool plans(pid_t pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "r");
    size_t n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    text[n] = '\0';
    for (size_t at = 0; at < n; at += strlen(text + at) + 1) {
        if (strcmp(text + at, "--plan") == 0) {
            return true;
        }
    }
    return false;
}

static bool is_coordinator(const struct entry *one)
{
    return one != NULL && strncmp(one->name, "trainer-coord", 13) == 0;
}

/* What a coordinator has forked is a worker, also before it is one by name. */
static bool is_of(const struct entry all[], size_t n, const struct entry *one, enum process_kind kind)
{
    bool is_child = is_coordinator(find(all, n, one->parent));
    switch (kind) {
    case PROCESS_COORDINATOR:
        return is_coordinator(one) && !is_child && !plans(one->pid);
    case PROCESS_PLANNER:
        return is_coordinator(one) && !is_child && plans(one->pid);
    case PROCESS_WORKER:
        return is_child;
    default:
        return true;
    }
}

size_t processes_find(enum process_kind kind, pid_t out[], size_t n_most)
{
    static struct entry all[N_PROCESS];
    size_t n = read_all(all), n_out = 0;
    for (size_t i = 0; i < n && n_out < n_most; i++) {
        if (is_below_us(all, n, &all[i]) && is_of(all, n, &all[i], kind)) {
            out[n_out++] = all[i].pid;
        }
    }
    return n_out;
}

void processes_expect_none(void)
{
    pid_t left[64];
    double since_s = clock_s();
    size_t n;
    int status;
    do {
        processes_ended(&status);
        n = processes_find(PROCESS_ANY, left, 64);
    } while (n > 0 && patience_left(since_s));
    struct entry one = {.name = "?"};
    HOLDS(n == 0 || !read_entry(left[0], &one), "%zu processes are left: %d %s", n, (int)left[0], one.name);
}

int processes_n_file(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *files = opendir(path);
    int n = 0;
    for (struct dirent *one = files != NULL ? readdir(files) : NULL; one != NULL; one = readdir(files)) {
        n += one->d_name[0] != '.';
    }
    if (files != NULL) {
        closedir(files);
    }
    return n;
}

size_t processes_peak(pid_t pid)
{
    char path[64], line[256];
    size_t n_kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    while (fgets(line, sizeof line, file) != NULL && sscanf(line, "VmHWM: %zu", &n_kib) != 1) {
    }
    fclose(file);
    cr_assert_gt(n_kib, 0u);
    return n_kib << 10;
}
