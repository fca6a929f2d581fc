/* Sums and maxima over neighbours: ranges of rows of even cost go to the next free thread, hub rows in pieces. */
#include "models/cpu/cpu.h"
#include "models/device/codec.h"

#include <string.h>

/* A larger output bypasses the caches, where it would only displace rows that are still to be read. */
#define STREAM_BYTES ((int64_t)64 << 20)

static float start_value(const struct cpu_sum *s, int64_t row, int64_t column)
{
    if (!s->begin) {
        return s->out[row * s->f + column];
    }
    if (s->self == NULL) {
        return 0.0f;
    }
    int64_t at = row * s->self_stride + column;
    float self = s->self_is_bf16 ? codec_from_bf16(((const uint16_t *)s->self)[at]) : ((const float *)s->self)[at];
    return s->self_scale != NULL ? self * s->self_scale[row] : self;
}

/* The first piece after p of another row. */
static int64_t row_end(const struct cpu_schedule *schedule, int64_t p)
{
    int64_t next = p + 1;
    while (next < schedule->n_piece && schedule->piece[next].row == schedule->piece[p].row) {
        next++;
    }
    return next;
}

/* partial = Σ of a hub row's edges from 0 */
static void sum_hub(const struct cpu_kernels *kernels, const struct cpu_sum *sum, const struct cpu_piece *of,
                    int64_t column, int64_t n_column, float *partial)
{
    float piece[CPU_PARTIAL_COLUMNS];
    memset(partial, 0, (size_t)n_column * sizeof *partial);
    for (int64_t e = of->begin; e < of->end; e += DEVICE_PIECE_EDGES) {
        const int64_t end = e + DEVICE_PIECE_EDGES < of->end ? e + DEVICE_PIECE_EDGES : of->end;
        kernels->sum_piece(sum, e, end, column, n_column, piece);
        for (int64_t c = 0; c < n_column; c++) {
            partial[c] += piece[c];
        }
    }
}

/* Hub rows: out = scale · (start + partial 0 + …), apart start + (partial 0 + …), for the columns that these hold. */
static void combine_pieces(const struct cpu_schedule *schedule, const struct cpu_sum *s, int64_t column,
                           int64_t n_column)
{
    for (int64_t p = 0, next; p < schedule->n_piece; p = next) {
        int64_t r = schedule->piece[p].row;
        int64_t row = s->rows != NULL ? s->rows[r] : r;
        next = row_end(schedule, p);
        for (int64_t c = 0; c < n_column; c++) {
            float start = start_value(s, row, column + c), sum = s->apart ? 0.0F : start;
            for (int64_t q = p; q < next; q++) {
                sum += schedule->partial[q * CPU_PARTIAL_COLUMNS + c];
            }
            sum = s->apart ? start + sum : sum;
            s->out[row * s->f + column + c] = s->row_scale != NULL ? sum * s->row_scale[row] : sum;
        }
    }
}

/* Hub rows: each piece's sum by one thread, as many columns at a time as a partial sum holds. */
static void sum_hubs(struct cpu_device *device, const struct cpu_schedule *schedule, const struct cpu_sum *sum)
{
    const struct cpu_kernels *kernels = device->kernels;
    int64_t end = sum->column + sum->n_column;
    for (int64_t column = sum->column; column < end; column += CPU_PARTIAL_COLUMNS) {
        int64_t n_column = end - column < CPU_PARTIAL_COLUMNS ? end - column : CPU_PARTIAL_COLUMNS;
        CPU_LOOP_DYNAMIC(
            device, schedule->n_piece * DEVICE_HUB_EDGES * n_column >= CPU_PARALLEL_MIN,
            for (int64_t p = 0; p < schedule->n_piece; p++) {
                sum_hub(kernels, sum, &schedule->piece[p], column, n_column,
                        schedule->partial + p * CPU_PARTIAL_COLUMNS);
                cpu_between(device);
            });
        combine_pieces(schedule, sum, column, n_column);
    }
}

/* Rows of a block without a schedule that one thread processes at a time. */
#define LOOSE_ROWS 64

/* A block without a schedule and without hub rows: a small one, or rows of a larger one (sums that are packed in
 * pieces). */
static void sum_loosely(struct cpu_device *device, int64_t n_row, const struct cpu_sum *sum)
{
    CPU_LOOP_DYNAMIC(
        device, true, for (int64_t r = 0; r < n_row; r += LOOSE_ROWS) {
            device->kernels->sum_rows(sum, r, r + LOOSE_ROWS < n_row ? r + LOOSE_ROWS : n_row);
            cpu_between(device);
        });
}

void cpu_sum(struct cpu_device *device, const struct cpu_schedule *schedule, const struct cpu_sum *sum)
{
    const struct cpu_kernels *kernels = device->kernels;
    if (schedule->n_piece > 0) {
        sum_hubs(device, schedule, sum);
    }
    CPU_LOOP_DYNAMIC(
        device, sum->n_edge * sum->n_column >= CPU_PARALLEL_MIN, for (int64_t i = 0; i < schedule->n_range; i++) {
            kernels->sum_rows(sum, schedule->range[2 * i], schedule->range[2 * i + 1]);
            cpu_between(device);
        });
}

