/* Who changed what, for administrators. */
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <stdio.h>
#include <stdlib.h>

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

static void print_rows(const json_t *rows)
{
    static const char *const titles[] = {"TIME", "USER", "FROM", "WHAT", "JOB", "CODE", "REASON"};
    enum { N_COLUMN = sizeof titles / sizeof *titles };
    const json_t *row;
    size_t i;
    char text[TEXT_BYTES];
    struct table table;
    table_init(&table, N_COLUMN);
    table.is_right[4] = table.is_right[5] = true;
    for (int column = 0; column < N_COLUMN; column++) {
        table_add(&table, titles[column]);
    }
    json_array_foreach(rows, i, row)
    {
        text_moment(number_of(row, "at"), text);
        table_add(&table, text);
        table_add(&table, text_of(row, "user"));
        table_add(&table, text_of(row, "from"));
        table_add(&table, text_of(row, "what"));
        snprintf(text, sizeof text, "%lld", (long long)integer_of(row, "job"));
        table_add(&table, integer_of(row, "job") != 0 ? text : "");
        snprintf(text, sizeof text, "%lld", (long long)integer_of(row, "exit_code"));
        table_add(&table, text);
        table_add(&table, text_of(row, "text"));
    }
    table_print(&table, stdout, 0, NULL);
}

enum status run_audit(const struct ctl_arguments *arguments, int *exit_code_out)
{
    long long limit;
    json_t *rows = json_array();
    (void)exit_code_out;
    enum status status = ctl_int(arguments, CTL_OPTION_LIMIT, 0, 1000000000, 50, &limit);
    status = status == STATUS_OK ? collect(arguments, limit, rows) : status;
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        json_t *all = json_pack("{s:O}", "rows", rows);
        text_print_json(all);
        json_decref(all);
    } else if (status == STATUS_OK) {
        print_rows(rows);
    }
    json_decref(rows);
    return status;
}
