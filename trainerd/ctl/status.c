/* Tables of jobs, and versions. */
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include "protocol/base/clock.h"
#include "protocol/base/version.h"

#include <math.h>
#include <string.h>

/* --- the table --- */

#define NAME_MOST 14 /* characters of a name on a terminal; 24 where that is wide */
#define NAME_WIDE 24
#define SCREEN_WIDE 100 /* columns */
#define ROWS_BESIDE 4   /* of a screen: titles, what is left out, counts, the prompt */
#define ROWS_LEAST 5    /* of jobs */
#define PAGE_DEFAULT 50 /* jobs, where it is no screen */

static char *short_duration(double seconds)
{
    return text_format("%s", text_duration_short(seconds).text);
}

static char *cell_age(const json_t *job, const char *key)
{
    return short_duration(clock_wall_s() - field_number(job, key));
}

static char *cell_ran(const json_t *job, const char *key)
{
    return short_duration(field_number(job, key) > 0 ? field_number(job, key) : NAN);
}

static char *cell_left(const json_t *job, const char *key)
{
    return short_duration(strcmp(field_text(job, "state"), "RUNNING") == 0 ? field_number(job, key) : NAN);
}

static char *cell_name(const json_t *job, const char *key)
{
    int n_column = text_columns(stdout);
    return text_cut(field_text(job, key), n_column == 0 ? 0 : n_column < SCREEN_WIDE ? NAME_MOST : NAME_WIDE, false);
}

static char *cell_epochs(const json_t *job, const char *key)
{
    (void)key;
    return text_format("%s", text_epochs(job).text);
}

static char *cell_reason(const json_t *job, const char *key)
{
    (void)key;
    return text_format("%s", text_reason(job).text);
}

static const struct column columns[] = {
    {"ID", "id", cell_integer, true, 0},
    {"NAME", "name", cell_name, false, 0},
    {"OWNER", "owner", cell_text, false, 2},
    {"GROUP", "group", cell_word, false, 4},
    {"STATE", "state", cell_text, false, 0},
    {"GPUS", "gpus_held", cell_list, false, 5},
    {"WORKERS", "workers", cell_integer, true, 8},
    {"AGE", "submitted_at", cell_age, true, 9},
    {"RAN", "ran_s", cell_ran, true, 10},
    {"EPOCH", "epoch", cell_epochs, true, 11},
    {"VALID", "valid_metric", cell_metric, true, 1},
    {"BEST", "best_valid_metric", cell_metric, true, 7},
    {"TEST", "best_test_metric", cell_metric, true, 3},
    {"LEFT", "seconds_left", cell_left, true, 6},
    {"REASON", "reason", cell_reason, false, 0},
};

/* How many of the jobs that are asked for are in which state, whatever --limit leaves out. */
static void print_counts(const json_t *counts)
{
    const char *state, *before = "";
    const json_t *count;
    json_object_foreach((json_t *)counts, state, count)
    {
        if (json_integer_value(count) > 0) {
            fprintf(stderr, "%s%lld %s", before, (long long)json_integer_value(count), state);
            before = ", ";
        }
    }
    fprintf(stderr, before[0] != '\0' ? "\n" : "no jobs\n");
}

/* How many jobs follow those that are shown. */
static void print_left_out(const json_t *answer, bool active)
{
    const char *state;
    const json_t *count;
    long long n = -(long long)json_array_size(json_object_get(answer, "jobs"));
    json_object_foreach(json_object_get(answer, "counts"), state, count)
    {
        bool has_ended = strcmp(state, "SUCCEEDED") == 0 || strcmp(state, "FAILED") == 0 ||
                         strcmp(state, "CANCELLED") == 0;
        n += active && has_ended ? 0 : (long long)json_integer_value(count);
    }
    if (n > 0) {
        fprintf(stderr, "%lld job%s left out; --limit 0 shows all\n", n, n == 1 ? " is" : "s are");
    }
}

/* --- asking --- */

/* As many jobs as a screen has place for. */
static long long limit_default(bool is_json)
{
    int n_row = text_rows(stdout);
    return is_json || n_row == 0 ? PAGE_DEFAULT : n_row > ROWS_LEAST + ROWS_BESIDE ? n_row - ROWS_BESIDE : ROWS_LEAST;
}

static void print_jobs(const json_t *answer)
{
    columns_print(columns, sizeof columns / sizeof *columns, json_object_get(answer, "jobs"), text_columns(stdout));
    if (json_is_true(json_object_get(answer, "draining"))) {
        fprintf(stderr, "the daemon is draining and starts no jobs (trainctl undrain)\n");
    }
}

/* Up to `limit` jobs, by turn, or as JSON the newest first. */
static enum status list_jobs(const struct ctl_arguments *arguments, long long limit)
{
    json_t *answer = NULL;
    bool by_turn = !ctl_given(arguments, CTL_OPTION_JSON), active = ctl_given(arguments, CTL_OPTION_ACTIVE);
    json_t *request = json_pack("{s:s, s:b, s:b}", "cmd", "status", "by_turn", by_turn, "active", active);
    ctl_ask_group(arguments, request);
    enum status status = ctl_pages(arguments, request, "jobs", by_turn ? "skip" : "before", limit, &answer);
    if (status == STATUS_OK) {
        ctl_print(arguments, answer, print_jobs);
    }
    if (status == STATUS_OK && by_turn) {
        print_left_out(answer, active);
        print_counts(json_object_get(answer, "counts"));
    }
    json_decref(answer);
    return status;
}

enum status run_status(const struct ctl_arguments *arguments)
{
    long long limit;
    bool is_one = arguments->n_operand > 0;
    enum status status = ctl_int(arguments, CTL_OPTION_LIMIT, 0, 1000000000,
                                 limit_default(ctl_given(arguments, CTL_OPTION_JSON)), &limit);
    if (status != STATUS_OK) {
        return status;
    }
    if (is_one && (ctl_given(arguments, CTL_OPTION_GROUP) || ctl_given(arguments, CTL_OPTION_TAG))) {
        return status_fail(STATUS_USAGE, "status takes either JOB, or --group and --tag; see trainctl status --help");
    }
    return is_one ? ctl_answer(arguments, ctl_job_request("status", arguments->operand[0]), print_jobs)
                  : list_jobs(arguments, limit);
}

/* Without a daemon, only trainctl's own version is printed. */
static void print_versions(const json_t *both)
{
    const json_t *daemon = json_object_get(both, "daemon");
    printf("trainctl %s\n", TRAINERD_VERSION);
    if (json_is_object(daemon)) {
        printf("trainerd %s, process %lld, up for %s, %s\n", field_text(daemon, "version"),
               (long long)field_integer(daemon, "pid"), figure_seconds(field_number(daemon, "uptime_s")).text,
               figure_count(field_integer(daemon, "jobs"), "job").text);
    } else {
        printf("no daemon: %s\n", status_reason());
    }
}

enum status run_version(const struct ctl_arguments *arguments)
{
    json_t *answer = NULL;
    ctl_ask(arguments, json_pack("{s:s}", "cmd", "version"), &answer);
    json_t *both = json_pack("{s:s, s:o}", "trainctl", TRAINERD_VERSION, "daemon",
                             answer != NULL ? answer : json_null());
    ctl_print(arguments, both, print_versions);
    json_decref(both);
    return STATUS_OK;
}
