#include "trainerd/coordinator/machines/device_choice.h"

#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "protocol/files/capture.h"
#include "protocol/job/model_kinds.h"
#include "trainerd/coordinator/machines/launcher.h"

#include <stdlib.h>
#include <string.h>

/* A driver that begins takes long on a machine with many GPUs. */
#define WAIT_S 60.0

/* errors  STATUS_PEER "no usable GPU: <reason>" */
static enum status gpu_find(void)
{
    char worker[PATH_MAX], reason[1024];
    enum status status = program_beside("trainer-worker", worker);
    if (status != STATUS_OK ||
        capture((const char *const[]){worker, "--gpus", NULL}, WAIT_S, reason, sizeof reason)) {
        return status;
    }
    reason[strcspn(reason, "\n")] = '\0';
    return status_fail(STATUS_PEER, "%s",
                       reason[0] != '\0' ? reason
                                         : "no usable GPU: trainer-worker --gpus does not end, or says nothing");
}

/* What the job of a checkpoint computed on. */
static enum status device_before(const struct checkpoint *checkpoint, int *out)
{
    struct job *then = memory_alloc(1, sizeof *then);
    enum status status = job_load_text(checkpoint->job, checkpoint->n_job, checkpoint->path, NULL, 0, then);
    /* A checkpoint that says auto is of a program whose auto was the cpu. */
    *out = then->workers.device == JOB_DEVICE_AUTO ? JOB_DEVICE_CPU : then->workers.device;
    free(then);
    return status;
}

/* What auto is on this machine. */
static int device_here(const struct job *job)
{
    char module[PATH_MAX];
    bool may = launcher_shares_gpus(job) && job->memory.spill[0] == '\0' && job->train.products == JOB_PRECISION_FP32;
    return may && program_module(PROGRAM_CUDA, module) == STATUS_OK && gpu_find() == STATUS_OK ? JOB_DEVICE_CUDA
                                                                                               : JOB_DEVICE_CPU;
}

/* Go on with what the checkpoint's job computed on. */
static enum status choose_again(const struct checkpoint *checkpoint, bool needs_gpu, struct job *job_io)
{
    enum status status = device_before(checkpoint, &job_io->workers.device);
    if (status != STATUS_OK || job_io->workers.device != JOB_DEVICE_CUDA) {
        return status;
    }
    bool spills = job_io->memory.spill[0] != '\0';
    if (spills || job_io->train.products == JOB_PRECISION_BF16) {
        return status_fail(STATUS_CONFIG,
                           "cannot resume: %s is for workers.device = \"cpu\", in checkpoint '%s' it is \"%s\"",
                           spills ? "memory.spill" : "train.products = \"bf16\"", checkpoint->path,
                           job_choice_text("workers", "device", JOB_DEVICE_CUDA));
    }
    status = needs_gpu ? gpu_find() : STATUS_OK;
    return status == STATUS_OK
               ? STATUS_OK
               : status_fail(status, "%s; checkpoint '%s' was computed on one", status_reason(), checkpoint->path);
}

/* What stands in for a GPU's own kernels needs a GPU and sums, of which rules could not know. */
static enum status kernel_check(const struct job *job)
{
    if (job->model.kernel == JOB_KERNEL_OWN) {
        return STATUS_OK;
    }
    if (job->workers.device != JOB_DEVICE_CUDA) {
        return status_fail(
            STATUS_CONFIG,
            "model.kernel = \"cusparse\" is for GPUs, and workers.device = \"auto\" is \"%s\" here: expected "
            "workers.device = \"%s\", or model.kernel = \"own\"",
            job_choice_text("workers", "device", job->workers.device),
            job_choice_text("workers", "device", JOB_DEVICE_CUDA));
    }
    return model_is_sum(job)
               ? STATUS_OK
               : status_fail(STATUS_CONFIG,
                             "model.kernel = \"cusparse\" is for sums over neighbours, which the model \"%s\" has "
                             "not: expected model.kernel = \"own\"",
                             job_choice_text("model", "kind", job->model.kind));
}

static enum status choose(const struct checkpoint *checkpoint, bool starts, struct job *job_io)
{
    bool needs_gpu = starts && job_io->workers.launcher == JOB_LAUNCHER_LOCAL;
    if (job_io->workers.device != JOB_DEVICE_AUTO) {
        return needs_gpu && job_io->workers.device == JOB_DEVICE_CUDA ? gpu_find() : STATUS_OK;
    }
    if (checkpoint != NULL) {
        return choose_again(checkpoint, needs_gpu, job_io);
    }
    job_io->workers.device = device_here(job_io);
    return STATUS_OK;
}

enum status device_choose(const struct checkpoint *checkpoint, bool starts, struct job *job_io)
{
    enum status status = choose(checkpoint, starts, job_io);
    if (status != STATUS_OK) {
        return status;
    }
    return kernel_check(job_io);
}
