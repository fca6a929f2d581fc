/* The used memory of a GPU, and the machine's number for it, from the driver's management library (NVML). NVML needs
 * no context, which would use memory itself, and sees all GPUs. The library comes with the driver and is opened at
 * run time. */
#include "models/cuda/cuda.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The used part of nvml.h, which not every toolkit has. A status of 0 is success. */
struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml {
    int (*init)(void);
    int (*find)(const char *bus_id, void **out);
    int (*index)(void *gpu, unsigned *out);
    int (*memory)(void *gpu, struct nvml_memory *out);
    int (*shutdown)(void);
};

static bool function_find(void *library, const char *name, void *out)
{
#ifdef CUDA_EMULATED
    (void)library;
    void *function = emulator_nvml(name);
#else
    void *function = dlsym(library, name);
#endif
    memcpy(out, &function, sizeof function);
    return function != NULL;
}

static bool nvml_find(void *library, struct nvml *out)
{
    return function_find(library, "nvmlInit_v2", &out->init) &&
           function_find(library, "nvmlDeviceGetHandleByPciBusId_v2", &out->find) &&
           function_find(library, "nvmlDeviceGetIndex", &out->index) &&
           function_find(library, "nvmlDeviceGetMemoryInfo", &out->memory) &&
           function_find(library, "nvmlShutdown", &out->shutdown);
}

static void look(const struct nvml *nvml, struct cuda_gpu *gpu)
{
    char bus_id[32];
    void *handle;
    unsigned number;
    struct nvml_memory memory = {0};
    if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, gpu->ordinal) != cudaSuccess ||
        nvml->find(bus_id, &handle) != 0) {
        return;
    }
    gpu->number = nvml->index(handle, &number) == 0 ? (int32_t)number : gpu->number;
    gpu->n_used = nvml->memory(handle, &memory) == 0 ? (int64_t)memory.used : -1;
}

void cuda_gpus_look(struct cuda_gpu *gpu, int n)
{
    struct nvml nvml;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
#ifndef CUDA_EMULATED
    if (library == NULL) {
        return;
    }
#endif
    if (nvml_find(library, &nvml) && nvml.init() == 0) {
        for (int i = 0; i < n; i++) {
            look(&nvml, &gpu[i]);
        }
        nvml.shutdown();
    }
    if (library != NULL) {
        dlclose(library);
    }
}

int64_t cuda_gpu_used(const struct cuda_gpu *gpu)
{
    struct cuda_gpu now = *gpu;
    now.n_used = -1;
    cuda_gpus_look(&now, 1);
    return now.n_used;
}

/* All of them are the same program. */
int cuda_gpu_lock(void)
{
    int lock = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_EX) != 0) {
        close(lock);
        return -1;
    }
    return lock;
}

void cuda_gpu_unlock(int lock)
{
    if (lock >= 0) {
        close(lock);
    }
}
