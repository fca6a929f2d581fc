/* Processes that outlive the daemon: as another user, in their own session, found again by pid and start time.
 *
 * They are signalled and watched through a pidfd, so that a reused pid is never touched. Knows neither jobs nor an
 * event loop: a pidfd becomes readable when its process ends.
 */
#ifndef TRAINERD_DAEMON_PROCESS_H
#define TRAINERD_DAEMON_PROCESS_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid;      /* 0: none */
    uint64_t start; /* ticks since boot when it began */
    int pidfd;
    int gate;       /* writing end: the child waits for a byte before it executes the program; -1: it does not wait */
    int error_pipe; /* reading end: why the child could not start the program; -1: found, not started */
};

struct process_options {
    char *const *argv; /* argv[0] a bare name: the program beside this one; or an absolute path */
    uid_t uid;         /* its user, groups and environment; changed only when it differs from the daemon's */
    gid_t gid;
    const char *pass_environment; /* names of variables that another user's process gets, too (daemon_keys.def) */
    const char *gpus;             /* its CUDA_VISIBLE_DEVICES; "": it sees no GPU; NULL: not set by the daemon */
    const char *folder;           /* working directory; entered as that user */
    const char *log;    /* its output is appended to this file, opened as that user, never through a link … */
    int out, err;       /* … or, where log is NULL, to these descriptors */
    const int *inherit; /* n_inherit descriptors that it inherits besides, with their numbers */
    int n_inherit;
    const char *input; /* what it finds on its standard input: a text in sealed memory; NULL: nothing */
    /* Called with the process at its gate; its failure ends the process, and is process_spawn's. NULL: not called */
    enum status (*made)(const void *context, pid_t pid);
    const void *context;
};

/* Start a process that waits at its gate, so that its pid can be saved first. It exits if the daemon dies before.
 *
 *   owns    the caller owns *out: process_release
 *   errors  STATUS_IO no process can be made now
 */
enum status process_spawn(const struct process_options *options, struct process *out);
void process_go(struct process *process);
/* Instead of process_go: kill and reap it, and release *process. */
void process_abandon(struct process *process);

/* The process with that pid and start time. false: it is gone. */
bool process_find(pid_t pid, uint64_t start, struct process *out);

/* Close the descriptors; the process runs on. */
void process_release(struct process *process);

/* false: it is gone already. */
bool process_signal(const struct process *process, int signal_number);
/* Send KILL to it and to all processes of its session. true: other processes were in the session, and may still hold
 * its locks and files; call it again until it returns false. */
bool process_kill_session(const struct process *process);

/* After its end: reap a child, else read its status from /proc. false: the status is not known. */
bool process_reap(const struct process *process, int *wait_status_out);
/* Why the program could not be started; "" when it was. */
void process_start_error(const struct process *process, char *out, size_t capacity);

#endif
