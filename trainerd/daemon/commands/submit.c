/* The request submit: one job, or several, all or none. */
#include "protocol/base/memory.h"
#include "protocol/job/job.h"
#include "protocol/toml/toml.h"
#include "trainerd/daemon/commands/pending.h"
#include "trainerd/daemon/jobs/submission.h"
#include "trainerd/daemon/server/answer.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRIORITY_MOST 1000000
#define RESTARTS_MOST 1000
#define SUBMISSION_ID_MOST 128
#define FILE_NAME_MOST 255
/* Of one submission. They are saved before another client is served. */
#define JOBS_MOST 1000
#define JOBS_BYTES_MOST (16 << 20)

/* --- checks --- */

/* text NULL: it is not given */
static enum status check_text(const char *what, const char *text, size_t n_most)
{
    if (text == NULL) {
        return STATUS_OK;
    }
    if (strlen(text) > n_most) {
        return status_fail(STATUS_USAGE, "%s has %zu bytes, expected at most %zu", what, strlen(text), n_most);
    }
    return submission_check_seen(STATUS_USAGE, what, text);
}

/* A name must not be a number: requests identify jobs by either. */
static enum status check_name(const char *what, const char *name)
{
    enum status status = check_text(what, name, JOB_NAME_BYTES - 1);
    if (status == STATUS_OK && name != NULL && name[0] != '\0' && name[strspn(name, "0123456789")] == '\0') {
        return status_fail(STATUS_USAGE, "%s '%s' is a number, which would identify another job", what, name);
    }
    return status;
}

/* Only root can run processes as other users. */
static enum status check_user(const struct connection *connection)
{
    uid_t uid = connection_uid(connection);
    if (geteuid() != 0 && uid != geteuid()) {
        return status_fail(STATUS_USAGE, "this daemon runs as user %u and cannot run jobs of user %u",
                           (unsigned)geteuid(), (unsigned)uid);
    }
    return STATUS_OK;
}

/* Below 0 a priority delays its owner's own job; above, it would delay those of others. */
static enum status check_priority(const struct connection *connection, const json_t *request)
{
    json_int_t priority = json_integer_value(json_object_get(request, "priority"));
    if (priority > 0 && !connection_is_admin(connection)) {
        return status_fail(STATUS_USAGE,
                           "priority is %lld, and those above 0 are for administrators: expected 0 or less",
                           (long long)priority);
    }
    return STATUS_OK;
}

enum status commands_check_submitter(const struct commands *commands, const struct connection *connection)
{
    uid_t uid = connection_uid(connection);
    bool always = connection_is_admin(connection) || uid == 0 || uid == geteuid();
    return always ? STATUS_OK : submitters_check(&commands->submitters, uid, connection_gid(connection));
}

static size_t texts_bytes(const json_t *texts)
{
    size_t n = 0, i;
    const json_t *one;
    json_array_foreach(texts, i, one)
    {
        n += json_string_length(one);
    }
    return n;
}

/* How many jobs, and what of them is saved. */
static enum status check_jobs(const json_t *request)
{
    const json_t *jobs = json_object_get(request, "jobs"), *one;
    size_t n = json_array_size(jobs), i;
    size_t n_byte = json_string_length(json_object_get(request, "config")) +
                    texts_bytes(json_object_get(request, "set"));
    enum status status = jobs != NULL ? commands_check_range("the number of jobs", (double)n, 1, JOBS_MOST)
                                      : STATUS_OK;
    n_byte *= n;
    json_array_foreach(jobs, i, one)
    {
        n_byte += texts_bytes(one);
    }
    if (status == STATUS_OK && n_byte > JOBS_BYTES_MOST) {
        status = status_fail(
            STATUS_USAGE, "%zu jobs have job files and settings of %zu bytes, expected at most %d in one submission",
            n, n_byte, JOBS_BYTES_MOST);
    }
    return status;
}

