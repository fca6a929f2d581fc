/* A user's jobs in Slurm's queue: one squeue at a time, run as that user, so that no user can write about another's
 * jobs. Attempts get its result; a job with this store's comment that belongs to no attempt is cancelled.
 */
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOON_S 0.5         /* to a look that is waited for */
#define SILENT_MOST_S 60.0 /* between two looks, while Slurm does not answer */

/* --- commands --- */

static enum status find_in_path(const char *name, char out[PATH_MAX])
{
    return program_in_path(name, out)
               ? STATUS_OK
               : status_fail(STATUS_CONFIG, "jobs run in Slurm (daemon.runner), and there is no %s in PATH", name);
}

enum status slurm_open(const struct supervisor_options *options, struct slurm *out)
{
    const char *text = options->slurm_options != NULL ? options->slurm_options : "";
    *out = (struct slurm){.options_text = memory_alloc(strlen(text) + 1, 1)};
    enum status status = slurm_options_read(text, out->options_text, out->options, &out->n_option);
    if (status != STATUS_OK || (status = find_in_path("sbatch", out->sbatch)) != STATUS_OK ||
        (status = find_in_path("squeue", out->squeue)) != STATUS_OK ||
        (status = find_in_path("scontrol", out->scontrol)) != STATUS_OK ||
        (status = find_in_path("scancel", out->scancel)) != STATUS_OK) {
        slurm_release(out);
    }
    return status;
}

void slurm_release(struct slurm *slurm)
{
    free(slurm->options_text);
    slurm->options_text = NULL;
}

enum status slurm_tool_run(struct slurm_user *user, char *const *argv,
                           void (*ended)(void *context, struct tool *tool), void *context, struct tool **out)
{
    const struct supervisor *supervisor = user->supervisor;
    const struct process_options options = {.argv = argv,
                                            .uid = user->uid,
                                            .gid = user->gid,
                                            .pass_environment = supervisor->options.pass_environment,
                                            .folder = "/"};
    enum status status = tool_start(supervisor->loop, &options, supervisor->options.slurm_s, ended, context, out);
    if (status == STATUS_OK) {
        tool_go(*out);
    }
    return status;
}

uint64_t slurm_retry_ms(const struct supervisor *supervisor, int n_failed)
{
    double poll_s = supervisor->options.slurm_poll_s;
    double wait_s = fmin(poll_s * exp2(fmin(n_failed, 20)), fmax(poll_s, SILENT_MOST_S));
    return (uint64_t)(1e3 * wait_s);
}

/* --- looking --- */

static void on_timer(uv_timer_t *timer);

/* Is one of the user's attempts about to end, or not known to be in the queue? */
static bool is_awaited(const struct slurm_user *user)
{
    for (const struct attempt *at = user->supervisor->attempts; at != NULL; at = at->next) {
        if (at->slurm.user == user && (at->has_end || at->stopping != JOB_REASON_NONE || at->slurm.n_missing > 0 ||
                                       jobs_get(user->supervisor->jobs, at->id)->run.slurm == 0)) {
            return true;
        }
    }
    return false;
}

static void schedule(struct slurm_user *user)
{
    double poll_s = user->supervisor->options.slurm_poll_s;
    uint64_t wait_ms = user->n_silent > 0 ? slurm_retry_ms(user->supervisor, user->n_silent - 1)
                                          : (uint64_t)(1e3 * (is_awaited(user) ? fmin(poll_s, SOON_S) : poll_s));
    if (!user->is_closing) {
        uv_timer_start(&user->timer, on_timer, wait_ms, 0);
    }
}

void slurm_user_look(struct slurm_user *user)
{
    uint64_t soon_ms = (uint64_t)(1e3 * fmin(user->supervisor->options.slurm_poll_s, SOON_S));
    bool is_soon = uv_is_active((uv_handle_t *)&user->timer) && uv_timer_get_due_in(&user->timer) <= soon_ms;
    if (user->squeue == NULL && user->n_silent == 0 && !is_soon && !user->is_closing) {
        uv_timer_start(&user->timer, on_timer, soon_ms, 0);
    }
}

static void orphan_ended(void *context, struct tool *tool)
{
    struct slurm_user *user = context;
    if (tool_exit_code(tool) != 0) {
        char message[JOB_REASON_BYTES];
        tool_message(tool, message, sizeof message);
        log_warn("scancel: %s; it is tried again", message);
    }
    user->orphan = NULL;
    tool_close(tool);
    slurm_user_leave(user); /* where it only waited for this */
}

/* One at a time: the next look finds the others again. */
static void orphan_cancel(struct slurm_user *user, const struct slurm_look *look)
{
    bool has_ended = look->state == SLURM_STATE_ENDED || strcmp(look->name, "COMPLETING") == 0;
    if (has_ended || user->orphan != NULL) {
        return;
    }
    char number[32], *argv[] = {user->supervisor->slurm.scancel, number, NULL};
    snprintf(number, sizeof number, "%lld", (long long)look->number);
    log_job_warn(look->job, look->attempt, "Slurm's job %s belongs to no current attempt, and is cancelled", number);
    if (slurm_tool_run(user, argv, orphan_ended, user, &user->orphan) != STATUS_OK) {
        log_warn("%s", status_reason());
    }
}

