#include "tests/support/model/lowered.h"

#include <criterion/criterion.h>
#include <string.h>

void lowered_program(const char *model, int64_t n_feature, struct program *out)
{
    char text[512];
    static struct job job;
    snprintf(text, sizeof text, "[dataset]\npath = \"x\"\n[model]\n%s\n", model);
    cr_assert_eq(job_load_own(text, strlen(text), "test", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    const struct program_input input = {
        .facts = {.n_feature = n_feature, .n_class = 8, .n_relation = strstr(model, "rgcn") != NULL ? 3 : 0}};
    cr_assert_eq(program_build(&job, &input, out), STATUS_OK, "%s", status_reason());
}

void lowered_open(struct lowered *w, const char *model, int64_t n_feature)
{
    lowered_program(model, n_feature, &w->program);
    step_lists_lower(&w->program, &w->lists);
}

void lowered_close(struct lowered *w)
{
    step_lists_release(&w->lists);
    program_release(&w->program);
}
