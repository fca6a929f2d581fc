/* The device table: memory, copies, order of work, and every arithmetic operation a program needs.
 *
 * `reference` is the slow clear truth (plain C, one thread, sums in double), `cpu` the fast one; both must give
 * results that do not depend on thread count: sums over rows go in fixed chunks combined in a fixed order, a row's
 * neighbours are added in the block's order. Pointers named in this file are device pointers (of `acquire` or
 * `borrow`) unless they say host; the structs that describe an operation (device_args.h) are host memory, read before
 * the call returns. Failures of operations are kept: operations return nothing, the first failure stays on the
 * device, later operations do nothing, `wait` returns it. Independent of files, part numbers and the network.
 */
#ifndef MODELS_DEVICE_H
#define MODELS_DEVICE_H

#include "models/device/device_args.h"
#include "protocol/base/libraries.h"
#include "protocol/base/memory.h"
#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device; /* one open device */

/* The place of bytes. */
enum device_place {
    DEVICE_PLACE_DEVICE, /* operations read and write it, the host never (but see `unified`) */
    /* host memory that operations and moves may also use; host and device take turns (mark, wait) */
    DEVICE_PLACE_SHARED
};

/* Work of one lane runs in the order of the calls; lanes run independently. All operations are of COMPUTE; the others
 * are for moves: of payloads (IN, OUT) and of arrays that lie in host memory for a while (FETCH, STORE). */
enum device_lane {
    DEVICE_LANE_COMPUTE,
    DEVICE_LANE_IN,
    DEVICE_LANE_OUT,
    DEVICE_LANE_FETCH,
    DEVICE_LANE_STORE,
    DEVICE_LANE_N
};

/* A point in a lane: after all earlier calls of that lane. 0 has always passed. Nothing is allocated. */
typedef uint64_t device_mark;

/* What linear and linear_backward_weight multiply. BF16: both operands rounded to it. By cuda: TF32 rounds them to 11
 * bits, and TF32X3 takes two such numbers for each. A device without what is asked for multiplies float32. */
enum device_products { DEVICE_PRODUCTS_FP32, DEVICE_PRODUCTS_BF16, DEVICE_PRODUCTS_TF32, DEVICE_PRODUCTS_TF32X3 };

/* A block's name for other processes of the machine. */
struct device_loan {
    uint8_t name[64];
    uint64_t n_bytes; /* 0: it is not lent */
};

/* Memory besides arguments and results, and the sizes that its bytes depend on, in this order. */
enum device_bytes {
    DEVICE_BYTES_BLOCKS,       /* block_open: n_block, n_row, n_edge of all together (right within a few per cent) */
    DEVICE_BYTES_CSR,          /* csr_open: n_row, n_col, n_value */
    DEVICE_BYTES_CSR_HOST,     /* likewise: host memory of category OTHER, until csr_open returns */
    DEVICE_BYTES_LINEAR,       /* scratch of linear and linear_backward_weight: n, f_in, f_out */
    DEVICE_BYTES_COLUMN_SUM,   /* of column_sum and dot: n, f */
    DEVICE_BYTES_CSR_LINEAR,   /* of csr_forward and csr_backward, for wᵀ and grad_wᵀ: n_col, f_out */
    DEVICE_BYTES_LAYER_NORM,   /* n, f */
    DEVICE_BYTES_BATCH_NORM,   /* n, f */
    DEVICE_BYTES_PANEL,        /* of aggregate_sum: n_col at most, f */
    DEVICE_BYTES_ATTENTION,    /* of attention_backward_query: n_row, score, n_head, n_column, n_edge_column */
    DEVICE_BYTES_RELATION_DOT, /* n_relation, n_base */
    DEVICE_BYTES_BLOCK_MADE,   /* of block_sample and block_transpose: n_row, n_col, n_edge, bytes of an edge */
    DEVICE_BYTES_TILE,         /* of tile_rows and tile_edges: device_tile_bytes */
    DEVICE_BYTES_LOSS          /* n */
};
#define DEVICE_BYTES(ops, what, ...) ((ops)->bytes(DEVICE_BYTES_##what, (const int64_t[]){__VA_ARGS__}))

struct device_ops {
    const char *name; /* "reference", "cpu" */

