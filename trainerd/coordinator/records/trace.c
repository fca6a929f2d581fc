#include "trainerd/coordinator/records/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* Parts lie within their steps, on the same track. */
static const struct {
    const char *name;
    int track;
    const char *track_name;
} kinds[TRACE_KIND_N] = {[TRACE_KIND_STEP] = {"step", 1, "compute"},
                         [TRACE_KIND_PART] = {"part", 1, "compute"},
                         [TRACE_KIND_PACK] = {"pack", 2, "pack"},
                         [TRACE_KIND_WAIT] = {"wait", 3, "wait"},
                         [TRACE_KIND_SPILL] = {"spill", 4, "spill"}};

static const char *const phases[TRACE_PHASE_N] = {[TRACE_PHASE_TRAIN] = "train", [TRACE_PHASE_EVALUATE] = "evaluate"};

struct writer {
    FILE *file;
    double start_s;
    bool any; /* event is written */
    int64_t n_dropped;
};

/* Takes the event; NULL: a text of it is no UTF-8. */
static void event_write(struct writer *w, json_t *event)
{
    if (event == NULL) {
        w->n_dropped++;
        return;
    }
    fputs(w->any ? ",\n" : "\n", w->file);
    json_dumpf(event, w->file, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(event);
    w->any = true;
}

static void name_write(struct writer *w, const char *what, uint32_t rank, int track, const char *name)
{
    event_write(w, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", what, "ph", "M", "pid", (int)rank, "tid", track,
                             "args", "name", name));
}

static void names_write(struct writer *w, struct fleet *fleet, uint32_t rank)
{
    char name[128];
    uint32_t pid;
    const char *host;
    fleet_member(fleet, rank, &pid, &host);
    snprintf(name, sizeof name, "worker %u%s%s", rank, host != NULL ? " on " : "", host != NULL ? host : "");
    name_write(w, "process_name", rank, 0, name);
    for (int kind = 0; kind < TRACE_KIND_N; kind++) {
        if (kind == 0 || kinds[kind].track != kinds[kind - 1].track) {
            name_write(w, "thread_name", rank, kinds[kind].track, kinds[kind].track_name);
        }
    }
}

/* Microseconds to the nanosecond. */
static double micros(double seconds)
{
    return round(1e9 * seconds) / 1e3;
}

static void worker_write(struct writer *w, const struct fleet_trace *trace, uint32_t rank)
{
    double shift_s = trace->offset_s - w->start_s;
    for (int64_t e = 0; e < trace->n_event; e++) {
        const struct trace_event *event = &trace->event[e];
        const struct trace_step *step = &trace->step[event->step];
        json_t *args = json_pack("{s:s, s:i, s:i, s:I}", "phase", phases[step->phase], "step", (int)step->number,
                                 "op", (int)step->op, "epoch", (json_int_t)event->epoch);
        if (event->part >= 0) {
            json_object_set_new(args, "part", json_integer(event->part));
        }
        event_write(w, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "name", step->text, "cat",
                                 kinds[event->kind].name, "ph", "X", "pid", (int)rank, "tid",
                                 kinds[event->kind].track, "ts", micros(event->begin_s + shift_s), "dur",
                                 micros(event->end_s - event->begin_s), "args", args));
    }
}

static enum status workers_write(struct writer *w, struct fleet *fleet, uint32_t n_worker)
{
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", w->file);
    for (uint32_t rank = 0; rank < n_worker; rank++) {
        struct fleet_trace trace;
        enum status status = fleet_trace(fleet, rank, &trace);
        if (status != STATUS_OK) {
            return status;
        }
        names_write(w, fleet, rank);
        worker_write(w, &trace, rank);
        w->n_dropped += trace.n_dropped;
        fleet_trace_release(&trace);
    }
    fprintf(w->file, "\n],\"otherData\":{\"dropped_events\":%lld,\"start_s\":%.9f}}\n", (long long)w->n_dropped,
            w->start_s);
    return STATUS_OK;
}

enum status trace_save(struct fleet *fleet, uint32_t n_worker, double start_s, const struct dir *dir,
                       const char *name)
{
    struct dir_aside aside;
    enum status status = dir_aside_begin(dir, name, 0, &aside);
    if (status != STATUS_OK) {
        return status;
    }
    int again = fcntl(aside.file, F_DUPFD_CLOEXEC, 0); /* fclose closes it */
    struct writer w = {.file = again >= 0 ? fdopen(again, "w") : NULL, .start_s = start_s};
    int error = w.file == NULL ? errno : 0;
    status = error == 0 ? workers_write(&w, fleet, n_worker) : STATUS_OK;
    if (w.file != NULL) {
        bool complete = fflush(w.file) == 0 && !ferror(w.file);
        error = complete ? 0 : errno != 0 ? errno : EIO;
        error = fclose(w.file) != 0 && error == 0 ? errno : error;
    } else if (again >= 0) {
        close(again);
    }
    if (status != STATUS_OK) {
        dir_aside_drop(dir, &aside);
        return status;
    }
    return dir_aside_end(dir, name, &aside, error, NULL);
}
