#include "trainerd/coordinator/epochs/interrupt.h"

#include "protocol/base/program.h"
#include "protocol/base/status.h"

#include <stddef.h>
#include <unistd.h>

volatile sig_atomic_t interrupt_asked;
volatile sig_atomic_t interrupt_now;
volatile sig_atomic_t interrupt_checkpoint;
static void (*on_exit_handler)(void);
static volatile sig_atomic_t mode_now = INTERRUPT_MODE_EXIT;

static void on_signal(int number)
{
    if (mode_now == INTERRUPT_MODE_EXIT) {
        static const char text[] = "trainerd: interrupted before training began: nothing to save\n";
        ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
        (void)written;
        on_exit_handler();
        _exit(status_exit_code(STATUS_INTERRUPTED));
    }
    if (mode_now == INTERRUPT_MODE_STOP || interrupt_asked != 0) {
        interrupt_now = number;
    }
    interrupt_asked = number;
}

static void on_checkpoint(int number)
{
    interrupt_checkpoint = number;
}

void interrupt_install(void (*before_exit)(void))
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal}, save = {.sa_handler = on_checkpoint, .sa_flags = SA_RESTART};
    on_exit_handler = before_exit;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaddset(&action.sa_mask, signals[i]);
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        if (!program_ignores(signals[i])) {
            sigaction(signals[i], &action, NULL);
        }
    }
    sigemptyset(&save.sa_mask);
    sigaction(SIGUSR1, &save, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void interrupt_mode(enum interrupt_mode mode)
{
    mode_now = mode;
}
