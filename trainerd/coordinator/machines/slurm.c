#include "trainerd/coordinator/machines/slurm.h"

#include "trainerd/base/fields.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((int64_t)1 << 20)
#define MEMORY_MOST ((int64_t)1 << 40) /* MiB */

const char *slurm_environment(const char *name)
{
    return getenv(name);
}

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* A variable that is a whole number; *out stays where it is not set. */
static enum status number_read(slurm_variable *variable, const char *name, int64_t least, int64_t most, int64_t *out)
{
    const char *text = variable(name), *at = text;
    if (!is_set(text)) {
        return STATUS_OK;
    }
    int64_t number = digits_read(&at, most);
    if (number < least || *at != '\0') {
        return status_fail(STATUS_CONFIG,
                           "%s is '%.64s' in Slurm's environment, expected a whole number from %lld to %lld", name,
                           text, (long long)least, (long long)most);
    }
    *out = number;
    return STATUS_OK;
}

/* One "2(x3)" or "1". */
static bool item_read(const char **at, int64_t *n_task_out, int64_t *n_node_out)
{
    *n_node_out = 1;
    *n_task_out = digits_read(at, SLURM_TASKS_MOST);
    if (*n_task_out < 1 || **at != '(') {
        return *n_task_out >= 1;
    }
    ++*at;
    if (*(*at)++ != 'x') {
        return false;
    }
    *n_node_out = digits_read(at, SLURM_TASKS_MOST);
    return *n_node_out >= 1 && *(*at)++ == ')';
}

enum status slurm_tasks_read(const char *text, int64_t *sum_out, int64_t *most_out)
{
    const char *at = text;
    bool reads = true;
    *sum_out = *most_out = 0;
    while (reads) {
        int64_t n_task, n_node;
        if (!item_read(&at, &n_task, &n_node) || (*at != ',' && *at != '\0')) {
            return status_fail(STATUS_CONFIG,
                               "SLURM_TASKS_PER_NODE is '%.64s', expected numbers of tasks like 2(x3),1", text);
        }
        *sum_out += n_task * n_node;
        *most_out = n_task > *most_out ? n_task : *most_out;
        if (*sum_out > SLURM_TASKS_MOST) {
            return status_fail(STATUS_CONFIG, "SLURM_TASKS_PER_NODE is '%.64s', expected at most %d tasks", text,
                               SLURM_TASKS_MOST);
        }
        reads = *at++ == ',';
    }
    return STATUS_OK;
}

/* srun starts a program once for each task; trainerd starts the workers itself. */
static enum status step_check(slurm_variable *variable)
{
    int64_t n_task = 1;
    enum status status = number_read(variable, "SLURM_STEP_NUM_TASKS", 1, INT32_MAX, &n_task);
    if (status == STATUS_OK && n_task > 1) {
        return status_fail(
            STATUS_CONFIG,
            "trainerd was started by srun, once for each of %lld tasks: expected one trainerd, in the batch "
            "script and without srun, which starts the workers",
            (long long)n_task);
    }
    return status;
}

static enum status tasks_find(slurm_variable *variable, struct slurm *out)
{
    const char *per_node = variable("SLURM_TASKS_PER_NODE");
    enum status status = STATUS_OK;
    if (is_set(per_node)) {
        status = slurm_tasks_read(per_node, &out->n_task, &out->n_task_node);
    }
    if (status == STATUS_OK) {
        status = number_read(variable, "SLURM_NTASKS", 1, SLURM_TASKS_MOST, &out->n_task);
    }
    if (status == STATUS_OK && out->n_task == 0) {
        status = status_fail(STATUS_CONFIG,
                             "Slurm's environment has neither SLURM_NTASKS nor SLURM_TASKS_PER_NODE: expected "
                             "sbatch --ntasks=N, with N the number of workers");
    }
    out->n_task_node = out->n_task_node > 0 && out->n_task_node < out->n_task ? out->n_task_node : out->n_task;
    return status;
}

/* --mem, --mem-per-cpu, in MiB; 0 is all of a node, whose size Slurm does not say here. */
static enum status memory_find(slurm_variable *variable, struct slurm *out)
{
    int64_t of_node = 0, of_cpu = 0;
    enum status status = number_read(variable, "SLURM_MEM_PER_NODE", 0, MEMORY_MOST, &of_node);
    if (status == STATUS_OK) {
        status = number_read(variable, "SLURM_MEM_PER_CPU", 0, MEMORY_MOST, &of_cpu);
    }
    if (status == STATUS_OK && of_node > 0) {
        out->n_memory = of_node * MIB / out->n_task_node;
    } else if (status == STATUS_OK && of_cpu > 0) {
        out->n_memory = of_cpu * MIB * (out->n_cpu > 0 ? out->n_cpu : 1);
    }
    return status;
}

bool slurm_is_here(slurm_variable *variable)
{
    return is_set(variable("SLURM_JOB_ID"));
}

enum status slurm_read(slurm_variable *variable, struct slurm *out)
{
    *out = (struct slurm){0};
    if (!slurm_is_here(variable)) {
        return status_fail(
            STATUS_CONFIG,
            "workers.launcher = \"slurm\" works inside an allocation of Slurm, and this is not inside one (no "
            "SLURM_JOB_ID): run trainerd in a batch script, sbatch --ntasks=N, or in a shell of "
            "salloc (docs/cluster.md)");
    }
    enum status status = step_check(variable);
    if (status == STATUS_OK && (status = tasks_find(variable, out)) == STATUS_OK &&
        (status = number_read(variable, "SLURM_CPUS_PER_TASK", 1, 1024, &out->n_cpu)) == STATUS_OK) {
        status = memory_find(variable, out);
    }
    const char *gpus = variable("SLURM_GPUS_ON_NODE");
    out->has_gpus = is_set(gpus) && strcmp(gpus, "0") != 0;
    return status;
}
