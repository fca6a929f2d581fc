/* A trainer's state, for the files of run/, halo/ and state/pin alone. */
#ifndef WORKER_TRAINER_STATE_H
#define WORKER_TRAINER_STATE_H

#include "worker/plan/memory_plan.h"
#include "worker/rows/own_parts.h"
#include "worker/state/payloads.h"
#include "worker/state/peers.h"
#include "worker/state/trainer.h"

/* Parameters, what steps them, and their sums over parts. */
struct trainer_parameters {
    float *weights; /* program.n_weight each */
    float *best;    /* rank 0 only */
    float *moment_1, *moment_2;
    float *compared;            /* exchange.guard_every: the approximate gradient; else NULL */
    struct trainer_embeddings { /* of own parts: plan.rows.n_embedding floats each */
        float *weights, *gradients, *best, *moment_1, *moment_2, *compared;
    } embeddings;
    char *gradients; /* n_own × plan.reduced.n_gradient_bytes: floats, then MEMORY_PLAN_N_SUM doubles */
    char *branch;    /* one more, from another rank */
    /* n_own × plan.reduced.n_global_bytes: sums of the global op at work; one more for another rank's branch */
    char *globals;
    device_mark *complete; /* n_part: for reduce.c */
};

/* Memory that steps share. */
struct trainer_memory {
    char *arena; /* plan.arena.n_bytes: values, gradients, what is saved, workspaces with payloads */
    struct trainer_shared *shared;
    struct device_now *now;  /* this epoch's (device) */
    char *staging;           /* plan.n_staging_bytes: staging.h; NULL: there is none */
    char *homes;             /* plan.homes.n_bytes: homes.h; NULL: there is none */
    device_mark *home_moved; /* plan.homes.n: when an array has come to where it is on its way to */
};

/* The epoch and the phase at work. */
struct trainer_run {
    uint32_t epoch;
    struct level level;        /* what this epoch's payloads lose */
    struct level level_before; /* exchange.stale: what those lost that the epoch before kept */
    int64_t n_back_off;        /* of the guard, so far */
    struct trainer_guard guard;
    double rate;           /* factor of the schedule's learning rate */
    bool training;         /* dropout on */
    bool tentative;        /* an epoch's gradients are made, and no step */
    enum step_phase phase; /* at work */
    bool polls;            /* an operation is at work, which lets messages move */
    double polled_s;
};

/* What the training loss is a mean over. */
struct trainer_loss {
    int64_t n_split[DATASET_SPLIT_N]; /* of the whole graph */
    double weight;
    float *class_weights; /* n_class; NULL: 1 each */
    int32_t n_class;
};

/* Pairs of nodes that the loss is over (worker/run/links.h); empty for other programs. */
struct trainer_links {
    struct pairs_draw draw;
    int n_given;            /* times that other ranks take own parts' rows */
    char *block;            /* plan.links.n_block_bytes */
    int64_t *between;       /* n_own × n_part: own part's ends of pairs whose other ends are in part q */
    int64_t *n_before;      /* n_own: scores of own parts before */
    bool sending;           /* pairs leave */
    struct link_slot *slot; /* plan.links.n_slot */
};

/* How rows travel; each NULL where none travel so. */
struct trainer_routes {
    struct halo *halo;
    struct sample *sample;     /* exchange.sampling: this epoch's */
    struct stale *stale;       /* exchange.stale: payloads of the epoch before */
    struct feedback *feedback; /* exchange.error_feedback: what rounding lost */
    struct dedup *dedup;       /* rows that several own parts take from a part of another rank, or covers */
    struct stored *stored;     /* passes that read stored inputs */
    struct merged *merged;     /* own parts' blocks, where they are one */
    struct payloads *payloads; /* between own parts, when there is a spill */
    struct peers *peers;       /* other ranks' memory, which is reached */
};

struct trainer_records {
    struct traffic *traffic;     /* bytes received */
    struct trace *trace;         /* output.trace; NULL: none */
    struct recording *recording; /* STEP_PHASE_N */
};

/* owns: everything but what setup borrows */
struct trainer {
    struct trainer_setup setup;
    struct device *device;
    const struct device_ops *ops;
    struct program program;
    struct memory_plan plan;
    struct own_parts own;
    bool descends; /* which way the next walk over own parts goes, when there is a spill */

    struct trainer_parameters parameters;
    struct trainer_memory memory;
    struct trainer_run run;
    struct trainer_loss loss;
    struct trainer_links links;
    struct trainer_routes routes;
    struct trainer_records records;
};

/* Where an operand of a step lies, of own part i; NULL: the plan has no place for it. */
void *trainer_operand(const struct trainer *t, const struct step_operand *operand, int32_t i);

/* A value's rows of own part i. */
const float *trainer_value(const struct trainer *t, int value, int32_t i);

/* One op on own part i, with the step's operands in their roles. */
struct op_call trainer_call(const struct trainer *t, const struct step *step, int32_t i);

/* Rows of own part i that there are up to a hop now: in training those that count, else all. */
int64_t trainer_rows(const struct trainer *t, int32_t hop, int32_t i);

/* The first n_row rows of this gradient are there: the others before row `end` become 0. */
void trainer_grad_end(const struct trainer *t, const struct step_operand *grad, int64_t n_row, int64_t end,
                      int32_t i);

/* Gradients and sums of own part i. */
float *trainer_gradients(const struct trainer *t, int32_t i);
double *trainer_sums(const struct trainer *t, int32_t i);

/* A global op's sums of own part i (n_own: another rank's branch). */
double *trainer_global(const struct trainer *t, int32_t i);

/* What own part number `part` has in exchange.stale's buffers and exchange.error_feedback's residuals: floats, 0
 * without; copied out, set. In halo/stale.c. errors  of the device */
int64_t trainer_n_buffers(const struct trainer *t, int32_t part);
enum status trainer_get_buffers(struct trainer *t, int32_t part, float *to);
enum status trainer_set_buffers(struct trainer *t, int32_t part, const float *from);

/* Mean loss over the training rows, of the last training phase. */
double trainer_loss(const struct trainer *t);

/* The epoch's number in keys of payloads: a tentative run of it has keys of its own. */
uint32_t trainer_key_epoch(const struct trainer *t);

/* Run the steps of a phase, all ranks together. A tentative one makes no step. */
enum status trainer_run(struct trainer *t, enum step_phase phase);

#endif
