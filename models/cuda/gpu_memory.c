/* The used memory of a GPU, and the machine's number for it, from the driver's management library (NVML). NVML needs
 * no context, which would use memory itself, and sees all GPUs. The library comes with the driver and is opened at
 * run time. */
#include "models/cuda/cuda.h"
#include "models/cuda/library.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

/* The used part of nvml.h, which not every toolkit has. A status of 0 is success. */
struct nvml_memory {
    unsigned long long total, free, used;
};

/* In the order of their names below. */
struct nvml {
    int (*init)(void);
    int (*find)(const char *bus_id, void **out);
    int (*index)(void *gpu, unsigned *out);
    int (*memory)(void *gpu, struct nvml_memory *out);
    int (*shutdown)(void);
};

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
    static const char *const places[] = {"libnvidia-ml.so.1", NULL};
    static const char *const names[] = {"nvmlInit_v2",        "nvmlDeviceGetHandleByPciBusId_v2",
                                        "nvmlDeviceGetIndex", "nvmlDeviceGetMemoryInfo",
                                        "nvmlShutdown",       NULL};
    struct nvml nvml;
    if (cuda_library_find(places, names, CUDA_LIBRARY_EMULATED(emulator_nvml), &nvml) && nvml.init() == 0) {
        for (int i = 0; i < n; i++) {
            look(&nvml, &gpu[i]);
        }
        nvml.shutdown();
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
