/* The start of each of trainerd's programs, and the paths of the other programs and of shared objects. */
#ifndef PROTOCOL_PROGRAM_H
#define PROTOCOL_PROGRAM_H

#include "protocol/base/status.h"

#include <limits.h>
#include <stdbool.h>

/* Normalise the inherited state of a process. Closed descriptors 0, 1 and 2 are opened on /dev/null, so that no other
 * file gets their numbers. No signal is blocked, and the ends of children are reported. USR1 and USR2 are ignored
 * until a program handles them. XFSZ is ignored, since the write reports the limit. The first call of each main. */
void program_begin(void);

/* Is this a HUP that was ignored at the start, as by nohup? It stays ignored: no handler is installed. */
bool program_ignores(int signal_number);

/* Is this signal the program's own fault, as a bad address or a failed check? Other signals come from outside. */
bool program_is_fault(int signal_number);

/* The path of a program of this name in the folder of this one, whether it is there or not.
 * errors  STATUS_PEER this program's own path cannot be found */
enum status program_beside(const char *name, char out[PATH_MAX]);

/* The path of a program of this name in PATH; a name with '/' is one already. Relative folders of PATH, and empty
 * ones, are left out: the current folder may belong to another user. false: it is nowhere, and `out` is empty */
bool program_in_path(const char *name, char out[PATH_MAX]);

/* The device for GPUs, which workers open. */
#define PROGRAM_CUDA "trainer-cuda.so"

/* The path of a shared object that programs open at run time: in lib/ beside the programs' folder where they were
 * built, in lib/trainerd/ where they are installed. errors  STATUS_PEER it is in neither */
enum status program_module(const char *name, char out[PATH_MAX]);

#endif
