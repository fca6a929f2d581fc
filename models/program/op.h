/* What the trainer calls: one op on one part's rows, forward or backward. Ops never communicate.
 *
 * op_defs[] lists the dense and global ops, aggregate_defs[] the aggregates; each op is one small file under
 * models/ops/, with its functions and what they read and write.
 * An op's functions only call the device table; shapes are the program's, pointers the trainer's.
 */
#ifndef MODELS_OP_H
#define MODELS_OP_H

#include "models/device/device.h"
#include "models/program/level.h"
#include "models/program/program.h"

#define OP_N_SAVED 3
#define HALO_N_PIECE 3  /* arrays that travel together, one after another in the payload */
#define OP_N_BACKWARD 2 /* halo passes of an aggregate's backward */

/* What an array is to an op. An op says once, in its own file, which roles its forward and its backward read and
 * write; the lists of steps (models/steps/step.h) are made from that. */
enum op_role {
    OP_ROLE_IN_0, /* own rows of the inputs */
    OP_ROLE_IN_1,
    OP_ROLE_IN_2,
    OP_ROLE_OUT,
    OP_ROLE_SAVED_0, /* rows that forward leaves to backward besides its output */
    OP_ROLE_SAVED_1,
    OP_ROLE_SAVED_2,
    OP_ROLE_GRAD_OUT,
    OP_ROLE_GRAD_IN_0,
    OP_ROLE_GRAD_IN_1,
    OP_ROLE_GRAD_IN_2,
    OP_ROLE_PARAM_0,                                     /* OP_N_PARAM of them */
    OP_ROLE_GRAD_PARAM_0 = OP_ROLE_PARAM_0 + OP_N_PARAM, /* likewise: this part's share of a parameter's gradient */
    OP_ROLE_STATE_0 = OP_ROLE_GRAD_PARAM_0 + OP_N_PARAM, /* BATCH_NORM: parameters that the op itself moves on */
    OP_ROLE_STATE_1,
    OP_ROLE_EMBEDDING, /* param 0's columns of this part's rows */
    OP_ROLE_GRAD_EMBEDDING,
    OP_ROLE_STATISTICS, /* global ops: made of all parts' rows */
    OP_ROLE_SUM,        /* global ops: doubles of this part */
    OP_ROLE_WORKSPACE,
    OP_ROLE_WINDOWS, /* of a fused chain (models/steps/chain.h), beside its first step's other roles */
    OP_ROLE_NODE,    /* dataset node ids of own rows */
    OP_ROLE_LABELS,  /* labels and splits of own rows */
    OP_ROLE_CSR,     /* the sparse features' structure */
    OP_ROLE_SCALE,   /* an aggregate's scales of own rows */
    OP_ROLE_BLOCKS,
    OP_ROLE_SENDING,
    OP_ROLE_N
};

/* Sets of roles, one bit each. */
typedef uint64_t op_roles;
#define OP_ROLES(name) ((op_roles)1 << OP_ROLE_##name)
#define OP_ROLES_IN (OP_ROLES(IN_0) | OP_ROLES(IN_1) | OP_ROLES(IN_2))
#define OP_ROLES_SAVED (OP_ROLES(SAVED_0) | OP_ROLES(SAVED_1) | OP_ROLES(SAVED_2))
#define OP_ROLES_GRAD_IN (OP_ROLES(GRAD_IN_0) | OP_ROLES(GRAD_IN_1) | OP_ROLES(GRAD_IN_2))
#define OP_ROLES_PARAM ((((op_roles)1 << OP_N_PARAM) - 1) << OP_ROLE_PARAM_0)
#define OP_ROLES_GRAD_PARAM ((((op_roles)1 << OP_N_PARAM) - 1) << OP_ROLE_GRAD_PARAM_0)

/* What a pass over a part's rows touches. Roles that an op does not have (no second input, a parameter that does not
 * train, an input that wants no gradient) fall away. In both sets: read and changed. */
struct op_access {
    op_roles reads, writes;
};

struct op_labels {
    const int32_t *labels; /* n: one of these two is NULL */
    const float *label_rows;
    const uint8_t *split; /* n */
    uint8_t train;        /* the split that is trained on */
};

/* A block's place in the part's halo pass. */
struct op_order {
    bool first, last; /* the first is always the diagonal */
    bool only;        /* the pass has this one block: begin and finish at once */
    bool apart;       /* linear passes: what this block adds is summed alone, wherever that is done */
};

