/* The epoch: walks the program forward, the loss, the program backward, the reduction, the step.
 *
 * The trainer owns the loop, the exchange owns the bytes, the op owns the arithmetic. Everything numerical is defined
 * by parts: op after op, part after part, block (i, j) in the order j = i, i+1, … (mod K); sums over parts along a
 * fixed tree over part numbers. Knows no files and no sockets.
 */
#ifndef WORKER_TRAINER_H
#define WORKER_TRAINER_H

#include "models/device/device.h"
#include "models/program/program.h"
#include "partition/part/part.h"
#include "protocol/job/job.h"
#include "protocol/wire/worker_state.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/traffic.h"
#include "worker/spill/spill.h"
#include "worker/trace/trace.h"

#include <stdint.h>

struct trainer;

struct trainer_setup {
    const struct job *job;         /* borrowed for the trainer's life, like all here */
    const struct program *program; /* NULL: of the job's model. Tests train programs of their own */
    const struct device_ops *ops;
    int n_thread; /* 0: all cores */
    uint32_t rank, n_rank;
    int32_t n_part;
    const uint32_t *rank_of_part;    /* n_part */
    const uint32_t *machine_of_rank; /* n_rank: equal where ranks share a machine; NULL: none do */
    /* n_part: open parts of this rank, NULL elsewhere. The trainer takes edges out of them (part_take_edges): a part
     * serves one trainer */
    struct part *const *parts;
    struct exchange *exchange;
    /* where the arena, and what parts are made into, goes; NULL: into memory. Parts may lie there */
    struct spill *spill;
};

struct trainer_report {
    double loss;      /* mean over the training rows, before the step; the same on every rank */
    double grad_norm; /* of its gradients, before they are clipped; 0 without train.clip_norm */
    /* p + 1: a weight of parameter p that this rank steps is not finite any more; p + 1 + the number of parameters:
     * its gradient is not. The greatest, since what is not finite spreads to parameters before it; 0: none */
    uint32_t not_finite;
    /* of the nodes in each split, after the step; zero where not evaluated */
    struct device_score score[DATASET_SPLIT_N];
    double epoch_s, compute_s, pack_s, wait_s; /* the three are epoch_s */
    double evaluate_s;                         /* of epoch_s, too */
    int64_t n_call;                            /* allocations made during the epoch: 0 */
    int64_t n_wait, n_fetched,
        n_sent;       /* of its training: waits for the device, payloads fetched, pieces of payloads sent */
    int64_t n_replay; /* of its training: 1: recordings were replayed */
    int64_t n_staged; /* of its training: bytes of payloads sent by way of host memory, from a device of its own */
};

/* Build the program, plan and take all memory, draw the weights, do the static ops (all ranks together).
 *
 *   owns    the caller owns *out: trainer_close
 *   errors  STATUS_NOMEM the plan exceeds memory.limit or the machine; STATUS_CONFIG, STATUS_DATA of program_build;
 *           STATUS_PEER of the exchange
 */
enum status trainer_open(const struct trainer_setup *setup, struct trainer **out);
void trainer_close(struct trainer *trainer);

/* One epoch, on all ranks together: with `train` forward, backward, step; with `evaluate` an exact evaluation after
 * it. Epochs count from 0. Where the loss is not finite, which all ranks find alike, no step is made and nothing is
 * evaluated.
 * errors  STATUS_PEER; device failures */
enum status trainer_epoch(struct trainer *trainer, uint32_t epoch, bool train, bool evaluate,
                          struct trainer_report *out);

/* What exchange.guard_every found in the last epoch; the same on every rank. */
struct trainer_guard {
    bool compared; /* false: that epoch was none of its, or lost nothing; the rest is then 0 */
    double loss;   /* of the approximate epoch, where the report has the exact one's */
    double error;  /* of the approximate gradient: ‖g̃ − g‖ / ‖g‖ */
    double cosine; /* between the two */
};
struct trainer_guard trainer_guard(const struct trainer *trainer);

/* How often the guard has found too large an error: each time, epochs from the next one on lose less
 * (models/program/level.h). */
int64_t trainer_n_back_off(const struct trainer *trainer);

const struct program *trainer_program(const struct trainer *trainer);

/* Bytes that this rank received. */
const struct traffic *trainer_traffic(const struct trainer *trainer);

/* How the last epoch ran; NULL without output.trace. */
const struct trace *trainer_trace(const struct trainer *trainer);

/* Bytes of a row of worker_state.def on this rank; `part` counts where the row's scope is PART. 0: this rank does not
 * have it. Traces and traffic: trainer_trace, trainer_traffic. */
int64_t trainer_state_bytes(struct trainer *trainer, enum worker_state what, int32_t part);

/* Copy a row of this rank to host memory / set it from there, between epochs. errors  STATUS_PEER a number that it
 * cannot have; STATUS_IO of the spill; of the device */
enum status trainer_get(struct trainer *trainer, enum worker_state what, int32_t part, void *to);
enum status trainer_set(struct trainer *trainer, enum worker_state what, int32_t part, const void *from);

/* BEST, EMBEDDINGS_BEST are WEIGHTS, EMBEDDINGS at the last call. */
void trainer_keep_best(struct trainer *trainer);

/* Bytes by place and category: what the plan says, and the most that was alive. */
void trainer_memory(const struct trainer *trainer, struct memory_table *planned_out,
                    struct memory_table *measured_out);
/* The libraries that its device uses. */
struct library_versions trainer_libraries(const struct trainer *trainer);

#endif
