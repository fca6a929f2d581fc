/* Dense products through oneDNN, one thread per fixed piece of rows, and sums over rows.
 *
 * oneDNN works on every piece with one thread, so a piece's bits depend only on its shape. Only this file uses
 * oneDNN. Products in BF16 are the kernels', whose bits depend on no piece.
 */
#include "models/cpu/cpu.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <string.h>

/* Rows of one piece of a product over rows. */
#define PIECE_ROWS_MIN 256
#define PIECE_ROWS_MAX 2048
#define PIECE_N_WANTED 64

/* oneDNN packs wᵀ for each piece of a product, and w never. The bits of both are the same with AVX-512, from as many
 * rows on and up to as many columns. */
#define TURN_ROWS_MIN PIECE_ROWS_MIN
#define TURN_COLUMNS_MAX 1000

/* Chunks of a weight gradient, each with its own partial result. */
#define WEIGHT_CHUNK_MAX 16
#define WEIGHT_CHUNK_ROWS 512

/* Below this many multiplications, some ten microseconds of one core, waking threads does not pay. */
#define PRODUCT_PARALLEL_MIN ((int64_t)1 << 20)

static int64_t piece_rows(int64_t n)
{
    int64_t rows = (n / PIECE_N_WANTED + 63) / 64 * 64;
    return rows < PIECE_ROWS_MIN ? PIECE_ROWS_MIN : rows > PIECE_ROWS_MAX ? PIECE_ROWS_MAX : rows;
}

static void fail(struct cpu_device *device, dnnl_status_t code, int64_t m, int64_t n, int64_t k)
{
#pragma omp critical(cpu_device_fail)
    if (device->failed == STATUS_OK) {
        device->failed = code == dnnl_out_of_memory ? STATUS_NOMEM : STATUS_BUG;
        snprintf(device->reason, sizeof device->reason, "oneDNN cannot multiply %lld x %lld by %lld x %lld: error %d",
                 (long long)m, (long long)k, (long long)k, (long long)n, (int)code);
    }
}

/* oneDNN compiles for 26 ms before its first product in a process: up to as many multiplications it is not asked. */
#define SMALL_MOST ((int64_t)1 << 20)

/* And where its order of adding is known, so that bits do not tell who did it: for vectors, and for few rows with a
 * transposed matrix, that is another. */
bool cpu_product_is_small(const struct cpu_product *p)
{
    return p->m * p->n * p->k <= SMALL_MOST && p->k > 0 && p->n > 1 &&
           p->m >= (p->b_is_transposed && !p->a_is_transposed ? 16 : 2);
}

/* c (m × n) = op(a) · op(b) + beta · c, row-major, only by the calling thread; beta 0 or 1. */
static void multiply(struct cpu_device *device, char trans_a, char trans_b, int64_t m, int64_t n, int64_t k,
                     const float *a, const float *b, float beta, float *c)
{
    struct cpu_product p = {m, n, k, a, b, trans_a != 'N', trans_b != 'N', beta > 0.0f, c};
    if (device->base.products == DEVICE_PRODUCTS_BF16) {
        device->product(&p);
        return;
    }
    if (device->kernels->product_small != NULL && cpu_product_is_small(&p)) {
        device->kernels->product_small(&p);
        return;
    }
    /* A region of one thread does not count as parallel: oneDNN would start a team of its own there. The setting is
     * that of this region's implicit task and ends with it. */
    omp_set_num_threads(1);
    dnnl_status_t code = dnnl_sgemm(trans_a, trans_b, m, n, k, 1.0f, a, trans_a == 'N' ? k : m, b,
                                    trans_b == 'N' ? n : k, beta, c, n);
    if (code != dnnl_success) {
        fail(device, code, m, n, k);
    }
}

static void add_bias(int64_t n, int64_t f, const float *bias, float *y)
{
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f; c++) {
            y[r * f + c] += bias[c];
        }
    }
}

bool cpu_linear_turns(int64_t n, int64_t f_in)
{
    return n >= TURN_ROWS_MIN && f_in <= TURN_COLUMNS_MAX;
}

void cpu_linear(struct device *device, const struct device_linear *how, float *y)
{
    struct cpu_device *cpu = cpu_device(device);
    int64_t n = how->n, f_in = how->f_in, f_out = how->f_out, rows = piece_rows(n);
    bool packs = device->products == DEVICE_PRODUCTS_BF16; /* w, whichever way it lies */
    bool turns = !packs && !how->transposed && how->scratch != NULL && cpu_linear_turns(n, f_in);
    if (turns) {
        cpu_transpose(cpu, f_out, f_in, how->w, how->scratch);
    }
    CPU_LOOP_DYNAMIC(
        cpu, n * f_in * f_out >= PRODUCT_PARALLEL_MIN, for (int64_t first = 0; first < n; first += rows) {
            int64_t n_row = n - first < rows ? n - first : rows;
            bool is_transposed = turns && cpu_linear_turns(n_row, f_in);
            float *out = y + first * f_out;
            multiply(cpu, 'N', how->transposed || is_transposed ? 'N' : 'T', n_row, f_out, f_in,
                     how->x + first * f_in, is_transposed ? how->scratch : how->w, how->add ? 1.0f : 0.0f, out);
            if (how->bias != NULL) {
                add_bias(n_row, f_out, how->bias, out);
            }
            cpu_between(cpu);
        });
}

