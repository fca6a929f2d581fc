/* The device table: memory, copies, order of work, and every arithmetic operation a program needs.
 *
 * `reference` is the slow clear truth (plain C, one thread, sums in double), `cpu` the fast one; both must give results
 * that do not depend on thread count: sums over rows go in fixed chunks combined in a fixed order, a row's neighbours are
 * added in the block's order. Pointers named in this file are device pointers (of `acquire` or `borrow`) unless they say
 * host; the structs that describe an operation are host memory, read before the call returns. Compute sticks: operations
 * return nothing, the first failure stays on the device, later operations do nothing, `wait` returns it. Knows nothing of
 * files, parts' numbers or the network.
 */
#ifndef MODELS_DEVICE_H
#define MODELS_DEVICE_H

#include "protocol/embedded.h"
#include "protocol/libraries.h"
#include "protocol/memory.h"
#include "protocol/random.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device; /* one open device */

/* Where bytes lie. */
enum device_place {
    DEVICE_PLACE_DEVICE, /* operations read and write it, the host never (but see `unified`) */
    DEVICE_PLACE_SHARED  /* host memory that operations and moves may use, too; host and device take turns (mark, wait) */
};

/* Work of one lane goes in the order of the calls, lanes go at their own pace. All operations are of COMPUTE; the others are for moves:
 * of payloads (IN, OUT) and of arrays that lie in host memory for a while (FETCH, STORE). */
enum device_lane { DEVICE_LANE_COMPUTE, DEVICE_LANE_IN, DEVICE_LANE_OUT, DEVICE_LANE_FETCH, DEVICE_LANE_STORE, DEVICE_LANE_N };

/* A point in a lane: everything that was called there before it. 0 has always passed. Nothing is allocated. */
typedef uint64_t device_mark;

/* In a column of joined blocks: here the next one begins. Columns are below it. */
#define DEVICE_BORDER 0x80000000U

/* A row of more edges than these in one block is a hub row: aggregate_sum adds it in pieces of as many. */
#define DEVICE_HUB_EDGES ((int64_t)1 << 16)

/* Edges of one block on the device: row r of the block adds payload rows cols[indptr[r] … indptr[r+1]) to row rows[r]
 * (row r where rows is NULL) of the output, in the order of a row's edges: that of the sources' rows, whatever their columns. */
struct device_block {
    int64_t n_row;
    int64_t n_col;
    int64_t n_edge;
    const uint32_t *rows;
    const int64_t *indptr;
    const uint32_t *cols;
    const uint16_t *types; /* n_edge: relations, ascending in a row; columns ascend in each run of one. NULL: untyped */
    const float *weights;  /* n_edge: what sums multiply an edge's row by (maxima and attention do not; with types relation sums
                            * alone do). NULL: 1 */
    bool bordered;  /* several blocks joined whose sums are apart: the first edge of each but the first has DEVICE_BORDER set */
    void *schedule; /* the device's own: row ranges of even work, hub rows; made by block_open */
    void *matrix;   /* the device's own, where sums_open was called: the block as a library takes it; made by block_open */
};

/* Sparse feature rows: n_row × n_col, CSR. `by_column` is the device's own transpose for weight gradients (made by csr_open).
 * Some rows may instead have a column of their own, beside the n_col that are shared, and in it a one and nothing else: an
 * embedding. Values given for a csr's own are n_value, and behind them n_embedded, one for each such row. */
struct device_csr {
    int64_t n_row;
    int64_t n_col;
    int64_t n_value;
    const int64_t *indptr;
    const uint32_t *cols;
    const float *values;
    const struct embedded *embedded; /* which of all columns are single rows' own (host); NULL: none */
    int64_t n_embedded;
    const uint32_t *embedded_rows;    /* n_embedded: ascending */
    const uint32_t *embedded_columns; /* n_embedded: among all columns */
    void *by_column;
};

/* What changes from epoch to epoch, in device memory: operations take it by pointer, so that their arguments stay the same. */
struct device_now {
    double lr;                         /* of the optimiser's step */
    double correction_1, correction_2; /* 1 − β₁ᵗ and 1 − β₂ᵗ for step t = 1, 2, … */
    double n_loss_row;                 /* rows that the training loss is a mean over, or the sum of their weights; or labels */
    double grad_norm, clip; /* of all gradients together, and what the step multiplies them by: clip_factor makes both */
    uint32_t epoch;         /* of all random draws */
};

/* How payload rows are written down: an element in 32, 16, 8, 4 or 2 bits. */
enum device_codec { DEVICE_CODEC_FP32, DEVICE_CODEC_BF16, DEVICE_CODEC_INT8, DEVICE_CODEC_INT4, DEVICE_CODEC_INT2 };
#define DEVICE_CODECS_ALL ((2U << DEVICE_CODEC_INT2) - 1)