    bool unified; /* all memory is the host's, DEVICE memory too, and operations are done when they return */
    int64_t n_window_float; /* of one array of a window of rows: some such arrays fit in the cache of one core */
    int n_chunk;            /* of a fused chain at most: so many can be worked on at a time */
    uint32_t codecs;        /* that rows_encode has: bit c for enum device_codec c */
    int64_t n_context;      /* of its own memory: about the bytes of opening it, before it is opened */
    int64_t n_context_sums; /* likewise for sums_open */
    /* aggregate_sum: rows of up to so many edges have the same bits in one block as in several; 0: none. */
    int64_t merged_edges;
    /* With products in BF16: linear, linear_backward_weight, column_sum without factors, activate_*, bias_add and
     * axpby take any of their arrays as rows of BF16 (device.bf16). */
    bool takes_bf16;
    bool takes_epilogue;   /* aggregate_sum: activations none, relu and leaky relu */
    bool merges_attention; /* likewise passes of attention and of tile programs (halo_pass_joins) */

    /* --- life and memory: failures are returned at once --- */
    enum status (*open)(int n_thread, struct device **out); /* n_thread 0: all cores */
    void (*close)(struct device *device);
    /* Zeroed bytes, 64-byte aligned at least (2 MiB pages asked for when large); owned by the caller. */
    enum status (*acquire)(struct device *device, enum device_place place, enum memory_category category,
                           size_t n_bytes, void *out);
    void (*release)(struct device *device, enum device_place place, enum memory_category category, void *block,
                    size_t n_bytes);
    /* A host array as operations may read it: a copy, or the array itself. Until giveback it stays where it is and
     * unchanged. */
    enum status (*borrow)(struct device *device, enum memory_category category, const void *host, size_t n_bytes,
                          void *out);
    void (*giveback)(struct device *device, enum memory_category category, const void *host, size_t n_bytes,
                     void *borrowed);

    /* --- copies, and the order of work --- */
    /* From or to any host memory; done when the call returns, after all that COMPUTE was given before. */
    void (*copy)(struct device *device, void *to, const void *from, size_t n_bytes);
    /* DEVICE or SHARED memory either way; to == from: nothing to do */
    void (*move)(struct device *device, enum device_lane lane, void *to, const void *from, size_t n_bytes);
    void (*fill_zero)(struct device *device, void *to, size_t n_bytes);
    device_mark (*mark)(struct device *device, enum device_lane lane);
    void (*follow)(struct device *device, enum device_lane lane,
                   device_mark mark);                             /* the lane goes on after the mark */
    bool (*passed)(struct device *device, device_mark mark);      /* never waits */
    enum status (*wait)(struct device *device, device_mark mark); /* the first failure since open, or OK */
    /* While the calling thread itself runs an operation, it calls poll(context) every millisecond or so, between two
     * pieces of it; poll may call operations. Until the next call, NULL: none. Devices that run operations
     * asynchronously need no poll. */
    void (*poll)(struct device *device, void (*poll)(void *context), void *context);
    /* Call run(context, chunk, slot) for each chunk, in any order and at the same time: it calls operations that no
     * other chunk's touch the results of. slot < n_chunk; no two calls at one time have the same */
    void (*chunks_run)(struct device *device, int n_chunk, void (*run)(void *context, int chunk, int slot),
                       void *context);

    /* --- recordings: operations of COMPUTE between record and recorded are stored and not run; replay runs them, on
     * the memory's contents at that time. All four NULL: not supported --- */
    void (*record)(struct device *device);
    /* NULL: it could not be recorded; the log has the reason. The caller owns what it returns: forget */
    void *(*recorded)(struct device *device);
    void (*replay)(struct device *device, void *recording);
    void (*forget)(struct device *device, void *recording);

    /* --- memory of other processes of this machine. All four NULL: not supported --- */
    /* A block of acquire, with place DEVICE. errors  STATUS_PEER it cannot be lent */
    enum status (*lend)(struct device *device, void *block, size_t n_bytes, struct device_loan *out);
    /* Where moves and rows_take may read it, until `leave`; the lender releases it later. errors  STATUS_PEER */
    enum status (*reach)(struct device *device, const struct device_loan *loan, void *out);
    void (*leave)(struct device *device, void *reached);
    /* rows_gather on a lane; x and rows may be reached; rows from n_x on are skipped (device_rows.beyond) */
    void (*rows_take)(struct device *device, enum device_lane lane, const struct device_rows *how, float *out);