/* --- what the jobs have in common --- */

static enum status read_tags(const json_t *tags, char out[JOB_TAGS_BYTES])
{
    size_t i, at = 0;
    const json_t *one;
    if (json_array_size(tags) > JOB_TAGS_MOST) {
        return status_fail(STATUS_USAGE, "%zu tags are given, expected at most %d", json_array_size(tags),
                           JOB_TAGS_MOST);
    }
    json_array_foreach(tags, i, one)
    {
        const char *tag = json_string_value(one);
        enum status status = check_text("tag", tag, JOB_TAG_BYTES - 1);
        if (status != STATUS_OK) {
            return status;
        }
        if (tag[0] == '\0' || strcspn(tag, ", ") != strlen(tag)) {
            return status_fail(STATUS_USAGE, "tag '%s' is empty, or has a comma or a blank", tag);
        }
        at += (size_t)snprintf(out + at, JOB_TAGS_BYTES - at, "%s%s", i > 0 ? "," : "", tag);
    }
    return STATUS_OK;
}

static enum status read_record(const struct commands *commands, const json_t *request, struct job_record *record)
{
    const json_t *priority = json_object_get(request, "priority"),
                 *restarts = json_object_get(request, "max_restarts");
    const char *name = json_string_value(json_object_get(request, "name"));
    const char *group = json_string_value(json_object_get(request, "group"));
    double limit_s = json_number_value(json_object_get(request, "time_limit_s"));
    double n_restart = restarts != NULL ? (double)json_integer_value(restarts) : (double)commands->max_restarts;
    enum status status = commands_check_range("priority", (double)json_integer_value(priority), -PRIORITY_MOST,
                                              PRIORITY_MOST);
    if (status != STATUS_OK ||
        (status = commands_check_range("max_restarts", n_restart, 0, RESTARTS_MOST)) != STATUS_OK ||
        (status = commands_check_range("time_limit_s", limit_s, 0, 1e10)) != STATUS_OK ||
        (status = check_name("name", name)) != STATUS_OK || (status = check_name("group", group)) != STATUS_OK) {
        return status;
    }
    if (group != NULL && strchr(group, '/') != NULL) {
        return status_fail(STATUS_USAGE, "group '%s' has a slash, which would name a folder", group);
    }
    record->priority = (int32_t)json_integer_value(priority);
    record->max_restarts = (int32_t)n_restart;
    record->time_limit_s = limit_s;
    snprintf(record->group, sizeof record->group, "%s", group != NULL ? group : "");
    return read_tags(json_object_get(request, "tags"), record->tags);
}

/* --- the jobs --- */

/* "name=…", the setting that tells a coordinator its job's name; NULL: none is given. owns  the caller frees it */
static char *name_setting(const json_t *request)
{
    const char *name = json_string_value(json_object_get(request, "name"));
    if (name == NULL || name[0] == '\0') {
        return NULL;
    }
    char *quoted = toml_quote(name);
    size_t capacity = strlen(quoted) + sizeof "name=";
    char *setting = memory_alloc(capacity, 1);
    snprintf(setting, capacity, "name=%s", quoted);
    free(quoted);
    return setting;
}

/* A job's settings: those of all, its own, and the name. owns  the caller frees *out */
static void read_settings(const json_t *set, const json_t *own, const char *named, const char ***out, size_t *n_out)
{
    size_t n_set = json_array_size(set), n_own = json_array_size(own), n = 0;
    *out = memory_alloc(n_set + n_own + 1, sizeof **out);
    for (size_t i = 0; i < n_set; i++) {
        (*out)[n++] = json_string_value(json_array_get(set, i));
    }
    for (size_t i = 0; i < n_own; i++) {
        (*out)[n++] = json_string_value(json_array_get(own, i));
    }
    if (named != NULL) {
        (*out)[n++] = named;
    }
    *n_out = n;
}

