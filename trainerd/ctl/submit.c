/* Submit a job, or those of a sweep, and with --wait follow them to their end, also over restarts of the daemon. */
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/base/printable.h"
#include "protocol/job/job_keys.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/experiments/submit_sweep.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOST_S 60.0 /* for which the daemon may be gone */
#define LINE_S 1.0  /* between two lines of progress */

/* --- the request --- */

/* The file's text, "-" being standard input. owns  the caller frees *out */
static enum status read_file(const char *path, char **out)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    if (file == NULL) {
        return status_fail(STATUS_NO_INPUT, "cannot open job file '%s': %s", path, strerror(errno));
    }
    char *text = memory_alloc(JOB_FILE_MOST_BYTES + 2, 1);
    size_t n = fread(text, 1, JOB_FILE_MOST_BYTES + 1, file);
    bool failed = ferror(file) != 0;
    int error = errno;
    if (file != stdin) {
        fclose(file);
    }
    if (!failed && n <= JOB_FILE_MOST_BYTES && memchr(text, '\0', n) == NULL) {
        *out = text;
        return STATUS_OK;
    }
    free(text);
    return failed
               ? status_fail(STATUS_NO_INPUT, "cannot read job file '%s': %s", path, strerror(error))
               : status_fail(STATUS_CONFIG, "'%s' is not a job file: it is longer than %d bytes, or contains a NUL",
                             path, JOB_FILE_MOST_BYTES);
}

static enum status set_numbers(const struct ctl_arguments *arguments, json_t *request)
{
    long long priority, restarts;
    double limit_s = 0;
    const char *limit = arguments->value[CTL_OPTION_TIME_LIMIT];
    enum status status = ctl_int(arguments, CTL_OPTION_PRIORITY, -1000000, 1000000, 0, &priority);
    if (status == STATUS_OK) {
        status = ctl_int(arguments, CTL_OPTION_MAX_RESTARTS, 0, 1000, -1, &restarts);
    }
    status = status == STATUS_OK && limit != NULL ? text_read_duration(limit, "--time-limit", &limit_s) : status;
    if (status == STATUS_OK) {
        json_object_set_new(request, "priority", json_integer(priority));
        json_object_set_new(request, "time_limit_s", json_real(limit_s));
        if (restarts >= 0) {
            json_object_set_new(request, "max_restarts", json_integer(restarts));
        }
    }
    return status;
}

/* A text that is not UTF-8 cannot be sent as JSON. */
static enum status set_text(json_t *request, const char *key, const char *text, const char *what)
{
    return text == NULL || json_object_set_new(request, key, json_string(text)) == 0
               ? STATUS_OK
               : status_fail(STATUS_CONFIG, "%s is not UTF-8", what);
}

/* --predict as one more setting, the last. */
static enum status set_predict(const struct ctl_arguments *arguments, json_t *set)
{
    const char *model = arguments->value[CTL_OPTION_PREDICT];
    if (model == NULL) {
        return STATUS_OK;
    }
    if (model[0] == '\0') {
        return status_fail(STATUS_USAGE, "--predict is empty, expected the folder of a training's results");
    }
    char *setting = job_predict_setting(model);
    bool failed = json_array_append_new(set, json_string(setting)) != 0;
    free(setting);
    return failed ? status_fail(STATUS_USAGE, "--predict is not UTF-8") : STATUS_OK;
}

/* The text as a setting. Between three quotes it needs no escapes. */
static enum status add_program(enum job_key_id key, const char *name, json_t *set)
{
    char *text = memory_alloc(VERTEX_TEXT_MOST + 1, 1);
    enum status status = job_text_read(key, name, text);
    char *setting = text_format("%s.%s='''\n%s'''", job_keys[key].section, job_keys[key].name, text);
    if (status == STATUS_OK && strstr(text, "'''") != NULL) {
        status = status_fail(STATUS_CONFIG, "'%.200s' has three quotes in a row, which programs do not", name);
    } else if (status == STATUS_OK && json_array_append_new(set, json_string(setting)) != 0) {
        status = status_fail(STATUS_CONFIG, "'%.200s' is not UTF-8", name);
    }
    free(setting);
    free(text);
    return status;
}

