/* What a job will take, before it takes it: memory per worker and category, bytes on the wire, arithmetic.
 *
 * Read by --plan, by the check against what there is before any worker is started, and nobody else. Knows sizes, no
 * data.
 */
#ifndef TRAINERD_PLAN_H
#define TRAINERD_PLAN_H

#include "models/program/level.h"
#include "models/program/program.h"
#include "models/steps/step.h"
#include "partition/part/part.h"
#include "partition/part/part_dedup.h"
#include "partition/part/partition.h"
#include "protocol/base/memory.h"
#include "protocol/base/status.h"
#include "protocol/job/job.h"
#include "trainerd/coordinator/plan/prune.h"
#include "trainerd/coordinator/plan/step_work.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Keys of `exchange` that say which exact bytes travel, and change no result but by rounding: each on and off, in all
 * combinations, and exchange.plain, which switches them off and more. To add one: its name. */
#define PLAN_SWITCH_LIST(X) X(cover) X(store_inputs)

#define PLAN_SWITCH_ONE(key) +1
enum { PLAN_N_SWITCH = 0 PLAN_SWITCH_LIST(PLAN_SWITCH_ONE), PLAN_N_EXACT = (1 << PLAN_N_SWITCH) + 1 };

/* An exact exchange, and the bytes that all workers would receive with it. */
struct plan_exact {
    bool plain;
#define X(key) bool key;
    PLAN_SWITCH_LIST(X)
#undef X
    bool is_in_use, is_cheapest;
    int64_t n_wire, n_wire_evaluate; /* per epoch, and per evaluation on top */
};

/* The fewest workers whose plan is within memory.limit; where the job's own number is too few, one more. */
struct plan_fewest {
    int32_t n_worker;
    int64_t n_byte_below; /* that the worker with most would need on fewer; 0: fewer are not possible */
};

struct plan_input {
    const struct job *job;
    const struct dataset *dataset; /* sizes only */
    bool sparse_features;
    int32_t n_part;
    const struct partition_quality *quality;
    int64_t partition_bytes;        /* that loading and cutting the graph took on the coordinator's machine */
    const struct part_sizes *sizes; /* n_part */
    const struct program *program;
    const struct prune *prune;
    const int32_t *rank_of_part;      /* n_part */
    const struct part_dedup *dedup;   /* where memory_plan_dedups; else NULL */
    bool steps;                       /* print the steps, too */
    const struct roofline *roofline;  /* and their least times on this device; NULL: not */
    const char *passes;               /* of a vertex program, as text, to be printed; NULL: not */
    const struct plan_exact *exact;   /* PLAN_N_EXACT, to be printed; NULL: none */
    const struct plan_fewest *fewest; /* to be printed; NULL: it is not known */
};

/* One step of a worker's plan: of the static phase, the training epoch, or a prediction's evaluation. */
struct plan_step {
    char text[STEP_TEXT_BYTES]; /* step_print's */
    bool is_static;             /* before epoch 0 */
    bool evaluates;             /* of the evaluation that a prediction is */
    bool is_fused;              /* with the step before it, into one chain */
    int op;                     /* the program's; -1: none */
    int64_t n_row;              /* of all the worker's parts: rows that the step writes; 0: it is over no rows */
    int64_t n_alive;            /* bytes of the arena that hold something at this step, its workspace included */
    int64_t n_workspace;        /* bytes of its workspace: scratch, payloads received and sent */
    int64_t n_received; /* bytes of payloads that come from other workers, in the codec in which rows are longest */
    struct step_work work;
};

struct plan_worker {
    int32_t n_part;
    int64_t n_node, n_edge;
    int64_t bytes[MEMORY_N],
        total; /* at the peak, where operations' arrays lie: on the host, or on a device with memory of its own */
    int64_t host[MEMORY_N],
        pinned[MEMORY_N]; /* with such a device, of the host's memory: what the device does not reach; what it does */
    int64_t n_spill, n_spill_least;  /* memory.spill: bytes in files; of them the least that have to be in memory */
    int n_home;                      /* memory.offload: arrays in host memory between forward and backward; … */
    int64_t n_home_bytes;            /* … their bytes */
    int64_t n_wire, n_wire_evaluate; /* bytes received: per (mean) epoch, and per evaluation on top */
    int64_t n_wire_guard;            /* and per comparison of gradients */
    /* n_wire and n_wire_evaluate by layer and sender: protocol/wire/traffic.h's table, n_worker columns */
    int64_t *traffic;
    bool *again;            /* n_op: backward runs it again rather than finding its output kept */
    int n_step, peak;       /* how many; which one has most bytes alive, the first of several */
    struct plan_step *step; /* n_step */
    int64_t n_arena;        /* bytes of the arena that the steps share */
};

/* Epochs with the same codecs. */
struct plan_stage {
    struct level_stage of;
    int64_t n_wire; /* received in one of them, by all workers */
};

struct plan {
    int32_t n_worker;
    int32_t n_machine; /* 1: workers of the local launcher share this one; else each is taken to have its own */
    bool apart;        /* the device has memory of its own; what opening it takes (MEMORY_CONTEXT) is an estimate */
    /* Memory of this process alone when it plans, with the graph loaded: its maximum beside workers. */
    int64_t coordinator;
    struct plan_worker *worker;
    int n_layer;                     /* program_n_layer */
    int64_t n_wire, n_wire_evaluate; /* of all workers; of the mean epoch */
    int64_t n_wire_guard; /* what comparing gradients adds to an epoch, at most; 0 without exchange.guard_every */
    int n_stage;
    struct plan_stage stage[LEVEL_STAGES_MOST]; /* n_stage, one after another */
    double left_out;                            /* share of an epoch's work that train.prune saves */
    double n_flop;                              /* of all workers per epoch, recomputed steps included: step_work's */
};

/* owns  the caller owns *out: plan_release. errors  STATUS_CONFIG no such device */
enum status plan_build(const struct plan_input *input, struct plan *out);
void plan_release(struct plan *plan);

/* Bytes of this machine's memory that the job's processes take together: coordinator, the workers that the local
 * launcher starts, and what each process takes besides its plan (MEMORY_PROCESS_FLOOR). */
int64_t plan_machine_bytes(const struct plan *plan, const struct job *job);

/* Bytes of the worker that has most of what memory.limit limits. */
int64_t plan_limited_most(const struct plan *plan);

/* The largest worker against memory.limit, and all processes against this machine, when workers are started on it. Of
 * a device with memory of its own workers know how much there is, and what opening it takes: these two are for them
 * to compare.
 *
 *   errors  STATUS_NOMEM what exceeds what, with both numbers
 */
enum status plan_check_limit(const struct plan *plan, const struct job *job);

/* For people; as one JSON object on one line. errors  STATUS_IO */
enum status plan_print(const struct plan_input *input, const struct plan *plan, FILE *file);
enum status plan_print_json(const struct plan_input *input, const struct plan *plan, FILE *file);

#endif
