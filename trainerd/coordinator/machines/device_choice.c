#include "trainerd/coordinator/machines/device_choice.h"

#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "protocol/files/capture.h"
#include "protocol/job/model_kinds.h"
#include "trainerd/coordinator/machines/launcher.h"

#include <dlfcn.h>
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

static bool has_products(const struct job *job, int device)
{
    return (job_device_products(device) >> job->train.products & 1) != 0;
}

/* Is there a driver? Without one no process needs to be asked. */
static bool has_driver(void)
{
#ifdef CUDA_EMULATED
    return true;
#else
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return driver != NULL && dlclose(driver) == 0;
#endif
}

/* What auto is on this machine. */
static int device_here(const struct job *job)
{
    char module[PATH_MAX];
    bool may = launcher_shares_gpus(job) && job->memory.spill[0] == '\0';
    bool has = may && program_module(PROGRAM_CUDA, module) == STATUS_OK && has_driver() && gpu_find() == STATUS_OK;
    return has ? JOB_DEVICE_CUDA : JOB_DEVICE_CPU;
}

/* Go on with what the checkpoint's job computed on. */
static enum status choose_again(const struct checkpoint *checkpoint, bool needs_gpu, struct job *job_io)
{
    enum status status = device_before(checkpoint, &job_io->workers.device);
    if (status != STATUS_OK) {
        return status;
    }
    bool is_gpu = job_io->workers.device == JOB_DEVICE_CUDA, spills = is_gpu && job_io->memory.spill[0] != '\0';
    if (spills || !has_products(job_io, job_io->workers.device)) {
        char products[64];
        snprintf(products, sizeof products, "train.products = \"%s\"",
                 job_choice_text("train", "products", job_io->train.products));
        return status_fail(STATUS_CONFIG,
                           "cannot resume: %s is for workers.device = \"%s\", in checkpoint '%s' it is \"%s\"",
                           spills ? "memory.spill" : products,
                           job_choice_text("workers", "device", is_gpu ? JOB_DEVICE_CPU : JOB_DEVICE_CUDA),
                           checkpoint->path, job_choice_text("workers", "device", job_io->workers.device));
    }
    status = is_gpu && needs_gpu ? gpu_find() : STATUS_OK;
    return status == STATUS_OK
               ? STATUS_OK
               : status_fail(status, "%s; checkpoint '%s' was computed on one", status_reason(), checkpoint->path);
}

static enum status gpu_lacks(const struct job *job, const char *key, const char *value, const char *other)
{
    return status_fail(STATUS_CONFIG,
                       "%s = \"%s\" is for GPUs, and workers.device = \"auto\" is \"%s\" here: expected "
                       "workers.device = \"%s\", or %s = \"%s\"",
                       key, value, job_choice_text("workers", "device", job->workers.device),
                       job_choice_text("workers", "device", JOB_DEVICE_CUDA), key, other);
}

/* What only GPUs have, and what stands in for their own kernels needs sums: rules could not know. */
static enum status device_check(const struct job *job)
{
    if (!has_products(job, job->workers.device)) {
        return gpu_lacks(job, "train.products", job_choice_text("train", "products", job->train.products), "fp32");
    }
    if (job->model.kernel != JOB_KERNEL_OWN && job->workers.device != JOB_DEVICE_CUDA) {
        return gpu_lacks(job, "model.kernel", "cusparse", "own");
    }
    return job->model.kernel == JOB_KERNEL_OWN || model_is_sum(job)
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
    return device_check(job_io);
}