    /* --- sums over neighbours by a vendor library, which must give the same bits in each run. All four NULL: not
     * supported --- */
    /* From now on opened blocks have a matrix, which aggregate_sum uses. After open, before any block.
     * errors  STATUS_PEER the machine lacks the library */
    enum status (*sums_open)(struct device *device, const struct device_sums *sums);
    /* Memory for the largest of the blocks, as planned and as they are open now; before the first sum. errors
     * STATUS_NOMEM */
    enum status (*sums_take)(struct device *device, const struct device_sum_sizes *planned);
    /* Bytes of the library's buffer for sums of f columns over a block of this size: as it says; device NULL, or
     * without sums_open: at most, about. */
    size_t (*sums_buffer)(struct device *device, int64_t n_col, int64_t n_row, int64_t n_edge, int64_t f);
    /* Bytes that sums_take takes. */
    size_t (*sums_bytes)(const struct device_sums *sums, const struct device_sum_sizes *most);

    /* --- structure, made once --- */
    enum status (*block_open)(struct device *device,
                              struct device_block *block); /* fills schedule; arrays set by the caller */
    void (*block_close)(struct device *device, struct device_block *block);
    enum status (*csr_open)(struct device *device, struct device_csr *csr);
    void (*csr_close)(struct device *device, struct device_csr *csr);
    /* Bytes of memory besides arguments and results, for plans without the device itself. enum device_bytes has the
     * purposes, and the sizes that they depend on. DEVICE_BYTES calls it. */
    size_t (*bytes)(enum device_bytes what, const int64_t *size);

    /* --- dense: w is f_out × f_in, as torch.nn.Linear --- */
    /* y (+)= x · wᵀ + bias, or x · w: forward, and the gradient of x */
    void (*linear)(struct device *device, const struct device_linear *how, float *y);
    /* grad_w (+)= grad_yᵀ · x over fixed chunks of rows, combined in a fixed order.
     * scratch: DEVICE_BYTES_LINEAR */
    void (*linear_backward_weight)(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x,
                                   const float *grad_y, void *scratch, bool add, float *grad_w);
    /* out[c] (+)= Σ_r factor · x[r, c], double sums in fixed chunks: gradients of biases and of heads' vectors */
    void (*column_sum)(struct device *device, const struct device_column_sum *how, float *out);
    /* out[0] (+)= Σ_rc x·y, double, fixed chunks (gin's epsilon). scratch as column_sum with f */
    void (*dot)(struct device *device, int64_t n, int64_t f, const float *x, const float *y, void *scratch, bool add,
                float *out);
    /* out[i] = Σ_c chunk[c · n_value + i], chunks added one after another */
    void (*chunks_add)(struct device *device, int64_t n_value, int64_t n_chunk, const float *chunk, float *out);

    /* --- sparse feature rows; values NULL in the call: the csr's own values --- */
    /* y = X · wᵀ + bias, and row by row y += value · table */
    void (*csr_forward)(struct device *device, const struct device_csr *csr, const struct device_csr_linear *how,
                        float *y);
    /* grad_w = grad_yᵀ · X · grad_table[k] = value · grad_y[row]; NULL: not wanted */
    void (*csr_backward)(struct device *device, const struct device_csr *csr, const struct device_csr_linear *how,
                         const float *grad_y, float *grad_w, float *grad_table);
    /* out[e] = dropout of the stored value at (row, column): the same mask as on a dense row. out n_value +
     * n_embedded */
    void (*csr_dropout)(struct device *device, const struct device_csr *csr, const struct device_activate *activate,
                        float *out);
    /* Dense rows of the csr, all columns: out n_row × (n_col + the embedded ones). The csr need not be open; may take
     * memory and give it back: not for epochs */
    void (*csr_dense)(struct device *device, const struct device_csr *csr, float *out);

