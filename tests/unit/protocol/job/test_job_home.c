/* "~" in the paths of a job. */
#include "protocol/job/job.h"
#include "tests/support/process/expect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(job_home, stands_where_paths_begin_with_a_tilde)
{
    struct job job;
    job_defaults(&job);
    setenv("HOME", "/home/ada", 1);
    snprintf(job.dataset.path, sizeof job.dataset.path, "~/data/~/cora");
    snprintf(job.predict.model, sizeof job.predict.model, "~");
    snprintf(job.partition.file, sizeof job.partition.file, "~ada/parts");
    snprintf(job.model.init, sizeof job.model.init, "runs/~/x");
    snprintf(job.output.dir, sizeof job.output.dir, "~/out");
    expect_done(job_home(&job));
    cr_assert_str_eq(job.dataset.path, "/home/ada/data/~/cora");
    cr_assert_str_eq(job.predict.model, "/home/ada");
    cr_assert_str_eq(job.partition.file, "~ada/parts");
    cr_assert_str_eq(job.model.init, "runs/~/x");
    cr_assert_str_eq(job.train.class_weights, "none");
    cr_assert_str_eq(job.output.dir, "~/out");
}

Test(job_home, that_is_missing_or_too_long_is_named_with_the_key)
{
    struct job job;
    job_defaults(&job);
    snprintf(job.memory.spill, sizeof job.memory.spill, "~/spill");
    unsetenv("HOME");
    cr_assert_eq(job_home(&job), STATUS_CONFIG);
    cr_assert_str_eq(status_reason(), "memory.spill: ~/spill: there is no home folder, expected $HOME");
    setenv("HOME", "/home/ada", 1);
    memset(job.memory.spill + 2, 'x', JOB_TEXT_BYTES - 3);
    expect_fails(job_home(&job), STATUS_CONFIG, "is too long with the home folder /home/ada in it");
}
