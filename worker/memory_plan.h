/* Every byte a worker will take, from the program's liveness and the parts' sizes, before anything is taken.
 *
 * A pure function: --plan calls it for every rank from sizes alone, the trainer calls it for itself and then takes exactly
 * this. Each value, gradient and kept array is a row block over all own parts, placed in one arena so that two arrays share
 * memory only when their lives do not meet.
 */
#ifndef WORKER_MEMORY_PLAN_H
#define WORKER_MEMORY_PLAN_H

#include "models/op.h"
#include "models/program.h"
#include "protocol/job.h"
#include "protocol/memory.h"
#include "worker/travel.h"

#include <stdint.h>

/* Sizes of one own part. */
struct memory_plan_part {
    int64_t n_own;
    int64_t n_edge;          /* stored edges into the part */
    int64_t n_local_edge;    /* of those, from other parts of the same rank */
    int64_t n_feature_value; /* stored feature values */
    int64_t n_bytes;         /* of the encoded part, features included */
    bool symmetric;
    struct travel_part travel;
};

struct memory_plan_input {
    const struct job *job;
    const struct program *program;
    const struct device_ops *ops;
    int32_t n_part;                     /* of the job */
    const uint32_t *rank_of_part;       /* n_part */
    uint32_t rank, n_rank;
    bool sparse_features;               /* as stored; the program may want them dense */
    int32_t n_own_part;
    const struct memory_plan_part *own; /* n_own_part, part numbers ascending */
};

/* Places in the activation arena, in bytes; -1: none. Array of part p begins at place + row_begin[p] · row bytes (sparse
 * values: + value_begin[p] · 4). */
struct memory_plan {
    int64_t bytes[MEMORY_N];

    int64_t n_row;           /* rows of all own parts, each rounded up to 16 */
    int64_t n_sparse_value;  /* likewise for stored feature values */
    int64_t *row_begin;      /* n_own_part */
    int64_t *value_begin;    /* n_own_part */
    int64_t *value_at;       /* n_value */
    int64_t *grad_at;        /* n_value */
    int64_t (*kept_at)[AGGREGATE_N_KEPT]; /* n_op: what the op keeps from forward to backward; a global op's first is its whole */
    int64_t (*temp_at)[OP_N_IN];          /* n_op: a fresh gradient of an aggregate's input that has to be added */
    int64_t n_arena_bytes;
    int64_t n_scratch_bytes;

    struct travel_list travel[TRAVEL_N];
    int32_t n_fetch_slot;    /* payloads in flight towards this rank, per round */
    int64_t n_fetch_bytes;   /* of all slots */
    int32_t n_pack_slot;
    int64_t n_pack_bytes;
    int64_t n_fetch_slot_bytes, n_pack_slot_bytes; /* of one slot; 0 when every payload has its own place (halo) */

    int64_t n_wire_bytes;    /* payload bytes received per training epoch, forward and backward */
    int64_t n_wire_evaluate; /* and per evaluation */
    int64_t n_gradient_bytes;/* one part's gradients with the sums behind them */
    int64_t n_global_bytes;  /* one part's sums of a global op, for the one that has most */
    int64_t n_reduced_bytes; /* what climbs from one part per training epoch: gradients, global ops' sums both ways */
};

/* errors  none; sizes come from checked parts. Release with memory_plan_release. */
void memory_plan_build(const struct memory_plan_input *input, struct memory_plan *out);
void memory_plan_release(struct memory_plan *plan);

/* Bytes of everything. */
int64_t memory_plan_total(const struct memory_plan *plan);

/* Doubles behind each part's gradients: the loss, and the scores of four splits. */
#define MEMORY_PLAN_N_SUM (1 + 4 * 6)

#endif