    /* --- pointwise; x and y may be the same array --- */
    void (*activate_forward)(struct device *device, int64_t n, int64_t f, const struct device_activate *activate,
                             const float *x, float *y);
    /* grad_x (+)= grad_y · dropout'·act'; from `y` (the saved output) but gelu, which needs `x` (else NULL). */
    void (*activate_backward)(struct device *device, int64_t n, int64_t f, const struct device_activate *activate,
                              const float *x, const float *y, const float *grad_y, bool add, float *grad_x);
    void (*bias_add)(struct device *device, int64_t n, int64_t f, const float *x, const float *bias, float *y);
    /* out = (a + eps[0])·x + b·y; eps (device, gin's) and y may be NULL: 0. out may be x or y */
    void (*axpby)(struct device *device, int64_t n_value, float a, const float *eps, const float *x, float b,
                  const float *y, float *out);

    /* to[r, c] (+)= from[r, c] for f columns of rows that are from_width and to_width long: pointers at the first of
     * them */
    void (*columns_copy)(struct device *device, int64_t n, int64_t f, const float *from, int64_t from_width,
                         float *to, int64_t to_width, bool add);
    /* out = the greater of x and y; NaN where either is */
    void (*max_forward)(struct device *device, int64_t n_value, const float *x, const float *y, float *out);
    /* grad goes to x where x is out, else to y, and 0 to the other; grad_x, grad_y NULL: not wanted */
    void (*max_backward)(struct device *device, int64_t n_value, const float *x, const float *out,
                         const float *grad_out, bool add_x, float *grad_x, bool add_y, float *grad_y);

    /* --- one number per row --- */
    /* out[r] = 1 / max(‖x[r]‖, 1e-12); out n */
    void (*inverse_norm)(struct device *device, int64_t n, int64_t f, const float *x, float *out);
    /* grad_x (+)= -grad · out³ · x, 0 where ‖x[r]‖ is below 1e-12; grad, out n */
    void (*inverse_norm_backward)(struct device *device, int64_t n, int64_t f, const float *x, const float *out,
                                  const float *grad, bool add, float *grad_x);
    /* y[r] (+)= scale[r] · x[r]; scale n. y may be x */
    void (*rows_multiply)(struct device *device, int64_t n, int64_t f, const float *scale, const float *x, bool add,
                          float *y);
    /* out[r] (+)= ⟨x[r], y[r]⟩; out n */
    void (*rows_dot)(struct device *device, int64_t n, int64_t f, const float *x, const float *y, bool add,
                     float *out);

    /* --- layer norm over each row's f columns, epsilon 1e-5; mean_rstd n × 2 is saved for backward --- */
    void (*layer_norm_forward)(struct device *device, int64_t n, int64_t f, const float *x, const float *weight,
                               const float *bias, float *mean_rstd, float *y);
    void (*layer_norm_backward)(struct device *device, const struct device_norm_backward *how);

    /* --- batch norm of each column over all parts' rows, epsilon 1e-5. Parts' sums are 1 + 2f doubles: the rows they
     * are over, then two per column. mean_rstd: f means, then f times 1/√(variance + epsilon), double --- */
    /* One part's statistics.h: rows, means, Σ (x - mean)². scratch: DEVICE_BYTES_BATCH_NORM */
    void (*batch_norm_statistics)(struct device *device, int64_t n, int64_t f, const float *x, void *scratch,
                                  double *statistics);
    /* Fill in mean_rstd from all rows' statistics, which move the running ones on by `momentum` (the variance
     * unbiased), where there are any (else NULL); statistics NULL: from the running ones as they are. */
    void (*batch_norm_begin)(struct device *device, int64_t f, const double *statistics, double momentum,
                             float *running_mean, float *running_var, double *mean_rstd);
    /* y = x̂ · weight + bias, x̂ = (x - mean) · rstd */
    void (*batch_norm_forward)(struct device *device, int64_t n, int64_t f, const float *x, const double *mean_rstd,
                               const float *weight, const float *bias, float *y);
    /* One part's rows, Σ grad_y, Σ grad_y · x̂; these are its grad_bias and grad_weight. grad_x is not touched */
    void (*batch_norm_sums)(struct device *device, const struct device_norm_backward *how, double *sums);
    /* grad_x (+)= weight · rstd · (grad_y - mean(grad_y) - x̂ · mean(grad_y · x̂)), means from all parts' sums.
     * grad_x may be grad_y */
    void (*batch_norm_backward)(struct device *device, const struct device_norm_backward *how, const double *sums);

