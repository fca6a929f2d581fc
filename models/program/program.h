/* A model is a program of ops over values; its backward is derived op by op, by walking the list from its end.
 *
 * A value is a matrix of one row per node (n_own rows of a part). A program is pure description: sizes, kinds and
 * names, no memory and no device, so that --plan and the memory plan can read it anywhere. Models are builders
 * (models/kinds/<kind>.c, about a page each) over the functions below.
 */
#ifndef MODELS_PROGRAM_H
#define MODELS_PROGRAM_H

#include "models/device/device.h"
#include "models/tile/tile.h"
#include "protocol/base/status.h"
#include "protocol/job/job.h"
#include "protocol/wire/embedded.h"
#include "protocol/wire/graph_facts.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PROGRAM_NAME_BYTES 64
#define PROGRAM_N_DIM 4
#define OP_N_IN 3
#define OP_N_PARAM TILE_N_PARAM
#define OP_N_STATE 2

/* Kinds of op. The list with names, what backward keeps, and the functions is op_defs[] in models/ops/op.c. */
enum op_kind {
    OP_KIND_LINEAR,       /* out = in0 · wᵀ (+ b)          params: w, b or -1; by_column: in0 · w */
    OP_KIND_BIAS,         /* out = in0 + b                 params: b */
    OP_KIND_ACTIVATE,     /* out = dropout(act(in0)) */
    OP_KIND_LAYER_NORM,   /* params: weight, bias */
    OP_KIND_BATCH_NORM,   /* params: weight, bias          state: running mean, running variance */
    OP_KIND_ADD,          /* out = a·in0 + b·in1 */
    OP_KIND_LABELS,       /* out = in0 | training rows' labels; in training a share `dropout` of them is hidden */
    OP_KIND_CONCAT,       /* out = in0 | in1 | in2: columns side by side */
    OP_KIND_MAX,          /* out = max(in0, in1) */
    OP_KIND_EPS_ADD,      /* out = in1 + (1 + eps)·in0     params: eps */
    OP_KIND_INVERSE_NORM, /* out = 1 / ‖in0‖ of each row */
    OP_KIND_ROW_SCALE,    /* out = in1 · in0, in1 one number per row */
    OP_KIND_HEAD_DOT,     /* out[h] = ⟨in0's head h, w's⟩  params: w */
    OP_KIND_HEAD_MEAN,    /* out = mean over in0's heads */
    OP_KIND_HEAD_WIDEN,   /* out[h] = in0's head h | wᵀ in0[h]    params: w, heads' rows one below the other */
    OP_KIND_HEAD_NARROW,  /* out[h] = a + w b, in0's head h = a | b    params: w, as of HEAD_WIDEN */
    OP_KIND_RELATION_ROW, /* out = w[r] of pairs with relation r (scorers; NODE has them)   params: w */
    OP_KIND_ROWS,         /* a tile program (models/tile/tile.h) of each row of the inputs */
    OP_KIND_AGGREGATE,    /* out = an aggregate of in0 over in-neighbours */
    OP_KIND_N
};

/* Aggregates. The list with names and functions is aggregate_defs[] in models/ops/aggregate.c. */
enum aggregate_kind {
    AGGREGATE_KIND_SUM,
    AGGREGATE_KIND_MEAN,
    AGGREGATE_KIND_GCN,
    AGGREGATE_KIND_MAX,
    AGGREGATE_KIND_GAT,       /* in: values, keys, queries (one number per head) */
    AGGREGATE_KIND_GAT_EDGES, /* likewise, of edges with features     params: edges' weight, its attention */
    AGGREGATE_KIND_GATV2,     /* in: values, none, queries     params: att, edges' weight or -1 */
    /* in: values, keys, queries (as wide as values; of edges with features wider, and so is out) */
    AGGREGATE_KIND_DOT,
    AGGREGATE_KIND_COSINE,        /* in: values, keys (one number per head), queries (as wide as values) */
    AGGREGATE_KIND_RELATION,      /* typed edges; params: weight (relations or bases × in × out), comp or -1 */
    AGGREGATE_KIND_RELATION_ROWS, /* typed edges; in: a row of each relation's columns side by side */
    AGGREGATE_KIND_RELATION_ROWS_MIXED, /* likewise of each base's; params: comp */
    /* a tile program of each edge, summed or otherwise reduced.  in: the source's row, none, the destination's row or
     * none. _MEAN divides by the number of in-edges, _NORM has the scales of GCN */
    AGGREGATE_KIND_EDGES,
    AGGREGATE_KIND_EDGES_MEAN,
    AGGREGATE_KIND_EDGES_NORM,
    AGGREGATE_KIND_EDGES_SOFTMAX,
    AGGREGATE_KIND_N
};

