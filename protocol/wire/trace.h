/* A worker's trace, as it is sent to the coordinator: a list of steps, then events in the order in which they ended.
 * Both are sent as they are in memory (little-endian, as messages). Independent of programs and files.
 */
#ifndef PROTOCOL_TRACE_H
#define PROTOCOL_TRACE_H

#include <stdint.h>

#define TRACE_TEXT_BYTES 96
#define TRACE_STEPS_MOST (1 << 16)
#define TRACE_EVENTS_MOST (1 << 17)

enum trace_phase { TRACE_PHASE_TRAIN, TRACE_PHASE_EVALUATE, TRACE_PHASE_N };

enum trace_kind {
    TRACE_KIND_STEP,  /* a whole step of the list, what it waits for included */
    TRACE_KIND_PART,  /* within it: its work on one own part */
    TRACE_KIND_PACK,  /* a payload, or a piece of one, made for another part */
    TRACE_KIND_WAIT,  /* for payloads or sums of other workers; meanwhile they are served */
    TRACE_KIND_SPILL, /* for bytes of a spilled array */
    TRACE_KIND_N
};

struct trace_step {
    char text[TRACE_TEXT_BYTES]; /* step_print's, ended by a NUL */
    int32_t phase;               /* enum trace_phase */
    int32_t op;                  /* the program's; -1: none */
    int32_t number;              /* in its phase's list, from 0 */
    int32_t unused;              /* 0: events behind the steps are aligned */
};

struct trace_event {
    double begin_s, end_s; /* the worker's monotonic clock */
    int32_t step;          /* index of a trace_step */
    int32_t part;          /* -1: none */
    uint32_t epoch;
    uint32_t kind; /* enum trace_kind */
};

_Static_assert(sizeof(struct trace_step) == 112 && sizeof(struct trace_event) == 32,
               "no gaps: they travel as they lie");

#endif
