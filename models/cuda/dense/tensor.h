/* Copies into shared memory that run beside the kernel, and products by tensor cores, in TF32 (float32 of 11 bits)
 * and BF16. Emulated: tests/emulator/include/cuda_runtime.h.
 *
 * A warp multiplies a (16 × 8) by b (8 × 8). Lane 4 · g + t holds of a the elements (g, t), (g + 8, t), (g, t + 4)
 * and (g + 8, t + 4), of b (t, g) and (t + 4, g), and of the sum (g, 2t), (g, 2t + 1), (g + 8, 2t) and
 * (g + 8, 2t + 1). In BF16 there are 16 of the k, and where TF32 has k there are 2k and 2k + 1, in the halves of a
 * word from the lower one on.
 */
#ifndef MODELS_CUDA_TENSOR_H
#define MODELS_CUDA_TENSOR_H

#include "models/cuda/kernel.h"

#ifdef __CUDACC__
/* to[0 … W) = from[0 … W), or zeros; W is 1, or 4 where both lie on 16 bytes. Readable after a wait, and in other
 * threads after a barrier behind it. */
template <int W> static __device__ __forceinline__ void copy_async(float *to, const float *from, bool is_there)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    const int n_byte = is_there ? W * (int)sizeof(float) : 0;
    if (W == 4) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(n_byte) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(n_byte) : "memory");
    }
}

/* What the thread has begun to copy since the last call is a group. */
static __device__ __forceinline__ void copy_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until of its groups at most the last N are not done. */
template <int N> static __device__ __forceinline__ void copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* sum += a · b, by all lanes; what TF32 does not hold of a and b is ignored. */
static __device__ __forceinline__ void tf32_multiply(float (&sum)[4], const float (&a)[4], const float (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
                   "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

static __device__ __forceinline__ void bf16_multiply(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Two numbers as the nearest BF16 (codec_round), the first in the lower half. */
static __device__ __forceinline__ uint32_t bf16_pair(float low, float high)
{
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
#endif

#endif
