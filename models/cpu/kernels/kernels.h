/* Inner loops that exist once per vector width, and the table that holds one width's set.
 *
 * The loops are written once (kernels_*.inc.h) over a small vector alphabet (vector_*.h) and compiled for AVX-512,
 * AVX2 and no extension at all; the set is chosen when the device opens. All sets give the same bits. Each call runs
 * in one thread, without scheduling.
 */
#ifndef MODELS_CPU_KERNELS_H
#define MODELS_CPU_KERNELS_H

#include "models/device/device.h"
#include "protocol/base/amounts.h"

enum cpu_variant { CPU_VARIANT_AVX512, CPU_VARIANT_AVX2, CPU_VARIANT_PORTABLE, CPU_VARIANT_N };

/* The factor of one edge's row. */
enum cpu_weight {
    CPU_WEIGHT_NONE,
    CPU_WEIGHT_COLUMN,      /* weight[cols[e]] */
    CPU_WEIGHT_EDGE,        /* weight[e] */
    CPU_WEIGHT_PERMUTED,    /* weight[position[e]] */
    CPU_WEIGHT_EDGE_COLUMN, /* weight[e] · scale[cols[e]], rounded before it multiplies */
    CPU_WEIGHT_N
};

/* Which rows' pieces lie between marks in columns: long ones, all. Others' long rows are cut by position. */
enum cpu_marks { CPU_MARKS_NONE, CPU_MARKS_LONG, CPU_MARKS_ALL };

/* out[row] = row_scale · (start + Σ weight · x[cols]), start: self_scale · self, or out[row], or 0. */
struct cpu_sum {
    const uint32_t *rows; /* NULL: row r is row r */
    const int64_t *indptr;
    const uint32_t *cols;
    int64_t n_edge;
    enum cpu_weight kind;
    const float *weight;
    const float *scale;
    const uint32_t *position;
    int64_t f;                /* columns of out, and of self */
    int64_t column, n_column; /* those that are summed */
    const void *x;            /* these columns of the rows at the other ends, floats or BF16 … */
    int64_t x_stride;         /* … and elements from one row to the next */
    bool x_is_bf16;           /* no permuted weights */
    bool begin;               /* start from self or 0, not from out */
    bool apart;               /* start from 0 and add what is at out at the end */
    enum cpu_marks marks;     /* set in columns; no permuted weights */
    const void *self;
    int64_t self_stride; /* elements of a row, or 0 where every row starts from the same one (a bias) */
    bool self_is_bf16;
    const float *self_scale;
    const float *row_scale;
    bool stream; /* out is larger than the caches and its rows lie on 64-byte borders */
    float *out;
};

/* Running maxima of rows first … end-1 with their places. */
struct cpu_max {
    const uint32_t *rows;
    const int64_t *indptr;
    const uint32_t *cols;
    int64_t n_edge;
    uint32_t arg_base;
    bool begin;
    const float *self; /* with begin: start from the own row, at place arg_base + row; NULL: start empty */
    int64_t f;
    const float *x;
    float *out;
    uint32_t *arg;
};

/* Edges of a row that are worked on together. */
#define CPU_ATTENTION_RUN 32

enum cpu_attention_pass { CPU_ATTENTION_FORWARD, CPU_ATTENTION_QUERY, CPU_ATTENTION_SOURCE };

/* Rows of own arrays that each row reads and writes, which are prefetched: NULL where there are fewer. */
struct cpu_own_rows {
    int64_t n_column;
    const float *reads[2];
    float *writes[2];
};

/* One pass of an attention over a block, whose rows are destinations (in-edges) or sources (out-edges). */
struct cpu_attention {
    enum cpu_attention_pass pass;
    const struct device_attention *how;
    struct random_key key; /* of draws */
    const struct device_block *block;
    bool begin;
    bool with_self;               /* each row's edge to itself comes first */
    int64_t first_head, end_head; /* heads to work on */
    bool is_piece;                /* a row's piece: results go to a partial of one row, from first_head on */
    bool rows_are_sources;
    uint32_t threshold; /* of draws; 0: no dropout */
    float keep_scale;
    /* added to scores: the shift, and -inf for those past the last edge of a run */
    float bias[2 * CPU_ATTENTION_RUN];
    struct device_attention_source source, self_source; /* self_: of the edge to itself */
    struct device_attention_target target, self_target;
    const struct device_attention_state *state;
    float *out, *grad_query, *grad_value, *grad_key;
    struct cpu_own_rows own;
};

