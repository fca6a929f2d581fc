#include "models/cuda/sizes.h"

#include "models/cuda/schedule.h"
#include "models/device/row_chunks.h"
#include "models/device/statistics.h"
#include "protocol/base/amounts.h"

static size_t aligned(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* --- dense --- */

/* So many tiles of so many elements keep a GPU busy: two for each of 132 processors. */
#define WEIGHT_TILE 128
#define WEIGHT_N_TILE 264
#define WEIGHT_CHUNK_ROWS 512

int64_t cuda_weight_chunk_rows(int64_t n, int64_t f_in, int64_t f_out)
{
    int64_t n_tile = ((f_in + WEIGHT_TILE - 1) / WEIGHT_TILE) * ((f_out + WEIGHT_TILE - 1) / WEIGHT_TILE);
    int64_t n_chunk = WEIGHT_N_TILE / (n_tile > 0 ? n_tile : 1);
    int64_t rows = n_chunk > 1 ? (n + n_chunk - 1) / n_chunk : n;
    return rows < WEIGHT_CHUNK_ROWS ? WEIGHT_CHUNK_ROWS : smaller(rows, CUDA_PIECE_ROWS);
}

static size_t linear_bytes(int64_t n, int64_t f_in, int64_t f_out)
{
    int64_t rows = cuda_weight_chunk_rows(n, f_in, f_out), n_chunk = (n + rows - 1) / rows;
    return n_chunk > 1 ? (size_t)(n_chunk * f_in * f_out) * sizeof(float) : 0;
}

static size_t column_sum_bytes(int64_t n, int64_t f)
{
    return (size_t)(row_n_chunk(n) * (f > 0 ? f : 1)) * sizeof(double);
}

static size_t blocks_bytes(int64_t n_block, int64_t n_row, int64_t n_edge)
{
    return n_block > 0 && n_edge / n_block > CUDA_LONG_EDGES ? cuda_schedule_bytes(n_row, n_edge) : 0;
}

static size_t csr_bytes(int64_t n_row, int64_t n_col, int64_t n_value)
{
    return (size_t)(n_col + 1) * sizeof(int64_t) + (size_t)n_value * (2 * sizeof(uint32_t) + sizeof(float)) +
           blocks_bytes(1, n_row, n_value) + blocks_bytes(1, n_col, n_value);
}

/* The host makes the transpose from a copy of the rows. */
static size_t csr_host_bytes(int64_t n_row, int64_t n_col, int64_t n_value)
{
    return (size_t)(n_row + 1 + n_col + 1) * sizeof(int64_t) + 3 * (size_t)n_value * sizeof(uint32_t);
}

/* --- sums by cuSPARSE --- */

struct cuda_sums_places cuda_sums_places_make(const struct device_sums *sums, const struct device_sum_sizes *most)
{
    struct cuda_sums_places at = {.n_ones = sums->plain ? most->n_unweighted : 0};
    int64_t widest = 0, widest_odd = 0;
    for (int w = 0; w < sums->n_width; w++) {
        int64_t f = sums->width[w];
        widest = f > widest ? f : widest;
        widest_odd = f > widest_odd && f * (int64_t)sizeof(float) % CUDA_SPARSE_ALIGN != 0 ? f : widest_odd;
    }
    at.columns = aligned((size_t)(most->n_row + 1) * sizeof(int32_t));
    int64_t n_value = sums->scaled ? most->n_edge : most->n_unweighted < most->n_edge ? most->n_anywhere : 0;
    at.values = at.columns + aligned((size_t)most->n_anywhere * sizeof(uint32_t));
    at.ones = at.values + aligned((size_t)n_value * sizeof(float));
    at.x = at.ones + aligned((size_t)at.n_ones * sizeof(float));
    at.sum = at.x + aligned((size_t)(most->n_col * widest_odd) * sizeof(float));
    at.buffer = at.sum + aligned((size_t)(most->n_listed * widest) * sizeof(float));
    at.n_byte = at.buffer + (size_t)most->n_buffer;
    return at;
}

size_t cuda_sums_bytes(const struct device_sums *sums, const struct device_sum_sizes *most)
{
    return cuda_sums_places_make(sums, most).n_byte;
}

/* An algorithm that shares out rows' ends and edges together (Merrill & Garland, SC 2016; Yang et al., Euro-Par 2018)
 * keeps of each share where it begins, and the sums of a row that it has not to its end. Shares are taken to be no
 * smaller than these. */
#define SHARE_EDGES 128
#define SHARE_LEAST_BYTES 4096

size_t cuda_sums_buffer_most(struct device *device, int64_t n_col, int64_t n_row, int64_t n_edge, int64_t f)
{
    (void)device;
    (void)n_col;
    int64_t n_share = (n_row + n_edge) / SHARE_EDGES + 1;
    return (size_t)n_share * (2 * sizeof(int64_t) + (size_t)f * sizeof(float)) + SHARE_LEAST_BYTES;
}

/* --- norms, losses --- */

/* Rows of a chunk at least, and chunks at most. */
#define SCORE_CHUNK_ROWS 256
#define SCORE_CHUNK_MAX 4096

int64_t cuda_score_chunk_rows(int64_t n)
{
    int64_t rows = (n + SCORE_CHUNK_MAX - 1) / SCORE_CHUNK_MAX;
    return rows > SCORE_CHUNK_ROWS ? rows : SCORE_CHUNK_ROWS;
}

static size_t loss_bytes(int64_t n)
{
    int64_t rows = cuda_score_chunk_rows(n);
    return (size_t)((n + rows - 1) / rows) * sizeof(struct device_score);
}

/* --- attention, sums by relation --- */

int64_t cuda_attention_edge_ranges(int64_t n_row)
{
    return smaller(n_row, CUDA_ATT_EDGE_RANGES);
}

static size_t attention_bytes(int64_t n_row, const struct device_attention *how)
{
    if (how->n_edge_column > 0) {
        int64_t n_att = how->score == DEVICE_SCORE_MLP ? how->n_head * how->n_column : 0;
        return (size_t)(cuda_attention_edge_ranges(n_row) * (n_att + device_attention_edge_floats(how))) *
               sizeof(double);
    }
    int64_t n_range = smaller(n_row, CUDA_ATT_RANGES);
    return how->score == DEVICE_SCORE_MLP
               ? (size_t)((n_range + CUDA_ATT_SHARES) * how->n_head * how->n_column) * sizeof(double)
               : 0;
}

/* Rows that one warp adds up: by so many warps at most, whose sums have so many numbers in all at most. */
#define RELATION_CHUNK_MAX 4096
#define RELATION_CHUNK_MIN 32
#define RELATION_PARTIAL_MOST ((int64_t)1 << 21)

int64_t cuda_relation_chunks_most(int64_t n)
{
    int64_t most = RELATION_PARTIAL_MOST / (n > 0 ? n : 1);
    return most < RELATION_CHUNK_MIN ? RELATION_CHUNK_MIN : smaller(most, RELATION_CHUNK_MAX);
}

static size_t relation_dot_bytes(int64_t n)
{
    return (size_t)(cuda_relation_chunks_most(n) * n) * sizeof(double);
}

/* --- tile programs --- */

/* Sets, and numbers in all of them, unless there are fewer sets than the least. */
#define TILE_SET_MOST 2048
#define TILE_SET_LEAST 128
#define TILE_SUMS_MOST ((int64_t)1 << 20)

/* Warps whose registers do not fit into shared memory: whole blocks, and floats of all of them unless they are fewer
 * than the least. */
#define TILE_WARP_MOST 4096
#define TILE_WARP_LEAST 128
#define TILE_FLOATS_MOST ((int64_t)1 << 23)

int64_t cuda_tile_floats(int64_t n_float)
{
    return n_float / 2 * 2 + 1;
}

int64_t cuda_tile_sets(int64_t n_grad)
{
    int64_t most = TILE_SUMS_MOST / (n_grad > 0 ? n_grad : 1);
    return most < TILE_SET_LEAST ? TILE_SET_LEAST : smaller(most, TILE_SET_MOST);
}

struct cuda_tile_places cuda_tile_places_make(int64_t n_float, int64_t n_grad, int64_t n_instruction,
                                              int64_t n_result)
{
    struct cuda_tile_places at = {.n_warp = 0};
    int64_t floats = cuda_tile_floats(n_float), warps = TILE_FLOATS_MOST / floats / TILE_WARP_LEAST * TILE_WARP_LEAST;
    if (floats > CUDA_TILE_FLOATS) {
        at.n_warp = warps < TILE_WARP_LEAST ? TILE_WARP_LEAST : smaller(warps, TILE_WARP_MOST);
    }
    at.sets = aligned((size_t)(n_instruction * CUDA_TILE_INSTRUCTION_BYTES + n_result * CUDA_TILE_RESULT_BYTES));
    at.registers = at.sets + (n_grad > 0 ? (size_t)(cuda_tile_sets(n_grad) * n_grad) * sizeof(double) : 0);
    at.n_byte = at.registers + (size_t)(at.n_warp * floats) * sizeof(float);
    return at;
}

/* --- blocks --- */

struct cuda_schedule_places cuda_schedule_places_make(int64_t n_row, int64_t n_edge)
{
    struct cuda_schedule_places at;
    at.n_chunk = (n_row + CUDA_SCHEDULE_ROWS - 1) / CUDA_SCHEDULE_ROWS;
    at.units = sizeof(struct cuda_schedule);
    at.counts = aligned(at.units + (size_t)cuda_units_most(n_edge) * sizeof(struct cuda_unit));
    at.scan = at.counts + aligned((size_t)(at.n_chunk + 1) * sizeof(int64_t));
    at.partial = at.scan + aligned(cuda_scan_bytes(at.n_chunk));
    /* All pieces of a hub row but the last are full. */
    at.n_byte = at.partial + (size_t)(2 * (n_edge / DEVICE_HUB_EDGES)) * CUDA_PARTIAL_COLUMNS * sizeof(float);
    return at;
}

size_t cuda_schedule_bytes(int64_t n_row, int64_t n_edge)
{
    return n_edge > CUDA_LONG_EDGES ? cuda_schedule_places_make(n_row, n_edge).n_byte : 0;
}

struct cuda_made_places cuda_made_places_make(int64_t n_row, int64_t n_col, int64_t n_edge, bool weighted, bool typed)
{
    size_t n = (size_t)n_edge, picking = cuda_picked_places_make(n_col, n_edge).n_byte,
           ordering = cuda_order_places_make(n_edge).n_byte;
    struct cuda_made_places at;
    at.indptr = aligned(cuda_schedule_bytes(n_row, n_edge));
    at.cols = at.indptr + aligned(((size_t)n_row + 1) * sizeof(int64_t));
    at.weights = at.cols + aligned(n * sizeof(uint32_t));
    at.types = at.weights + (weighted ? aligned(n * sizeof(float)) : 0);
    at.work = at.types + (typed ? aligned(n * sizeof(uint16_t)) : 0);
    at.n_byte = at.work + (picking > ordering ? picking : ordering);
    return at;
}

static size_t block_made_bytes(int64_t n_row, int64_t n_col, int64_t n_edge, size_t edge_bytes)
{
    size_t extra = edge_bytes - sizeof(uint32_t);
    return cuda_made_places_make(n_row, n_col, n_edge, extra >= sizeof(float), extra % sizeof(float) != 0).n_byte;
}

struct cuda_picked_places cuda_picked_places_make(int64_t n_col, int64_t n_edge)
{
    struct cuda_picked_places at;
    at.n_word = n_edge / 32 + 1; /* one word more, which may be empty */
    at.bits = aligned((size_t)n_col * sizeof(uint32_t));
    at.before = at.bits + aligned((size_t)at.n_word * sizeof(uint32_t));
    at.scan = at.before + aligned((size_t)(at.n_word + 1) * sizeof(int64_t));
    at.n_byte = at.scan + cuda_scan_bytes(at.n_word);
    return at;
}

struct cuda_order_places cuda_order_places_make(int64_t n_edge)
{
    struct cuda_order_places at;
    at.n_tile = (n_edge + CUDA_ORDER_TILE - 1) / CUDA_ORDER_TILE;
    size_t id = n_edge <= (int64_t)UINT32_MAX ? sizeof(uint32_t) : sizeof(int64_t);
    size_t n_count = CUDA_ORDER_DIGITS * (size_t)at.n_tile;
    at.second = aligned((size_t)n_edge * id);
    at.count = at.second + (id == sizeof(uint32_t) ? 0 : aligned((size_t)n_edge * id));
    at.scan = at.count + aligned((n_count + 1) * sizeof(int64_t));
    at.n_byte = at.scan + cuda_scan_bytes((int64_t)n_count);
    return at;
}

size_t cuda_scan_bytes(int64_t n)
{
    return (size_t)((n + CUDA_SCAN_CHUNK - 1) / CUDA_SCAN_CHUNK + 1) * sizeof(int64_t);
}

/* --- all of them --- */

size_t cuda_bytes(enum device_bytes what, const int64_t *size)
{
    switch (what) {
    case DEVICE_BYTES_BLOCKS:
        return blocks_bytes(size[0], size[1], size[2]);
    case DEVICE_BYTES_CSR:
        return csr_bytes(size[0], size[1], size[2]);
    case DEVICE_BYTES_CSR_HOST:
        return csr_host_bytes(size[0], size[1], size[2]);
    case DEVICE_BYTES_LINEAR:
        return linear_bytes(size[0], size[1], size[2]);
    case DEVICE_BYTES_COLUMN_SUM:
        return column_sum_bytes(size[0], size[1]);
    case DEVICE_BYTES_CSR_LINEAR:
        return (size_t)(size[0] * size[1]) * sizeof(float);
    case DEVICE_BYTES_LAYER_NORM:
        return 2 * column_sum_bytes(size[0], size[1]);
    case DEVICE_BYTES_BATCH_NORM:
        return (size_t)(row_n_chunk(size[0]) * STATISTICS_N(size[1])) * sizeof(double);
    case DEVICE_BYTES_PANEL:
        return 0;
    case DEVICE_BYTES_ATTENTION:
        return attention_bytes(size[0], &(struct device_attention){.score = (enum device_score_kind)size[1],
                                                                   .n_head = size[2],
                                                                   .n_column = size[3],
                                                                   .n_edge_column = size[4]});
    case DEVICE_BYTES_RELATION_DOT:
        return relation_dot_bytes(size[0] * size[1]);
    case DEVICE_BYTES_BLOCK_MADE:
        return block_made_bytes(size[0], size[1], size[2], (size_t)size[3]);
    case DEVICE_BYTES_TILE:
        return cuda_tile_places_make(size[0], size[1], size[3], size[4]).n_byte;
    case DEVICE_BYTES_LOSS:
        return loss_bytes(size[0]);
    }
    return 0;
}
