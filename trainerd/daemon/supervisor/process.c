#include "trainerd/daemon/supervisor/process.h"

#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "protocol/files/file.h"
#include "trainerd/base/rights.h"
#include "trainerd/base/texts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Everything the child needs, made before the fork: after it, only async-signal-safe functions may be called. */
struct plan {
    const struct process_options *options;
    char program[PATH_MAX];
    char **environment; /* NULL: empty */
    bool changes_user;
    struct rights rights;
    int gate, error_pipe;
    int input; /* a sealed file in memory; -1: none */
};

/* --- before the fork --- */

/* What another user's process gets of the daemon's environment, which may hold secrets: how programs and libraries
 * are found, what language is spoken, and how libraries behave on this machine. */
#define PASSED "PATH LANG LANGUAGE LC_* TZ LD_LIBRARY_PATH UCX_* OMP_* GOMP_* CUDA_* NVIDIA_* SLURM_CONF"

/* Is this setting's variable in the list? Names lie between blanks; NAME* stands for all that begin so. */
static bool is_listed(const char *setting, const char *list)
{
    size_t n_name = strcspn(setting, "=");
    for (const char *at = list + strspn(list, " "); *at != '\0'; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        bool begins = at[n - 1] == '*';
        if (begins ? n - 1 <= n_name && strncmp(setting, at, n - 1) == 0
                   : n == n_name && strncmp(setting, at, n) == 0) {
            return true;
        }
        at += n;
    }
    return false;
}

/* The environment variable that says which GPUs CUDA shows. */
#define GPUS_SEEN "CUDA_VISIBLE_DEVICES"

