/* The sets of kernels that this processor can run. */
#include "models/cpu/kernels/kernels.h"
#include "models/device/codec.h"
#include "protocol/base/clock.h"

#include <string.h>

const struct cpu_kernels *cpu_kernels_find(enum cpu_variant variant)
{
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (variant == CPU_VARIANT_AVX512) {
        return avx512 ? &cpu_kernels_avx512 : NULL;
    }
    if (variant == CPU_VARIANT_AVX2) {
        return avx2 ? &cpu_kernels_avx2 : NULL;
    }
#endif
    return variant == CPU_VARIANT_PORTABLE ? &cpu_kernels_portable : NULL;
}

const struct cpu_kernels *cpu_kernels_best(void)
{
    int variant = 0;
    while (cpu_kernels_find((enum cpu_variant)variant) == NULL) {
        variant++;
    }
    return cpu_kernels_find((enum cpu_variant)variant);
}

#define TRIED_ROWS 48
#define TRIED_INNER 96
#define TRIED_COLUMNS 64

/* Numbers of any size below two, some denormal; every other step of them near the root of the least number, so that
 * sums lie about that; and an infinity. */
static void numbers_draw(int64_t n, int64_t step, float *out)
{
    for (uint32_t i = 0, bits = 1; i < n; i++) {
        bits = bits * 1664525u + 1013904223u;
        const uint32_t exponent = i / step % 2 == 0 ? bits >> 8 & 0x7f : 52 + (bits >> 8 & 0xf);
        out[i] = codec_from_bits(i == 17 ? 0x7f800000u : (bits & 0x807fffffu) | exponent << 23);
    }
}

cpu_product_fn *cpu_product_best(const struct cpu_kernels *kernels)
{
    cpu_product_fn *form[2] = {kernels->product, cpu_product_tiles};
    if (!cpu_has_tiles()) {
        return form[0];
    }
    float a[TRIED_ROWS * TRIED_INNER], b[TRIED_INNER * TRIED_COLUMNS], c[2][TRIED_ROWS * TRIED_COLUMNS];
    int64_t best[2] = {INT64_MAX, INT64_MAX};
    numbers_draw(TRIED_ROWS * TRIED_INNER, TRIED_INNER, a);
    numbers_draw(TRIED_INNER * TRIED_COLUMNS, 1, b);
    for (int i = 0; i < 8; i++) {
        const int64_t start = clock_ns();
        form[i % 2](&(struct cpu_product){TRIED_ROWS, TRIED_COLUMNS, TRIED_INNER, a, b, .c = c[i % 2]});
        const int64_t taken = clock_ns() - start;
        best[i % 2] = taken < best[i % 2] ? taken : best[i % 2];
    }
    return form[memcmp(c[0], c[1], sizeof c[0]) == 0 && best[1] < best[0]];
}
