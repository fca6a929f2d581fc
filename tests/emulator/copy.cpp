/* Copies, products and sums over neighbours that sanitizers see: built with them, unlike the rest of the emulator. */
#include "tests/emulator/emulator.h"

void emulator_copy(void *to, const void *from, size_t n_bytes)
{
    memcpy(to, from, n_bytes);
}

void emulator_set(void *to, int byte, size_t n_bytes)
{
    memset(to, byte, n_bytes);
}

void emulator_gemm(int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                   const float *b, int ldb, float beta, float *c, int ldc)
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

/* Edges of the matrix that are added up before they are added to what came before in the row. */
#define SHARE_EDGES 16

void emulator_spmm(long n_row, long n_col, const int *offsets, const int *columns, const float *values, long f,
                   float alpha, const float *x, float beta, float *out, long turn)
{
    for (long r = 0; r < n_row; r++) {
        const long begin = offsets[r], n = offsets[r + 1] - begin;
        for (long c = 0; c < f; c++) {
            float sum = 0.0F, share = 0.0F;
            for (long k = 0; k < n; k++) {
                const long e = begin + (turn < 0 ? k : (k + turn) % n);
                if (columns[e] < 0 || columns[e] >= n_col) {
                    emulator::die("cusparseSpMM: column %d of %ld", columns[e], n_col);
                }
                share = fmaf(values[e], x[columns[e] * f + c], share);
                if (turn >= 0 || e % SHARE_EDGES == SHARE_EDGES - 1 || k == n - 1) {
                    sum += share;
                    share = 0.0F;
                }
            }
            float *to = out + r * f + c;
            *to = beta == 0.0F ? alpha * sum : fmaf(beta, *to, alpha * sum);
        }
    }
}
