/* Every byte a worker will take, from the program's liveness and the parts' sizes, before anything is taken.
 *
 * A pure function: --plan calls it for every rank from sizes alone, the trainer calls it for itself and then takes exactly
 * this. Each value, gradient and kept array is a row block over all own parts, placed in one arena so that two arrays share
 * memory only when their lives do not meet; payloads and scratch lie between them while their op runs.
 */
#ifndef WORKER_MEMORY_PLAN_H
#define WORKER_MEMORY_PLAN_H

#include "models/op.h"
#include "models/program.h"
#include "protocol/job/job.h"
#include "protocol/memory.h"
#include "worker/plan/travel.h"

#include <stdint.h>

/* Sizes of one own part. */
struct memory_plan_part {
    int64_t n_own;
    int64_t n_edge;                                            /* stored edges into the part */
    int64_t n_local_edge;                                      /* of those, from other parts of the same rank */
    int64_t n_feature_value;                                   /* stored feature values, in shared columns */
    int64_t n_embedded;                                        /* rows with a column of their own */
    int64_t n_bytes;                                           /* of the encoded part, features included */
    bool implied_loops;                                        /* own rows count as their own neighbours */
    bool weighted;                                             /* edges have weights of their own */
    int64_t n_own_level[PART_N_LEVEL_MOST];                    /* by level, of travel.n_level: own rows, … */
    int64_t n_edge_level[PART_DIRECTION_N][PART_N_LEVEL_MOST]; /* … edges into them, and from own rows to any part's */
    bool symmetric;
    struct travel_part travel;
};

/* Memory that one op needs only while it runs, in this order: scratch, payloads that come, payloads that go. */
struct memory_room {
    int64_t at; /* in the arena */
    int64_t n_scratch, n_fetch, n_pack;
};

enum memory_room_use { MEMORY_ROOM_FORWARD, MEMORY_ROOM_BACKWARD, MEMORY_ROOM_N };

/* How one round's payloads lie in their room. */
struct memory_round {
    int64_t n_row_bytes; /* of all pieces */
    int32_t n_fetch_slot, n_pack_slot;
    int64_t n_fetch_slot_bytes, n_pack_slot_bytes; /* 0: every payload has its own place (halo) */
    int64_t n_fetch_bytes, n_pack_bytes;           /* of all slots */
};

/* A payload goes out in pieces of at most this many bytes (of a row, where that is more), a few at a time: what is packed takes
 * little, whatever the payload. */
#define MEMORY_PACK_BYTES (1 << 20)
#define MEMORY_PACK_SLOTS 4

/* What backward does at one time. */
enum memory_step_kind {
    MEMORY_STEP_AGAIN, /* a dense op runs forward again: its output was not kept */
    MEMORY_STEP_BEGIN, /* an aggregate's backward_begin */
    MEMORY_STEP_OP     /* an op's backward; an aggregate's rounds */
};

struct memory_step {
    enum memory_step_kind kind;
    int op;
};

/* From this time of an epoch on, nobody reads these bytes of the arena before they are overwritten. */
struct memory_ending {
    int time; /* the last of liveness.h's times at which they are alive */
    int64_t at, n_bytes;
};

struct memory_plan_input {
    const struct job *job;
    const struct program *program;
    const struct device_ops *ops;
    int32_t n_part;               /* of the job */
    const uint32_t *rank_of_part; /* n_part */
    uint32_t rank, n_rank;
    bool sparse_features; /* as stored; the program may want them dense */
    int32_t n_own_part;
    const struct memory_plan_part *own; /* n_own_part, part numbers ascending */
};

/* Places in the activation arena, in bytes; -1: none. Array of part p begins at place + row_begin[p] · row bytes (sparse
 * values: + value_begin[p] · 4; gradients: by their value's level). */
struct memory_plan {
    int64_t bytes[MEMORY_N];

