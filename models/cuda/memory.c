/* Life of the device, memory, copies, and the order of work. */
#include "models/cuda/cuda.h"

#include "protocol/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the GPU's memory; 0: not reported. */
struct room {
    size_t n_free, n_all;
};

static struct room room_now(void)
{
    struct room room = {0};
    return cudaMemGetInfo(&room.n_free, &room.n_all) == cudaSuccess ? room : (struct room){0};
}

void cuda_check(struct device *device, cudaError_t code, const char *what)
{
    struct cuda_device *cuda = cuda_device(device);
    if (code == cudaSuccess || cuda->failed != STATUS_OK) {
        return;
    }
    cuda->failed = code == cudaErrorMemoryAllocation ? STATUS_NOMEM : STATUS_BUG;
    int n = snprintf(cuda->reason, sizeof cuda->reason, "%s on the GPU: %s", what, cudaGetErrorString(code));
    if (code == cudaErrorMemoryAllocation && n > 0 && (size_t)n < sizeof cuda->reason) {
        struct room room = room_now();
        snprintf(cuda->reason + n, sizeof cuda->reason - (size_t)n, ": %zu of its %zu bytes are free", room.n_free,
                 room.n_all);
    }
}

/* --- life --- */

static void lanes_open(struct cuda_device *cuda)
{
    for (int l = 0; l < DEVICE_LANE_N; l++) {
        cuda_check(&cuda->base, cudaStreamCreateWithFlags(&cuda->lane[l].stream, cudaStreamNonBlocking), "a stream");
        for (int e = 0; e < CUDA_N_EVENT; e++) {
            cuda_check(&cuda->base, cudaEventCreateWithFlags(&cuda->lane[l].event[e], cudaEventDisableTiming),
                       "an event");
        }
    }
}

enum status cuda_open(int n_thread, struct device **out)
{
    (void)n_thread;
    return cuda_open_turn(0, 1, out);
}

/* The GPU's memory, and the bytes of opening it: the growth of the used memory, or if the driver does not report it,
 * the usual value. */
static void capacity_fill(struct cuda_device *cuda, const struct cuda_gpu *gpu, int64_t used_before)
{
    struct device_capacity *capacity = &cuda->base.capacity;
    int64_t used = used_before >= 0 ? cuda_gpu_used(gpu) : -1;
    size_t n_all = room_now().n_all;
    capacity->n_bytes = n_all > 0 ? (int64_t)n_all : gpu->n_bytes;
    capacity->libraries.of[LIBRARY_BLAS] = cuda_blas_version(cuda);
    capacity->n_context = used > used_before ? used - used_before : CUDA_CONTEXT_BYTES;
    snprintf(capacity->name, sizeof capacity->name, "GPU %d (%s)", (int)gpu->number, gpu->name);
    memory_count_device(MEMORY_PLACE_DEVICE, MEMORY_CONTEXT, capacity->n_context);
}

static enum status gpu_open(const struct cuda_gpu *gpu, struct cuda_device *cuda)
{
    int64_t used = cuda_gpu_used(gpu);
    enum status status = cuda_gpu_take(gpu);
    if (status == STATUS_OK) {
        lanes_open(cuda);
        cuda_blas_open(cuda);
        capacity_fill(cuda, gpu, used);
    }
    return status;
}

enum status cuda_open_turn(uint32_t turn, uint32_t n_here, struct device **out)
{
    struct cuda_gpu gpu;
    uint32_t n_sharing;
    enum status status = cuda_gpu_choose(turn, n_here, &gpu, &n_sharing);
    if (status != STATUS_OK) {
        return status;
    }
    struct cuda_device *cuda = memory_alloc(1, sizeof *cuda);
    cuda->base = (struct device){.ops = &device_cuda, .capacity = {.n_sharing = n_sharing}};
    cuda->gpu = gpu;
    int lock = n_sharing > 1 ? cuda_gpu_lock() : -1;
    status = gpu_open(&gpu, cuda);
    cuda_gpu_unlock(lock);
    if (status != STATUS_OK) {
        free(cuda);
        return status;
    }
    if (cuda->failed != STATUS_OK) {
        char reason[sizeof cuda->reason];
        bool lacks = cuda->failed == STATUS_NOMEM;
        memcpy(reason, cuda->reason, sizeof reason);
        cuda_close(&cuda->base);
        return lacks ? status_fail(STATUS_NOMEM, "cannot open GPU %d (%s): %s", (int)gpu.number, gpu.name, reason)
                     : status_fail(STATUS_PEER, "no usable GPU: %s", reason);
    }
    *out = &cuda->base;
    return STATUS_OK;
}

