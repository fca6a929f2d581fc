/* Signals of a coordinator: INT, TERM and HUP, whose effect depends on the phase; USR1 requests a checkpoint.
 *
 * Separate because signal handlers need flags that outlive every call; knows nothing of jobs.
 */
#ifndef TRAINERD_INTERRUPT_H
#define TRAINERD_INTERRUPT_H

#include <signal.h>

enum interrupt_mode {
    INTERRUPT_MODE_EXIT,  /* nothing to save, no process started: end at once with exit code 75 */
    INTERRUPT_MODE_STOP,  /* workers run: the first signal ends the present wait */
    INTERRUPT_MODE_FINISH /* training: the first signal ends it after this epoch, the second ends the present wait */
};

/* Catch INT, TERM, HUP unless it is ignored (program_ignores), and USR1; ignore PIPE, which writes report themselves.
 * Starts in INTERRUPT_MODE_EXIT, where the signal handler calls `before_exit`, then exits. */
void interrupt_install(void (*before_exit)(void));

void interrupt_mode(enum interrupt_mode mode);

/* A signal number once training should end after the running epoch; 0 before. */
extern volatile sig_atomic_t interrupt_asked;

/* A signal number once calls should return at once: the fleet's `stop`. */
extern volatile sig_atomic_t interrupt_now;

/* Not 0 once a checkpoint is to be written after the running epoch. The writer sets it to 0 before it writes. */
extern volatile sig_atomic_t interrupt_checkpoint;

#endif
