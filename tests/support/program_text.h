/* A job of a text of configs/programs: program_text_set(&job, "gcn"). */
#ifndef TESTS_PROGRAM_TEXT_H
#define TESTS_PROGRAM_TEXT_H

#include "protocol/job/job_keys.h"

#include <criterion/criterion.h>
#include <stdio.h>

static inline void program_text_set(struct job *job, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "configs/programs/%s.gnn", name);
    job->model.kind = JOB_KIND_PROGRAM;
    cr_assert_eq(job_text_read(JOB_KEY_model_program, path, job->program.text), STATUS_OK, "%s", status_reason());
    cr_assert_eq(job_program_check(job, path, true), STATUS_OK, "%s", status_reason());
}

#endif