struct op {
    enum op_kind kind;
    int in[OP_N_IN];       /* values; -1 none */
    int out;               /* value */
    int param[OP_N_PARAM]; /* parameters; -1 none */
    int state[OP_N_STATE]; /* BATCH_NORM: parameters that do not train, moved on by the op itself */
    enum aggregate_kind aggregate;
    enum device_activation activation;
    double dropout; /* ACTIVATE; attention: of the coefficients; LABELS: share hidden */
    float a, b;     /* ADD; attention: a is leaky's slope (GAT, GATV2) or the scale of the product (DOT) */
    int64_t n_head; /* HEAD_DOT, HEAD_MEAN, attention */
    int tile;       /* ROWS: program.tile of forward, the next of backward; EDGES: then of sources; else 0 */
    bool by_column; /* LINEAR: the weight is stored in × out */
    bool is_static; /* depends only on input features: done once, before epoch 0 */
};

struct value {
    int64_t width;   /* columns */
    bool is_sparse;  /* the input features, or their dropout, in CSR */
    bool is_static;  /* the same in every epoch */
    bool needs_grad; /* some parameter lies behind it */
    bool is_bf16;    /* stored as rows of BF16 (models/device/codec.h), not of floats */
    bool is_rounded; /* stored as rows of floats that are BF16 numbers */
    bool grad_is_bf16;
    int32_t hop; /* in training its rows count up to so many edges from a training node; see program_hops */
};

/* How a parameter is first drawn (uniform in ±bound; 0: constant `fill`). */
struct parameter {
    char name[PROGRAM_NAME_BYTES]; /* PyTorch Geometric's: "convs.0.lin.weight" */
    int n_dim;
    int64_t shape[PROGRAM_N_DIM];
    /* floats in the parameter arena: all, or with embeddings those of shared columns, rows × columns */
    int64_t n_shared;
    int64_t offset; /* the first of them */
    /* -1: no embeddings. Else its column of a node that has one, embedding_width floats, lies with the node's part:
     * n_embedded · embedding_at floats into the part's embeddings, node after node. embedding_row of a column's
     * floats lie side by side in the tensor: with 1 that is rows × columns, else groups × columns × embedding_row. */
    int64_t embedding_at, embedding_width, embedding_row;
    double bound;
    float fill;
    bool trains; /* false: kept and written, never stepped (gin's fixed eps) */
    bool decays; /* weight decay applies */
    int line;    /* of a user's text, where it stands first; 0: of none */
};

/* What payloads lose in training. */
struct program_lossy {
    bool samples;             /* they are samples of their rows, */
    bool stale;               /* or those of the epoch before */
    uint32_t codecs;          /* they are written down in one of these (level_codecs), */
    uint32_t codecs_backward; /* gradients in one of these */
    bool feedback;            /* what is lost of coded rows is added to those of the next epoch */
};

struct program {
    int n_op, n_value, n_param;
    struct op *op;
    struct value *value; /* value 0: the input features */
    struct parameter *param;
    int n_tile;
    struct tile *tile;      /* owned: programs of ROWS and EDGES */
    int labels;             /* the op of kind LABELS; -1: the loss is over all training rows */
    int logits;             /* the output value, n_class wide */
    int decoder;            /* links: the first parameter of what makes a pair's score, the last ones; -1: none */
    struct program *scorer; /* owned: makes `logits` of values 0 and 1, the rows of a pair's ends, by parameters that
                             * are this program's from `decoder` on; NULL: the score is a sum of products */
    int32_t n_scored;       /* links: relations that scores depend on; 0: on none */
    int kept;               /* a layer's output that is read after an evaluation (output.embeddings); -1: none */
    bool forward_only;      /* it predicts (job_predicts): no step trains it */
    int64_t n_weight;       /* floats in the parameter arena; each tensor starts on a multiple of 16 */
    int64_t n_embedding;    /* floats of weights at each embedded column: they lie with the part that owns the node */
    struct embedded embedded; /* owned: which columns of the features */
    int32_t n_relation;       /* of the edges; 0: untyped */
    int64_t n_edge_feature;   /* of the edges; 0: none */
    /* No op is static, and a layer multiplies before it aggregates only where its input is wider; 0: not so. */
    int64_t plain_width;
    int precision; /* JOB_PRECISION_…: of values and gradients (program_precision) */
    struct program_lossy lossy;
};

