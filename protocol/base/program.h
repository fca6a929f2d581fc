/* How each of trainerd's programs begins, and the paths of the others, in the folder of the running one, and of what
 * they open. */
#ifndef PROTOCOL_PROGRAM_H
#define PROTOCOL_PROGRAM_H

#include "protocol/base/status.h"

#include <limits.h>
#include <stdbool.h>

/* Put right what a process inherits from whoever starts it: descriptors 0, 1 and 2 that are closed are opened on
 * /dev/null, else the first files opened have these numbers; no signal is blocked; ends of children are seen. USR1
 * and USR2 are ignored, until a program takes them, and XFSZ, since the write reports a file that may not grow. The
 * first call of each main. */
void program_begin(void);

/* Is this a HUP that whoever started us ignores, as nohup does? It keeps its effect: no handler takes it. */
bool program_ignores(int signal_number);

/* Does a program end by this signal through a fault of its own, as a bad address or a failed check? Others came from
 * outside. */
bool program_is_fault(int signal_number);

/* The path of a program of this name in the folder of this one, whether it is there or not.
 * errors  STATUS_PEER this program's own path cannot be found */
enum status program_beside(const char *name, char out[PATH_MAX]);

/* The device for GPUs, which workers open. */
#define PROGRAM_CUDA "trainer-cuda.so"

/* The path of a shared object that programs open at run time: in lib/ beside the programs' folder where they were
 * built, in lib/trainerd/ where they are installed. errors  STATUS_PEER it is in neither */
enum status program_module(const char *name, char out[PATH_MAX]);

#endif
