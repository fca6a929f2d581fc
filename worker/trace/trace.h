/* A worker's steps as they ran: the last epoch that was trained, and the evaluation behind it.
 *
 * With output.trace, memory for a bounded number of events is taken once, as the plan says; an epoch begins by
 * forgetting the one before. Steps always have a place; of what happens within them, events without one are counted
 * and dropped. A trainer without a trace has a NULL here and pays one branch a step, a walk, a payload and a wait.
 */
#ifndef WORKER_TRACE_H
#define WORKER_TRACE_H

#include "models/steps/step.h"
#include "protocol/base/status.h"
#include "protocol/wire/trace.h"

#include <stdint.h>

struct trace;

/* Room for so many. */
struct trace_limits {
    int64_t n_step, n_event;
};

int64_t trace_bytes(const struct trace_limits *limits);

/* Take the memory and write down the steps of training and evaluation.
 *
 *   owns    the caller owns *out: trace_close (NULL is allowed)
 *   errors  STATUS_NOMEM
 */
enum status trace_open(const struct program *program, const struct step_lists *steps,
                       const struct trace_limits *limits, struct trace **out);
void trace_close(struct trace *trace);

/* A phase of an epoch begins: training forgets all events, an evaluation those of the evaluation before. */
void trace_begin(struct trace *trace, enum step_phase phase, uint32_t epoch);

/* The step of this number in the phase's list begins; returns the time. It ends. */
double trace_step_begin(struct trace *trace, int number);
void trace_step_end(struct trace *trace, double begin_s);

/* Something within the present step that began then and ends now; outside of steps nothing is written down. part -1:
 * none */
void trace_add(struct trace *trace, enum trace_kind kind, double begin_s, int32_t part);

/* What is there: steps, and events behind them, in one piece of *n_bytes_out bytes; lives as long as the trace. */
const void *trace_content(const struct trace *trace, int32_t *n_step_out, int64_t *n_event_out, size_t *n_bytes_out);

/* Events that were dropped: there was no place for them. */
int64_t trace_n_dropped(const struct trace *trace);

#endif
