/* An attempt that is a job of Slurm's. sbatch makes it, held, with a comment that says whose attempt it is; its
 * number is saved, and only then it is released (D23's gate): each attempt has one job, whenever the daemon dies. Its
 * coordinator writes events as any other, to a folder that the nodes share; whether it is gone Slurm alone says. What
 * is wanted of Slurm is kept as wishes, and tried until it is done.
 */
#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "protocol/base/program.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MS 1000 /* between two reads of events: other machines' changes of a shared folder are not announced */
#define MISSING_MOST 2 /* looks in a row without a job, after which it is gone */
#define MEMORY_SPARE 10 /* percent that a task may take above its plan */

static const struct runner slurm_runner;

/* --- what it is doing --- */

/* Why it waits, or that Slurm is silent: told where nothing else is. */
static void note(struct attempt *attempt, enum job_reason reason, const char *text)
{
    struct jobs *jobs = attempt->supervisor->jobs;
    enum job_reason present = jobs_get(jobs, attempt->id)->reason;
    if (present == JOB_REASON_NONE || present == JOB_REASON_WAITING_SLURM || present == JOB_REASON_SLURM_SILENT) {
        jobs_wait(jobs, attempt->id, reason, text);
    }
}

static void note_look(struct attempt *attempt)
{
    const struct job_record *record = jobs_get(attempt->supervisor->jobs, attempt->id);
    const struct slurm_look *look = &attempt->slurm.look;
    char text[JOB_REASON_BYTES];
    if (record->state != JOB_STATE_SUBMITTED) {
        note(attempt, JOB_REASON_NONE, "");
    } else if (attempt->slurm.is_seen) {
        bool waits = look->state == SLURM_STATE_WAITS || look->state == SLURM_STATE_HELD;
        snprintf(text, sizeof text, "Slurm's job %lld is %s%s%s%s", (long long)look->number, look->name,
                 waits ? " (" : "", waits ? look->why : "", waits ? ")" : "");
        note(attempt, JOB_REASON_WAITING_SLURM, text);
    }
}

void attempt_slurm_silent(struct attempt *attempt, const char *why)
{
    char text[JOB_REASON_BYTES + 64];
    snprintf(text, sizeof text, "Slurm does not answer: %s", why);
    attempt->slurm.was_silent = true;
    note(attempt, JOB_REASON_SLURM_SILENT, text);
}

/* --- what is wanted of Slurm --- */

static void act(struct attempt *attempt);

static void told(void *context, struct tool *tool)
{
    struct attempt *attempt = context;
    struct in_slurm *slurm = &attempt->slurm;
    slurm->tool = NULL;
    if (tool_exit_code(tool) == 0) {
        slurm->n_failed = 0;
        *slurm->done = false;
        if (slurm->done == &slurm->wants_release) {
            slurm->is_released = true;
            FAULT(RELEASED);
        }
    } else {
        char message[JOB_REASON_BYTES];
        tool_message(tool, message, sizeof message);
        if (slurm->n_failed == 0) {
            log_job_warn(attempt->id, attempt_number(attempt), "%s; it is tried again",
                         tool->is_late ? "a command of Slurm took too long" : message);
        }
        slurm->retry_at_ms = uv_now(attempt->supervisor->loop) +
                             slurm_retry_ms(attempt->supervisor, slurm->n_failed++);
    }
    tool_close(tool);
    slurm_user_look(slurm->user);
    act(attempt);
}

/* Slurm's number is saved before the job is released: the next daemon finds what runs. */
static void number_save(struct attempt *attempt)
{
    struct in_slurm *slurm = &attempt->slurm;
    struct job_record next = *jobs_get(attempt->supervisor->jobs, attempt->id);
    next.run.slurm = slurm->number;
    next.run.pid = 0;
    next.run.pid_start = 0;
    FAULT(SBATCH);
    if (jobs_change(attempt->supervisor->jobs, &next) != STATUS_OK) {
        attempt_warn(attempt);
        slurm->retry_at_ms = uv_now(attempt->supervisor->loop) + SUPERVISOR_RETRY_MS;
        return;
    }
    FAULT(HELD);
    log_job_info(next.id, next.attempt, "Slurm's job %lld", (long long)next.run.slurm);
    slurm->number = 0;
    slurm->wants_release = attempt->stopping == JOB_REASON_NONE;
    slurm->look_from = slurm->user->n_look + 1;
}

