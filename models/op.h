/* What the trainer calls: one op on one part's rows, forward or backward. Ops never communicate.
 *
 * op_defs[] lists the dense and global ops, aggregate_defs[] the aggregates; each op is one small file under models/ops/.
 * An op's functions only call the device table; shapes are the program's, pointers the trainer's.
 */
#ifndef MODELS_OP_H
#define MODELS_OP_H

#include "models/device.h"
#include "models/program.h"

/* One dense or global op on one part. Arrays are n rows of their value's width; what is not there is NULL. */
struct op_call {
    struct device *device;
    const struct program *program;
    const struct op *op;
    int64_t n;                    /* rows: n_own of the part */
    const uint32_t *node;         /* n: dataset node ids (device) */
    bool training;                /* dropout is on */
    struct random_key key;        /* seed, this op's number, DROPOUT */
    const struct device_now *now; /* its epoch */

    const struct device_csr *csr; /* the part's sparse features; read when in[0] is sparse */
    const float *embeddings;      /* param[0]'s, of the rows that have one: csr->n_embedded × columns of out; NULL: none */
    float *grad_embeddings;       /* overwritten; NULL: not wanted */
    const float *in[OP_N_IN];     /* a sparse value: its n_value + n_embedded stored values (NULL: the csr's own) */
    float *out;                   /* likewise */
    float *aux;                   /* n × aux_width(op), kept from forward to backward */
    const float *param[OP_N_PARAM];
    float *state[OP_N_PARAM]; /* BATCH_NORM */
    const int32_t *labels;    /* LABELS: of own rows, one of both NULL … */
    const float *label_rows;
    const uint8_t *split; /* … their split, … */
    uint8_t train;        /* … and the split that is trained on */
    double *whole;        /* global ops: n_whole(op), made of all parts' rows (device) */

    const float *grad_out;
    float *grad_in[OP_N_IN]; /* NULL: not wanted. May be grad_out's array: the first with in_place, any that is passed on */
    bool add[OP_N_IN];       /* add to grad_in instead of overwriting it */
    float *grad_param[OP_N_PARAM]; /* overwritten: this part's gradient; NULL: not wanted */
    void *scratch;
};

/* What a global op does with all parts' rows before forward, or backward, runs on each part: sums of n_sum doubles, one set
 * per part, combined along the tree over parts; all on the device. */
struct global_pass {
    void (*partial)(const struct op_call *call, double *sum);
    /* left = left's and right's together */
    void (*merge)(struct device *device, const struct program *program, const struct op *op, double *left, const double *right);
    /* Once per rank, with the call of any of its parts: make the whole. sum NULL: an evaluation, which asks no part. */
    void (*total)(const struct op_call *call, const double *sum);
};

struct global_def {
    int64_t (*n_sum)(const struct program *program, const struct op *op);
    int64_t (*n_whole)(const struct program *program, const struct op *op);
    struct global_pass forward, backward;
};

struct op_def {
    const char *name;
    bool keeps_in;  /* backward reads in[0]; ROW_SCALE's also in[1] */
    bool keeps_out; /* backward reads out */
    bool in_place;  /* out may share in[0]'s memory when nothing, backward included, reads in[0] later; likewise
                                    * grad_in[0] grad_out's, which backward then overwrites last */
    int64_t (*aux_width)(const struct program *program, const struct op *op); /* floats per row; NULL: none */
    /* Bytes of scratch for a part of n rows (and n_col feature columns when sparse); NULL: none */
    size_t (*scratch)(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);
    void (*forward)(const struct op_call *call);
    void (*backward)(const struct op_call *call);
    const struct global_def *global; /* NULL: a part's rows need no other's */
};

/* A LABELS op's rows that are hidden from the input in this call, and so the ones that the loss is over; their number in all
 * parts is the op's whole. */
struct device_draw op_labels_hidden(const struct op_call *call);

/* By enum op_kind; the row of AGGREGATE is empty but for its name. */
extern const struct op_def op_defs[OP_KIND_N];

/* Does backward of this very op read in[k] / out (an activation other than gelu needs only its output, …)? */
bool op_keeps_in(const struct program *program, const struct op *op, int k);
bool op_keeps_out(const struct program *program, const struct op *op);

/* Is the gradient of in[k] that of out as it is? Then backward leaves it where it is given grad_out's array for it. */
bool op_passes_grad(const struct op *op, int k);

/* Which way rows travel between parts in one round of an aggregate. */
enum travel {
    TRAVEL_IN,     /* to the parts that have them as sources: over block[IN] */
    TRAVEL_OUT,    /* to the parts whose sources have edges to them: over the transposed blocks, block[OUT] */
    TRAVEL_RETURN, /* gradients of a payload's rows, made where it was used, back to the rows' owner */
    TRAVEL_N
};

