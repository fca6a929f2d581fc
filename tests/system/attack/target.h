/* The daemon under attack: the program, as root, on a Unix socket, with metrics on a port; killed and started again.
 */
#ifndef TESTS_SYSTEM_ATTACK_TARGET_H
#define TESTS_SYSTEM_ATTACK_TARGET_H

#include <stdbool.h>
#include <sys/types.h>

/* Start it in the test's folder and wait until it listens. faults: TRAINERD_FAULTS of it and its jobs, NULL: none.
 * Where one of them kills the daemon itself, its death is expected. */
void target_start(const char *faults);

pid_t target_pid(void);
int target_http_port(void);

/* It has died, as it was expected to: true, and it may be started again. A death that was not expected fails the
 * test. */
bool target_is_dead(void);

/* Kill it / end it orderly, and wait for its end. */
void target_kill(void);
void target_end(void);

/* Lines of the daemon's log that are errors of its own: none. */
void target_expect_no_bug(void);

#endif
