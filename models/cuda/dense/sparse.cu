/* Feature rows in CSR: products as sums over neighbours, single rows' own columns, dropout of the stored values. */
#include "models/cuda/quads.h"

extern "C" {
#include "models/cuda/dense/sparse.h"
}

/* --- products --- */

#define TILE 32
#define TILE_STEP (TILE + 1) /* a column's elements lie in 32 banks */
#define TILE_ROWS (BLOCK_THREADS / TILE)

/* to (columns × rows) = from (rows × columns) transposed */
__global__ void __launch_bounds__(BLOCK_THREADS)
    transpose(int64_t rows, int64_t columns, const float *from, float *to)
{
    SHARED(float, kept, TILE *TILE_STEP);
    const int64_t n_row = (rows + TILE - 1) / TILE, n_column = (columns + TILE - 1) / TILE;
    const int own = (int)threadIdx.x % TILE, first = (int)threadIdx.x / TILE;
    for (int64_t tile = blockIdx.x; tile < n_row * n_column; tile += gridDim.x) {
        const int64_t r = tile / n_column * TILE, c = tile % n_column * TILE;
        for (int i = first; i < TILE; i += TILE_ROWS) {
            if (r + i < rows && c + own < columns) {
                kept[i * TILE_STEP + own] = from[(r + i) * columns + c + own];
            }
        }
        __syncthreads();
        for (int i = first; i < TILE; i += TILE_ROWS) {
            if (r + own < rows && c + i < columns) {
                to[(c + i) * rows + r + own] = kept[own * TILE_STEP + i];
            }
        }
        __syncthreads();
    }
}

static void transpose_launch(struct device *device, int64_t rows, int64_t columns, const float *from, float *to)
{
    const int64_t n_tile = (rows + TILE - 1) / TILE * ((columns + TILE - 1) / TILE);
    if (n_tile > 0) {
        LAUNCH(transpose, dim3(grid_size(n_tile, 1)), dim3(BLOCK_THREADS), cuda_stream(device), rows, columns, from,
               to);
    }
}

/* Every row is the same one. */
struct fill_map {
    int64_t f;
    const float *row;
    float *y;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        quad_store<VECTOR>(y + r * f + c, n, quad_load<VECTOR>(row + c, n));
    }
};

static void product(struct device *device, const struct device_csr *csr, const struct device_csr_linear *by, float *y)
{
    const struct device_block block = cuda_csr_by_row(csr, by->values != nullptr ? by->values : csr->values);
    const int64_t f_out = by->f_out;
    const float *bias = by->bias;
    struct device_aggregate how = {};
    how.begin = bias == nullptr;
    transpose_launch(device, f_out, csr->n_col, by->w, (float *)by->scratch);
    if (bias != nullptr) { /* sums start from it */
        const fill_map map = {f_out, bias, y};
        quads_launch(device, csr->n_row, f_out, f_out % 4 == 0 && quad_aligned(bias) && quad_aligned(y), map);
    }
    cuda_aggregate_sum(device, &block, &how, f_out, (const float *)by->scratch, y);
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    values_permute(int64_t n, const uint32_t *position, const float *values, float *out)
{
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) {
        out[i] = values[position[i]];
    }
}

static void product_backward(struct device *device, const struct device_csr *csr, const struct device_csr_linear *by,
                             const float *grad_y, float *grad_w)
{
    const struct cuda_columns *columns = (const struct cuda_columns *)csr->by_column;
    const struct device_block block = cuda_csr_by_column(csr, columns->values);
    struct device_aggregate how = {};
    how.begin = true;
    if (csr->n_value > 0) {
        LAUNCH(values_permute, dim3(grid_size(csr->n_value, BLOCK_THREADS)), dim3(BLOCK_THREADS), cuda_stream(device),
               csr->n_value, columns->position, by->values != nullptr ? by->values : csr->values, columns->values);
    }
    cuda_aggregate_sum(device, &block, &how, by->f_out, grad_y, (float *)by->scratch);
    transpose_launch(device, csr->n_col, by->f_out, (const float *)by->scratch, grad_w);
}

