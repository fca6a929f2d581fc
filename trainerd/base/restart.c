#include "trainerd/base/restart.h"

#include "protocol/files/file.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALWAYS INT64_MAX

/* Restarts that each runner allows after a status, besides the job's own limit; statuses without a row: none. A bad
 * job file, bad data or too little memory would fail again. After a bug, one restart is tried, since the machine may
 * be the cause. In the foreground, the user sees the failure: only a lost worker is replaced.
 */
/* clang-format off */
static const struct rule {
    enum status status;
    int64_t n_most[RESTART_RUNNER_N];
    bool can_start_later;
} rules[] = {
    /*                    foreground  daemon   start later */
    {STATUS_PEER,        {ALWAYS,     ALWAYS}, false},
    {STATUS_IO,          {0,          ALWAYS}, true },
    {STATUS_INTERRUPTED, {0,          ALWAYS}, false},
    {STATUS_BUG,         {0,          1},      false},
    {STATUS_CREATE,      {0,          0},      true },
};
/* clang-format on */

static const struct rule *rule_of(enum status status)
{
    static const struct rule none = {0};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].status == status) {
            return &rules[i];
        }
    }
    return &none;
}

double restart_backoff_s(const struct restart_backoff *backoff, int64_t n_restart)
{
    double wait_s = backoff->first_s;
    for (int64_t i = 1; i < n_restart && wait_s < backoff->most_s; i++) {
        wait_s *= 2.0;
    }
    return wait_s < backoff->most_s ? wait_s : backoff->most_s;
}

struct restart_decision restart_decide(enum restart_runner runner, const struct restart_backoff *backoff,
                                       const struct restart_failure *failure)
{
    int64_t n_most = rule_of(failure->status)->n_most[runner];
    n_most = n_most < failure->n_restart_most ? n_most : failure->n_restart_most;
    if (failure->n_restart >= n_most) {
        return (struct restart_decision){0};
    }
    bool is_machine_lost = runner == RESTART_RUNNER_DAEMON && failure->status == STATUS_PEER &&
                           failure->n_restart > 0 && !failure->is_local;
    int32_t n_least = failure->n_worker_least > 1 ? failure->n_worker_least : 1;
    return (struct restart_decision){.restarts = true,
                                     .wait_s = restart_backoff_s(backoff, failure->n_restart + 1),
                                     .n_worker = failure->n_worker -
                                                 (is_machine_lost && failure->n_worker > n_least)};
}

bool restart_is_possible(enum status status)
{
    return rule_of(status)->n_most[RESTART_RUNNER_DAEMON] > 0;
}

bool restart_can_start_later(enum status status)
{
    return rule_of(status)->can_start_later;
}

static enum status memo_map(int file, struct restart_memo **out)
{
    *out = mmap(NULL, sizeof **out, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return *out != MAP_FAILED
               ? STATUS_OK
               : status_fail(STATUS_NOMEM, "cannot share what is known of the job's restarts: %s", strerror(errno));
}

enum status restart_memo_make(struct restart_memo **out, int *file_out)
{
    signal(SIGXFSZ, SIG_IGN); /* a limit of files is an error like others */
    *file_out = memfd_create("restarts", MFD_CLOEXEC);
    if (*file_out < 0 || ftruncate(*file_out, sizeof **out) != 0) {
        return status_fail(STATUS_PEER, "cannot make a file in memory for the job's restarts: %s%s", strerror(errno),
                           file_limit_text());
    }
    return memo_map(*file_out, out);
}

enum status restart_memo_take(int file, struct restart_memo **out)
{
    struct stat about;
    if (fstat(file, &about) != 0 || about.st_size != (off_t)sizeof **out) {
        return status_fail(STATUS_USAGE, "--memo is %d, expected a file that trainerd has made", file);
    }
    return memo_map(file, out);
}
