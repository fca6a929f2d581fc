#include "models/cuda/aggregate/spmm.h"

#include "models/cuda/aggregate/spmm_library.h"
#include "protocol/base/amounts.h"
#include "protocol/base/libraries.h"

#include <stdio.h>
#include <stdlib.h>

#define ALGORITHM CUSPARSE_SPMM_CSR_ALG3
#define AS_IS CUSPARSE_OPERATION_NON_TRANSPOSE

/* Value of descriptors' pointers before the descriptors exist. */
#define PLACE_BYTES 256

struct cuda_sparse {
    struct spmm_library library;
    cusparseHandle_t handle;
    struct device_sums sums;
    struct device_sum_sizes most; /* of the blocks that were opened */
    void *place;
    char *memory; /* of sums_take */
    struct cuda_sums_places at;
};

/* A block. */
struct matrix {
    int64_t n_row, n_edge;
    cusparseSpMatDescr_t a;
    cusparseDnMatDescr_t x[DEVICE_SUM_WIDTHS], out[DEVICE_SUM_WIDTHS]; /* by width */
};

static const float one = 1.0F, zero = 0.0F;

/* --- the library --- */

static void check(struct cuda_device *cuda, cusparseStatus_t code, const char *what)
{
    if (code != CUSPARSE_STATUS_SUCCESS && cuda->failed == STATUS_OK) {
        cuda->failed = code == CUSPARSE_STATUS_ALLOC_FAILED    ? STATUS_NOMEM
                       : code == CUSPARSE_STATUS_NOT_SUPPORTED ? STATUS_PEER
                                                               : STATUS_BUG;
        snprintf(cuda->reason, sizeof cuda->reason, "%s by cuSPARSE: error %d", what, (int)code);
    }
}

/* 12.6.3 is 12603 to cuSPARSE, and here 120603. */
static uint32_t version_of(struct cuda_device *cuda)
{
    int version = 0;
    check(cuda, cuda->sparse->library.cusparseGetVersion_(cuda->sparse->handle, &version), "asking its version");
    uint32_t number = version > 0 ? (uint32_t)version : 0;
    number = number / 1000 * 10000 + number / 100 % 10 * 100 + number % 100;
    return number > LIBRARY_NONE && number < LIBRARY_MOST ? number : LIBRARY_UNKNOWN;
}

static enum status failed_status(const struct cuda_device *cuda)
{
    return cuda->failed == STATUS_OK ? STATUS_OK : status_fail(cuda->failed, "%s", cuda->reason);
}

static void handle_open(struct cuda_device *cuda)
{
    struct cuda_sparse *sparse = cuda->sparse;
    check(cuda, sparse->library.cusparseCreate_(&sparse->handle), "opening");
    cuda_check(&cuda->base, cudaMalloc(&sparse->place, PLACE_BYTES), "opening cuSPARSE");
    if (cuda->failed == STATUS_OK) {
        check(cuda, sparse->library.cusparseSetStream_(sparse->handle, cuda_stream(&cuda->base)),
              "setting its stream");
        cuda->base.capacity.libraries.of[LIBRARY_SPARSE] = version_of(cuda);
    }
}

/* The memory for opening the library is measured as for the device. */
enum status cuda_sums_open(struct device *device, const struct device_sums *sums)
{
    struct cuda_device *cuda = cuda_device(device);
    struct device_capacity *capacity = &device->capacity;
    struct cuda_sparse *sparse = memory_alloc(1, sizeof *sparse);
    enum status status = spmm_library_find(&sparse->library);
    if (status != STATUS_OK) {
        free(sparse);
        return status_fail(status, "model.kernel is \"cusparse\": %s", status_reason());
    }
    cuda->sparse = sparse;
    sparse->sums = *sums;
    int lock = capacity->n_sharing > 1 ? cuda_gpu_lock() : -1;
    int64_t before = cuda_gpu_used(&cuda->gpu);
    handle_open(cuda);
    int64_t after = before >= 0 ? cuda_gpu_used(&cuda->gpu) : -1;
    cuda_gpu_unlock(lock);
    int64_t n_byte = after < 0 ? CUDA_SPARSE_BYTES : after > before ? after - before : 0;
    capacity->n_context += n_byte;
    memory_count_device(MEMORY_PLACE_DEVICE, MEMORY_CONTEXT, n_byte);
    return failed_status(cuda);
}