static void act(struct attempt *attempt)
{
    struct in_slurm *slurm = &attempt->slurm;
    const struct job_record *record = jobs_get(attempt->supervisor->jobs, attempt->id);
    if (attempt->is_gone || attempt->is_closing || slurm->tool != NULL ||
        uv_now(attempt->supervisor->loop) < slurm->retry_at_ms) {
        return;
    }
    if (record->run.slurm == 0 && slurm->number != 0) {
        number_save(attempt);
    }
    if (record->run.slurm == 0) {
        return;
    }
    char number[32], *scancel = attempt->supervisor->slurm.scancel, *scontrol = attempt->supervisor->slurm.scontrol;
    char *kill[] = {scancel, number, NULL}, *stop[] = {scancel, "--batch", "--signal=TERM", number, NULL},
         *save[] = {scancel, "--batch", "--signal=USR1", number, NULL},
         *release[] = {scontrol, "release", number, NULL};
    snprintf(number, sizeof number, "%lld", (long long)record->run.slurm);
    const struct {
        bool *wish;
        char *const *argv;
    } all[] = {
        {&slurm->wants_kill, kill},
        {&slurm->wants_stop, stop},
        {&slurm->wants_checkpoint, save},
        {&slurm->wants_release, release},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!*all[i].wish) {
            continue;
        }
        slurm->done = all[i].wish;
        if (slurm_tool_run(slurm->user, all[i].argv, told, attempt, &slurm->tool) != STATUS_OK) {
            attempt_warn(attempt);
            slurm->retry_at_ms = uv_now(attempt->supervisor->loop) + SUPERVISOR_RETRY_MS;
        }
        return;
    }
}

static void kill_job(struct attempt *attempt)
{
    struct in_slurm *slurm = &attempt->slurm;
    slurm->wants_kill = true;
    slurm->wants_stop = slurm->wants_checkpoint = slurm->wants_release = false;
    slurm->retry_at_ms = 0;
    act(attempt);
}

/* The coordinator is the batch script's process. Before it has begun there is nothing to save. */
static void stop(struct attempt *attempt)
{
    if (jobs_get(attempt->supervisor->jobs, attempt->id)->state == JOB_STATE_SUBMITTED) {
        kill_job(attempt);
    } else {
        attempt->slurm.wants_stop = true;
        act(attempt);
    }
}

static bool checkpoint(struct attempt *attempt)
{
    attempt->slurm.wants_checkpoint = true;
    act(attempt);
    return true;
}

static void stepped(struct attempt *attempt)
{
    struct in_slurm *slurm = &attempt->slurm;
    struct supervisor *supervisor = attempt->supervisor;
    uint64_t limit_ms = (uint64_t)(1e3 * supervisor->options.slurm_s);
    if (slurm->submits && attempt->was_found && uv_now(supervisor->loop) - slurm->submits_at_ms > limit_ms) {
        process_kill_session(&attempt->process);
    }
    act(attempt);
    if (attempt->has_end) {
        slurm_user_look(slurm->user);
    }
    if (!uv_is_active((uv_handle_t *)&attempt->step_timer)) {
        attempt_step_later(attempt, EVENTS_MS);
    }
}

/* --- what Slurm has shown --- */

void attempt_slurm_looked(struct attempt *attempt)
{
    struct in_slurm *slurm = &attempt->slurm;
    const struct job_record *record = jobs_get(attempt->supervisor->jobs, attempt->id);
    if (attempt->is_gone || slurm->submits || slurm->user->n_look < slurm->look_from) {
        return;
    }
    slurm->n_missing = slurm->is_seen ? 0 : slurm->n_missing + 1;
    if (record->run.slurm == 0 && slurm->number == 0) {
        slurm->number = slurm->is_seen ? slurm->look.number : 0;
        if (slurm->number == 0) { /* sbatch has made none */
            attempt_gone(attempt);
            return;
        }
    } else if ((slurm->is_seen && slurm->look.state == SLURM_STATE_ENDED) || slurm->n_missing >= MISSING_MOST) {
        attempt_gone(attempt);
        return;
    } else if (slurm->is_seen && slurm->look.state == SLURM_STATE_HELD && !slurm->is_released) {
        slurm->wants_release = attempt->stopping == JOB_REASON_NONE;
    }
    note_look(attempt);
    act(attempt);
}

/* --- its end --- */

