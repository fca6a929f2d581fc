#include "tests/support/process/fleet_case.h"

#include "protocol/base/status.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct job fleet_case(int n_worker, int n_part)
{
    struct job job;
    job_defaults(&job);
    job.dataset.generator = JOB_GENERATOR_KARATE;
    job.partition.method = JOB_METHOD_BLOCK;
    job.partition.parts = n_part;
    job.model.hidden = 16;
    job.workers.count = n_worker;
    job.workers.threads = 1;
    job.workers.join_timeout = 60;
    strcpy(job.partition.cache, "off");
    return job;
}

void fleet_check_reason(const char *const words[])
{
    for (; *words != NULL; words++) {
        cr_assert(strstr(status_reason(), *words) != NULL, "expected '%s' in: %s", *words, status_reason());
    }
}

void fleet_check_silence(double timeout_s)
{
    const char *words = strstr(status_reason(), "was silent for ");
    cr_assert_not_null(words, "%s", status_reason());
    double silence_s = strtod(words + strlen("was silent for "), NULL);
    cr_assert(silence_s >= timeout_s && silence_s < 5 * timeout_s, "%s", status_reason());
}

int fleet_workers(pid_t coordinator, pid_t pids[], int n_most)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", coordinator, coordinator);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    int n = 0;
    while (n < n_most && fscanf(file, "%d", &pids[n]) == 1) {
        n++;
    }
    fclose(file);
    return n;
}

void fleet_check_childless(void)
{
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
    cr_assert_eq(errno, ECHILD, "a worker is left");
}