void cuda_close(struct device *device)
{
    struct cuda_device *cuda = cuda_device(device);
    bool had_failed = cuda->failed != STATUS_OK;
    memory_count_device(MEMORY_PLACE_DEVICE, MEMORY_CONTEXT, -cuda->base.capacity.n_context);
    cuda_spmm_close(cuda);
    cuda_blas_close(cuda);
    for (int l = 0; l < DEVICE_LANE_N; l++) {
        for (int e = 0; e < CUDA_N_EVENT; e++) {
            if (cuda->lane[l].event[e] != NULL) {
                cuda_check(device, cudaEventDestroy(cuda->lane[l].event[e]), "closing an event");
            }
        }
        if (cuda->lane[l].stream != NULL) {
            cuda_check(device, cudaStreamDestroy(cuda->lane[l].stream), "closing a stream");
        }
    }
    if (cuda->failed != STATUS_OK && !had_failed) { /* nothing waits for the device any more */
        log_warn("%s", cuda->reason);
    }
    free(cuda);
}

/* --- memory --- */

/* Both figures of the GPU. errors  STATUS_NOMEM */
static enum status lacking(const struct cuda_device *cuda, enum device_place place, enum memory_category category,
                           size_t n_bytes, cudaError_t code)
{
    const struct device_capacity *capacity = &cuda->base.capacity;
    if (place == DEVICE_PLACE_SHARED) {
        return status_fail(STATUS_NOMEM, "cannot reserve %zu bytes of pinned host memory for %s: %s", n_bytes,
                           memory_category_name(category), cudaGetErrorString(code));
    }
    return status_fail(STATUS_NOMEM,
                       "cannot reserve %zu bytes for %s on %s: %zu of its %lld are free, and %u worker%s of this "
                       "job share%s it: use another GPU, or end what else uses it",
                       n_bytes, memory_category_name(category), capacity->name, room_now().n_free,
                       (long long)capacity->n_bytes, capacity->n_sharing, capacity->n_sharing == 1 ? "" : "s",
                       capacity->n_sharing == 1 ? "s" : "");
}

static enum memory_place place_of(enum device_place place)
{
    return place == DEVICE_PLACE_DEVICE ? MEMORY_PLACE_DEVICE : MEMORY_PLACE_PINNED;
}

enum status cuda_acquire(struct device *device, enum device_place place, enum memory_category category,
                         size_t n_bytes, void *out)
{
    void *block = NULL;
    size_t n = n_bytes > 0 ? n_bytes : 1;
    cudaError_t code = place == DEVICE_PLACE_DEVICE ? cudaMalloc(&block, n) : cudaMallocHost(&block, n);
    if (code != cudaSuccess) {
        return lacking(cuda_device(device), place, category, n_bytes, code);
    }
    if (place == DEVICE_PLACE_DEVICE) {
        cuda_fill_zero(device, block, n);
    } else {
        memset(block, 0, n);
    }
    memory_count_device(place_of(place), category, (int64_t)n_bytes);
    *(void **)out = block;
    return STATUS_OK;
}

void cuda_release(struct device *device, enum device_place place, enum memory_category category, void *block,
                  size_t n_bytes)
{
    if (block == NULL) {
        return;
    }
    cuda_check(device, place == DEVICE_PLACE_DEVICE ? cudaFree(block) : cudaFreeHost(block), "giving memory back");
    memory_count_device(place_of(place), category, -(int64_t)n_bytes);
}

enum status cuda_borrow(struct device *device, enum memory_category category, const void *host, size_t n_bytes,
                        void *out)
{
    *(void **)out = NULL;
    if (host == NULL) {
        return STATUS_OK;
    }
    enum status status = cuda_acquire(device, DEVICE_PLACE_DEVICE, category, n_bytes, out);
    if (status == STATUS_OK) {
        cuda_copy(device, *(void **)out, host, n_bytes);
    }
    return status;
}

