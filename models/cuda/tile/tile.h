/* A tile program as kernels read it: in device memory, with addresses in place of names.
 *
 * A warp works on a run of rows, or of edges of one row, whose registers lie side by side. Its lanes take elements
 * (row, head, column) of one instruction after another, so that all lanes do the same.
 */
#ifndef MODELS_CUDA_TILE_H
#define MODELS_CUDA_TILE_H

#include "models/cuda/cuda.h"

/* Where an operand lies. */
enum cuda_tile_by {
    CUDA_TILE_REGISTER,
    CUDA_TILE_NUMBER,
    CUDA_TILE_PARAM,
    CUDA_TILE_POINT,  /* rows: that of each of a run */
    CUDA_TILE_OWN,    /* edges: the block's row */
    CUDA_TILE_COLUMN, /* that of the edge's column */
    CUDA_TILE_WEIGHT, /* the edge's own number */
    CUDA_TILE_FEATURE /* the edge's row of its table */
};

struct cuda_tile_operand {
    int32_t by;    /* enum cuda_tile_by */
    int32_t which; /* array, or weight */
    int32_t step;  /* floats from a row of the array to the next */
    int32_t head, column, inner;
    union {
        int32_t at;   /* first float of a row, register or weight */
        float number; /* NUMBER; WEIGHT: of an edge from a row to itself */
    };
};

struct cuda_tile_instruction {
    struct cuda_tile_operand a, b;
    int32_t op; /* enum tile_op */
    int32_t n_head, n_column, n_inner;
    int32_t out, out_head;
    int32_t step[3];  /* rows, heads, columns from an element to that of WARP behind it */
    float number[2];  /* WON: the factor of sums. DROP: the factor of what is kept */
    uint32_t special; /* CONTRACT: lanes that share a sum. DROP: the threshold, and in n_inner the first draw */
};

struct cuda_tile_result {
    struct cuda_tile_operand from, with;
    int32_t target;    /* enum tile_target */
    int32_t width;     /* floats of a row of the target */
    int32_t at, kept;  /* first float in a row of the target, of what is saved; PARAM: at, in a set of sums */
    int32_t reduction; /* enum tile_reduction */
    int32_t n, n_with;
    int32_t step, step_with;
    int32_t lanes; /* PARAM: 1 where sums share a place, else WARP */
};

struct cuda_tile_program {
    const struct cuda_tile_instruction *instruction;
    const struct cuda_tile_result *result;
    int64_t n_instruction, n_result;
};

/* The rows, and a block's edges: dataset ids of both ends, and the block. */
struct cuda_tile_block {
    const uint32_t *row_node, *col_node;
    const uint32_t *rows, *cols;
    const int64_t *indptr;
    const uint32_t *edge_rows;
    int64_t n_row, n_finish; /* rows of the program; whose results end */
};

/* Gradients of weights: a set of n_grad sums for each of n_range ranges of rows. */
struct cuda_tile_sums {
    double *sets;
    int64_t n_range, range_rows, n_grad;
};

/* A kernel's argument: no padding, and no two small numbers in 8 bytes, which would look like a host pointer. Arrays'
 * addresses are as they were given, since that of an empty one may lie anywhere. */
struct cuda_tile {
    struct cuda_tile_program program;
    struct cuda_tile_block block;
    struct cuda_tile_sums sums;
    float *registers; /* n_run rows of n_float for each warp; NULL: in shared memory */
    const float *array[TILE_ROWS_N], *self[TILE_ROWS_N]; /* self: for edges from rows to themselves */
    const float *param[TILE_N_PARAM];
    float *to[TILE_TARGET_N], *saved;
    const float *scale; /* of OUT's sums at the end; NULL: none */
    const struct device_now *now;
    struct random_key key;
    int64_t n_warp; /* at most, where registers are not in shared memory */
    int64_t width[TILE_TARGET_N], n_saved;
    int64_t n_float, n_run;
    int64_t begin; /* rows of `to` begin. Rows: bit t of target t */
    int64_t with_self, rows_are_sources, drops;
    float shift, factor;
};

/* Warps of a block. */
#define CUDA_TILE_WARPS 8

/* Writes the program to its scratch. `edges` is NULL for a program over n_row rows. */
struct cuda_tile cuda_tile_open(struct device *device, int64_t n_row, const struct device_tile *how,
                                const struct device_tile_edges *edges);
/* Warps to start, CUDA_TILE_WARPS in a block. */
int64_t cuda_tile_warps(const struct cuda_tile *tile);
/* grad_param (+)= Σ sets */
void cuda_tile_close(struct device *device, const struct cuda_tile *tile, const struct device_tile *how);

/* --- tile.cu --- */
#define CUDA_TILE_WORDS 480
struct cuda_tile_words {
    uint64_t word[CUDA_TILE_WORDS];
};
/* Host memory reaches the device as an argument, since that is kept where launches are recorded. Words have their
 * highest bit turned, so that numbers look like no host pointer. */
#define CUDA_TILE_TURNED ((uint64_t)1 << 63)
void cuda_tile_put(struct device *device, const struct cuda_tile_words *words, int64_t n_word, void *to);
/* grad (+)= Σ of the sets' numbers at … */
void cuda_tile_sum(struct device *device, const struct cuda_tile *tile, int64_t at, int64_t n, bool add, float *grad);

#endif
