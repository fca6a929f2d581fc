/* Streams of a job's files: log, events, metrics. A piece of the file is read once the client has read the piece
 * before, so that a slow client takes no memory. At the end of the file, the follower polls until the job has ended.
 */
#include "protocol/base/memory.h"
#include "protocol/base/printable.h"
#include "trainerd/daemon/commands/job_json.h"
#include "trainerd/daemon/commands/pending.h"
#include "trainerd/daemon/server/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNREAD_MOST 65536u /* with more unread bytes, nothing new is sent to a client */

enum follower_kind { FOLLOWER_KIND_LOG, FOLLOWER_KIND_EVENTS, FOLLOWER_KIND_METRICS };

/* What a watcher was sent last. */
struct reported {
    enum job_state state;
    enum job_reason reason;
    int32_t attempt;
    char text[JOB_REASON_BYTES];
};

struct follower {
    struct pending pending; /* first member: pointers to both are equal */
    enum follower_kind kind;
    struct job_file_ask ask;
    char output[PATH_MAX]; /* metrics: the job's output folder */
    bool is_following;
    bool had_ended; /* the job, before the present read began: this read sees the end of the file */
    struct reported reported;
};

static void on_piece(void *context, const struct job_file_piece *piece);

static const struct job_record *job_of(const struct follower *follower)
{
    return jobs_get(follower->pending.commands->jobs, follower->pending.job);
}

static void send_job(struct follower *follower)
{
    const struct job_record *record = job_of(follower);
    if (record == NULL) { /* it cannot be read, which the log says */
        return;
    }
    struct reported now = {.state = record->state, .reason = record->reason, .attempt = record->attempt};
    snprintf(now.text, sizeof now.text, "%s", record->reason_text);
    follower->reported = now;
    json_t *event = answer_event(follower->pending.id, "job");
    json_object_set_new(event, "job", job_json(record, true));
    connection_send(follower->pending.connection, event);
}

static bool is_new(const struct follower *follower, const struct job_record *record)
{
    const struct reported *reported = &follower->reported;
    return reported->state != record->state || reported->reason != record->reason ||
           reported->attempt != record->attempt || strcmp(reported->text, record->reason_text) != 0;
}

/* Its job is kept no longer; the client may have read for a long time. */
static void end_removed(struct follower *follower)
{
    if (!follower->pending.is_reading) {
        if (follower->pending.connection != NULL) {
            connection_send(follower->pending.connection, answer_end(follower->pending.id));
        }
        pending_end(&follower->pending);
    }
}

/* Read on, unless the client has many bytes unread. */
static void proceed(struct pending *pending)
{
    struct follower *follower = (struct follower *)pending;
    const struct job_record *record = job_of(follower);
    if (record == NULL) {
        end_removed(follower);
        return;
    }
    if (pending->is_reading || pending->connection == NULL || connection_unread(pending->connection) > UNREAD_MOST) {
        return;
    }
    follower->had_ended = job_state_ended(record->state);
    if (follower->kind == FOLLOWER_KIND_EVENTS && !follower->had_ended && is_new(follower, record)) {
        send_job(follower);
    }
    if (follower->kind == FOLLOWER_KIND_METRICS) {
        job_output_name(pending->commands, record, follower->output, "metrics.jsonl", &follower->ask);
    }
    pending_read(pending, &follower->ask, on_piece);
}

/* The event of the job's end is sent last, after all events of the file. */
static void job_changed(struct pending *pending, const struct job_record *record)
{
    struct follower *follower = (struct follower *)pending;
    if (record->id == pending->job && (job_state_ended(record->state) || is_new(follower, record))) {
        proceed(pending);
    }
}

/* Bytes as a JSON text: invalid UTF-8 becomes U+FFFD. */
static json_t *clean_text(const char *bytes, size_t n)
{
    char *text = memory_alloc(3 * n + 1, 1);
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)bytes[i];
        size_t n_char = c > 0 ? printable_character(bytes + i) : 0;
        memcpy(text + at, n_char > 0 ? bytes + i : "\xef\xbf\xbd", n_char > 0 ? n_char : 3);
        at += n_char > 0 ? n_char : 3;
        i += n_char > 0 ? n_char : 1;
    }
    json_t *value = json_stringn(text, at);
    free(text);
    return value;
}

/* Bytes up to the end of the last whole line, or all when the piece is full and has no newline. */
static size_t whole_lines(const struct job_file_piece *piece, bool is_last)
{
    const char *end = memrchr(piece->bytes, '\n', piece->n);
    if (is_last || (end == NULL && piece->n == JOB_FILE_PIECE_BYTES)) {
        return piece->n;
    }
    return end == NULL ? 0 : (size_t)(end + 1 - piece->bytes);
}

static void send_text(struct follower *follower, const char *bytes, size_t n)
{
    if (n > 0) {
        json_t *event = answer_event(follower->pending.id, "log");
        json_object_set_new(event, "text", clean_text(bytes, n));
        connection_send(follower->pending.connection, event);
    }
}

/* Skip a line that is not an event: the file is its owner's. */
static bool send_line(struct follower *follower, const char *line, size_t n)
{
    json_t *event = json_loadb(line, n, 0, NULL), *id = follower->pending.id;
    if (!json_is_object(event)) {
        json_decref(event);
        return true;
    }
    if (follower->kind == FOLLOWER_KIND_METRICS) {
        json_object_set_new(event, "event", json_string("epoch"));
    } else if (!json_is_string(json_object_get(event, "event"))) {
        json_decref(event);
        return true;
    }
    json_object_del(event, "ok");
    json_object_set_new(event, "id", id != NULL ? json_incref(id) : json_null());
    return connection_send(follower->pending.connection, event);
}

