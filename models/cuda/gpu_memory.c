/* How much of a GPU's memory is used, as the driver's management library (NVML) says it: without a context, which would take some itself. The library
 * is opened at run time, and comes with the driver. */
#include "models/cuda/cuda.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Of nvml.h, which not every toolkit has: what is called of it. A status of 0 is success. */
struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml {
    int (*init)(void);
    int (*find)(const char *bus_id, void **out);
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
           function_find(library, "nvmlDeviceGetMemoryInfo", &out->memory) &&
           function_find(library, "nvmlShutdown", &out->shutdown);
}

static int64_t used_of(const struct nvml *nvml, const struct cuda_gpu *gpu)
{
    char bus_id[32];
    void *handle;
    struct nvml_memory memory = {0};
    if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, gpu->number) != cudaSuccess || nvml->init() != 0) {
        return -1;
    }
    bool is_known = nvml->find(bus_id, &handle) == 0 && nvml->memory(handle, &memory) == 0;
    return nvml->shutdown() == 0 && is_known ? (int64_t)memory.used : -1;
}

int64_t cuda_gpu_used(const struct cuda_gpu *gpu)
{
    struct nvml nvml;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
#ifndef CUDA_EMULATED
    if (library == NULL) {
        return -1;
    }
#endif
    int64_t used = nvml_find(library, &nvml) ? used_of(&nvml, gpu) : -1;
    if (library != NULL) {
        dlclose(library);
    }
    return used;
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
