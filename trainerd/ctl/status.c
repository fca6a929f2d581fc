/* Tables of jobs, and versions. */
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/version.h"

#include <math.h>
#include <string.h>

#define PAGE_JOBS 1000

/* --- the table --- */

#define NAME_MOST 14 /* characters of a name on a terminal; 24 where that is wide */
#define NAME_WIDE 24
#define SCREEN_WIDE 100 /* columns */
#define ROWS_BESIDE 4   /* of a screen: titles, what is left out, counts, the prompt */
#define ROWS_LEAST 5    /* of jobs */
#define PAGE_DEFAULT 50 /* jobs, where it is no screen */

static char *copy_of(const char *text)
{
    char *copy = strdup(text);
    ASSERT(copy != NULL);
    return copy;
}

static char *short_duration(double seconds)
{
    char text[TEXT_BYTES];
    text_duration_short(seconds, text);
    return copy_of(text);
}

static char *cell_age(const json_t *job, const char *key)
{
    return short_duration(clock_wall_s() - number_of(job, key));
}

static char *cell_ran(const json_t *job, const char *key)
{
    return short_duration(number_of(job, key) > 0 ? number_of(job, key) : NAN);
}

static char *cell_left(const json_t *job, const char *key)
{
    return short_duration(strcmp(text_of(job, "state"), "RUNNING") == 0 ? number_of(job, key) : NAN);
}

static char *cell_name(const json_t *job, const char *key)
{
    int n_column = text_columns(stdout);
    return text_cut(text_of(job, key), n_column == 0 ? 0 : n_column < SCREEN_WIDE ? NAME_MOST : NAME_WIDE, false);
}

/* What is known of others' jobs has no reason. */
static char *cell_own(const json_t *job, const char *key)
{
    char text[TEXT_BYTES] = "-";
    if (json_object_get(job, "reason") != NULL && strcmp(key, "epoch") == 0) {
        text_epochs(job, text);
    } else if (json_object_get(job, "reason") != NULL) {
        snprintf(text, sizeof text, "%lld", (long long)integer_of(job, key));
    }
    return copy_of(text);
}

static char *cell_reason(const json_t *job, const char *key)
{
    char reason[REASON_BYTES];
    (void)key;
    text_reason(job, reason);
    return copy_of(reason);
}

