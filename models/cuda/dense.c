/* Wide products, by cuBLAS in float32 (no TF32): the one file that knows it. */
#include "models/cuda/cuda.h"

#include <cublas_v2.h>
#include <stdio.h>
#include <stdlib.h>

/* What cuBLAS may use beside its arguments: with a workspace of its own it takes no memory while it runs, and its bits do not depend on
 * streams. */
#define WORKSPACE_BYTES ((size_t)32 << 20)

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