/* Rows to be written down, each by itself: row r of out is factor · factors[r] · x[rows[r]], its elements rounded up or down at random, so that
 * their mean is what they were (models/codec.h). */
struct device_coding {
    enum device_codec codec; /* not FP32 */
    int64_t n_row, f;
    const uint32_t *rows; /* n_row; NULL: row r */
    float factor;
    const float *factors; /* n_row; NULL: 1 */
    const float *x;
    struct random_key key;        /* element (r, c) is rounded by the draw of (node[rows[r]], c) */
    const struct device_now *now; /* as device_activate */
    const uint32_t *node;         /* dataset node ids of x's rows */

    /* Error feedback, with no factors: what was lost of row r before, at residual_rows[r], is added to it, and residual_out gets what is lost
     * of the sum: it less what is read again, 0 where that is not finite. residual_out may be residual; both NULL: none */
    const float *residual;
    float *residual_out;
    const uint32_t *residual_rows; /* n_row; NULL: as rows */
};

enum device_activation {
    DEVICE_ACTIVATION_NONE,
    DEVICE_ACTIVATION_RELU,
    DEVICE_ACTIVATION_ELU,        /* alpha 1 */
    DEVICE_ACTIVATION_LEAKY_RELU, /* slope 0.01, as torch's default */
    DEVICE_ACTIVATION_GELU        /* exact, with erf */
};

/* y = dropout_p(act(x)): element (r, c) is dropped when random_u32(key, node[r], c) < random_drop_threshold(p), else × 1/(1-p). */
struct device_activate {
    enum device_activation activation;
    double p; /* 0: no dropout, key and node unused */
    struct random_key key;
    const struct device_now *now; /* the key's epoch; NULL: its own */
    const uint32_t *node;         /* n_row: dataset node ids */
};

/* Row r is drawn when random_u32(key, node[r], 0) < random_drop_threshold(p). */
struct device_draw {
    double p;
    struct random_key key;
    const struct device_now *now; /* as device_activate */
    const uint32_t *node;         /* n_row: dataset node ids */
};

/* What surrounds the sum of one aggregate: out = row_scale · (self_scale · self + Σ weight · col_scale · x).
 * A NULL scale is 1; a NULL self adds nothing. */
struct device_aggregate {
    const float *col_scale;  /* n_col of the block */
    const float *self;       /* n_own × f; read only when begin */
    const float *self_scale; /* n_own */
    const float *row_scale;  /* n_own; applied only when finish */
    bool begin;              /* start from the self term; the block must list every row (rows NULL) */
    bool apart;              /* not with begin: the block's edges are summed alone, from 0, and then added */
    bool finish;             /* apply row_scale at the end; likewise */
};

/* Sums over neighbours by a library of the vendor's in place of the device's own kernels: what there will be. */
#define DEVICE_SUM_WIDTHS 8
struct device_sums {
    int64_t n_node; /* of the graph: columns of all blocks are below it */
    int n_width;
    int64_t width[DEVICE_SUM_WIDTHS]; /* columns of the rows that are summed, each once */
    bool plain, scaled;               /* some sums have no col_scale; some have one */
};

/* The most that one block has: they take the same memory in turn. */
struct device_sum_sizes {
    int64_t n_row, n_edge;
    int64_t n_listed;     /* rows of blocks that list rows */
    int64_t n_anywhere;   /* edges of blocks whose columns and weights may begin at any multiple of 4 bytes, … */
    int64_t n_col;        /* … and rows of x that may */
    int64_t n_unweighted; /* edges of blocks without weights */
    int64_t n_buffer;     /* bytes that the library uses besides */
};

/* How an edge from row j to row i is scored, head by head; a softmax over i's in-edges then weighs the values of the j. */
enum device_score_kind {
    DEVICE_SCORE_ADD,   /* leaky(key_j + query_i): one number per head each (GAT) */
    DEVICE_SCORE_MLP,   /* Σ_c att_c · leaky(value_j + query_i): there are no keys (GATv2) */
    DEVICE_SCORE_DOT,   /* scale · ⟨key_j, query_i⟩: as wide as values */
    DEVICE_SCORE_COSINE /* key_j · ⟨value_j, query_i⟩: a key is one number per head, 1 / ‖value_j‖ for a cosine (AGNN) */
};

/* One attention: n_head heads of n_column value columns each; leaky is the leaky relu of slope `slope`. */
struct device_attention {
    enum device_score_kind score;
    int64_t n_head, n_column;
    float slope;
    float scale;      /* DOT */
    float shift;      /* added to the score of every edge of the block */
    const float *att; /* MLP: n_head × n_column */
    double p;         /* a coefficient is dropped when random_edge_u32(key, i, j, head) < random_drop_threshold(p), …
                               * … else × 1/(1-p), after the softmax; 0: no dropout, key and node ids unused */
    struct random_key key;
    const struct device_now *now; /* as device_activate */
    const uint32_t *row_node;     /* n_own: dataset ids of own rows */
    const uint32_t *col_node;     /* n_col: of payload rows */
};

