/* Files mapped for reading. If a file becomes shorter, or the disk cannot read it, an access raises SIGBUS. The
 * process then ends with the file's name, since its code cannot be left at any place.
 */
#ifndef PARTITION_MAPPED_H
#define PARTITION_MAPPED_H

#include "protocol/base/status.h"

#include <stddef.h>

/* Handle SIGBUS: `end` is called with the status and status_reason, to report them, and the process ends with the
 * status's exit code.
 *
 *   errors  of `end`: STATUS_DATA the file has become shorter · STATUS_IO it cannot be read
 *   notes   after transport_calm. A SIGBUS of other memory ends the process as usual
 */
void mapped_install(void (*end)(enum status status));

/* Map n_byte bytes of an open file, read-only, with the name for messages. errors  STATUS_IO */
enum status mapped_open(int file, const char *name, size_t n_byte, void **out);
void mapped_close(void *map, size_t n_byte);

/* `status`, unless one of these files has become shorter since it was opened: the missing bytes of its last page read
 * as zeros, without a signal.
 * errors  STATUS_DATA with the file, instead of the error that the zeros caused */
enum status mapped_check(enum status status);

#endif