/* RETURN passes: gradients of a payload's rows on their way back. */
struct op_return {
    float *packed;        /* the payload to make, piece after piece */
    float *packed_key;    /* attention's keys apart; NULL: they are the second piece */
    int64_t n_row;        /* rows of the payload, to make or made */
    const uint32_t *rows; /* the own rows they are added to; NULL: all own rows, in place */
    float factor;         /* of the rows that are added: 1/p where they are sampled */
};

/* A halo pass: what the payload of another part adds. */
struct op_pass {
    bool self;                        /* loops are IMPLICIT: the own row counts as a neighbour */
    float *to;                        /* what a linear pass makes: out forward, grad_in[0] backward */
    const struct device_block *block; /* edges between own rows and the payload's rows */
    struct op_order order;
    const float *own[HALO_N_PIECE];     /* own rows of what travels */
    const float *payload[HALO_N_PIECE]; /* n_col rows of each piece; own on the diagonal */
    bool own_bf16, payload_bf16;        /* sums: own[0] (RETURN: grad_out), payload[0] are rows of BF16 */
    const float *col_scale;             /* n_col: of the payload's rows */
    const uint32_t *col_node;           /* n_col: dataset node ids */
    struct device_epilogue epilogue;    /* sums, in passes of one block */
    float shift;       /* attention: added to scores of the block's edges, log(1/p) where its rows are sampled */
    uint32_t arg_base; /* max: this block's first place */
    struct op_return back;
};

/* One op on one part. Arrays are n rows of their value's width (device); what is not there, or not an operand of the
 * step, is NULL. */
struct op_call {
    struct device *device;
    const struct program *program;
    const struct op *op;
    int64_t n;                    /* own rows */
    int64_t f;                    /* columns of in[0] */
    bool training;                /* dropout is on */
    bool tentative;               /* no step follows: running statistics stay as they are */
    struct random_key key;        /* seed, this op's number; stream DROPOUT, of aggregates EDGE */
    const struct device_now *now; /* the key's epoch */
    bool add[OP_N_IN];            /* dense backward: add to grad_in instead of overwriting it */
    bool add_param[OP_N_PARAM];   /* likewise to grad_param, which ops before it have made a share of, or windows */

    union {
        void *array[OP_ROLE_N]; /* by enum op_role; or by name: */
        struct {
            /* a sparse value: its n_value + n_embedded stored values (NULL: the csr's own) */
            const float *in[OP_N_IN];
            float *out;
            float *saved[OP_N_SAVED];
            const float *grad_out;
            /* NULL: not wanted. May be grad_out's array: the first with in_place, any that is passed on */
            float *grad_in[OP_N_IN];
            const float *param[OP_N_PARAM];
            float *grad_param[OP_N_PARAM]; /* NULL: not wanted */
            float *state[OP_N_STATE];
            const float *embeddings; /* csr->n_embedded × columns of out; NULL: none */
            float *grad_embeddings;
            double *statistics;
            double *sum;
            void *workspace;
            void *windows; /* unused: the chain's */
            const uint32_t *node;
            const struct op_labels *labels;
            const struct device_csr *csr; /* read when in[0] is sparse */
            const float *scale;           /* n: aggregate scale of own rows; NULL where the kind does not scale */
            const void *blocks, *sending; /* unused: blocks come one by one, below */
        };
    };

    struct op_pass pass;
};

/* What a global op does with all parts' rows before forward, or backward, runs on each part: sums of n_sum doubles,
 * one set per part, combined along the tree over parts; all on the device. */
struct global_pass {
    void (*partial)(const struct op_call *call); /* makes sum */
    struct op_access partial_access;
    /* left = left's and right's together */
    void (*merge)(struct device *device, const struct program *program, const struct op *op, double *left,
                  const double *right);
    /* Once per rank, with the call of any of its parts: make the statistics. sum NULL: an evaluation, which asks no
     * part. */
    void (*total)(const struct op_call *call);
    op_roles total_changes; /* besides the statistics: STATE */
};

struct global_def {
    int64_t (*n_sum)(const struct program *program, const struct op *op);
    int64_t (*n_statistics)(const struct program *program, const struct op *op);
    struct global_pass forward, backward;
};

/* A dense or global op. Forward reads its inputs and parameters and writes its output and what it saves; backward
 * reads the gradient of the output, what was saved and the parameters, and writes the gradients of inputs and
 * parameters. */
