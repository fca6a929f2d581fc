/* Which arrays of a part each step of an epoch reads and writes: what has to be in memory while the step is at work.
 *
 * The one list that the plan sizes and the trainer brings in and holds, so that the two cannot disagree. Knows programs and
 * places in the arena; neither bytes in memory nor files.
 */
#ifndef WORKER_USES_H
#define WORKER_USES_H

#include "models/op.h"
#include "models/program.h"
#include "worker/plan/memory_plan.h"
#include "worker/spill/spill.h"

enum use_kind {
    USE_VALUE,  /* index: the value; 0: the features */
    USE_GRAD,   /* index: the value */
    USE_KEPT,   /* index: the op, k: which of its arrays; a global op's whole */
    USE_TEMP,   /* index: the op, k: the input whose fresh gradient it is */
    USE_ROOM,   /* index: the op, k: enum memory_room_use; index -1: of scores */
    USE_CSR,    /* structure of sparse features */
    USE_NODES,  /* dataset node ids */
    USE_LABELS, /* labels and splits */
    USE_BLOCKS, /* index: the direction, k: the level of the aggregate's output */
    USE_SENT    /* index: the direction; lists of the rows that others take */
};

struct use {
    enum use_kind kind;
    int index, k;
    enum spill_access access;
};

#define USES_MOST 40

struct uses {
    int n;
    struct use use[USES_MOST];
};

/* A dense or global op, forward or backward; `add`: whether backward adds to the gradient of in[k], NULL: not told. */
void uses_forward(const struct program *program, const struct memory_plan *plan, int op, struct uses *out);
void uses_backward(const struct program *program, const struct memory_plan *plan, int op, const bool *add, struct uses *out);

/* A global op's sums before it runs on each part; what is made of them. */
void uses_partial(const struct program *program, const struct memory_plan *plan, int op, bool backward, struct uses *out);
void uses_whole(int op, struct uses *out);

/* An aggregate's part while its blocks are walked; while payloads are made of its rows; a round's room, all the while. */
void uses_round(const struct program *program, const struct memory_plan *plan, int op, const struct aggregate_round *round,
                struct uses *out);
void uses_pack(const struct program *program, const struct memory_plan *plan, int op, const struct aggregate_round *round,
               struct uses *out);
void uses_room(int op, enum memory_room_use use, struct uses *out);

/* An aggregate's backward_begin; fresh gradients that join what is there. */
void uses_begin(const struct program *program, const struct memory_plan *plan, int op, struct uses *out);
void uses_join(const struct program *program, const struct memory_plan *plan, int op, struct uses *out);

/* The loss and scores, with or without the gradient. */
void uses_loss(const struct program *program, bool grad, struct uses *out);

#endif
