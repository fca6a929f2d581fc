/* Run another of our programs to its end as if it were this one: same terminal, same signals, same exit code.
 *
 * Part of the daemon: libuv and protocol only.
 */
#ifndef TRAINERD_LAUNCH_H
#define TRAINERD_LAUNCH_H

#include "protocol/status.h"

/* Start argv[0], a bare name, from the folder of this executable, else from PATH, and wait for its end.
 *
 *   notes   INT, TERM and HUP are passed on to it, once each time: it has its own session, so that a terminal's
 *           Ctrl-C does not reach it a second time
 *   errors  STATUS_PEER it cannot be started · STATUS_BUG a signal ended it (its name is in the reason) ·
 *           STATUS_INTERRUPTED the signal that ended it was one that was passed on
 */
enum status launch_run(char *const argv[], int *exit_code_out);

#endif