    /* --- aggregation: payload x is n_col × f --- */
    /* out[row] (+)= Σ weight · x[col], edges of a row added one after another with fused multiply-add in ascending
     * column order; more than DEVICE_PIECE_EDGES in pieces of as many, each from 0 (D95). */
    void (*aggregate_sum)(struct device *device, const struct device_block *block, const struct device_aggregate *how,
                          int64_t f, const void *x, float *out);
    /* Running maximum with its place: arg[row, c] = arg_base + col of the first greatest element so far. */
    void (*aggregate_max)(struct device *device, const struct device_block *block, const struct device_max *how,
                          int64_t f, const float *x, float *out, uint32_t *arg);
    /* grad_x n_col × f = Σ over the block's rows, in order, of grad_out where arg is arg_base + col (overwrites);
     * by `arg` alone: a row's own place need not be among its edges. */
    void (*aggregate_max_backward)(struct device *device, const struct device_block *block, uint32_t arg_base,
                                   int64_t f, const uint32_t *arg, const float *grad_out, float *grad_x);
    /* --- attention over in-neighbours, block after block; no array of edges × heads, ever --- */
    /* Add a block's edges to the rows' running softmax; out (n_own × n_head·n_column) holds Σ μ exp(score - m) ·
     * value until attention_finish, m: some score that is not far below the greatest. A row's edges in ascending
     * column order. Of the target its query is read. */
    void (*attention_forward)(struct device *device, const struct device_attention_rows *rows,
                              const struct device_attention_state *state, float *out);
    /* Divide out, positive and positive_weight by Σ, but in rows that forward has finished; rows without edges become
     * 0. */
    void (*attention_finish)(struct device *device, int64_t n, const struct device_attention *how,
                             const struct device_attention_state *state, float *out);
    /* Fill in D. ADD where there is positive: grad_query (+)= (1 - slope) · (⟨grad_out, positive⟩ - D ·
     * positive_weight), no edge read. */
    void (*attention_backward_begin)(struct device *device, int64_t n, const struct device_attention *how,
                                     const float *grad_out, const float *out,
                                     const struct device_attention_state *state, bool add, float *grad_query);
    /* All but ADD without features of edges: gradients of own rows' queries from one block of in-edges (begin
     * overwrites, else adds). MLP: grad_att likewise, n_head × n_column, over fixed chunks of rows (NULL: not
     * wanted). ADD, MLP with features of edges: grad_edge, shaped as how->edge, of this block's edges alone (NULL:
     * not wanted). scratch: DEVICE_BYTES_ATTENTION */
    void (*attention_backward_query)(struct device *device, const struct device_attention_rows *rows, void *scratch,
                                     float *grad_query, float *grad_att, float *grad_edge);
    /* Gradients of own rows as sources, from one block of the transposed graph, whose columns are their destinations
     * (begin overwrites, else adds). grad_key: shaped as the source's key, NULL for MLP. */
    void (*attention_backward_source)(struct device *device, const struct device_attention_rows *rows,
                                      float *grad_value, float *grad_key);
    /* out[r, h] = Σ_c x[r, h, c] · w[h, c]; x n × n_head·n_column, w n_head × n_column */
    void (*head_dot)(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *x,
                     const float *w, float *out);
    /* grad_x[r, h, c] (+)= grad[r, h] · w[h, c] */
    void (*head_dot_backward_input)(struct device *device, int64_t n, int64_t n_head, int64_t n_column,
                                    const float *w, const float *grad, bool add, float *grad_x);
    /* to[r, c] = (1/n_head) Σ_h from[r, h, c], heads in ascending order; backward: to[r, h, c] (+)= from[r, c] /
     * n_head */
    void (*head_mean)(struct device *device, int64_t n, int64_t n_head, int64_t n_column, bool backward,
                      const float *from, bool add, float *to);

    /* --- tile programs (models/tile/tile.h) --- */
    /* of nodes: results of n rows */
    void (*tile_rows)(struct device *device, int64_t n, const struct device_tile *how);
    /* of edges. A row's results are those of its edges one after another, whatever they are computed with; weights'
     * gradients are added up in double over fixed chunks of rows */
    void (*tile_edges)(struct device *device, const struct device_tile_edges *how);

