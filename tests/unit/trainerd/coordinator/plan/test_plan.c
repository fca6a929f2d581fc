#include "tests/support/process/expect.h"
#include "trainerd/coordinator/plan/plan_steps.h"
#include "trainerd/coordinator/plan/roofline.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct job job_of(enum job_launcher launcher, int64_t limit)
{
    struct job job;
    job_defaults(&job);
    job.workers.launcher = launcher;
    job.memory.limit = limit;
    return job;
}

Test(plan, workers_that_share_this_machine_are_held_against_its_memory_together)
{
    int64_t half = memory_machine() / 2 - 3 * MEMORY_PROCESS_FLOOR / 2;
    struct plan_worker workers[3] = {{.total = half}, {.total = half}, {.total = half}};
    struct plan plan = {.n_worker = 2, .worker = workers};
    struct job job = job_of(JOB_LAUNCHER_LOCAL, 0), manual = job_of(JOB_LAUNCHER_MANUAL, 0);
    cr_assert_eq(plan_check_limit(&plan, &job), STATUS_OK);
    plan.coordinator = 2;
    cr_assert_eq(plan_check_limit(&plan, &job), STATUS_NOMEM, "the coordinator is one of the processes");
    plan.n_worker = 3;
    char needs[128];
    snprintf(
        needs, sizeof needs, "needs %lld bytes by plan, with workers.count = 3 on one machine, more than %s of %lld",
        (long long)(3 * half + 4 * MEMORY_PROCESS_FLOOR + 2), memory_machine_name(), (long long)memory_machine());
    expect_fails(plan_check_limit(&plan, &job), STATUS_NOMEM, needs);
    cr_assert_eq(plan_check_limit(&plan, &manual), STATUS_OK);
}

Test(plan, each_worker_is_held_against_a_limit_that_is_given)
{
    struct plan_worker workers[3] = {{.total = 100}, {.total = 101}, {.total = 7}};
    struct plan plan = {.n_worker = 3, .worker = workers};
    struct job job = job_of(JOB_LAUNCHER_MANUAL, 101);
    cr_assert_eq(plan_check_limit(&plan, &job), STATUS_OK);
    job.memory.limit = 100;
    expect_fails(plan_check_limit(&plan, &job), STATUS_NOMEM, "worker 1 needs 101 bytes, memory.limit is 100");
}

/* --- steps --- */

/* A small job on two workers of two parts each, planned with its steps. */
struct world {
    struct job job;
    struct dataset dataset;
    struct partition partition;
    struct partition_quality quality;
    struct program program;
    struct prune prune;
    struct part_sizes *sizes;
    struct plan_input input;
    struct plan plan;
};

static const int32_t ranks[] = {0, 0, 1, 1};

#define OK(call) cr_assert_eq(call, STATUS_OK, "%s", status_reason())

static void world_open(struct world *w, const char *model)
{
    char text[512];
    *w = (struct world){.prune = {0}};
    snprintf(text, sizeof text,
             "[dataset]\ngenerator = \"sbm\"\nnodes = 400\ndegree = 3\n[partition]\nparts = 4\nmethod = \"block\"\n"
             "cache = \"off\"\n[workers]\ncount = 2\n[model]\n%s\n",
             model);
    OK(job_load_text(text, strlen(text), "test", NULL, 0, &w->job));
    OK(dataset_load(&w->job, &w->dataset));
    const struct program_input input = {
        .facts = {.n_feature = w->dataset.facts.n_feature, .n_class = w->dataset.facts.n_class}};
    OK(program_build(&w->job, &input, &w->program));
    OK(partition_build(&w->dataset, &w->job, &w->partition));
    OK(prune_build(&w->job, &w->dataset, &w->program, &w->partition, &w->prune));
    OK(partition_measure(&w->dataset, &w->partition, &w->quality));
    OK(part_sizes_build(&w->dataset, &w->partition, &w->sizes));
    w->input = (struct plan_input){.job = &w->job,
                                   .dataset = &w->dataset,
                                   .n_part = 4,
                                   .quality = &w->quality,
                                   .sizes = w->sizes,
                                   .program = &w->program,
                                   .prune = &w->prune,
                                   .rank_of_part = ranks,
                                   .steps = true};
    OK(plan_build(&w->input, &w->plan));
}

static void world_close(struct world *w)
{
    plan_release(&w->plan);
    part_sizes_release(w->sizes, 4);
    partition_release(&w->partition);
    program_release(&w->program);
    dataset_release(&w->dataset);
}

