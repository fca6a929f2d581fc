/* Paths of trainerd's other programs, in the folder of the running one, and of what they open. */
#ifndef PROTOCOL_PROGRAM_H
#define PROTOCOL_PROGRAM_H

#include "protocol/status.h"

#include <limits.h>

/* The path of a program of this name in the folder of this one, whether it is there or not.
 * errors  STATUS_PEER this program's own path cannot be found */
enum status program_beside(const char *name, char out[PATH_MAX]);

/* The device for GPUs, which workers open. */
#define PROGRAM_CUDA "trainer-cuda.so"

/* The path of a shared object that programs open at run time: in lib/ beside the programs' folder where they were built, in lib/trainerd/
 * where they are installed. errors  STATUS_PEER it is in neither */
enum status program_module(const char *name, char out[PATH_MAX]);

#endif
