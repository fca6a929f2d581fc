/* A supervisor without processes: it keeps what it was asked, and the test says what becomes of jobs. */
#ifndef TESTS_UNIT_COMMANDS_FAKE_SUPERVISOR_H
#define TESTS_UNIT_COMMANDS_FAKE_SUPERVISOR_H

#include "trainerd/daemon/supervisor/supervisor.h"

struct supervisor {
    struct jobs *jobs;
    char asked[256]; /* "look", "cancel 3", …: the last */
    int n_schedule;
    uint64_t clock_ns, clock_step_ns; /* of the server, moved by a slice of orders, and by each look at it */
    int n_slice;                      /* of orders for many jobs */
    size_t n_slice_most;              /* jobs of one; 0: all */
    int fails_in_slice;               /* number of the one that cannot be saved; 0: none */
};

#endif
