#include "tests/support/process/job_run.h"

#include "tests/support/process/folder.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { MOST_SETTINGS = 4096 };

char job_run_log[1 << 16];

static int run(const char *environment, const char *settings)
{
    char program[PATH_MAX], command[2 * PATH_MAX + MOST_SETTINGS];
    program_find("trainer-coordinator", program, sizeof program);
    int n = snprintf(command, sizeof command, "cd %s && %s %s --config job.toml %s > stdout 2> stderr", folder,
                     environment, program, settings);
    cr_assert_lt(n, (int)sizeof command, "too long: %s", settings);
    int how = system(command);
    folder_read("stderr", job_run_log, sizeof job_run_log);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static void format_settings(const char *format, va_list values, char out[MOST_SETTINGS])
{
    cr_assert_lt(vsnprintf(out, MOST_SETTINGS, format, values), MOST_SETTINGS, "too long: %s", format);
}

int job_run_code(const char *environment, const char *format, ...)
{
    char settings[MOST_SETTINGS];
    va_list values;
    va_start(values, format);
    format_settings(format, values, settings);
    va_end(values);
    return run(environment, settings);
}

void job_run(const char *format, ...)
{
    char settings[MOST_SETTINGS];
    va_list values;
    va_start(values, format);
    format_settings(format, values, settings);
    va_end(values);
    cr_assert_eq(run("", settings), 0, "%s: %s", settings, job_run_log);
}

void job_run_expect(int code, const char *part, const char *environment, const char *settings)
{
    int got = run(environment, settings);
    cr_assert_eq(got, code, "%s: exit %d: %s", settings, got, job_run_log);
    cr_assert_not_null(strstr(job_run_log, part), "'%s' is not in: %s", part, job_run_log);
}

json_t *job_run_plan(const char *format, ...)
{
    char settings[MOST_SETTINGS];
    va_list values;
    va_start(values, format);
    format_settings(format, values, settings);
    va_end(values);
    job_run("%s --plan --json", settings);
    return results_json(folder_path("stdout"));
}
