/* Two machines on one: network namespaces with a cable between them and a name each, and programs that run in them.
 *
 * Nothing outlives the test, however it ends: a namespace has no name, so that it goes with the last who uses it, and the
 * programs are killed with the test. Needs root and iproute2.
 */
#ifndef TESTS_SUPPORT_MACHINES_H
#define TESTS_SUPPORT_MACHINES_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct machine {
    const char *name;    /* its host name */
    const char *address; /* on the cable, the device "wire", with the length of its prefix */
    int net, uts;        /* namespaces */
};

/* Two machines as they are described, connected. False where that is not allowed or not possible. */
bool machines_open(struct machine machines[2]);
void machines_close(struct machine machines[2]);

/* Run a shell command on a machine; its exit code. */
int machine_run(const struct machine *machine, const char *command);

struct process {
    pid_t pid;
    FILE *err;
    char words[1 << 14]; /* what it wrote to stderr, as far as it was read */
};

/* Start a program in a folder, which must exist, of a machine (NULL: this one).
 *
 *   alone  NULL: with the files that lie there. Otherwise (on a machine) it sees an empty file system in their place, with
 *          nothing but the file "token", and this is its text
 */
void process_start(struct process *process, const struct machine *machine, const char *folder, const char *alone,
                   const char *const arguments[]);

/* Read stderr up to the first line that begins with `word`. */
void process_await(struct process *process, const char *word);

/* Wait for the end; the exit code, or 1000 + the signal that ended it. */
int process_finish(struct process *process);

#endif