static const char *const models[] = {
    "kind = \"gcn\"\nlayers = 2\nhidden = 16",
    "kind = \"gat\"\nlayers = 3\nhidden = 4\nheads = 2\ndropout = 0.5\n[memory]\nrecompute = \"always\"",
    "kind = \"gin\"\nlayers = 2\nhidden = 16\nnorm = \"batch\"\n[memory]\nrecompute = \"never\"",
};

Test(plan, steps_are_printed_one_a_line_with_one_peak)
{
    struct world w;
    char *text = NULL;
    size_t n;
    world_open(&w, models[1]);
    FILE *file = open_memstream(&text, &n);
    plan_steps_print(&w.plan, file);
    fclose(file);
    int32_t most = w.plan.worker[1].total > w.plan.worker[0].total ? 1 : 0;
    const struct plan_worker *worker = &w.plan.worker[most];
    int n_line = 0, n_peak = 0;
    char *rest = text, title[64], number[16];
    snprintf(title, sizeof title, "steps of worker %d,", (int)most);
    cr_expect_not_null(strstr(text, title), "%s", text);
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        snprintf(number, sizeof number, "%6d ", n_line);
        if (strncmp(line, number, strlen(number)) == 0) {
            cr_expect_not_null(strstr(line, worker->step[n_line].text), "%s", line);
            bool peak = strstr(line, "<- peak") != NULL;
            cr_expect_eq(peak, n_line == worker->peak, "%s", line);
            n_peak += peak;
            n_line++;
        }
    }
    cr_expect_eq(n_line, worker->n_step);
    cr_expect_eq(n_peak, 1);
    free(text);
    world_close(&w);
}

Test(plan, steps_in_json_are_every_workers)
{
    struct world w;
    world_open(&w, models[0]);
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct plan_worker *worker = &w.plan.worker[rank];
        json_t *all = plan_steps_json(worker);
        cr_assert_eq(json_array_size(all), (size_t)worker->n_step);
        for (int s = 0; s < worker->n_step; s++) {
            const json_t *one = json_array_get(all, (size_t)s);
            cr_expect_eq(json_integer_value(json_object_get(one, "step")), s);
            cr_expect_str_eq(json_string_value(json_object_get(one, "what")), worker->step[s].text);
            cr_expect_eq(json_integer_value(json_object_get(one, "alive")), worker->step[s].n_alive);
            cr_expect_eq(json_integer_value(json_object_get(one, "rows")), worker->step[s].n_row);
            cr_expect_eq(json_is_true(json_object_get(one, "fused")), worker->step[s].is_fused);
            cr_expect_eq(json_integer_value(json_object_get(one, "received")), worker->step[s].n_received);
            cr_expect_eq(json_is_true(json_object_get(one, "peak")), s == worker->peak);
        }
        json_decref(all);
    }
    world_close(&w);
}

/* --- least times --- */

/* What they are: scripts/check-roofline. */
Test(plan, least_times_are_printed_by_step_and_by_kind_of_op_with_the_devices_numbers)
{
    struct world w;
    struct roofline device;
    char *text = NULL, number[32];
    size_t n;
    world_open(&w, models[0]);
    OK(roofline_load(NULL, &w.job, &device));
    w.input.roofline = &device;
    FILE *file = open_memstream(&text, &n);
    roofline_print(&w.input, &w.plan, file);
    fclose(file);
    cr_expect_not_null(strstr(text, "roofline of worker 0 on cpu: 0.3 TFLOP/s (fp32), 20 GB/s"), "%s", text);
    for (int s = 0; s < w.plan.worker[0].n_step; s++) {
        const struct plan_step *step = &w.plan.worker[0].step[s];
        snprintf(number, sizeof number, "\n%6d  %c", s, step->is_fused ? '+' : ' ');
        const char *line = strstr(text, number);
        cr_expect_eq(line == NULL, step->is_static, "%s", text);
        cr_expect(line == NULL || strncmp(line + strlen(number), step->text, strlen(step->text)) == 0, "%s", line);
    }
    cr_expect_not_null(strstr(text, "×  all "), "%s", text);
    free(text);
    world_close(&w);
}

Test(plan, a_job_on_gpus_names_its_device_and_bf16_products_have_their_peak)
{
    struct roofline device;
    struct job job = job_of(JOB_LAUNCHER_LOCAL, 0);
    job.workers.device = JOB_DEVICE_CUDA;
    expect_fails(roofline_load(NULL, &job, &device), STATUS_USAGE, "--roofline needs --device FILE");
    job.train.products = JOB_PRECISION_BF16;
    OK(roofline_load("configs/devices/h100.toml", &job, &device));
    cr_expect_str_eq(device.name, "h100");
    cr_expect_eq(device.number[device.peak], 700.0);
    cr_expect_eq(device.number[ROOFLINE_SMS], 132.0);
}
