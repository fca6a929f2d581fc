/* Products with a weight w (f_out × f_in): wide outputs by cuBLAS in float32 (no TF32), of which this is the one file that knows, narrow
 * ones by kernels of our own. Which, and how rows are cut, follows from shapes alone. */
#include "models/cuda/dense/dense.h"

#include <cublas_v2.h>
#include <stdio.h>
#include <stdlib.h>

/* What cuBLAS may use beside its arguments: with a workspace of its own it takes no memory while it runs, and its bits do not depend on
 * streams. */
#define WORKSPACE_BYTES ((size_t)32 << 20)

/* Outputs of so many columns are narrow. */
#define NARROW 64

struct blas {
    cublasHandle_t handle;
    void *workspace;
};

static void check(struct cuda_device *cuda, cublasStatus_t code, const char *what)
{
    if (code != CUBLAS_STATUS_SUCCESS && cuda->failed == STATUS_OK) {
        cuda->failed = STATUS_BUG;
        snprintf(cuda->reason, sizeof cuda->reason, "%s by cuBLAS: error %d", what, (int)code);
    }
}

void cuda_blas_open(struct cuda_device *cuda)
{
    struct blas *blas = cuda->blas = memory_alloc(1, sizeof *blas);
    check(cuda, cublasCreate(&blas->handle), "opening");
    cuda_check(&cuda->base, cudaMalloc(&blas->workspace, WORKSPACE_BYTES), "the workspace of cuBLAS");
    if (cuda->failed == STATUS_OK) {
        check(cuda, cublasSetStream(blas->handle, cuda_stream(&cuda->base)), "setting its stream");
        check(cuda, cublasSetWorkspace(blas->handle, blas->workspace, WORKSPACE_BYTES), "setting its workspace");
        check(cuda, cublasSetMathMode(blas->handle, CUBLAS_PEDANTIC_MATH), "setting its mode");
    }
}

void cuda_blas_close(struct cuda_device *cuda)
{
    struct blas *blas = cuda->blas;
    if (blas != NULL && blas->handle != NULL) {
        cublasDestroy(blas->handle);
    }
    if (blas != NULL) {
        cudaFree(blas->workspace);
    }
    free(blas);
    cuda->blas = NULL;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* --- by cuBLAS, which counts column by column: a matrix of rows is to it a transposed one --- */

static const float one = 1.0F, zero = 0.0F;

static void wide_forward(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x, const float *w,
                         bool add, float *y)
{
    struct cuda_device *cuda = cuda_device(device);
    struct blas *blas = cuda->blas;
    for (int64_t first = 0; first < n; first += CUDA_PIECE_ROWS) {
        check(cuda,
              cublasSgemm(blas->handle, CUBLAS_OP_T, CUBLAS_OP_N, (int)f_out, (int)smaller(n - first, CUDA_PIECE_ROWS), (int)f_in,
                          &one, w, (int)f_in, x + first * f_in, (int)f_in, add ? &one : &zero, y + first * f_out, (int)f_out),
              "a product");
    }
}

static void wide_backward_input(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *grad_y,
                                const float *w, bool add, float *grad_x)
{
    struct cuda_device *cuda = cuda_device(device);
    struct blas *blas = cuda->blas;
    for (int64_t first = 0; first < n; first += CUDA_PIECE_ROWS) {
        check(cuda,
              cublasSgemm(blas->handle, CUBLAS_OP_N, CUBLAS_OP_N, (int)f_in, (int)smaller(n - first, CUDA_PIECE_ROWS), (int)f_out,
                          &one, w, (int)f_in, grad_y + first * f_out, (int)f_out, add ? &one : &zero, grad_x + first * f_in,
                          (int)f_in),
              "a product");
    }
}

/* Rows of x and grad_y in chunks, chunk i's product at out + i · f_out · f_in. */
static void wide_backward_weight(struct device *device, int64_t n, int64_t rows, int64_t f_in, int64_t f_out, const float *x,
                                 const float *grad_y, bool add, float *out)
{
    struct cuda_device *cuda = cuda_device(device);
    struct blas *blas = cuda->blas;
    const float *keep = add ? &one : &zero;
    int64_t n_full = n / rows, rest = n % rows, done = n_full * rows, size = f_in * f_out;
    if (n_full > 0) {
        check(cuda,
              cublasSgemmStridedBatched(blas->handle, CUBLAS_OP_N, CUBLAS_OP_T, (int)f_in, (int)f_out, (int)rows, &one, x,
                                        (int)f_in, rows * f_in, grad_y, (int)f_out, rows * f_out, keep, out, (int)f_in, size,
                                        (int)n_full),
              "a product");
    }
    if (rest > 0) {
        check(cuda,
              cublasSgemm(blas->handle, CUBLAS_OP_N, CUBLAS_OP_T, (int)f_in, (int)f_out, (int)rest, &one, x + done * f_in,
                          (int)f_in, grad_y + done * f_out, (int)f_out, keep, out + n_full * size, (int)f_in),
              "a product");
    }
}

/* --- the operations --- */

void cuda_linear_forward(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x, const float *w,
                         const float *bias, bool add, float *y)
{
    if (f_out > NARROW && f_in > 0) {
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
    if (f_in > NARROW && f_out > 0) {
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
static void narrow_backward_weight(struct device *device, int64_t n, int64_t rows, int64_t f_in, int64_t f_out, const float *x,
                                   const float *grad_y, bool add, float *out)
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
    if (f_in > NARROW && f_out > NARROW) {
        wide_backward_weight(device, n, rows, f_in, f_out, x, grad_y, direct && add, out);
    } else {
        narrow_backward_weight(device, n, rows, f_in, f_out, x, grad_y, direct && add, out);
    }
    if (!direct) {
        cuda_chunks_sum(device, size, (n + rows - 1) / rows, out, add, grad_w);
    }
}
