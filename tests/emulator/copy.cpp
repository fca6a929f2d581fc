/* Copies and products that sanitizers see: built with them, unlike the rest of the emulator. */
#include "tests/emulator/emulator.h"

void emulator_copy(void *to, const void *from, size_t n_bytes)
{
    memcpy(to, from, n_bytes);
}

void emulator_set(void *to, int byte, size_t n_bytes)
{
    memset(to, byte, n_bytes);
}

void emulator_gemm(int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                   float beta, float *c, int ldc)
{
    for (long j = 0; j < n; j++) {
        for (long i = 0; i < m; i++) {
            float sum = 0.0F;
            for (long l = 0; l < k; l++) {
                sum = fmaf(a[trans_a ? l + i * lda : i + l * lda], b[trans_b ? j + l * ldb : l + j * ldb], sum);
            }
            float *to = c + i + j * ldc;
            *to = beta == 0.0F ? alpha * sum : fmaf(beta, *to, alpha * sum);
        }
    }
}