    /* --- sums by relation, of blocks with types; a row's edges of one type are added up first, in the block's order
     * --- */
    /* out[row, b] += Σ_e comp[type, b] · weight · x[col]; out n_own × n_base × f. how->picks:
     * out[row] += Σ_b comp[type, b] · Σ_e of type weight · x[col, b]; a row of x is n_base × f, stride n_base · f ·
     * out n_own × f */
    void (*relation_sum)(struct device *device, const struct device_relation *how, float *out);
    /* grad_comp[t, b] (+)= Σ_row ⟨Σ_e of type t weight · x[col], y[row, b]⟩, in double over fixed chunks of rows.
     * y n_own × n_base × f · scratch: DEVICE_BYTES_RELATION_DOT; comp is not read */
    void (*relation_dot)(struct device *device, const struct device_relation *how, const float *y, bool add,
                         void *scratch, float *grad_comp);
    /* out[j, i] = x[i, j]: rows of c columns.  x a × b × c · out b × a × c */
    void (*swap_axes)(struct device *device, int64_t a, int64_t b, int64_t c, const float *x, float *out);

    /* out[r] = factor · x[rows[r]], with factor 1 bit for bit, whatever the elements of 4 bytes are: pack a payload.
     * rows n_row (device) */
    void (*rows_gather)(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor,
                        const float *x, float *out);
    /* out[rows[r]] += factor · x[r]; rows distinct (NULL: all n_row rows in place) */
    void (*rows_add)(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor,
                     const float *x, float *out);

    /* out[rows[r]] += x[r]: rows that repeat are added in the order of r, with n_row in one that depends on n
     * alone */
    void (*rows_collect)(struct device *device, const struct device_collect *how, const float *x, float *out);

    /* x becomes the nearest BF16, and out (NULL: none) these rows as the codec writes them. Decoded, they are x. */
    void (*rows_round)(struct device *device, int64_t n_row, int64_t f, float *x, void *out);
    /* Encode rows, n_row × codec_row_bytes(codec, f) bytes, and decode them: out n_row × f. */
    void (*rows_encode)(struct device *device, const struct device_coding *how, void *out);
    void (*rows_decode)(struct device *device, enum device_codec codec, int64_t n_row, int64_t f, const void *from,
                        float *out);

    /* --- blocks made of others for one halo pass: `out` is filled in when the call returns, its arrays, which lie in
     * scratch, when COMPUTE comes to it; they hold until scratch is written again. out->n_edge: the most that there
     * can be --- */
    /* The edges whose column is listed in kept (n_kept, ascending; device): its place there is their column in out,
     * which has the block's rows. scratch: DEVICE_BYTES_BLOCK_MADE */
    void (*block_sample)(struct device *device, const struct device_block *block, int64_t n_kept,
                         const uint32_t *kept, void *scratch, struct device_block *out);
    /* All edges from their other ends: row c of out has the block's rows (where it lists them, those that it lists)
     * with an edge to column c, of n_own rows. scratch: likewise, its columns as rows */
    void (*block_transpose)(struct device *device, const struct device_block *block, int64_t n_own, void *scratch,
                            struct device_block *out);

    /* --- loss and scores --- */
    /* The gradient, if wanted, and in `score` (device) the sums over the rows. */
    void (*loss)(struct device *device, const struct device_scoring *how, struct device_score *score);
    /* Pairs' losses, at one of their ends: half of them, times the weight, is added to `sum` (device), and the
     * gradient of the own rows to grad. */
    void (*link_loss)(struct device *device, const struct device_links *how, double *sum);
    /* score[numbers[i]] = the score of pair i */
    void (*pair_scores)(struct device *device, const struct device_pairs *pairs, float *score);
    /* grad[row] += slope · x, pair after pair */
    void (*pair_gradients)(struct device *device, const struct device_pairs *pairs, const float *slope, float *grad);
    /* The groups' losses, each times weight and share, are added to `sum` (device). */
    void (*pair_losses)(struct device *device, const struct device_pair_losses *how, double *sum);
    /* out n × (f + c) = x | the labels of rows of the split that are not drawn, one column per class, 0 on all other
     * rows */
    void (*labels_append)(struct device *device, const struct device_labels *how, int64_t f, const float *x,
                          float *out);
    /* Rows of the split that are drawn; of rows of labels, the labels in these that are there. */
    void (*draw_count)(struct device *device, const struct device_labels *how, double *count);
    /* to[i] += from[i]; statistics: of n = STATISTICS_N(f) doubles, to = those of both sets of rows (statistics.h) */
    void (*doubles_merge)(struct device *device, bool statistics, int64_t n, const double *from, double *to);
    /* sums[0 … 2] += Σ a², Σ b², Σ (a − b)²: one element after another, in double */
    void (*floats_compare)(struct device *device, int64_t n, const float *a, const float *b, double *sums);
    /* sum[0] += Σ x², in double, in an order that depends on n alone */
    void (*squares_add)(struct device *device, int64_t n, const float *x, double *sum);
    /* now's grad_norm = √squares[0], and clip = most / (grad_norm + 1e-6), at most 1: as
     * torch.nn.utils.clip_grad_norm_ */
    void (*clip_factor)(struct device *device, double most, const double *squares, struct device_now *now);

