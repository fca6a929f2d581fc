/* The usable GPUs, and the GPU of a worker. */
#include "models/cuda/cuda.h"

#include <stdio.h>

/* The oldest architecture that kernels are compiled for. */
#define MAJOR_LEAST 8

static enum status unusable(cudaError_t code)
{
    int version = 0;
    if (code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&version) == cudaSuccess && version == 0) {
        return status_fail(STATUS_PEER, "no usable GPU: there is no driver for NVIDIA GPUs");
    }
    return status_fail(STATUS_PEER, "no usable GPU: %s", cudaGetErrorString(code));
}

/* As in nvidia-smi and CUDA_VISIBLE_DEVICES: GPU-8c1f5b2e-0123-4567-89ab-cdef01234567. */
static void uuid_print(const char bytes[16], char out[48])
{
    size_t at = (size_t)snprintf(out, 48, "GPU-");
    for (int i = 0; i < 16; i++) {
        at += (size_t)snprintf(out + at, 48 - at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                               (unsigned)(unsigned char)bytes[i]);
    }
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
            *to = (struct cuda_gpu){.n_bytes = (int64_t)gpu.totalGlobalMem,
                                    .n_used = -1,
                                    .ordinal = i,
                                    .number = i,
                                    .node = -1,
                                    .major = gpu.major,
                                    .minor = gpu.minor};
            snprintf(to->name, sizeof to->name, "%.63s", gpu.name);
            uuid_print(gpu.uuid.bytes, to->uuid);
        }
    }
    if (code != cudaSuccess) {
        return unusable(code);
    }
    cuda_gpus_look(out, n);
    *n_out = n;
    return n > 0 ? STATUS_OK
                 : status_fail(STATUS_PEER, "no usable GPU: %s has compute capability %d.%d, expected at least %d.0",
                               gpu.name, gpu.major, gpu.minor, MAJOR_LEAST);
}

enum status cuda_gpu_choose(uint32_t turn, uint32_t n_here, struct cuda_gpu *out, uint32_t *n_sharing_out)
{
    struct cuda_gpu gpu[CUDA_GPUS_MOST];
    int n;
    enum status status = cuda_gpus(gpu, &n);
    if (status == STATUS_OK) {
        uint32_t place = turn % (uint32_t)n;
        *out = gpu[place];
        *n_sharing_out = (n_here - place + (uint32_t)n - 1) / (uint32_t)n;
    }
    return status;
}

enum status cuda_gpu_take(const struct cuda_gpu *gpu)
{
    cudaError_t code = cudaSetDevice(gpu->ordinal);
    if (code == cudaErrorMemoryAllocation) {
        return status_fail(STATUS_NOMEM,
                           "there is no memory for CUDA's context on GPU %d (%s): %lld of its %lld bytes are used",
                           (int)gpu->number, gpu->name, (long long)cuda_gpu_used(gpu), (long long)gpu->n_bytes);
    }
    return code == cudaSuccess ? STATUS_OK : unusable(code);
}
