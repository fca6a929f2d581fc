#include "tests/support/operations/operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void operation_give_up(const char *what)
{
    fprintf(stderr, "gpu_operations: %s\n", what);
    exit(1);
}

static void *host_take(size_t n_bytes)
{
    void *block = calloc(1, n_bytes + 1);
    if (block == NULL) {
        operation_give_up("out of memory");
    }
    return block;
}

static void *take(struct operation_run *run, size_t n_bytes)
{
    void *block = NULL;
    if (run->n_taken == OPERATION_TAKEN_MOST) {
        operation_give_up("a case takes more arrays than there is room for");
    }
    if (run->ops->acquire(run->device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, n_bytes, &block) != STATUS_OK) {
        operation_give_up(status_reason());
    }
    run->taken[run->n_taken++] = (struct operation_array){.n_bytes = n_bytes, .at = block};
    return block;
}

/* --- inputs --- */

void *operation_copy(struct operation_run *run, const void *host, size_t n_bytes)
{
    void *block = take(run, n_bytes);
    run->ops->copy(run->device, block, host, n_bytes);
    return block;
}

static void *give(struct operation_run *run, void *host, size_t n_bytes)
{
    void *block = operation_copy(run, host, n_bytes);
    free(host);
    return block;
}

static float *random_host(struct operation_run *run, int64_t n)
{
    float *values = host_take((size_t)n * sizeof *values);
    const struct random_key key = {.seed = ++run->seed, .stream = RANDOM_STREAM_INIT};
    for (int64_t i = 0; i < n; i++) {
        values[i] = 2.0F * random_unit(&key, (uint64_t)i >> 20, (uint32_t)(i & 0xfffff)) - 1.0F;
    }
    return values;
}

float *operation_random(struct operation_run *run, int64_t n)
{
    float *host = random_host(run, n), *at = take(run, (size_t)(n + run->shift) * sizeof *at);
    run->ops->copy(run->device, at + run->shift, host, (size_t)n * sizeof *at);
    free(host);
    return at + run->shift;
}

uint32_t *operation_numbers(struct operation_run *run, int64_t n, uint32_t first, uint32_t step)
{
    uint32_t *numbers = host_take((size_t)n * sizeof *numbers);
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = first + (uint32_t)i * step;
    }
    return give(run, numbers, (size_t)n * sizeof *numbers);
}

struct device_now *operation_now(struct operation_run *run, struct device_now now)
{
    return operation_copy(run, &now, sizeof now);
}

void *operation_scratch(struct operation_run *run, size_t n_bytes)
{
    void *bytes = host_take(n_bytes);
    memset(bytes, 0xff, n_bytes);
    return give(run, bytes, n_bytes);
}

/* --- results --- */

static void *result(struct operation_run *run, enum operation_type type, void *at, size_t n_bytes)
{
    if (run->n_result == OPERATION_RESULTS_MOST) {
        operation_give_up("a case has more results than there is room for");
    }
    run->result[run->n_result++] = (struct operation_array){type, n_bytes, at};
    return at;
}

float *operation_floats(struct operation_run *run, int64_t n)
{
    float *sevens = host_take((size_t)n * sizeof *sevens);
    for (int64_t i = 0; i < n; i++) {
        sevens[i] = 7.0F;
    }
    return result(run, OPERATION_FLOATS, give(run, sevens, (size_t)n * sizeof *sevens), (size_t)n * sizeof *sevens);
}

double *operation_doubles(struct operation_run *run, int64_t n)
{
    double *sevens = host_take((size_t)n * sizeof *sevens);
    for (int64_t i = 0; i < n; i++) {
        sevens[i] = 7.0;
    }
    return result(run, OPERATION_DOUBLES, give(run, sevens, (size_t)n * sizeof *sevens), (size_t)n * sizeof *sevens);
}

void *operation_bytes(struct operation_run *run, size_t n_bytes)
{
    return result(run, OPERATION_BYTES, take(run, n_bytes), n_bytes);
}

/* --- graphs --- */

static int64_t degree(enum operation_degrees degrees, int64_t row)
{
    switch (degrees) {
    case OPERATION_DEGREES_LONG:
        return row % 100 == 7 ? 1500 : row % 100 == 57 ? 300 : row % 10;
    case OPERATION_DEGREES_ALL:
        return row % 257;
    case OPERATION_DEGREES_MANY:
        return row % 1000 == 7 ? 300 : row % 5;
    case OPERATION_DEGREES_HUB:
    case OPERATION_DEGREES_HUGE:
        return row == 3 ? degrees == OPERATION_DEGREES_HUB ? 70000 : 150000 : row % 4;
    default:
        return row % 10;
    }
}

struct device_block operation_graph(struct operation_run *run, enum operation_degrees degrees, int64_t n_row,
                                    int64_t n_col, int n_type)
{
    int64_t *indptr = host_take((size_t)(n_row + 1) * sizeof *indptr);
    for (int64_t r = 0; r < n_row; r++) {
        indptr[r + 1] = indptr[r] + degree(degrees, r);
    }
    int64_t n_edge = indptr[n_row];
    uint32_t *cols = host_take((size_t)n_edge * sizeof *cols);
    uint16_t *types = host_take((size_t)n_edge * sizeof *types);
    for (int64_t r = 0; r < n_row; r++) {
        int64_t n = indptr[r + 1] - indptr[r], step = n > 0 ? n_col / n : 0;
        for (int64_t i = 0; i < n;
             i++) { /* one column out of each of n even stretches; of few columns, again and again */
            cols[indptr[r] + i] = (uint32_t)(step > 0 ? i * step + (r * 7 + i * 3) % step : i * 37 % n_col);
            types[indptr[r] + i] = (uint16_t)((i + r % 3) * n_type / (n + 2));
        }
    }
    struct device_block block = {.n_row = n_row, .n_col = n_col, .n_edge = n_edge};
    block.indptr = give(run, indptr, (size_t)(n_row + 1) * sizeof *indptr);
    block.cols = give(run, cols, (size_t)n_edge * sizeof *cols);
    if (n_type > 0) {
        block.types = operation_copy(run, types, (size_t)n_edge * sizeof *types);
        block.weights = operation_random(run, n_edge);
    }
    free(types);
    if (run->ops->block_open(run->device, &block) != STATUS_OK) {
        operation_give_up(status_reason());
    }
    return block;
}