/* Arrays of own rows that a round can send. */
enum aggregate_rows {
    AGGREGATE_ROWS_NONE,
    AGGREGATE_ROWS_IN_0, /* the op's inputs; one that is not there has no columns */
    AGGREGATE_ROWS_IN_1,
    AGGREGATE_ROWS_IN_2,
    AGGREGATE_ROWS_GRAD_OUT,
    AGGREGATE_ROWS_KEPT_0
};

#define AGGREGATE_N_PIECE 3 /* arrays that travel together, one after another in the payload */
#define AGGREGATE_N_KEPT 3
#define AGGREGATE_N_BACKWARD 2

/* One step of a round for one part: what the payload of another part adds. */
struct aggregate_call {
    struct device *device;
    const struct program *program;
    const struct op *op;
    int64_t n; /* own rows */
    int64_t f; /* columns of in[0] */
    bool training;
    struct random_key key;        /* seed, this op's number, EDGE */
    const struct device_now *now; /* its epoch */
    const float *in[OP_N_IN];     /* own rows of the inputs */
    float *out;                   /* of the output: made forward, read backward where it is kept */
    float *kept[AGGREGATE_N_KEPT];
    const float *param[OP_N_PARAM];
    const float *grad_out;
    float *grad_in[OP_N_IN];       /* overwritten; NULL: not wanted */
    float *grad_param[OP_N_PARAM]; /* overwritten: this part's gradient; NULL: not wanted */
    void *scratch;
    bool self; /* loops are IMPLICIT: the own row counts as a neighbour */

    float *to;                               /* what a linear round makes: out forward, grad_in[0] backward */
    const struct device_block *block;        /* edges between own rows and the payload's rows */
    bool first, last;                        /* the first (always the diagonal) and the last block of the part's round */
    bool only;                               /* the part's round has this one block: begin and finish in one pass */
    const float *own[AGGREGATE_N_PIECE];     /* own rows of what travels */
    const float *payload[AGGREGATE_N_PIECE]; /* n_col rows of each piece; own on the diagonal */
    const float *row_scale;                  /* n: aggregate scale of own rows; NULL where the kind has none */
    const float *col_scale;                  /* n_col: of the payload's rows */
    const uint32_t *row_node, *col_node;     /* n, n_col: dataset node ids */

    float *packed;        /* RETURN: the payload to make, n_col × f */
    uint32_t arg_base;    /* max: this block's first place */
    int64_t n_row;        /* RETURN: rows of the payload, … */
    const uint32_t *rows; /* … and the own rows they are added to (NULL: all own rows, in place) */
};

/* A walk over all blocks of every part. */
struct aggregate_round {
    enum travel travel;
    enum aggregate_rows piece[AGGREGATE_N_PIECE]; /* what travels; RETURN: unused, one piece as wide as in[0] */
    void (*run)(const struct aggregate_call *call);
    void (*pack)(const struct aggregate_call *call); /* RETURN: make `packed` from kept arrays and grad_out */
};

struct aggregate_def {
    const char *name;
    bool is_linear; /* out is linear in the rows of its one input: may swap with a linear map */
    bool has_scale;
    bool takes_no_loops; /* an implied loop is of no relation: the own row is no neighbour */
    bool keeps_in,
        keeps_out;    /* backward's rounds read all inputs; the output, which only backward_begin reads where there is one */
    int n_kept_round; /* with backward_begin: the kept arrays that rounds read, the first ones */
    bool begin_grad_in[OP_N_IN]; /* backward_begin writes this gradient, or part of it */
    /* Scale of a row with this many stored in-edges, or this sum of their weights; `self`: plus one for its implicit loop. */
    float (*scale)(double degree, bool self);
    struct aggregate_round forward;
    void (*backward_begin)(const struct aggregate_call *call); /* on own rows alone, before the rounds; NULL: nothing */
    struct aggregate_round backward[AGGREGATE_N_BACKWARD];     /* in this order; run NULL: none */
    /* Floats per row of kept array k, from forward to backward; NULL: none are kept. */
    int64_t (*kept_width)(const struct program *program, const struct op *op, int k);
    /* Bytes of scratch for a part of n rows; NULL: none */
    size_t (*scratch)(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);
};

/* Does backward send finished gradients back? Then forward's places count rows of payloads, between parts of one rank too. */
bool aggregate_returns(enum aggregate_kind kind);

/* Which rows of what travels count in training (program.h): an aggregate's sources, or its destinations. */
int32_t aggregate_travel_level(const struct program *program, const struct op *op, const struct aggregate_round *round);

/* Columns of an array that can travel; of a round's payload. */
int64_t aggregate_piece_width(const struct program *program, const struct op *op, enum aggregate_rows rows);
int64_t aggregate_payload_width(const struct program *program, const struct op *op, const struct aggregate_round *round);

/* Floats per row that an op keeps from forward to backward in its array k (dense ops: one array, k = 0). */
int64_t op_kept_width(const struct program *program, const struct op *op, int k);

/* By enum aggregate_kind. */
extern const struct aggregate_def aggregate_defs[AGGREGATE_KIND_N];

#endif