/* Facts of the data for builders. */
struct program_input {
    struct graph_facts facts;
    bool is_sparse;           /* features are CSR */
    struct embedded embedded; /* columns of sparse features that are one node's own */
    bool stores;              /* parts also have the features of halo rows (program_store) */
    FILE *passes;             /* what each pass of the compiler makes of the text is written here; NULL: not */
};

/* Build the job's model for this data.
 *
 *   owns    the caller owns *out; program_release
 *   errors  STATUS_CONFIG settings that do not go together (model.linear_layers ≥ layers, …); STATUS_DATA no features
 *   notes   orders linear and linear aggregates so that the narrower side travels; a dense input that is not dropped
 *           out is aggregated first and once (is_static); what needs dense rows of sparse features (an aggregate that
 *           is not linear, typed edges, a residual without a linear map) makes value 0 dense; node types' features go
 *           through a linear map of their own first; aggregates with scales are of one kind, as a trainer
 *           keeps one set of scales
 */
enum status program_build(const struct job *job, const struct program_input *input, struct program *out);
void program_release(struct program *program);

/* An empty program over the input features, value 0: where a builder, or a test, begins. program_release. */
void program_init(const struct program_input *input, struct program *out);
/* The same over pairs: values 0 and 1, rows of `width` columns of heads and of tails. */
void program_init_pairs(int64_t width, struct program *out);

/* Builder's alphabet: each appends one op and returns its output value (parameters: returns the parameter).
 * They cannot fail: the lists grow with memory_alloc. Sparse values go through linear and dropout only, and a weight
 * that they are multiplied with has embeddings where the features have embedded columns: it is no other op's.
 * A parameter of 0 rows has one dimension, `columns` long. */
int program_param(struct program *program, const char *name, int64_t rows, int64_t columns, double bound);
int program_linear(struct program *program, int in, int weight, int bias);
/* The rows of a weight, n × columns × f or columns × f, that are each node's own, side by side, where the features
 * have nothing but embedded columns: of the features or their dropout. Such a weight is no other op's. */
int program_node_rows(struct program *program, int in, int weight, int bias);
/* The same with a weight stored in × out. */
int program_linear_by_column(struct program *program, int in, int weight, int bias);
int program_bias(struct program *program, int in, int bias);
int program_activate(struct program *program, int in, enum device_activation activation, double dropout);
int program_layer_norm(struct program *program, int in, int weight, int bias);
int program_batch_norm(struct program *program, int in, int weight, int bias, int running_mean, int running_var);
int program_add(struct program *program, float a, int in0, float b, int in1);
/* The input features followed by n_class columns of known labels; a program has one at most. */
int program_labels(struct program *program, int in, int32_t n_class, double hidden);
/* The columns of n ≥ 1 values side by side: as many ops as it takes. */
int program_concat(struct program *program, const int *in, int n);
int program_max(struct program *program, int in0, int in1);
int program_eps_add(struct program *program, int eps, int in0, int in1);
int program_aggregate(struct program *program, int in, enum aggregate_kind kind);
/* The row of a weight of two dimensions that a pair's relation has; in a scorer alone. */
int program_relation_row(struct program *program, int weight);
/* One column: 1 / the norm of each of in's rows. */
int program_inverse_norm(struct program *program, int in);
/* in's rows, each times its number in scale, a value of one column. */
int program_row_scale(struct program *program, int in, int scale);
/* in's n_head heads, each multiplied with its row of weight (1 × n_head × columns) and summed: n_head columns. A
 * weight of one dimension is one head's. */
int program_head_dot(struct program *program, int in, int weight);
int program_head_mean(struct program *program, int in, int64_t n_head);
/* Each head followed by its product with its rows of weight, n_head · columns × n: a head x becomes x | wᵀ x.
 * program_head_narrow goes back: a | b becomes a + w b. Both may have the same weight. */
int program_head_widen(struct program *program, int in, int weight, int64_t n_head);
int program_head_narrow(struct program *program, int in, int weight, int64_t n_head);
/* Attention over in-neighbours: `op` has the inputs, parameters, n_head, a and dropout of the kind. */
int program_attention(struct program *program, const struct op *op);

/* Tile programs of an op, in this order: 2 of rows, 3 of edges, 4 of their softmax, else 0. */
enum op_tile {
    OP_TILE_FORWARD,
    OP_TILE_BACKWARD, /* of edges: for destinations and weights */
    OP_TILE_OF_SOURCES,
    OP_TILE_BEGIN, /* before backward, of own rows */
    OP_N_TILE
};
int op_n_tile(const struct op *op);

/* Append an op of kind ROWS, or AGGREGATE of one of the kinds EDGES, with its inputs, parameters and dropout, and the
 * tile programs that it takes over. */
