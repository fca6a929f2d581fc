/* Whole jobs and what they compute on: a GPU that is asked for, a choice left to the machine, and what a resumed job keeps. Machines with and
 * without a GPU pass alike. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

JOB_SUITE(device_of_job, 900,
          "[dataset]\ngenerator = \"sbm\"\nnodes = 300\ndegree = 6\nfeatures = 12\n[partition]\nparts = 2\n"
          "method = \"random\"\ncache = \"off\"\n[model]\nhidden = 16\n[train]\nepochs = 4\n"
          "[workers]\ncount = 2\nthreads = 1\n");

static char gpus[4096]; /* what the worker says */

/* The exit code of trainer-worker --gpus. */
static int gpus_ask(void)
{
    char worker[PATH_MAX], command[2 * PATH_MAX];
    program_find("trainer-worker", worker, sizeof worker);
    snprintf(command, sizeof command, "%s --gpus > %s 2> /dev/null", worker, folder_path("gpus"));
    int how = system(command);
    folder_read("gpus", gpus, sizeof gpus);
    cr_assert(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static const char *text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    cr_assert_not_null(value, "no text '%s'", name);
    return value;
}

/* result.json has the device at its top, in the job as it ran, and in that job's text. */
static void assert_device(const char *output, const char *device)
{
    char path[PATH_MAX], line[64];
    snprintf(path, sizeof path, "%s/result.json", output);
    json_t *result = results_json(folder_path(path));
    const json_t *job = json_object_get(json_object_get(result, "job"), "workers");
    cr_expect_str_eq(text(result, "device"), device);
    cr_expect_str_eq(text(job, "device"), device);
    snprintf(line, sizeof line, "\ndevice = \"%s\"\n", device);
    cr_expect_not_null(strstr(text(result, "job_text"), line), "%s", text(result, "job_text"));
    json_decref(result);
}

Test(device_of_job, the_worker_lists_gpus_or_says_why_there_are_none)
{
    int code = gpus_ask();
    if (code == 0) {
        cr_assert_not_null(strstr(gpus, "compute capability"), "%s", gpus);
        return;
    }
    cr_assert_eq(code, 69, "exit %d: %s", code, gpus);
    cr_assert_eq(strncmp(gpus, "no usable GPU: ", strlen("no usable GPU: ")), 0, "%s", gpus);
}

Test(device_of_job, cuda_without_a_usable_gpu_ends_with_the_reason_before_anything_is_loaded)
{
    int has_gpu = gpus_ask() == 0, code = job_run_code("", "--set workers.device=cuda --set output.dir=o");
    if (has_gpu) {
        cr_assert_eq(code, 0, "%s", job_run_log);
        assert_device("o", "cuda");
        return;
    }
    cr_assert_eq(code, 69, "exit %d: %s", code, job_run_log);
    gpus[strcspn(gpus, "\n")] = '\0';
    cr_assert_not_null(strstr(job_run_log, gpus), "'%s' is not in: %s", gpus, job_run_log);
    cr_assert_null(strstr(job_run_log, "loaded"), "%s", job_run_log);
}

Test(device_of_job, auto_takes_a_usable_gpu_else_the_cpu_and_results_say_which)
{
    job_run("--set output.dir=o");
    assert_device("o", gpus_ask() == 0 ? "cuda" : "cpu");
    job_run("--set output.dir=spilled --set partition.parts=4 --set memory.spill=.");
    assert_device("spilled", "cpu");
}

Test(device_of_job, a_resumed_job_keeps_what_it_computed_on)
{
    job_run("--set output.dir=one --set workers.device=reference");
    job_run(
        "--set output.dir=two --set workers.device=reference --set train.epochs=2 --set train.checkpoint_every=2");
    job_run("--set output.dir=two --set workers.device=auto --resume");
    assert_device("two", "reference");
    results_expect_same_model(folder_path("one"), folder_path("two"));
}

Test(device_of_job, a_gpu_is_planned_for_without_one)
{
    json_t *cuda = job_run_plan("--set workers.device=cuda"), *cpu = job_run_plan("--set workers.device=cpu");
    cr_expect(json_equal(json_object_get(cuda, "bytes_per_epoch"), json_object_get(cpu, "bytes_per_epoch")));
    cr_expect(!json_equal(json_object_get(cuda, "workers"), json_object_get(cpu, "workers")),
              "it has sizes of its own");
    json_decref(cuda);
    json_decref(cpu);
}

Test(device_of_job, a_spill_does_not_go_with_a_gpu)
{
    cr_assert_eq(job_run_code("", "--set workers.device=cuda --set memory.spill=."), 78, "%s", job_run_log);
    cr_assert_not_null(
        strstr(job_run_log, "memory.spill is for workers.device = \"cpu\", and does not go with \"cuda\""), "%s",
        job_run_log);
}
