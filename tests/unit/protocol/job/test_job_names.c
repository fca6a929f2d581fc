/* [model.names]: read, set, printed, refused. */
#include "tests/support/process/expect.h"
#include "tests/unit/protocol/job/job_case.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_name(const struct job *job, int i, const char *ours, const char *theirs)
{
    cr_assert_str_eq(job->names.of[i].ours, ours);
    cr_assert_str_eq(job->names.of[i].theirs, theirs);
}

Test(job_names, are_read_in_order_and_a_setting_replaces_one)
{
    struct job *job = &job_case_scratch;
    static const char text[] = GRAPH
        "[model.names]\n\"convs.0\" = \"0\"\n\"convs.*.lin\" = \"layers.*\"\nlin = \"\"\n";
    expect_done(job_case_load(text, job));
    cr_assert_eq(job->names.n, 3);
    expect_name(job, 0, "convs.0", "0");
    expect_name(job, 1, "convs.*.lin", "layers.*");
    expect_name(job, 2, "lin", "");
    expect_done(job_case_load_set(text, "model.names.convs.0=conv1", job));
    cr_assert_eq(job->names.n, 3);
    expect_name(job, 0, "convs.0", "conv1");
    expect_done(job_case_load_set(text, "model.names.convs.1=\"7\"", job));
    expect_name(job, 3, "convs.1", "7");
}

Test(job_names, what_is_printed_is_read_again)
{
    static struct job first, second;
    expect_done(job_case_load(GRAPH "[model.names]\n\"convs.0\" = \"a \\\"b\\\"\"\n\"*\" = \"net.*\"\n", &first));
    char *text = job_print(&first);
    expect_words(text, "\n[model.names]\n\"convs.0\" = \"a \\\"b\\\"\"\n\"*\" = \"net.*\"\n");
    expect_done(job_case_load(text, &second));
    cr_assert_eq(memcmp(&first, &second, sizeof first), 0);
    free(text);
}

Test(job_names, what_they_cannot_be_is_refused)
{
    char text[512], name[JOB_TENSOR_BYTES + 1];
    REFUSED(GRAPH "[model.names]\nconvs.0 = \"x\"\n", "job.toml:4:1", "model.names.convs is a table", "in quotes");
    REFUSED(GRAPH "[model.names]\n\"convs.0\" = 3\n", "job.toml:4:1", "\"convs.0\"", "a whole number",
            "expected a text");
    REFUSED(GRAPH "[model.names]\n\"convs.*\" = \"x\"\n", "job.toml:4:1", "\"convs.*\" = \"x\"", "as many");
    REFUSED(GRAPH "[model.names]\n\"convs\" = \"x*\"\n", "as many");
    REFUSED(GRAPH "[model.names]\n\"*.*\" = \"*.*\"\n", "at most one *");
    REFUSED(GRAPH "[model.names]\n\"\" = \"x\"\n", "a name in [model.names] has 0 bytes");
    REFUSED(GRAPH "[model]\nnames = 3\n", "job.toml:4", "names");
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(text, sizeof text, GRAPH "[model.names]\n%s = \"x\"\n", name);
    REFUSED(text, "has 128 bytes, and 1 in the file; expected at most 127");
    SETTING_REFUSED("model.names.convs.0=3", "--set model.names.convs.0", "a whole number");
}

Test(job_names, are_bounded)
{
    static char text[JOB_TENSOR_MOST * 32 + 128];
    size_t n = (size_t)snprintf(text, sizeof text, GRAPH "[model.names]\n");
    for (int i = 0; i < JOB_TENSOR_MOST; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "a%d = \"b%d\"\n", i, i);
    }
    expect_done(job_case_load(text, &job_case_scratch));
    cr_assert_eq(job_case_scratch.names.n, JOB_TENSOR_MOST);
    snprintf(text + n, sizeof text - n, "more = \"c\"\n");
    REFUSED(text, "more than 128 names in [model.names]");
}
