/* Life, memory and copies of the cpu device. Its memory is the host's, and it has one lane: a call returns when its
 * work is done. */
#include "models/cpu/cpu.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum status cpu_open(int n_thread, struct device **out)
{
    struct cpu_device *device = memory_alloc(1, sizeof *device);
    const char *spins = getenv("GOMP_SPINCOUNT"); /* "0": threads sleep on idle cores, too */
    device->base.ops = &device_cpu;
    device->n_thread = n_thread > 0 ? n_thread : omp_get_num_procs();
    device->threads = &device->threads_now;
    device->threads_now.n_left = spins != NULL && atoi(spins) == 0 ? INT32_MAX : 0; /* not measured */
    device->kernels = cpu_kernels_best();
    device->product = cpu_has_tiles() ? cpu_product_tiles : device->kernels->product;
    *out = &device->base;
    return STATUS_OK;
}

void cpu_copy(struct device *device, void *to, const void *from, size_t n_bytes)
{
    cpu_move(device, DEVICE_LANE_COMPUTE, to, from, n_bytes);
}

/* Bytes one thread copies at a time. */
#define COPY_STEP ((size_t)1 << 20)

void cpu_move(struct device *device, enum device_lane lane, void *to, const void *from, size_t n_bytes)
{
    (void)lane;
    if (to == from) {
        return;
    }
    CPU_LOOP_DYNAMIC(
        cpu_device(device), n_bytes > COPY_STEP, for (size_t at = 0; at < n_bytes; at += COPY_STEP) {
            size_t left = n_bytes - at;
            memcpy((char *)to + at, (const char *)from + at, left < COPY_STEP ? left : COPY_STEP);
        });
}

void cpu_fill_zero(struct device *device, void *to, size_t n_bytes)
{
    CPU_LOOP_DYNAMIC(
        cpu_device(device), n_bytes > COPY_STEP, for (size_t at = 0; at < n_bytes; at += COPY_STEP) {
            size_t left = n_bytes - at;
            memset((char *)to + at, 0, left < COPY_STEP ? left : COPY_STEP);
        });
}

void cpu_poll(struct device *device, void (*poll)(void *context), void *context)
{
    cpu_device(device)->poll = poll;
    cpu_device(device)->poll_context = context;
}

enum status cpu_wait(struct device *device, device_mark mark)
{
    const struct cpu_device *cpu = cpu_device(device);
    (void)mark;
    return cpu->failed == STATUS_OK ? STATUS_OK : status_fail(cpu->failed, "%s", cpu->reason);
}