int program_tiles(struct program *program, const struct op *op, const struct tile tile[OP_N_TILE], int64_t width);

/* Mean over each relation's in-neighbours times its weight, summed: weight relations × width × columns, or with comp
 * (relations × bases, else -1) bases × width × columns; or relations × blocks × width / blocks × columns / blocks. */
int program_relation(struct program *program, int in, int weight, int comp);

/* Mean over each relation's in-neighbours of the columns that are this relation's, summed: in is relations × f wide;
 * or with comp (relations × bases, else -1) bases × f, whose columns are mixed. */
int program_relation_rows(struct program *program, int in, int64_t f, int comp);

/* A parameter of any shape, for those with more dimensions than a matrix. */
int program_tensor(struct program *program, const char *name, int n_dim, const int64_t *shape, double bound);

#define PROGRAM_HOP_ALL INT32_MAX

/* In place of a hop: all own rows, and behind them halo rows: those of other parts that the part takes over in-edges,
 * pair after pair. */
#define PROGRAM_HOP_HALO (INT32_MAX - 1)

/* What an aggregate takes of other parts, where it is made of the features alone: these (or their dropout), or a
 * linear map of them, with attention's keys. */
enum program_stored { PROGRAM_STORED_NONE, PROGRAM_STORED_INPUT, PROGRAM_STORED_MAP };

enum program_stored program_stored(const struct program *program, const struct op *op);

/* Give these values, and what they are made of, halo rows (PROGRAM_HOP_HALO), where features of halo rows are stored
 * with each part: then nothing travels for these aggregates, forward or backward. program_hops takes it back. */
void program_store(struct program *program);

/* Has some value halo rows? */
bool program_stores(const struct program *program);

/* Is this an aggregate whose rows of other parts each part makes for itself (after program_store)? */
bool program_reads_stored(const struct program *program, const struct op *op);

/* Does some aggregate of halo rows make rows up to this hop? */
bool program_stores_at(const struct program *program, int32_t hop);

/* Does a linear map read sparse values, of halo rows, too (PROGRAM_HOP_HALO), or of own rows alone? */
bool program_maps_sparse(const struct program *program, int32_t hop);

/* Fill in the hop of every value, as program_build does for its own: logits 0, an aggregate's sources one more than
 * its output. Batch norm needs all rows, and so has a product of sparse features, whose transposed matrix is one for
 * all rows. */
void program_hops(struct program *program);

/* The hop of an aggregate's sources, given its output's. */
int32_t program_hop_before(int32_t hop);

/* Does a cast follow this op, since it makes float32 whatever the program's precision is? */
bool program_casts(const struct program *program, const struct op *op);

/* Decide which values and gradients are BF16, as program_build does behind program_hops. */
void program_precision(struct program *program);

/* Hops below all that some op of an epoch has or takes: 0 … program_n_hop - 1. */
int32_t program_n_hop(const struct program *program);

/* An epoch's layers are the aggregates that are not static, in the order of the ops: how many; which one an op is,
 * -1: none. */
int program_n_layer(const struct program *program);
/* The op of the last one; 0: no layer travels. */
int program_last_layer(const struct program *program);
int program_layer(const struct program *program, int op);

/* Numbers that a training epoch's ops pass through: rows × columns in and out, an aggregate's edges × columns, twice
 * where there is a gradient. n_row, n_edge: by hop, n_hop of them and then all; edges are those into these rows. */
double program_work(const struct program *program, int32_t n_hop, const int64_t *n_row, const int64_t *n_edge);

/* The op that makes a value; NULL: the features are given. */
const struct op *program_maker(const struct program *program, int value);

/* Elements of a parameter. */
int64_t parameter_size(const struct parameter *parameter);

/* The element of a tensor with embeddings that is float `at` of a column. */
int64_t parameter_embedded(const struct parameter *parameter, int64_t column, int64_t at);

/* Feature columns without the embedded ones. */
int64_t program_n_shared(const struct program *program);

/* Floats of all weights: the arena, and embeddings of all nodes. */
int64_t program_n_weight(const struct program *program);

/* Draw the initial weights into host memory, from (seed, tensor, element) alone: the arena's n_weight floats; the
 * embeddings of n nodes with these columns, n × n_embedding. */
void program_init_weights(const struct program *program, uint64_t seed, float *weights);
void program_init_embeddings(const struct program *program, uint64_t seed, int64_t n, const uint32_t *column,
                             float *embeddings);

/* Print one line per op ("3 add v4 = 0.9·v3 + 0.1·v2  [7]"), for tests, --plan and people. */
void program_print(const struct program *program, FILE *file);

#endif
