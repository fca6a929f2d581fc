/* A worker's trace: its size, its clock against this one, and its events, checked before use. */
#include "protocol/base/clock.h"
#include "trainerd/coordinator/fleet/fleet_state.h"

#include <math.h>
#include <string.h>

double fleet_clock_offset(double before_s, double after_s, double worker_s)
{
    bool same_clock = before_s <= worker_s && worker_s <= after_s;
    return same_clock ? 0.0 : 0.5 * (before_s + after_s) - worker_s;
}

/* Ask a worker for its trace's size and its clock. */
static enum status trace_ask(struct fleet *fleet, uint32_t rank, struct fleet_trace *out)
{
    struct fleet_worker *worker = &fleet->workers[rank];
    struct message_trace message = {.now_s = 0.0};
    double before_s = clock_s();
    enum status status = FLEET_ASK(fleet, rank, trace, &message);
    if (status != STATUS_OK) {
        return status;
    }
    double after_s = clock_s();
    status = message_decode_trace(worker->answer, worker->n_answer, &message);
    if (status == STATUS_OK &&
        (message.n_step > TRACE_STEPS_MOST || message.n_event > TRACE_EVENTS_MOST || !isfinite(message.now_s))) {
        status = status_fail(STATUS_PEER, "its trace has %u steps and %u events at %g s, expected at most %d and %d",
                             message.n_step, message.n_event, message.now_s, TRACE_STEPS_MOST, TRACE_EVENTS_MOST);
    }
    if (status != STATUS_OK) {
        return fleet_answer_bad(fleet, worker);
    }
    *out = (struct fleet_trace){.n_step = (int32_t)message.n_step,
                                .n_event = message.n_event,
                                .n_dropped = (int64_t)message.n_dropped,
                                .offset_s = fleet_clock_offset(before_s, after_s, message.now_s)};
    return STATUS_OK;
}

/* Does everything in it name what there is? */
static enum status trace_check(const struct fleet_trace *trace)
{
    for (int32_t s = 0; s < trace->n_step; s++) {
        const struct trace_step *step = &trace->step[s];
        if (memchr(step->text, '\0', sizeof step->text) == NULL || step->phase < 0 || step->phase >= TRACE_PHASE_N) {
            return status_fail(STATUS_PEER, "step %d of its trace has no text or no phase", (int)s);
        }
    }
    for (int64_t e = 0; e < trace->n_event; e++) {
        const struct trace_event *event = &trace->event[e];
        if (event->step < 0 || event->step >= trace->n_step || event->kind >= TRACE_KIND_N ||
            !isfinite(event->begin_s) || !isfinite(event->end_s)) {
            return status_fail(STATUS_PEER,
                               "event %lld of its trace is of step %d and kind %u, expected less than %d and %d",
                               (long long)e, (int)event->step, event->kind, (int)trace->n_step, TRACE_KIND_N);
        }
    }
    return STATUS_OK;
}

static size_t trace_bytes_of(const struct fleet_trace *trace)
{
    return (size_t)trace->n_step * sizeof *trace->step + (size_t)trace->n_event * sizeof *trace->event;
}

enum status fleet_trace(struct fleet *fleet, uint32_t rank, struct fleet_trace *out)
{
    fleet_begin(fleet, "while its trace was asked for");
    struct fleet_trace trace;
    enum status status = trace_ask(fleet, rank, &trace);
    if (status != STATUS_OK ||
        (status = memory_acquire(MEMORY_OTHER, trace_bytes_of(&trace), 1, &trace.content)) != STATUS_OK) {
        return status;
    }
    trace.step = trace.content;
    trace.event = (const struct trace_event *)(const void *)(trace.step + trace.n_step);
    status = fleet_get(fleet, WORKER_STATE_TRACE, (int32_t)rank, trace.content, trace_bytes_of(&trace));
    if (status == STATUS_OK && trace_check(&trace) != STATUS_OK) {
        status = fleet_answer_bad(fleet, &fleet->workers[rank]);
    }
    if (status != STATUS_OK) {
        fleet_trace_release(&trace);
        return status;
    }
    *out = trace;
    return STATUS_OK;
}

void fleet_trace_release(struct fleet_trace *trace)
{
    memory_release(MEMORY_OTHER, trace->content, trace_bytes_of(trace), 1);
    *trace = (struct fleet_trace){0};
}
