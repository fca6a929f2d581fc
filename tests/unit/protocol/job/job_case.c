#include "tests/unit/protocol/job/job_case.h"

#include <criterion/criterion.h>
#include <string.h>

struct job job_case_scratch;

enum status job_case_load(const char *text, struct job *out)
{
    return job_load_text(text, strlen(text), "job.toml", NULL, 0, out);
}

enum status job_case_load_set(const char *text, const char *setting, struct job *out)
{
    return job_load_text(text, strlen(text), "job.toml", &setting, 1, out);
}

void job_case_refused(enum status status, enum status want, const char *const *part)
{
    cr_assert_eq(status, want, "%d: %s", status, status_reason());
    for (; *part != NULL; part++) {
        cr_assert_not_null(strstr(status_reason(), *part), "'%s' is not in: %s", *part, status_reason());
    }
}
