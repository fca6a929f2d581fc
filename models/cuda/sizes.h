/* Sizes of the cuda device for plans: bytes of blocks and scratch, and the places of arrays in them. They depend only
 * on shapes.
 *
 * Independent of CUDA: programs that are built without it also have these sizes.
 */
#ifndef MODELS_CUDA_SIZES_H
#define MODELS_CUDA_SIZES_H

#include "models/device/device_list.h"

DEVICE_OP_PROTOTYPE(cuda, bytes);
DEVICE_OP_PROTOTYPE(cuda, sums_bytes);

/* Other facts in the device's table. */
#ifdef CUDA_EMULATED
#define CUDA_NAME "cuda-emulated"
#else
#define CUDA_NAME "cuda"
#endif
#define CUDA_N_WINDOW_FLOAT ((int64_t)1 << 25)
/* Memory for opening a GPU, in plans that are made before it is opened: the usual size of a context with its modules,
 * and the workspace of cuBLAS. */
#define CUDA_CONTEXT_BYTES (((int64_t)512 << 20) + CUDA_BLAS_BYTES)
#define CUDA_BLAS_BYTES ((int64_t)32 << 20)
/* Likewise of opening cuSPARSE. */
#define CUDA_SPARSE_BYTES ((int64_t)32 << 20)
#define CUDA_SIZES                                                                                                   \
    .name = CUDA_NAME, .n_window_float = CUDA_N_WINDOW_FLOAT, .n_chunk = 1, .codecs = DEVICE_CODECS_ALL,             \
    .n_context = CUDA_CONTEXT_BYTES, .n_context_sums = CUDA_SPARSE_BYTES, .merged_edges = DEVICE_HUB_EDGES,          \
    .takes_epilogue = true

/* --- dense --- */
/* Rows of a product at most: cuBLAS counts elements in 32 bits. */
#define CUDA_PIECE_ROWS ((int64_t)1 << 20)

/* A weight gradient goes in chunks of so many rows, each with a partial result of its own. */
int64_t cuda_weight_chunk_rows(int64_t n, int64_t f_in, int64_t f_out);

/* --- sums by cuSPARSE: bytes from the first of what sums take in turn. Columns, weights and rows of x are copied
 * where they do not begin at a multiple of 16 bytes, as cuSPARSE wants --- */
#define CUDA_SPARSE_ALIGN 16

struct cuda_sums_places {
    int64_t n_ones;                                                /* edges that count 1 each */
    size_t offsets, columns, values, ones, x, sum, buffer, n_byte; /* sum: of rows that a block lists */
};

struct cuda_sums_places cuda_sums_places_make(const struct device_sums *sums, const struct device_sum_sizes *most);
/* An approximate upper bound: cuSPARSE was not queried. */
size_t cuda_sums_buffer_most(struct device *device, int64_t n_col, int64_t n_row, int64_t n_edge, int64_t f);

/* --- attention --- */
/* Most ranges of rows whose gradients of att are partial sums of their own, and as many shares of the long rows. */
#define CUDA_ATT_RANGES 2048
#define CUDA_ATT_SHARES 128
/* Where edges have features: rows in ranges of their own, each with sums of att and of what how->edge is. */
#define CUDA_ATT_EDGE_RANGES 128
int64_t cuda_attention_edge_ranges(int64_t n_row);

/* --- tile programs: bytes from the first of their scratch, where the program itself lies --- */
/* Bytes of an instruction, and of a result (tile/tile.h). */
#define CUDA_TILE_INSTRUCTION_BYTES 104
#define CUDA_TILE_RESULT_BYTES 96
/* Floats of shared memory that a warp has for the registers of a run. */
#define CUDA_TILE_FLOATS 1408

/* Floats of one row's registers: odd, so that those of different rows lie in different banks. */
int64_t cuda_tile_floats(int64_t n_float);
/* Sets of sums that gradients of weights are added up in. */
int64_t cuda_tile_sets(int64_t n_grad);

struct cuda_tile_places {
    int64_t n_warp; /* whose registers lie in scratch, since shared memory is too small for them; else 0 */
    size_t sets, registers, n_byte;
};

struct cuda_tile_places cuda_tile_places_make(int64_t n_float, int64_t n_grad, int64_t n_instruction,
                                              int64_t n_result);

/* --- losses and sums by relation: rows of a chunk; chunks at most for so many sums each --- */
int64_t cuda_score_chunk_rows(int64_t n);
int64_t cuda_relation_chunks_most(int64_t n);

/* --- a schedule's memory (schedule.h): bytes from its first --- */
/* Rows whose units one block of threads counts and puts. */
#define CUDA_SCHEDULE_ROWS 4096

struct cuda_schedule_places {
    int64_t n_chunk;
    size_t units, counts, scan, partial, n_byte;
};

struct cuda_schedule_places cuda_schedule_places_make(int64_t n_row, int64_t n_edge);
/* Bytes of the schedule of a block of so many rows and edges; 0: it has no long row. */
size_t cuda_schedule_bytes(int64_t n_row, int64_t n_edge);

/* --- blocks made of others: bytes from the first of their scratch, or of the work in it --- */
/* The schedule lies at 0. */
struct cuda_made_places {
    size_t indptr, cols, weights, types, work, n_byte;
};

struct cuda_made_places cuda_made_places_make(int64_t n_row, int64_t n_col, int64_t n_edge, bool weighted,
                                              bool typed);

/* Picking out edges by a bit for each: the columns' places lie at 0; n_word: of 32 edges' bits. */
struct cuda_picked_places {
    int64_t n_word;
    size_t bits, before, scan, n_byte;
};

struct cuda_picked_places cuda_picked_places_make(int64_t n_col, int64_t n_edge);

/* Putting edges in order by 8 bits at a time: two orders that take turns, the first at 0, of which the second may be
 * the memory of the columns; counts of a digit in a tile of edges. */
#define CUDA_ORDER_DIGITS 256
#define CUDA_ORDER_TILE 2048

struct cuda_order_places {
    int64_t n_tile;
    size_t second, count, scan, n_byte;
};

struct cuda_order_places cuda_order_places_make(int64_t n_edge);

/* --- sums of all numbers before each (block/scan.h) --- */
/* Numbers that one block of threads adds up. */
#define CUDA_SCAN_CHUNK 2048

size_t cuda_scan_bytes(int64_t n);

#endif
