#include "trainerd/coordinator/machines/launcher.h"

#include "protocol/base/memory.h"
#include "trainerd/coordinator/machines/hosts.h"
#include "trainerd/coordinator/machines/slurm.h"

static enum status slurm_settle(bool starts, struct job *job_io)
{
    struct job_workers *workers = &job_io->workers;
    struct slurm slurm;
    if (!starts && workers->count > 0 && !slurm_is_here(slurm_environment)) {
        return STATUS_OK; /* a plan that is made before sbatch */
    }
    enum status status = slurm_read(slurm_environment, &slurm);
    if (status != STATUS_OK) {
        return starts ? status : status_fail(status, "%s; a plan takes workers.count instead", status_reason());
    }
    if (workers->count > 0 && workers->count != slurm.n_task) {
        return status_fail(
            STATUS_CONFIG,
            "workers.count = %lld, and Slurm's allocation has %lld tasks (SLURM_NTASKS): expected as many, by sbatch "
            "--ntasks=%lld or without workers.count",
            (long long)workers->count, (long long)slurm.n_task, (long long)workers->count);
    }
    workers->count = slurm.n_task;
    workers->threads = workers->threads > 0 ? workers->threads : slurm.n_cpu;
    return STATUS_OK;
}

/* A plan needs the file only where the job leaves the count to it. */
static enum status ssh_settle(bool starts, struct job *job_io)
{
    struct job_workers *workers = &job_io->workers;
    struct hosts hosts;
    if (!starts && workers->count > 0) {
        return STATUS_OK;
    }
    enum status status = hosts_load(workers->hosts, &hosts);
    if (status != STATUS_OK) {
        return status;
    }
    if (workers->count > hosts.n_slot) {
        status = status_fail(STATUS_CONFIG,
                             "workers.count = %lld, and '%s' has %lld slots: expected at most as many workers, or "
                             "slots=N behind hosts that may have more than one",
                             (long long)workers->count, workers->hosts, (long long)hosts.n_slot);
    }
    workers->count = workers->count > 0 ? workers->count : hosts.n_slot;
    hosts_release(&hosts);
    return status;
}

enum status launcher_settle(bool starts, struct job *job_io)
{
    enum job_launcher launcher = (enum job_launcher)job_io->workers.launcher;
    enum status status = launcher == JOB_LAUNCHER_SLURM ? slurm_settle(starts, job_io)
                         : launcher == JOB_LAUNCHER_SSH ? ssh_settle(starts, job_io)
                                                        : STATUS_OK;
    if (status == STATUS_OK && job_io->partition.parts > 0 && job_io->workers.count > job_io->partition.parts) {
        return status_fail(
            STATUS_CONFIG, "%s are more than partition.parts = %lld, and each worker needs a part: %lld",
            launcher == JOB_LAUNCHER_SLURM ? "the tasks of Slurm's allocation" : "the slots of workers.hosts",
            (long long)job_io->partition.parts, (long long)job_io->workers.count);
    }
    return status;
}

enum status launcher_limit(struct job *job_io)
{
    struct slurm slurm = {0};
    bool asks = job_io->workers.launcher == JOB_LAUNCHER_SLURM && job_io->memory.limit == 0 &&
                job_io->workers.device != JOB_DEVICE_CUDA && slurm_is_here(slurm_environment);
    enum status status = asks ? slurm_read(slurm_environment, &slurm) : STATUS_OK;
    if (status != STATUS_OK || slurm.n_memory == 0) {
        return status;
    }
    if (slurm.n_memory <= MEMORY_PROCESS_FLOOR) {
        return status_fail(
            STATUS_NOMEM,
            "Slurm gives a task %lld bytes, and a worker's process takes %lld before it has a part: expected more "
            "by sbatch --mem-per-cpu or --mem",
            (long long)slurm.n_memory, (long long)MEMORY_PROCESS_FLOOR);
    }
    job_io->memory.limit = slurm.n_memory - MEMORY_PROCESS_FLOOR;
    return STATUS_OK;
}

bool launcher_shares_gpus(const struct job *job)
{
    struct slurm slurm;
    return job->workers.launcher == JOB_LAUNCHER_LOCAL ||
           (job->workers.launcher == JOB_LAUNCHER_SLURM && slurm_is_here(slurm_environment) &&
            slurm_read(slurm_environment, &slurm) == STATUS_OK && slurm.has_gpus);
}