static void ending_find(const struct attempt *attempt, const struct job_record *record, char *text, size_t capacity,
                        struct ending *out)
{
    const struct in_slurm *slurm = &attempt->slurm;
    const char *name = slurm->is_seen ? slurm->look.name : "";
    if (record->run.slurm == 0) {
        out->was_refused = slurm->was_refused && !slurm->was_silent;
        out->has_not_begun = !out->was_refused;
        if (out->was_refused) {
            snprintf(text, capacity, "%.400s", slurm->message);
        } else {
            snprintf(text, capacity, "Slurm has no job for attempt %d", (int)record->attempt);
        }
        return;
    }
    if (strcmp(name, "OUT_OF_MEMORY") == 0) {
        out->status = STATUS_NOMEM;
        snprintf(text, capacity,
                 "Slurm has ended its job %lld, since memory ran out: it asked for %lld bytes for %d workers",
                 (long long)record->run.slurm, (long long)record->memory, (int)record->n_worker);
        return;
    }
    out->is_lost = true;
    if (strcmp(name, "TIMEOUT") == 0 && record->time_limit_s > 0.0) {
        out->stopping = JOB_REASON_TIME_LIMIT;
    }
    char line[JOB_REASON_BYTES / 2];
    event_log_last_line_in(attempt->paths.log, line, sizeof line);
    snprintf(text, capacity, "Slurm's job %lld is gone%s%s%s%s%s%s", (long long)record->run.slurm,
             name[0] != '\0' ? " (" : "", name, name[0] != '\0' ? ")" : "",
             line[0] != '\0' ? "; its log ends with \"" : "", line, line[0] != '\0' ? "\"" : "");
}

static void close_job(struct attempt *attempt)
{
    if (attempt->supervisor->is_closing) {
        tool_close(attempt->slurm.tool); /* an sbatch runs on: the next daemon finds it by its pid */
    } else {
        tool_abandon(attempt->slurm.tool);
    }
    attempt->slurm.tool = NULL;
    process_release(&attempt->process);
    slurm_user_leave(attempt->slurm.user);
}

static const struct runner slurm_runner = {.stop = stop,
                                           .kill = kill_job,
                                           .checkpoint = checkpoint,
                                           .stepped = stepped,
                                           .ending = ending_find,
                                           .close = close_job};

/* --- its beginning --- */

static void sbatch_over(struct attempt *attempt)
{
    attempt->slurm.submits = false;
    attempt->slurm.look_from = attempt->slurm.user->n_look + 1;
    slurm_user_look(attempt->slurm.user);
    act(attempt);
}

/* Whatever went wrong, sbatch may have made a job: the next look says. */
static void sbatch_ended(void *context, struct tool *tool)
{
    struct attempt *attempt = context;
    struct in_slurm *slurm = &attempt->slurm;
    slurm->tool = NULL;
    enum status status = STATUS_PEER;
    if (tool_exit_code(tool) == 0) {
        size_t n;
        char *text = tool_printed(tool, &n);
        status = slurm_number_read(text, &slurm->number);
        free(text);
        snprintf(slurm->message, sizeof slurm->message, "%.*s", (int)sizeof slurm->message - 1,
                 status != STATUS_OK ? status_reason() : "");
    } else {
        tool_message(tool, slurm->message, sizeof slurm->message);
    }
    if (status != STATUS_OK) {
        slurm->was_refused = !tool->is_late;
        log_job_warn(attempt->id, attempt_number(attempt), "sbatch %s%s",
                     tool->is_late ? "took too long" : "failed: ", tool->is_late ? "" : slurm->message);
    }
    tool_close(tool);
    sbatch_over(attempt);
}

/* A task's memory above its plan, since plans are not exact. The daemon's time limit comes before Slurm's. */
static struct slurm_request request_of(const struct supervisor *supervisor, const struct job_record *record)
{
    double left_s = record->time_limit_s - record->run.ran_s + supervisor->options.kill_s;
    return (struct slurm_request){
        .sbatch = supervisor->slurm.sbatch,
        .options = supervisor->slurm.options,
        .n_option = supervisor->slurm.n_option,
        .name = record->name,
        .n_task = record->n_worker,
        .n_cpu = record->n_slot / record->n_worker,
        .memory = record->memory / record->n_worker / 100 * (100 + MEMORY_SPARE),
        .has_gpus = record->n_gpu > 0,
        .n_minute = record->time_limit_s > 0.0 ? (int64_t)ceil(left_s / 60.0) + 1 : 0,
        .priority = record->priority,
    };
}

