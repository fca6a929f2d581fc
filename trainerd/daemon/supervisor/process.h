/* Processes that outlive the daemon: started as another user in a session of their own, found again by pid and start
 * time, signalled and watched through a pidfd, so that a pid that is somebody else's by now is never touched.
 *
 * Knows nothing of jobs, and of no loop: a pidfd turns readable when its process ends.
 */
#ifndef TRAINERD_DAEMON_PROCESS_H
#define TRAINERD_DAEMON_PROCESS_H

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid;      /* 0: none */
    uint64_t start; /* ticks since boot when it began */
    int pidfd;
    int gate;  /* writing end: it waits for a byte before it becomes the program; -1: it does not wait */
    int words; /* reading end: why it could not begin; -1: found, not started */
};

struct process_options {
    char *const *argv; /* argv[0] a bare name: the program beside this one */
    uid_t uid;         /* whose it is: user, groups and environment; changed only when it is not our own */
    gid_t gid;
    const char *folder; /* where it stands; entered as that user */
    const char *log;    /* file that its output is added to, opened as that user, never through a link; NULL: to
                          * `out` and `err` */
    int out, err;
};

/* Start a process that waits at its gate: what is to be known of it can be kept before it does anything. It ends by
 * itself when we die before process_go.
 *
 *   owns    the caller owns *out: process_release
 *   errors  STATUS_IO no process can be made now
 */
enum status process_spawn(const struct process_options *options, struct process *out);
void process_go(struct process *process);
/* Instead of process_go: it never was. Releases it. */
void process_abandon(struct process *process);

/* The process of that pid that began then. false: it is gone. */
bool process_find(pid_t pid, uint64_t start, struct process *out);

/* Close what was opened; the process goes on. */
void process_release(struct process *process);

/* false: it is gone already. */
bool process_signal(const struct process *process, int signal_number);
/* KILL for it and all of its session. false: there was nobody else in it. Before that, what they share with it (locks,
 * files) is theirs: to be called again until then. */
bool process_kill_session(const struct process *process);

/* After its end: reap it if it was our child, else look at what is left of it. false: how it ended is not known. */
bool process_reap(const struct process *process, int *wait_status_out);
/* Why it could not begin, as it said; "" when it did. */
void process_words(const struct process *process, char *out, size_t n_room);

#endif