static void look_each(void *context, const struct slurm_look *look)
{
    struct slurm_user *user = context;
    struct attempt *attempt = attempt_find(user->supervisor, look->job);
    const struct job_record *record = jobs_get(user->supervisor->jobs, look->job);
    if (attempt == NULL || attempt->slurm.user != user || record->attempt != look->attempt) {
        orphan_cancel(user, look);
        return;
    }
    struct in_slurm *slurm = &attempt->slurm;
    int64_t number = record->run.slurm != 0 ? record->run.slurm : slurm->number;
    if (number == 0 && (slurm->submits || slurm->is_seen)) {
        return; /* what sbatch is making; a second one, which is cancelled once the first is saved */
    }
    if (number != 0 && number != look->number) {
        orphan_cancel(user, look);
        return;
    }
    slurm->is_seen = true;
    slurm->look = *look;
}

/* What squeue has said. errors  it has not, or it is not what squeue says */
static enum status look_read(struct slurm_user *user, const struct tool *tool)
{
    if (tool_exit_code(tool) != 0) {
        char message[JOB_REASON_BYTES];
        tool_message(tool, message, sizeof message);
        return status_fail(STATUS_PEER, "%s%s",
                           tool->is_late ? "squeue took too long" : "squeue: ", tool->is_late ? "" : message);
    }
    size_t n;
    char *text = tool_printed(tool, &n);
    for (struct attempt *at = user->supervisor->attempts; at != NULL; at = at->next) {
        at->slurm.is_seen = at->slurm.is_seen &&
                            (at->slurm.user != user || at->is_gone); /* how one went stays known */
    }
    enum status status = slurm_looks_read(text, n, store_id(jobs_store(user->supervisor->jobs)), look_each, user);
    free(text);
    return status;
}

static void looked(struct slurm_user *user, enum status status)
{
    char why[JOB_REASON_BYTES];
    snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, status != STATUS_OK ? status_reason() : "");
    if (status != STATUS_OK && user->n_silent == 0) {
        log_warn("Slurm does not answer for user %u: %s; its jobs stay as they are", (unsigned)user->uid, why);
    } else if (status == STATUS_OK && user->n_silent > 0) {
        log_info("Slurm answers for user %u", (unsigned)user->uid);
    }
    user->n_silent = status == STATUS_OK ? 0 : user->n_silent + 1;
    for (struct attempt *at = user->supervisor->attempts, *next; at != NULL; at = next) {
        next = at->next; /* it may be settled, which takes it off the list */
        if (at->slurm.user == user && status == STATUS_OK) {
            attempt_slurm_looked(at);
        } else if (at->slurm.user == user) {
            attempt_slurm_silent(at, why);
        }
    }
}

static void squeue_ended(void *context, struct tool *tool)
{
    struct slurm_user *user = context;
    user->squeue = NULL;
    looked(user, look_read(user, tool));
    tool_close(tool);
    schedule(user);
}

static void on_timer(uv_timer_t *timer)
{
    struct slurm_user *user = timer->data;
    char of[32];
    char *argv[] = {user->supervisor->slurm.squeue, "--noheader", "--states=all", of,
                    "--format=" SLURM_LOOK_FORMAT,  NULL};
    snprintf(of, sizeof of, "--user=%u", (unsigned)user->uid);
    user->n_look++;
    if (slurm_tool_run(user, argv, squeue_ended, user, &user->squeue) != STATUS_OK) {
        looked(user, STATUS_IO);
        schedule(user);
    }
}

/* --- users --- */

struct slurm_user *slurm_user_find(struct supervisor *supervisor, uid_t uid, gid_t gid)
{
    struct slurm_user *user = supervisor->slurm.users;
    while (user != NULL && user->uid != uid) {
        user = user->next;
    }
    if (user == NULL) {
        user = memory_alloc(1, sizeof *user);
        *user = (struct slurm_user){
            .supervisor = supervisor, .uid = uid, .gid = gid, .next = supervisor->slurm.users};
        supervisor->slurm.users = user;
        uv_timer_init(supervisor->loop, &user->timer);
        user->timer.data = user;
        supervisor->n_handle++;
    }
    return user;
}

static void user_closed(uv_handle_t *handle)
{
    struct slurm_user *user = handle->data;
    supervisor_release_handle(user->supervisor);
    free(user);
}

void slurm_user_leave(struct slurm_user *user)
{
    for (const struct attempt *at = user->supervisor->attempts; at != NULL; at = at->next) {
        if (at->slurm.user == user) {
            return;
        }
    }
    if (user->orphan != NULL && !user->supervisor->is_closing) {
        return;
    }
    struct slurm_user **link = &user->supervisor->slurm.users;
    while (*link != user) {
        link = &(*link)->next;
    }
    *link = user->next;
    user->is_closing = true;
    tool_abandon(user->squeue);
    tool_abandon(user->orphan);
    user->squeue = user->orphan = NULL;
    uv_close((uv_handle_t *)&user->timer, user_closed);
}
