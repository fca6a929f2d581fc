#include "trainerd/coordinator/folder/events.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "trainerd/base/restart.h"
#include "trainerd/coordinator/folder/progress.h"
#include "trainerd/coordinator/folder/report.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EPOCH_PERIOD_S 0.1
#define END_LINE_BYTES 256
#define TS_DIGITS 10

struct events {
    char folder[PATH_MAX];
    struct job_files *files;
    int file; /* that of the events */
    uint32_t attempt;
    json_t *pending;               /* the newest epoch, not written yet */
    double epoch_shown_s;          /* when the last one was written */
    char end_line[END_LINE_BYTES]; /* a whole line, its "ts" to be filled in */
    size_t n_end_line;
};

/* For the signal handler. */
static struct events *open_events;

static const char end_format[] =
    "{\"ts\":0000000000,\"attempt\":%u,\"event\":\"end\",\"exit_code\":%d,\"status\":\"%s\","
    "\"reason\":\"interrupted before training began: nothing to save\",\"restartable\":true}\n";

/* To the millisecond. */
static double wall_s(void)
{
    return floor(clock_wall_s() * 1e3) / 1e3;
}

/* Write a whole line or none: a line that a full disk cut short is truncated away. */
static void text_write(struct events *events, const char *text, size_t n)
{
    off_t before = lseek(events->file, 0, SEEK_END);
    int error = file_write(events->file, text, n);
    if (error != 0) {
        bool is_taken_back = before >= 0 && ftruncate(events->file, before) == 0;
        log_warn("cannot write '%s/events.jsonl': %s%s", events->folder, strerror(error),
                 is_taken_back ? "" : "; its last line is broken");
    }
}

/* End the line that a killed attempt may have left incomplete. */
static void line_close(struct events *events)
{
    struct stat about;
    char last = '\n';
    if (fstat(events->file, &about) == 0 && about.st_size > 0 &&
        pread(events->file, &last, 1, about.st_size - 1) == 1 && last != '\n') {
        text_write(events, "\n", 1);
    }
}

/* Begin a line with this event's name, for line_end; NULL, which jansson's setters accept, without a supervisor. */
static json_t *line_begin(const struct events *events, const char *name)
{
    return events == NULL
               ? NULL
               : json_pack("{s:f, s:I, s:s}", "ts", wall_s(), "attempt", (json_int_t)events->attempt, "event", name);
}

static void line_put(struct events *events, json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT);
    ASSERT(text != NULL);
    size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL */
    text_write(events, text, n + 1);
    free(text);
    json_decref(line);
}

static void line_end(struct events *events, json_t *line)
{
    if (events == NULL) {
        return;
    }
    if (events->pending != NULL) {
        line_put(events, events->pending);
        events->pending = NULL;
    }
    line_put(events, line);
}

/* Write an event with the fields that json_pack makes of the format. */
static void event(struct events *events, const char *name, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    json_t *fields = json_vpack_ex(NULL, 0, format, values), *line = line_begin(events, name);
    va_end(values);
    json_object_update(line, fields);
    json_decref(fields);
    line_end(events, line);
}

/* Unlike flock's, this lock is not shared with child processes, some of which end a little later. */
static enum status lock_take(const struct events *events, bool waits)
{
    const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    bool is_free = fcntl(events->file, F_SETLK, &whole) == 0;
    bool is_held = !is_free && (errno == EACCES || errno == EAGAIN);
    if (is_held && waits) {
        log_warn("'%s/events.jsonl' is held: it is waited until another attempt of this job has ended",
                 events->folder);
        while (!(is_free = fcntl(events->file, F_SETLKW, &whole) == 0) && errno == EINTR) {
        }
        is_held = false;
    }
    if (is_held) {
        return status_fail(STATUS_PEER, "'%s/events.jsonl' is held: another attempt of this job runs",
                           events->folder);
    }
    return is_free ? STATUS_OK
                   : status_fail(STATUS_CREATE, "cannot lock '%s/events.jsonl': %s", events->folder, strerror(errno));
}

enum status events_open(const char *folder, uint32_t attempt, struct job_files *files, bool waits,
                        struct events **out)
{
    struct events *events = memory_alloc(1, sizeof *events);
    *events = (struct events){.files = files, .attempt = attempt};
    snprintf(events->folder, sizeof events->folder, "%s", folder);
    enum status status = files->n == 0 ? job_files_open(folder, 0, files) : STATUS_OK;
    if (status == STATUS_OK) {
        events->file = files->file[JOB_FILE_EVENTS];
        status = lock_take(events, waits);
    }
    if (status != STATUS_OK) {
        events_close(events);
        return status;
    }
    line_close(events);
    int n = snprintf(events->end_line, sizeof events->end_line, end_format, (unsigned)attempt,
                     status_exit_code(STATUS_INTERRUPTED), status_name(STATUS_INTERRUPTED));
    ASSERT(n > 0 && n < END_LINE_BYTES);
    events->n_end_line = (size_t)n;
    open_events = events;
    event(events, "begin", "{s:i}", "pid", (int)getpid());
    *out = events;
    return STATUS_OK;
}

void events_close(struct events *events)
{
    if (events == NULL) {
        return;
    }
    open_events = open_events == events ? NULL : open_events;
    job_files_close(events->files);
    json_decref(events->pending);
    free(events);
}

void events_state(struct events *events, const char *state)
{
    event(events, "state", "{s:s}", "state", state);
}

