/* A device that keeps the rules of models/device/device.h to the letter: the cpu's arithmetic, on memory that the
 * host cannot touch.
 *
 * Device memory is mapped without any right, and opened only while the device works; a touch by the host ends the
 * process with STRICT_EXIT and a sentence. Nothing is done when a call returns: each lane keeps its calls, with
 * copies of what describes them, until a caller waits, and bytes on their way to the host are NaN until then. Within
 * a scope only the listed arrays of the categories ACTIVATIONS and PARAMETERS are open, for what is listed, and what
 * is written is NaN before.
 */
#ifndef TESTS_SUPPORT_STRICT_H
#define TESTS_SUPPORT_STRICT_H

#include "models/device/device.h"

#define STRICT_EXIT 86

extern const struct device_ops device_strict;

/* Part of an array that a step may touch. */
struct strict_range {
    const void *at; /* NULL: nothing */
    size_t n_bytes;
    bool read, write; /* write alone: overwritten before it is read */
};

/* What is called from here to the end works on these arrays alone; pages are opened whole. Does nothing on other
 * devices. */
void device_strict_scope(struct device *device, const struct strict_range *range, int n_range);
void device_strict_scope_end(struct device *device);

#endif
