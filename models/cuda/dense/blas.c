#include "models/cuda/dense/blas.h"

#include "models/cuda/library.h"
#include "protocol/base/libraries.h"
#include "protocol/base/log.h"

#include <cublas_v2.h>
#include <stdio.h>
#include <stdlib.h>

/* cuBLAS's workspace: with its own workspace it allocates nothing while it runs, and its bits do not depend on
 * streams. All products are in one lane. */
#define WORKSPACE_BYTES ((size_t)CUDA_BLAS_BYTES)

#define FUNCTION_LIST(X)                                                                                             \
    X(cublasCreate_v2)                                                                                               \
    X(cublasDestroy_v2)                                                                                              \
    X(cublasGetVersion_v2)                                                                                           \
    X(cublasSetStream_v2) X(cublasSetWorkspace_v2) X(cublasSetMathMode) X(cublasSgemm_v2) X(cublasSgemmStridedBatched)

/* In the order of the list. */
struct functions {
#define X(name) __typeof__(name) *name##_;
    FUNCTION_LIST(X)
#undef X
};

struct blas {
    struct functions call;
    cublasHandle_t handle;
    void *workspace;
};

static void check(struct cuda_device *cuda, cublasStatus_t code, const char *what)
{
    if (code != CUBLAS_STATUS_SUCCESS && cuda->failed == STATUS_OK) {
        cuda->failed = code == CUBLAS_STATUS_ALLOC_FAILED ? STATUS_NOMEM : STATUS_BUG;
        snprintf(cuda->reason, sizeof cuda->reason, "%s by cuBLAS: error %d", what, (int)code);
    }
}

/* --- the library --- */

/* The library with all functions; NULL: the machine lacks it. */
static struct blas *blas_find(void)
{
    static const char *const places[] = {"libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13",
                                         "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so.12", NULL};
    static const char *const names[] = {
#define X(name) #name,
        FUNCTION_LIST(X) NULL
#undef X
    };
    struct functions call;
    if (!cuda_library_find(places, names, CUDA_LIBRARY_EMULATED(emulator_cublas), &call)) {
        return NULL;
    }
    struct blas *blas = memory_alloc(1, sizeof *blas);
    blas->call = call;
    return blas;
}

void cuda_blas_open(struct cuda_device *cuda)
{
    struct blas *blas = cuda->blas = blas_find();
    if (blas == NULL) {
        log_warn("cuBLAS 12 or 13 is not on this machine: wide products go by slower kernels, and results have other "
                 "bits than "
                 "with it");
        return;
    }
    check(cuda, blas->call.cublasCreate_v2_(&blas->handle), "opening");
    cuda_check(&cuda->base, cudaMalloc(&blas->workspace, WORKSPACE_BYTES), "the workspace of cuBLAS");
    if (cuda->failed == STATUS_OK) {
        check(cuda, blas->call.cublasSetStream_v2_(blas->handle, cuda_stream(&cuda->base)), "setting its stream");
        check(cuda, blas->call.cublasSetWorkspace_v2_(blas->handle, blas->workspace, WORKSPACE_BYTES),
              "setting its workspace");
        check(cuda, blas->call.cublasSetMathMode_(blas->handle, CUBLAS_PEDANTIC_MATH), "setting its mode");
    }
}

uint32_t cuda_blas_version(struct cuda_device *cuda)
{
    int version = 0;
    if (cuda->blas == NULL) {
        return LIBRARY_NONE;
    }
    if (cuda->failed == STATUS_OK) {
        check(cuda, cuda->blas->call.cublasGetVersion_v2_(cuda->blas->handle, &version), "asking its version");
    }
    return version > 0 && version < (int)LIBRARY_MOST ? (uint32_t)version : LIBRARY_UNKNOWN;
}

void cuda_blas_close(struct cuda_device *cuda)
{
    struct blas *blas = cuda->blas;
    if (blas == NULL) {
        return;
    }
    if (blas->handle != NULL) {
        check(cuda, blas->call.cublasDestroy_v2_(blas->handle), "closing");
    }
    cuda_check(&cuda->base, cudaFree(blas->workspace), "giving the workspace of cuBLAS back");
    free(blas); /* the library stays: it has threads */
    cuda->blas = NULL;
}

/* --- products --- */

void cuda_blas_multiply(struct device *device, const struct cuda_blas_product *p)
{
    static const float one = 1.0F, zero = 0.0F;
    struct cuda_device *cuda = cuda_device(device);
    struct blas *blas = cuda->blas;
    cublasOperation_t a = p->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                      b = p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const float *keep = p->add ? &one : &zero;
    if (p->n_product == 1) {
        check(cuda,
              blas->call.cublasSgemm_v2_(blas->handle, a, b, (int)p->m, (int)p->n, (int)p->k, &one, p->a,
                                         (int)p->a_step, p->b, (int)p->b_step, keep, p->c, (int)p->c_step),
              "a product");
    } else {
        check(cuda,
              blas->call.cublasSgemmStridedBatched_(blas->handle, a, b, (int)p->m, (int)p->n, (int)p->k, &one, p->a,
                                                    (int)p->a_step, p->a_next, p->b, (int)p->b_step, p->b_next, keep,
                                                    p->c, (int)p->c_step, p->c_next, (int)p->n_product),
              "products");
    }
}
