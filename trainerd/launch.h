/* Run another program of trainerd to its end as if it were this one: same terminal, same signals, same exit code.
 *
 * Part of the daemon: libuv and protocol only.
 */
#ifndef TRAINERD_LAUNCH_H
#define TRAINERD_LAUNCH_H

#include "protocol/base/status.h"

#include <stdbool.h>

/* Start argv[0], a bare name, from the folder of this executable, else from PATH, and wait for its end.
 *
 *   file      the program has it as its descriptor LAUNCH_FILE; -1: none
 *   died_out  a signal has ended it that was not forwarded, and not for want of memory
 *   notes   INT, TERM and HUP are forwarded, but for a HUP that the parent process ignores (nohup); and USR1, once
 *           the program takes it. The program has its own session, so that a terminal's Ctrl-C does not reach it
 *           twice
 *   errors  STATUS_PEER it cannot be started, or was killed or ended by another signal from outside · STATUS_BUG a
 *           fault of its own ended it (the signal's name is in the reason) · STATUS_INTERRUPTED a forwarded signal
 *           ended it
 */
#define LAUNCH_FILE 3
enum status launch_run(char *const argv[], int file, int *exit_code_out, bool *died_out);

#endif