void cuda_spmm_close(struct cuda_device *cuda)
{
    struct cuda_sparse *sparse = cuda->sparse;
    if (sparse == NULL) {
        return;
    }
    cuda_release(&cuda->base, DEVICE_PLACE_DEVICE, MEMORY_STRUCTURE, sparse->memory, sparse->at.n_byte);
    if (sparse->handle != NULL) {
        check(cuda, sparse->library.cusparseDestroy_(sparse->handle), "closing");
    }
    cuda_check(&cuda->base, cudaFree(sparse->place), "closing cuSPARSE");
    free(sparse);
    cuda->sparse = NULL;
}

/* --- blocks --- */

static void matrix_close(struct cuda_device *cuda, struct matrix *matrix)
{
    const struct spmm_library *library = &cuda->sparse->library;
    for (int w = 0; w < DEVICE_SUM_WIDTHS; w++) {
        if (matrix->x[w] != NULL) {
            check(cuda, library->cusparseDestroyDnMat_(matrix->x[w]), "closing rows");
        }
        if (matrix->out[w] != NULL) {
            check(cuda, library->cusparseDestroyDnMat_(matrix->out[w]), "closing rows");
        }
    }
    if (matrix->a != NULL) {
        check(cuda, library->cusparseDestroySpMat_(matrix->a), "closing a block");
    }
    free(matrix);
}

/* cuSPARSE reads the rows of x that columns name. x is declared with as many rows as the graph, so that neither
 * descriptors nor cuSPARSE's preparations depend on the place of a payload's rows. */
static int64_t columns_of(int64_t n_node)
{
    return n_node < INT32_MAX ? n_node : INT32_MAX;
}

/* Describe a block of n_col columns, and rows of these widths; *n_buffer_out is raised to the bytes that its sums
 * need besides. */
static void matrix_fill(struct cuda_device *cuda, int64_t n_col, int n_width, const int64_t *width,
                        struct matrix *out, size_t *n_buffer_out)
{
    const struct spmm_library *library = &cuda->sparse->library;
    void *place = cuda->sparse->place;
    check(cuda,
          library->cusparseCreateCsr_(&out->a, out->n_row, n_col, out->n_edge, place, place, place,
                                      CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F),
          "describing a block");
    for (int w = 0; w < n_width && cuda->failed == STATUS_OK; w++) {
        size_t n_buffer = 0;
        check(cuda,
              library->cusparseCreateDnMat_(&out->x[w], n_col, width[w], width[w], place, CUDA_R_32F,
                                            CUSPARSE_ORDER_ROW),
              "describing rows");
        check(cuda,
              library->cusparseCreateDnMat_(&out->out[w], out->n_row, width[w], width[w], place, CUDA_R_32F,
                                            CUSPARSE_ORDER_ROW),
              "describing rows");
        if (cuda->failed == STATUS_OK) {
            check(cuda,
                  library->cusparseSpMM_bufferSize_(cuda->sparse->handle, AS_IS, AS_IS, &one, out->a, out->x[w], &one,
                                                    out->out[w], CUDA_R_32F, ALGORITHM, &n_buffer),
                  "asking for a sum's memory");
        }
        *n_buffer_out = n_buffer > *n_buffer_out ? n_buffer : *n_buffer_out;
    }
}

static bool is_aligned(const void *at)
{
    return (uintptr_t)at % CUDA_SPARSE_ALIGN == 0;
}

static void most_raise(struct device_sum_sizes *most, const struct device_sum_sizes *by)
{
    most->n_row = larger(most->n_row, by->n_row);
    most->n_edge = larger(most->n_edge, by->n_edge);
    most->n_listed = larger(most->n_listed, by->n_listed);
    most->n_anywhere = larger(most->n_anywhere, by->n_anywhere);
    most->n_col = larger(most->n_col, by->n_col);
    most->n_unweighted = larger(most->n_unweighted, by->n_unweighted);
    most->n_buffer = larger(most->n_buffer, by->n_buffer);
}

