/* Workers as tasks of Slurm: one srun for all, which passes the token on to each task's standard input. A worker says
 * its rank, the number of its task, when it joins; it is watched over its connection as any worker of another machine
 * is. */
#include "trainerd/coordinator/fleet/fleet_state.h"
#include "trainerd/coordinator/machines/slurm.h"

#include "protocol/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void step_exited(uv_process_t *process, int64_t exit_code, int signal)
{
    struct fleet *fleet = process->data;
    fleet->step.is_child = false;
    fleet->step.ended_ms = clock_ms();
    uv_close((uv_handle_t *)process, NULL);
    if (signal != 0) {
        snprintf(fleet->step.sentence, sizeof fleet->step.sentence,
                 "srun, which runs the workers, was killed by signal %d", signal);
    } else {
        snprintf(fleet->step.sentence, sizeof fleet->step.sentence,
                 "srun, which runs the workers, ended with exit code %d (its message is above)", (int)exit_code);
    }
}

enum status fleet_launch_slurm(struct fleet *fleet)
{
    struct slurm slurm;
    char program[PATH_MAX], n_task[32], n_cpu[40], timeout[32], *arguments[20] = {"srun", n_task};
    size_t n = 2;
    enum status status = slurm_read(slurm_environment, &slurm);
    if (status != STATUS_OK || (status = fleet_worker_program(fleet->job, program)) != STATUS_OK) {
        return status;
    }
    snprintf(n_task, sizeof n_task, "--ntasks=%u", fleet->n_worker);
    snprintf(n_cpu, sizeof n_cpu, "--cpus-per-task=%lld", (long long)slurm.n_cpu);
    snprintf(timeout, sizeof timeout, "%g", fleet->job->workers.join_timeout);
    if (slurm.n_cpu > 0) { /* since 22.05 srun does not take it from the batch script's environment */
        arguments[n++] = n_cpu;
    }
    /* The coordinator sees each death itself, and ends the others with the reason. */
    char *const rest[] = {"--kill-on-bad-exit=0", "--input=all", "--mpi=none", program,          "--slurm", "--join",
                          fleet->control.join,    "--token-fd",  "0",          "--join-timeout", timeout,   NULL};
    memcpy(&arguments[n], rest, sizeof rest);
    struct fleet_environment environment;
    fleet_environment_init((uint32_t)fleet->job->workers.threads, false, &environment);
    const struct fleet_child child = {.program = arguments[0],
                                      .arguments = arguments,
                                      .environment = environment.all,
                                      .token_at = 0,
                                      .ended = step_exited,
                                      .data = fleet};
    status = fleet_child_start(fleet, &child, &fleet->step.process);
    free(environment.all);
    fleet->step.is_child = status == STATUS_OK;
    return status != STATUS_PEER
               ? status
               : status_fail(status, "cannot start the workers, %s: expected Slurm's srun in PATH", status_reason());
}