void cuda_giveback(struct device *device, enum memory_category category, const void *host, size_t n_bytes,
                   void *borrowed)
{
    (void)host;
    cuda_release(device, DEVICE_PLACE_DEVICE, category, borrowed, n_bytes);
}

/* --- copies --- */

void cuda_copy(struct device *device, void *to, const void *from, size_t n_bytes)
{
    cudaStream_t stream = cuda_stream(device);
    cuda_check(device, cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDefault, stream), "a copy");
    cuda_check(device, cudaStreamSynchronize(stream), "what a copy waited for");
    device->n_wait++;
}

void cuda_move(struct device *device, enum device_lane lane, void *to, const void *from, size_t n_bytes)
{
    if (to != from && n_bytes > 0) {
        cuda_check(device,
                   cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDefault, cuda_device(device)->lane[lane].stream),
                   "a copy");
    }
}

void cuda_fill_zero(struct device *device, void *to, size_t n_bytes)
{
    if (n_bytes > 0) {
        cuda_check(device, cudaMemsetAsync(to, 0, n_bytes, cuda_stream(device)), "filling with zeros");
    }
}

/* --- the order of work --- */

static struct cuda_lane *lane_of(struct device *device, device_mark mark)
{
    return &cuda_device(device)->lane[mark & ((1U << CUDA_LANE_BITS) - 1)];
}

static uint64_t number_of(device_mark mark)
{
    return mark >> CUDA_LANE_BITS;
}

/* The event of the mark, or if it was reused, that of the earliest later mark that still exists. */
static cudaEvent_t event_of(const struct cuda_lane *lane, uint64_t number)
{
    uint64_t first_kept = lane->n_marked > CUDA_N_EVENT ? lane->n_marked - CUDA_N_EVENT + 1 : 1;
    return lane->event[(number < first_kept ? first_kept : number) % CUDA_N_EVENT];
}

device_mark cuda_mark(struct device *device, enum device_lane lane)
{
    struct cuda_lane *of = &cuda_device(device)->lane[lane];
    uint64_t number = ++of->n_marked;
    cuda_check(device, cudaEventRecord(of->event[number % CUDA_N_EVENT], of->stream), "a mark");
    return number << CUDA_LANE_BITS | (uint64_t)lane;
}

void cuda_follow(struct device *device, enum device_lane lane, device_mark mark)
{
    const struct cuda_lane *of = lane_of(device, mark);
    if (mark != 0 && number_of(mark) > of->n_passed) {
        cuda_check(device,
                   cudaStreamWaitEvent(cuda_device(device)->lane[lane].stream, event_of(of, number_of(mark)), 0),
                   "following a mark");
    }
}

bool cuda_passed(struct device *device, device_mark mark)
{
    struct cuda_lane *of = lane_of(device, mark);
    if (mark == 0 || number_of(mark) <= of->n_passed) {
        return true;
    }
    cudaError_t code = cudaEventQuery(event_of(of, number_of(mark)));
    if (code == cudaErrorNotReady) {
        return false;
    }
    cuda_check(device, code, "work before a mark");
    of->n_passed = number_of(mark);
    return true;
}

enum status cuda_wait(struct device *device, device_mark mark)
{
    struct cuda_device *cuda = cuda_device(device);
    struct cuda_lane *of = lane_of(device, mark);
    if (mark != 0 && number_of(mark) > of->n_passed) {
        cuda_check(device, cudaEventSynchronize(event_of(of, number_of(mark))), "work before a mark");
        of->n_passed = number_of(mark);
        device->n_wait++;
    }
    cuda_check(device, cudaGetLastError(), "a kernel");
    return cuda->failed == STATUS_OK ? STATUS_OK : status_fail(cuda->failed, "%s", cuda->reason);
}

/* Operations run while the caller goes on. */
void cuda_poll(struct device *device, void (*poll)(void *context), void *context)
{
    (void)device;
    (void)poll;
    (void)context;
}

/* One after another: chunks of a part fill a GPU. */
void cuda_chunks_run(struct device *device, int n_chunk, void (*run)(void *context, int chunk, int slot),
                     void *context)
{
    (void)device;
    for (int i = 0; i < n_chunk; i++) {
        run(context, i, 0);
    }
}
