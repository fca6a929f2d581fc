/* The sets of kernels that this processor can run. */
#include "models/cpu/kernels/kernels.h"

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
