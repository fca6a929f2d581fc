/* An epoch as lists of steps, each with its operands: the one description that everything else interprets.
 *
 * A program is lowered once, into one list per phase. A step is one op (or one of its passes) over all own parts; an
 * operand says which array it touches, in which role and how. Liveness, the memory plan, the spill's pins, `--plan
 * --steps` and the trainer read these lists and nothing else of an op. A list depends only on the program: it is the
 * same on every worker, and its length does not depend on the number of parts. Independent of memory and devices.
 */
#ifndef MODELS_STEP_H
#define MODELS_STEP_H

#include "models/program/op.h"
#include "models/program/program.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum step_phase {
    STEP_PHASE_STATIC,   /* before epoch 0: ops whose only inputs are the features */
    STEP_PHASE_TRAIN,    /* forward, loss, backward, reduction, update */
    STEP_PHASE_EVALUATE, /* forward without dropout, scores, their reduction */
    STEP_PHASE_N
};

enum step_kind {
    STEP_KIND_FORWARD, /* a dense or global op on each part */
    STEP_KIND_PARTIAL, /* a global op's sums over each part's rows, before its forward or backward */
    /* all parts' sums reduced, and the op's global statistics made of them (no sums in evaluation) */
    STEP_KIND_TOTAL,
    STEP_KIND_HALO,     /* a halo pass of an aggregate: each part's blocks, with other parts' rows as payloads */
    STEP_KIND_BEGIN,    /* an aggregate's backward_begin: only own rows */
    STEP_KIND_JOIN,     /* fresh gradients of an aggregate's inputs are added to those that were there */
    STEP_KIND_BACKWARD, /* a dense or global op's adjoint on each part */
    STEP_KIND_LOSS,     /* the loss and the gradient of the logits */
    STEP_KIND_SCORE,    /* loss and scores of every split, without gradient */
    STEP_KIND_REDUCE,   /* sums over parts: gradients and the loss, or scores */
    STEP_KIND_UPDATE,   /* the optimiser */
    STEP_KIND_STORE,    /* an array begins to leave the device for host memory, beside what follows … */
    STEP_KIND_STORED,   /* … and has left: its memory is free */
    STEP_KIND_FETCH,    /* it begins to come back, beside what follows … */
    STEP_KIND_FETCHED,  /* … and is there */
    STEP_KIND_N
};

enum step_array {
    /* In the arena: rows of each own part. */
    STEP_ARRAY_VALUE, /* index: the value; 0: the features, which lie with the part */
    STEP_ARRAY_GRAD,  /* index: the value; its rows are those of the value's hop */
    STEP_ARRAY_SAVED, /* index: the op, k: which of its arrays */
    STEP_ARRAY_FRESH, /* index: the op, k: the input whose fresh gradient it is, until STEP_KIND_JOIN */
    /* In the arena: one for all parts. */
    STEP_ARRAY_STATISTICS, /* index: a global op; doubles */
    STEP_ARRAY_WORKSPACE,  /* index: the op, -1: the loss; k: enum step_workspace */
    /* Elsewhere. */
    STEP_ARRAY_PARAMETER,      /* index: the parameter */
    STEP_ARRAY_GRAD_PARAMETER, /* likewise: each part's own gradient */
    STEP_ARRAY_EMBEDDING,      /* index: the parameter; of each part's own rows */
    STEP_ARRAY_GRAD_EMBEDDING,
    STEP_ARRAY_SUM,     /* index: a global op, -1: loss and scores; doubles, each part's */
    STEP_ARRAY_CSR,     /* structure of sparse features */
    STEP_ARRAY_NODE,    /* dataset node ids of own rows */
    STEP_ARRAY_LABELS,  /* labels (or rows of labels) and splits of own rows */
    STEP_ARRAY_SCALE,   /* an aggregate's scales of own rows and payload rows */
    STEP_ARRAY_BLOCKS,  /* index: the part_direction; hop: of the rows that the blocks lead to */
    STEP_ARRAY_SENDING, /* index: the part_direction; lists of the rows that other parts take */
    STEP_ARRAY_N
};

enum step_workspace {
    STEP_WORKSPACE_FORWARD, /* scratch; of halo passes also payloads */
    STEP_WORKSPACE_BACKWARD,
    /* windows, and chunks' gradients, of the fused chain (models/steps/chain.h) that begins with this op */
    STEP_WORKSPACE_CHAIN,
    STEP_WORKSPACE_N
};