enum status cpu_block_open(struct device *device, struct device_block *block)
{
    (void)device;
    struct cpu_schedule *schedule = NULL;
    enum status status = STATUS_OK;
    if (!cpu_schedule_is_small(block->n_row, block->n_edge)) {
        status = cpu_schedule_open(block->n_row, block->indptr, &schedule);
    }
    block->schedule = schedule;
    return status;
}

void cpu_block_close(struct device *device, struct device_block *block)
{
    (void)device;
    cpu_schedule_close(block->schedule);
    block->schedule = NULL;
}

static const float *weights_of(const struct device_block *block)
{
    return block->types == NULL ? block->weights : NULL;
}

static enum cpu_weight weight_kind(const struct device_block *block, const struct device_aggregate *how)
{
    if (weights_of(block) != NULL) {
        return how->col_scale != NULL ? CPU_WEIGHT_EDGE_COLUMN : CPU_WEIGHT_EDGE;
    }
    return how->col_scale != NULL ? CPU_WEIGHT_COLUMN : CPU_WEIGHT_NONE;
}

/* Sums in panels. Rows that do not fit the caches are read from memory once for every edge. So a panel of their
 * columns, which does fit, is copied side by side, and all sums over these columns are made before the next ones.
 * Each column keeps its order of summing. */
#define PANEL_COLUMNS 32                    /* twice as many of BF16 */
#define PANEL_BYTES ((int64_t)16 << 20)     /* at most */
#define PANEL_ROWS_BYTES ((int64_t)8 << 20) /* of rows; fewer lie in the caches as they are */
#define PANEL_ROW_EDGES 4                   /* at least, for each row that is copied */

size_t cpu_panel_bytes(int64_t n_col, int64_t f)
{
    int64_t column = n_col * (int64_t)sizeof(float), panel = column * PANEL_COLUMNS;
    bool gains = f > PANEL_COLUMNS && column * f > PANEL_ROWS_BYTES;
    return gains ? (size_t)(panel < PANEL_BYTES ? panel : PANEL_BYTES) : 0;
}

static int64_t panel_columns(bool is_bf16)
{
    return is_bf16 ? 2 * PANEL_COLUMNS : PANEL_COLUMNS;
}

static bool has_panels(const struct device_block *block, const struct device_aggregate *how, int64_t f)
{
    bool fits = (int64_t)cpu_panel_bytes(block->n_col, f) == block->n_col * PANEL_COLUMNS * (int64_t)sizeof(float);
    return how->panel != NULL && f > panel_columns(how->is_bf16) && block->schedule != NULL && fits &&
           block->n_col > 0 && cpu_n_edge(block) >= PANEL_ROW_EDGES * block->n_col;
}

static void sum_panels(struct cpu_device *device, const struct device_block *block, float *panel,
                       const struct cpu_sum *sum)
{
    const int64_t size = sum->x_is_bf16 ? sizeof(uint16_t) : sizeof(float);
    const int64_t columns = panel_columns(sum->x_is_bf16);
    struct cpu_sum part = *sum;
    part.x = panel;
    part.x_stride = columns;
    for (int64_t c = 0; c < sum->f; c += columns) {
        int64_t n = sum->f - c < columns ? sum->f - c : columns;
        CPU_LOOP(
            device, true, for (int64_t r = 0; r < block->n_col; r++) {
                memcpy((char *)panel + r * columns * size, (const char *)sum->x + (r * sum->x_stride + c) * size,
                       (size_t)(n * size));
            });
        part.column = c;
        part.n_column = n;
        cpu_sum(device, block->schedule, &part);
    }
}

void cpu_aggregate_sum(struct device *device, const struct device_block *block, const struct device_aggregate *how,
                       int64_t f, const void *x, float *out)
{
    int64_t stride = how->is_bf16 ? codec_row_bytes(DEVICE_CODEC_BF16, f) / 2 : f;
    bool on_lines = f % 16 == 0 && (uintptr_t)out % 64 == 0;
    struct cpu_sum sum = {
        .rows = block->rows,
        .indptr = block->indptr,
        .cols = block->cols,
        .n_edge = cpu_n_edge(block),
        .kind = weight_kind(block, how),
        .weight = weights_of(block) != NULL ? weights_of(block) : how->col_scale,
        .scale = how->col_scale,
        .f = f,
        .n_column = f,
        .x = x,
        .x_stride = stride,
        .x_is_bf16 = how->is_bf16,
        .begin = how->begin,
        .apart = how->apart,
        .marks = block->bordered ? CPU_MARKS_ALL
                 : block->marked ? CPU_MARKS_LONG
                                 : CPU_MARKS_NONE,
        .self = how->begin ? how->self : NULL,
        .self_stride = stride,
        .self_is_bf16 = how->is_bf16,
        .self_scale = how->self_scale,
        .row_scale = how->finish ? how->row_scale : NULL,
        .stream = how->begin && on_lines && block->n_row * f * (int64_t)sizeof *out >= STREAM_BYTES,
        .out = out,
    };
    if (has_panels(block, how, f)) {
        sum_panels(cpu_device(device), block, how->panel, &sum);
        return;
    }
    if (block->schedule == NULL && block->n_row > LOOSE_ROWS && sum.n_edge * f >= CPU_PARALLEL_MIN) {
        sum_loosely(cpu_device(device), block->n_row, &sum);
        return;
    }
    struct cpu_small_schedule small;
    cpu_sum(cpu_device(device), cpu_block_schedule(block, &small), &sum);
}