/* Gradients of parameters that backward_query makes: of att, n_head · n_column; of how->edge. */
static inline int64_t cpu_attention_att_sums(const struct device_attention *how)
{
    return how->score == DEVICE_SCORE_MLP ? how->n_head * how->n_column : 0;
}

static inline int64_t cpu_attention_sums(const struct device_attention *how)
{
    return cpu_attention_att_sums(how) + device_attention_edge_floats(how);
}

/* Own rows before backward. */
struct cpu_attention_begin {
    const struct device_attention *how;
    const float *grad_out, *out;
    const struct device_attention_state *state;
    bool add;
    float *grad_query;
};

/* Rows of a tile program that are worked on together at most, and floats of their registers. */
#define CPU_TILE_RUN 32
#define CPU_TILE_FLOATS 16384

/* How an instruction works. Of up to CPU_TILE_NARROW numbers a row, results may be transposed: each number of all
 * rows of the run side by side, number j of a row at registers + CPU_TILE_FLOATS + j · CPU_TILE_RUN. */
#define CPU_TILE_NARROW 8
#define CPU_TILE_TRANSPOSED 1
#define CPU_TILE_TRANSPOSED_A 2 /* where an operand lies */
#define CPU_TILE_TRANSPOSED_B 4
#define CPU_TILE_BOTH 8 /* the transposed result is put in the rows' registers, too */

/* A tile program on n nodes or edges at a time. */
struct cpu_tile {
    const struct device_tile *how;
    const uint8_t *layout; /* of each instruction */
    struct random_key key;
    float factor; /* of results that are sums */
    int64_t n;
    const float *rows[TILE_ROWS_N][CPU_TILE_RUN];
    uint32_t source[CPU_TILE_RUN], target[CPU_TILE_RUN]; /* node ids */
    float *registers;                                    /* tile.n_float of each */
};

/* How results of a row's edges, begin … end-1 of a run, are added. */
struct cpu_tile_result {
    const struct tile_result *of;
    int64_t begin, end;
    float shift;
    float *out, *saved; /* of the row: the result's first */
};

/* Dropout of stored values. */
struct cpu_drop {
    struct random_key key;
    uint32_t threshold; /* of draws */
    float scale;        /* of what is kept */
};

/* The pairs of one row, entries begin … end-1 of its places; those of the next row are prefetched. */
struct cpu_link_row {
    int64_t row, begin, end, next_begin, next_end;
};

/* Inner numbers of a product whose sum is made apart. */
#define CPU_PRODUCT_GROUP 32

/* c (m × n) (+)= a (m × k) · b (k × n); transposed ones lie as k × m, n × k. */
struct cpu_product {
    int64_t m, n, k;
    const float *a, *b;
    bool a_is_transposed, b_is_transposed;
    bool add;
    float *c;
};