/* Environment variables that the service manager sets for the daemon alone. */
static bool is_service(const char *setting)
{
    static const char *const names[] = {"NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_",
                                        "INVOCATION_ID=", "JOURNAL_STREAM="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncmp(setting, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The daemon's environment, or for another user the passed part of it and the user's own. The caller frees it. */
static char **environment_make(const struct passwd *user, const struct process_options *options)
{
    struct texts all = {0};
    for (size_t i = 0; environ[i] != NULL; i++) {
        bool passed = user == NULL || is_listed(environ[i], PASSED) ||
                      is_listed(environ[i], options->pass_environment);
        if (passed && !is_service(environ[i]) && strncmp(environ[i], GPUS_SEEN "=", sizeof GPUS_SEEN) != 0) {
            texts_add(&all, "%s", environ[i]);
        }
    }
    if (user != NULL) {
        texts_add(&all, "HOME=%s", user->pw_dir);
        texts_add(&all, "USER=%s", user->pw_name);
        texts_add(&all, "LOGNAME=%s", user->pw_name);
        texts_add(&all, "SHELL=%s", user->pw_shell);
    }
    if (options->gpus != NULL) {
        texts_add(&all, GPUS_SEEN "=%s", options->gpus);
    }
    return all.text;
}

static enum status user_find(struct plan *plan)
{
    const struct process_options *options = plan->options;
    struct passwd *user = NULL;
    plan->changes_user = options->uid != geteuid();
    if (plan->changes_user) {
        enum status status = rights_find(options->uid, options->gid, &plan->rights);
        if (status != STATUS_OK) {
            return status;
        }
        user = getpwuid(options->uid);
    }
    static struct passwd nobody = {.pw_dir = "/", .pw_name = "", .pw_shell = "/bin/sh"};
    plan->environment = environment_make(plan->changes_user && user == NULL ? &nobody : user, options);
    return STATUS_OK;
}

static enum status input_make(struct plan *plan)
{
    const char *text = plan->options->input;
    if (text == NULL) {
        return STATUS_OK;
    }
    plan->input = memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int error = plan->input < 0 ? errno : file_write(plan->input, text, strlen(text));
    if (error == 0 &&
        fcntl(plan->input, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        error = errno;
    }
    if (error == 0 && lseek(plan->input, 0, SEEK_SET) != 0) {
        error = errno;
    }
    return error == 0 ? STATUS_OK : status_fail(STATUS_IO, "cannot make a file in memory: %s", strerror(error));
}

/* --- the child --- */

static void child_fail(const struct plan *plan, const char *doing, const char *what) __attribute__((noreturn));

/* Writes pieces, since nothing may be allocated or formatted here. */
static void child_fail(const struct plan *plan, const char *doing, const char *what)
{
    const char *reason = strerrordesc_np(errno);
    const char *pieces[] = {doing, " '", what, "': ", reason != NULL ? reason : "unknown error"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        (void)!write(plan->error_pipe, pieces[i], strlen(pieces[i]));
    }
    _exit(status_exit_code(STATUS_CREATE));
}

static void child_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++) {
        signal(number, SIG_DFL);
    }
    signal(SIGUSR1, SIG_IGN); /* it must not end the program before the program has its handler */
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The least descriptor from there on that the child needs. */
static unsigned next_kept(const struct plan *plan, unsigned from)
{
    const struct process_options *options = plan->options;
    const int keep[] = {plan->gate, plan->error_pipe, options->out, options->err, plan->input};
    const int n_keep = sizeof keep / sizeof *keep;
    unsigned next = UINT_MAX;
    for (int i = 0; i < n_keep + options->n_inherit; i++) {
        int one = i < n_keep ? keep[i] : options->inherit[i - n_keep];
        next = one >= (int)from && (unsigned)one < next ? (unsigned)one : next;
    }
    return next;
}

/* Close the daemon's files: a child that waits long at its gate must not keep the daemon's sockets open. */
static void child_close(const struct plan *plan)
{
    unsigned from = STDERR_FILENO + 1, next;
    do {
        next = next_kept(plan, from);
        if (next > from) {
            syscall(SYS_close_range, from, next == UINT_MAX ? UINT_MAX : next - 1, 0u);
        }
        from = next + 1;
    } while (next != UINT_MAX);
}

/* A child that takes signals only as the program will: in between, this process's handlers would write to pipes that
 * both have, and a job that is cancelled at once would stop the daemon. */
static pid_t fork_unsignalled(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid != 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    return pid;
}

static void child_run(const struct plan *plan) __attribute__((noreturn));
static void child_run(const struct plan *plan)
{
    const struct process_options *options = plan->options;
    char go;
    child_close(plan);
    child_signals();
    setsid();
    if (plan->changes_user && (setgroups((size_t)plan->rights.n_group, plan->rights.group) != 0 ||
                               setgid(options->gid) != 0 || setuid(options->uid) != 0)) {
        child_fail(plan, "cannot become the owner of", options->argv[0]);
    }
    umask(022);
    int log = options->log == NULL
                  ? -1
                  : open(options->log, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (options->log != NULL && log < 0) {
        child_fail(plan, "cannot open", options->log);
    }
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0 || dup2(plan->input >= 0 ? plan->input : nothing, STDIN_FILENO) < 0 ||
        dup2(log >= 0 ? log : options->out, STDOUT_FILENO) < 0 ||
        dup2(log >= 0 ? log : options->err, STDERR_FILENO) < 0) {
        child_fail(plan, "cannot open", "/dev/null");
    }
    for (int i = 0; i < options->n_inherit; i++) {
        fcntl(options->inherit[i], F_SETFD, 0);
    }
    if (chdir(options->folder) != 0) {
        child_fail(plan, "cannot enter", options->folder);
    }
    if (read(plan->gate, &go, 1) != 1) {
        static const char text[] = "trainerd: the daemon died before it let this begin\n";
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
        _exit(status_exit_code(STATUS_INTERRUPTED));
    }
    execve(plan->program, options->argv, plan->environment);
    child_fail(plan, "cannot start", plan->program);
}

/* --- starting --- */

/* A process's line /proc/PID/stat. */
struct stat_line {
    pid_t session;
    uint64_t start;
    bool has_ended;  /* a zombie: it holds no files or locks */
    int wait_status; /* of a zombie; 0 also when the daemon may not read it */
};

/* false: there is no such process */
static bool process_stat(pid_t pid, struct stat_line *out)
{
    char path[64], text[1024], state;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    text[n > 0 ? n : 0] = '\0';
    const char *after = strrchr(text, ')'); /* the program's name before it may hold any character */
    const char *last = strrchr(text, ' ');
    int session;
    unsigned long long start;
    if (after == NULL || last < after ||
        sscanf(after + 1, " %c %*d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
               &session, &start) != 3) {
        return false;
    }
    bool has_ended = state == 'Z' || state == 'X';
    *out = (struct stat_line){
        .session = session, .start = start, .has_ended = has_ended, .wait_status = has_ended ? atoi(last) : 0};
    return true;
}

static int pidfd_make(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0u);
}

static enum status child_start(struct plan *plan, struct process *out)
{
    int gate[2] = {-1, -1}, error_pipe[2] = {-1, -1};
    pid_t pid = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) == 0 &&
        pipe2(error_pipe, O_CLOEXEC | O_NONBLOCK) == 0) {
        plan->gate = gate[0];
        plan->error_pipe = error_pipe[1];
        pid = fork_unsignalled();
    }
    if (pid == 0) {
        child_run(plan);
    }
    int error = errno;
    file_close(gate[0]);
    file_close(error_pipe[1]);
    *out = (struct process){
        .pid = pid, .pidfd = pid > 0 ? pidfd_make(pid) : -1, .gate = gate[1], .error_pipe = error_pipe[0]};
    if (pid < 0) {
        process_release(out);
        return status_fail(STATUS_IO, "cannot start %s: %s", plan->options->argv[0], strerror(error));
    }
    struct stat_line line;
    if (out->pidfd < 0 || !process_stat(pid, &line)) {
        error = errno;
        kill(pid, SIGKILL); /* a child that is not reaped: the pid cannot have been reused */
        waitpid(pid, NULL, 0);
        process_release(out);
        return status_fail(STATUS_IO, "cannot watch a process that was started: %s", strerror(error));
    }
    out->start = line.start;
    return STATUS_OK;
}

