/* Products with a weight w (f_out × f_in): in float32 wide outputs by cuBLAS if the machine has it, all others by
 * our own kernels. The choice, and the cuts of rows, depend only on shapes. */
#include "models/cuda/dense/dense.h"

#include "models/cuda/dense/blas.h"
#include "protocol/base/amounts.h"

/* Outputs of so many columns are narrow. */
#define NARROW 64

static bool is_of_blas(struct device *device, int64_t narrowest)
{
    return device->products == DEVICE_PRODUCTS_FP32 && narrowest > NARROW && cuda_has_blas(device);
}

/* --- by cuBLAS, which counts column by column: a matrix of rows is to it a transposed one --- */

static void wide_linear(struct device *device, const struct device_linear *how, float *y)
{
    for (int64_t first = 0; first < how->n; first += CUDA_PIECE_ROWS) {
        const struct cuda_blas_product product = {.a_transposed = !how->transposed,
                                                  .add = how->add,
                                                  .m = how->f_out,
                                                  .n = smaller(how->n - first, CUDA_PIECE_ROWS),
                                                  .k = how->f_in,
                                                  .a = how->w,
                                                  .a_step = how->transposed ? how->f_out : how->f_in,
                                                  .b = how->x + first * how->f_in,
                                                  .b_step = how->f_in,
                                                  .c = y + first * how->f_out,
                                                  .c_step = how->f_out,
                                                  .n_product = 1};
        cuda_blas_multiply(device, &product);
    }
}

/* Rows of x and grad_y in chunks, chunk i's product at out + i · f_out · f_in. */
static void wide_backward_weight(struct device *device, int64_t n, int64_t rows, int64_t f_in, int64_t f_out,
                                 const float *x, const float *grad_y, bool add, float *out)
{
    int64_t n_full = n / rows, rest = n % rows, done = n_full * rows, size = f_in * f_out;
    struct cuda_blas_product product = {.b_transposed = true,
                                        .add = add,
                                        .m = f_in,
                                        .n = f_out,
                                        .k = rows,
                                        .a = x,
                                        .a_step = f_in,
                                        .a_next = rows * f_in,
                                        .b = grad_y,
                                        .b_step = f_out,
                                        .b_next = rows * f_out,
                                        .c = out,
                                        .c_step = f_in,
                                        .c_next = size,
                                        .n_product = n_full};
    if (n_full > 0) {
        cuda_blas_multiply(device, &product);
    }
    if (rest > 0) {
        product.k = rest;
        product.a += done * f_in;
        product.b += done * f_out;
        product.c += n_full * size;
        product.n_product = 1;
        cuda_blas_multiply(device, &product);
    }
}

/* --- the operations --- */

void cuda_linear(struct device *device, const struct device_linear *how, float *y)
{
    if (how->f_in > 0 && is_of_blas(device, how->f_out)) {
        wide_linear(device, how, y);
        if (how->bias != NULL) {
            cuda_bias_add(device, how->n, how->f_out, y, how->bias, y);
        }
        return;
    }
    const struct cuda_product product = {.m = how->n,
                                         .n = how->f_out,
                                         .k = how->f_in,
                                         .a = how->x,
                                         .a_m = cuda_row_step(device, how->x, how->f_in),
                                         .a_k = 1,
                                         .b = how->w,
                                         .b_n = how->transposed ? 1 : how->f_in,
                                         .b_k = how->transposed ? how->f_out : 1,
                                         .bias = how->bias,
                                         .c = y,
                                         .c_m = cuda_row_step(device, y, how->f_out),
                                         .c_n = 1,
                                         .c_is_bf16 = cuda_bf16(device, y) > 0,
                                         .chunk = how->f_in,
                                         .add = how->add};
    cuda_multiply(device, &product);
}

/* The wider side of the weight is the product's rows. */
static void own_backward_weight(struct device *device, int64_t n, int64_t rows, int64_t f_in, int64_t f_out,
                                const float *x, const float *grad_y, bool add, float *out)
{
    bool in_is_wide = f_in >= f_out;
    int64_t wide = in_is_wide ? f_in : f_out, narrow = in_is_wide ? f_out : f_in;
    const float *a = in_is_wide ? x : grad_y, *b = in_is_wide ? grad_y : x;
    const struct cuda_product product = {.m = wide,
                                         .n = narrow,
                                         .k = n,
                                         .a = a,
                                         .a_m = 1,
                                         .a_k = cuda_row_step(device, a, wide),
                                         .b = b,
                                         .b_n = 1,
                                         .b_k = cuda_row_step(device, b, narrow),
                                         .c = out,
                                         .c_m = in_is_wide ? 1 : f_in,
                                         .c_n = in_is_wide ? f_in : 1,
                                         .chunk = rows,
                                         .size = f_in * f_out,
                                         .add = add};
    cuda_multiply(device, &product);
}

void cuda_linear_backward_weight(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x,
                                 const float *grad_y, void *scratch, bool add, float *grad_w)
{
    int64_t rows = cuda_weight_chunk_rows(n, f_in, f_out), size = f_in * f_out;
    bool direct = n <= rows;
    float *out = direct ? grad_w : scratch;
    if (n == 0) {
        cuda_fill_zero(device, grad_w, add ? 0 : (size_t)size * sizeof *grad_w);
        return;
    }
    if (is_of_blas(device, smaller(f_in, f_out))) {
        wide_backward_weight(device, n, rows, f_in, f_out, x, grad_y, direct && add, out);
    } else {
        own_backward_weight(device, n, rows, f_in, f_out, x, grad_y, direct && add, out);
    }
    if (!direct) {
        cuda_chunks_sum(device, size, (n + rows - 1) / rows, out, add, grad_w);
    }
}
