/* Packing of listed rows of an array, and adding them back: a thread processes up to 16 bytes of a row. */
#include "models/cuda/vector.h"

/* The vector of a row for thread i: row i / n_vector; divided in 32 bits if possible. */
struct row_place {
    int64_t row, column;
};

template <typename T> static __device__ __forceinline__ struct row_place row_place_of(int64_t i, int64_t n_vector)
{
    if (i <= UINT32_MAX && n_vector <= UINT32_MAX) {
        const uint32_t row = (uint32_t)i / (uint32_t)n_vector;
        return {(int64_t)row, (int64_t)((uint32_t)i - row * (uint32_t)n_vector) * width_of<T>};
    }
    return {i / n_vector, i % n_vector * width_of<T>};
}

/* With factor 1 elements are copied, of any type. A list of another process may have any rows. */
template <typename T>
__global__ void __launch_bounds__(BLOCK_THREADS)
    gather(int64_t n_row, int64_t f, int64_t n_x, const uint32_t *rows, float factor, const float *x,
           uint32_t *beyond, uint32_t lender, float *out)
{
    const int64_t n_vector = f / width_of<T>;
    for (int64_t i = grid_thread(); i < n_row * n_vector; i += grid_threads()) {
        const struct row_place at = row_place_of<T>(i, n_vector);
        const int64_t row = (int64_t)__ldg(rows + at.row);
        if (row >= n_x) {
            *beyond = lender;
            continue;
        }
        const T from = vector_read<T>(x + row * f + at.column);
        vector_store(out + at.row * f + at.column, factor == 1.0F ? from : vector_scale(factor, from));
    }
}

template <typename T>
__global__ void __launch_bounds__(BLOCK_THREADS)
    add(int64_t n_row, int64_t f, const uint32_t *rows, float factor, const float *x, float *out)
{
    const int64_t n_vector = f / width_of<T>;
    for (int64_t i = grid_thread(); i < n_row * n_vector; i += grid_threads()) {
        const struct row_place at = row_place_of<T>(i, n_vector);
        float *to = out + (rows != NULL ? (int64_t)__ldg(rows + at.row) : at.row) * f + at.column;
        vector_store(
            to, vector_add(vector_load<T>(to), vector_scale(factor, vector_read<T>(x + at.row * f + at.column))));
    }
}

extern "C" void cuda_rows_take(struct device *device, enum device_lane lane, const struct device_rows *how,
                               float *out)
{
    cudaStream_t stream = ((struct cuda_device *)device)->lane[lane].stream;
    const int64_t n = how->n_row * how->f;
    if (n == 0) {
        return;
    }
    if (by_fours(how->f, how->x, out, NULL)) {
        LAUNCH(gather<float4>, grid_of(n / 4, BLOCK_THREADS), BLOCK_THREADS, stream, how->n_row, how->f, how->n_x,
               how->rows, how->factor, how->x, how->beyond, how->lender, out);
    } else {
        LAUNCH(gather<float>, grid_of(n, BLOCK_THREADS), BLOCK_THREADS, stream, how->n_row, how->f, how->n_x,
               how->rows, how->factor, how->x, how->beyond, how->lender, out);
    }
}

extern "C" void cuda_rows_gather(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor,
                                 const float *x, float *out)
{
    const struct device_rows how = {n_row, f, INT64_MAX, rows, factor, x, NULL, 0};
    cuda_rows_take(device, DEVICE_LANE_COMPUTE, &how, out);
}

extern "C" void cuda_rows_add(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor,
                              const float *x, float *out)
{
    cudaStream_t stream = cuda_stream(device);
    if (n_row == 0 || f == 0) {
        return;
    }
    if (by_fours(f, x, out, NULL)) {
        LAUNCH(add<float4>, grid_of(n_row * f / 4, BLOCK_THREADS), BLOCK_THREADS, stream, n_row, f, rows, factor, x,
               out);
    } else {
        LAUNCH(add<float>, grid_of(n_row * f, BLOCK_THREADS), BLOCK_THREADS, stream, n_row, f, rows, factor, x, out);
    }
}