struct op_def {
    const char *name;
    const char *title;       /* as users of PyTorch Geometric know it */
    op_roles also_reads;     /* forward and backward: NODE, LABELS, STATISTICS */
    op_roles backward_reads; /* of IN and OUT; where this depends on the op: */
    op_roles (*backward_reads_of)(const struct program *program, const struct op *op);
    bool in_place; /* out may share in[0]'s memory when nothing, backward included, reads in[0] later; likewise
                                   * grad_in[0] grad_out's, which backward then overwrites last */
    int64_t (*saved_width)(const struct program *program, const struct op *op); /* floats per row; NULL: none */
    /* Bytes of workspace for a part of n rows (and n_col feature columns when sparse); NULL: none */
    size_t (*workspace)(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);
    bool takes_bf16; /* it calls operations that device_ops.takes_bf16 names, and writes each array of rows once */
    void (*forward)(const struct op_call *call);
    void (*backward)(const struct op_call *call);
    const struct global_def *global; /* NULL: a part's rows need no other's */
};

/* A LABELS op's rows that are hidden from the input in this call, and so the ones that the loss is over; their number
 * in all parts is the op's statistics. */
struct device_draw op_labels_hidden(const struct op_call *call);

/* By enum op_kind; the row of AGGREGATE is empty but for its name. */
extern const struct op_def *const op_defs[OP_KIND_N];

/* Which of its inputs and its output the backward of this very op reads: they are saved until then, or recomputed. */
op_roles op_backward_reads(const struct program *program, const struct op *op);

/* A global op that keeps running statistics: where program_rows_differ, an evaluation makes them of its own rows. */
bool op_keeps_statistics(const struct op *op);

/* Does a row of its output need only the same row of its inputs, and parameters? Sparse rows are cut by column too,
 * known labels come with the part, and halo rows lie behind a part's own: these are not row-local. */
bool op_is_row_local(const struct program *program, const struct op *op);

/* Does it only copy, to where rows are stored in another precision? */
bool op_is_cast(const struct op *op);

/* Is the gradient of in[k] that of out as it is? Then backward leaves it where it is given grad_out's array for
 * it. */
bool op_passes_grad(const struct op *op, int k);

/* Which way rows travel between parts in a halo pass. */
enum halo_direction {
    HALO_DIRECTION_IN,     /* to the parts that have them as sources: over block[IN] */
    HALO_DIRECTION_OUT,    /* to the parts whose sources have edges to them: over the transposed blocks, block[OUT] */
    HALO_DIRECTION_RETURN, /* gradients of a payload's rows, made where it was used, back to the rows' owner */
    HALO_DIRECTION_N
};

/* A walk over all blocks of every part: for j = i, i+1, … (mod K), run(block (i, j), payload of part j). */
struct halo_pass {
    enum halo_direction direction;
    int n_piece;
    /* own rows that travel; RETURN: the gradients that come back, GRAD_IN_0 and _1 */
    enum op_role piece[HALO_N_PIECE];
    bool joins; /* it adds edge after edge: borders of blocks leave no trace, but in parameters' gradients */
    struct op_access access;                  /* of own rows on the blocks, besides the pieces */
    void (*run)(const struct op_call *call);  /* NULL: there is no such pass */
    void (*pack)(const struct op_call *call); /* RETURN: make `packed` … */
    op_roles pack_reads;                      /* … from these */
    /* RETURN: pack has the block transposed (rows: the payload's, columns: own rows), with scales and node ids the
     * other way round, too; run has own edges as in OUT, without a payload. */
    bool transposed;
    int n_ask;
    enum op_role ask[HALO_N_PIECE]; /* RETURN: rows that pack reads of the payload whose gradients it makes */
};

/* How sampled rows stand for all of them. */
enum aggregate_sampled {
    AGGREGATE_SAMPLED_WEIGHED, /* each counts 1/p times: the sum's mean over all samples is the sum */
    AGGREGATE_SAMPLED_SHIFTED, /* log(1/p) is added to scores, so that a softmax's sums count them so */
    AGGREGATE_SAMPLED_PLAIN    /* what is made of them alone */
};

