/* The sums over neighbours of cuSPARSE that device code calls: SpMM of a matrix in CSR with 32-bit indices and row-major rows. */
#ifndef EMULATOR_CUSPARSE_H
#define EMULATOR_CUSPARSE_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    CUSPARSE_STATUS_SUCCESS = 0,
    CUSPARSE_STATUS_ALLOC_FAILED = 2,
    CUSPARSE_STATUS_INVALID_VALUE = 3,
    CUSPARSE_STATUS_NOT_SUPPORTED = 10
} cusparseStatus_t;
typedef enum { CUSPARSE_OPERATION_NON_TRANSPOSE = 0 } cusparseOperation_t;
typedef enum { CUSPARSE_INDEX_32I = 2 } cusparseIndexType_t;
typedef enum { CUSPARSE_INDEX_BASE_ZERO = 0 } cusparseIndexBase_t;
typedef enum { CUSPARSE_ORDER_ROW = 2 } cusparseOrder_t;
typedef enum { CUDA_R_32F = 0 } cudaDataType;
/* ALG3 adds a row's edges in shares of the matrix's, so that its sums depend on the other rows; ALG2, whose results cuSPARSE says may differ from run
 * to run, in another order each time. */
typedef enum { CUSPARSE_SPMM_CSR_ALG2 = 6, CUSPARSE_SPMM_CSR_ALG3 = 12 } cusparseSpMMAlg_t;
typedef struct emulator_sparse *cusparseHandle_t;
typedef struct emulator_csr *cusparseSpMatDescr_t;
typedef struct emulator_rows *cusparseDnMatDescr_t;

/* It takes a MiB of the device's memory, as a library has its own. */
EMULATOR_CHECKED cusparseStatus_t cusparseCreate(cusparseHandle_t *out);
EMULATOR_CHECKED cusparseStatus_t cusparseDestroy(cusparseHandle_t handle);
/* What EMULATOR_SPARSE says, 12603 without. */
EMULATOR_CHECKED cusparseStatus_t cusparseGetVersion(cusparseHandle_t handle, int *version);
EMULATOR_CHECKED cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream);
EMULATOR_CHECKED cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t *out, int64_t n_row, int64_t n_col,
                                                    int64_t n_edge, void *offsets, void *columns, void *values,
                                                    cusparseIndexType_t type_of_offsets,
                                                    cusparseIndexType_t type_of_columns, cusparseIndexBase_t base,
                                                    cudaDataType type_of_values);
EMULATOR_CHECKED cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t csr, void *offsets, void *columns,
                                                         void *values);
EMULATOR_CHECKED cusparseStatus_t cusparseDestroySpMat(cusparseSpMatDescr_t csr);
EMULATOR_CHECKED cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t *out, int64_t n_row, int64_t f,
                                                      int64_t step, void *values, cudaDataType type,
                                                      cusparseOrder_t order);
EMULATOR_CHECKED cusparseStatus_t cusparseDnMatSetValues(cusparseDnMatDescr_t rows, void *values);
EMULATOR_CHECKED cusparseStatus_t cusparseDestroyDnMat(cusparseDnMatDescr_t rows);
EMULATOR_CHECKED cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t of_a,
                                                          cusparseOperation_t of_x, const void *alpha,
                                                          cusparseSpMatDescr_t a, cusparseDnMatDescr_t x,
                                                          const void *beta, cusparseDnMatDescr_t out,
                                                          cudaDataType type, cusparseSpMMAlg_t algorithm,
                                                          size_t *n_bytes);
EMULATOR_CHECKED cusparseStatus_t cusparseSpMM_preprocess(cusparseHandle_t handle, cusparseOperation_t of_a,
                                                          cusparseOperation_t of_x, const void *alpha,
                                                          cusparseSpMatDescr_t a, cusparseDnMatDescr_t x,
                                                          const void *beta, cusparseDnMatDescr_t out,
                                                          cudaDataType type, cusparseSpMMAlg_t algorithm,
                                                          void *buffer);
/* Writes the whole buffer. Ends the process where an array is not on the device or does not begin at a multiple of 16 bytes. */
EMULATOR_CHECKED cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t of_a,
                                               cusparseOperation_t of_x, const void *alpha, cusparseSpMatDescr_t a,
                                               cusparseDnMatDescr_t x, const void *beta, cusparseDnMatDescr_t out,
                                               cudaDataType type, cusparseSpMMAlg_t algorithm, void *buffer);

/* The function of this name; NULL: EMULATOR_SPARSE=0, the machine has no cuSPARSE. */
void *emulator_cusparse(const char *name);

#ifdef __cplusplus
}
#endif

#endif
