#include "tests/gpu/bench/library.h"

#include "models/cuda/aggregate/spmm_library.h"

#include <stdio.h>
#include <stdlib.h>

const char *const library_names[LIBRARY_ALGORITHM_N] = {"cuSPARSE ALG2", "cuSPARSE ALG3"};

struct library_sum {
    struct spmm_library library;
    cusparseHandle_t handle;
    cusparseSpMatDescr_t a;
    cusparseDnMatDescr_t x, out;
    cusparseSpMMAlg_t algorithm;
    void *buffer;
};

static const float one = 1.0F, zero = 0.0F;

static void check(struct figure *f, cusparseStatus_t code, const char *what)
{
    if (code != CUSPARSE_STATUS_SUCCESS && f->reason[0] == '\0') {
        snprintf(f->reason, sizeof f->reason, "cuSPARSE: %s: error %d", what, (int)code);
    }
}

static bool functions_find(struct figure *f, struct library_sum *s)
{
    if (spmm_library_find(&s->library) != STATUS_OK) {
        snprintf(f->reason, sizeof f->reason, "%.200s", status_reason());
        return false;
    }
    return true;
}

/* cuSPARSE takes offsets as wide as columns, and always reads values. */
static void matrix_make(struct figure *f, struct library_sum *s, const struct graph *graph,
                        const struct device_block *block)
{
    int64_t n_offset = graph->n_node + 1, n_most = graph->n_edge > n_offset ? graph->n_edge : n_offset;
    int32_t *host = malloc((size_t)n_most * sizeof *host);
    const uint32_t one_bits = 0x3f800000;
    if (host == NULL) {
        snprintf(f->reason, sizeof f->reason, "no host memory");
        return;
    }
    for (int64_t r = 0; r < n_offset; r++) {
        host[r] = (int32_t)graph->indptr[r];
    }
    int32_t *offsets = figure_copy(f, host, n_offset * (int64_t)sizeof *host);
    for (int64_t e = 0; e < graph->n_edge; e++) {
        host[e] = (int32_t)one_bits;
    }
    float *values = figure_copy(f, host, graph->n_edge * (int64_t)sizeof *host);
    free(host);
    if (f->reason[0] == '\0') {
        check(f,
              s->library.cusparseCreateCsr_(&s->a, graph->n_node, graph->n_node, graph->n_edge, offsets,
                                            (void *)(uintptr_t)block->cols, values, CUSPARSE_INDEX_32I,
                                            CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F),
              "a matrix");
    }
}

static void buffer_make(struct figure *f, struct library_sum *s)
{
    size_t n_bytes = 0;
    const cusparseOperation_t as_is = CUSPARSE_OPERATION_NON_TRANSPOSE;
    check(f,
          s->library.cusparseSpMM_bufferSize_(s->handle, as_is, as_is, &one, s->a, s->x, &zero, s->out, CUDA_R_32F,
                                              s->algorithm, &n_bytes),
          "a buffer's size");
    s->buffer = figure_take(f, n_bytes > 0 ? (int64_t)n_bytes : 1);
    if (f->reason[0] == '\0') {
        check(f,
              s->library.cusparseSpMM_preprocess_(s->handle, as_is, as_is, &one, s->a, s->x, &zero, s->out,
                                                  CUDA_R_32F, s->algorithm, s->buffer),
              "preprocessing");
    }
}

struct library_sum *library_sum_open(struct figure *f, enum library_algorithm algorithm, const struct graph *graph,
                                     const struct device_block *block, int64_t n_column, const float *x, float *out)
{
    struct library_sum *s = calloc(1, sizeof *s);
    if (s == NULL || f->reason[0] != '\0' || graph->n_edge > INT32_MAX || !functions_find(f, s)) {
        free(s);
        return NULL;
    }
    s->algorithm = algorithm == LIBRARY_ALG2 ? CUSPARSE_SPMM_CSR_ALG2 : CUSPARSE_SPMM_CSR_ALG3;
    check(f, s->library.cusparseCreate_(&s->handle), "opening");
    if (f->reason[0] == '\0') {
        check(f, s->library.cusparseSetStream_(s->handle, cuda_stream(f->device)), "its stream");
        matrix_make(f, s, graph, block);
    }
    if (f->reason[0] == '\0') {
        check(f,
              s->library.cusparseCreateDnMat_(&s->x, graph->n_node, n_column, n_column, (void *)(uintptr_t)x,
                                              CUDA_R_32F, CUSPARSE_ORDER_ROW),
              "rows");
        check(f,
              s->library.cusparseCreateDnMat_(&s->out, graph->n_node, n_column, n_column, out, CUDA_R_32F,
                                              CUSPARSE_ORDER_ROW),
              "rows");
    }
    if (f->reason[0] == '\0') {
        buffer_make(f, s);
    }
    if (f->reason[0] != '\0') {
        library_sum_close(s);
        return NULL;
    }
    return s;
}

void library_sum_run(struct figure *f, void *sum)
{
    struct library_sum *s = sum;
    const cusparseOperation_t as_is = CUSPARSE_OPERATION_NON_TRANSPOSE;
    check(f,
          s->library.cusparseSpMM_(s->handle, as_is, as_is, &one, s->a, s->x, &zero, s->out, CUDA_R_32F, s->algorithm,
                                   s->buffer),
          "a sum");
}

static void closed(cusparseStatus_t code)
{
    if (code != CUSPARSE_STATUS_SUCCESS) {
        fprintf(stderr, "bench_gpu: cuSPARSE: closing: error %d\n", (int)code);
    }
}

void library_sum_close(struct library_sum *s)
{
    if (s == NULL) {
        return;
    }
    if (s->x != NULL) {
        closed(s->library.cusparseDestroyDnMat_(s->x));
    }
    if (s->out != NULL) {
        closed(s->library.cusparseDestroyDnMat_(s->out));
    }
    if (s->a != NULL) {
        closed(s->library.cusparseDestroySpMat_(s->a));
    }
    if (s->handle != NULL) {
        closed(s->library.cusparseDestroy_(s->handle));
    }
    free(s);
}