/* Rows at the source end of edges. */
struct device_attention_source {
    const float *value; /* n × n_head·n_column */
    const float *key;   /* ADD, COSINE: n × n_head · DOT: n × n_head·n_column · MLP: NULL */
};

/* Rows at the destination end. */
struct device_attention_target {
    const float *query;    /* ADD: n × n_head · else n × n_head·n_column */
    const float *softmax;  /* n × n_head × 2: (L, D) */
    const float *grad_out; /* n × n_head·n_column */
};

/* What forward saves of own rows for backward, besides the output. */
struct device_attention_state {
    float *softmax;         /* n_own × n_head × 2, in three stages. While blocks are added: row max m, sum Σ exp(score - m).
                             * After finish: log-sum-exp L = m + ln Σ (+inf for a row without edges), 0.
                             * After backward_begin: L, D = ⟨grad_out, out⟩ */
    float *positive;        /* n_own × n_head·n_column, ADD in training, else NULL: out's sum over the edges with
                             * key_j + query_i > 0 alone */
    float *positive_weight; /* n_own × n_head: the softmax's sum over the same edges */
};

/* One attention over one block, whose rows are destinations (forward and gradients of queries) or sources. */
struct device_attention_rows {
    const struct device_attention *how;
    const struct device_block *block;
    bool begin;     /* rows start empty, … */
    bool with_self; /* … or with the edge between them and their own row; the block then lists every row (rows NULL) */
    struct device_attention_source source,
        self_source; /* one end: own rows, or the payload's and for own edges own rows again */
    struct device_attention_target target, self_target; /* the other end, likewise */
};

/* Sums by relation over one block with types. */
struct device_relation {
    const struct device_block *block;
    int64_t n_relation, n_base;
    int64_t f, stride; /* columns of a payload row that count; floats from one row to the next */
    const float *x;    /* n_col rows */
    const float *comp; /* n_relation × n_base; NULL: base b is relation b */
};

enum device_loss { DEVICE_LOSS_CROSS_ENTROPY, DEVICE_LOSS_BCE, DEVICE_LOSS_MSE, DEVICE_LOSS_MAE, DEVICE_LOSS_HUBER };

/* Sums over one part's rows of one split, in device memory. Doubles: loss; counts are exact whole numbers. */
struct device_score {
    double loss;      /* Σ over the split's rows (bce: and classes) */
    double n_correct; /* single label: argmax equals the label (first of equals) · multi: unused */
    double n_true_positive, n_false_positive, n_false_negative; /* multi label: logit > 0 */
    double n_row;                                               /* labelled rows of the split */
    double weight; /* of these rows, that the mean loss is over (bce: n_row · c; of numbers: labels that are there) */
};

enum device_optimizer { DEVICE_OPTIMIZER_SGD, DEVICE_OPTIMIZER_ADAM, DEVICE_OPTIMIZER_ADAMW };

/* A loss over the rows of one split. Labels: int32 n (-1 none) for cross entropy, float n × c for all others (NaN: unknown).
 * With weights w and smoothing ε the loss of a row of class y is (1 - ε) w_y · -log p_y + ε/c Σ_k w_k · -log p_k, and its weight w_y; bce's
 * of a label with w is -w t log σ(z) - (1 - t) log(1 - σ(z)), and its weight 1. Of numbers, with e = z - t for each label that is there: mse
 * e², mae |e|, huber e²/2 where |e| ≤ δ, else δ (|e| - δ/2).
 * source  torch.nn.CrossEntropyLoss (weight, label_smoothing), BCEWithLogitsLoss (pos_weight), MSELoss, L1Loss, HuberLoss */
struct device_scoring {
    enum device_loss loss;
    int64_t n, c;
    const float *logits; /* n × c */
    const void *labels;
    const float *weights;     /* c; NULL: 1 */
    double smoothing;         /* cross entropy */
    double delta;             /* huber */
    const uint8_t *row_split; /* n */
    uint8_t split;
    struct device_draw drawn; /* p > 0: over its rows alone */
    const struct device_now *now;
    float *grad;   /* n × c: d mean loss / d logits on the split's rows, 0 elsewhere; the mean is over now's n_loss_row, 0 as 1
                  * (bce: times c classes). NULL: scores only, and now is unused */
    void *scratch; /* score_scratch(n) bytes */
};

/* Known labels of rows as input: columns of rows of `split` that are not drawn. One of labels (n) and label_rows (n × c; NaN is 0)
 * is NULL. */
struct device_labels {
    int64_t n, c;
    const int32_t *labels;
    const float *label_rows;
    const uint8_t *row_split; /* n */
    uint8_t split;
    struct device_draw drawn;
};

