/* Arguments of the operations of the device table (models/device/device.h): edges, features, rows of payloads, and
 * parameters.
 *
 * Pointers are device pointers unless they say host; the structs themselves are host memory.
 */
#ifndef MODELS_DEVICE_ARGS_H
#define MODELS_DEVICE_ARGS_H

#include "models/tile/tile.h"
#include "protocol/base/random.h"
#include "protocol/wire/embedded.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A row of more edges than these in one block is added in pieces of as many: each from 0, then to the row's sum. */
#define DEVICE_PIECE_EDGES ((int64_t)256)

/* A row of more edges than these in one block is a hub row, whose pieces are first added up to sums of as many. */
#define DEVICE_HUB_EDGES ((int64_t)1 << 16)

/* In a column of merged blocks: from here on edges are summed from 0 and then added to the row's sum, as of a block
 * or piece; or they go on with the row's sum, behind a piece; or, with both marks, they are the next piece of a block
 * whose sum DEVICE_BORDER began, and are added to that. Columns are below both. */
#define DEVICE_BORDER 0x80000000U
#define DEVICE_BACK 0x40000000U
#define DEVICE_MARKS (DEVICE_BORDER | DEVICE_BACK)

/* Row r of a list; itself where there is no list. */
static inline int64_t device_listed(const uint32_t *list, int64_t r)
{
    return list != NULL ? (int64_t)list[r] : r;
}

/* Edges of one block on the device: row r of the block adds payload rows cols[indptr[r] … indptr[r+1]) to row rows[r]
 * (row r where rows is NULL) of the output, in the order of a row's edges: that of the sources' rows, whatever their
 * columns. */
struct device_block {
    int64_t n_row;
    int64_t n_col;
    int64_t n_edge;
    const uint32_t *rows;
    const int64_t *indptr;
    const uint32_t *cols;
    const uint16_t
        *types; /* n_edge: relations, ascending in a row; columns ascend in each run of one. NULL: untyped */
    union {
        /* n_edge: factors of the edges' rows in sums (not in maxima and attention; with types only in relation sums).
         * NULL: 1 */
        const float *weights;
        /* with edge_table n_edge: each edge's row of it. A block made of another takes 4 bytes an edge over,
         * whichever they are */
        const uint32_t *edge_rows;
    };
    /* features of edges, which only attention reads (device_attention.n_edge_column): all blocks made from a part's
     * have its table. NULL: edges without features */
    const float *edge_table;
    /* several blocks merged whose sums are apart: the first edge of each but the first has DEVICE_BORDER set */
    bool bordered;
    bool marked;  /* several blocks merged: pieces of rows of more than DEVICE_PIECE_EDGES edges are by marks alone */
    bool is_part; /* rows of another block, for a sum: without a schedule, though some may be long */
    void *schedule; /* the device's own: row ranges of even work, hub rows; made by block_open */
    /* the device's own, where sums_open was called: the block as a library takes it; made by block_open */
    void *matrix;
};

/* The end of the edges of one relation that begin at e. */
static inline int64_t device_relation_end(const struct device_block *block, int64_t e, int64_t end)
{
    int64_t last = e;
    while (last < end && block->types[last] == block->types[e]) {
        last++;
    }
    return last;
}

/* The end of the edges of a row, from `begin` on, that are added in pieces, or where device_run_goes_on edge by edge
 * to the row's sum: of a merged row those up to the next mark. */
static inline int64_t device_run_end(const struct device_block *block, int64_t begin, int64_t end)
{
    int64_t e = block->marked ? begin + 1 : end;
    while (e < end && (block->cols[e] & DEVICE_MARKS) == 0) {
        e++;
    }
    return e;
}

static inline bool device_run_goes_on(const struct device_block *block, int64_t begin)
{
    return block->marked && (block->cols[begin] & DEVICE_BORDER) == 0;
}

