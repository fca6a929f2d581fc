/* cuSPARSE: right, in its stream, and as particular as cuSPARSE is about arrays and algorithms. */
#include <cusparse.h>

#include "tests/emulator/emulator.h"

struct emulator_sparse {
    cudaStream_t stream;
    void *own; /* memory */
    long n_run;
};

struct emulator_csr {
    int64_t n_row, n_col, n_edge;
    void *offsets, *columns, *values;
};

struct emulator_rows {
    int64_t n_row, f;
    void *values;
};

using namespace emulator;

#define OWN_BYTES (1 << 20)

/* Of a buffer, for so many rows and edges. */
#define SHARE_EDGES 256

static size_t buffer_bytes(const emulator_csr *a, int64_t f)
{
    return (size_t)((a->n_row + a->n_edge) / SHARE_EDGES + 1) * (8 + (size_t)f * sizeof(float));
}

static void array_check(const char *what, const void *at)
{
    if (!on_device(at)) {
        die("cusparseSpMM: %s are host memory", what);
    }
    if ((uintptr_t)at % 16 != 0) {
        die("cusparseSpMM: %s do not begin at a multiple of 16 bytes", what);
    }
}

static bool agree(const emulator_csr *a, const emulator_rows *x, const emulator_rows *out)
{
    return a->n_col == x->n_row && a->n_row == out->n_row && x->f == out->f;
}

extern "C" {

cusparseStatus_t cusparseCreate(cusparseHandle_t *out)
{
    *out = new emulator_sparse{};
    return cudaMalloc(&(*out)->own, OWN_BYTES) == cudaSuccess ? CUSPARSE_STATUS_SUCCESS
                                                              : CUSPARSE_STATUS_ALLOC_FAILED;
}

cusparseStatus_t cusparseDestroy(cusparseHandle_t handle)
{
    cudaError_t code = cudaFree(handle->own);
    delete handle;
    return code == cudaSuccess ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t cusparseGetVersion(cusparseHandle_t, int *version)
{
    *version = (int)n_byte("EMULATOR_SPARSE", 12603);
    return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t *out, int64_t n_row, int64_t n_col, int64_t n_edge,
                                   void *offsets, void *columns, void *values, cusparseIndexType_t,
                                   cusparseIndexType_t, cusparseIndexBase_t, cudaDataType)
{
    *out = new emulator_csr{n_row, n_col, n_edge, offsets, columns, values};
    return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t csr, void *offsets, void *columns, void *values)
{
    csr->offsets = offsets;
    csr->columns = columns;
    csr->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroySpMat(cusparseSpMatDescr_t csr)
{
    delete csr;
    return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t *out, int64_t n_row, int64_t f, int64_t step, void *values,
                                     cudaDataType, cusparseOrder_t)
{
    if (step != f) {
        return CUSPARSE_STATUS_INVALID_VALUE;
    }
    *out = new emulator_rows{n_row, f, values};
    return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDnMatSetValues(cusparseDnMatDescr_t rows, void *values)
{
    rows->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroyDnMat(cusparseDnMatDescr_t rows)
{
    delete rows;
    return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void *,
                                         cusparseSpMatDescr_t a, cusparseDnMatDescr_t x, const void *,
                                         cusparseDnMatDescr_t out, cudaDataType, cusparseSpMMAlg_t, size_t *n_bytes)
{
    *n_bytes = agree(a, x, out) ? buffer_bytes(a, x->f) : 0;
    return agree(a, x, out) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t cusparseSpMM_preprocess(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void *,
                                         cusparseSpMatDescr_t, cusparseDnMatDescr_t, const void *,
                                         cusparseDnMatDescr_t, cudaDataType, cusparseSpMMAlg_t, void *)
{
    return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void *alpha,
                              cusparseSpMatDescr_t a, cusparseDnMatDescr_t x, const void *beta,
                              cusparseDnMatDescr_t out, cudaDataType, cusparseSpMMAlg_t algorithm, void *buffer)
{
    if (!agree(a, x, out)) {
        return CUSPARSE_STATUS_INVALID_VALUE;
    }
    array_check("offsets", a->offsets);
    array_check("columns", a->columns);
    array_check("values", a->values);
    array_check("rows of x", x->values);
    array_check("rows of out", out->values);
    array_check("bytes of the buffer", buffer);
    const emulator_csr csr = *a;
    const emulator_rows from = *x, to = *out;
    const float by = *(const float *)alpha, keep = *(const float *)beta;
    const long turn = algorithm == CUSPARSE_SPMM_CSR_ALG2 ? handle->n_run++ : -1;
    enqueue(handle->stream, [=] {
        emulator_set(buffer, 0x55, buffer_bytes(&csr, from.f));
        emulator_spmm((long)csr.n_row, (long)csr.n_col, (const int *)csr.offsets, (const int *)csr.columns,
                      (const float *)csr.values, (long)from.f, by, (const float *)from.values, keep,
                      (float *)to.values, turn);
    });
    return CUSPARSE_STATUS_SUCCESS;
}

void *emulator_cusparse(const char *name)
{
    static const std::vector<named> all = {
#define X(function) {#function, (void *)function},
        X(cusparseCreate) X(cusparseDestroy) X(cusparseGetVersion) X(cusparseSetStream) X(cusparseCreateCsr)
            X(cusparseCsrSetPointers) X(cusparseDestroySpMat) X(cusparseCreateDnMat) X(cusparseDnMatSetValues)
                X(cusparseDestroyDnMat) X(cusparseSpMM_bufferSize) X(cusparseSpMM_preprocess) X(cusparseSpMM)
#undef X
    };
    return function_find(all, name, "EMULATOR_SPARSE");
}

} /* extern "C" */