static const struct column columns[] = {
    {"ID", "id", cell_integer, true, 0},
    {"NAME", "name", cell_name, false, 0},
    {"OWNER", "owner", cell_text, false, 2},
    {"GROUP", "group", cell_word, false, 4},
    {"STATE", "state", cell_text, false, 0},
    {"GPUS", "gpus_held", cell_numbers, false, 5},
    {"WORKERS", "workers", cell_own, true, 8},
    {"AGE", "submitted_at", cell_age, true, 9},
    {"RAN", "ran_s", cell_ran, true, 10},
    {"EPOCH", "epoch", cell_own, true, 11},
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

/* Request pages up to `limit` jobs (0: all), by turn or newest first. *out: an answer with the jobs of all. */
static enum status collect(const struct ctl_arguments *arguments, long long limit, bool by_turn, json_t **out)
{
    struct client client;
    enum status status = ctl_connect(arguments, &client);
    const char *place = by_turn ? "skip" : "before"; /* of the next page */
    json_t *all = NULL;
    json_int_t at = by_turn ? 0 : INT64_MAX;
    while (status == STATUS_OK) {
        json_t *page, *request = json_pack("{s:s, s:I, s:b}", "cmd", "status", place, at, "by_turn", by_turn);
        long long n_left = all == NULL || limit == 0
                               ? limit
                               : limit - (long long)json_array_size(json_object_get(all, "jobs"));
        json_object_set_new(request, "limit", json_integer(n_left > 0 && n_left < PAGE_JOBS ? n_left : PAGE_JOBS));
        json_object_set_new(request, "active", json_boolean(ctl_given(arguments, CTL_OPTION_ACTIVE)));
        ctl_ask_group(arguments, request);
        status = client_ask(&client, request, &page);
        if (status != STATUS_OK) {
            break;
        }
        json_t *more = json_object_get(page, place), *jobs = json_object_get(all == NULL ? page : all, "jobs");
        at = json_integer_value(more);
        bool has_more = more != NULL;
        if (all == NULL) {
            all = page;
        } else {
            json_array_extend(jobs, json_object_get(page, "jobs"));
            json_decref(page);
        }
        if (!has_more || (limit > 0 && (long long)json_array_size(jobs) >= limit)) {
            if (!has_more) {
                json_object_del(all, place);
            }
            break;
        }
    }
    client_close(&client);
    *out = all;
    return status;
}

/* As many jobs as a screen has place for. */
static long long limit_default(bool is_json)
{
    int n_row = text_rows(stdout);
    return is_json || n_row == 0 ? PAGE_DEFAULT : n_row > ROWS_LEAST + ROWS_BESIDE ? n_row - ROWS_BESIDE : ROWS_LEAST;
}

enum status run_status(const struct ctl_arguments *arguments, int *exit_code_out)
{
    long long limit;
    json_t *answer = NULL;
    (void)exit_code_out;
    bool is_json = ctl_given(arguments, CTL_OPTION_JSON), is_one = arguments->n_operand > 0;
    enum status status = ctl_int(arguments, CTL_OPTION_LIMIT, 0, 1000000000, limit_default(is_json), &limit);
    if (status == STATUS_OK && is_one &&
        (ctl_given(arguments, CTL_OPTION_GROUP) || ctl_given(arguments, CTL_OPTION_TAG))) {
        status = status_fail(STATUS_USAGE,
                             "status takes either JOB, or --group and --tag; see trainctl status --help");
    }
    if (status == STATUS_OK) {
        status = is_one ? ctl_ask(arguments, ctl_job_request(arguments, "status"), &answer)
                        : collect(arguments, limit, !is_json, &answer);
    }
    if (status == STATUS_OK && is_json) {
        text_print_json(answer);
    } else if (status == STATUS_OK) {
        columns_print(columns, sizeof columns / sizeof *columns, json_object_get(answer, "jobs"),
                      text_columns(stdout), NULL);
        if (json_is_true(json_object_get(answer, "draining"))) {
            fprintf(stderr, "the daemon is draining and starts no jobs (trainctl undrain)\n");
        }
        if (!is_one) {
            print_left_out(answer, ctl_given(arguments, CTL_OPTION_ACTIVE));
            print_counts(json_object_get(answer, "counts"));
        }
    }
    json_decref(answer);
    return status;
}

/* Without a daemon, only trainctl's own version is printed. */
enum status run_version(const struct ctl_arguments *arguments, int *exit_code_out)
{
    json_t *answer = NULL;
    enum status status = ctl_ask(arguments, json_pack("{s:s}", "cmd", "version"), &answer);
    (void)exit_code_out;
    if (ctl_given(arguments, CTL_OPTION_JSON)) {
        json_t *both = json_pack("{s:s, s:o?}", "trainctl", TRAINERD_VERSION, "daemon", json_incref(answer));
        if (answer == NULL) {
            json_object_set_new(both, "daemon", json_null());
        }
        text_print_json(both);
        json_decref(both);
    } else {
        char uptime[TEXT_BYTES], jobs[TEXT_BYTES];
        text_count(integer_of(answer, "jobs"), "job", jobs);
        text_duration(number_of(answer, "uptime_s"), uptime);
        printf("trainctl %s\n", TRAINERD_VERSION);
        if (status == STATUS_OK) {
            printf("trainerd %s, process %lld, up for %s, %s\n", text_of(answer, "version"),
                   (long long)integer_of(answer, "pid"), uptime, jobs);
        } else {
            printf("no daemon: %s\n", status_reason());
        }
    }
    json_decref(answer);
    return STATUS_OK;
}