/* Sparse feature rows: n_row × n_col, CSR. `by_column` is the device's own transpose for weight gradients (made by
 * csr_open). Some rows may instead have a column of their own, beside the n_col that are shared, and in it a one and
 * nothing else: an embedding. Values given for a csr's own are n_value, and behind them n_embedded, one for each such
 * row. */
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

/* The number of a shared column among all. */
static inline uint32_t device_csr_column(const struct device_csr *csr, uint32_t shared)
{
    return csr->embedded != NULL ? (uint32_t)embedded_column(csr->embedded, shared) : shared;
}

/* Host memory: where each column's values begin (n_col + 1 numbers, 0 before), and of each its row and its place. */
static inline void device_csr_columns(const struct device_csr *csr, int64_t *indptr, uint32_t *rows,
                                      uint32_t *position)
{
    for (int64_t e = 0; e < csr->indptr[csr->n_row]; e++) {
        indptr[csr->cols[e] + 1]++;
    }
    for (int64_t c = 0; c < csr->n_col; c++) {
        indptr[c + 1] += indptr[c];
    }
    for (int64_t r = 0; r < csr->n_row; r++) { /* columns begin one place further while they are filled */
        for (int64_t e = csr->indptr[r]; e < csr->indptr[r + 1]; e++) {
            int64_t at = indptr[csr->cols[e]]++;
            rows[at] = (uint32_t)r;
            position[at] = (uint32_t)e;
        }
    }
    memmove(indptr + 1, indptr, (size_t)csr->n_col * sizeof *indptr);
    indptr[0] = 0;
}

/* Values that change from epoch to epoch, in device memory: operations read them by pointer, so that their arguments
 * stay the same. */
struct device_now {
    double lr;                         /* of the optimiser's step */
    double correction_1, correction_2; /* 1 − β₁ᵗ and 1 − β₂ᵗ for step t = 1, 2, … */
    /* that the training loss is a mean over: rows, the sum of their weights, or of rows of labels these */
    double n_loss_row;
    double grad_norm, clip; /* norm of all gradients together, and their factor in the step: clip_factor makes both */
    uint32_t epoch;         /* of all random draws */
    uint32_t not_finite;    /* the greatest number of a step that found one; 0: none has */
};

/* Encoding of payload rows: an element in 32, 16, 8, 4 or 2 bits. */
enum device_codec { DEVICE_CODEC_FP32, DEVICE_CODEC_BF16, DEVICE_CODEC_INT8, DEVICE_CODEC_INT4, DEVICE_CODEC_INT2 };
#define DEVICE_CODECS_ALL ((2U << DEVICE_CODEC_INT2) - 1)

/* Rows to encode, each by itself: row r of out is factor · x[rows[r]], its elements rounded up or down at random,
 * without a bias (models/device/codec.h). */
struct device_coding {
    enum device_codec codec; /* not FP32 */
    int64_t n_row, f;
    const uint32_t *rows; /* n_row; NULL: row r */
    float factor;
    const void *x; /* rows of f floats, or of BF16 as the codec writes them */
    bool is_bf16;
    struct random_key key;        /* element (r, c) is rounded by the draw of (node[rows[r]], c) */
    const struct device_now *now; /* as device_activate */
    const uint32_t *node;         /* dataset node ids of x's rows */

