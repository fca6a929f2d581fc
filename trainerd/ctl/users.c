/* A table of users: their jobs, what these have of the machine, and what was used of it. */
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <stdio.h>
#include <stdlib.h>

/* "3", or "3/4" of a limit; "-": not for this user to see. */
static char *cell_count(const json_t *user, const char *key)
{
    const json_t *limits = json_object_get(user, "limits");
    char *has = cell_integer(user, key), *most = cell_number(limits, key);
    char *both = text_format("%s%s%s", has, most[0] != '\0' ? "/" : "", most);
    free(has);
    free(most);
    return both;
}

static char *cell_memory(const json_t *user, const char *key)
{
    const json_t *limits = json_object_get(user, "limits");
    bool is_limited = json_is_integer(json_object_get(limits, key));
    return text_format("%s%s%s", figure_bytes(field_number(user, key)).text, is_limited ? "/" : "",
                       is_limited ? figure_bytes(field_number(limits, key)).text : "");
}

static const struct column columns[] = {
    {"USER", "user", cell_text, false, 0},     {"WAIT", "queued", cell_count, true, 0},
    {"RUN", "running", cell_count, true, 0},   {"SLOTS", "slots", cell_count, true, 0},
    {"GPUS", "gpus", cell_count, true, 0},     {"MEMORY", "memory", cell_memory, true, 0},
    {"USE", "used_s", cell_duration, true, 0}, {"SHARE", "share", cell_percent, true, 0},
};

static void print_users(const json_t *answer)
{
    columns_print(columns, sizeof columns / sizeof *columns, json_object_get(answer, "users"), 0);
    if (json_is_null(json_object_get(answer, "half_life_s"))) {
        fprintf(stderr, "use is not counted (daemon.fair_half_life): the job that was submitted first goes first\n");
    }
}

enum status run_users(const struct ctl_arguments *arguments)
{
    return ctl_answer(arguments, json_pack("{s:s}", "cmd", "users"), print_users);
}