struct aggregate_def {
    const char *name;
    const char *title;   /* as users of PyTorch Geometric know it */
    bool is_linear;      /* out is linear in the rows of its one input: may swap with a linear map */
    bool takes_no_loops; /* an implied loop is of no relation: the own row is no neighbour */
    /* what an edge counts depends on the rows at its ends, so that backward reads the sources' rows, too */
    bool attends;
    /* Scale of a row with this many stored in-edges, or this sum of their weights; `self`: plus one for its implicit
     * loop. NULL: rows are not scaled. */
    float (*scale)(double degree, bool self);
    bool scale_counts;   /* it is of their number also where edges have weights */
    bool scales_sources; /* an edge counts the scales of both its ends, else that of its destination */
    struct halo_pass forward;
    void (*backward_begin)(const struct op_call *call); /* on own rows alone, before the passes; NULL: nothing */
    struct op_access begin_access;
    struct halo_pass backward[OP_N_BACKWARD]; /* in this order */
    enum aggregate_sampled sampled;
    /* where program_rows_differ: gradients return. None: as backward */
    struct halo_pass sampled_backward[OP_N_BACKWARD];
    /* Floats per row of saved array k, from forward to backward; NULL: none. */
    int64_t (*saved_width)(const struct program *program, const struct op *op, int k);
    /* Bytes of workspace for a part of n rows; NULL: none */
    size_t (*workspace)(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);
    bool sums_in_workspace; /* of a part, from its first block to its last: parts are walked one after another */
};

/* By enum aggregate_kind. */
extern const struct aggregate_def *const aggregate_defs[AGGREGATE_KIND_N];

/* Have rows the same scales in both? A trainer keeps one set of them. */
bool aggregate_scales_alike(const struct aggregate_def *a, const struct aggregate_def *b);

/* Do payloads change what they hold, so that rows of a process's own parts have to be packed, too? */
bool program_is_lossy(const struct program *program);

/* Are some of them coded, in some epoch? */
bool program_codes(const struct program *program);

/* Are rows in training others than those of an exact forward, so that gradients are made where rows were used, and
 * running statistics by evaluations? Samples, and rows of the epoch before. */
bool program_rows_differ(const struct program *program);

/* An aggregate's passes backward, in this program. */
const struct halo_pass *aggregate_backward(const struct program *program, enum aggregate_kind kind);

/* Does backward send finished gradients back? Then forward's places count rows of payloads, between parts of one rank
 * too. */
bool aggregate_returns(const struct program *program, enum aggregate_kind kind);

/* Is a pass the same over one block that has the edges of several? Gradients of parameters are sums over chunks of a
 * block's rows. */
bool halo_pass_joins(const struct op *op, const struct halo_pass *pass);

/* Does some pass walk blocks of the transposed graph? */
bool aggregate_walks_out(const struct program *program, enum aggregate_kind kind);

/* Which rows of what travels count in training (program.h): an aggregate's sources, or its destinations. */
int32_t halo_pass_hop(const struct program *program, const struct op *op, const struct halo_pass *pass);

/* Columns of piece k of a pass's payload; of all pieces. */
int64_t halo_piece_width(const struct program *program, const struct op *op, const struct halo_pass *pass, int k);
int64_t halo_payload_width(const struct program *program, const struct op *op, const struct halo_pass *pass);

/* Likewise of what a RETURN pass asks for. */
int64_t halo_ask_width(const struct program *program, const struct op *op, const struct halo_pass *pass, int k);

/* Are rows in this role BF16 where they lie? */
bool halo_role_is_bf16(const struct program *program, const struct op *op, enum op_role role);

/* How rows in this role are written down at a level: gradients in the codec of backward, others in that of forward;
 * one number per head, and what would not become shorter, in FP32. */
enum device_codec halo_codec(const struct program *program, const struct op *op, enum op_role role,
                             const struct level *level);

/* Are rows in this role coded in some epoch? */
bool halo_codes(const struct program *program, const struct op *op, enum op_role role);

/* Bytes of a row of piece k, of all pieces, of what is asked for, as they travel at a level; NULL: as they are. */
int64_t halo_piece_bytes(const struct program *program, const struct op *op, const struct halo_pass *pass, int k,
                         const struct level *level);
int64_t halo_row_bytes(const struct program *program, const struct op *op, const struct halo_pass *pass,
                       const struct level *level);
int64_t halo_ask_bytes(const struct program *program, const struct op *op, const struct halo_pass *pass,
                       const struct level *level);

/* The most that they may be at any level of the program; `lossy`: they are coded at all. */
int64_t halo_row_bytes_most(const struct program *program, const struct op *op, const struct halo_pass *pass,
                            bool lossy);
int64_t halo_ask_bytes_most(const struct program *program, const struct op *op, const struct halo_pass *pass,
                            bool lossy);

/* The sums over neighbours of a program over n_node nodes. */
void program_sums(const struct program *program, int64_t n_node, struct device_sums *out);

/* Floats per row that an op saves from forward to backward in its array k (dense ops: one array, k = 0). */
int64_t op_saved_width(const struct program *program, const struct op *op, int k);

/* Bytes of workspace for a part of n rows. */
size_t op_workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n);

#endif
