/* Worker processes on this machine: their start, and the reason of their end. Their environment is set here, before
 * exec, because UCX and OpenMP read it when they are loaded. */
#include "protocol/base/cgroup.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "trainerd/coordinator/fleet/fleet_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

static uint32_t cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

uint32_t fleet_n_thread(const struct job *job, uint32_t n_core, uint32_t n_here)
{
    if (job->workers.threads > 0) {
        return (uint32_t)job->workers.threads;
    }
    return n_core > n_here ? n_core / n_here : 1;
}

/* Behind the n_own variables of the coordinator, and the *n that were added. */
static void setting_add(struct fleet_environment *environment, size_t n_own, size_t *n, const char *name,
                        const char *value)
{
    if (getenv(name) == NULL) {
        char *setting = environment->settings[*n];
        snprintf(setting, sizeof environment->settings[0], "%s=%s", name, value);
        environment->all[n_own + (*n)++] = setting;
    }
}

void fleet_environment_init(uint32_t n_thread, bool have_cores, struct fleet_environment *out)
{
    size_t n_own = 0;
    while (environ[n_own] != NULL) {
        n_own++;
    }
    out->all = memory_alloc(n_own + FLEET_N_SETTING + 1, sizeof *out->all);
    memcpy(out->all, environ, n_own * sizeof *out->all);

    char text[16];
    size_t n = 0;
    snprintf(text, sizeof text, "%u", n_thread);
    if (n_thread > 0) {
        setting_add(out, n_own, &n, "OMP_NUM_THREADS", text);
    }
    setting_add(out, n_own, &n, "OMP_PROC_BIND",
                "false"); /* bound threads of several workers would share the first cores */
    /* Parallel operations of a small graph follow each other within microseconds: a waiting thread spins for a moment
     * before it sleeps. Where threads share cores it sleeps at once, since it would take the core of the thread that
     * it waits for. */
    setting_add(out, n_own, &n, "OMP_WAIT_POLICY", "passive");
    setting_add(out, n_own, &n, "GOMP_SPINCOUNT", have_cores ? "4000" : "0");
    setting_add(out, n_own, &n, "UCX_HANDLE_ERRORS", "none");
    setting_add(out, n_own, &n, "UCX_WARN_UNUSED_ENV_VARS", "n");
}

enum status fleet_worker_program(const struct job *job, char out[PATH_MAX])
{
    if (job->workers.program[0] == '\0') {
        return program_beside("trainer-worker", out);
    }
    snprintf(out, PATH_MAX, "%s", job->workers.program);
    return STATUS_OK;
}

static void process_exited(uv_process_t *process, int64_t exit_code, int signal)
{
    struct fleet_worker *worker = process->data;
    struct fleet *fleet = worker->fleet;
    worker->child.is_there = false;
    uv_close((uv_handle_t *)process, NULL);
    ssize_t n_word = recv(worker->child.last_words, worker->child.words, sizeof worker->child.words - 1,
                          MSG_DONTWAIT);
    worker->child.words[n_word > 0 ? n_word : 0] = '\0';
    char sentence[128];
    if (signal != 0) {
        const char *name = sigabbrev_np(signal);
        snprintf(sentence, sizeof sentence, "was killed by signal %d (SIG%s)", signal, name != NULL ? name : "?");
    }
    if (signal == SIGABRT) { /* UCX aborts a process whose peer is killed while it reads that peer's memory */
        fleet_suspect(worker, FLEET_SUSPICION_EXIT, STATUS_PEER, sentence);
        return;
    }
    if (signal == SIGKILL && cgroup_oom_kills("") > fleet->n_oom_kill) {
        fleet_fail(fleet, worker, STATUS_NOMEM, "%s %s, since memory ran out: %s is %lld bytes", sentence,
                   fleet->doing, memory_machine_name(), (long long)memory_machine());
        return;
    }
    if (signal != 0) {
        fleet_fail(fleet, worker, STATUS_PEER, "%s %s", sentence, fleet->doing);
        return;
    }
    snprintf(sentence, sizeof sentence, "ended with exit code %d (%s)", (int)exit_code,
             status_text(status_from_exit_code((int)exit_code)));
    enum status status = exit_code == 0 ? STATUS_PEER : status_from_exit_code((int)exit_code);
    fleet_suspect(worker, FLEET_SUSPICION_EXIT, status, sentence);
}