    /* Error feedback, with a factor of 1: row r's last rounding error, at residual_rows[r], is added to it, and
     * residual_out gets the rounding error of the sum: the sum minus its decoded value, 0 if that is not finite.
     * residual_out may be residual; both NULL: none */
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

/* y = dropout_p(act(x)): element (r, c) is dropped when random_u32(key, node[r], c) < random_drop_threshold(p), else
 * × 1/(1-p). */
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

/* y (+)= x · wᵀ + bias with w f_out × f_in, as torch.nn.Linear; transposed: y (+)= x · w with w f_in × f_out.
 * x n × f_in · y n × f_out */
struct device_linear {
    int64_t n, f_in, f_out;
    const float *x, *w;
    bool transposed;
    bool add;
    const float *bias; /* f_out; NULL: 0 */
    void *scratch;     /* DEVICE_BYTES_LINEAR; NULL: none, which is slower */
};

/* Sums of n × f elements over rows. With factors a row has n_head heads of f / n_head columns, and a number for
 * each. */
struct device_column_sum {
    int64_t n, f;
    const float *x;
    const float *factor; /* n × n_head; NULL: 1 */
    int64_t n_head;
    bool add;
    void *scratch; /* DEVICE_BYTES_COLUMN_SUM */
};

/* A linear map of sparse rows. Backward reads values, f_out and scratch. */
struct device_csr_linear {
    const float *values; /* n_value + n_embedded; NULL: the csr's own */
    int64_t f_out;
    const float *w;     /* f_out × n_col; NULL: y is added to as it is */
    const float *bias;  /* f_out; NULL: 0 */
    const float *table; /* n_embedded × f_out: of rows with a column of their own; NULL: not read */
    void *scratch;      /* DEVICE_BYTES_CSR_LINEAR */
};

/* A maximum over one block's neighbours. */
struct device_max {
    uint32_t arg_base;
    bool begin; /* rows of the block start empty (out -inf, arg UINT32_MAX), or from self */
    /* n_own × f, with begin alone: rows start as their own row, whose place is arg_base + row; NULL: empty */
    const float *self;
    int64_t n_finish; /* after the last block: own rows, of which those without a neighbour become 0; else 0 */
};

/* What becomes of a row's sum before it is stored: out = act(sum + bias), each result rounded to BF16 where a step of
 * its own would store it so. */
struct device_epilogue {
    bool is_there; /* else all is 0 */
    bool rounds_sum, rounds_biased;
    bool is_bf16;      /* out is rows of BF16, rounded to the nearest */
    const float *bias; /* f; NULL: none */
    struct device_activate activate;
};

/* Scales around the sum of one aggregate: out = row_scale · (self_scale · self + Σ weight · col_scale · x). A NULL
 * scale is 1; a NULL self adds nothing. */
struct device_aggregate {
    const float *col_scale;  /* n_col of the block */
    bool is_bf16;            /* x and self are rows of BF16 as the codec writes them (codec.h), not of floats */
    const void *self;        /* n_own × f; read only when begin */
    const float *self_scale; /* n_own */
    const float *row_scale;  /* n_own; applied only when finish */
    bool begin;              /* start from the self term; the block must list every row (rows NULL) */
    bool apart;              /* not with begin: the block's edges are summed separately, from 0, and then added */
    bool finish;             /* apply row_scale at the end; likewise */
    struct device_epilogue epilogue; /* device_ops.takes_epilogue; with begin and finish */
    void *panel; /* DEVICE_BYTES_PANEL of as many columns as the block has, or more; NULL: none is there */
};

/* Sums over neighbours by a vendor library instead of the device's own kernels: their sizes. */
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

/* The score of an edge from row j to row i, head by head. A softmax over i's in-edges then weighs the values of the
 * j. */
enum device_score_kind {
    DEVICE_SCORE_ADD, /* leaky(key_j + query_i [+ ⟨v, f_ij⟩]): one number per head each (GAT) */
    DEVICE_SCORE_MLP, /* Σ_c att_c · leaky(value_j + query_i [+ W f_ij]): there are no keys (GATv2) */
    /* scale · ⟨key_j | f_ij, query_i⟩, and values are value_j | f_ij: keys are as wide as values, queries and outputs
     * by D columns wider (transformer) */
    DEVICE_SCORE_DOT,
    /* key_j · ⟨value_j, query_i⟩: a key is one number per head, 1 / ‖value_j‖ for a cosine (AGNN) */
    DEVICE_SCORE_COSINE
};

/* One attention: n_head heads of n_column value columns each; leaky is the leaky relu of slope `slope`. */
struct device_attention {
    enum device_score_kind score;
    int64_t n_head, n_column;
    /* D: columns of edges' features f; 0: scores read none. Else every edge has a row of its block's edge_table,
     * loops too: with_self is not set */
    int64_t n_edge_column;
    const float *edge; /* ADD: v, n_head × D · MLP: Wᵀ, D × n_head·n_column · DOT: NULL */
    float slope;
    float scale;      /* DOT */
    float shift;      /* added to the score of every edge of the block */
    const float *att; /* MLP: n_head × n_column */
    double p; /* a coefficient is dropped when random_edge_u32(key, i, j, head) < random_drop_threshold(p), …
                               * … else × 1/(1-p), after the softmax; 0: no dropout, key and node ids unused */
    struct random_key key;
    const struct device_now *now; /* as device_activate */
    const uint32_t *row_node;     /* n_own: dataset ids of own rows */
    const uint32_t *col_node;     /* n_col: of payload rows */
};

/* Columns per head of outputs, and of queries that are as wide. */
static inline int64_t device_attention_columns(const struct device_attention *how)
{
    return how->n_column + (how->score == DEVICE_SCORE_DOT ? how->n_edge_column : 0);
}

/* Floats of `edge`; 0: there is none. */
static inline int64_t device_attention_edge_floats(const struct device_attention *how)
{
    int64_t n = how->n_head * how->n_edge_column;
    return how->score == DEVICE_SCORE_ADD ? n : how->score == DEVICE_SCORE_MLP ? n * how->n_column : 0;
}

/* Rows at the source end of edges. */
struct device_attention_source {
    const float *value; /* n × n_head·n_column */
    const float *key;   /* ADD, COSINE: n × n_head · DOT: n × n_head·n_column · MLP: NULL */
};

/* Rows at the destination end. */
struct device_attention_target {
    const float *query;    /* ADD: n × n_head · DOT: as wide as outputs · else n × n_head·n_column */
    const float *softmax;  /* n × n_head × 2: (L, D) */
    const float *grad_out; /* as wide as outputs: n × n_head·n_column, DOT n × n_head·(n_column + n_edge_column) */
};

/* Arrays of own rows that forward saves for backward, besides the output. */
struct device_attention_state {
    float *softmax; /* n_own × n_head × 2, in three stages. While blocks are added: row max m, sum Σ exp(score - m).
                             * After finish: log-sum-exp L = m + ln Σ (+inf for a row without edges), 0.
                             * After backward_begin: L, D = ⟨grad_out, out⟩ */
    /* n_own × n_head·n_column, ADD in training without features of edges, else NULL: out's sum only over the edges
     * with key_j + query_i > 0 */
    float *positive;
    float *positive_weight; /* n_own × n_head: the softmax's sum over the same edges */
};

/* One attention over one block, whose rows are destinations (forward and gradients of queries) or sources. */
struct device_attention_rows {
    const struct device_attention *how;
    const struct device_block *block;
    bool begin; /* rows start empty, … */
    /* … or with the edge between them and their own row; the block then lists every row (rows NULL) */
    bool with_self;
    struct device_attention_source source,
        self_source; /* one end: own rows, or the payload's and for own edges own rows again */
    struct device_attention_target target, self_target; /* the other end, likewise */
    bool last; /* forward: no block follows. A device may then finish the rows that this one lists */
};

/* Sums by relation over one block with types. */
struct device_relation {
    const struct device_block *block;
    int64_t n_relation, n_base;
    int64_t f, stride; /* columns of a payload row that count; floats from one row to the next */
    const float *x;    /* n_col rows */
    const float *comp; /* n_relation × n_base; NULL: base b is relation b */
    bool picks;        /* rows of x are n_base × f, of which each edge takes its type's */
};

enum device_loss { DEVICE_LOSS_CROSS_ENTROPY, DEVICE_LOSS_BCE, DEVICE_LOSS_MSE, DEVICE_LOSS_MAE, DEVICE_LOSS_HUBER };

/* Sums over one part's rows of one split, in device memory. Doubles: loss; counts are exact whole numbers. */
struct device_score {
    double loss;      /* Σ over the split's rows (of rows of labels: and those that are there) */
    double n_correct; /* single label: argmax equals the label (first of equals) · multi: unused */
    double n_true_positive, n_false_positive, n_false_negative; /* multi label: logit > 0 */
    double n_row;                                               /* labelled rows of the split */
    double weight; /* of these rows, that the mean loss is over (of rows of labels: those that are there) */
};

enum device_optimizer { DEVICE_OPTIMIZER_SGD, DEVICE_OPTIMIZER_ADAM, DEVICE_OPTIMIZER_ADAMW };

/* A loss over the rows of one split. Labels: int32 n (-1 none) for cross entropy, float n × c for all others (NaN:
 * unknown). With weights w and smoothing ε the loss of a row of class y is (1 - ε) w_y · -log p_y + ε/c Σ_k w_k ·
 * -log p_k, and its weight w_y; bce's of a label with w is -w t log σ(z) - (1 - t) log(1 - σ(z)), and its weight 1.
 * Of numbers, with e = z - t for each label that is there: mse e², mae |e|, huber e²/2 where |e| ≤ δ, else δ (|e| -
 * δ/2).
 * source  torch.nn.CrossEntropyLoss (weight, label_smoothing), BCEWithLogitsLoss (pos_weight), MSELoss, L1Loss,
 *         HuberLoss */
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
    struct device_draw drawn; /* p > 0: only over its rows */
    const struct device_now *now;
    /* n × c: d mean loss / d logits on the split's rows, 0 elsewhere; the mean is over now's n_loss_row, 0 as 1.
     * NULL: scores only, and now is unused */
    float *grad;
    void *scratch; /* DEVICE_BYTES_LOSS */
};

