/* cuSPARSE's functions. It is opened at run time if the machine has it. Independent of the device. */
#ifndef MODELS_CUDA_SPMM_LIBRARY_H
#define MODELS_CUDA_SPMM_LIBRARY_H

#include "protocol/base/status.h"

#include <cusparse.h>

/* clang-format off */
#define SPMM_FUNCTION_LIST(X) \
    X(cusparseCreate) X(cusparseDestroy) X(cusparseGetVersion) X(cusparseSetStream) \
    X(cusparseCreateCsr) X(cusparseCsrSetPointers) X(cusparseDestroySpMat) \
    X(cusparseCreateDnMat) X(cusparseDnMatSetValues) X(cusparseDestroyDnMat) \
    X(cusparseSpMM_bufferSize) X(cusparseSpMM_preprocess) X(cusparseSpMM)
/* clang-format on */

/* Only functions, in the order of the list. */
struct spmm_library {
#define X(name) __typeof__(name) *name##_;
    SPMM_FUNCTION_LIST(X)
#undef X
};

/* errors  STATUS_PEER where it was looked for */
enum status spmm_library_find(struct spmm_library *out);

#endif