    int64_t n_row;          /* rows of all own parts, each rounded up to 16 */
    int64_t n_sparse_value; /* likewise for values of sparse features */
    int64_t n_embedding;    /* likewise for floats of embeddings */
    int64_t *row_begin;     /* n_own_part */
    int32_t n_level;        /* of the parts */
    int32_t n_own_part;
    int64_t n_row_level[PART_N_LEVEL_MOST]; /* n_level: as n_row, of rows that count at a level: those that gradients have */
    int64_t *row_begin_level;               /* n_level × n_own_part */
    int64_t *value_begin;                   /* n_own_part */
    int64_t *embedding_begin;               /* n_own_part: in floats */
    int64_t *value_at;                      /* n_value */
    int64_t *grad_at;                       /* n_value */
    int64_t (
        *kept_at)[AGGREGATE_N_KEPT]; /* n_op: what the op keeps from forward to backward; a global op's first is its whole */
    int64_t (*temp_at)[OP_N_IN];     /* n_op: a fresh gradient of an aggregate's input that has to be added */
    struct memory_room (*room)[MEMORY_ROOM_N]; /* n_op */
    struct memory_room score_room;
    int64_t n_arena_bytes;

    int n_step;
    struct memory_step *step; /* n_step: backward, from the loss on */

    int n_ending;
    struct memory_ending *ending; /* n_ending */

    /* memory.spill: the arena, payloads between own parts and the encoded parts lie in files, and of all that bytes[MEMORY_SPILL]
     * in memory. 0 without. */
    int64_t n_spill_bytes;
    int64_t n_spill_least;   /* what one step holds in memory, with what the next one reads ahead */
    int64_t n_spill_payload; /* room for a round's payloads, in the files */

    struct travel_list (*travel)[TRAVEL_N]; /* n_level + 1: by level, and all */
    int32_t n_fetch_slot;                   /* of the round that has most */
    int32_t n_pack_slot;

    int64_t n_wire_bytes;     /* payload bytes received per training epoch, forward and backward */
    int64_t n_wire_evaluate;  /* and per evaluation */
    int64_t n_gradient_bytes; /* one part's gradients with the sums behind them */
    int64_t n_global_bytes;   /* one part's sums of a global op, for the one that has most */
    int64_t n_reduced_bytes;  /* what climbs from one part per training epoch: gradients, global ops' sums both ways */
};

/* errors  none; sizes come from checked parts. Release with memory_plan_release.
 * notes   memory.recompute = auto: keeps everything where that fits memory_plan_budget; else drops what is cheap to make again until
 *         it fits, and if it never does is the smallest plan there is
 */
void memory_plan_build(const struct memory_plan_input *input, struct memory_plan *out);
void memory_plan_release(struct memory_plan *plan);

/* Bytes that one worker may take: memory.limit, or its share of this machine. */
int64_t memory_plan_budget(const struct job *job);

/* The spill's part of a plan that has all else: n_spill_* and bytes[MEMORY_SPILL], within memory_plan_budget where that is enough.
 * In memory_plan_spill.c. */
void memory_plan_spill(const struct memory_plan_input *input, struct memory_plan *plan);

/* Bytes of an own part's features as they are stored; as the program takes them, where these are others. */
int64_t memory_plan_features(const struct memory_plan_input *input, int32_t i);
int64_t memory_plan_expanded(const struct memory_plan_input *input, int32_t i);

/* Bytes of an own part's edges picked out for training (part_level.h), in all; for the level that has most. */
int64_t memory_plan_copies(const struct memory_plan_input *input, int32_t i, int64_t *most_out);

bool memory_plan_spills(const struct job *job);

/* Does backward run this op's forward again? */
bool memory_plan_again(const struct memory_plan *plan, int op);

/* Rows of all own parts, as they are laid out, in an array that has those of a level; rows before own part i's. */
int64_t memory_plan_rows(const struct memory_plan *plan, int32_t level);
int64_t memory_plan_row_begin(const struct memory_plan *plan, int32_t level, int32_t i);

/* Rows of an own part that count at a level. */
int64_t memory_plan_rows_own(const struct memory_plan_part *own, int32_t level);

/* Which payloads travel at a level of what travels; at a level that there is not, all. */
const struct travel_list *memory_plan_travel(const struct memory_plan *plan, enum travel travel, int32_t level);

/* How the payloads of one of this program's rounds lie in its room, when rows of this level travel. */
struct memory_round memory_plan_round(const struct memory_plan *plan, const struct job *job, const struct program *program,
                                      const struct op *op, const struct aggregate_round *round, int32_t level);

/* Bytes of everything. */
int64_t memory_plan_total(const struct memory_plan *plan);

/* Doubles behind each part's gradients: the loss, and the scores of four splits. */
#define MEMORY_PLAN_N_SUM (1 + 4 * 6)

#endif
