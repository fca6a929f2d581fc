/* Commands of a Slurm that is not there, in the test's folder and first in PATH: sbatch, squeue, scontrol, scancel and srun. Jobs run on this
 * machine. Files of the folder say how it behaves: `silent`, no command but srun works; `refuse`, sbatch fails; `full`, released jobs wait for
 * resources; `lose`, sbatch makes the job and fails; `forget`, squeue shows no job. scripts/check-slurm has a real Slurm.
 */
#ifndef TESTS_SUPPORT_SLURM_FAKE_H
#define TESTS_SUPPORT_SLURM_FAKE_H

#include <stdbool.h>
#include <stddef.h>

/* The end of srun: n_task tasks with the token, each on a node of this name; they die with it. */
#define SLURM_FAKE_TASKS(node)                                                                                       \
    "trap 'kill -KILL \"${tasks[@]}\"' TERM\n"                                                                       \
    "for ((task = 0; task < n_task; task++)); do\n"                                                                  \
    "    SLURM_PROCID=$task SLURMD_NODENAME=" node " \"$@\" <<< \"$token\" & tasks+=($!)\n"                          \
    "done\nworst=0\nfor task in \"${tasks[@]}\"; do\n"                                                               \
    "    while kill -0 \"$task\" 2> /dev/null; do wait \"$task\" || worst=$?; done\n"                                \
    "done\nexit $worst\n"

/* To be called after folder_make / before folder_remove: jobs that run are killed. */
void slurm_fake_make(void);
void slurm_fake_end(void);

/* Begin or end one of the behaviours above. */
void slurm_fake_set(const char *behaviour, bool on);
/* Put jobs that wait for resources to work, once `full` is unset. */
void slurm_fake_run(void);

/* How many jobs sbatch has made, and how many of them have been released. */
int slurm_fake_n_job(void);
int slurm_fake_n_released(void);
/* The state of a job, from 1; a file of its folder: arguments, script, state. */
void slurm_fake_read(int number, const char *file, char *out, size_t n_out);
/* Once a job's coordinator has stopped (a fault), let it go on. */
void slurm_fake_continue(int number);
/* Let squeue show this state, whatever the job does. */
void slurm_fake_show(int number, const char *state);
/* Kill a job's processes, as a node that fails, with this state. */
void slurm_fake_fail(int number, const char *state);

#endif
