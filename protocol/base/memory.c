#include "protocol/base/memory.h"

#include "protocol/base/cgroup.h"
#include "protocol/base/log.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

static _Atomic int64_t bytes_now[MEMORY_PLACE_N][MEMORY_N + 1];
static _Atomic int64_t bytes_peak[MEMORY_PLACE_N][MEMORY_N + 1];
static _Atomic int64_t n_call;

const char *memory_category_name(enum memory_category category)
{
    static const char *const names[] = {
#define X(name, text) text,
        MEMORY_LIST(X)
#undef X
    };
    return category < MEMORY_N ? names[category] : "all";
}

int64_t memory_sum(const int64_t bytes[MEMORY_N])
{
    int64_t sum = 0;
    for (int c = 0; c < MEMORY_N; c++) {
        sum += bytes[c];
    }
    return sum;
}

static void count(enum memory_place place, enum memory_category category, int64_t change)
{
    enum memory_category rows[] = {category, MEMORY_N};
    for (int i = 0; i < 2; i++) {
        _Atomic int64_t *most = &bytes_peak[place][rows[i]];
        int64_t now = atomic_fetch_add(&bytes_now[place][rows[i]], change) + change;
        int64_t peak = atomic_load(most);
        while (now > peak && !atomic_compare_exchange_weak(most, &peak, now)) {
        }
    }
}

void memory_count(enum memory_category category, int64_t change)
{
    count(MEMORY_PLACE_HOST, category, change);
}

void memory_count_device(enum memory_place place, enum memory_category category, int64_t change)
{
    atomic_fetch_add(&n_call, change > 0);
    count(place, category, change);
}

static size_t mapped_size(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* A block whose start is on a huge-page border: map one page more, give the ends back. */
static void *map_aligned(size_t bytes)
{
    size_t size = mapped_size(bytes);
    char *raw = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) {
        return NULL;
    }
    char *start = (char *)(((uintptr_t)raw + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    if (start > raw) {
        munmap(raw, (size_t)(start - raw));
    }
    size_t tail = HUGE_PAGE - (size_t)(start - raw);
    if (tail > 0) {
        munmap(start + size, tail);
    }
    madvise(start, size, MADV_HUGEPAGE);
    return start;
}

enum status memory_acquire(enum memory_category category, size_t n, size_t size, void *out)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > (size_t)1 << 46) {
        return status_fail(STATUS_NOMEM, "cannot reserve %zu x %zu bytes for %s", n, size,
                           memory_category_name(category));
    }
    atomic_fetch_add(&n_call, 1);
    void *block = bytes >= HUGE_PAGE ? map_aligned(bytes)
                                     : aligned_alloc(64, (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0));
    if (block == NULL) {
        return status_fail(STATUS_NOMEM, "cannot reserve %zu bytes for %s", bytes, memory_category_name(category));
    }
    if (bytes < HUGE_PAGE) {
        memset(block, 0, bytes);
    }
    memory_count(category, (int64_t)bytes);
    *(void **)out = block;
    return STATUS_OK;
}

enum status memory_copy(enum memory_category category, const void *from, size_t n, size_t size, void *out)
{
    void *block = NULL;
    enum status status = memory_acquire(category, n, size, &block);
    if (status == STATUS_OK) {
        memcpy(block, from, n * size);
        *(void **)out = block;
    }
    return status;
}

void memory_release(enum memory_category category, void *block, size_t n, size_t size)
{
    if (block == NULL) {
        return;
    }
    size_t bytes = n * size;
    memory_count(category, -(int64_t)bytes);
    if (bytes >= HUGE_PAGE) {
        munmap(block, mapped_size(bytes));
    } else {
        free(block);
    }
}

enum status memory_shrink(enum memory_category category, void *block_io, size_t n, size_t n_new, size_t size)
{
    size_t bytes = n * size, bytes_new = n_new * size;
    void *block = *(void **)block_io;
    if (bytes >= HUGE_PAGE && bytes_new < HUGE_PAGE) {
        void *small;
        enum status status = memory_copy(category, block, n_new, size, &small);
        if (status != STATUS_OK) {
            return status;
        }
        memory_release(category, block, n, size);
        *(void **)block_io = small;
        return STATUS_OK;
    }
    if (mapped_size(bytes) > mapped_size(bytes_new) && bytes_new >= HUGE_PAGE) {
        munmap((char *)block + mapped_size(bytes_new), mapped_size(bytes) - mapped_size(bytes_new));
    }
    memory_count(category, (int64_t)bytes_new - (int64_t)bytes);
    return STATUS_OK;
}

void *memory_alloc(size_t n, size_t size)
{
    atomic_fetch_add(&n_call, 1);
    void *block = calloc(n > 0 ? n : 1, size > 0 ? size : 1);
    if (block == NULL) {
        log_error("out of memory: cannot reserve %zu x %zu bytes", n, size);
        _exit(71);
    }
    return block;
}

void *memory_list_grow(void *list, int32_t n, size_t size)
{
    if ((n & (n - 1)) != 0) {
        return list;
    }
    void *grown = memory_alloc(n > 0 ? 2 * (size_t)n : 1, size);
    if (n > 0) {
        memcpy(grown, list, (size_t)n * size);
    }
    free(list);
    return grown;
}

void *memory_grow(void *block, size_t n)
{
    atomic_fetch_add(&n_call, 1);
    void *grown = realloc(block, n > 0 ? n : 1);
    if (grown == NULL) {
        log_error("out of memory: cannot reserve %zu bytes", n);
        _exit(71);
    }
    return grown;
}

int64_t memory_now(enum memory_category category)
{
    return atomic_load(&bytes_now[MEMORY_PLACE_HOST][category]);
}

int64_t memory_peak(enum memory_place place, enum memory_category category)
{
    return atomic_load(&bytes_peak[place][category]);
}

int64_t memory_n_call(void)
{
    return atomic_load(&n_call);
}

int64_t memory_physical(void)
{
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

int64_t memory_machine(void)
{
    int64_t physical = memory_physical(), limit = cgroup_memory_limit("");
    return limit < physical ? limit : physical;
}

const char *memory_machine_name(void)
{
    return memory_machine() < memory_physical() ? "the control group's memory limit" : "this machine's memory";
}

/* A "Name:   123 kB" line of /proc/self/status, in bytes. */
static int64_t status_line(const char *name)
{
    int64_t n_kb = cgroup_number_read("/proc/self/status", name);
    return n_kb > 0 ? 1024 * n_kb : 0;
}

int64_t memory_resident(void)
{
    return status_line("VmRSS:");
}

int64_t memory_resident_own(void)
{
    return status_line("RssAnon:") + status_line("RssShmem:");
}

int64_t memory_resident_peak(void)
{
    return status_line("VmHWM:");
}
