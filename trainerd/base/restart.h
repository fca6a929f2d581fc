/* The restart policy: whether another attempt follows one that failed, after which wait and on how many workers.
 *
 * One table for both runners of attempts: the daemon's supervisor, and trainerd with its coordinator in the
 * foreground. Knows nothing of processes, records or job files.
 */
#ifndef TRAINERD_RESTART_H
#define TRAINERD_RESTART_H

#include "protocol/base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum restart_runner { RESTART_RUNNER_FOREGROUND, RESTART_RUNNER_DAEMON, RESTART_RUNNER_N };

/* The wait before the first restart, and the maximum after doubling. */
struct restart_backoff {
    double first_s, most_s;
};

/* A failed attempt. */
struct restart_failure {
    enum status status; /* how it ended; INTERRUPTED for a coordinator that died without a report */
    int64_t n_restart;  /* restarts of the job before this failure */
    int64_t n_restart_most;
    int32_t n_worker, n_worker_least; /* that its memory holds for; 0: not known */
    bool is_local;                    /* its workers are on the runner's machine, which is still there */
};

struct restart_decision {
    bool restarts; /* false: the job has failed, the other fields are 0 */
    double wait_s;
    int32_t n_worker; /* of the next attempt */
};

/* Decide about the next attempt.
 *
 *   notes   The daemon reduces the workers by one at every lost worker but the first, where they are on other
 *           machines: the one that it ran on may be gone. They are never fewer than memory holds for. A job in the
 *           foreground keeps its workers and starts again at once
 */
struct restart_decision restart_decide(enum restart_runner runner, const struct restart_backoff *backoff,
                                       const struct restart_failure *failure);

/* The wait before restart number n_restart, from 1. */
double restart_backoff_s(const struct restart_backoff *backoff, int64_t n_restart);

/* The daemon may restart a job after this status. The field "restartable" of the event "end". */
bool restart_is_possible(enum status status);

/* A coordinator that could not be started for this reason may start later; this counts as no restart. */
bool restart_can_start_later(enum status status);

/* State of a job in the foreground, shared by trainerd and its coordinators: it outlives a coordinator. */
struct restart_memo {
    int64_t n_restart, n_restart_most;
    char dir[PATH_MAX];  /* struct run_folder: where the attempts write; "": there is nothing yet */
    char base[PATH_MAX]; /* the finished run that they continue; "": none */
};

/* Make one, all 0, in a file that programs inherit / take the one that this program inherits as that file. It stays
 * for the process's life. errors  STATUS_PEER, STATUS_NOMEM; STATUS_USAGE the file is not one */
enum status restart_memo_make(struct restart_memo **out, int *file_out);
enum status restart_memo_take(int file, struct restart_memo **out);

#endif
