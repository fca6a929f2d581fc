/* A device that keeps the rules of models/device/device.h to the letter: the cpu's arithmetic, on memory that the
 * host cannot touch.
 *
 * Device memory is mapped without any right, and opened only while the device works; a touch by the host ends the
 * process with STRICT_EXIT and a sentence. Nothing is done when a call returns: each lane keeps its calls, with
 * copies of what describes them, until a caller waits, and bytes on their way to the host are NaN until then.
 */
#ifndef TESTS_SUPPORT_STRICT_H
#define TESTS_SUPPORT_STRICT_H

#include "models/device/device.h"

#define STRICT_EXIT 86

extern const struct device_ops device_strict;

#endif
