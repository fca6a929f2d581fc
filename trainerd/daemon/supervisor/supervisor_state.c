#include "trainerd/daemon/supervisor/supervisor_state.h"

#include "protocol/base/cgroup.h"
#include "protocol/base/memory.h"
#include "protocol/job/job.h"
#include "trainerd/daemon/jobs/submission.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

void supervisor_release_handle(struct supervisor *supervisor)
{
    if (--supervisor->n_handle == 0) {
        slurm_release(&supervisor->slurm);
        free(supervisor);
    }
}

/* The time of a pass grows with the jobs that wait: after a pass, the next one waits nine times as long as it took.
 */
void supervisor_schedule_after(struct supervisor *supervisor, double wait_s)
{
    if (!supervisor->is_closing) {
        double rested_s = 1e-9 * (double)(uv_hrtime() - supervisor->scheduled_at_ns);
        wait_s = fmax(wait_s, 9e-9 * (double)supervisor->schedule_ns - rested_s);
        uv_update_time(supervisor->loop);
        uv_timer_start(&supervisor->timer, supervisor->on_schedule, (uint64_t)ceil(1e3 * fmax(0.0, wait_s)), 0);
    }
}

void supervisor_schedule(struct supervisor *supervisor)
{
    supervisor_schedule_after(supervisor, 0.0);
}

bool supervisor_memory_ran_out(const struct supervisor *supervisor, int wait_status)
{
    return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL &&
           cgroup_oom_kills("") > supervisor->n_oom_kill;
}

void supervisor_settled(struct supervisor *supervisor)
{
    supervisor->n_oom_kill = cgroup_oom_kills("");
}

/* The job as it was submitted. */
static enum status load_job(const struct supervisor *supervisor, int64_t id, struct job *out)
{
    struct store_submission submission;
    enum status status = store_submission_get(jobs_store(supervisor->jobs), id, &submission);
    if (status == STATUS_OK) {
        status = submission_job(&submission, out);
        store_submission_release(&submission);
    }
    return status;
}

bool supervisor_is_local(const struct supervisor *supervisor, int64_t id)
{
    struct job *job = memory_alloc(1, sizeof *job);
    bool is_local = !jobs_are_in_slurm(supervisor->jobs) && load_job(supervisor, id, job) == STATUS_OK &&
                    job->workers.launcher == JOB_LAUNCHER_LOCAL;
    free(job);
    return is_local;
}

static enum status check_number(const struct job_record *record, const struct job *job, int32_t n_worker)
{
    int32_t n_least = record->plan.n_worker_least > 1 ? record->plan.n_worker_least : 1;
    if (n_worker < n_least && job->memory.limit > 0) {
        return status_fail(
            STATUS_USAGE,
            "job %lld cannot run on %d worker%s: by its plan one of fewer than %d would need %lld bytes, and "
            "memory.limit is %lld; expected %d or more",
            (long long)record->id, (int)n_worker, n_worker == 1 ? "" : "s", (int)n_least,
            (long long)record->plan.n_byte_fewer, (long long)job->memory.limit, (int)n_least);
    }
    if (record->plan.n_part > 0 && n_worker > record->plan.n_part) {
        return status_fail(STATUS_USAGE, "job %lld cannot run on %d workers; expected %d to %d, a part for each",
                           (long long)record->id, (int)n_worker, (int)n_least, (int)record->plan.n_part);
    }
    return STATUS_OK;
}

enum status supervisor_needs(struct supervisor *supervisor, int32_t n_worker, struct job_record *record)
{
    struct job *job = memory_alloc(1, sizeof *job);
    enum status status = load_job(supervisor, record->id, job);
    if (status == STATUS_OK) {
        status = check_number(record, job, n_worker);
    }
    if (status == STATUS_OK) {
        submission_ask(job, n_worker, record);
    }
    free(job);
    return status;
}
