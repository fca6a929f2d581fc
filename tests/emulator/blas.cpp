/* cuBLAS: right, and in its stream. */
#include <cublas_v2.h>

#include "tests/emulator/emulator.h"

#include <cstdlib>
#include <string>

struct emulator_blas {
    cudaStream_t stream;
    void *workspace;
};

using namespace emulator;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *out)
{
    *out = new emulator_blas{};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *version)
{
    *version = (int)n_byte("EMULATOR_BLAS", 0);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    handle->workspace = nullptr;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t)
{
    handle->workspace = workspace;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

/* Of several, in one launch: as many blocks as tiles of 128 × 128, which is how large products are cut. */
static void product_write(cudaStream_t stream, int m, int n, int k, int n_product)
{
    static const bool writes = getenv("EMULATOR_LAUNCHES") != nullptr;
    if (!writes) {
        return;
    }
    const double asked_s = clock_now_s();
    const long n_block = (long)((m + 127) / 128) * ((n + 127) / 128) * n_product;
    const std::string name = "cublas " + std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k) + " " +
                             std::to_string(n_product);
    enqueue(stream, [=] { launch_write(name.c_str(), "", asked_s, 0.0, n_block, 256); });
}

static cublasStatus_t multiply(cublasHandle_t handle, cublasOperation_t trans_a, cublasOperation_t trans_b, int m,
                               int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
                               const float *beta, float *c, int ldc)
{
    if (handle->workspace == nullptr) {
        die("cublasSgemm without a workspace of its own");
    }
    if (!on_device(a) || !on_device(b) || !on_device(c)) {
        die("cublasSgemm of host memory");
    }
    const float by = *alpha, keep = *beta;
    enqueue(handle->stream, [=] {
        emulator_gemm(trans_a == CUBLAS_OP_T, trans_b == CUBLAS_OP_T, m, n, k, by, a, lda, b, ldb, keep, c, ldc);
    });
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t trans_a, cublasOperation_t trans_b, int m,
                              int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
                              const float *beta, float *c, int ldc)
{
    product_write(handle->stream, m, n, k, 1);
    return multiply(handle, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t trans_a, cublasOperation_t trans_b,
                                         int m, int n, int k, const float *alpha, const float *a, int lda,
                                         long long int step_a, const float *b, int ldb, long long int step_b,
                                         const float *beta, float *c, int ldc, long long int step_c, int n_product)
{
    cublasStatus_t code = CUBLAS_STATUS_SUCCESS;
    product_write(handle->stream, m, n, k, n_product);
    for (int i = 0; code == CUBLAS_STATUS_SUCCESS && i < n_product; i++) {
        code = multiply(handle, trans_a, trans_b, m, n, k, alpha, a + i * step_a, lda, b + i * step_b, ldb, beta,
                        c + i * step_c, ldc);
    }
    return code;
}

void *emulator_cublas(const char *name)
{
    static const std::vector<named> all = {
#define X(function) {#function, (void *)function},
        X(cublasCreate_v2) X(cublasDestroy_v2) X(cublasGetVersion_v2) X(cublasSetStream_v2) X(cublasSetWorkspace_v2)
            X(cublasSetMathMode) X(cublasSgemm_v2) X(cublasSgemmStridedBatched)
#undef X
    };
    return function_find(all, name, "EMULATOR_BLAS");
}

} /* extern "C" */