/* --- single rows' own columns --- */

/* y[rows[k]] += value · table[k] */
struct embed_map {
    int64_t f;
    const uint32_t *rows;
    const float *values, *table;
    float *y;
    template <bool VECTOR> __device__ void quad(int64_t k, int64_t c, int n) const
    {
        const float value = values != nullptr ? values[k] : 1.0F;
        struct quad product = quad_load<VECTOR>(table + k * f + c, n);
        for (int i = 0; i < 4; i++) {
            product.v[i] = value * product.v[i];
        }
        quad_put<VECTOR>(y + (int64_t)rows[k] * f + c, n, true, product);
    }
};

/* Those of the rows with columns of their own; NULL: ones. */
static const float *embedded_values(const struct device_csr *csr, const float *values)
{
    return values != nullptr ? values + csr->n_value : nullptr;
}

extern "C" void cuda_csr_forward(struct device *device, const struct device_csr *csr,
                                 const struct device_csr_linear *how, float *y)
{
    const int64_t f = how->f_out;
    if (how->w != nullptr) {
        product(device, csr, how, y);
    }
    if (how->table != nullptr) {
        const embed_map map = {f, csr->embedded_rows, embedded_values(csr, how->values), how->table, y};
        quads_launch(device, csr->n_embedded, f, f % 4 == 0 && quad_aligned(how->table) && quad_aligned(y), map);
    }
}

/* grad_table[k] = value · grad_y[rows[k]] */
struct embed_backward_map {
    int64_t f;
    const uint32_t *rows;
    const float *values, *grad_y;
    float *grad_table;
    template <bool VECTOR> __device__ void quad(int64_t k, int64_t c, int n) const
    {
        const float value = values != nullptr ? values[k] : 1.0F;
        struct quad product = quad_load<VECTOR>(grad_y + (int64_t)rows[k] * f + c, n);
        for (int i = 0; i < 4; i++) {
            product.v[i] = value * product.v[i];
        }
        quad_store<VECTOR>(grad_table + k * f + c, n, product);
    }
};

extern "C" void cuda_csr_backward(struct device *device, const struct device_csr *csr,
                                  const struct device_csr_linear *how, const float *grad_y, float *grad_w,
                                  float *grad_table)
{
    const int64_t f = how->f_out;
    if (grad_w != nullptr) {
        product_backward(device, csr, how, grad_y, grad_w);
    }
    if (grad_table != nullptr) {
        const embed_backward_map map = {f, csr->embedded_rows, embedded_values(csr, how->values), grad_y, grad_table};
        quads_launch(device, csr->n_embedded, f, f % 4 == 0 && quad_aligned(grad_y) && quad_aligned(grad_table), map);
    }
}

/* --- stored values --- */

/* Threads that take a row of stored values. */
#define ROW_THREADS 16

/* The csr, as its kernels take it. */
struct stored {
    int64_t n_row, n_value, n_embedded, n_run;
    const int64_t *indptr;
    const uint32_t *cols;
    const float *values;
    const struct embedded_run *run;
    const uint32_t *embedded_rows, *embedded_columns;
};

/* `run`: of the columns that are single rows' own, on the device. */
static stored stored_with(const struct device_csr *csr, const struct embedded_run *run)
{
    const int64_t n_run = csr->embedded != nullptr ? csr->embedded->n_run : 0;
    stored out = {csr->n_row, csr->n_value,       csr->n_embedded,      n_run, csr->indptr, csr->cols, csr->values,
                  run,        csr->embedded_rows, csr->embedded_columns};
    return out;
}

static stored stored_of(const struct device_csr *csr)
{
    return stored_with(csr, ((const struct cuda_columns *)csr->by_column)->run);
}

/* The number of a shared column among all: protocol/wire/embedded.c's. */
static __device__ __forceinline__ uint32_t column_of(const stored &csr, uint32_t shared)
{
    int64_t column = shared;
    for (int64_t i = 0; i < csr.n_run && csr.run[i].begin <= column; i++) {
        column += csr.run[i].end - csr.run[i].begin;
    }
    return (uint32_t)column;
}

