/* Any bytes as Slurm's environment: a line for each variable that is read, in the order of `names`. */
#include "protocol/base/log.h"
#include "trainerd/coordinator/machines/slurm.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char *const names[] = {"SLURM_JOB_ID",         "SLURM_NTASKS",        "SLURM_TASKS_PER_NODE",
                                    "SLURM_STEP_NUM_TASKS", "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_NODE",
                                    "SLURM_MEM_PER_CPU",    "SLURM_GPUS_ON_NODE"};
enum { N_NAME = sizeof names / sizeof *names };
static const char *values[N_NAME];

static const char *variable(const char *name)
{
    for (int i = 0; i < N_NAME; i++) {
        if (strcmp(names[i], name) == 0) {
            return values[i];
        }
    }
    abort(); /* one that the fuzzer does not know of */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *text = malloc(n_bytes + 1), *at = text;
    memcpy(text, data, n_bytes);
    text[n_bytes] = '\0';
    for (int i = 0; i < N_NAME; i++) {
        values[i] = strsep(&at, "\n");
    }
    struct slurm slurm;
    if (slurm_read(variable, &slurm) == STATUS_OK) {
        ASSERT(slurm.n_task >= 1 && slurm.n_task <= SLURM_TASKS_MOST);
        ASSERT(slurm.n_task_node >= 1 && slurm.n_task_node <= slurm.n_task);
        ASSERT(slurm.n_cpu >= 0 && slurm.n_memory >= 0);
    }
    free(text);
    return 0;
}