/* Pairs of own rows and rows of a part, all with an edge, or all without. A pair's score is the dot product of its
 * two rows; its loss log(1 + exp(−score)) with an edge, else log(1 + exp(score)). Each of the two ends makes its own
 * gradient.
 * source  torch_geometric.nn.GAE.recon_loss, InnerProductDecoder */
struct device_links {
    int64_t n_row, f;
    const int64_t *indptr;  /* n_row + 1 */
    const uint32_t *places; /* the other ends, ascending in a row, of which … */
    uint32_t first, end;    /* … those from first to end - 1 count: place p is row p - first of x */
    bool joined;            /* they have an edge */
    double weight;          /* of each pair's loss */
    const float *own, *x;   /* rows of f columns */
    float *grad;            /* n_row × f */
    void *scratch;          /* DEVICE_BYTES_LOSS: n_row */
};

/* Listed rows of an array of n_x rows and f columns, times the factor. Numbers from n_x on are skipped, and `beyond`
 * (SHARED memory; NULL: the list has no such numbers) becomes `lender`. */
struct device_rows {
    int64_t n_row, f, n_x;
    const uint32_t *rows; /* n_row */
    float factor;
    const float *x;
    uint32_t *beyond, lender;
};

/* Pairs of own rows and rows of a part, ascending by own row, whose scores are the dot products of their rows. */
struct device_pairs {
    int64_t n, f;
    const uint32_t *rows;    /* n: of own */
    const uint32_t *places;  /* n: of x */
    const uint32_t *numbers; /* n: where a pair's score and slope stand; NULL: in the order of pairs */
    const float *own, *x;    /* rows of f columns */
};