    /* --- optimiser: w, grad, m, v n_value each (sgd: m only, and only with momentum) --- */
    void (*step)(struct device *device, const struct device_step *how, int64_t n_value, const float *grad, float *w,
                 float *m, float *v);
};

static inline size_t device_attention_bytes(const struct device_ops *ops, int64_t n_row,
                                            const struct device_attention *how)
{
    const int64_t size[] = {n_row, (int64_t)how->score, how->n_head, how->n_column, how->n_edge_column};
    return ops->bytes(DEVICE_BYTES_ATTENTION, size);
}

/* Scratch of a tile program over rows, or over edges. */
static inline size_t device_tile_bytes(const struct device_ops *ops, const struct tile *tile, bool are_edges)
{
    const int64_t size[] = {tile->n_float, tile_n_grad(tile), are_edges, tile->n_instruction, tile->n_result};
    return ops->bytes(DEVICE_BYTES_TILE, size);
}

/* Memory of a device that is not the host's. */
struct device_capacity {
    char name[96];                     /* of the device, for messages: "GPU 0 (NVIDIA H100)" */
    int64_t n_bytes;                   /* all of it; 0: not known, or the host's */
    int64_t n_context;                 /* what opening took: the context, modules, workspaces of libraries */
    uint32_t n_sharing;                /* workers that share it, including this one */
    struct library_versions libraries; /* of what it uses */
};

/* One worker's share of it; 0: not known. */
static inline int64_t device_share(const struct device_capacity *capacity)
{
    return capacity->n_sharing > 1 ? capacity->n_bytes / capacity->n_sharing : capacity->n_bytes;
}

/* Arrays among the operands of the operations to come that are rows of BF16 as the codec writes them (codec.h), where
 * others are rows of floats. What is computed of them, and then rounded to the nearest, are the same numbers as of
 * floats. */
#define DEVICE_BF16_MOST 8
struct device_bf16 {
    int n;
    struct {
        const void *at; /* the first of its rows */
        int64_t f;      /* numbers of a row */
    } rows[DEVICE_BF16_MOST];
};

/* Every device in the list starts with its table. */
struct device {
    const struct device_ops *ops;
    struct device_capacity capacity;
    int64_t n_wait;                /* number of waits of the host; 0 if operations are done when they return */
    int64_t n_replay;              /* recordings replayed */
    enum device_products products; /* to be set after open */
    struct device_bf16 bf16;       /* takes_bf16; set for one op (models/steps/chain.c), else empty */
};

/* Wait for all that COMPUTE was given. errors  the first failure since open */
static inline enum status device_sync(struct device *device)
{
    return device->ops->wait(device, device->ops->mark(device, DEVICE_LANE_COMPUTE));
}

extern const struct device_ops device_reference;
extern const struct device_ops device_cpu;

extern const struct device_ops
    device_cuda; /* in trainer-cuda.so; emulated (tests/emulator), in programs of tests, too */
extern const struct device_ops
    device_cuda_module; /* its name and sizes, and `open`; only the opened device has the full table */

/* The table called `name` ("auto": the cpu's). errors  STATUS_CONFIG no such device */
enum status device_find(const char *name, const struct device_ops **out);

#endif