int64_t cpu_weight_chunk_rows(int64_t n)
{
    int64_t rows = (n + WEIGHT_CHUNK_MAX - 1) / WEIGHT_CHUNK_MAX;
    return rows > WEIGHT_CHUNK_ROWS ? rows : WEIGHT_CHUNK_ROWS;
}

void cpu_linear_backward_weight(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x,
                                const float *grad_y, void *scratch, bool add, float *grad_w)
{
    struct cpu_device *cpu = cpu_device(device);
    int64_t rows = cpu_weight_chunk_rows(n), n_chunk = (n + rows - 1) / rows, size = f_out * f_in;
    float *partial = scratch;
    if (n_chunk == 0) {
        memset(grad_w, 0, add ? 0 : (size_t)size * sizeof *grad_w);
        return;
    }
    bool parallel = n * f_in * f_out >= PRODUCT_PARALLEL_MIN;
    CPU_LOOP_DYNAMIC(
        cpu, parallel, for (int64_t i = 0; i < n_chunk; i++) {
            int64_t first = i * rows, n_row = n - first < rows ? n - first : rows;
            multiply(cpu, 'T', 'N', f_out, f_in, n_row, grad_y + first * f_out, x + first * f_in,
                     add && i == 0 ? 1.0f : 0.0f, i == 0 ? grad_w : partial + (i - 1) * size);
            cpu_between(cpu);
        });
    CPU_LOOP(
        cpu, parallel && n_chunk > 1, for (int64_t j = 0; j < size; j++) {
            for (int64_t i = 1; i < n_chunk; i++) {
                grad_w[j] += partial[(i - 1) * size + j];
            }
        });
}

void cpu_column_sum(struct device *device, const struct device_column_sum *how, float *out)
{
    struct cpu_device *cpu = cpu_device(device);
    int64_t n = how->n, f = how->f, rows = row_chunk_rows(n), n_chunk = row_n_chunk(n);
    double *partial = how->scratch;
    CPU_LOOP_DYNAMIC(
        cpu, n * f >= CPU_PARALLEL_MIN, for (int64_t i = 0; i < n_chunk; i++) {
            int64_t first = i * rows, end = n < first + rows ? n : first + rows;
            memset(partial + i * f, 0, (size_t)f * sizeof *partial);
            if (how->factor == NULL) {
                cpu->kernels->column_sum(end - first, f, how->x + first * f, partial + i * f);
            } else {
                cpu->kernels->head_dot_sum(how->n_head, f / how->n_head, how->x, how->factor, first, end,
                                           partial + i * f);
            }
        });
    for (int64_t c = 0; c < f; c++) {
        double sum = how->add ? out[c] : 0.0;
        for (int64_t i = 0; i < n_chunk; i++) {
            sum += partial[i * f + c];
        }
        out[c] = (float)sum;
    }
}

/* Lanes of the double sum of one chunk: independent sums keep the adders busy. */
#define DOT_LANES 16

static double dot_chunk(int64_t n, const float *x, const float *y)
{
    double lane[DOT_LANES] = {0.0}, sum = 0.0;
    int64_t i = 0;
    for (; i + DOT_LANES <= n; i += DOT_LANES) {
        for (int64_t j = 0; j < DOT_LANES; j++) {
            lane[j] += (double)x[i + j] * y[i + j];
        }
    }
    for (; i < n; i++) {
        lane[0] += (double)x[i] * y[i];
    }
    for (int64_t j = 0; j < DOT_LANES; j++) {
        sum += lane[j];
    }
    return sum;
}

void cpu_dot(struct device *device, int64_t n, int64_t f, const float *x, const float *y, void *scratch, bool add,
             float *out)
{
    int64_t rows = row_chunk_rows(n), n_chunk = row_n_chunk(n);
    double *partial = scratch, sum = add ? out[0] : 0.0;
    CPU_LOOP_DYNAMIC(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN, for (int64_t i = 0; i < n_chunk; i++) {
            int64_t first = i * rows, n_row = n - first < rows ? n - first : rows;
            partial[i] = dot_chunk(n_row * f, x + first * f, y + first * f);
        });
    for (int64_t i = 0; i < n_chunk; i++) {
        sum += partial[i];
    }
    out[0] = (float)sum;
}

void cpu_chunks_add(struct device *device, int64_t n_value, int64_t n_chunk, const float *chunk, float *out)
{
    CPU_LOOP(
        cpu_device(device), n_value * n_chunk >= CPU_PARALLEL_MIN, for (int64_t i = 0; i < n_value; i++) {
            float sum = chunk[i];
            for (int64_t c = 1; c < n_chunk; c++) {
                sum += chunk[c * n_value + i];
            }
            out[i] = sum;
        });
}