/* Backward of a layer norm (mean_rstd float, n × 2) or a batch norm (double, 2f). */
struct device_norm_backward {
    int64_t n, f;
    const float *x, *weight;
    const void *mean_rstd;
    const float *grad_y;
    bool add;       /* to grad_x */
    bool add_param; /* layer norm: to grad_weight and grad_bias */
    float *grad_x, *grad_weight, *grad_bias;
    void *scratch; /* layer_norm_scratch or batch_norm_scratch bytes */
};

struct device_step {
    enum device_optimizer optimizer;
    double weight_decay, beta1, beta2, epsilon, momentum;
    const struct device_now *now;
    const double *loss; /* device; where it is not finite nothing is stepped. NULL: step in any case */
    const double *clip; /* device: factor of the gradient, before weight decay. NULL: 1 */
};

struct device_ops {
    const char *name; /* "reference", "cpu" */

    bool unified;           /* all memory is the host's, DEVICE memory too, and operations are done when they return */
    int64_t n_window_float; /* of one array of a window of rows: some such arrays fit in the cache of one core */
    uint32_t codecs;        /* that rows_encode has: bit c for enum device_codec c */
    int64_t n_context;      /* of its own memory: what opening takes, about, before it is opened */
    int64_t n_context_sums; /* likewise what sums_open does besides */
    int64_t
        joined_edges; /* aggregate_sum: rows of up to so many edges have the same bits in one block as in several; 0: none */

    /* --- life and memory: failures are returned at once --- */
    enum status (*open)(int n_thread, struct device **out); /* n_thread 0: all cores */
    void (*close)(struct device *device);
    /* Zeroed bytes, 64-byte aligned at least (2 MiB pages asked for when large); owned by the caller. */
    enum status (*acquire)(struct device *device, enum device_place place, enum memory_category category, size_t n_bytes,
                           void *out);
    void (*release)(struct device *device, enum device_place place, enum memory_category category, void *block, size_t n_bytes);
    /* A host array as operations may read it: a copy, or the array itself. Until giveback it stays where it is and unchanged. */
    enum status (*borrow)(struct device *device, enum memory_category category, const void *host, size_t n_bytes, void *out);
    void (*giveback)(struct device *device, enum memory_category category, const void *host, size_t n_bytes, void *borrowed);

    /* --- copies, and the order of work --- */
    /* Any host memory; done when the call returns, after all that COMPUTE was given before. */
    void (*upload)(struct device *device, void *to, const void *from_host, size_t n_bytes);
    void (*download)(struct device *device, void *to_host, const void *from, size_t n_bytes);
    /* DEVICE or SHARED memory either way; to == from: nothing to do */
    void (*move)(struct device *device, enum device_lane lane, void *to, const void *from, size_t n_bytes);
    void (*fill_zero)(struct device *device, void *to, size_t n_bytes);
    device_mark (*mark)(struct device *device, enum device_lane lane);
    void (*follow)(struct device *device, enum device_lane lane, device_mark mark); /* the lane goes on after the mark */
    bool (*passed)(struct device *device, device_mark mark);                        /* never waits */
    enum status (*wait)(struct device *device, device_mark mark);                   /* the first failure since open, or OK */
    /* While the calling thread itself runs an operation, it calls poll(context) every millisecond or so, between two pieces of it; poll
     * may call operations. Until the next call, NULL: none. Devices that run operations behind the caller's back need none. */
    void (*poll)(struct device *device, void (*poll)(void *context), void *context);
    /* Call run(context, chunk, slot) for each chunk, in any order and at the same time: it calls operations that no other chunk's
     * touch the results of. slot < n_chunk; no two calls at one time have the same */
    void (*chunks_run)(struct device *device, int n_chunk, void (*run)(void *context, int chunk, int slot), void *context);

    /* --- recordings: what COMPUTE is given between record and recorded is kept and not done; replay does it, with what memory holds
     * then. All four NULL: the device has none --- */
    void (*record)(struct device *device);
    /* NULL: it could not be recorded, for which the log has the reason. The caller owns what it returns: forget */
    void *(*recorded)(struct device *device);
    void (*replay)(struct device *device, void *recording);
    void (*forget)(struct device *device, void *recording);

    /* --- sums over neighbours by a library of the vendor's, which must give the same bits in each run. All four NULL: the device has none --- */
    /* From now on blocks that are opened have a matrix, by which aggregate_sum goes. After open, before any block.
     * errors  STATUS_PEER the machine lacks the library */
    enum status (*sums_open)(struct device *device, const struct device_sums *sums);
    /* Memory for the largest of the blocks, as planned and as they are open now; before the first sum. errors  STATUS_NOMEM */
    enum status (*sums_take)(struct device *device, const struct device_sum_sizes *planned);
    /* Bytes of the library's buffer for sums of f columns over a block of this size: as it says; device NULL, or without sums_open: at most, about. */
    size_t (*sums_buffer)(struct device *device, int64_t n_col, int64_t n_row, int64_t n_edge, int64_t f);
    /* Bytes that sums_take takes. */
    size_t (*sums_bytes)(const struct device_sums *sums, const struct device_sum_sizes *most);