enum status cuda_spmm_block_open(struct device *device, struct device_block *block)
{
    struct cuda_device *cuda = cuda_device(device);
    struct cuda_sparse *sparse = cuda->sparse;
    size_t n_buffer = 0;
    block->matrix = NULL;
    if (sparse == NULL || block->types != NULL || block->n_edge == 0) {
        return STATUS_OK;
    }
    if (block->n_edge > INT32_MAX || block->n_row > INT32_MAX) {
        return status_fail(
            STATUS_DATA,
            "model.kernel = \"cusparse\": the edges between two parts are %lld, expected at most %d: use more parts",
            (long long)block->n_edge, INT32_MAX);
    }
    struct matrix *matrix = memory_alloc(1, sizeof *matrix);
    *matrix = (struct matrix){.n_row = block->n_row, .n_edge = block->n_edge};
    matrix_fill(cuda, columns_of(sparse->sums.n_node), sparse->sums.n_width, sparse->sums.width, matrix, &n_buffer);
    if (cuda->failed != STATUS_OK) {
        matrix_close(cuda, matrix);
        return failed_status(cuda);
    }
    bool begins_anywhere = !is_aligned(block->cols) || !is_aligned(block->weights);
    const struct device_sum_sizes sizes = {.n_row = block->n_row,
                                           .n_edge = block->n_edge,
                                           .n_listed = block->rows != NULL ? block->n_row : 0,
                                           .n_anywhere = begins_anywhere ? block->n_edge : 0,
                                           .n_unweighted = block->weights == NULL ? block->n_edge : 0,
                                           .n_buffer = (int64_t)n_buffer};
    most_raise(&sparse->most, &sizes);
    block->matrix = matrix;
    return STATUS_OK;
}

void cuda_spmm_block_close(struct device *device, struct device_block *block)
{
    if (block->matrix != NULL) {
        matrix_close(cuda_device(device), block->matrix);
        block->matrix = NULL;
    }
}

size_t cuda_sums_buffer(struct device *device, int64_t n_col, int64_t n_row, int64_t n_edge, int64_t f)
{
    struct cuda_device *cuda = cuda_device(device);
    size_t n_buffer = 0;
    if (cuda == NULL || cuda->sparse == NULL) {
        return cuda_sums_buffer_most(device, n_col, n_row, n_edge, f);
    }
    if (n_row == 0 || n_edge == 0 || n_edge > INT32_MAX || cuda->failed != STATUS_OK) {
        return 0;
    }
    struct matrix *matrix = memory_alloc(1, sizeof *matrix);
    *matrix = (struct matrix){.n_row = n_row, .n_edge = n_edge};
    matrix_fill(cuda, columns_of(n_col), 1, &f, matrix, &n_buffer);
    matrix_close(cuda, matrix);
    return n_buffer;
}

static void *at_place(const struct cuda_sparse *sparse, size_t place)
{
    return sparse->memory + place;
}

enum status cuda_sums_take(struct device *device, const struct device_sum_sizes *planned)
{
    struct cuda_sparse *sparse = cuda_device(device)->sparse;
    most_raise(&sparse->most, planned);
    sparse->at = cuda_sums_places_make(&sparse->sums, &sparse->most);
    enum status status = cuda_acquire(device, DEVICE_PLACE_DEVICE, MEMORY_STRUCTURE, sparse->at.n_byte,
                                      &sparse->memory);
    if (status == STATUS_OK && sparse->at.n_ones > 0) {
        cuda_spmm_values(device, sparse->at.n_ones, NULL, NULL, NULL, at_place(sparse, sparse->at.ones));
    }
    return status;
}

/* --- sums --- */

/* The factors of edges. */
static const float *values_of(struct device *device, const struct device_block *block, const float *col_scale)
{
    const struct cuda_sparse *sparse = cuda_device(device)->sparse;
    float *values = at_place(sparse, sparse->at.values);
    if (col_scale == NULL && block->weights == NULL) {
        return at_place(sparse, sparse->at.ones);
    }
    if (col_scale == NULL && is_aligned(block->weights)) {
        return block->weights;
    }
    cuda_spmm_values(device, block->n_edge, block->cols, block->weights, col_scale, values);
    return values;
}

