/* Kernels of one warp whose counts are known: what count.cpp has to find, by name in the order of planted_run. */
#include "tests/emulator/sectors/count.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define N 1024

/* 32 lanes × 4 bytes side by side: 4 sectors to read and to write. */
__global__ void coalesced(const float *x, float *out)
{
    out[threadIdx.x] = x[threadIdx.x];
}

/* From the fourth byte on: 5 sectors to read. */
__global__ void shifted(const float *x, float *out)
{
    out[threadIdx.x] = x[threadIdx.x + 1];
}

/* Each lane reads another sector: 32 of them, where 4 would do. */
__global__ void strided(const float *x, float *out)
{
    out[threadIdx.x] = x[threadIdx.x * 32];
}

/* Four numbers at once, side by side: 16 sectors each way; and all lanes one number: 1. */
__global__ void vectors(const float *x, float *out)
{
    const float4 four = *(const float4 *)(x + 4 * threadIdx.x);
    *(float4 *)(out + 4 * threadIdx.x) = make_float4(four.x + x[0], four.y, four.z, four.w);
}

/* A square of 32 × 32 written by rows and read by columns: of a row of 32 words all lanes meet in one bank, in 32
 * rounds; of a row of 33 words in none. */
template <int ROW> __global__ void transposed(const float *x, float *out)
{
    SHARED(float, square, 32 * ROW);
    square[threadIdx.x] = x[threadIdx.x];
    __syncwarp(0xffffffffU);
    out[threadIdx.x] = square[threadIdx.x * ROW];
}

/* Each of the two halves of a warp as often as it has rows, at other times: its instructions are its own. */
__global__ void halves(const float *x, float *out)
{
    float sum = 0.0F;
    for (unsigned k = 0; k < 1 + threadIdx.x / 16; k++) {
        sum += x[k * 32 + threadIdx.x];
        __syncwarp(threadIdx.x < 16 ? 0x0000ffffU : 0xffff0000U);
    }
    out[threadIdx.x] = sum;
}

__global__ void counted(unsigned *n)
{
    atomicAdd(n, 1U);
}

static void done(cudaError_t code)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "planted: %s\n", cudaGetErrorString(code));
        exit(1);
    }
}

template <typename... P> static void run(const char *name, void (*kernel)(P...), P... arguments)
{
    cudaStream_t stream;
    done(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    count_begin(name);
    LAUNCH(kernel, 1, 32, stream, arguments...);
    done(cudaStreamSynchronize(stream));
    count_print(0);
    done(cudaStreamDestroy(stream));
}

extern "C" void planted_run(void)
{
    void *x, *out;
    done(cudaMalloc(&x, N * sizeof(float)));
    done(cudaMalloc(&out, N * sizeof(float)));
    const float *from = (const float *)x;
    float *to = (float *)out;
    run("coalesced", coalesced, from, to);
    run("shifted", shifted, from, to);
    run("strided", strided, from, to);
    run("vectors", vectors, from, to);
    run("transposed<32>", transposed<32>, from, to);
    run("transposed<33>", transposed<33>, from, to);
    run("halves", halves, from, to);
    run("counted", counted, (unsigned *)out);
    done(cudaFree(x));
    done(cudaFree(out));
}