/* The text of a program or decoder that the job names goes along as one more setting: the daemon opens no file of its
 * users, and what is queued runs as it was submitted. It is checked here, since the daemon does not know the file's
 * name, and leaves operations to the job's own process. */
static enum status set_program(enum job_key_id key, const char *config, const char *file, json_t *set)
{
    size_t n_set = json_array_size(set);
    const char **settings = memory_alloc(n_set + 1, sizeof *settings);
    char name[JOB_TEXT_BYTES];
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n_set; i++) {
        settings[i] = json_string_value(json_array_get(set, i));
    }
    if (job_text_file(config, strlen(config), settings, n_set, key, name)) {
        struct job *job = memory_alloc(1, sizeof *job);
        status = job_load_own(config, strlen(config), file, settings, n_set, job);
        free(job);
    }
    if (status == STATUS_OK && name[0] != '\0') {
        status = add_program(key, name, set);
    }
    free(settings);
    return status;
}

/* All values of an option that may be repeated. */
static enum status set_list(const struct ctl_arguments *arguments, enum ctl_option option, const char *key,
                            json_t *request)
{
    const struct ctl_list *list = &arguments->list[option];
    json_t *all = json_array();
    json_object_set_new(request, key, all);
    for (size_t i = 0; i < list->n; i++) {
        if (json_array_append_new(all, json_string(list->value[i])) != 0) {
            return status_fail(STATUS_USAGE, "--%s '%s' is not UTF-8", ctl_options[option].name, list->value[i]);
        }
    }
    return STATUS_OK;
}

static enum status make_request(const struct ctl_arguments *arguments, const char *config, json_t *request)
{
    char folder[PATH_MAX], file[256];
    printable_copy(strcmp(arguments->operand[0], "-") == 0 ? "standard input" : arguments->operand[0], file,
                   sizeof file);
    if (getcwd(folder, sizeof folder) == NULL) {
        return status_fail(STATUS_NO_INPUT, "cannot find the current folder: %s", strerror(errno));
    }
    enum status status = set_list(arguments, CTL_OPTION_SET, "set", request);
    if (status != STATUS_OK) {
        return status;
    }
    json_t *set = json_object_get(request, "set");
    const struct {
        const char *key, *text, *what;
    } texts[] = {{"config", config, "the job file"},
                 {"file", file, "the job file's name"},
                 {"folder", folder, "the current folder's path"},
                 {"name", arguments->value[CTL_OPTION_NAME], "--name"},
                 {"submission_id", arguments->value[CTL_OPTION_SUBMISSION_ID], "--submission-id"},
                 {"group", arguments->value[CTL_OPTION_GROUP], "--group"}};
    status = set_predict(arguments, set);
    for (size_t i = 0; i < sizeof texts / sizeof *texts && status == STATUS_OK; i++) {
        status = set_text(request, texts[i].key, texts[i].text, texts[i].what);
    }
    if (status != STATUS_OK || (status = set_program(JOB_KEY_model_program, config, file, set)) != STATUS_OK ||
        (status = set_program(JOB_KEY_task_decoder, config, file, set)) != STATUS_OK ||
        (status = set_list(arguments, CTL_OPTION_TAG, "tags", request)) != STATUS_OK ||
        (status = set_numbers(arguments, request)) != STATUS_OK) {
        return status;
    }
    return submit_sweep(arguments, config, request);
}

/* --- waiting --- */

struct wait {
    int64_t job;
    char state[32], reason[32];
    double shown_s;
    bool is_quiet; /* one of several jobs, which has a row at its end */
    json_t *last;  /* the job in the last event */
};

static void show_job(struct wait *wait, const json_t *job)
{
    const char *state = field_text(job, "state"), *reason = field_text(job, "reason");
    if (!wait->is_quiet && (strcmp(state, wait->state) != 0 || strcmp(reason, wait->reason) != 0)) {
        text_print_job(stderr, job);
        snprintf(wait->state, sizeof wait->state, "%s", state);
        snprintf(wait->reason, sizeof wait->reason, "%s", reason);
    }
}

