/* A table of users: their jobs, what these have of the machine, and what was used of it. */
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <stdio.h>
#include <string.h>

/* "3", or "3/4" of a limit; "-": not for this user to see. */
static char *cell_count(const json_t *user, const char *key)
{
    char text[2 * TEXT_BYTES] = "-", limit[TEXT_BYTES] = "";
    const json_t *most = json_object_get(json_object_get(user, "limits"), key);
    if (json_is_integer(most)) {
        snprintf(limit, sizeof limit, "/%lld", (long long)json_integer_value(most));
    }
    if (json_is_integer(json_object_get(user, key)) || limit[0] != '\0') {
        snprintf(text, sizeof text, "%lld%s", (long long)integer_of(user, key), limit);
    }
    return strdup(text);
}

static char *cell_memory(const json_t *user, const char *key)
{
    char has[TEXT_BYTES], most[TEXT_BYTES], both[2 * TEXT_BYTES + 1];
    const json_t *limits = json_object_get(user, "limits");
    text_bytes(number_of(user, key), has);
    text_bytes(number_of(limits, key), most);
    bool is_limited = json_is_integer(json_object_get(limits, key));
    snprintf(both, sizeof both, "%s%s%s", has, is_limited ? "/" : "", is_limited ? most : "");
    return strdup(both);
}

static const struct column columns[] = {
    {"USER", "user", cell_text, false, 0},     {"WAIT", "queued", cell_count, true, 0},
    {"RUN", "running", cell_count, true, 0},   {"SLOTS", "slots", cell_count, true, 0},
    {"GPUS", "gpus", cell_count, true, 0},     {"MEMORY", "memory", cell_memory, true, 0},
    {"USE", "used_s", cell_duration, true, 0}, {"SHARE", "share", cell_percent, true, 0},
};

enum status run_users(const struct ctl_arguments *arguments, int *exit_code_out)
{
    json_t *answer = NULL;
    (void)exit_code_out;
    enum status status = ctl_ask(arguments, json_pack("{s:s}", "cmd", "users"), &answer);
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        text_print_json(answer);
    } else if (status == STATUS_OK) {
        columns_print(columns, sizeof columns / sizeof *columns, json_object_get(answer, "users"), 0, NULL);
        if (json_is_null(json_object_get(answer, "half_life_s"))) {
            fprintf(stderr,
                    "use is not counted (daemon.fair_half_life): the job that was submitted first goes first\n");
        }
    }
    json_decref(answer);
    return status;
}
