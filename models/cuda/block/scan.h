/* Sums of all numbers before each: where things go that are put one behind another. */
#ifndef MODELS_CUDA_SCAN_H
#define MODELS_CUDA_SCAN_H

#include "models/cuda/cuda.h"

/* x[i] = x[0] + … + x[i - 1] for i = 0 … n; x has n + 1 numbers, the last of them unset before. scratch:
 * cuda_scan_bytes(n) */
void cuda_scan(struct device *device, int64_t n, int64_t *x, void *scratch);

#endif