void events_plan(struct events *events, int64_t memory, int32_t n_worker)
{
    event(events, "plan", "{s:I, s:i}", "memory", (json_int_t)memory, "workers", (int)n_worker);
}

void events_workers(struct events *events, const struct events_worker *workers, int32_t n_worker)
{
    json_t *all = json_array();
    char own[HOST_NAME_MAX + 1] = "";
    gethostname(own, sizeof own - 1);
    for (int32_t rank = 0; rank < n_worker; rank++) {
        const char *host = workers[rank].host == NULL ? own : workers[rank].host;
        json_array_append_new(all, json_pack("{s:i, s:I, s:o*}", "rank", (int)rank, "pid",
                                             (json_int_t)workers[rank].pid, "host", json_string(host)));
    }
    event(events, "workers", "{s:o*, s:o}", "host", json_string(own), "workers", all);
}

/* Where the file has a limit, epochs leave most of it to what follows them: after its first quarter lines come half
 * as often with each further sixteenth that they fill. */
static double epoch_period_s(const struct events *events)
{
    struct stat about;
    int64_t most = events->files->most_bytes;
    if (most < 16 || fstat(events->file, &about) != 0 || about.st_size < most / 4) {
        return EPOCH_PERIOD_S;
    }
    return ldexp(EPOCH_PERIOD_S, 1 + (int)((about.st_size - most / 4) / (most / 16)));
}

void events_epoch(struct events *events, const struct progress *progress, enum job_metric metric, double now_s)
{
    if (events == NULL) {
        return;
    }
    const struct progress_epoch *epoch = &progress->last;
    json_t *line = line_begin(events, "epoch");
    json_object_set_new(line, "epoch", json_integer(epoch->n_done));
    json_object_set_new(line, "epochs", json_integer(progress->n_epoch));
    json_object_set_new(line, "metric", json_string(job_choice_text("train", "metric", metric)));
    json_object_set_new(line, "pack_s", number_json(epoch->pack_s));
#define REAL(value) number_json(value)
#define WHOLE(value) json_integer((json_int_t)(value))
#define FIGURE(field, name, form) json_object_set_new(line, #field, form(epoch->field));
#include "trainerd/base/epoch_figures.def"
#undef REAL
#undef WHOLE
    json_decref(events->pending);
    events->pending = line;
    if (events->epoch_shown_s == 0.0 || now_s - events->epoch_shown_s >= epoch_period_s(events)) {
        events->pending = NULL;
        line_put(events, line);
        events->epoch_shown_s = now_s;
    }
}

void events_checkpoint(struct events *events, int64_t n_epoch, const char *output)
{
    event(events, "checkpoint", "{s:I, s:o*}", "epoch", (json_int_t)n_epoch, "path",
          json_sprintf("%s/checkpoint/epoch-%lld.ckpt", output, (long long)n_epoch));
}

void events_rollback(struct events *events, int64_t n_epoch, int64_t n_rollback, const char *reason)
{
    event(events, "rollback", "{s:I, s:I, s:o*}", "epoch", (json_int_t)n_epoch, "rollbacks", (json_int_t)n_rollback,
          "reason", json_string(reason));
}

void events_back_off(struct events *events, const struct events_back_off *what)
{
    event(events, "back_off", "{s:I, s:I, s:o, s:o, s:o, s:s, s:s, s:i}", "epoch", (json_int_t)what->epoch,
          "back_offs", (json_int_t)what->n_back_off, "error", number_json(what->error), "limit",
          number_json(what->limit), "sampling", number_json(what->sampling), "codec", what->codec, "codec_backward",
          what->codec_backward, "stale", (int)what->stale);
}

void events_end(struct events *events, enum status status)
{
    if (events == NULL) {
        return;
    }
    event(events, "end", "{s:i, s:s, s:o*, s:b}", "exit_code", status_exit_code(status), "status",
          status_name(status), "reason", json_string(status == STATUS_OK ? status_text(status) : status_reason()),
          "restartable", (int)restart_is_possible(status));
    fsync(events->file);
}

void events_end_open(enum status status)
{
    events_end(open_events, status);
}

void events_end_at_once(void)
{
    if (open_events == NULL) {
        return;
    }
    char *digit = strchr(open_events->end_line, '0') + TS_DIGITS;
    time_t now = time(NULL);
    for (int i = 0; i < TS_DIGITS; i++, now /= 10) {
        *--digit = (char)('0' + now % 10);
    }
    ssize_t n = write(open_events->file, open_events->end_line, open_events->n_end_line);
    (void)n; /* the process exits all the same */
    fsync(open_events->file);
}

enum status events_rank_log(const struct events *events, uint32_t rank, int *out, int *made_out)
{
    char path[PATH_MAX];
    *out = STDERR_FILENO;
    *made_out = -1;
    if (events == NULL) {
        return STATUS_OK;
    }
    if (!events->files->by_name) {
        int at = rank < JOB_FILES_RANK_MOST ? JOB_FILE_RANK_0 + (int)rank : JOB_FILES_MOST;
        *out = at < events->files->n ? events->files->file[at] : STDERR_FILENO;
        return STATUS_OK;
    }
    if (snprintf(path, sizeof path, "%s/rank-%u.log", events->folder, rank) >= PATH_MAX) {
        return status_fail(STATUS_CREATE, "job folder '%s': its name is too long for this system", events->folder);
    }
    *out = *made_out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return *out >= 0 ? STATUS_OK : status_fail(STATUS_CREATE, "cannot open '%s': %s", path, strerror(errno));
}
