/* Who changed what, for administrators. */
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <stdio.h>

#define PAGE_ROWS 1000

/* Request pages until there are `limit` rows (0: all). owns  *out: an array */
static enum status collect(const struct ctl_arguments *arguments, long long limit, json_t *out)
{
    struct client client;
    enum status status = ctl_connect(arguments, &client);
    if (status != STATUS_OK) {
        return status;
    }
    json_int_t before = INT64_MAX;
    bool has_more = true;
    while (status == STATUS_OK && has_more && (limit == 0 || (long long)json_array_size(out) < limit)) {
        long long n_left = limit == 0 ? PAGE_ROWS : limit - (long long)json_array_size(out);
        json_t *page = NULL;
        status = client_ask(&client,
                            json_pack("{s:s, s:I, s:I}", "cmd", "audit", "before", before, "limit",
                                      (json_int_t)(n_left < PAGE_ROWS ? n_left : PAGE_ROWS)),
                            &page);
        json_array_extend(out, json_object_get(page, "rows"));
        has_more = json_object_get(page, "before") != NULL;
        before = json_integer_value(json_object_get(page, "before"));
        json_decref(page);
    }
    client_close(&client);
    return status;
}

static const struct column columns[] = {
    {"TIME", "at", cell_moment, false, 0},   {"USER", "user", cell_text, false, 0},
    {"FROM", "from", cell_text, false, 0},   {"WHAT", "what", cell_text, false, 0},
    {"JOB", "job", cell_number, true, 0},    {"CODE", "exit_code", cell_integer, true, 0},
    {"REASON", "text", cell_text, false, 0},
};

enum status run_audit(const struct ctl_arguments *arguments, int *exit_code_out)
{
    long long limit;
    json_t *rows = json_array();
    (void)exit_code_out;
    enum status status = ctl_int(arguments, CTL_OPTION_LIMIT, 0, 1000000000, 50, &limit);
    if (status == STATUS_OK) {
        status = collect(arguments, limit, rows);
    }
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        json_t *all = json_pack("{s:O}", "rows", rows);
        text_print_json(all);
        json_decref(all);
    } else if (status == STATUS_OK) {
        columns_print(columns, sizeof columns / sizeof *columns, rows, 0, NULL);
    }
    json_decref(rows);
    return status;
}
