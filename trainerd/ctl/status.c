/* Tables of jobs, and versions. */
#include "trainerd/ctl/run.h"
#include "trainerd/ctl/text.h"

#include "protocol/version.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_JOBS 1000

static void add_job(struct table *table, const json_t *job, bool shows_groups, bool shows_gpus)
{
    char id[TEXT_BYTES], epoch[TEXT_BYTES] = "-", left[TEXT_BYTES];
    char valid[TEXT_BYTES], best[TEXT_BYTES], test[TEXT_BYTES];
    const char *state = text_of(job, "state");
    bool is_mine = json_object_get(job, "reason") != NULL;
    snprintf(id, sizeof id, "%lld", (long long)integer_of(job, "id"));
    if (is_mine) {
        text_epochs(job, epoch);
    }
    text_metric(job, "valid_metric", valid);
    text_metric(job, "best_valid_metric", best);
    text_metric(job, "best_test_metric", test);
    text_duration(strcmp(state, "RUNNING") == 0 ? number_of(job, "seconds_left") : NAN, left);
    table_add(table, id);
    table_add(table, text_of(job, "name"));
    table_add(table, text_of(job, "owner"));
    if (shows_groups) {
        table_add(table, text_of(job, "group")[0] != '\0' ? text_of(job, "group") : "-");
    }
    table_add(table, state);
    if (shows_gpus) {
        char *gpus = text_numbers(json_object_get(job, "gpus_held"));
        table_add(table, gpus[0] != '\0' ? gpus : "-");
        free(gpus);
    }
    table_add(table, epoch);
    table_add(table, valid);
    table_add(table, best);
    table_add(table, test);
    table_add(table, left);
    table_add(table, strcmp(text_of(job, "reason"), "NONE") != 0 ? text_of(job, "reason_text") : "");
}

/* Does a job have something there? */
static bool has_any(const json_t *jobs, const char *key)
{
    size_t i;
    const json_t *job;
    json_array_foreach(jobs, i, job)
    {
        if (json_array_size(json_object_get(job, key)) > 0 || text_of(job, key)[0] != '\0') {
            return true;
        }
    }
    return false;
}

/* The columns of groups and of GPUs are there when a job has some. */
static void print_jobs(const json_t *jobs, bool is_more)
{
    static const char *const titles[] = {"ID",    "NAME",  "OWNER", "GROUP", "STATE", "GPUS",
                                         "EPOCH", "VALID", "BEST",  "TEST",  "LEFT",  "REASON"};
    const bool shows[] = {true, true, true, has_any(jobs, "group"), true, has_any(jobs, "gpus_held"), true, true, true,
                          true, true, true};
    struct table table;
    size_t i;
    const json_t *job;
    int n = 0;
    table_init(&table, 10 + shows[3] + shows[5]);
    for (i = 0; i < sizeof titles / sizeof *titles; i++) {
        if (shows[i]) {
            table.is_right[n++] = i == 0 || (i >= 6 && i <= 10);
            table_add(&table, titles[i]);
        }
    }
    json_array_foreach(jobs, i, job)
    {
        add_job(&table, job, shows[3], shows[5]);
    }
    table_print(&table, stdout, text_columns(stdout));
    if (is_more) {
        fprintf(stderr, "older jobs are left out; --limit 0 shows all\n");
    }
}

/* How many of a group's jobs are in which state, whatever --limit leaves out. */
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

/* Request pages until there are `limit` jobs (0: all). *out: the first answer, with the jobs of all pages. */
static enum status collect(const struct ctl_arguments *arguments, long long limit, json_t **out)
{
    struct client client;
    enum status status = ctl_connect(arguments, &client);
    json_t *all = NULL;
    json_int_t before = INT64_MAX;
    while (status == STATUS_OK) {
        json_t *page, *request = json_pack("{s:s, s:I}", "cmd", "status", "before", before);
        long long n_left = all == NULL || limit == 0 ? limit : limit - (long long)json_array_size(json_object_get(all, "jobs"));
        json_object_set_new(request, "limit", json_integer(n_left > 0 && n_left < PAGE_JOBS ? n_left : PAGE_JOBS));
        json_object_set_new(request, "active", json_boolean(ctl_given(arguments, CTL_OPTION_ACTIVE)));
        ctl_ask_group(arguments, request);
        status = client_ask(&client, request, &page);
        if (status != STATUS_OK) {
            break;
        }
        json_t *more = json_object_get(page, "before"), *jobs = json_object_get(all == NULL ? page : all, "jobs");
        before = json_integer_value(more);
        bool has_more = more != NULL;
        if (all == NULL) {
            all = page;
        } else {
            json_array_extend(jobs, json_object_get(page, "jobs"));
            json_decref(page);
        }
        if (!has_more || (limit > 0 && (long long)json_array_size(jobs) >= limit)) {
            if (!has_more) {
                json_object_del(all, "before");
            }
            break;
        }
    }
    client_close(&client);
    *out = all;
    return status;
}

enum status run_status(const struct ctl_arguments *arguments, int *exit_code_out)
{
    long long limit;
    json_t *answer = NULL;
    (void)exit_code_out;
    bool has_group = ctl_given(arguments, CTL_OPTION_GROUP) || ctl_given(arguments, CTL_OPTION_TAG);
    enum status status = ctl_int(arguments, CTL_OPTION_LIMIT, 0, 1000000000, 50, &limit);
    if (status == STATUS_OK && has_group && arguments->n_operand > 0) {
        status = status_fail(STATUS_USAGE, "status takes either JOB, or --group and --tag; see trainctl status --help");
    }
    if (status == STATUS_OK) {
        status = arguments->n_operand > 0 ? ctl_ask(arguments, ctl_job_request(arguments, "status"), &answer)
                                          : collect(arguments, limit, &answer);
    }
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        text_print_json(answer);
    } else if (status == STATUS_OK) {
        print_jobs(json_object_get(answer, "jobs"), json_object_get(answer, "before") != NULL);
        if (json_is_true(json_object_get(answer, "draining"))) {
            fprintf(stderr, "the daemon starts no jobs until an administrator says so (trainctl undrain)\n");
        }
        if (has_group) {
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
