/* Slurm's environment: allocations as sbatch describes them, and texts that it would not write. */
#include "trainerd/coordinator/machines/slurm.h"

#include <criterion/criterion.h>
#include <string.h>

/* The environment of a test: names and values, NULL at the end. */
static const char *const *variables;

static const char *variable(const char *name)
{
    for (const char *const *at = variables; *at != NULL; at += 2) {
        if (strcmp(at[0], name) == 0) {
            return at[1];
        }
    }
    return NULL;
}

static struct slurm read_all(const char *const names_and_values[])
{
    struct slurm slurm;
    variables = names_and_values;
    cr_assert_eq(slurm_read(variable, &slurm), STATUS_OK, "%s", status_reason());
    return slurm;
}
#define READ(...) read_all((const char *const[]){"SLURM_JOB_ID", "7", __VA_ARGS__, NULL})

static void expect_refused(const char *part, const char *const names_and_values[])
{
    struct slurm slurm;
    variables = names_and_values;
    cr_assert_eq(slurm_read(variable, &slurm), STATUS_CONFIG);
    cr_assert_not_null(strstr(status_reason(), part), "'%s' is not in: %s", part, status_reason());
}
#define REFUSED(part, ...) expect_refused(part, (const char *const[]){__VA_ARGS__, NULL})

static void expect_tasks(const char *text, int64_t sum, int64_t most)
{
    int64_t sum_got, most_got;
    cr_assert_eq(slurm_tasks_read(text, &sum_got, &most_got), STATUS_OK, "%s: %s", text, status_reason());
    cr_expect(sum_got == sum && most_got == most, "%s: %lld, at most %lld", text, (long long)sum_got,
              (long long)most_got);
}

Test(slurm, tasks_of_nodes_are_added_up)
{
    expect_tasks("1", 1, 1);
    expect_tasks("2(x3),1", 7, 2);
    expect_tasks("1,4(x2),2(x1)", 11, 4);
    expect_tasks("65536", 65536, 65536);
}

Test(slurm, a_list_of_tasks_that_slurm_would_not_write_is_refused)
{
    static const char *const wrong[] = {
        "",   "0",      "x",  "2(", "2(x",   "2(x3",      "2(x0)",     "2(3)",       "2,",
        ",2", "2(x3)1", "2 ", "-2", "65537", "2(x65537)", "32768(x3)", "4294967297", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t sum, most;
        cr_assert_eq(slurm_tasks_read(wrong[i], &sum, &most), STATUS_CONFIG, "%s", wrong[i]);
        cr_expect_not_null(strstr(status_reason(), "SLURM_TASKS_PER_NODE is '"), "%s", status_reason());
    }
}

Test(slurm, the_number_of_tasks_is_that_of_ntasks_or_of_all_nodes)
{
    struct slurm slurm = READ("SLURM_NTASKS", "3", "SLURM_TASKS_PER_NODE", "2,1");
    cr_expect(slurm.n_task == 3 && slurm.n_task_node == 2);
    slurm = READ("SLURM_TASKS_PER_NODE", "4(x2)");
    cr_expect(slurm.n_task == 8 && slurm.n_task_node == 4);
    slurm = READ("SLURM_NTASKS", "2", "SLURM_TASKS_PER_NODE", "16");
    cr_expect(slurm.n_task == 2 && slurm.n_task_node == 2);
    slurm = READ("SLURM_NTASKS", "5");
    cr_expect(slurm.n_task == 5 && slurm.n_task_node == 5 && slurm.n_cpu == 0 && slurm.n_memory == 0 &&
              !slurm.has_gpus);
}

Test(slurm, a_task_has_its_share_of_a_nodes_memory_or_that_of_its_cores)
{
    cr_expect_eq(READ("SLURM_NTASKS", "3", "SLURM_TASKS_PER_NODE", "2,1", "SLURM_MEM_PER_NODE", "1000").n_memory,
                 500 << 20);
    cr_expect_eq(READ("SLURM_NTASKS", "3", "SLURM_MEM_PER_CPU", "100").n_memory, 100 << 20);
    struct slurm slurm = READ("SLURM_NTASKS", "3", "SLURM_MEM_PER_CPU", "100", "SLURM_CPUS_PER_TASK", "8");
    cr_expect(slurm.n_memory == 800 << 20 && slurm.n_cpu == 8);
    cr_expect_eq(READ("SLURM_NTASKS", "3", "SLURM_MEM_PER_NODE", "0").n_memory, 0, "all of a node");
}

Test(slurm, gpus_are_those_of_the_node)
{
    cr_expect(READ("SLURM_NTASKS", "1", "SLURM_GPUS_ON_NODE", "2").has_gpus);
    cr_expect_not(READ("SLURM_NTASKS", "1", "SLURM_GPUS_ON_NODE", "0").has_gpus);
}

Test(slurm, what_is_no_allocation_or_a_wrong_one_is_named)
{
    REFUSED("this is not inside one (no SLURM_JOB_ID): run trainerd in a batch script, sbatch --ntasks=N",
            "SLURM_NTASKS", "2");
    REFUSED("neither SLURM_NTASKS nor SLURM_TASKS_PER_NODE", "SLURM_JOB_ID", "7");
    REFUSED("SLURM_NTASKS is '2x'", "SLURM_JOB_ID", "7", "SLURM_NTASKS", "2x");
    REFUSED("SLURM_NTASKS is '0'", "SLURM_JOB_ID", "7", "SLURM_NTASKS", "0");
    REFUSED("SLURM_CPUS_PER_TASK is '-1'", "SLURM_JOB_ID", "7", "SLURM_NTASKS", "2", "SLURM_CPUS_PER_TASK", "-1");
    REFUSED("SLURM_MEM_PER_NODE is '4G'", "SLURM_JOB_ID", "7", "SLURM_NTASKS", "2", "SLURM_MEM_PER_NODE", "4G");
    REFUSED("started by srun, once for each of 4 tasks", "SLURM_JOB_ID", "7", "SLURM_NTASKS", "4",
            "SLURM_STEP_NUM_TASKS", "4");
}
