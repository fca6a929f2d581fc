/* A program of this build on a terminal of its own, for tests of what it shows and reads there. */
#ifndef TESTS_SUPPORT_TERMINAL_H
#define TESTS_SUPPORT_TERMINAL_H

#include <sys/types.h>

/* Start it in the test's folder; it ends with the test. *master_out: the terminal's other end, which the caller closes. arguments: at most 14, then NULL */
pid_t terminal_start(const char *name, const char *const arguments[], int *master_out);

/* Read until the terminal has shown some words; those that came before are passed over. `output` (command.h) has what was shown meanwhile. */
void terminal_await(int master, const char *words);

/* Type these keys. */
void terminal_type(int master, const char *keys);

#endif