/* The child reads the token here: the end of a pipe, or with own_out of a socket, whose other end is *own_out. */
static enum status token_give(const char *token, int *end_out, int *own_out)
{
    int ends[2];
    if ((own_out != NULL ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : pipe2(ends, O_CLOEXEC)) != 0) {
        return status_fail(STATUS_PEER, "cannot make a pipe for a worker's token: %s", strerror(errno));
    }
    ssize_t n = (ssize_t)strlen(token);
    bool written = write(ends[1], token, (size_t)n) == n;
    ASSERT(written); /* a fresh pipe or socket holds a page */
    if (own_out != NULL) {
        shutdown(ends[1], SHUT_WR);
        *own_out = ends[1];
    } else {
        close(ends[1]);
    }
    *end_out = ends[0];
    return STATUS_OK;
}

enum status fleet_child_start(struct fleet *fleet, const struct fleet_child *child, uv_process_t *out)
{
    int token = -1, log = -1, log_made = -1, error = 0;
    char program[PATH_MAX];
    program_in_path(child->program, program);
    enum status status = events_rank_log(fleet->setup.events, child->rank, &log, &log_made);
    if (status != STATUS_OK || (status = token_give(fleet->control.token, &token, child->last_words)) != STATUS_OK) {
        goto out;
    }
    const uv_stdio_container_t secret = {.flags = UV_INHERIT_FD, .data.fd = token}, none = {.flags = UV_IGNORE};
    uv_stdio_container_t stdio[] = {
        child->token_at == 0 ? secret : none,
        none, /* standard output belongs to the job's owner */
        {.flags = UV_INHERIT_FD, .data.fd = log},
        secret,
    };
    uv_process_options_t options = {
        .exit_cb = child->ended,
        .file = program,
        .args = child->arguments,
        .env = child->environment,
        .stdio_count = child->token_at == 0 ? 3 : 4,
        .stdio = stdio,
    };
    out->data = child->data;
    error = uv_spawn(&fleet->loop, out, &options);
    close(token);
    if (error != 0) {
        uv_close((uv_handle_t *)out, NULL);
        status = status_fail(STATUS_PEER, "'%s': %s", child->program, uv_strerror(error));
    }
out:
    if (log_made >= 0) {
        close(log_made);
    }
    return status;
}

static enum status worker_start(struct fleet_worker *worker, const char *program, char **environment)
{
    struct fleet *fleet = worker->fleet;
    /* The coordinator listens already: a refused connection means that it is gone, and is not tried again. */
    char *arguments[] = {
        (char *)program, "--join", fleet->control.join, "--token-fd", "3", "--join-timeout", "0", NULL};
    const struct fleet_child child = {.program = program,
                                      .arguments = arguments,
                                      .environment = environment,
                                      .token_at = 3,
                                      .rank = worker->rank,
                                      .last_words = &worker->child.last_words,
                                      .ended = process_exited,
                                      .data = worker};
    worker->child.was_started = true;
    enum status status = fleet_child_start(fleet, &child, &worker->child.process);
    if (status != STATUS_OK) {
        return status == STATUS_PEER
                   ? status_fail(status, "cannot start worker %u, %s", worker->rank, status_reason())
                   : status;
    }
    worker->child.is_there = true;
    worker->pid = (uint32_t)worker->child.process.pid;
    return STATUS_OK;
}

enum status fleet_launch(struct fleet *fleet)
{
    fleet->n_oom_kill = cgroup_oom_kills("");
    char program[PATH_MAX];
    enum status status = program_beside("trainer-worker", program);
    if (status != STATUS_OK) {
        return status;
    }
    struct fleet_environment environment;
    uint32_t n_core = cores(), n_thread = fleet_n_thread(fleet->job, n_core, fleet->n_worker);
    fleet_environment_init(n_thread, (uint64_t)n_thread * fleet->n_worker <= n_core, &environment);
    for (uint32_t rank = 0; status == STATUS_OK && rank < fleet->n_worker; rank++) {
        status = worker_start(&fleet->workers[rank], program, environment.all);
    }
    free(environment.all);
    return status;
}