static void show_epoch(struct wait *wait, const json_t *event)
{
    bool is_last = field_integer(event, "epoch") == field_integer(event, "epochs");
    if (wait->is_quiet || (!is_last && clock_s() - wait->shown_s < LINE_S)) {
        return;
    }
    text_print_epoch(stderr, event);
    wait->shown_s = clock_s();
}

/* Watch until the stream's end, or until the daemon is gone (STATUS_PEER). */
static enum status watch(struct client *client, struct wait *wait)
{
    json_t *event;
    enum status status = client_send(client, json_pack("{s:s, s:I}", "cmd", "watch", "job", (json_int_t)wait->job));
    while (status == STATUS_OK) {
        status = client_next(client, -1, &event);
        if (status != STATUS_OK || event == NULL) {
            continue;
        }
        bool ends = json_is_true(json_object_get(event, "end"));
        const char *kind = field_text(event, "event");
        if (strcmp(kind, "job") == 0) {
            json_decref(wait->last);
            wait->last = json_incref(json_object_get(event, "job"));
            show_job(wait, wait->last);
        } else if (strcmp(kind, "epoch") == 0) {
            show_epoch(wait, event);
        }
        json_decref(event);
        if (ends) {
            return STATUS_OK;
        }
    }
    return status;
}

/* Jobs outlive their daemon: wait for one that is started again. */
static enum status reconnect(const struct ctl_arguments *arguments, struct client *client)
{
    double since_s = clock_s();
    fprintf(stderr, "trainctl: %s; the job runs on, waiting for the daemon\n", status_reason());
    for (;;) {
        client_close(client);
        enum status status = ctl_connect(arguments, client);
        if (status != STATUS_PEER || clock_s() - since_s > LOST_S) {
            return status;
        }
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    }
}

static enum status wait_for(const struct ctl_arguments *arguments, struct client *client, struct wait *wait)
{
    enum status status = watch(client, wait);
    while (status == STATUS_PEER) {
        status = reconnect(arguments, client);
        if (status != STATUS_OK) {
            return status;
        }
        status = watch(client, wait);
    }
    return status;
}

/* What tells a job from the others of its sweep, "lr=0.01, seed=3".
 * owns  the caller frees it */
static char *settings_text(const json_t *set)
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    ASSERT(file != NULL);
    for (size_t i = 0; i < json_array_size(set); i++) {
        const char *setting = json_string_value(json_array_get(set, i));
        const char *dot = memrchr(setting, '.', strcspn(setting, "="));
        fprintf(file, "%s%s", i > 0 ? ", " : "", dot != NULL ? dot + 1 : setting);
    }
    fclose(file);
    char *out = text_cut(text, 28, false);
    free(text);
    return out;
}

/* A row of the table of jobs that have ended, which grows at its end. set: the settings that are its own */
static void show_row(const json_t *job, const json_t *set)
{
    char *name = settings_text(set), *reason = text_printable(text_reason(job).text);
    fprintf(stderr, "%6lld  %-28s  %-9s %11s %7s %9s %9s  %s\n", (long long)field_integer(job, "id"), name,
            field_text(job, "state"), text_epochs(job).text, text_duration_short(field_number(job, "ran_s")).text,
            text_metric(job, "best_valid_metric").text, text_metric(job, "best_test_metric").text, reason);
    free(name);
    free(reason);
}

static enum status wait_end(const struct ctl_arguments *arguments, struct client *client, int64_t id,
                            const json_t *set)
{
    struct wait wait = {.job = id, .is_quiet = set != NULL};
    enum status status = wait_for(arguments, client, &wait);
    if (status == STATUS_OK) {
        const json_t *exit_code = json_object_get(wait.last, "exit_code");
        int *out = arguments->exit_code_out, code = status_exit_code(STATUS_INTERRUPTED);
        code = json_is_integer(exit_code) ? (int)json_integer_value(exit_code) : code;
        *out = *out == 0 ? code : *out;
        if (set != NULL) {
            show_row(wait.last, set);
        }
        if (ctl_given(arguments, CTL_OPTION_JSON)) {
            text_print_json(wait.last);
        }
    }
    json_decref(wait.last);
    return status;
}

/* Wait for one job after another, several as the rows of a table, with the settings that each has (`each`); the exit
 * code is that of the first that did not succeed. */