    /* --- structure, made once --- */
    enum status (*block_open)(struct device *device, struct device_block *block); /* fills schedule; arrays set by the caller */
    void (*block_close)(struct device *device, struct device_block *block);
    enum status (*csr_open)(struct device *device, struct device_csr *csr);
    void (*csr_close)(struct device *device, struct device_csr *csr);
    /* Bytes that block_open takes for n_block blocks of n_row rows and n_edge edges in sum (within a few per cent, for the
     * memory plan), and csr_open for one matrix. */
    size_t (*block_bytes)(int64_t n_block, int64_t n_row, int64_t n_edge);
    size_t (*csr_bytes)(int64_t n_row, int64_t n_col, int64_t n_value);
    /* Bytes of host memory that csr_open takes until it returns, of category OTHER. */
    size_t (*csr_host_bytes)(int64_t n_row, int64_t n_col, int64_t n_value);

    /* --- dense: w is f_out × f_in, as torch.nn.Linear --- */
    /* y (+)= x · wᵀ (+ bias).  x n × f_in · y n × f_out · bias f_out or NULL */
    void (*linear_forward)(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x, const float *w,
                           const float *bias, bool add, float *y);
    /* grad_x (+)= grad_y · w */
    void (*linear_backward_input)(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *grad_y,
                                  const float *w, bool add, float *grad_x);
    /* grad_w (+)= grad_yᵀ · x over fixed chunks of rows, combined in a fixed order.
     * scratch: linear_scratch(n, f_in, f_out) bytes */
    void (*linear_backward_weight)(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x,
                                   const float *grad_y, void *scratch, bool add, float *grad_w);
    size_t (*linear_scratch)(int64_t n, int64_t f_in, int64_t f_out);
    /* out[c] (+)= Σ_r x[r, c], double sums in fixed chunks (bias gradients). scratch: column_sum_scratch(n, f) bytes */
    void (*column_sum)(struct device *device, int64_t n, int64_t f, const float *x, void *scratch, bool add, float *out);
    size_t (*column_sum_scratch)(int64_t n, int64_t f);
    /* out[0] (+)= Σ_rc x·y, double, fixed chunks (gin's epsilon). scratch as column_sum with f */
    void (*dot)(struct device *device, int64_t n, int64_t f, const float *x, const float *y, void *scratch, bool add,
                float *out);
    /* out[i] = Σ_c chunk[c · n_value + i], chunks added one after another */
    void (*chunks_add)(struct device *device, int64_t n_value, int64_t n_chunk, const float *chunk, float *out);

    /* --- sparse feature rows; values NULL in the call: the csr's own values --- */
    void (*csr_linear_forward)(struct device *device, const struct device_csr *csr, const float *values, int64_t f_out,
                               const float *w, const float *bias, void *scratch, float *y);
    void (*csr_linear_backward_weight)(struct device *device, const struct device_csr *csr, const float *values, int64_t f_out,
                                       const float *grad_y, void *scratch, float *grad_w);
    size_t (*csr_linear_scratch)(int64_t n_col, int64_t f_out); /* for wᵀ and grad_wᵀ */
    /* y[row] += value · table[k] for the k-th row with a column of its own. table n_embedded × f · y n_row × f */
    void (*csr_embed_forward)(struct device *device, const struct device_csr *csr, const float *values, int64_t f,
                              const float *table, float *y);
    /* grad_table[k] = value · grad_y[row] */
    void (*csr_embed_backward)(struct device *device, const struct device_csr *csr, const float *values, int64_t f,
                               const float *grad_y, float *grad_table);
    /* out[e] = dropout of the stored value at (row, column): the same mask as on a dense row. out n_value + n_embedded */
    void (*csr_dropout)(struct device *device, const struct device_csr *csr, const struct device_activate *activate,
                        float *out);
    /* Dense rows of the csr, all columns: out n_row × (n_col + the embedded ones). The csr need not be open; may take memory and give it
     * back: not for epochs */
    void (*csr_dense)(struct device *device, const struct device_csr *csr, float *out);

    /* --- pointwise; x and y may be the same array --- */
    void (*activate_forward)(struct device *device, int64_t n, int64_t f, const struct device_activate *activate,
                             const float *x, float *y);
    /* grad_x (+)= grad_y · dropout'·act'; from `y` (the saved output) but gelu, which needs `x` (else NULL). */
    void (*activate_backward)(struct device *device, int64_t n, int64_t f, const struct device_activate *activate,
                              const float *x, const float *y, const float *grad_y, bool add, float *grad_x);
    void (*bias_add)(struct device *device, int64_t n, int64_t f, const float *x, const float *bias, float *y);
    /* out = a·x + b·y; y may be NULL when b is 0. out may be x or y */
    void (*axpby)(struct device *device, int64_t n_value, float a, const float *x, float b, const float *y, float *out);
    /* out = y + (1 + eps[0])·x, eps on the device (gin); y NULL: 0. out may be x or y */
    void (*eps_add)(struct device *device, int64_t n_value, const float *eps, const float *x, const float *y, float *out);

