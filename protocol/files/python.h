/* Python, for programs of the package trainerd: where it is, and where it finds packages. All that it runs is started
 * with -P, so that it looks for modules neither in the current folder nor beside a script. */
#ifndef PROTOCOL_PYTHON_H
#define PROTOCOL_PYTHON_H

#include <limits.h>
#include <stdbool.h>

/* Where a message says that Python or the package is missing. */
#define PYTHON_ADVICE                                                                                                \
    "install Python 3.11 or newer and trainerd's Python package (Debian's package trainerd has it for "              \
    "/usr/bin/python3; from a checkout: pip install ./python)"

/* Set $PYTHONPATH, in the first call: the folder of the package beside these programs, as installed, in the wheel or
 * in a checkout, then the absolute folders that the variable has. Relative and empty ones are left out: the current
 * folder may belong to another user. So may what lies in a folder with a sticky bit. programs: their folder */
void python_path_set(const char *programs);

/* A Python that runs this program without an error: the first of PATH, else the system's. */
bool python_find(const char *program, char out[PATH_MAX]);

#endif
