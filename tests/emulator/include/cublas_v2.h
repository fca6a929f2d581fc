/* The products of cuBLAS that device code calls, column by column as BLAS counts; sums go in the order of k. */
#ifndef EMULATOR_CUBLAS_V2_H
#define EMULATOR_CUBLAS_V2_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7
} cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T } cublasOperation_t;
typedef enum { CUBLAS_DEFAULT_MATH = 0, CUBLAS_PEDANTIC_MATH = 2 } cublasMath_t;
typedef struct emulator_blas *cublasHandle_t;

EMULATOR_CHECKED cublasStatus_t cublasCreate_v2(cublasHandle_t *out);
EMULATOR_CHECKED cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
/* What EMULATOR_BLAS says; 0: it has none. */
EMULATOR_CHECKED cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version);
/* Forgets the workspace, as cuBLAS does. */
EMULATOR_CHECKED cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
EMULATOR_CHECKED cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t n_bytes);
EMULATOR_CHECKED cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
/* Ends the process where no workspace is set (cuBLAS would take memory, and other bits with it) or a matrix is not on the device. */
EMULATOR_CHECKED cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t trans_a,
                                               cublasOperation_t trans_b, int m, int n, int k, const float *alpha,
                                               const float *a, int lda, const float *b, int ldb, const float *beta,
                                               float *c, int ldc);
/* n_product of them, each at its step from the one before. */
EMULATOR_CHECKED cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t trans_a,
                                                          cublasOperation_t trans_b, int m, int n, int k,
                                                          const float *alpha, const float *a, int lda,
                                                          long long int step_a, const float *b, int ldb,
                                                          long long int step_b, const float *beta, float *c, int ldc,
                                                          long long int step_c, int n_product);

/* The function of this name; NULL: EMULATOR_BLAS=0, the machine has no cuBLAS. */
void *emulator_cublas(const char *name);

#define cublasCreate cublasCreate_v2
#define cublasDestroy cublasDestroy_v2
#define cublasSetStream cublasSetStream_v2
#define cublasSetWorkspace cublasSetWorkspace_v2
#define cublasSgemm cublasSgemm_v2

#ifdef __cplusplus
}
#endif

#endif