/* An array, or a copy of it at `place` where it does not begin as cuSPARSE wants it. */
static void *aligned_copy(struct device *device, const void *from, size_t place, int64_t n_word)
{
    const struct cuda_sparse *sparse = cuda_device(device)->sparse;
    if (is_aligned(from)) {
        return (void *)(uintptr_t)from;
    }
    cuda_move(device, DEVICE_LANE_COMPUTE, at_place(sparse, place), from, (size_t)n_word * sizeof(float));
    return at_place(sparse, place);
}

static void multiply(struct device *device, const struct device_block *block, int w, const float *values,
                     const float *x, bool adds, float *out)
{
    struct cuda_device *cuda = cuda_device(device);
    const struct cuda_sparse *sparse = cuda->sparse;
    const struct spmm_library *library = &sparse->library;
    const struct matrix *matrix = block->matrix;
    int32_t *offsets = at_place(sparse, sparse->at.offsets);
    cuda_spmm_offsets(device, block->n_row, block->indptr, offsets);
    void *cols = aligned_copy(device, block->cols, sparse->at.columns, block->n_edge);
    void *rows = aligned_copy(device, x, sparse->at.x, block->n_col * sparse->sums.width[w]);
    check(cuda, library->cusparseCsrSetPointers_(matrix->a, offsets, cols, (void *)(uintptr_t)values), "a block");
    check(cuda, library->cusparseDnMatSetValues_(matrix->x[w], rows), "rows");
    check(cuda, library->cusparseDnMatSetValues_(matrix->out[w], out), "rows");
    check(cuda,
          library->cusparseSpMM_(sparse->handle, AS_IS, AS_IS, &one, matrix->a, matrix->x[w], adds ? &one : &zero,
                                 matrix->out[w], CUDA_R_32F, ALGORITHM, at_place(sparse, sparse->at.buffer)),
          "a sum");
}

static int width_find(const struct device_sums *sums, int64_t f)
{
    int w = 0;
    while (w < sums->n_width && sums->width[w] != f) {
        w++;
    }
    return w < sums->n_width ? w : -1;
}

/* Is this the block that was opened, with memory for what of it, or of x, is copied? */
static bool fits(const struct cuda_sparse *sparse, const struct device_block *block, const float *col_scale,
                 int64_t f, const float *x)
{
    const struct cuda_sums_places *at = &sparse->at;
    const struct matrix *matrix = block->matrix;
    size_t n_byte = (size_t)block->n_edge * sizeof(float);
    bool makes_values = col_scale != NULL || !is_aligned(block->weights);
    return sparse->memory != NULL && matrix->n_row == block->n_row && matrix->n_edge == block->n_edge &&
           (is_aligned(block->cols) || n_byte <= at->values - at->columns) &&
           (!makes_values || n_byte <= at->ones - at->values) &&
           (is_aligned(x) || (size_t)(block->n_col * f) * sizeof *x <= at->sum - at->x);
}

bool cuda_spmm(struct device *device, const struct device_block *block, const struct device_aggregate *how, int64_t f,
               const float *x, float *out)
{
    struct cuda_device *cuda = cuda_device(device);
    int w = block->matrix != NULL ? width_find(&cuda->sparse->sums, f) : -1;
    if (w < 0) {
        return false;
    }
    bool listed = block->rows != NULL;
    if (!fits(cuda->sparse, block, how->col_scale, f, x) || !is_aligned(out)) {
        check(cuda, CUSPARSE_STATUS_INVALID_VALUE, "a sum over another block than was opened");
        return true;
    }
    float *sum = listed ? at_place(cuda->sparse, cuda->sparse->at.sum) : out;
    multiply(device, block, w, values_of(device, block, how->col_scale), x, !listed && !how->begin, sum);
    const struct cuda_spmm_end end = {.n_row = block->n_row,
                                      .f = f,
                                      .rows = block->rows,
                                      .sum = sum,
                                      .adds = listed,
                                      .self = how->begin ? how->self : NULL,
                                      .self_scale = how->self_scale,
                                      .row_scale = how->finish ? how->row_scale : NULL,
                                      .out = out};
    if (listed || end.self != NULL || end.row_scale != NULL) {
        cuda_spmm_finish(device, &end);
    }
    return true;
}
