/* Which GPUs there are, and which one a worker takes. */
#include "models/cuda/cuda.h"

#include <stdio.h>

/* The oldest that kernels are compiled for. */
#define MAJOR_LEAST 8

static enum status unusable(cudaError_t code)
{
    int version = 0;
    if (code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&version) == cudaSuccess && version == 0) {
        return status_fail(STATUS_PEER, "no usable GPU: there is no driver for NVIDIA GPUs");
    }
    return status_fail(STATUS_PEER, "no usable GPU: %s", cudaGetErrorString(code));
}

enum status cuda_gpus(struct cuda_gpu out[CUDA_GPUS_MOST], int *n_out)
{
    int n_all = 0, n = 0;
    struct cudaDeviceProp gpu = {.name = ""};
    cudaError_t code = cudaGetDeviceCount(&n_all);
    code = code == cudaSuccess && n_all == 0 ? cudaErrorNoDevice : code;
    for (int i = 0; i < n_all && n < CUDA_GPUS_MOST && code == cudaSuccess; i++) {
        code = cudaGetDeviceProperties(&gpu, i);
        if (code == cudaSuccess && gpu.major >= MAJOR_LEAST) {
            struct cuda_gpu *to = &out[n++];
            *to = (struct cuda_gpu){
                .n_bytes = (int64_t)gpu.totalGlobalMem, .number = i, .major = gpu.major, .minor = gpu.minor};
            snprintf(to->name, sizeof to->name, "%.63s", gpu.name);
        }
    }
    if (code != cudaSuccess) {
        return unusable(code);
    }
    *n_out = n;
    return n > 0 ? STATUS_OK
                 : status_fail(STATUS_PEER, "no usable GPU: %s has compute capability %d.%d, expected at least %d.0", gpu.name,
                               gpu.major, gpu.minor, MAJOR_LEAST);
}

enum status cuda_gpu_take(uint32_t turn)
{
    struct cuda_gpu gpu[CUDA_GPUS_MOST];
    int n;
    enum status status = cuda_gpus(gpu, &n);
    if (status != STATUS_OK) {
        return status;
    }
    cudaError_t code = cudaSetDevice(gpu[turn % (uint32_t)n].number);
    return code == cudaSuccess ? STATUS_OK : unusable(code);
}
