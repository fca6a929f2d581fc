#include "worker/trace/trace.h"

#include "protocol/base/clock.h"
#include "protocol/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(TRACE_TEXT_BYTES == STEP_TEXT_BYTES, "a step's text fits");

struct trace {
    struct trace_limits limits;
    struct trace_step *step; /* one piece: the steps, then the events */
    struct trace_event *event;
    int32_t n_step;
    int32_t first[TRACE_PHASE_N]; /* steps before the phase's */
    int64_t n_event, n_trained;   /* now; when training ended */
    int64_t n_left;               /* steps of this phase that have yet to end: they keep their places */
    int64_t n_dropped, n_dropped_trained;
    enum trace_phase phase;
    uint32_t epoch;
    int32_t now; /* the step that runs; -1: none */
};

int64_t trace_bytes(const struct trace_limits *limits)
{
    return limits->n_step * (int64_t)sizeof(struct trace_step) +
           limits->n_event * (int64_t)sizeof(struct trace_event);
}

static void steps_add(struct trace *t, const struct program *program, const struct step_list *list,
                      enum trace_phase phase)
{
    t->first[phase] = t->n_step;
    for (int s = 0; s < list->n_step && t->n_step < t->limits.n_step; s++) {
        struct trace_step *one = &t->step[t->n_step++];
        *one = (struct trace_step){.phase = (int32_t)phase, .op = list->step[s].op, .number = s};
        step_text(program, &list->step[s], one->text, sizeof one->text);
        size_t length = strlen(one->text);
        if (list->step[s].n_chain > 1) { /* its events are those of the whole chain */
            snprintf(one->text + length, sizeof one->text - length, "  + %d fused", list->step[s].n_chain - 1);
        }
    }
}

enum status trace_open(const struct program *program, const struct step_lists *steps,
                       const struct trace_limits *limits, struct trace **out)
{
    struct trace *t = memory_alloc(1, sizeof *t);
    *t = (struct trace){.limits = *limits, .now = -1};
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)trace_bytes(limits), 1, &t->step);
    if (status != STATUS_OK) {
        free(t);
        return status;
    }
    steps_add(t, program, &steps->phase[STEP_PHASE_TRAIN], TRACE_PHASE_TRAIN);
    steps_add(t, program, &steps->phase[STEP_PHASE_EVALUATE], TRACE_PHASE_EVALUATE);
    t->event = (struct trace_event *)(void *)(t->step + t->n_step);
    *out = t;
    return STATUS_OK;
}

void trace_close(struct trace *t)
{
    if (t != NULL) {
        memory_release(MEMORY_OTHER, t->step, (size_t)trace_bytes(&t->limits), 1);
        free(t);
    }
}

void trace_begin(struct trace *t, enum step_phase phase, uint32_t epoch)
{
    bool trains = phase == STEP_PHASE_TRAIN;
    t->phase = trains ? TRACE_PHASE_TRAIN : TRACE_PHASE_EVALUATE;
    t->epoch = epoch;
    t->n_event = trains ? 0 : t->n_trained;
    t->n_dropped = trains ? 0 : t->n_dropped_trained;
    t->n_left = trains ? t->n_step : t->n_step - t->first[TRACE_PHASE_EVALUATE];
}

double trace_step_begin(struct trace *t, int number)
{
    int32_t end = t->phase == TRACE_PHASE_TRAIN ? t->first[TRACE_PHASE_EVALUATE] : t->n_step;
    t->now = number < end - t->first[t->phase] ? t->first[t->phase] + number : -1;
    t->n_dropped += t->now < 0;
    return clock_s();
}

static void event_add(struct trace *t, enum trace_kind kind, double begin_s, int32_t part, int64_t n_reserved)
{
    if (t->now < 0 || t->n_event >= t->limits.n_event - n_reserved) {
        t->n_dropped += t->now >= 0;
        return;
    }
    t->event[t->n_event++] = (struct trace_event){.begin_s = begin_s,
                                                  .end_s = clock_s(),
                                                  .step = t->now,
                                                  .part = part,
                                                  .epoch = t->epoch,
                                                  .kind = (uint32_t)kind};
}

void trace_add(struct trace *t, enum trace_kind kind, double begin_s, int32_t part)
{
    event_add(t, kind, begin_s, part, t->n_left);
}

void trace_step_end(struct trace *t, double begin_s)
{
    event_add(t, TRACE_KIND_STEP, begin_s, -1, 0);
    t->n_left--;
    t->now = -1;
    if (t->phase == TRACE_PHASE_TRAIN) {
        t->n_trained = t->n_event;
        t->n_dropped_trained = t->n_dropped;
    }
}

const void *trace_content(const struct trace *t, int32_t *n_step_out, int64_t *n_event_out, size_t *n_bytes_out)
{
    *n_step_out = t->n_step;
    *n_event_out = t->n_event;
    *n_bytes_out = (size_t)t->n_step * sizeof *t->step + (size_t)t->n_event * sizeof *t->event;
    return t->step;
}

int64_t trace_n_dropped(const struct trace *t)
{
    return t->n_dropped;
}
