#include "tests/support/process/slurm_fake.h"

#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What all begin with. A job has a folder jobs.slurm/N with state, reason, comment, script, … */
#define BEGIN                                                                                                        \
    "#!/bin/bash\n"                                                                                                  \
    "here=$(dirname \"$0\"); jobs=$here/jobs.slurm\n"                                                                \
    "put() { printf '%s' \"$2\" > \"$1.new$$\" && mv \"$1.new$$\" \"$1\"; }\n"                                       \
    "! [ -e \"$here/silent\" ] || { echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1; "  \
    "}\n"

static const char sbatch[] = BEGIN
    "! [ -e \"$here/refuse\" ] || { echo 'sbatch: error: Batch job submission failed: Invalid account' >&2; exit 1; "
    "}\n"
    "number=1; until mkdir \"$jobs/$number\" 2> /dev/null; do number=$((number + 1)); done\n"
    "job=$jobs/$number\n"
    "printf '%s\\n' \"$@\" > \"$job/arguments\"\n"
    "cat > \"$job/script\"; env > \"$job/environment\"\n"
    "for word in \"$@\"; do case $word in\n"
    "    --comment=*) put \"$job/comment\" \"${word#*=}\" ;; --chdir=*) put \"$job/chdir\" \"${word#*=}\" ;;\n"
    "    --output=*) put \"$job/output\" \"${word#*=}\" ;; --ntasks=*) put \"$job/ntasks\" \"${word#*=}\" ;;\n"
    "esac; done\n"
    "put \"$job/reason\" JobHeldUser; put \"$job/state\" PENDING\n"
    "! [ -e \"$here/lose\" ] || { rm \"$here/lose\"; echo 'sbatch: error: Socket timed out' >&2; exit 1; }\n"
    "echo $number\n";

static const char squeue[] = BEGIN "! [ -e \"$here/forget\" ] || exit 0\n"
                                   "for job in \"$jobs\"/*; do\n"
                                   "    [ -e \"$job/state\" ] && echo \"${job##*/}|$(cat \"$job/state\")|$(cat "
                                   "\"$job/reason\")|$(cat \"$job/comment\")\"\n"
                                   "done\n"
                                   "echo '7|RUNNING|None|(null)'\n"
                                   "exit 0\n";

static const char scontrol[] = BEGIN
    "[ \"$1\" = release ] && [ -e \"$jobs/$2/state\" ] || { echo 'Invalid job id specified' >&2; exit 1; }\n"
    "job=$jobs/$2\n"
    "echo released >> \"$job/released\"\n"
    "[ \"$(cat \"$job/state\")\" = PENDING ] || exit 1\n"
    "! [ -e \"$here/full\" ] || { put \"$job/reason\" Resources; exit 0; }\n"
    "put \"$job/reason\" None; put \"$job/state\" RUNNING\n"
    "setsid \"$here/run-job\" \"$2\" < /dev/null > /dev/null 2>&1 &\n";

static const char run_job[] = BEGIN
    "job=$jobs/$1; read -r n < <(cat \"$job/ntasks\"; echo)\n"
    "cd \"$(cat \"$job/chdir\")\" || exit 1\n"
    "SLURM_JOB_ID=$1 SLURM_NTASKS=$n SLURM_CPUS_PER_TASK=1 setsid bash \"$job/script\" < /dev/null >> \"$(cat "
    "\"$job/output\")\" 2>&1 &\n"
    "put \"$job/pid\" $!\n"
    "wait $! && put \"$job/state\" COMPLETED || [ \"$(cat \"$job/state\")\" != RUNNING ] || put \"$job/state\" "
    "FAILED\n";

static const char scancel[] = BEGIN
    "signal=\n"
    "while [[ $1 == --* ]]; do case $1 in --signal=*) signal=${1#*=} ;; esac; shift; done\n"
    "job=$jobs/$1; echo \"scancel $signal\" >> \"$job/told\"\n"
    "[ -e \"$job/state\" ] || { echo 'Invalid job id specified' >&2; exit 1; }\n"
    "if [ -n \"$signal\" ]; then kill -$signal \"$(cat \"$job/pid\")\"; exit; fi\n"
    "case $(cat \"$job/state\") in PENDING | RUNNING) put \"$job/state\" CANCELLED ;; esac\n"
    "[ ! -e \"$job/pid\" ] || pkill -KILL -s \"$(cat \"$job/pid\")\"\n"
    "exit 0\n";

static const char srun[] = "#!/bin/bash\n"
                           "for n in \"$@\"; do case $n in --ntasks=*) n_task=${n#*=} ;; esac; done\n"
                           "while [[ $1 == --* ]]; do shift; done\n"
                           "read -r token\n" SLURM_FAKE_TASKS("node$task");

static void make(const char *name, const char *text)
{
    folder_write(name, text);
    cr_assert_eq(chmod(folder_path(name), 0755), 0);
}

void slurm_fake_make(void)
{
    char path[2 * PATH_MAX];
    make("sbatch", sbatch);
    make("squeue", squeue);
    make("scontrol", scontrol);
    make("scancel", scancel);
    make("srun", srun);
    make("run-job", run_job);
    cr_assert_eq(mkdir(folder_path("jobs.slurm"), 0755), 0);
    snprintf(path, sizeof path, "%s:%s", folder, getenv("PATH"));
    setenv("PATH", path, 1);
}

static void run(const char *command)
{
    char line[PATH_MAX];
    snprintf(line, sizeof line, "cd '%s' && %s", folder, command);
    int code = system(line);
    cr_assert_eq(code, 0, "%s: %d", command, code);
}

void slurm_fake_end(void)
{
    if (folder[0] != '\0') {
        run("touch silent; for job in jobs.slurm/*/pid; do [ ! -e $job ] || pkill -KILL -s $(cat $job); done; true");
    }
}

void slurm_fake_set(const char *behaviour, bool on)
{
    if (on) {
        folder_write(behaviour, "");
    } else {
        unlink(folder_path(behaviour));
    }
}

void slurm_fake_run(void)
{
    run("for job in jobs.slurm/*; do [ $(cat $job/reason) != Resources ] || ./scontrol release ${job##*/}; done");
}

static int count(const char *pattern)
{
    char line[PATH_MAX];
    int n = -1;
    snprintf(line, sizeof line, "ls -d '%s'/jobs.slurm/%s 2> /dev/null | wc -l", folder, pattern);
    FILE *all = popen(line, "r");
    cr_assert(all != NULL && fscanf(all, "%d", &n) == 1);
    pclose(all);
    return n;
}

int slurm_fake_n_job(void)
{
    return count("*");
}

int slurm_fake_n_released(void)
{
    return count("*/released");
}

void slurm_fake_read(int number, const char *file, char *out, size_t n_out)
{
    char name[64];
    snprintf(name, sizeof name, "jobs.slurm/%d/%s", number, file);
    folder_read(name, out, n_out);
}

void slurm_fake_continue(int number)
{
    char line[256];
    snprintf(line, sizeof line,
             "job=$(cat jobs.slurm/%d/pid); until grep -q 'State:.T' /proc/$job/status; do sleep 0.01; done; "
             "kill -CONT $job",
             number);
    run(line);
}

void slurm_fake_show(int number, const char *state)
{
    char line[128];
    snprintf(line, sizeof line, "cd jobs.slurm/%d && printf %%s %s > state.x && mv state.x state", number, state);
    run(line);
}

void slurm_fake_fail(int number, const char *state)
{
    char line[128];
    slurm_fake_show(number, state);
    snprintf(line, sizeof line, "pkill -KILL -s $(cat jobs.slurm/%d/pid)", number);
    run(line);
}
