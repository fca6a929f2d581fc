#include "tests/support/device/strict_state.h"

#include "protocol/base/log.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define REGION_BYTES ((size_t)1 << 34)
#define OPEN_MOST 32 /* devices at once */

static struct strict *opened[OPEN_MOST];

/* --- a forbidden touch --- */

static bool is_device(const struct strict *s, const void *at)
{
    return (const char *)at >= s->memory && (const char *)at < s->memory + REGION_BYTES;
}

static void say(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    for (int i = 0; i < OPEN_MOST; i++) {
        const struct strict *s = opened[i];
        if (s != NULL && is_device(s, info->si_addr)) {
            say(s->n_open == 0 ? "strict: the host touched device memory\n" : "strict: work beyond device memory\n");
            _exit(STRICT_EXIT);
        }
    }
    signal(number, SIG_DFL);
}

/* --- memory --- */

static size_t pages(size_t n_bytes)
{
    return (n_bytes + PAGE - 1) / PAGE * PAGE;
}

static void protect(const struct strict *s, int rights)
{
    ASSERT(s->n_used == 0 || mprotect(s->memory, s->n_used, rights) == 0);
}

void strict_enter(struct strict *s)
{
    if (s->n_open++ == 0) {
        protect(s, PROT_READ | PROT_WRITE);
    }
}

void strict_leave(struct strict *s)
{
    if (--s->n_open == 0) {
        protect(s, PROT_NONE);
    }
}

static void *take(struct strict *s, size_t n_bytes)
{
    char *at = s->memory + s->n_used;
    ASSERT(s->n_open == 0 && s->n_used + pages(n_bytes) + PAGE <= REGION_BYTES);
    s->n_used += pages(n_bytes) + PAGE; /* a page apart, so that arrays never share one */
    return at;
}

enum status strict_acquire(struct device *device, enum device_place place, enum memory_category category,
                           size_t n_bytes, void *out)
{
    if (place == DEVICE_PLACE_SHARED) {
        struct strict *s = strict_of(device);
        char *block = aligned_alloc(64, (n_bytes + 64) / 64 * 64);
        ASSERT(block != NULL && s->n_shared < STRICT_N_SHARED);
        *(void **)out = memset(block, 0, n_bytes);
        s->shared[s->n_shared++] = (struct strict_shared){block, n_bytes};
        memory_count_device(MEMORY_PLACE_PINNED, category, (int64_t)n_bytes);
        return STATUS_OK;
    }
    *(void **)out = take(strict_of(device), n_bytes);
    memory_count_device(MEMORY_PLACE_DEVICE, category, (int64_t)n_bytes);
    return STATUS_OK;
}

void strict_release(struct device *device, enum device_place place, enum memory_category category, void *block,
                    size_t n_bytes)
{
    struct strict *s = strict_of(device);
    strict_run_all(s);
    if (block != NULL) {
        memory_count_device(place == DEVICE_PLACE_SHARED ? MEMORY_PLACE_PINNED : MEMORY_PLACE_DEVICE, category,
                            -(int64_t)n_bytes);
    }
    if (place == DEVICE_PLACE_SHARED) {
        int i = 0;
        while (i < s->n_shared && s->shared[i].at != block) {
            i++;
        }
        if (i < s->n_shared) {
            s->shared[i] = s->shared[--s->n_shared];
        }
        free(block);
    } else if (block != NULL) {
        madvise(block, pages(n_bytes), MADV_DONTNEED);
    }
}

enum status strict_borrow(struct device *device, enum memory_category category, const void *host, size_t n_bytes,
                          void *out)
{
    struct strict *s = strict_of(device);
    void *copy = take(s, n_bytes);
    memory_count_device(MEMORY_PLACE_DEVICE, category, (int64_t)n_bytes);
    strict_enter(s);
    memcpy(copy, host, n_bytes);
    strict_leave(s);
    *(void **)out = copy;
    return STATUS_OK;
}

void strict_giveback(struct device *device, enum memory_category category, const void *host, size_t n_bytes,
                     void *borrowed)
{
    (void)host;
    strict_run_all(strict_of(device));
    memory_count_device(MEMORY_PLACE_DEVICE, category, -(int64_t)n_bytes);
    madvise(borrowed, pages(n_bytes), MADV_DONTNEED);
}

/* --- life --- */

