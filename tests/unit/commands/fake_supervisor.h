/* A supervisor without processes: it keeps what it was asked, and the test says what becomes of jobs. */
#ifndef TESTS_UNIT_COMMANDS_FAKE_SUPERVISOR_H
#define TESTS_UNIT_COMMANDS_FAKE_SUPERVISOR_H

#include "trainerd/daemon/supervisor/supervisor.h"

struct supervisor {
    struct jobs *jobs;
    char asked[256]; /* "look", "cancel 3", …: the last */
    int n_schedule;
};

#endif