    /* to[r, c] (+)= from[r, c] for f columns of rows that are from_width and to_width long: pointers at the first of them */
    void (*columns_copy)(struct device *device, int64_t n, int64_t f, const float *from, int64_t from_width, float *to,
                         int64_t to_width, bool add);
    /* out = the greater of x and y; NaN where either is */
    void (*max_forward)(struct device *device, int64_t n_value, const float *x, const float *y, float *out);
    /* grad goes to x where x is out, else to y, and 0 to the other; grad_x, grad_y NULL: not wanted */
    void (*max_backward)(struct device *device, int64_t n_value, const float *x, const float *out, const float *grad_out,
                         bool add_x, float *grad_x, bool add_y, float *grad_y);

    /* --- one number per row --- */
    /* out[r] = 1 / max(‖x[r]‖, 1e-12); out n */
    void (*inverse_norm)(struct device *device, int64_t n, int64_t f, const float *x, float *out);
    /* grad_x (+)= -grad · out³ · x, 0 where ‖x[r]‖ is below 1e-12; grad, out n */
    void (*inverse_norm_backward)(struct device *device, int64_t n, int64_t f, const float *x, const float *out,
                                  const float *grad, bool add, float *grad_x);
    /* y[r] (+)= scale[r] · x[r]; scale n. y may be x */
    void (*rows_multiply)(struct device *device, int64_t n, int64_t f, const float *scale, const float *x, bool add, float *y);
    /* out[r] (+)= ⟨x[r], y[r]⟩; out n */
    void (*rows_dot)(struct device *device, int64_t n, int64_t f, const float *x, const float *y, bool add, float *out);

    /* --- layer norm over each row's f columns, epsilon 1e-5; mean_rstd n × 2 is saved for backward --- */
    void (*layer_norm_forward)(struct device *device, int64_t n, int64_t f, const float *x, const float *weight,
                               const float *bias, float *mean_rstd, float *y);
    void (*layer_norm_backward)(struct device *device, const struct device_norm_backward *how);
    size_t (*layer_norm_scratch)(int64_t n, int64_t f);

    /* --- batch norm of each column over all parts' rows, epsilon 1e-5. Parts' sums are 1 + 2f doubles: the rows they are over,
     * then two per column. mean_rstd: f means, then f times 1/√(variance + epsilon), double --- */
    /* One part's statistics.h: rows, means, Σ (x - mean)². scratch: batch_norm_scratch(n, f) bytes */
    void (*batch_norm_statistics)(struct device *device, int64_t n, int64_t f, const float *x, void *scratch,
                                  double *statistics);
    /* left = the statistics of left's and right's rows together (statistics.h) */
    void (*statistics_merge)(struct device *device, int64_t f, double *left, const double *right);
    /* Fill in mean_rstd from all rows' statistics, which move the running ones on by `momentum` (the variance unbiased),
     * where there are any (else NULL); statistics NULL: from the running ones as they are. */
    void (*batch_norm_begin)(struct device *device, int64_t f, const double *statistics, double momentum, float *running_mean,
                             float *running_var, double *mean_rstd);
    /* y = x̂ · weight + bias, x̂ = (x - mean) · rstd */
    void (*batch_norm_forward)(struct device *device, int64_t n, int64_t f, const float *x, const double *mean_rstd,
                               const float *weight, const float *bias, float *y);
    /* One part's rows, Σ grad_y, Σ grad_y · x̂; these are its grad_bias and grad_weight. grad_x is not touched */
    void (*batch_norm_sums)(struct device *device, const struct device_norm_backward *how, double *sums);
    /* grad_x (+)= weight · rstd · (grad_y - mean(grad_y) - x̂ · mean(grad_y · x̂)), means from all parts' sums.
     * grad_x may be grad_y */
    void (*batch_norm_backward)(struct device *device, const struct device_norm_backward *how, const double *sums);
    size_t (*batch_norm_scratch)(int64_t n, int64_t f);

