#include "tests/support/process/patience.h"

#include "protocol/base/clock.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

bool patience_left(double since_s)
{
    poll(NULL, 0, 1);
    return clock_s() - since_s < PATIENCE_S;
}

bool process_ends(int pidfd)
{
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    return poll(&end, 1, PATIENCE_S * 1000) == 1;
}

void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { /* the parent died before the call above took effect */
        _exit(1);
    }
}