static void add_number(void *context, int64_t id)
{
    json_array_append_new(context, json_integer(id));
}

static json_t *answer_of(const json_t *request, const struct job_record *first, json_t *numbers, bool existing)
{
    return answer_with(request, "{s:I, s:s, s:s, s:s?, s:o, s:b}", "job", (json_int_t)first->id, "name", first->name,
                       "state", job_state_name(first->state), "group", first->group[0] != '\0' ? first->group : NULL,
                       "jobs", numbers, "existing", existing);
}

/* A submission under way: its job files are read in slices, in the turns of its user, then all of it is saved. It
 * ends with its client, unless it is saved by then. */
struct submit {
    struct pending pending; /* first member: pointers to both are equal */
    struct turn turn;
    struct turns *turns;
    json_t *request;
    struct job_record *record;           /* n */
    struct store_submission *submission; /* n; their texts are the request's, but for … */
    const char ***settings;              /* n */
    char *named;
    struct jobs_draft *draft;
    size_t n;
};

static void release(struct pending *pending)
{
    struct submit *submit = (struct submit *)pending;
    turns_leave(submit->turns, &submit->turn);
    if (submit->draft != NULL) {
        jobs_draft_close(submit->draft);
    }
    for (size_t i = 0; i < submit->n; i++) {
        free(submit->settings[i]);
    }
    free(submit->settings);
    free(submit->submission);
    free(submit->record);
    free(submit->named);
    json_decref(submit->request);
}

/* Save what has been read. *answer_out: where it is saved */
static enum status save(struct commands *commands, struct submit *submit, json_t **answer_out)
{
    int64_t existing = 0;
    enum status status = jobs_draft_save(submit->draft, &existing);
    if (status != STATUS_OK) {
        return status;
    }
    json_t *numbers = json_array();
    for (size_t i = 0; i < submit->n && existing == 0; i++) {
        add_number(numbers, submit->record[i].id);
    }
    if (existing != 0) {
        status = store_submitted(jobs_store(commands->jobs), submit->record->uid, submit->submission->submission_id,
                                 add_number, numbers);
    }
    const struct job_record *first = jobs_get(commands->jobs, existing != 0 ? existing : submit->record->id);
    if (status == STATUS_OK && first == NULL) {
        status = status_fail(STATUS_DATA, "job %lld was made by this submission, but its record cannot be read",
                             (long long)existing);
    }
    if (status != STATUS_OK) {
        json_decref(numbers);
        return status;
    }
    *answer_out = answer_of(submit->request, first, numbers, existing != 0);
    supervisor_schedule(commands->supervisor);
    return STATUS_OK;
}

/* One slice. *answer_out: NULL, it is not done yet */
static enum status step(struct commands *commands, struct submit *submit, json_t **answer_out)
{
    const struct slice slice = slice_begin(submit->turns->now_ns);
    bool is_read;
    *answer_out = NULL;
    enum status status = jobs_draft_read(submit->draft, &slice, &is_read);
    return status == STATUS_OK && is_read ? save(commands, submit, answer_out) : status;
}

static void take_turn(struct turn *turn)
{
    struct submit *submit = (struct submit *)((char *)turn - offsetof(struct submit, turn));
    struct connection *connection = submit->pending.connection;
    struct commands *commands = submit->pending.commands;
    json_t *answer;
    audit_begin(commands, connection, submit->request, REQUEST_submit);
    enum status status = step(commands, submit, &answer);
    if (status == STATUS_OK && answer == NULL) { /* nothing has changed yet */
        audit_leave(commands);
        turns_wait(submit->turns, turn);
        return;
    }
    status = audit_end(commands, connection_uid(connection), REQUEST_submit, status);
    connection_block(connection, false);
    connection_send(connection, status == STATUS_OK ? answer : answer_failure(submit->request, status));
    pending_end(&submit->pending);
}

