/* Workers on other hosts: an ssh for each, whose standard input has the token. A worker says its rank when it joins,
 * is then watched over its connection, and ends without it, as without its ssh. */
#include "trainerd/coordinator/fleet/fleet_state.h"
#include "trainerd/coordinator/machines/hosts.h"

#include "protocol/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND_BYTES (64 << 10)
#define SSH_FAILED 255   /* ssh's own exit code; else it is the command's */
#define NOT_RUNNABLE 126 /* a shell's exit codes */
#define NOT_FOUND 127

extern char **environ;

static void ssh_exited(uv_process_t *process, int64_t exit_code, int signal)
{
    struct fleet_worker *worker = process->data;
    struct fleet *fleet = worker->fleet;
    worker->child.is_there = false;
    uv_close((uv_handle_t *)process, NULL);
    char sentence[160];
    if (exit_code == NOT_FOUND || exit_code == NOT_RUNNABLE) {
        fleet_fail(fleet, worker, STATUS_CONFIG,
                   "was not started: its host cannot run the program (exit code %d, and a message above), expected "
                   "the path of trainer-worker there as workers.program",
                   (int)exit_code);
        return;
    }
    if (signal != 0) {
        snprintf(sentence, sizeof sentence, "lost its ssh, which was killed by signal %d", signal);
    } else if (exit_code == SSH_FAILED) {
        snprintf(sentence, sizeof sentence,
                 "was not started, killed or lost by ssh (exit code %d, and a message above)", SSH_FAILED);
    } else {
        snprintf(sentence, sizeof sentence, "ended with exit code %d (%s)", (int)exit_code,
                 status_text(status_from_exit_code((int)exit_code)));
    }
    enum status status = exit_code == 0 || signal != 0 || exit_code == SSH_FAILED
                             ? STATUS_PEER
                             : status_from_exit_code((int)exit_code);
    fleet_suspect(worker, FLEET_SUSPICION_EXIT, status, sentence);
}

/* One word for a shell: in single quotes, which end for a quote of the text's own. */
static void word_print(FILE *to, const char *text)
{
    fputs(" '", to);
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", to);
        } else {
            fputc(*text, to);
        }
    }
    fputc('\'', to);
}

/* The ssh command up to the rank. UCX settings apply to both ends, so they are passed on. */
static char *command_make(const struct fleet *fleet, const char *program, char **environment)
{
    char *command = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&command, &n);
    ASSERT(to != NULL);
    fputs("exec env", to);
    for (char **at = environment; *at != NULL; at++) {
        if (strncmp(*at, "UCX_", 4) == 0 || strncmp(*at, "OMP_", 4) == 0 || strncmp(*at, "GOMP_", 5) == 0) {
            word_print(to, *at);
        }
    }
    word_print(to, program);
    fputs(" --join", to);
    word_print(to, fleet->control.join);
    fprintf(to, " --token-fd 0 --join-timeout %g --rank", fleet->job->workers.join_timeout);
    fclose(to);
    return command;
}

static enum status worker_start(struct fleet_worker *worker, const struct host *host, const char *prefix)
{
    struct fleet *fleet = worker->fleet;
    char timeout[48], port[16], command[COMMAND_BYTES];
    /* no questions: a job may run without a terminal */
    char *arguments[12] = {"ssh", "-oBatchMode=yes", "-o", timeout};
    size_t n = 4;
    snprintf(worker->host, sizeof worker->host, "%.63s", host->name);
    snprintf(timeout, sizeof timeout, "ConnectTimeout=%.0f", fleet->job->workers.join_timeout + 0.5);
    if (snprintf(command, sizeof command, "%s %u", prefix, worker->rank) >= (int)sizeof command) {
        return status_fail(STATUS_CONFIG, "the environment's UCX_ and OMP_ variables are more than %d bytes",
                           COMMAND_BYTES);
    }
    if (host->port > 0) {
        snprintf(port, sizeof port, "-p%d", host->port);
        arguments[n++] = port;
    }
    arguments[n++] = "--";
    arguments[n++] = (char *)host->name;
    arguments[n++] = command;
    arguments[n] = NULL;
    const struct fleet_child child = {.program = arguments[0],
                                      .arguments = arguments,
                                      .environment = environ,
                                      .token_at = 0,
                                      .rank = worker->rank,
                                      .ended = ssh_exited,
                                      .data = worker};
    enum status status = fleet_child_start(fleet, &child, &worker->child.process);
    if (status != STATUS_OK) {
        return status != STATUS_PEER ? status
                                     : status_fail(status, "cannot start worker %u on %s, %s: expected ssh in PATH",
                                                   worker->rank, host->name, status_reason());
    }
    worker->child.is_there = true;
    worker->pid = (uint32_t)worker->child.process.pid;
    return STATUS_OK;
}

enum status fleet_launch_ssh(struct fleet *fleet)
{
    char program[PATH_MAX];
    struct hosts hosts;
    enum status status = fleet_worker_program(fleet->job, program);
    if (status != STATUS_OK || (status = hosts_load(fleet->job->workers.hosts, &hosts)) != STATUS_OK) {
        return status;
    }
    struct fleet_environment environment;
    fleet_environment_init((uint32_t)fleet->job->workers.threads, false, &environment);
    char *command = command_make(fleet, program, environment.all);
    if (hosts.n_slot < (int64_t)fleet->n_worker) { /* it was another file when workers were counted */
        status = status_fail(STATUS_CONFIG, "'%s' has %lld slots for %u workers", fleet->job->workers.hosts,
                             (long long)hosts.n_slot, fleet->n_worker);
    }
    for (uint32_t rank = 0; status == STATUS_OK && rank < fleet->n_worker; rank++) {
        status = worker_start(&fleet->workers[rank], hosts_of_rank(&hosts, rank), command);
    }
    free(command);
    free(environment.all);
    hosts_release(&hosts);
    return status;
}