/* Rows that are added to listed rows, which may repeat. */
struct device_collect {
    int64_t n, f;
    const uint32_t *rows; /* n */
    int64_t n_row;        /* 0: they are in ascending order, else that there are so many, few */
};

enum device_pair_loss { DEVICE_PAIR_LOSS_BCE, DEVICE_PAIR_LOSS_MARGIN, DEVICE_PAIR_LOSS_CROSS_ENTROPY };

/* Groups of scores, of an edge and of n_negative pairs without one behind it, or of the latter alone. A pair that is
 * left out has the score -INFINITY; m are the group's others.
 *
 *     BCE             log(1 + exp(-s0)) + (1 / m) Σ_k log(1 + exp(s_k))
 *     MARGIN          (1 / m) Σ_k max(0, margin - s0 + s_k)
 *     CROSS_ENTROPY   -s0 + log(exp(s0) + Σ_k exp(s_k)) */
struct device_pair_losses {
    enum device_pair_loss loss;
    int64_t n_group, n_negative;
    bool has_edge; /* BCE alone: else a group has no edge */
    double weight; /* of each group's loss */
    double share;  /* of that, what counts here: the groups' other ends may count the rest */
    float margin;
    float *score;  /* n_group × (has_edge + n_negative): becomes weight · d loss / d score */
    void *scratch; /* DEVICE_BYTES_LOSS: n_group */
};