static enum status program_find(const char *name, char out[PATH_MAX])
{
    return name[0] != '/' ? program_beside(name, out)
           : snprintf(out, PATH_MAX, "%s", name) < PATH_MAX
               ? STATUS_OK
               : status_fail(STATUS_CONFIG, "a program's path is too long");
}

enum status process_spawn(const struct process_options *options, struct process *out)
{
    struct plan *plan = memory_alloc(1, sizeof *plan);
    plan->options = options;
    plan->input = -1;
    enum status status = program_find(options->argv[0], plan->program);
    if (status == STATUS_OK && (status = user_find(plan)) == STATUS_OK && (status = input_make(plan)) == STATUS_OK) {
        status = child_start(plan, out);
    }
    if (status == STATUS_OK && options->made != NULL) {
        status = options->made(options->context, out->pid);
        if (status != STATUS_OK) {
            process_abandon(out);
        }
    }
    file_close(plan->input);
    texts_free(plan->environment);
    free(plan);
    return status;
}

void process_go(struct process *process)
{
    send(process->gate, "", 1, MSG_NOSIGNAL); /* a process that is gone is noticed through its pidfd */
    close(process->gate);
    process->gate = -1;
}

void process_abandon(struct process *process)
{
    process_signal(process, SIGKILL);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    process_release(process);
}

bool process_find(pid_t pid, uint64_t start, struct process *out)
{
    *out = (struct process){
        .pid = pid, .start = start, .pidfd = pid > 0 ? pidfd_make(pid) : -1, .gate = -1, .error_pipe = -1};
    struct stat_line line;
    /* In this order: a process of that start time that exists now existed when the pidfd was opened. */
    if (out->pidfd >= 0 && process_stat(pid, &line) && line.start == start) {
        return true;
    }
    process_release(out);
    return false;
}

void process_release(struct process *process)
{
    int *files[] = {&process->pidfd, &process->gate, &process->error_pipe};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        file_close(*files[i]);
        *files[i] = -1;
    }
}

/* --- signals and ends --- */

bool process_signal(const struct process *process, int signal_number)
{
    return syscall(SYS_pidfd_send_signal, process->pidfd, signal_number, NULL, 0u) == 0;
}

/* The pid belongs to another process by now, and so does the session of that number. */
static bool is_reused(const struct process *process)
{
    struct stat_line line;
    return process_stat(process->pid, &line) && line.start != process->start;
}

bool process_kill_session(const struct process *process)
{
    process_signal(process, SIGKILL);
    DIR *all = is_reused(process) ? NULL : opendir("/proc");
    if (all == NULL) {
        return false;
    }
    bool any = false;
    for (struct dirent *one = readdir(all); one != NULL; one = readdir(all)) {
        pid_t pid = isdigit((unsigned char)one->d_name[0]) ? atoi(one->d_name) : 0;
        struct stat_line line;
        struct process member;
        if (pid > 0 && pid != process->pid && process_stat(pid, &line) && line.session == process->pid &&
            !line.has_ended && process_find(pid, line.start, &member)) {
            any = true;
            process_signal(&member, SIGKILL);
            process_release(&member);
        }
    }
    closedir(all);
    return any;
}

bool process_reap(const struct process *process, int *wait_status_out)
{
    pid_t got;
    while ((got = waitpid(process->pid, wait_status_out, WNOHANG)) < 0 && errno == EINTR) {
    }
    struct stat_line line;
    if (got != process->pid && process_stat(process->pid, &line) && line.start == process->start) {
        *wait_status_out = line.wait_status;
        return line.wait_status != 0;
    }
    return got == process->pid;
}

void process_start_error(const struct process *process, char *out, size_t capacity)
{
    ssize_t n = process->error_pipe < 0 ? 0 : read(process->error_pipe, out, capacity - 1);
    out[n > 0 ? n : 0] = '\0';
}
