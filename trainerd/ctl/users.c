/* A table of users: their jobs, what these have of the machine, and what was used of it. */
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <stdio.h>

/* "3", or "3/4" of a limit; "-": not for this user to see. */
static void add_count(struct table *table, const json_t *user, const char *key)
{
    char text[2 * TEXT_BYTES] = "-";
    const json_t *limits = json_object_get(user, "limits");
    if (json_is_integer(json_object_get(limits, key))) {
        snprintf(text, sizeof text, "%lld/%lld", (long long)integer_of(user, key),
                 (long long)integer_of(limits, key));
    } else if (json_is_integer(json_object_get(user, key))) {
        snprintf(text, sizeof text, "%lld", (long long)integer_of(user, key));
    }
    table_add(table, text);
}

static void add_memory(struct table *table, const json_t *user)
{
    char has[TEXT_BYTES], most[TEXT_BYTES], both[2 * TEXT_BYTES + 1];
    const json_t *limits = json_object_get(user, "limits");
    text_bytes(number_of(user, "memory"), has);
    text_bytes(number_of(limits, "memory"), most);
    bool is_limited = json_is_integer(json_object_get(limits, "memory"));
    snprintf(both, sizeof both, "%s%s%s", has, is_limited ? "/" : "", is_limited ? most : "");
    table_add(table, both);
}

static void print_users(const json_t *users)
{
    static const char *const titles[] = {"USER", "WAIT", "RUN", "SLOTS", "GPUS", "MEMORY", "USE", "SHARE"};
    enum { N_COLUMN = sizeof titles / sizeof *titles };
    struct table table;
    const json_t *user;
    size_t i;
    table_init(&table, N_COLUMN);
    for (int column = 0; column < N_COLUMN; column++) {
        table.is_right[column] = column > 0;
        table_add(&table, titles[column]);
    }
    json_array_foreach(users, i, user)
    {
        char used[TEXT_BYTES], share[TEXT_BYTES];
        text_duration(number_of(user, "used_s"), used);
        text_percent(number_of(user, "share"), share);
        table_add(&table, text_of(user, "user"));
        add_count(&table, user, "queued");
        add_count(&table, user, "running");
        add_count(&table, user, "slots");
        add_count(&table, user, "gpus");
        add_memory(&table, user);
        table_add(&table, used);
        table_add(&table, share);
    }
    table_print(&table, stdout, 0, NULL);
}

enum status run_users(const struct ctl_arguments *arguments, int *exit_code_out)
{
    json_t *answer = NULL;
    (void)exit_code_out;
    enum status status = ctl_ask(arguments, json_pack("{s:s}", "cmd", "users"), &answer);
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        text_print_json(answer);
    } else if (status == STATUS_OK) {
        print_users(json_object_get(answer, "users"));
        if (json_is_null(json_object_get(answer, "half_life_s"))) {
            fprintf(stderr,
                    "use is not counted (daemon.fair_half_life): the job that was submitted first goes first\n");
        }
    }
    json_decref(answer);
    return status;
}