static void send_lines(struct follower *follower, const char *bytes, size_t n)
{
    const char *end;
    while ((end = memchr(bytes, '\n', n)) != NULL) {
        size_t n_line = (size_t)(end - bytes);
        if (!send_line(follower, bytes, n_line)) {
            return;
        }
        bytes += n_line + 1;
        n -= n_line + 1;
    }
}

static void finish(struct follower *follower)
{
    if (follower->kind == FOLLOWER_KIND_EVENTS) {
        send_job(follower);
    }
    connection_send(follower->pending.connection, answer_end(follower->pending.id));
    pending_end(&follower->pending);
}

static void fail(struct follower *follower, const struct job_file_piece *piece)
{
    json_t *answer = answer_end(follower->pending.id);
    json_object_set_new(answer, "ok", json_false());
    json_object_set_new(answer, "exit_code", json_integer(status_exit_code(piece->status)));
    json_object_set_new(answer, "error", json_string(piece->reason));
    connection_send(follower->pending.connection, answer);
    pending_end(&follower->pending);
}

static void on_piece(void *context, const struct job_file_piece *piece)
{
    struct follower *follower = context;
    if (pending_is_gone(&follower->pending)) {
        return;
    }
    if (job_of(follower) == NULL) {
        end_removed(follower);
        return;
    }
    bool exists = piece->status != STATUS_NO_INPUT; /* a job that has not begun has no files */
    if (exists && piece->status != STATUS_OK) {
        fail(follower, piece);
        return;
    }
    bool is_over = !follower->is_following || follower->had_ended || connection_ended(follower->pending.connection);
    bool is_last = piece->is_end && is_over;
    size_t n = exists ? whole_lines(piece, is_last) : 0;
    follower->ask.n_tail = -1; /* everything after this piece is new */
    follower->ask.offset = exists ? piece->offset + (int64_t)n : 0;
    if (follower->kind == FOLLOWER_KIND_LOG) {
        send_text(follower, piece->bytes, n);
    } else {
        send_lines(follower, piece->bytes, n);
    }
    if (is_last) {
        finish(follower);
    } else if (!piece->is_end) {
        proceed(&follower->pending);
    }
}

/* The fields tail and follow of all streams. */
static enum status read_fields(const json_t *request, struct follower *follower)
{
    const json_t *tail = json_object_get(request, "tail");
    bool has_events = follower->kind == FOLLOWER_KIND_EVENTS;
    follower->ask.n_tail = tail != NULL ? json_integer_value(tail) : has_events ? 0 : -1;
    follower->is_following = has_events || json_is_true(json_object_get(request, "follow"));
    if (tail != NULL && follower->ask.n_tail < 0) {
        return status_fail(STATUS_USAGE, "tail is %lld, expected 0 or more lines", (long long)follower->ask.n_tail);
    }
    return STATUS_OK;
}

/* Begin the stream of a file in the job's own folder (`name`), or in its output folder (`output`). */
static enum status begin(struct commands *commands, struct connection *connection, const json_t *request,
                         const struct job_record *record, enum follower_kind kind, const char *name,
                         const char *output)
{
    struct follower *follower = memory_alloc(1, sizeof *follower);
    *follower = (struct follower){.pending = {.job = record->id, .proceed = proceed, .job_changed = job_changed},
                                  .kind = kind};
    snprintf(follower->output, sizeof follower->output, "%s", output);
    if (name[0] != '\0') {
        job_own_name(commands, record, name, &follower->ask);
    }
    enum status status = read_fields(request, follower);
    if (status == STATUS_OK) {
        status = pending_begin(&follower->pending, commands, connection, request);
    }
    if (status != STATUS_OK) {
        free(follower);
        return status;
    }
    if (kind == FOLLOWER_KIND_EVENTS) {
        follower->ask.n_tail = record->attempt == 0 ? -1 : follower->ask.n_tail; /* all that there will be is new */
        send_job(follower);
    }
    proceed(&follower->pending);
    return STATUS_OK;
}

enum status handle_logs(struct commands *commands, struct connection *connection, const json_t *request)
{
    const json_t *rank = json_object_get(request, "rank");
    const struct job_record *record;
    char name[32] = "log";
    enum status status = pending_find_job(commands, connection, request, &record);
    if (status != STATUS_OK) {
        return status;
    }
    if (rank != NULL && (json_integer_value(rank) < 0 || json_integer_value(rank) > 65535)) {
        return status_fail(STATUS_USAGE, "rank is %lld, expected 0 to 65535", (long long)json_integer_value(rank));
    }
    if (rank != NULL) {
        snprintf(name, sizeof name, "rank-%d.log", (int)json_integer_value(rank));
    }
    return begin(commands, connection, request, record, FOLLOWER_KIND_LOG, name, "");
}

enum status handle_watch(struct commands *commands, struct connection *connection, const json_t *request)
{
    const struct job_record *record;
    enum status status = pending_find_job(commands, connection, request, &record);
    if (status != STATUS_OK) {
        return status;
    }
    return begin(commands, connection, request, record, FOLLOWER_KIND_EVENTS, "events.jsonl", "");
}

enum status handle_metrics(struct commands *commands, struct connection *connection, const json_t *request)
{
    const struct job_record *record;
    struct store_submission submission;
    enum status status = pending_find_job(commands, connection, request, &record);
    if (status != STATUS_OK ||
        (status = store_submission_get(jobs_store(commands->jobs), record->id, &submission)) != STATUS_OK) {
        return status;
    }
    status = begin(commands, connection, request, record, FOLLOWER_KIND_METRICS, "", submission.output);
    store_submission_release(&submission);
    return status;
}