struct cpu_kernels {
    const char *name;
    /* Rows first … end-1 of a sum. */
    void (*sum_rows)(const struct cpu_sum *sum, int64_t first, int64_t end);
    /* partial = Σ of edges begin … end-1 over columns column … column+n_column-1, from 0. */
    void (*sum_piece)(const struct cpu_sum *sum, int64_t begin, int64_t end, int64_t column, int64_t n_column,
                      float *partial);
    void (*max_rows)(const struct cpu_max *max, int64_t first, int64_t end);
    /* out[4q + i] = number i of Philox for (key, row, first_quad + q). */
    void (*draw)(const struct random_key *key, uint64_t row, uint32_t first_quad, int64_t n_quad, uint32_t *out);
    /* out[e] = 0 where the draw of its row and column is below the threshold, else scale · values[e]. */
    void (*drop_values)(const struct cpu_drop *drop, int64_t n, const uint32_t *rows, const uint32_t *columns,
                        const float *values, float *out);
    /* Rows first … end-1; x and y may be the same array. */
    void (*activate_forward)(const struct device_activate *activate, int64_t f, int64_t first, int64_t end,
                             const float *x, float *y);
    void (*activate_backward)(const struct device_activate *activate, int64_t f, int64_t first, int64_t end,
                              const float *x, const float *y, const float *grad_y, bool add, float *grad_x);
    /* sum[c] += Σ_r x[r, c], row after row */
    void (*column_sum)(int64_t n, int64_t f, const float *x, double *sum);
    /* All instructions; and what a result adds to a row, or to a weight's gradient. */
    void (*tile_run)(const struct cpu_tile *tile);
    void (*tile_reduce)(const struct cpu_tile *tile, const struct cpu_tile_result *result);
    void (*tile_weigh)(const struct cpu_tile *tile, const struct tile_result *result, double *grad);
    /* Rows first … end-1 of an attention's pass; parameters' gradients are added to `sums` (NULL: not wanted): att's,
     * then those of how->edge, cpu_attention_sums doubles. */
    void (*attention_rows)(const struct cpu_attention *attention, int64_t first, int64_t end, double *sums);
    /* Edges begin … end-1 of one row; of a piece as if there were no others before. */
    void (*attention_piece)(const struct cpu_attention *attention, int64_t row, int64_t begin, int64_t end,
                            double *sums);
    void (*attention_begin)(const struct cpu_attention_begin *begin, int64_t first, int64_t end);
    void (*head_dot)(int64_t n_head, int64_t n_column, const float *x, const float *w, int64_t first, int64_t end,
                     float *out);
    /* sum[h, c] += Σ grad[r, h] · x[r, h, c], row after row */
    void (*head_dot_sum)(int64_t n_head, int64_t n_column, const float *x, const float *grad, int64_t first,
                         int64_t end, double *sum);
    /* One row of link_loss: adds to its gradient, and returns the sum of its pairs' losses. */
    double (*link_row)(const struct device_links *how, const struct cpu_link_row *row);
    /* Pairs first … end-1 of an operation: gradients of whole rows, scales of columns `column` on. pair_losses:
     * groups; returns the sum of their losses. */
    void (*pair_scores)(const struct device_pairs *pairs, int64_t first, int64_t end, float *score);
    void (*pair_gradients)(const struct device_pairs *pairs, int64_t first, int64_t end, const float *slope,
                           float *grad);
    double (*pair_losses)(const struct device_pair_losses *how, int64_t first, int64_t end);
    /* One row of rows_encode, whose residuals are that row's alone, and of rows_decode. */
    void (*encode_row)(const struct device_coding *how, const struct random_key *key, int64_t row, void *out);
    void (*decode_row)(enum device_codec codec, int64_t f, const void *from, float *out);
    /* One row of rows_round. */
    void (*round_row)(int64_t f, float *x, void *out);
    /* to (n_col × n_row) = from (n_row × n_col) transposed; steps: floats from one row to the next */
    void (*transpose)(int64_t n_row, int64_t n_col, const float *from, int64_t from_step, float *to, int64_t to_step);
    /* A product of numbers rounded to BF16; its order: kernels_product.inc.h */
    void (*product)(const struct cpu_product *product);
    /* One in float32 whose shape cpu_product_is_small, with oneDNN's bits; NULL: oneDNN's are others here. */
    void (*product_small)(const struct cpu_product *product);
};

extern const struct cpu_kernels cpu_kernels_avx512;
extern const struct cpu_kernels cpu_kernels_avx2;
extern const struct cpu_kernels cpu_kernels_portable;

/* The set of a variant, NULL where this processor lacks it; the best one there is. */
const struct cpu_kernels *cpu_kernels_find(enum cpu_variant variant);
const struct cpu_kernels *cpu_kernels_best(void);

/* Products by tiles, with the bits of every set's, where this processor has tiles and the kernel lends them. */
void cpu_product_tiles(const struct cpu_product *product);
bool cpu_has_tiles(void);

#endif