/* Call what(e, r, column) for each stored value, e counted on behind them for rows with columns of their own. */
template <class What> static __device__ __forceinline__ void stored_each(const stored &csr, const What &what)
{
    for (int64_t r = grid_thread() / ROW_THREADS; r < csr.n_row; r += grid_threads() / ROW_THREADS) {
        for (int64_t e = csr.indptr[r] + threadIdx.x % ROW_THREADS; e < csr.indptr[r + 1]; e += ROW_THREADS) {
            what(e, r, column_of(csr, csr.cols[e]), csr.values[e]);
        }
    }
    for (int64_t k = grid_thread(); k < csr.n_embedded; k += grid_threads()) {
        what(csr.n_value + k, (int64_t)csr.embedded_rows[k], csr.embedded_columns[k], 1.0F);
    }
}

static unsigned stored_grid(const struct device_csr *csr)
{
    return grid_size(csr->n_row * ROW_THREADS > csr->n_embedded ? csr->n_row * ROW_THREADS : csr->n_embedded,
                     BLOCK_THREADS);
}

/* Which values are kept, as of a dense row. */
struct stored_drop {
    uint64_t threshold; /* 0: all */
    struct random_key key;
    const struct device_now *now;
    const uint32_t *node;
    double scale; /* a float */
};

__global__ void __launch_bounds__(BLOCK_THREADS) stored_dropout(const stored csr, const stored_drop drop, float *out)
{
    const uint32_t epoch = drop.now != nullptr ? drop.now->epoch : drop.key.epoch;
    stored_each(csr, [&](int64_t e, int64_t r, uint32_t column, float value) {
        bool dropped = false;
        if (drop.threshold > 0) {
            dropped = draw_at(draw_quad(drop.key, epoch, drop.node[r], column / 4), column % 4) < drop.threshold;
        }
        out[e] = dropped ? 0.0F : value * (float)drop.scale;
    });
}

extern "C" void cuda_csr_dropout(struct device *device, const struct device_csr *csr,
                                 const struct device_activate *activate, float *out)
{
    const uint32_t threshold = random_drop_threshold(activate->p);
    const double scale = threshold > 0 ? (float)(1.0 / (1.0 - activate->p)) : 1.0;
    const stored_drop drop = {threshold, activate->key, activate->now, activate->node, scale};
    LAUNCH(stored_dropout, dim3(stored_grid(csr)), dim3(BLOCK_THREADS), cuda_stream(device), stored_of(csr), drop,
           out);
}

__global__ void __launch_bounds__(BLOCK_THREADS) stored_dense(const stored csr, int64_t width, float *out)
{
    stored_each(csr, [&](int64_t, int64_t r, uint32_t column, float value) { out[r * width + column] = value; });
}

extern "C" void cuda_csr_dense(struct device *device, const struct device_csr *csr, float *out)
{
    const int64_t width = csr->n_col + (csr->embedded != nullptr ? embedded_count(csr->embedded) : 0);
    const size_t n_byte = csr->embedded != nullptr ? (size_t)csr->embedded->n_run * sizeof(struct embedded_run) : 0;
    void *run = nullptr;
    if (n_byte > 0 && cuda_acquire(device, DEVICE_PLACE_DEVICE, MEMORY_FEATURES, n_byte, &run) != STATUS_OK) {
        cuda_check(device, cudaErrorMemoryAllocation, "columns of single rows");
        return;
    }
    if (run != nullptr) {
        cuda_copy(device, run, csr->embedded->run, n_byte);
    }
    cuda_fill_zero(device, out, (size_t)(csr->n_row * width) * sizeof *out);
    LAUNCH(stored_dense, dim3(stored_grid(csr)), dim3(BLOCK_THREADS), cuda_stream(device),
           stored_with(csr, (const struct embedded_run *)run), width, out);
    cuda_release(device, DEVICE_PLACE_DEVICE, MEMORY_FEATURES, run, n_byte); /* waits for the kernel */
}
