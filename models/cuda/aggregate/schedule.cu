/* Finding a block's long rows, and opening blocks. */
#include "models/cuda/block/block_scan.h"

extern "C" {
#include "models/cuda/aggregate/spmm.h"
#include "models/cuda/block/scan.h"
#include "models/cuda/schedule.h"
}

/* Counts of units and, in the high half, of pieces: one scan for both. */
#define PIECE ((int64_t)1 << 32)

static __device__ __forceinline__ int64_t pieces_of(int64_t n_edge)
{
    return (n_edge + DEVICE_HUB_EDGES - 1) / DEVICE_HUB_EDGES;
}

/* Units, and pieces, of a row of so many edges. */
static __device__ __forceinline__ int64_t row_count(int64_t n_edge)
{
    return n_edge <= CUDA_LONG_EDGES ? 0 : n_edge <= DEVICE_HUB_EDGES ? 1 : pieces_of(n_edge) * (1 + PIECE);
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    units_count(int64_t n_row, int64_t n_chunk, const int64_t *indptr, int64_t *count)
{
    for (int64_t c = blockIdx.x; c < n_chunk; c += gridDim.x) {
        const int64_t end = (c + 1) * CUDA_SCHEDULE_ROWS < n_row ? (c + 1) * CUDA_SCHEDULE_ROWS : n_row;
        int64_t n = 0, sum;
        for (int64_t r = c * CUDA_SCHEDULE_ROWS + threadIdx.x; r < end; r += BLOCK_THREADS) {
            n += row_count(indptr[r + 1] - indptr[r]);
        }
        block_scan(n, &sum);
        if (threadIdx.x == 0) {
            count[c] = sum;
        }
    }
}

static __device__ void row_put(int64_t row, int64_t begin, int64_t end, int64_t at, struct cuda_unit *unit)
{
    const bool is_hub = end - begin > DEVICE_HUB_EDGES;
    int64_t i = at % PIECE, partial = at / PIECE;
    for (int64_t e = begin; e < end; e += DEVICE_HUB_EDGES) {
        const int64_t last = e + DEVICE_HUB_EDGES < end ? e + DEVICE_HUB_EDGES : end;
        unit[i++] = {row, e, last, is_hub ? partial++ : -1};
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    units_put(int64_t n_row, int64_t n_chunk, const int64_t *indptr, const int64_t *count, struct cuda_schedule sizes,
              struct cuda_schedule *schedule, struct cuda_unit *unit)
{
    for (int64_t c = blockIdx.x; c < n_chunk; c += gridDim.x) {
        const int64_t end = (c + 1) * CUDA_SCHEDULE_ROWS < n_row ? (c + 1) * CUDA_SCHEDULE_ROWS : n_row;
        int64_t before = count[c], sum;
        for (int64_t first = c * CUDA_SCHEDULE_ROWS; first < end && before < count[c + 1]; first += BLOCK_THREADS) {
            const int64_t r = first + threadIdx.x, n_edge = r < end ? indptr[r + 1] - indptr[r] : 0;
            const int64_t at = before + block_scan(row_count(n_edge), &sum);
            if (row_count(n_edge) > 0) {
                row_put(r, indptr[r], indptr[r + 1], at, unit);
            }
            before += sum;
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        sizes.n_unit = count[n_chunk] % PIECE;
        *schedule = sizes;
    }
}

void *cuda_schedule_make(struct device *device, int64_t n_row, int64_t n_edge, const int64_t *indptr, void *memory)
{
    if (cuda_schedule_bytes(n_row, n_edge) == 0) {
        return NULL;
    }
    cudaStream_t stream = cuda_stream(device);
    const struct cuda_schedule_places at = cuda_schedule_places_make(n_row, n_edge);
    const struct cuda_schedule sizes = {(int64_t)at.n_byte, 0, (int64_t)at.partial};
    char *base = (char *)memory;
    int64_t *count = (int64_t *)(base + at.counts);
    LAUNCH(units_count, grid_size(at.n_chunk, 1), BLOCK_THREADS, stream, n_row, at.n_chunk, indptr, count);
    cuda_scan(device, at.n_chunk, count, base + at.scan);
    LAUNCH(units_put, grid_size(at.n_chunk, 1), BLOCK_THREADS, stream, n_row, at.n_chunk, indptr,
           (const int64_t *)count, sizes, (struct cuda_schedule *)memory, (struct cuda_unit *)(base + at.units));
    return memory;
}

extern "C" enum status cuda_schedule_open(struct device *device, struct device_block *block)
{
    const size_t n_byte = cuda_schedule_bytes(block->n_row, block->n_edge);
    struct cuda_schedule made = {};
    void *memory;
    block->schedule = NULL;
    if (n_byte == 0) {
        return STATUS_OK;
    }
    enum status status = cuda_acquire(device, DEVICE_PLACE_DEVICE, MEMORY_STRUCTURE, n_byte, &memory);
    if (status != STATUS_OK) {
        return status;
    }
    cuda_schedule_make(device, block->n_row, block->n_edge, block->indptr, memory);
    cuda_copy(device, &made, memory, sizeof made);
    if (made.n_unit == 0) {
        cuda_release(device, DEVICE_PLACE_DEVICE, MEMORY_STRUCTURE, memory, n_byte);
        memory = NULL;
    }
    block->schedule = memory;
    return STATUS_OK;
}

extern "C" void cuda_schedule_close(struct device *device, struct device_block *block)
{
    struct cuda_schedule made = {};
    if (block->schedule != NULL) {
        cuda_copy(device, &made, block->schedule, sizeof made);
        cuda_release(device, DEVICE_PLACE_DEVICE, MEMORY_STRUCTURE, block->schedule, (size_t)made.n_byte);
        block->schedule = NULL;
    }
}

extern "C" enum status cuda_block_open(struct device *device, struct device_block *block)
{
    enum status status = cuda_schedule_open(device, block);
    if (status == STATUS_OK) {
        status = cuda_spmm_block_open(device, block);
    }
    if (status != STATUS_OK) {
        cuda_schedule_close(device, block);
    }
    return status;
}

extern "C" void cuda_block_close(struct device *device, struct device_block *block)
{
    cuda_schedule_close(device, block);
    cuda_spmm_block_close(device, block);
}
