/* Which cuBLAS the wide products of a GPU go by, as one number: the bits of a job depend on it, so that workers tell it and checkpoints have it. */
#ifndef PROTOCOL_BLAS_H
#define PROTOCOL_BLAS_H

#include <stdint.h>
#include <stdio.h>

#define BLAS_UNKNOWN 0u /* no bits depend on it: another device; or it was not noted */
#define BLAS_NONE 1u    /* there is none: the device has kernels of its own */
#define BLAS_MOST 1000000u
#define BLAS_TEXT_BYTES 16

/* "13.0.2" of 130002, as cuBLAS numbers its versions; "none". */
static inline void blas_text(uint32_t blas, char out[BLAS_TEXT_BYTES])
{
    if (blas <= BLAS_NONE) {
        snprintf(out, BLAS_TEXT_BYTES, "none");
    } else {
        snprintf(out, BLAS_TEXT_BYTES, "%u.%u.%u", blas / 10000u % 100u, blas / 100u % 100u, blas % 100u);
    }
}

#endif
