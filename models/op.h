/* What the trainer calls: one op on one part's rows, forward or backward. Ops never communicate.
 *
 * op_defs[] lists the dense ops, aggregate_defs[] the aggregates; each op is one small file under models/ops/.
 * An op's functions only call the device table; shapes are the program's, pointers the trainer's.
 */
#ifndef MODELS_OP_H
#define MODELS_OP_H

#include "models/device.h"
#include "models/program.h"

/* One dense op on one part. Arrays are n rows of their value's width; what is not there is NULL. */
struct op_call {
    struct device *device;
    const struct program *program;
    const struct op *op;
    int64_t n;                     /* rows: n_own of the part */
    const uint32_t *node;          /* n: dataset node ids (device) */
    bool training;                 /* dropout is on */
    struct random_key key;         /* seed, epoch, this op's number, DROPOUT */

    const struct device_csr *csr;  /* the part's sparse features; read when in[0] is sparse */
    const float *in[2];            /* a sparse value: its n_value stored values (NULL: the csr's own) */
    float *out;                    /* likewise */
    float *aux;                    /* n × aux_width(op), kept from forward to backward */
    const float *param[2];

    const float *grad_out;
    float *grad_in[2];             /* NULL: not wanted. May be grad_out's array for an op with in_place and one input */
    bool add[2];                   /* add to grad_in instead of overwriting it */
    float *grad_param[2];          /* overwritten: this part's gradient; NULL: not wanted */
    void *scratch;
};

struct op_def {
    const char *name;
    bool keeps_in;                 /* backward reads in[0] */
    bool keeps_out;                /* backward reads out */
    bool in_place;                 /* out may share in[0]'s memory when nothing, backward included, reads in[0] later */
    int64_t (*aux_width)(const struct program *program, const struct op *op); /* floats per row; NULL: none */
    /* Bytes of scratch for a part of n rows (and n_col feature columns when sparse); NULL: none */
    size_t (*scratch)(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);
    void (*forward)(const struct op_call *call);
    void (*backward)(const struct op_call *call);
};

/* By enum op_kind; the row of AGGREGATE is empty but for its name. */
extern const struct op_def op_defs[OP_KIND_N];

/* Does backward of this very op read in[0] / out (an activation other than gelu needs only its output, …)? */
bool op_keeps_in(const struct program *program, const struct op *op);
bool op_keeps_out(const struct program *program, const struct op *op);

/* One step of an aggregate for one part: what the payload of part `source` adds. */
struct aggregate_call {
    struct device *device;
    int64_t n;                        /* own rows */
    int64_t f;                        /* columns */
    const struct device_block *block; /* edges between own rows and the payload's rows */
    bool first, last;                 /* the first (always the diagonal) and the last block of the part's round */
    bool only;                        /* the part's round has this one block: begin and finish in one pass */
    const float *own;                 /* own rows of what travels: in (forward), grad_out (backward) */
    const float *payload;             /* n_col × f; own on the diagonal */
    const float *row_scale;           /* n: aggregate scale of own rows; NULL where the kind has none */
    const float *col_scale;           /* n_col: of the payload's rows */
    bool self;                        /* loops are IMPLICIT: the own row counts as a neighbour */
    float *out;                       /* n × f: out (forward) or grad_in (backward), overwritten from `first` on; in
                                       * backward_pack the payload, n_col × f */
    uint32_t *arg;                    /* n × f: max's place of the maximum */
    uint32_t arg_base;                /* this block's first place */
    int64_t n_row;                    /* backward of kinds that are not linear: rows of the payload, … */
    const uint32_t *rows;             /* … and the own rows they are added to (NULL: all own rows, in place) */
};

struct aggregate_def {
    const char *name;
    bool is_linear;       /* out is linear in the rows: may swap with a linear map; backward gathers grad_out over the
                           * transposed blocks, with payload rows send[OUT] */
    bool has_scale;
    /* Scale of a row with this stored in-degree; `self`: plus one for its implicit loop. */
    float (*scale)(uint32_t degree, bool self);
    void (*forward)(const struct aggregate_call *call);
    /* linear kinds: over block[OUT]. Others: payload holds, row for row of `rows`, gradients to add; no block. */
    void (*backward)(const struct aggregate_call *call);
    /* Kinds that are not linear: make the payload for the owner of block[IN]'s sources: out n_col × f from own (grad_out)
     * and arg. NULL for linear kinds, whose payload is rows_gather of grad_out. */
    void (*backward_pack)(const struct aggregate_call *call);
};

/* By enum aggregate_kind. */
extern const struct aggregate_def aggregate_defs[AGGREGATE_KIND_N];

#endif