    /* --- aggregation: payload x is n_col × f --- */
    /* out[row] (+)= Σ weight · x[col], edges of a row added one after another with fused multiply-add in ascending column
     * order (a hub row in pieces of DEVICE_HUB_EDGES, each from 0, added to the start in order). */
    void (*aggregate_sum)(struct device *device, const struct device_block *block, const struct device_aggregate *how,
                          int64_t f, const float *x, float *out);
    /* Running maximum with its place: arg[row, c] = arg_base + col of the first greatest element so far.
     * begin: rows of the block start empty (out -inf, arg UINT32_MAX) or, where `self` (n_own × f) is there, as their own
     * row of it with place arg_base + row; self is NULL without begin. */
    void (*aggregate_max)(struct device *device, const struct device_block *block, uint32_t arg_base, bool begin,
                          const float *self, int64_t f, const float *x, float *out, uint32_t *arg);
    /* Rows that had no neighbour (arg UINT32_MAX) become 0. */
    void (*aggregate_max_finish)(struct device *device, int64_t n, int64_t f, const uint32_t *arg, float *out);
    /* grad_x n_col × f = Σ over the block's rows, in order, of grad_out where arg is arg_base + col (overwrites);
     * by `arg` alone: a row's own place need not be among its edges. */
    void (*aggregate_max_backward)(struct device *device, const struct device_block *block, uint32_t arg_base, int64_t f,
                                   const uint32_t *arg, const float *grad_out, float *grad_x);
    /* --- attention over in-neighbours, block after block; no array of edges × heads, ever --- */
    /* Add a block's edges to the rows' running softmax; out (n_own × n_head·n_column) holds Σ μ exp(score - m) · value until
     * attention_finish. A row's edges in ascending column order, the maximum raised once per run of 32 of them.
     * Of the target its query is read. */
    void (*attention_forward)(struct device *device, const struct device_attention_rows *rows,
                              const struct device_attention_state *state, float *out);
    /* Divide out, positive and positive_weight by Σ; rows without edges become 0. */
    void (*attention_finish)(struct device *device, int64_t n, const struct device_attention *how,
                             const struct device_attention_state *state, float *out);
    /* Fill in D. ADD: grad_query (+)= (1 - slope) · (⟨grad_out, positive⟩ - D · positive_weight), no edge read. */
    void (*attention_backward_begin)(struct device *device, int64_t n, const struct device_attention *how,
                                     const float *grad_out, const float *out, const struct device_attention_state *state,
                                     bool add, float *grad_query);
    /* All but ADD: gradients of own rows' queries from one block of in-edges (begin overwrites, else adds).
     * MLP: grad_att likewise, n_head × n_column, over fixed chunks of rows (NULL: not wanted).
     * scratch: attention_scratch(n_row of the block, how) bytes */
    void (*attention_backward_query)(struct device *device, const struct device_attention_rows *rows, void *scratch,
                                     float *grad_query, float *grad_att);
    size_t (*attention_scratch)(int64_t n_row, const struct device_attention *how);
    /* Gradients of own rows as sources, from one block of the transposed graph, whose columns are their destinations (begin
     * overwrites, else adds). grad_key: shaped as the source's key, NULL for MLP. */
    void (*attention_backward_source)(struct device *device, const struct device_attention_rows *rows, float *grad_value,
                                      float *grad_key);
    /* out[r, h] = Σ_c x[r, h, c] · w[h, c]; x n × n_head·n_column, w n_head × n_column */
    void (*head_dot)(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *x, const float *w,
                     float *out);
    /* grad_x[r, h, c] (+)= grad[r, h] · w[h, c] */
    void (*head_dot_backward_input)(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *w,
                                    const float *grad, bool add, float *grad_x);
    /* grad_w[h, c] (+)= Σ_r grad[r, h] · x[r, h, c], double sums in fixed chunks. scratch: column_sum_scratch(n,
     * n_head·n_column) bytes */
    void (*head_dot_backward_weight)(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *x,
                                     const float *grad, void *scratch, bool add, float *grad_w);
    /* out[r, c] = (1/n_head) Σ_h x[r, h, c], heads in ascending order; and grad_x[r, h, c] (+)= grad[r, c] / n_head */
    void (*head_mean)(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *x, float *out);
    void (*head_mean_backward)(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *grad, bool add,
                               float *grad_x);

    /* --- sums by relation, of blocks with types; a row's edges of one type are added up first, in the block's order --- */
    /* out[row, b] += Σ_e comp[type, b] · weight · x[col]; out n_own × n_base × f */
    void (*relation_sum)(struct device *device, const struct device_relation *how, float *out);
    /* grad_comp[t, b] (+)= Σ_row ⟨Σ_e of type t weight · x[col], y[row, b]⟩, in double over fixed chunks of rows.
     * y n_own × n_base × f · scratch: relation_dot_scratch(n_relation, n_base) bytes; comp is not read */
    void (*relation_dot)(struct device *device, const struct device_relation *how, const float *y, bool add, void *scratch,
                         float *grad_comp);
    size_t (*relation_dot_scratch)(int64_t n_relation, int64_t n_base);
    /* out[j, i] = x[i, j]: rows of c columns.  x a × b × c · out b × a × c */
    void (*swap_axes)(struct device *device, int64_t a, int64_t b, int64_t c, const float *x, float *out);

