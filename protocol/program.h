/* Paths of trainerd's other programs: in the folder of the running one. */
#ifndef PROTOCOL_PROGRAM_H
#define PROTOCOL_PROGRAM_H

#include "protocol/status.h"

#include <limits.h>

/* The path of a program of this name in the folder of this one, whether it is there or not.
 * errors  STATUS_PEER this program's own path cannot be found */
enum status program_beside(const char *name, char out[PATH_MAX]);

#endif
