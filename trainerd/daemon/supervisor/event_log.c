#include "trainerd/daemon/supervisor/event_log.h"

#include "protocol/base/memory.h"
#include "protocol/base/printable.h"
#include "protocol/files/file.h"
#include "protocol/job/job.h"
#include "trainerd/base/fields.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAIL_BYTES 2048

/* --- one line --- */

static bool read_state(const json_t *line, struct event *out)
{
    return job_state_find(field_text(line, "state"), &out->state) && !job_state_ended(out->state) &&
           out->state >= JOB_STATE_PREPARING;
}

static bool read_epoch(const json_t *line, struct event *out)
{
    out->progress = (struct job_progress){.epoch = field_integer(line, "epoch"),
                                          .n_epoch = field_integer(line, "epochs")};
#define FIGURE(field, name, form) out->progress.field = field_number(line, #field);
#include "trainerd/base/epoch_figures.def"
    enum job_metric metric;
    if (job_metric_find(field_text(line, "metric"), &metric)) {
        snprintf(out->progress.metric, sizeof out->progress.metric, "%s", job_choice_text("train", "metric", metric));
    }
    return out->progress.epoch >= 0 && out->progress.n_epoch >= out->progress.epoch;
}

static bool read_checkpoint(const json_t *line, struct event *out)
{
    out->epoch = field_integer(line, "epoch");
    return out->epoch >= 0;
}

static bool read_end(const json_t *line, struct event *out)
{
    const json_t *code = json_object_get(line, "exit_code");
    if (!json_is_integer(code) || json_integer_value(code) < 0 || json_integer_value(code) > 255) {
        return false;
    }
    out->status = status_from_exit_code((int)json_integer_value(code));
    out->restartable = json_is_true(json_object_get(line, "restartable"));
    printable_copy(field_text(line, "reason"), out->reason, sizeof out->reason);
    return true;
}

static bool read_line(const char *text, size_t n, int32_t attempt, struct event *out)
{
    static const struct {
        const char *name;
        enum event_kind kind;
        bool (*read)(const json_t *line, struct event *out); /* what else is of the kind; NULL: nothing */
    } kinds[] = {{"begin", EVENT_KIND_BEGIN, NULL},
                 {"state", EVENT_KIND_STATE, read_state},
                 {"epoch", EVENT_KIND_EPOCH, read_epoch},
                 {"checkpoint", EVENT_KIND_CHECKPOINT, read_checkpoint},
                 {"end", EVENT_KIND_END, read_end}};
    json_t *line = json_loadb(text, n, 0, NULL);
    bool known = false;
    if (json_is_object(line) && field_integer(line, "attempt") == attempt) {
        const char *name = field_text(line, "event");
        memset(out, 0, sizeof *out);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !known; i++) {
            out->kind = kinds[i].kind;
            known = strcmp(name, kinds[i].name) == 0 && (kinds[i].read == NULL || kinds[i].read(line, out));
        }
    }
    json_decref(line);
    return known;
}

/* --- the file --- */

static enum status open_plain(const char *path, int *out, int64_t *n_out)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) {
        return status_fail(errno == ENOENT  ? STATUS_NO_INPUT
                           : errno == ELOOP ? STATUS_DATA
                                            : STATUS_IO,
                           "cannot open '%s': %s", path, strerror(errno));
    }
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(file);
        return status_fail(STATUS_DATA, "'%s' is not a regular file; expected a coordinator's events", path);
    }
    *out = file;
    *n_out = about.st_size;
    return STATUS_OK;
}

/* What no coordinator writes, in what was read from there on; NULL: nothing. */
static const char *fault_of(const char *text, size_t n, int64_t n_file, int64_t at)
{
    if (n_file < at) {
        return "is shorter than what was read of it before";
    }
    if (memchr(text, '\0', n) != NULL) {
        return "has zero bytes";
    }
    return n > EVENT_LINE_MOST_BYTES && memchr(text, '\n', n) == NULL ? "has a line of more than 65536 bytes" : NULL;
}

enum status event_log_read(const char *path, int32_t attempt, int64_t *offset_io, bool *more_out,
                           void (*each)(void *context, const struct event *event), void *context)
{
    int file;
    int64_t n_file;
    *more_out = false;
    enum status status = open_plain(path, &file, &n_file);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t n_new = n_file > *offset_io ? n_file - *offset_io : 0;
    size_t n_read = n_new < EVENT_READ_MOST_BYTES ? (size_t)n_new : EVENT_READ_MOST_BYTES;
    char *text = memory_alloc(n_read + 1, 1);
    ssize_t n = file_read_at(file, text, n_read, *offset_io);
    if (n < 0) {
        status = status_fail(STATUS_IO, "cannot read '%s': %s", path, strerror(errno));
    }
    close(file);
    size_t at = 0, end = n < 0 ? 0 : (size_t)n;
    const char *fault = fault_of(text, end, n_file, *offset_io);
    if (status == STATUS_OK && fault != NULL) {
        free(text);
        return status_fail(STATUS_DATA,
                           "'%s' %s, from byte %lld on; expected lines of JSON that its coordinator adds", path,
                           fault, (long long)*offset_io);
    }
    bool is_over = false;
    const char *newline;
    while (!is_over && (newline = memchr(text + at, '\n', end - at)) != NULL) {
        size_t n_line = (size_t)(newline - text) - at;
        struct event event;
        if (read_line(text + at, n_line, attempt, &event)) {
            each(context, &event);
            is_over = event.kind == EVENT_KIND_END;
        }
        at += is_over ? 0 : n_line + 1;
    }
    *more_out = !is_over && end == EVENT_READ_MOST_BYTES;
    *offset_io += (int64_t)at;
    free(text);
    return status;
}

int64_t event_log_bytes(const char *path)
{
    int file;
    int64_t n_file;
    if (open_plain(path, &file, &n_file) != STATUS_OK) {
        return -1;
    }
    close(file);
    return n_file;
}

static bool begins(const char *line, size_t n, const char *before)
{
    return n >= strlen(before) && memcmp(line, before, strlen(before)) == 0;
}

void event_log_last_line(const char *text, size_t n, char *out, size_t capacity)
{
    static const char before[] = "trainerd: ";
    const char *line = text;
    size_t n_line = 0;
    do { /* over lines that show a place in a text, below the message about it */
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' ')) {
            n--;
        }
        const char *newline = n == 0 ? NULL : memrchr(text, '\n', n);
        line = newline == NULL ? text : newline + 1;
        n_line = n - (size_t)(line - text);
        n = (size_t)(line - text);
    } while (n > 0 && begins(line, n_line, "trainerd:     "));
    if (begins(line, n_line, before)) {
        line += strlen(before);
        n_line -= strlen(before);
    }
    char whole[TAIL_BYTES + 1];
    n_line = n_line < TAIL_BYTES ? n_line : TAIL_BYTES;
    memcpy(whole, line, n_line);
    whole[n_line] = '\0';
    printable_copy(whole, out, capacity);
}

void event_log_last_line_in(const char *path, char *out, size_t capacity)
{
    char tail[TAIL_BYTES];
    int file = -1;
    int64_t n_file = 0;
    out[0] = '\0';
    if (open_plain(path, &file, &n_file) != STATUS_OK) {
        return;
    }
    ssize_t n = file_read_at(file, tail, sizeof tail, n_file > TAIL_BYTES ? n_file - TAIL_BYTES : 0);
    close(file);
    event_log_last_line(tail, n > 0 ? (size_t)n : 0, out, capacity);
}
