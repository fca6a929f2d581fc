/* Who changed what, for administrators. */
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/run.h"

static const struct column columns[] = {
    {"TIME", "at", cell_moment, false, 0},   {"USER", "user", cell_text, false, 0},
    {"FROM", "from", cell_text, false, 0},   {"WHAT", "what", cell_text, false, 0},
    {"JOB", "job", cell_number, true, 0},    {"CODE", "exit_code", cell_integer, true, 0},
    {"REASON", "text", cell_text, false, 0},
};

static void print_rows(const json_t *all)
{
    columns_print(columns, sizeof columns / sizeof *columns, json_object_get(all, "rows"), 0);
}

enum status run_audit(const struct ctl_arguments *arguments)
{
    long long limit;
    json_t *answer = NULL;
    enum status status = ctl_int(arguments, CTL_OPTION_LIMIT, 0, 1000000000, 50, &limit);
    if (status == STATUS_OK) {
        status = ctl_pages(arguments, json_pack("{s:s}", "cmd", "audit"), "rows", "before", limit, &answer);
    }
    if (status == STATUS_OK) {
        json_t *all = json_pack("{s:O}", "rows", json_object_get(answer, "rows"));
        ctl_print(arguments, all, print_rows);
        json_decref(all);
    }
    json_decref(answer);
    return status;
}
