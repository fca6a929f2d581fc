/* Device memory, out of the host's sight but while something runs on the device; pinned memory, which kernels may use, too; memory of other processes. */
#include "tests/emulator/emulator.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define ALIGN 256 /* of device memory */
#define ARENA_BYTES ((size_t)64 << 30)
#define BLAS_BYTES ((size_t)32 << 20) /* cuBLAS works in so much, which nobody reads: no NaNs there */

/* A name for a block; who has it open holds a lock of its bytes. */
struct block_name {
    pid_t process;
    int file;
    size_t at, n_bytes;
};

static std::map<char *, size_t> blocks, pinned, opened; /* by their first byte; opened: other processes' */
static std::map<char *, int> opened_files;
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
    return is_unified() || (size_t)((const char *)at - found) < n_found || is_in(opened, at);
}

/* Protected blocks lie in one place, so that one call opens and closes all of them: a file, which others open. */
static int arena_file = -1;

static char *arena_map()
{
    arena_file = memfd_create("emulated GPU", MFD_CLOEXEC);
    const bool there = arena_file >= 0 && ftruncate(arena_file, ARENA_BYTES) == 0;
    void *at = mmap(nullptr, ARENA_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE, arena_file, 0);
    if (!there || at == MAP_FAILED) {
        die("no addresses for the memory of a GPU");
    }
    return (char *)at;
}

static char *arena()
{
    static char *const at = arena_map();
    return at;
}

/* Lock a block that is opened; of an own one, is there such a lock? */
static bool lock(int file, int command, short type, size_t at, size_t n_bytes)
{
    struct flock range = {type, SEEK_SET, (off_t)at, (off_t)n_bytes, 0};
    return fcntl(file, command, &range) == 0 && range.l_type != F_UNLCK;
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
    for (auto &block : opened) {
        mprotect(block.first, block.second, how);
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
    } else if (n != BLAS_BYTES) {
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
        if (lock(arena_file, F_OFD_GETLK, F_WRLCK, (size_t)(at->first - arena()), at->second)) {
            die("cudaFree of memory that another process has open");
        }
        madvise(block, at->second, MADV_REMOVE);
    } else {
        free(block);
    }
    blocks.erase(at);
    return code;
}

static bool is_shared()
{
    const char *text = getenv("EMULATOR_IPC");
    return is_protected() && (text == nullptr || strcmp(text, "0") != 0);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *block)
{
    const auto at = blocks.find((char *)block);
    if (!is_shared() || at == blocks.end()) {
        return is_shared() ? cudaErrorInvalidValue : cudaErrorNotSupported;
    }
    static size_t n_named;
    n_named++; /* those of a faulty lender are short, or spoilt */
    const size_t less = n_named == n_byte("EMULATOR_SHORT", 0) ? PAGE : 0;
    const block_name name = {getpid(), arena_file, (size_t)(at->first - arena()), at->second - less};
    *out = {};
    memcpy(out, &name, sizeof name);
    if (n_named == n_byte("EMULATOR_SPOIL", 0)) {
        device_enter();
        memset(block, 0xff, at->second);
        device_leave();
    }
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle, unsigned flags)
{
    block_name name;
    char path[64];
    memcpy(&name, &handle, sizeof name);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)name.process, name.file);
    const bool can = is_shared() && flags == cudaIpcMemLazyEnablePeerAccess && name.process != getpid();
    const int file = can ? open(path, O_RDWR | O_CLOEXEC) : -1,
              rights = depth > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
    void *at = mmap(nullptr, name.n_bytes, rights, MAP_SHARED | MAP_NORESERVE, file, (off_t)name.at);
    if (at == MAP_FAILED || !lock(file, F_OFD_SETLK, F_RDLCK, name.at, name.n_bytes)) {
        return cudaErrorInvalidValue;
    }
    opened[(char *)at] = name.n_bytes;
    opened_files[(char *)at] = file;
    *out = at;
    return cudaSuccess;
}

static int range(unsigned long long *begin, size_t *n_bytes, unsigned long long at)
{
    const auto block = opened.find((char *)at);
    *begin = at;
    *n_bytes = block == opened.end() ? 0 : block->second;
    return block == opened.end();
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *)
{
    *out = strcmp(name, "cuMemGetAddressRange") == 0 ? (void *)range : nullptr;
    return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *block)
{
    const auto at = opened.find((char *)block);
    if (at == opened.end()) {
        return cudaErrorInvalidValue;
    }
    munmap(block, at->second);
    close(opened_files[at->first]);
    opened.erase(at);
    return cudaSuccess;
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
