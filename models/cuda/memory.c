/* Life of the device, memory, copies, and the order of work. */
#include "models/cuda/cuda.h"

#include "protocol/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cuda_check(struct device *device, cudaError_t code, const char *what)
{
    struct cuda_device *cuda = cuda_device(device);
    if (code == cudaSuccess || cuda->failed != STATUS_OK) {
        return;
    }
    cuda->failed = code == cudaErrorMemoryAllocation ? STATUS_NOMEM : STATUS_BUG;
    snprintf(cuda->reason, sizeof cuda->reason, "%s on the GPU: %s", what, cudaGetErrorString(code));
}

/* --- life --- */

static void lanes_open(struct cuda_device *cuda)
{
    for (int l = 0; l < DEVICE_LANE_N; l++) {
        cuda_check(&cuda->base, cudaStreamCreateWithFlags(&cuda->lane[l].stream, cudaStreamNonBlocking), "a stream");
        for (int e = 0; e < CUDA_N_EVENT; e++) {
            cuda_check(&cuda->base, cudaEventCreateWithFlags(&cuda->lane[l].event[e], cudaEventDisableTiming), "an event");
        }
    }
}

enum status cuda_open(int n_thread, struct device **out)
{
    (void)n_thread;
    return cuda_open_turn(0, out);
}

enum status cuda_open_turn(uint32_t turn, struct device **out)
{
    enum status status = cuda_gpu_take(turn);
    if (status != STATUS_OK) {
        return status;
    }
    struct cuda_device *cuda = memory_alloc(1, sizeof *cuda);
    cuda->base.ops = &device_cuda;
    lanes_open(cuda);
    cuda_blas_open(cuda);
    if (cuda->failed != STATUS_OK) {
        char reason[sizeof cuda->reason];
        memcpy(reason, cuda->reason, sizeof reason);
        cuda_close(&cuda->base);
        return status_fail(STATUS_PEER, "no usable GPU: %s", reason);
    }
    *out = &cuda->base;
    return STATUS_OK;
}

void cuda_close(struct device *device)
{
    struct cuda_device *cuda = cuda_device(device);
    bool had_failed = cuda->failed != STATUS_OK;
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

enum status cuda_acquire(struct device *device, enum device_place place, enum memory_category category, size_t n_bytes,
                         void *out)
{
    void *block = NULL;
    size_t n = n_bytes > 0 ? n_bytes : 1;
    cudaError_t code = place == DEVICE_PLACE_DEVICE ? cudaMalloc(&block, n) : cudaMallocHost(&block, n);
    if (code != cudaSuccess) {
        return status_fail(STATUS_NOMEM, "no %zu bytes of %s: %s", n_bytes,
                           place == DEVICE_PLACE_DEVICE ? "GPU memory" : "pinned host memory", cudaGetErrorString(code));
    }
    if (place == DEVICE_PLACE_DEVICE) {
        cuda_fill_zero(device, block, n);
    } else {
        memset(block, 0, n);
    }
    memory_count(category, (int64_t)n_bytes);
    *(void **)out = block;
    return STATUS_OK;
}

void cuda_release(struct device *device, enum device_place place, enum memory_category category, void *block, size_t n_bytes)
{
    if (block == NULL) {
        return;
    }
    cuda_check(device, place == DEVICE_PLACE_DEVICE ? cudaFree(block) : cudaFreeHost(block), "giving memory back");
    memory_count(category, -(int64_t)n_bytes);
}

enum status cuda_borrow(struct device *device, enum memory_category category, const void *host, size_t n_bytes, void *out)
{
    *(void **)out = NULL;
    if (host == NULL) {
        return STATUS_OK;
    }
    enum status status = cuda_acquire(device, DEVICE_PLACE_DEVICE, category, n_bytes, out);
    if (status == STATUS_OK) {
        cuda_upload(device, *(void **)out, host, n_bytes);
    }
    return status;
}

void cuda_giveback(struct device *device, enum memory_category category, const void *host, size_t n_bytes, void *borrowed)
{
    (void)host;
    cuda_release(device, DEVICE_PLACE_DEVICE, category, borrowed, n_bytes);
}

/* --- copies --- */

static void copy_now(struct device *device, void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind)
{
    cudaStream_t stream = cuda_stream(device);
    cuda_check(device, cudaMemcpyAsync(to, from, n_bytes, kind, stream), "a copy");
    cuda_check(device, cudaStreamSynchronize(stream), "what a copy waited for");
}

void cuda_upload(struct device *device, void *to, const void *from_host, size_t n_bytes)
{
    copy_now(device, to, from_host, n_bytes, cudaMemcpyDefault);
}

void cuda_download(struct device *device, void *to_host, const void *from, size_t n_bytes)
{
    copy_now(device, to_host, from, n_bytes, cudaMemcpyDefault);
}

void cuda_move(struct device *device, enum device_lane lane, void *to, const void *from, size_t n_bytes)
{
    if (to != from && n_bytes > 0) {
        cuda_check(device, cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDefault, cuda_device(device)->lane[lane].stream),
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

/* The event of the mark, or where that was used again of the earliest later one that is kept. */
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
        cuda_check(device, cudaStreamWaitEvent(cuda_device(device)->lane[lane].stream, event_of(of, number_of(mark)), 0),
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
void cuda_chunks_run(struct device *device, int n_chunk, void (*run)(void *context, int chunk, int slot), void *context)
{
    (void)device;
    for (int i = 0; i < n_chunk; i++) {
        run(context, i, 0);
    }
}
