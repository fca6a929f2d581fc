/* Sums over neighbours whose long rows are merged with float atomics: what fixed orders are compared with.
 *
 * Short rows go by the device's own kernel. Emulated, where blocks run one after another, an addition does as an
 * atomic.
 */
#ifndef TESTS_GPU_ATOMICS_H
#define TESTS_GPU_ATOMICS_H

#include "tests/gpu/bench/figure.h"

#include "models/cuda/schedule.h"

/* A piece of a long row. */
struct atomics_piece {
    int64_t row, begin, end;
};

struct atomics_sum {
    struct device_block block; /* whose schedule leaves long rows out */
    int64_t n_piece, f;
    const struct atomics_piece *piece; /* device memory */
    const float *x;
    float *out;
};

/* Of columns in fours; f's reason says why not. */
void atomics_sum_open(struct figure *f, const struct graph *graph, const struct device_block *block, int64_t n_column,
                      const float *x, float *out, struct atomics_sum *sum);
void atomics_sum_run(struct figure *f, void *sum);
/* The kernels alone: the pieces' sums go to their rows. */
void atomics_launch(struct figure *f, const struct atomics_sum *sum);

#endif
