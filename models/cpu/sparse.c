/* Feature rows in CSR. Both products are sums over neighbours: y's row r gathers rows of wᵀ at its stored columns,
 * and grad_wᵀ's row c gathers rows of grad_y at the rows that store column c, through a transpose made once. */
#include "models/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

/* The csr by columns: the rows that store column c, ascending, and the places of the values. */
struct cpu_columns {
    int64_t n_col, n_value;
    int64_t *indptr;    /* n_col + 1 */
    uint32_t *rows;     /* n_value */
    uint32_t *position; /* n_value */
    struct cpu_schedule *by_row, *by_column;
};

static void columns_close(struct cpu_columns *columns)
{
    size_t n_value = (size_t)columns->n_value;
    memory_release(MEMORY_FEATURES, columns->indptr, (size_t)columns->n_col + 1, sizeof *columns->indptr);
    memory_release(MEMORY_FEATURES, columns->rows, n_value, sizeof *columns->rows);
    memory_release(MEMORY_FEATURES, columns->position, n_value, sizeof *columns->position);
    cpu_schedule_close(columns->by_row);
    cpu_schedule_close(columns->by_column);
    free(columns);
}

enum status cpu_csr_open(struct device *device, struct device_csr *csr)
{
    (void)device;
    if (csr->n_value > UINT32_MAX) {
        return status_fail(STATUS_DATA,
                           "one part holds %lld stored feature values, expected at most %u: use more parts",
                           (long long)csr->n_value, UINT32_MAX);
    }
    struct cpu_columns *columns = memory_alloc(1, sizeof *columns);
    columns->n_col = csr->n_col;
    columns->n_value = csr->n_value;
    enum status status = memory_acquire(MEMORY_FEATURES, (size_t)csr->n_col + 1, sizeof *columns->indptr,
                                        &columns->indptr);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_FEATURES, (size_t)csr->n_value, sizeof *columns->rows, &columns->rows);
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_FEATURES, (size_t)csr->n_value, sizeof *columns->position, &columns->position);
    }
    if (status == STATUS_OK) {
        device_csr_columns(csr, columns->indptr, columns->rows, columns->position);
        status = cpu_schedule_open(csr->n_row, csr->indptr, &columns->by_row);
    }
    if (status == STATUS_OK) {
        status = cpu_schedule_open(csr->n_col, columns->indptr, &columns->by_column);
    }
    if (status != STATUS_OK) {
        columns_close(columns);
        return status;
    }
    csr->by_column = columns;
    return STATUS_OK;
}

void cpu_csr_close(struct device *device, struct device_csr *csr)
{
    (void)device;
    if (csr->by_column != NULL) {
        columns_close(csr->by_column);
    }
    csr->by_column = NULL;
}

/* Rows and columns that one thread transposes at a time: whole vectors of both. */
#define TILE 64

void cpu_transpose(struct cpu_device *device, int64_t rows, int64_t columns, const float *from, float *to)
{
    CPU_LOOP_AS(
        "omp parallel for collapse(2) num_threads(n_loop_thread)", device, rows * columns >= CPU_PARALLEL_MIN,
        for (int64_t r = 0; r < rows; r += TILE) {
            for (int64_t c = 0; c < columns; c += TILE) {
                int64_t n_row = rows - r < TILE ? rows - r : TILE, n_col = columns - c < TILE ? columns - c : TILE;
                device->kernels->transpose(n_row, n_col, from + r * columns + c, columns, to + c * rows + r, rows);
            }
        });
}

/* y = X wᵀ + bias */
static void product(struct cpu_device *cpu, const struct device_csr *csr, const struct device_csr_linear *how,
                    float *y)
{
    const struct cpu_columns *columns = csr->by_column;
    float *transposed = how->scratch;
    cpu_transpose(cpu, how->f_out, csr->n_col, how->w, transposed);
    struct cpu_sum sum = {
        .indptr = csr->indptr,
        .cols = csr->cols,
        .n_edge = csr->n_value,
        .kind = CPU_WEIGHT_EDGE,
        .weight = how->values != NULL ? how->values : csr->values,
        .f = how->f_out,
        .n_column = how->f_out,
        .x = transposed,
        .x_stride = how->f_out,
        .begin = true,
        .self = how->bias,
        .self_stride = 0,
        .out = y,
    };
    cpu_sum(cpu, columns->by_row, &sum);
}

static void product_backward(struct cpu_device *cpu, const struct device_csr *csr,
                             const struct device_csr_linear *how, const float *grad_y, float *grad_w)
{
    const struct cpu_columns *columns = csr->by_column;
    float *transposed = how->scratch;
    struct cpu_sum sum = {
        .indptr = columns->indptr,
        .cols = columns->rows,
        .n_edge = csr->n_value,
        .kind = CPU_WEIGHT_PERMUTED,
        .weight = how->values != NULL ? how->values : csr->values,
        .position = columns->position,
        .f = how->f_out,
        .n_column = how->f_out,
        .x = grad_y,
        .x_stride = how->f_out,
        .begin = true,
        .out = transposed,
    };
    cpu_sum(cpu, columns->by_column, &sum);
    cpu_transpose(cpu, csr->n_col, how->f_out, transposed, grad_w);
}

