/* Sums over neighbours by cuSPARSE, which is opened at run time; library.c is the one file of the tests that knows
 * it.
 *
 * As a user who cares would call it: descriptors, buffers and the array of ones made once, preprocessed where the
 * algorithm can be, row-major operands, which ALG2 is fastest with. In emulated builds it is the emulator's, so that
 * all lines run.
 */
#ifndef TESTS_GPU_LIBRARY_H
#define TESTS_GPU_LIBRARY_H

#include "tests/gpu/bench/figure.h"

enum library_algorithm { LIBRARY_ALG2, LIBRARY_ALG3, LIBRARY_ALGORITHM_N };
extern const char *const library_names[LIBRARY_ALGORITHM_N];

struct library_sum;

/* out = A · x with ones for A's values; x and out n × f, device memory. NULL, and f's reason, where it cannot be. */
struct library_sum *library_sum_open(struct figure *f, enum library_algorithm algorithm, const struct graph *graph,
                                     const struct device_block *block, int64_t n_column, const float *x, float *out);
void library_sum_run(struct figure *f, void *sum);
void library_sum_close(struct library_sum *sum); /* before figure_end; NULL: nothing to do */

#endif
