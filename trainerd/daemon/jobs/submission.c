#include "trainerd/daemon/jobs/submission.h"

#include "protocol/base/printable.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum status submission_job(const struct store_submission *submission, struct job *out)
{
    const char *file = submission->file != NULL ? submission->file : "job.toml";
    return job_load_untraced(submission->config, strlen(submission->config), file, submission->set, submission->n_set,
                             out);
}

enum status submission_output(const struct job *job, const char *folder, char *out)
{
    const char *dir = job->output.dir;
    char name[JOB_RUN_BYTES];
    job_run_name(job, name);
    int n = dir[0] == '/'    ? snprintf(out, PATH_MAX, "%s", dir)
            : dir[0] != '\0' ? snprintf(out, PATH_MAX, "%s/%s", folder, dir)
                             : snprintf(out, PATH_MAX, "%s/runs/%s", folder, name);
    return n < PATH_MAX ? STATUS_OK
                        : status_fail(STATUS_CONFIG, "the output folder below '%.64s…' has a path too long", folder);
}

void submission_ask(const struct job *job, int32_t n_worker, struct job_record *record)
{
    int64_t n_slot = n_worker * (job->workers.threads > 0 ? job->workers.threads : 1);
    record->n_worker = n_worker;
    record->n_slot = n_slot > INT32_MAX ? INT32_MAX : (int32_t)n_slot;
    /* Workers that others start have their own machines' GPUs. */
    bool is_given = job->workers.launcher == JOB_LAUNCHER_LOCAL || job->workers.launcher == JOB_LAUNCHER_SLURM;
    record->n_gpu = is_given && job->workers.device == JOB_DEVICE_CUDA ? n_worker : 0;
    record->memory = -1;
}

enum status submission_check_gpus(const char *file, const struct job_record *record, int32_t n_gpu)
{
    if (record->n_gpu == 0 || n_gpu > 0) {
        return STATUS_OK;
    }
    return status_fail(
        STATUS_CONFIG,
        "%s%sworkers.device is \"%s\", but the daemon has no GPUs to give (daemon.gpus, in trainerd.toml)",
        file != NULL ? file : "", file != NULL ? ": " : "", job_choice_text("workers", "device", JOB_DEVICE_CUDA));
}

enum status submission_check_launcher(const char *file, bool in_slurm, struct job *job)
{
    int64_t launcher = job->workers.launcher;
    if (in_slurm && launcher != JOB_LAUNCHER_LOCAL && launcher != JOB_LAUNCHER_SLURM) {
        return status_fail(STATUS_CONFIG,
                           "%s: workers.launcher = \"%s\", and the workers of this daemon's jobs are tasks of Slurm "
                           "(daemon.runner): expected \"slurm\", or no launcher",
                           file, job_choice_text("workers", "launcher", launcher));
    }
    if (in_slurm) {
        job->workers.count = job->workers.count > 0 ? job->workers.count : 1;
        return STATUS_OK;
    }
    if (launcher == JOB_LAUNCHER_SLURM) {
        return status_fail(STATUS_CONFIG,
                           "%s: workers.launcher = \"slurm\" is for trainerd --config in a batch script of Slurm "
                           "(docs/cluster.md); the "
                           "daemon's jobs run outside of allocations (daemon.runner), with another launcher",
                           file);
    }
    return job->workers.count > 0 ? STATUS_OK
                                  : status_fail(STATUS_CONFIG,
                                                "%s: workers.count is 0, the slots of workers.hosts, and the daemon "
                                                "has to know how many workers to wait for: expected a number",
                                                file);
}

enum status submission_check_seen(enum status wrong, const char *what, const char *text)
{
    return printable_is(text)
               ? STATUS_OK
               : status_fail(wrong,
                             "%s '%.64s' contains an invisible character: expected no control, direction or "
                             "zero-width character, and no line break",
                             what, text);
}