/* The value of the k-th row with a column of its own. */
static float embedded_value(const struct device_csr *csr, const float *values, int64_t k)
{
    return values != NULL ? values[csr->n_value + k] : 1.0f;
}

void cpu_csr_forward(struct device *device, const struct device_csr *csr, const struct device_csr_linear *how,
                     float *y)
{
    const int64_t f = how->f_out, n_own = how->table != NULL ? csr->n_embedded : 0;
    if (how->w != NULL) {
        product(cpu_device(device), csr, how, y);
    }
    CPU_LOOP(
        cpu_device(device), n_own * f >= CPU_PARALLEL_MIN, for (int64_t k = 0; k < n_own; k++) {
            float value = embedded_value(csr, how->values, k), *to = y + csr->embedded_rows[k] * f;
            for (int64_t c = 0; c < f; c++) {
                to[c] += value * how->table[k * f + c];
            }
        });
}

void cpu_csr_backward(struct device *device, const struct device_csr *csr, const struct device_csr_linear *how,
                      const float *grad_y, float *grad_w, float *grad_table)
{
    const int64_t f = how->f_out, n_own = grad_table != NULL ? csr->n_embedded : 0;
    if (grad_w != NULL) {
        product_backward(cpu_device(device), csr, how, grad_y, grad_w);
    }
    CPU_LOOP(
        cpu_device(device), n_own * f >= CPU_PARALLEL_MIN, for (int64_t k = 0; k < n_own; k++) {
            float value = embedded_value(csr, how->values, k);
            const float *from = grad_y + csr->embedded_rows[k] * f;
            for (int64_t c = 0; c < f; c++) {
                grad_table[k * f + c] = value * from[c];
            }
        });
}

/* Stored values whose columns are looked up in one go; rows that one thread takes. */
#define DROP_COLUMNS 64
#define DROP_ROWS 64

/* Draws take more time than other numbers. */
#define DROP_PARALLEL_MIN (CPU_PARALLEL_MIN / 4)

/* Rows first … end-1. Values of several rows share the lanes of a draw. */
static void rows_drop(const struct cpu_device *cpu, const struct device_csr *csr, const struct cpu_drop *drop,
                      const uint32_t *node, int64_t first, int64_t end, float *out)
{
    uint32_t row[DROP_COLUMNS], column[DROP_COLUMNS];
    for (int64_t e = csr->indptr[first], r = first; e < csr->indptr[end]; e += DROP_COLUMNS) {
        const int64_t rest = csr->indptr[end] - e, n = rest < DROP_COLUMNS ? rest : DROP_COLUMNS;
        for (int64_t k = 0; k < n; k++) {
            while (e + k >= csr->indptr[r + 1]) {
                r++;
            }
            row[k] = node[r];
            column[k] = device_csr_column(csr, csr->cols[e + k]);
        }
        cpu->kernels->drop_values(drop, n, row, column, csr->values + e, out + e);
    }
}

void cpu_csr_dropout(struct device *device, const struct device_csr *csr, const struct device_activate *activate,
                     float *out)
{
    const struct cpu_device *cpu = cpu_device(device);
    const struct cpu_drop drop = {.key = device_key(&activate->key, activate->now),
                                  .threshold = random_drop_threshold(activate->p),
                                  .scale = (float)(1.0 / (1.0 - activate->p))};
    if (drop.threshold == 0) {
        memcpy(out, csr->values, (size_t)csr->n_value * sizeof *out);
        for (int64_t k = 0; k < csr->n_embedded; k++) {
            out[csr->n_value + k] = 1.0f;
        }
        return;
    }
    CPU_LOOP_DYNAMIC(
        cpu, csr->n_value >= DROP_PARALLEL_MIN, for (int64_t r = 0; r < csr->n_row; r += DROP_ROWS) {
            rows_drop(cpu, csr, &drop, activate->node, r, r + DROP_ROWS < csr->n_row ? r + DROP_ROWS : csr->n_row,
                      out);
        });
    CPU_LOOP(
        cpu, csr->n_embedded >= DROP_PARALLEL_MIN, for (int64_t k = 0; k < csr->n_embedded; k++) {
            bool dropped = random_u32(&drop.key, activate->node[csr->embedded_rows[k]], csr->embedded_columns[k]) <
                           drop.threshold;
            out[csr->n_value + k] = dropped ? 0.0f : drop.scale;
        });
}

void cpu_csr_dense(struct device *device, const struct device_csr *csr, float *out)
{
    int64_t width = csr->n_col + (csr->embedded != NULL ? embedded_count(csr->embedded) : 0);
    CPU_LOOP(
        cpu_device(device), csr->n_row * width >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < csr->n_row; r++) {
            memset(out + r * width, 0, (size_t)width * sizeof *out);
            for (int64_t e = csr->indptr[r]; e < csr->indptr[r + 1]; e++) {
                out[r * width + device_csr_column(csr, csr->cols[e])] = csr->values[e];
            }
        });
    for (int64_t k = 0; k < csr->n_embedded; k++) {
        out[csr->embedded_rows[k] * width + csr->embedded_columns[k]] = 1.0f;
    }
}