/* sbatch behind its gate. */
static enum status sbatch_start(struct attempt *attempt, const struct job_record *record)
{
    struct supervisor *supervisor = attempt->supervisor;
    char program[PATH_MAX], comment[SLURM_COMMENT_BYTES];
    struct command_line line = {0};
    const struct job_files files = {.most_bytes = supervisor->options.n_log_most};
    enum status status = jobs_folder_make(supervisor->jobs, record->id);
    if (status != STATUS_OK || (status = program_beside("trainer-coordinator", program)) != STATUS_OK ||
        (status = command_line_make(supervisor->jobs, record, record->attempt + 1, &files, &line)) != STATUS_OK) {
        return status;
    }
    slurm_comment(store_id(jobs_store(supervisor->jobs)), record->id, record->attempt + 1, comment);
    struct slurm_request request = request_of(supervisor, record);
    request.comment = comment;
    request.folder = line.folder;
    request.log = attempt->paths.log;
    char **argv = slurm_arguments(&request), *script = slurm_script(program, line.arguments.text, line.config);
    const struct process_options options = {.argv = argv,
                                            .uid = record->uid,
                                            .gid = record->gid,
                                            .pass_environment = supervisor->options.pass_environment,
                                            .folder = line.folder,
                                            .input = script};
    status = tool_start(supervisor->loop, &options, supervisor->options.slurm_s, sbatch_ended, attempt,
                        &attempt->slurm.tool);
    free(script);
    texts_free(argv);
    command_line_release(&line);
    return status;
}

enum status attempt_begin_slurm(struct supervisor *supervisor, const struct job_record *record)
{
    struct attempt *attempt = attempt_add(supervisor, record->id, &slurm_runner);
    attempt->slurm.user = slurm_user_find(supervisor, record->uid, record->gid);
    struct job_record next = *record;
    enum status status = sbatch_start(attempt, record);
    if (status == STATUS_OK) {
        next.state = JOB_STATE_SUBMITTED;
        job_reason_set(&next, JOB_REASON_WAITING_SLURM, "it is given to Slurm");
        next.attempt++;
        next.run.pid = attempt->slurm.tool->process.pid;
        next.run.pid_start = attempt->slurm.tool->process.start;
        next.run.slurm = 0;
        next.run.n_event_bytes = attempt_events_before(supervisor, next.id);
        next.run.attempt_at = next.run.next_attempt_at = 0.0;
        status = jobs_change(supervisor->jobs, &next);
    }
    if (status != STATUS_OK) {
        attempt_close(attempt);
        return status;
    }
    attempt->slurm.submits = true;
    attempt_follow(attempt);
    FAULT(GATE);
    tool_go(attempt->slurm.tool);
    log_job_info(next.id, next.attempt, "sbatch %d", (int)next.run.pid);
    return STATUS_OK;
}

/* An earlier daemon's sbatch has ended: what it has made the next look shows. */
static void found_sbatch_ended(uv_poll_t *poll, int error, int events)
{
    (void)error;
    (void)events;
    uv_poll_stop(poll);
    sbatch_over(poll->data);
}

struct attempt *attempt_adopt_slurm(struct supervisor *supervisor, const struct job_record *record)
{
    struct attempt *attempt = attempt_add(supervisor, record->id, &slurm_runner);
    attempt->was_found = true;
    attempt->slurm.user = slurm_user_find(supervisor, record->uid, record->gid);
    attempt->slurm.look_from = 1;
    if (record->run.slurm == 0 && process_find(record->run.pid, record->run.pid_start, &attempt->process)) {
        int error = uv_poll_init(supervisor->loop, &attempt->exit, attempt->process.pidfd);
        ASSERT(error == 0); /* a pidfd that was just opened */
        attempt_handle_opened(attempt, (uv_handle_t *)&attempt->exit);
        uv_poll_start(&attempt->exit, UV_READABLE, found_sbatch_ended);
        attempt->slurm.submits = true;
        attempt->slurm.submits_at_ms = uv_now(supervisor->loop);
    }
    log_job_info(record->id, record->attempt,
                 record->run.slurm != 0 ? "Slurm's job %lld is looked for" : "its job in Slurm is looked for",
                 (long long)record->run.slurm);
    attempt_follow(attempt);
    slurm_user_look(attempt->slurm.user);
    return attempt;
}
