#include "trainerd/coordinator/machines/device_choice.h"

#include <criterion/criterion.h>
#include <string.h>

/* The choices that need no GPU; tests/system/fleet/test_device.c and scripts/check-emulated make the others. */

#define GRAPH "[dataset]\ngenerator = \"karate\"\n"

static struct job job_of(const char *text)
{
    struct job job;
    cr_assert_eq(job_load_text(text, strlen(text), "job.toml", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    return job;
}

static struct checkpoint checkpoint_of(const char *text)
{
    return (struct checkpoint){.path = "its/path", .job = text, .n_job = strlen(text)};
}

static int chosen(const struct checkpoint *checkpoint, const char *text)
{
    struct job job = job_of(text);
    cr_assert_eq(device_choose(checkpoint, true, &job), STATUS_OK, "%s", status_reason());
    return job.workers.device;
}

Test(device_choice, a_device_that_is_named_stays)
{
    const struct checkpoint before = checkpoint_of(GRAPH "[workers]\ndevice = \"reference\"\n");
    cr_expect_eq(chosen(NULL, GRAPH "[workers]\ndevice = \"reference\"\n"), JOB_DEVICE_REFERENCE);
    cr_expect_eq(chosen(&before, GRAPH "[workers]\ndevice = \"cpu\"\n"), JOB_DEVICE_CPU);
}

Test(device_choice, auto_is_the_cpu_where_workers_are_elsewhere_or_spill)
{
    cr_expect_eq(chosen(NULL, GRAPH "[workers]\nlauncher = \"manual\"\ntoken_file = \"x\"\n"), JOB_DEVICE_CPU);
    cr_expect_eq(chosen(NULL, GRAPH "[memory]\nspill = \"x\"\n"), JOB_DEVICE_CPU);
}

Test(device_choice, a_resumed_job_takes_its_checkpoints_device)
{
    const struct checkpoint reference = checkpoint_of(GRAPH "[workers]\ndevice = \"reference\"\n"),
                            none = checkpoint_of(GRAPH "[workers]\ndevice = \"auto\"\n");
    cr_expect_eq(chosen(&reference, GRAPH), JOB_DEVICE_REFERENCE);
    cr_expect_eq(chosen(&none, GRAPH), JOB_DEVICE_CPU, "it was the cpu before there was a choice");
}

Test(device_choice, a_gpu_can_be_planned_for_on_any_machine)
{
    struct job job = job_of(GRAPH "[workers]\ndevice = \"cuda\"\n");
    cr_assert_eq(device_choose(NULL, false, &job), STATUS_OK, "%s", status_reason());
    cr_assert_eq(job.workers.device, JOB_DEVICE_CUDA);
}

#define TENSOR_CORES "[train]\nproducts = \"tf32x3\"\n"

Test(device_choice, products_by_tensor_cores_want_a_gpu)
{
    const struct checkpoint cpu = checkpoint_of(GRAPH "[workers]\ndevice = \"cpu\"\n");
    struct job job = job_of(GRAPH TENSOR_CORES "[workers]\nlauncher = \"manual\"\ntoken_file = \"x\"\n");
    cr_assert_eq(device_choose(NULL, false, &job), STATUS_CONFIG);
    cr_assert_str_eq(status_reason(),
                     "train.products = \"tf32x3\" is for GPUs, and workers.device = \"auto\" is \"cpu\" here: "
                     "expected workers.device = \"cuda\", or train.products = \"fp32\"");
    job = job_of(GRAPH TENSOR_CORES);
    cr_assert_eq(device_choose(&cpu, false, &job), STATUS_CONFIG);
    cr_assert_str_eq(status_reason(),
                     "cannot resume: train.products = \"tf32x3\" is for workers.device = \"cuda\", in "
                     "checkpoint 'its/path' it is \"cpu\"");
}

#define LIBRARY "[model]\nkernel = \"cusparse\"\n"

Test(device_choice, sums_by_a_library_want_a_gpu_and_a_model_with_sums)
{
    struct job job = job_of(GRAPH LIBRARY "[workers]\ndevice = \"cuda\"\n");
    cr_assert_eq(device_choose(NULL, false, &job), STATUS_OK, "%s", status_reason());
    job.model.kind = JOB_KIND_GAT; /* of a trained model, which is read later */
    cr_assert_eq(device_choose(NULL, false, &job), STATUS_CONFIG);
    cr_assert_str_eq(status_reason(),
                     "model.kernel = \"cusparse\" is for sums over neighbours, which the model \"gat\" has not: "
                     "expected model.kernel = \"own\"");
    job = job_of(GRAPH LIBRARY "[workers]\nlauncher = \"manual\"\ntoken_file = \"x\"\n");
    cr_assert_eq(device_choose(NULL, false, &job), STATUS_CONFIG);
    cr_assert_str_eq(status_reason(),
                     "model.kernel = \"cusparse\" is for GPUs, and workers.device = \"auto\" is \"cpu\" here: "
                     "expected workers.device = \"cuda\", or model.kernel = \"own\"");
}

Test(device_choice, a_job_that_began_on_a_gpu_cannot_go_on_with_a_spill)
{
    const struct checkpoint gpu = checkpoint_of(GRAPH "[workers]\ndevice = \"cuda\"\n");
    struct job job = job_of(GRAPH "[memory]\nspill = \"x\"\n");
    cr_assert_eq(device_choose(&gpu, false, &job), STATUS_CONFIG);
    cr_assert_str_eq(
        status_reason(),
        "cannot resume: memory.spill is for workers.device = \"cpu\", in checkpoint 'its/path' it is \"cuda\"");
    job = job_of(GRAPH TENSOR_CORES);
    cr_assert_eq(device_choose(&gpu, false, &job), STATUS_OK, "%s", status_reason());
}
