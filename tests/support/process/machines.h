/* Two machines on one host: two network namespaces with host names and a cable between them, and programs that run in them.
 *
 * Nothing outlives the test, however it ends: the namespaces have no names, so that the kernel removes them with their last
 * process, and the programs are killed with the test. Needs root and iproute2.
 */
#ifndef TESTS_SUPPORT_MACHINES_H
#define TESTS_SUPPORT_MACHINES_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct machine {
    const char *name;    /* its host name */
    const char *address; /* of its end of the cable, the device "wire": IP/PREFIX */
    int net, uts;        /* namespaces */
};

/* Open two machines of these names and addresses, connected. False where this process may not or the host cannot. */
bool machines_open(struct machine machines[2]);
void machines_close(struct machine machines[2]);

/* Run a shell command on a machine; its exit code. */
int machine_run(const struct machine *machine, const char *command);

struct process {
    pid_t pid;
    FILE *err;
    char words[1 << 14]; /* its standard error, as far as it was read */
};

/* Start a program in a folder, which must exist, of a machine (NULL: this one).
 *
 *   alone  NULL: the program sees the folder's files. Otherwise (on a machine) it sees an empty file system in place of the
 *          folder, with one file, "token", of this text
 */
void process_start(struct process *process, const struct machine *machine, const char *folder, const char *alone,
                   const char *const arguments[]);

/* Read stderr up to the first line that begins with `word`. */
void process_await(struct process *process, const char *word);

/* Wait until a daemon has logged that it listens; lines before it tell of other things. */
void process_await_listening(struct process *process);

/* Wait for the end; the exit code, or 1000 + the signal that ended it. */
int process_finish(struct process *process);

#endif
