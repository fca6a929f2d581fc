/* What another program says, within a time: its standard output. No shell is involved. */
#ifndef TRAINERD_CTL_CAPTURE_H
#define TRAINERD_CTL_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

/* Run argv[0], a path or a name for the search in PATH, to its end, or kill it after some seconds.
 *
 *   out    capacity bytes with NUL: the beginning of its output
 *   gives  false when it cannot be started, takes too long or leaves with anything but 0
 */
bool capture(const char *const *argv, char *out, size_t capacity);

#endif
