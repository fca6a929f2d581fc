/* Products with a weight w (f_out × f_in): wide outputs by cuBLAS where the machine has it, others by kernels of our
 * own. Which, and how rows are cut, follows from shapes alone. */
#include "models/cuda/dense/dense.h"

#include "models/cuda/dense/blas.h"

/* Outputs of so many columns are narrow. */
#define NARROW 64

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* --- by cuBLAS, which counts column by column: a matrix of rows is to it a transposed one --- */

static void wide_forward(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x,
                         const float *w, bool add, float *y)
{
    for (int64_t first = 0; first < n; first += CUDA_PIECE_ROWS) {
        const struct cuda_blas_product product = {.a_turned = true,
                                                  .add = add,
                                                  .m = f_out,
                                                  .n = smaller(n - first, CUDA_PIECE_ROWS),
                                                  .k = f_in,
                                                  .a = w,
                                                  .a_step = f_in,
                                                  .b = x + first * f_in,
                                                  .b_step = f_in,
                                                  .c = y + first * f_out,
                                                  .c_step = f_out,
                                                  .n_product = 1};
        cuda_blas_multiply(device, &product);
    }
}

static void wide_backward_input(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *grad_y,
                                const float *w, bool add, float *grad_x)
{
    for (int64_t first = 0; first < n; first += CUDA_PIECE_ROWS) {
        const struct cuda_blas_product product = {.add = add,
                                                  .m = f_in,
                                                  .n = smaller(n - first, CUDA_PIECE_ROWS),
                                                  .k = f_out,
                                                  .a = w,
                                                  .a_step = f_in,
                                                  .b = grad_y + first * f_out,
                                                  .b_step = f_out,
                                                  .c = grad_x + first * f_in,
                                                  .c_step = f_in,
                                                  .n_product = 1};
        cuda_blas_multiply(device, &product);
    }
}

/* Rows of x and grad_y in chunks, chunk i's product at out + i · f_out · f_in. */
static void wide_backward_weight(struct device *device, int64_t n, int64_t rows, int64_t f_in, int64_t f_out,
                                 const float *x, const float *grad_y, bool add, float *out)
{
    int64_t n_full = n / rows, rest = n % rows, done = n_full * rows, size = f_in * f_out;
    struct cuda_blas_product product = {.b_turned = true,
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

void cuda_linear_forward(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x,
                         const float *w, const float *bias, bool add, float *y)
{
    if (f_out > NARROW && f_in > 0 && cuda_has_blas(device)) {
        wide_forward(device, n, f_in, f_out, x, w, add, y);
        if (bias != NULL) {
            cuda_bias_add(device, n, f_out, y, bias, y);
        }
        return;
    }
    const struct cuda_product product = {.m = n,
                                         .n = f_out,
                                         .k = f_in,
                                         .a = x,
                                         .a_m = f_in,
                                         .a_k = 1,
                                         .b = w,
                                         .b_n = f_in,
                                         .b_k = 1,
                                         .bias = bias,
                                         .c = y,
                                         .c_m = f_out,
                                         .c_n = 1,
                                         .chunk = f_in,
                                         .add = add};
    cuda_multiply(device, &product);
}

void cuda_linear_backward_input(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *grad_y,
                                const float *w, bool add, float *grad_x)
{
    if (f_in > NARROW && f_out > 0 && cuda_has_blas(device)) {
        wide_backward_input(device, n, f_in, f_out, grad_y, w, add, grad_x);
        return;
    }
    const struct cuda_product product = {.m = n,
                                         .n = f_in,
                                         .k = f_out,
                                         .a = grad_y,
                                         .a_m = f_out,
                                         .a_k = 1,
                                         .b = w,
                                         .b_n = 1,
                                         .b_k = f_in,
                                         .c = grad_x,
                                         .c_m = f_in,
                                         .c_n = 1,
                                         .chunk = f_out,
                                         .add = add};
    cuda_multiply(device, &product);
}

/* The wider side of the weight is the product's rows. */
static void own_backward_weight(struct device *device, int64_t n, int64_t rows, int64_t f_in, int64_t f_out,
                                const float *x, const float *grad_y, bool add, float *out)
{
    bool in_is_wide = f_in >= f_out;
    int64_t wide = in_is_wide ? f_in : f_out, narrow = in_is_wide ? f_out : f_in;
    const struct cuda_product product = {.m = wide,
                                         .n = narrow,
                                         .k = n,
                                         .a = in_is_wide ? x : grad_y,
                                         .a_m = 1,
                                         .a_k = wide,
                                         .b = in_is_wide ? grad_y : x,
                                         .b_n = 1,
                                         .b_k = narrow,
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
    if (f_in > NARROW && f_out > NARROW && cuda_has_blas(device)) {
        wide_backward_weight(device, n, rows, f_in, f_out, x, grad_y, direct && add, out);
    } else {
        own_backward_weight(device, n, rows, f_in, f_out, x, grad_y, direct && add, out);
    }
    if (!direct) {
        cuda_chunks_sum(device, size, (n + rows - 1) / rows, out, add, grad_w);
    }
}
