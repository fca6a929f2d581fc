/* A daemon of this build that serves the test's folder at a socket in it, for tests of command lines. */
#ifndef TESTS_SUPPORT_SERVED_H
#define TESTS_SUPPORT_SERVED_H

#include "tests/support/process/machines.h"

extern struct process served_process;
extern char served_address[128];

/* Name the socket, and let trainctl find it; the folder is made. */
void served_address_set(void);

/* Start the daemon with four slots, or with these settings (NULL last), and wait until it listens; end it. */
void served_begin(void);
void served_begin_with(const char *const settings[]);
void served_end(void);

#endif