/* With what its jobs have in common. */
static struct submit *submit_open(struct connection *connection, const json_t *request,
                                  const struct job_record *common)
{
    const char *submission_id = json_string_value(json_object_get(request, "submission_id"));
    const json_t *jobs = json_object_get(request, "jobs"), *set = json_object_get(request, "set");
    struct submit *submit = memory_alloc(1, sizeof *submit);
    submit->pending.release = release;
    submit->turn.take = take_turn;
    submit->turns = connection_turns(connection);
    submit->request = json_incref((json_t *)request);
    submit->n = jobs != NULL ? json_array_size(jobs) : 1;
    submit->record = memory_alloc(submit->n, sizeof *submit->record);
    submit->submission = memory_alloc(submit->n, sizeof *submit->submission);
    submit->settings = memory_alloc(submit->n, sizeof *submit->settings);
    submit->named = name_setting(request);
    for (size_t i = 0; i < submit->n; i++) {
        struct store_submission *one = &submit->submission[i];
        submit->record[i] = *common;
        *one = (struct store_submission){.submission_id = submission_id != NULL ? submission_id : "",
                                         .config = json_string_value(json_object_get(request, "config")),
                                         .file = json_string_value(json_object_get(request, "file")),
                                         .folder = json_string_value(json_object_get(request, "folder")),
                                         .output = ""};
        read_settings(set, json_array_get(jobs, i), submit->named, &submit->settings[i], &one->n_set);
        one->set = submit->settings[i];
    }
    return submit;
}

/* The first slice is a part of the request: most submissions are done with it. */
static enum status make_jobs(struct commands *commands, struct connection *connection, const json_t *request,
                             const struct job_record *common)
{
    struct submit *submit = submit_open(connection, request, common);
    json_t *answer = NULL;
    enum status status = jobs_draft_open(commands->jobs, submit->record, submit->submission, submit->n,
                                         &submit->draft);
    if (status == STATUS_OK) {
        status = step(commands, submit, &answer);
    }
    if (status == STATUS_OK && answer == NULL) {
        status = pending_begin(&submit->pending, commands, connection, request);
        if (status == STATUS_OK) {
            audit_leave(commands);
            connection_block(connection, true);
            turns_join(submit->turns, connection_uid(connection), &submit->turn);
            turns_wait(submit->turns, &submit->turn);
            return STATUS_OK;
        }
    }
    if (status == STATUS_OK) {
        connection_send(connection, answer);
    }
    release(&submit->pending);
    free(submit);
    return status;
}

enum status handle_submit(struct commands *commands, struct connection *connection, const json_t *request)
{
    const char *folder = json_string_value(json_object_get(request, "folder"));
    const char *submission_id = json_string_value(json_object_get(request, "submission_id"));
    const char *file = json_string_value(json_object_get(request, "file"));
    struct job_record record = {.uid = connection_uid(connection), .gid = connection_gid(connection)};
    if (folder[0] != '/' || strlen(folder) >= PATH_MAX) {
        return status_fail(STATUS_USAGE, "folder '%.100s' is not an absolute path", folder);
    }
    if (json_string_length(json_object_get(request, "config")) > JOB_FILE_MOST_BYTES) {
        return status_fail(STATUS_CONFIG, "the job file is longer than %d bytes", JOB_FILE_MOST_BYTES);
    }
    enum status status = commands_check_submitter(commands, connection);
    if (status != STATUS_OK || (status = check_user(connection)) != STATUS_OK ||
        (status = check_text("file", file, FILE_NAME_MOST)) != STATUS_OK ||
        (status = check_text("submission_id", submission_id, SUBMISSION_ID_MOST)) != STATUS_OK ||
        (status = check_jobs(request)) != STATUS_OK ||
        (status = read_record(commands, request, &record)) != STATUS_OK ||
        (status = check_priority(connection, request)) != STATUS_OK) {
        return status;
    }
    return make_jobs(commands, connection, request, &record);
}
