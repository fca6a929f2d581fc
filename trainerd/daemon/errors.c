#include "trainerd/daemon/errors.h"

#include "protocol/base/status.h"
#include "trainerd/daemon/store/job_record.h"

static const char intro[] = "# Exit codes and errors\n"
                            "\n"
                            "Generated from the source by `make docs`.\n"
                            "\n"
                            "## Exit codes\n"
                            "\n"
                            "`trainerd`, `trainctl` and the other programs share these. The last lines on standard "
                            "error say the reason: what\n"
                            "is wrong, where, and what was expected.\n"
                            "\n"
                            "| code | name | means | what to do |\n"
                            "|---|---|---|---|\n";

static const char besides[] =
    "\n"
    "* `trainctl submit --wait` ends with the code of the job, of several with that of the first that did not "
    "succeed.\n"
    "  A cancelled job has 75.\n"
    "* `trainctl doctor` ends with 1 where a check fails.\n"
    "* A program that a signal ends has no code: a shell shows 128 and the signal's number, such as 137 after KILL. "
    "If\n"
    "  the coordinator or a worker is killed, `trainerd` ends with 69, or with 71 where memory ran out.\n"
    "* In Python each code is an exception ([python.md](python.md)).\n"
    "\n"
    "## Reasons of jobs\n"
    "\n"
    "Why a job of the daemon is in its state, as `trainctl status` and `trainctl show` say it. More about this job\n"
    "stands behind it.\n"
    "\n"
    "| reason | means | what to do |\n"
    "|---|---|---|\n";

void errors_describe(FILE *file)
{
    static const enum status all[] = {
#define X(name, code, exit_code, text, cure) STATUS_##name,
        STATUS_LIST(X)
#undef X
    };
    fputs(intro, file);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fprintf(file, "| %d | `%s` | %s | %s |\n", status_exit_code(all[i]), status_name(all[i]), status_text(all[i]),
                status_cure(all[i]));
    }
    fputs(besides, file);
    for (int i = JOB_REASON_NONE + 1; i < JOB_REASON_N; i++) {
        const enum job_reason reason = (enum job_reason)i;
        fprintf(file, "| `%s` | %s | %s |\n", job_reason_name(reason), job_reason_text(reason),
                job_reason_cure(reason));
    }
}