enum step_access {
    STEP_ACCESS_READ,
    STEP_ACCESS_WRITE, /* overwritten before it is read */
    STEP_ACCESS_UPDATE /* read and changed */
};

/* An operand of FLOAT32 may be stored as BF16: step_operand_is_bf16. BF16: it is, by a rewrite (epilogue_round). */
enum step_element { STEP_ELEMENT_FLOAT32, STEP_ELEMENT_FLOAT64, STEP_ELEMENT_BYTES, STEP_ELEMENT_BF16 };

struct step_operand {
    enum step_array array;
    enum step_element element;
    enum op_role role;
    enum step_access access;
    int index, k;
    int32_t hop;  /* rows of the array: up to so many hops from a training node (program.h) */
    bool packing; /* HALO: read while payloads are packed */
    bool running; /* read or written while the step runs on a part; of HALO: on its blocks */
};

#define STEP_N_OPERAND 64
#define STEP_N_EPILOGUE 3

struct step {
    enum step_kind kind;
    int op;                                    /* -1: none */
    bool backward;                             /* of the op's adjoint */
    bool recomputed;                           /* FORWARD: in backward, once more */
    int pass;                                  /* HALO: 0 forward, else 1 + which of the backward ones */
    const struct halo_pass *halo;              /* HALO: that pass */
    bool lossy;                                /* HALO: of training, whose payloads the program may sample and code */
    int n_epilogue, epilogue[STEP_N_EPILOGUE]; /* HALO: ops that it makes behind its sums (epilogue.h) */
    bool stored; /* HALO: payload rows are halo rows of the value (program_store): none travels */
    int n_chain; /* steps of the fused chain (models/steps/chain.h) that begins here; 0: none begins */
    /* position in the static phase and the training epoch behind it; an evaluation's forward steps have the times of
     * training's: they use the same arrays. Where nothing is trained (program.forward_only) the evaluation is behind
     * it */
    int time;
    int n_operand;
    struct step_operand operand[STEP_N_OPERAND];
};

struct step_list {
    int n_step;
    struct step *step;
};

struct step_lists {
    struct step_list phase[STEP_PHASE_N];
    int n_time; /* of the static phase and the training epoch, or where nothing is trained the evaluation */
};

/* The phase behind the static one whose steps have times of their own: the training epoch, or where nothing is
 * trained the evaluation. */
const struct step_list *step_lists_timed(const struct step_lists *lists);

/* Lower a program.
 *
 *   owns    the caller owns *out: step_lists_release
 *   errors  none
 *   cost    linear in the number of ops, but for the order of backward (number of ops that are ready at once)
 */
void step_lists_lower(const struct program *program, struct step_lists *out);
void step_lists_release(struct step_lists *lists);

/* Append a copy of `step` to a list. */
void step_append(struct step_list *list, const struct step *step);

/* The step that runs a dense op forward, as STEP_PHASE_TRAIN has it: a rewrite inserts it where its output is wanted
 * again. */
void step_forward(const struct program *program, int op, struct step *out);

/* The step of this kind, from STEP_KIND_STORE on, for all rows of a value or of what an op saves. */
void step_offload(const struct program *program, enum step_kind kind, const struct step_operand *array,
                  struct step *out);

/* Fill in times and chains, after a rewrite of the training list. */
void step_lists_finish(const struct program *program, struct step_lists *lists);

/* The operand in this role; NULL: not an operand of the step. */
const struct step_operand *step_operand(const struct step *step, enum op_role role);

/* Are the two of the same array? */
bool step_operand_is_same(const struct step_operand *a, const struct step_operand *b);

/* Elements per row of an array of rows; 0: not an array of rows. */
int64_t step_operand_width(const struct program *program, const struct step_operand *operand);

/* Bytes per row, likewise; are its elements BF16? */
int64_t step_operand_row_bytes(const struct program *program, const struct step_operand *operand);
bool step_operand_is_bf16(const struct program *program, const struct step_operand *operand);

/* Steps that run as one, from this one on: a fused chain, or 1. */
int step_span(const struct step *step);

const char *step_kind_name(enum step_kind kind);

/* "halo backward  GATConv attention  convs.0": what the step is, in PyTorch Geometric's terms; without a newline. */
void step_print(const struct program *program, const struct step *step, FILE *file);

/* The same into an array of n_bytes, cut where it is longer. */
#define STEP_TEXT_BYTES 96
void step_text(const struct program *program, const struct step *step, char *out, size_t n_bytes);

#endif