static enum status wait_ends(const struct ctl_arguments *arguments, struct client *client, const json_t *jobs,
                             const json_t *each)
{
    enum status status = STATUS_OK;
    const size_t n = json_array_size(jobs);
    if (n > 1) {
        fprintf(stderr, "%6s  %-28s  %-9s %11s %7s %9s %9s  %s\n", "ID", "SETTINGS", "STATE", "EPOCH", "RAN", "VALID",
                "TEST", "REASON");
    }
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        status = wait_end(arguments, client, json_integer_value(json_array_get(jobs, i)),
                          n > 1 ? json_array_get(each, i) : NULL);
    }
    return status;
}

/* The number of a job; the group of a sweep, and on standard error its numbers. */
static void print_answer(const struct ctl_arguments *arguments, const json_t *answer, bool is_sweep)
{
    const json_t *jobs = json_object_get(answer, "jobs");
    size_t n = json_array_size(jobs);
    if (ctl_given(arguments, CTL_OPTION_JSON)) {
        text_print_json(answer);
        return;
    }
    if (!is_sweep) {
        printf("%lld\n", (long long)field_integer(answer, "job"));
        fflush(stdout);
        return;
    }
    text_print_lines(stdout, field_text(answer, "group"));
    printf("\n");
    fflush(stdout);
    fprintf(stderr, "%s, %lld", figure_count((int64_t)n, "job").text,
            (long long)json_integer_value(json_array_get(jobs, 0)));
    if (n > 1) {
        fprintf(stderr, " to %lld", (long long)json_integer_value(json_array_get(jobs, n - 1)));
    }
    if (json_is_true(json_object_get(answer, "existing"))) {
        fprintf(stderr, ", submitted before; with another --group %s again", n == 1 ? "it runs" : "they run");
    }
    fprintf(stderr, "\n");
}

enum status run_submit(const struct ctl_arguments *arguments)
{
    char *config = NULL;
    struct client client = {.file = -1};
    json_t *answer = NULL, *request = json_pack("{s:s}", "cmd", "submit");
    enum status status = read_file(arguments->operand[0], &config);
    if (status != STATUS_OK) {
        json_decref(request);
        return status;
    }
    status = make_request(arguments, config, request);
    free(config);
    if (status != STATUS_OK || (status = ctl_connect(arguments, &client)) != STATUS_OK) {
        json_decref(request);
        return status;
    }
    json_t *each = json_incref(json_object_get(request, "jobs"));
    bool is_sweep = each != NULL;
    status = client_ask(&client, request, &answer);
    if (status == STATUS_OK) {
        print_answer(arguments, answer, is_sweep);
        status = ctl_given(arguments, CTL_OPTION_WAIT)
                     ? wait_ends(arguments, &client, json_object_get(answer, "jobs"), each)
                     : STATUS_OK;
        json_decref(answer);
    }
    json_decref(each);
    client_close(&client);
    return status;
}

/* --- submissions by other names --- */

/* predict MODEL FILE is submit FILE --predict MODEL. */
enum status run_predict(const struct ctl_arguments *arguments)
{
    struct ctl_arguments submit = *arguments;
    submit.value[CTL_OPTION_PREDICT] = submit.operand[0];
    submit.operand++;
    submit.n_operand--;
    return run_submit(&submit);
}

/* sweep FILE KEY=V1,V2 is submit FILE --sweep KEY=V1,V2. */
enum status run_sweep(const struct ctl_arguments *arguments)
{
    struct ctl_arguments submit = *arguments;
    struct ctl_list *sweep = &submit.list[CTL_OPTION_SWEEP];
    *sweep = (struct ctl_list){(const char **)arguments->operand + 1, (size_t)arguments->n_operand - 1};
    submit.n_operand = 1;
    if (sweep->n == 0 && !ctl_given(arguments, CTL_OPTION_SEEDS) && !ctl_given(arguments, CTL_OPTION_SPLIT)) {
        return status_fail(STATUS_USAGE, "sweep takes KEY=V1,V2, --seeds or --split; see trainctl sweep --help");
    }
    return run_submit(&submit);
}
