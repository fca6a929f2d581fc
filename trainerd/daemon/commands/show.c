/* A job in full (its record, submission, history, last epoch and result), and its processes. */
#include "protocol/base/memory.h"
#include "trainerd/daemon/commands/job_json.h"
#include "trainerd/daemon/commands/pending.h"
#include "trainerd/daemon/server/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESULT_BYTES_MOST (1u << 20)

struct show {
    struct pending pending; /* first member: pointers to both are equal */
    json_t *answer;
    int64_t job;
    uint64_t gpus; /* that it holds */
    char output[PATH_MAX];
    char *result; /* what was read of result.json */
    size_t n_result;
};

static void release(struct pending *pending)
{
    struct show *show = (struct show *)pending;
    json_decref(show->answer);
    free(show->result);
}

static bool add_change(void *context, const struct store_change *change)
{
    json_t *text = json_string(change->text); /* NULL where it is no text */
    json_array_append_new(context, json_pack("{s:f, s:s, s:s, s:o*, s:i}", "at", change->at, "state",
                                             job_state_name(change->state), "reason", job_reason_name(change->reason),
                                             "text", text, "attempt", (int)change->attempt));
    return true;
}

static void finish(struct show *show)
{
    connection_send(show->pending.connection, json_incref(show->answer));
    pending_end(&show->pending);
}

static void on_result(void *context, const struct job_file_piece *piece);

static void read_result(struct show *show)
{
    struct job_file_ask ask = {.offset = (int64_t)show->n_result, .n_tail = -1};
    const struct commands *commands = show->pending.commands;
    const struct job_record *record = jobs_get(commands->jobs, show->job);
    if (record == NULL) { /* it is kept no longer */
        json_object_set_new(show->answer, "result", json_null());
        finish(show);
        return;
    }
    job_output_name(commands, record, show->output, "result.json", &ask);
    pending_read(&show->pending, &ask, on_result);
}

/* A JSON value; null when the text has no value. */
static json_t *parse_value(const char *text, size_t n)
{
    json_t *value = n > 0 ? json_loadb(text, n, 0, NULL) : NULL;
    return value != NULL ? value : json_null();
}

static void on_result(void *context, const struct job_file_piece *piece)
{
    struct show *show = context;
    if (pending_is_gone(&show->pending)) {
        return;
    }
    if (piece->status == STATUS_OK && show->n_result + piece->n <= RESULT_BYTES_MOST) {
        show->result = memory_grow(show->result, show->n_result + piece->n);
        memcpy(show->result + show->n_result, piece->bytes, piece->n);
        show->n_result += piece->n;
        if (!piece->is_end) {
            read_result(show);
            return;
        }
    }
    json_object_set_new(show->answer, "result", parse_value(show->result, show->n_result));
    finish(show);
}

static void on_last_epoch(void *context, const struct job_file_piece *piece)
{
    struct show *show = context;
    if (pending_is_gone(&show->pending)) {
        return;
    }
    size_t n = piece->status == STATUS_OK ? piece->n : 0;
    json_object_set_new(show->answer, "last", parse_value(piece->bytes, n));
    read_result(show);
}

static enum status fill(struct commands *commands, const struct job_record *record, struct show *show)
{
    struct store_submission submission;
    char output[PATH_MAX];
    struct store *store = jobs_store(commands->jobs);
    enum status status = store_submission_get(store, record->id, &submission);
    if (status != STATUS_OK) {
        return status;
    }
    json_t *set = json_array(), *history = json_array();
    for (size_t i = 0; i < submission.n_set; i++) {
        json_array_append_new(set, json_string(submission.set[i]));
    }
    json_object_set_new(show->answer, "job", job_json(record, true));
    json_object_set_new(show->answer, "config", json_string(submission.config));
    json_object_set_new(show->answer, "set", set);
    json_object_set_new(show->answer, "folder", json_string(submission.folder));
    job_output_folder(commands, record, submission.output, output);
    json_t *name = json_string(output); /* NULL where a link's target is no text */
    json_object_set_new(show->answer, "output", name != NULL ? name : json_string(submission.output));
    json_object_set_new(show->answer, "history", history);
    snprintf(show->output, sizeof show->output, "%s", submission.output);
    store_submission_release(&submission);
    return store_history(store, record->id, add_change, history);
}

enum status handle_show(struct commands *commands, struct connection *connection, const json_t *request)
{
    const struct job_record *record;
    enum status status = pending_find_job(commands, connection, request, &record);
    if (status != STATUS_OK) {
        return status;
    }
    struct show *show = memory_alloc(1, sizeof *show);
    show->answer = answer_new(request);
    show->job = record->id;
    show->pending.release = release;
    status = fill(commands, record, show);
    if (status != STATUS_OK || (status = pending_begin(&show->pending, commands, connection, request)) != STATUS_OK) {
        release(&show->pending);
        free(show);
        return status;
    }
    struct job_file_ask ask = {.n_tail = 1};
    job_output_name(commands, record, show->output, "metrics.jsonl", &ask);
    pending_read(&show->pending, &ask, on_last_epoch);
    return STATUS_OK;
}

/* Workers are those of the present attempt, or none. */
static void on_workers(void *context, const struct job_file_piece *piece)
{
    struct show *show = context;
    if (pending_is_gone(&show->pending)) {
        return;
    }
    json_t *event = parse_value(piece->bytes, piece->status == STATUS_OK ? piece->n : 0);
    json_t *workers = json_object_get(event, "workers");
    json_int_t attempt = json_integer_value(json_object_get(event, "attempt"));
    bool runs = json_integer_value(json_object_get(show->answer, "coordinator")) != 0 && json_is_array(workers) &&
                attempt == json_integer_value(json_object_get(show->answer, "attempt"));
    json_t *host = runs ? json_object_get(event, "host") : NULL;
    json_object_set_new(show->answer, "host", host != NULL ? json_incref(host) : json_null());
    json_object_set_new(show->answer, "workers", runs ? json_incref(workers) : json_array());
    show_gpu_set(jobs_gpus(show->pending.commands->jobs), show->gpus, show->answer);
    json_decref(event);
    finish(show);
}

enum status handle_workers(struct commands *commands, struct connection *connection, const json_t *request)
{
    const struct job_record *record;
    enum status status = pending_find_job(commands, connection, request, &record);
    if (status != STATUS_OK) {
        return status;
    }
    struct show *show = memory_alloc(1, sizeof *show);
    show->answer = answer_new(request);
    show->gpus = record->gpus;
    json_object_set_new(show->answer, "coordinator", json_integer(record->run.pid));
    json_object_set_new(show->answer, "attempt", json_integer(record->attempt));
    show->pending.release = release;
    status = pending_begin(&show->pending, commands, connection, request);
    if (status != STATUS_OK) {
        release(&show->pending);
        free(show);
        return status;
    }
    struct job_file_ask ask = {.n_tail = -1, .match = "\"event\":\"workers\""};
    job_own_name(commands, record, "events.jsonl", &ask);
    pending_read(&show->pending, &ask, on_workers);
    return STATUS_OK;
}
