/* The rows of worker_state.def: numbers and facts. Sizes and places belong to the worker and the coordinator. */
#ifndef PROTOCOL_WORKER_STATE_H
#define PROTOCOL_WORKER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define STATE(number, name, scope, is_set, section, text) WORKER_STATE_##name = number,
enum worker_state {
#include "protocol/wire/worker_state.def"
    WORKER_STATE_END
};
#undef STATE

enum worker_state_scope {
    WORKER_STATE_SCOPE_JOB,
    WORKER_STATE_SCOPE_RANK_0,
    WORKER_STATE_SCOPE_PART,
    WORKER_STATE_SCOPE_RANK
};

#define WORKER_STATE_N_SECTION 5

struct worker_state_row {
    enum worker_state what; /* 0: no row has this number */
    enum worker_state_scope scope;
    bool is_set;
    int section;
    const char *text; /* "weights" */
};

/* WORKER_STATE_END rows, by number. */
extern const struct worker_state_row worker_state_rows[];

/* The row of a number that comes from outside; NULL: unknown. */
const struct worker_state_row *worker_state_row(uint32_t what);

#endif