void cpu_aggregate_max(struct device *device, const struct device_block *block, const struct device_max *how,
                       int64_t f, const float *x, float *out, uint32_t *arg)
{
    struct cpu_small_schedule small;
    const struct cpu_schedule *schedule = cpu_block_schedule(block, &small);
    const struct cpu_max max = {.rows = block->rows,
                                .indptr = block->indptr,
                                .cols = block->cols,
                                .n_edge = cpu_n_edge(block),
                                .arg_base = how->arg_base,
                                .begin = how->begin,
                                .self = how->self,
                                .f = f,
                                .x = x,
                                .out = out,
                                .arg = arg};
    const struct cpu_device *cpu = cpu_device(device);
    bool parallel = cpu_n_edge(block) * f >= CPU_PARALLEL_MIN;
    CPU_LOOP_DYNAMIC(
        cpu, parallel, for (int64_t i = 0; i < schedule->n_range; i++) {
            cpu->kernels->max_rows(&max, schedule->range[2 * i], schedule->range[2 * i + 1]);
            cpu_between(cpu);
        });
    /* A hub row's maximum is not cut into pieces: one thread for each row. */
    CPU_LOOP_DYNAMIC(
        cpu, schedule->n_piece > 0, for (int64_t p = 0; p < schedule->n_piece; p++) {
            int64_t row = schedule->piece[p].row;
            if (p == 0 || schedule->piece[p - 1].row != row) {
                cpu->kernels->max_rows(&max, row, row + 1);
            }
        });
    CPU_LOOP(
        cpu, how->n_finish * f >= CPU_PARALLEL_MIN,
        for (int64_t i = 0; i < how->n_finish * f; i++) { out[i] = arg[i] == UINT32_MAX ? 0.0f : out[i]; });
}

/* Columns of one cache line: no two threads write the same one. */
#define LINE_COLUMNS 16

/* grad_x[place] = Σ of grad_out over the rows whose maximum came from there. Several rows may share a place: each
 * thread has its own columns and adds all rows in order. */
void cpu_aggregate_max_backward(struct device *device, const struct device_block *block, uint32_t arg_base, int64_t f,
                                const uint32_t *arg, const float *grad_out, float *grad_x)
{
    cpu_fill_zero(device, grad_x, (size_t)(block->n_col * f) * sizeof *grad_x);
    bool parallel = block->n_row * f >= CPU_PARALLEL_MIN;
    CPU_LOOP_DYNAMIC(
        cpu_device(device), parallel, for (int64_t first = 0; first < f; first += LINE_COLUMNS) {
            int64_t end = first + LINE_COLUMNS < f ? first + LINE_COLUMNS : f;
            for (int64_t r = 0; r < block->n_row; r++) {
                int64_t row = block->rows != NULL ? block->rows[r] : r;
                for (int64_t c = first; c < end; c++) {
                    uint32_t place = arg[row * f + c] - arg_base; /* wraps to a large number below arg_base */
                    if (place < block->n_col) {
                        grad_x[place * f + c] += grad_out[row * f + c];
                    }
                }
            }
        });
}

static void row_copy(int64_t f, float factor, const float *from, float *to)
{
    if (factor == 1.0F) {
        memcpy(to, from, (size_t)f * sizeof *to);
        return;
    }
    for (int64_t c = 0; c < f; c++) {
        to[c] = factor * from[c];
    }
}

void cpu_rows_gather(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor,
                     const float *x, float *out)
{
    CPU_LOOP(
        cpu_device(device), n_row * f >= CPU_PARALLEL_MIN,
        for (int64_t r = 0; r < n_row; r++) { row_copy(f, factor, x + rows[r] * f, out + r * f); });
}

void cpu_rows_add(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor, const float *x,
                  float *out)
{
    CPU_LOOP(
        cpu_device(device), n_row * f >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n_row; r++) {
            float *to = out + (rows != NULL ? rows[r] : r) * f;
            for (int64_t c = 0; c < f; c++) {
                to[c] += factor * x[r * f + c];
            }
        });
}
