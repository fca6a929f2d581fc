/* What Slurm says of an allocation, in the environment of its batch script: tasks, cores, memory, GPUs.
 *
 * Knows nothing of jobs and starts nothing. The variables are those of sbatch(1), OUTPUT ENVIRONMENT VARIABLES. They
 * come from outside: each is checked, and named when it is wrong.
 */
#ifndef TRAINERD_SLURM_H
#define TRAINERD_SLURM_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SLURM_TASKS_MOST 65536

struct slurm {
    int64_t n_task;
    int64_t n_task_node; /* the most on one node */
    int64_t n_cpu;       /* of each task; 0: not said */
    int64_t n_memory;    /* bytes of each task, on the node with the most tasks; 0: not said */
    bool has_gpus;       /* on this node */
};

/* Read a variable: of this process's environment, or of a test's. */
typedef const char *slurm_variable(const char *name);
const char *slurm_environment(const char *name);

/* Is this process in an allocation? */
bool slurm_is_here(slurm_variable *variable);

/* Read the allocation.
 *
 *   errors  STATUS_CONFIG no allocation; a variable that is no number or list; this process is one of several tasks
 *           of an srun
 */
enum status slurm_read(slurm_variable *variable, struct slurm *out);

/* Read SLURM_TASKS_PER_NODE's "2(x3),1": tasks of nodes one after another.
 *
 *   errors  STATUS_CONFIG another text; more than SLURM_TASKS_MOST tasks
 */
enum status slurm_tasks_read(const char *text, int64_t *sum_out, int64_t *most_out);

#endif
