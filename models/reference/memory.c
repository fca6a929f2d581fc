/* Life, memory and copies of the reference device: everything is host memory, and calls return when their work is
 * done. */
#include "models/reference/reference.h"

#include <stdlib.h>
#include <string.h>

enum status reference_open(int n_thread, struct device **out)
{
    (void)n_thread;
    struct device *device = memory_alloc(1, sizeof *device);
    device->ops = &device_reference;
    *out = device;
    return STATUS_OK;
}

void reference_close(struct device *device)
{
    free(device);
}

enum status reference_acquire(struct device *device, enum device_place place, enum memory_category category,
                              size_t n_bytes, void *out)
{
    (void)device;
    (void)place;
    return memory_acquire(category, n_bytes, 1, out);
}

void reference_release(struct device *device, enum device_place place, enum memory_category category, void *block,
                       size_t n_bytes)
{
    (void)device;
    (void)place;
    memory_release(category, block, n_bytes, 1);
}

enum status reference_borrow(struct device *device, enum memory_category category, const void *host, size_t n_bytes,
                             void *out)
{
    (void)device;
    (void)category;
    (void)n_bytes;
    *(const void **)out = host;
    return STATUS_OK;
}

void reference_giveback(struct device *device, enum memory_category category, const void *host, size_t n_bytes,
                        void *borrowed)
{
    (void)device;
    (void)category;
    (void)host;
    (void)n_bytes;
    (void)borrowed;
}

void reference_copy(struct device *device, void *to, const void *from, size_t n_bytes)
{
    reference_move(device, DEVICE_LANE_COMPUTE, to, from, n_bytes);
}

void reference_move(struct device *device, enum device_lane lane, void *to, const void *from, size_t n_bytes)
{
    (void)device;
    (void)lane;
    if (n_bytes > 0) {
        memmove(to, from, n_bytes);
    }
}

void reference_fill_zero(struct device *device, void *to, size_t n_bytes)
{
    (void)device;
    if (n_bytes > 0) {
        memset(to, 0, n_bytes);
    }
}

device_mark reference_mark(struct device *device, enum device_lane lane)
{
    (void)device;
    (void)lane;
    return 0;
}

void reference_follow(struct device *device, enum device_lane lane, device_mark mark)
{
    (void)device;
    (void)lane;
    (void)mark;
}

bool reference_passed(struct device *device, device_mark mark)
{
    (void)device;
    return mark == 0;
}

void reference_poll(struct device *device, void (*poll)(void *context), void *context)
{
    (void)device;
    (void)poll;
    (void)context;
}

enum status reference_wait(struct device *device, device_mark mark)
{
    (void)device;
    (void)mark;
    return STATUS_OK;
}

enum status reference_block_open(struct device *device, struct device_block *block)
{
    (void)device;
    block->schedule = NULL;
    return STATUS_OK;
}

void reference_block_close(struct device *device, struct device_block *block)
{
    (void)device;
    (void)block;
}

enum status reference_csr_open(struct device *device, struct device_csr *csr)
{
    (void)device;
    csr->by_column = NULL;
    return STATUS_OK;
}

void reference_csr_close(struct device *device, struct device_csr *csr)
{
    (void)device;
    (void)csr;
}

/* Only these operations use scratch. */
size_t reference_bytes(enum device_bytes what, const int64_t *size)
{
    switch (what) {
    case DEVICE_BYTES_CSR_LINEAR:
        return (size_t)size[0] * sizeof(double);
    case DEVICE_BYTES_ATTENTION: /* gradients of how->edge */
        return (size_t)(size[2] * size[4]) * sizeof(double) *
               (size[1] == DEVICE_SCORE_ADD   ? 1
                : size[1] == DEVICE_SCORE_MLP ? (size_t)size[3]
                                              : 0);
    case DEVICE_BYTES_RELATION_DOT:
        return (size_t)(size[0] * size[1]) * sizeof(double);
    case DEVICE_BYTES_TILE:
        return (size_t)(size[0] + size[1]) * sizeof(double);
    case DEVICE_BYTES_BLOCK_MADE:
        return (size_t)(size[0] + 1) * sizeof(int64_t) + (size_t)(size[2] * size[3]);
    default:
        return 0;
    }
}

void reference_chunks_run(struct device *device, int n_chunk, void (*run)(void *context, int chunk, int slot),
                          void *context)
{
    (void)device;
    for (int i = 0; i < n_chunk; i++) {
        run(context, i, 0);
    }
}