enum status strict_open(int n_thread, struct device **out)
{
    struct strict *s = memory_alloc(1, sizeof *s);
    s->base.ops = &device_strict;
    enum status status = cpu_open(n_thread, &s->cpu);
    s->memory = mmap(NULL, REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT(s->memory != MAP_FAILED);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    ASSERT(sigaction(SIGSEGV, &action, NULL) == 0);
    int i = 0;
    while (i < OPEN_MOST && opened[i] != NULL) {
        i++;
    }
    ASSERT(i < OPEN_MOST);
    opened[i] = s;
    *out = &s->base;
    return status;
}

static void lane_drop(struct strict_lane *l)
{
    for (uint64_t i = l->n_done; i < l->n_given; i++) {
        free(l->call[i - l->n_given + l->n_call].args);
    }
    free(l->call);
}

void strict_close(struct device *device)
{
    struct strict *s = strict_of(device);
    for (int i = 0; i < OPEN_MOST; i++) {
        opened[i] = opened[i] == s ? NULL : opened[i];
    }
    munmap(s->memory, REGION_BYTES);
    for (int l = 0; l < DEVICE_LANE_N; l++) {
        lane_drop(&s->lane[l]);
    }
    cpu_close(s->cpu);
    free(s);
}

/* --- lanes: what is not memory_alloc'ed is not counted as an epoch's --- */

void strict_defer(struct strict *s, enum device_lane lane, void (*run)(struct strict *, void *), const void *args,
                  size_t n_bytes)
{
    struct strict_lane *l = &s->lane[lane];
    if (l->n_call == l->capacity) {
        l->capacity = l->capacity > 0 ? 2 * l->capacity : 64;
        l->call = realloc(l->call, l->capacity * sizeof *l->call);
        ASSERT(l->call != NULL);
    }
    void *copy = malloc(n_bytes);
    ASSERT(copy != NULL);
    memcpy(copy, args, n_bytes);
    l->call[l->n_call++] = (struct strict_call){run, copy};
    l->n_given++;
}

void strict_run(struct strict *s, enum device_lane lane, uint64_t n_call)
{
    struct strict_lane *l = &s->lane[lane];
    if (l->n_done >= n_call) { /* to open all memory and to close it again takes longer than most calls */
        return;
    }
    strict_enter(s);
    while (l->n_done < n_call) {
        struct strict_call call = l->call[l->n_call - (l->n_given - l->n_done)];
        l->n_done++;
        call.run(s, call.args);
        free(call.args);
    }
    l->n_call = l->n_done == l->n_given ? 0 : l->n_call;
    strict_leave(s);
}

void strict_run_all(struct strict *s)
{
    for (int lane = 0; lane < DEVICE_LANE_N; lane++) {
        strict_run(s, (enum device_lane)lane, s->lane[lane].n_given);
    }
}

/* The number of calls given to the lane, and the lane. */
device_mark strict_mark(struct device *device, enum device_lane lane)
{
    uint64_t n = strict_of(device)->lane[lane].n_given;
    return n > 0 ? n * DEVICE_LANE_N + (uint64_t)lane : 0;
}

static void mark_run(struct strict *s, device_mark mark)
{
    strict_run(s, (enum device_lane)(mark % DEVICE_LANE_N), mark / DEVICE_LANE_N);
}

static void follow_run(struct strict *s, void *args)
{
    mark_run(s, *(device_mark *)args);
}

void strict_follow(struct device *device, enum device_lane lane, device_mark mark)
{
    strict_defer(strict_of(device), lane, follow_run, &mark, sizeof mark);
}

/* A caller that only polls sees one more call done each time. */
bool strict_passed(struct device *device, device_mark mark)
{
    struct strict_lane *l = &strict_of(device)->lane[mark % DEVICE_LANE_N];
    if (l->n_done < mark / DEVICE_LANE_N) {
        strict_run(strict_of(device), (enum device_lane)(mark % DEVICE_LANE_N), l->n_done + 1);
    }
    return l->n_done >= mark / DEVICE_LANE_N;
}

enum status strict_wait(struct device *device, device_mark mark)
{
    struct strict *s = strict_of(device);
    mark_run(s, mark);
    return cpu_wait(s->cpu, 0);
}

/* --- copies --- */

struct move {
    void *to;
    const void *from;
    size_t n_bytes;
};

static void move_run(struct strict *s, void *args)
{
    const struct move *m = args;
    cpu_move(s->cpu, DEVICE_LANE_COMPUTE, m->to, m->from, m->n_bytes);
}

static bool is_shared(const struct strict *s, const char *at)
{
    for (int i = 0; i < s->n_shared; i++) {
        if (at >= s->shared[i].at && at < s->shared[i].at + s->shared[i].n_bytes) {
            return true;
        }
    }
    return false;
}

/* Does a move that is put off still read some of these bytes? */
static bool is_awaited(const struct strict *s, const char *at, size_t n_bytes)
{
    for (int lane = 0; lane < DEVICE_LANE_N; lane++) {
        const struct strict_lane *l = &s->lane[lane];
        for (uint64_t i = l->n_done; i < l->n_given; i++) {
            const struct strict_call *call = &l->call[l->n_call - (l->n_given - i)];
            const struct move *m = call->args;
            if (call->run == move_run && (const char *)m->from < at + n_bytes &&
                at < (const char *)m->from + m->n_bytes) {
                return true;
            }
        }
    }
    return false;
}

void strict_move(struct device *device, enum device_lane lane, void *to, const void *from, size_t n_bytes)
{
    struct strict *s = strict_of(device);
    struct move move = {to, from, n_bytes};
    if (to == from || n_bytes == 0) {
        return;
    }
    if (is_shared(s, to)) { /* any operation before this move may read what lies there */
        strict_run(s, lane, s->lane[lane].n_given);
    }
    if (!is_device(s, to) && !is_awaited(s, to, n_bytes)) {
        memset(to, 0xff, n_bytes);
    }
    strict_defer(s, lane, move_run, &move, sizeof move);
}

void strict_copy(struct device *device, void *to, const void *from, size_t n_bytes)
{
    struct strict *s = strict_of(device);
    struct move move = {to, from, n_bytes};
    strict_defer(s, DEVICE_LANE_COMPUTE, move_run, &move, sizeof move);
    strict_run(s, DEVICE_LANE_COMPUTE, s->lane[DEVICE_LANE_COMPUTE].n_given);
}