/* Known labels of rows as input: columns of rows of `split` that are not drawn. One of labels (n) and label_rows (n ×
 * c; NaN is 0) is NULL. */
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
    bool add;                  /* to grad_x */
    bool add_weight, add_bias; /* layer norm: to grad_weight, to grad_bias */
    float *grad_x;             /* layer norm: NULL where it is not wanted */
    float *grad_weight, *grad_bias;
    void *scratch; /* DEVICE_BYTES_LAYER_NORM, DEVICE_BYTES_BATCH_NORM */
};

/* A tile program over rows of nodes, or over edges. What is not read or wanted is NULL. */
struct device_tile {
    const struct tile *tile;
    const float *rows[TILE_ROWS_N]; /* of tile.width */
    const float *param[TILE_N_PARAM];
    float *to[TILE_TARGET_N]; /* rows of tile.target */
    bool add[TILE_TARGET_N];  /* to what is there, else it is overwritten; of edges: not OUT */
    float *grad_param[TILE_N_PARAM];
    bool add_param[TILE_N_PARAM];
    void *scratch; /* DEVICE_BYTES_TILE */
    bool drops; /* dropout is on. Element i of draw d is dropped as attention's coefficients are, of "head" d + i */
    struct random_key key;
    const struct device_now *now; /* as device_activate */
    const uint32_t *row_node;     /* dataset ids of own rows */
};

/* The same over one block's edges, of each row in its order. IN_0 and SCALE_0 are of the source, IN_2, SCALE_2, GRAD
 * and SAVED of the destination. The block's rows are destinations, or with rows_are_sources sources; `rows` of the
 * other end are those of its columns. */
struct device_tile_edges {
    struct device_tile of;
    const struct device_block *block;
    bool rows_are_sources;
    bool with_self; /* with `begin`: each row's edge to itself comes first, with weight 1 and no feature; rows of the
                     * other end are then in self_rows */
    const float *self_rows[TILE_ROWS_N];
    const uint32_t *col_node;
    bool begin;       /* the block lists every row, and begins its results */
    int64_t n_finish; /* after the last block: own rows, whose results are finished; else 0 */
    float factor;     /* of results that are sums, but for what WON picks: a maximum is of what came, however rarely
                       * that is sampled; and its logarithm, of values whose exponentials are added */
    float shift;
    float *saved; /* rows of tile.saved, with OUT */
};

struct device_step {
    enum device_optimizer optimizer;
    double weight_decay, beta1, beta2, epsilon, momentum;
    const struct device_now *now;
    const double *loss; /* device; where it is not finite nothing is stepped. NULL: step in any case */
    const double *clip; /* device: factor of the gradient, before weight decay. NULL: 1 */
    /* device: at least `weight` where a new weight is not finite, `gradient` where its gradient is not, either.
     * NULL: not wanted */
    uint32_t *not_finite;
    uint32_t weight, gradient; /* weight < gradient */
};

#endif
