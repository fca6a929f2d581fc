/* The standard output of another program, within a time limit and without a shell. */
#ifndef PROTOCOL_CAPTURE_H
#define PROTOCOL_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

/* Run argv[0], a path or a name in PATH (program_in_path), to its end, or kill it after `most_s` seconds.
 *
 *   out    capacity bytes with NUL: the beginning of its output
 *   notes  false: it cannot be started, takes too long, or its exit code is not 0
 */
bool capture(const char *const *argv, double most_s, char *out, size_t capacity);

#endif