    /* out[r] = factor · x[rows[r]], with factor 1 bit for bit, whatever the elements of 4 bytes are: pack a payload.
     * rows n_row (device) */
    void (*rows_gather)(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor, const float *x,
                        float *out);
    /* out[rows[r]] += factor · x[r]; rows distinct (NULL: all n_row rows in place) */
    void (*rows_add)(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor, const float *x,
                     float *out);

    /* Write rows down, n_row × codec_row_bytes(codec, f) bytes, and read them again: out n_row × f. */
    void (*rows_encode)(struct device *device, const struct device_coding *how, void *out);
    void (*rows_decode)(struct device *device, enum device_codec codec, int64_t n_row, int64_t f, const void *from, float *out);

    /* --- blocks made of others for one halo pass: `out` is filled in when the call returns, its arrays, which lie in scratch, when
     * COMPUTE comes to it; they hold until scratch is written again. out->n_edge: the most that there can be --- */
    /* The edges whose column is listed in kept (n_kept, ascending; device): its place there is their column in out, which has the
     * block's rows. scratch: block_scratch(n_row, n_col, n_edge, bytes of an edge) */
    void (*block_sample)(struct device *device, const struct device_block *block, int64_t n_kept, const uint32_t *kept,
                         void *scratch, struct device_block *out);
    /* All edges from their other ends: row c of out has the block's rows (where it lists them, those that it lists) with an edge to
     * column c, of n_own rows. scratch: block_scratch(n_col, n_row, n_edge, bytes of an edge) */
    void (*block_transpose)(struct device *device, const struct device_block *block, int64_t n_own, void *scratch,
                            struct device_block *out);
    size_t (*block_scratch)(int64_t n_row, int64_t n_col, int64_t n_edge, size_t edge_bytes);

    /* --- loss and scores --- */
    /* The gradient, where it is wanted, and in `score` (device) the sums over the rows. */
    void (*loss)(struct device *device, const struct device_scoring *how, struct device_score *score);
    size_t (*score_scratch)(int64_t n);
    /* out n × (f + c) = x | the labels of rows of the split that are not drawn, one column per class, 0 on all other rows */
    void (*labels_append)(struct device *device, const struct device_labels *how, int64_t f, const float *x, float *out);
    /* Rows of the split that are drawn. */
    void (*draw_count)(struct device *device, const struct device_labels *how, double *count);
    /* to[i] += from[i] */
    void (*doubles_add)(struct device *device, int64_t n, const double *from, double *to);
    /* sums[0 … 2] += Σ a², Σ b², Σ (a − b)²: one element after another, in double */
    void (*floats_compare)(struct device *device, int64_t n, const float *a, const float *b, double *sums);
    /* sum[0] += Σ x², in double, in an order that depends on n alone */
    void (*squares_add)(struct device *device, int64_t n, const float *x, double *sum);
    /* now's grad_norm = √squares[0], and clip = most / (grad_norm + 1e-6), at most 1: as torch.nn.utils.clip_grad_norm_ */
    void (*clip_factor)(struct device *device, double most, const double *squares, struct device_now *now);

    /* --- optimiser: w, grad, m, v n_value each (sgd: m only, and only with momentum) --- */
    void (*step)(struct device *device, const struct device_step *how, int64_t n_value, const float *grad, float *w, float *m,
                 float *v);
};

/* Memory of a device that is not the host's. */
struct device_capacity {
    char name[96];                     /* of the device, for messages: "GPU 0 (NVIDIA H100)" */
    int64_t n_bytes;                   /* all of it; 0: not known, or the host's */
    int64_t n_context;                 /* what opening took: the context, modules, workspaces of libraries */
    uint32_t n_sharing;                /* workers that it is split between, this one included */
    struct library_versions libraries; /* of what it uses */
};

/* What one worker may take of it; 0: not known. */
static inline int64_t device_share(const struct device_capacity *capacity)
{
    return capacity->n_sharing > 1 ? capacity->n_bytes / capacity->n_sharing : capacity->n_bytes;
}

/* Every device in the list starts with its table. */
struct device {
    const struct device_ops *ops;
    struct device_capacity capacity;
    int64_t n_wait;   /* how often the host has waited for work; 0 where operations are done when they return */
    int64_t n_replay; /* recordings replayed */
};

/* Wait for all that COMPUTE was given. errors  the first failure since open */
static inline enum status device_sync(struct device *device)
{
    return device->ops->wait(device, device->ops->mark(device, DEVICE_LANE_COMPUTE));
}

extern const struct device_ops device_reference;
extern const struct device_ops device_cpu;
extern const struct device_ops device_cuda; /* in trainer-cuda.so; emulated (tests/emulator), in programs of tests, too */
extern const struct device_ops
    device_cuda_module; /* its name and sizes, and `open`: of the rest only what is opened has a table */

/* The table called `name` ("auto": the cpu's). errors  STATUS_CONFIG no such device */
enum status device_find(const char *name, const struct device_ops **out);

#endif
