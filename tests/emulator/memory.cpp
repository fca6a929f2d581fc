/* Device memory, out of the host's sight but while something runs on the device; pinned memory, which kernels may use, too. */
#include "tests/emulator/emulator.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sys/mman.h>

#define PAGE 4096
#define ALIGN 256 /* of device memory */
#define ARENA_BYTES ((size_t)64 << 30)

static std::map<char *, size_t> blocks, pinned; /* by their first byte */
static size_t n_taken, n_context;
static int depth;
static const char *found; /* the block that was looked for last */
static size_t n_found;

namespace emulator
{

static bool is_in(const std::map<char *, size_t> &all, const void *at)
{
    auto next = all.upper_bound((char *)at);
    return next != all.begin() && (--next, (const char *)at < next->first + next->second);
}

size_t device_bytes()
{
    static const size_t n = n_byte("EMULATOR_MEMORY", (size_t)16 << 30);
    return n;
}

static size_t used_bytes()
{
    static const size_t n_others = n_byte("EMULATOR_OTHERS", 0);
    return n_taken + n_context + n_others;
}

static size_t free_bytes()
{
    return used_bytes() < device_bytes() ? device_bytes() - used_bytes() : 0;
}

bool context_take()
{
    const size_t n = n_byte("EMULATOR_CONTEXT", (size_t)256 << 20);
    const bool fits = n_context > 0 || n <= free_bytes();
    n_context = fits ? n : 0;
    return fits;
}

bool on_device(const void *at)
{
    if ((size_t)((const char *)at - found) >= n_found && is_in(blocks, at)) {
        const auto block = --blocks.upper_bound((char *)at);
        found = block->first;
        n_found = block->second;
    }
    return is_unified() || (size_t)((const char *)at - found) < n_found;
}

/* Protected blocks lie in one place, so that one call opens and closes all of them. */
static char *arena()
{
    static char *const at = (char *)mmap(nullptr, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                         -1, 0);
    if (at == MAP_FAILED) {
        die("no addresses for the memory of a GPU");
    }
    return at;
}

/* The first room between blocks. */
static char *arena_take(size_t n_bytes)
{
    char *at = arena();
    for (auto &block : blocks) {
        if ((size_t)(block.first - at) >= n_bytes) {
            break;
        }
        at = block.first + block.second;
    }
    if ((size_t)(at - arena()) + n_bytes > ARENA_BYTES) {
        die("protected memory has %zu bytes at most", ARENA_BYTES);
    }
    return at;
}

static void protect(int how)
{
    if (!blocks.empty()) {
        mprotect(arena(), (size_t)(blocks.rbegin()->first + blocks.rbegin()->second - arena()), how);
    }
}

void device_enter()
{
    if (is_protected() && depth++ == 0) {
        protect(PROT_READ | PROT_WRITE);
    }
}

void device_leave()
{
    if (is_protected() && --depth == 0) {
        protect(PROT_NONE);
    }
}

/* Numbers below are no addresses of this process: under AddressSanitizer its shadow alone lies there, in which numbers may seem to point. */
#ifdef EMULATOR_ASAN
static const uintptr_t first_address = 0x10007fff8000;
#else
static const uintptr_t first_address = 0x10000;
#endif

/* An array of no elements may lie where its memory ends. */
static bool is_reached(uintptr_t word)
{
    void *at = (void *)word, *before = (void *)(word - 1);
    return on_device(at) || on_device(before) || is_in(pinned, at) || is_in(pinned, before);
}

/* Any word that could be an address of this process, and neither of device nor of pinned memory. */
void argument_check(const char *kernel, int index, const void *bytes, size_t n_bytes)
{
    for (size_t at = 0; at + sizeof(uintptr_t) <= n_bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (const char *)bytes + at, sizeof word);
        if (word < first_address || word >> 47 != 0 || is_reached(word)) {
            continue;
        }
        if (msync((void *)(word & ~(uintptr_t)(PAGE - 1)), 1, MS_ASYNC) == 0) {
            die("%s: argument %d, byte %zu: %p is host memory", kernel, index, at, (void *)word);
        }
    }
}

} // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaMalloc(void **out, size_t n_bytes)
{
    size_t n = is_protected() ? (n_bytes + PAGE - (n_bytes > 0)) / PAGE * PAGE : n_bytes;
    if (n > free_bytes()) {
        return cudaErrorMemoryAllocation;
    }
    if (is_protected()) {
        *out = arena_take(n);
    } else if (posix_memalign(out, ALIGN, n) != 0) {
        return cudaErrorMemoryAllocation;
    } else {
        memset(*out, 0xff, n); /* NaNs */
    }
    blocks[(char *)*out] = n;
    n_taken += n;
    return cudaSuccess;
}

cudaError_t cudaFree(void *block)
{
    if (block == nullptr) {
        return cudaSuccess;
    }
    cudaError_t code = cudaDeviceSynchronize();
    auto at = blocks.find((char *)block);
    if (at == blocks.end()) {
        die("cudaFree of %p, which is no device memory", block);
    }
    n_taken -= at->second;
    n_found = 0;
    if (is_protected()) {
        madvise(block, at->second, MADV_DONTNEED);
    } else {
        free(block);
    }
    blocks.erase(at);
    return code;
}

cudaError_t cudaMemGetInfo(size_t *free_out, size_t *all_out)
{
    *free_out = free_bytes();
    *all_out = device_bytes();
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t n_bytes)
{
    size_t n = (n_bytes + 63) / 64 * 64;
    *out = aligned_alloc(64, n);
    if (*out == nullptr) {
        return cudaErrorMemoryAllocation;
    }
    pinned[(char *)*out] = n;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *block)
{
    cudaError_t code = cudaDeviceSynchronize();
    pinned.erase((char *)block);
    free(block);
    return code;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (n_bytes > 0 && kind != cudaMemcpyDefault && !is_unified() &&
        (on_device(to) != to_device || on_device(from) != from_device)) {
        die("cudaMemcpyAsync to %p from %p: not of kind %d", to, from, (int)kind);
    }
    enqueue(stream, [=] {
        if (n_bytes > 0) {
            emulator_copy(to, from, n_bytes);
        }
    });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t n_bytes, cudaStream_t stream)
{
    enqueue(stream, [=] { emulator_set(to, byte, n_bytes); });
    return cudaSuccess;
}

/* --- the driver's management library --- */

struct nvml_memory {
    unsigned long long total, free, used;
};

static int nvml_begin_or_end()
{
    return 0;
}

/* A GPU is its number. */
static int nvml_find(const char *bus_id, void **out)
{
    unsigned number = 0;
    const bool is_known = sscanf(bus_id, "0000:%x:00.0", &number) == 1;
    *out = (void *)(uintptr_t)number;
    return is_known ? 0 : 1;
}

static int nvml_index(void *gpu, unsigned *out)
{
    *out = (unsigned)(uintptr_t)gpu;
    return 0;
}

static int nvml_memory_info(void *, struct nvml_memory *out)
{
    *out = {device_bytes(), free_bytes(), used_bytes()};
    return 0;
}

void *emulator_nvml(const char *name)
{
    static const std::vector<named> all = {{"nvmlInit_v2", (void *)nvml_begin_or_end},
                                           {"nvmlShutdown", (void *)nvml_begin_or_end},
                                           {"nvmlDeviceGetHandleByPciBusId_v2", (void *)nvml_find},
                                           {"nvmlDeviceGetIndex", (void *)nvml_index},
                                           {"nvmlDeviceGetMemoryInfo", (void *)nvml_memory_info}};
    return function_find(all, name, "EMULATOR_NVML");
}

} /* extern "C" */
