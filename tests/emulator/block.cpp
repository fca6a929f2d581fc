/* A grid, block after block: barriers, collectives of a warp, shared memory. */
#include "tests/emulator/fiber.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#define WARP 32
#define SHARED_BYTES_MOST (48 * 1024)

namespace emulator
{

dim3 block_index, block_dim, grid_dim;
void (*block_watch)(const void *code, bool is_last);

/* Places that ThreadSanitizer orders fibers by: of each grid, each block's barriers, and each group of lanes of a warp. */
#define N_SYNC (1 << 14)
static uint64_t sync_block[N_SYNC], sync_begun[N_SYNC], sync_ended[N_SYNC], sync_lanes[FIBER_N_MOST];
static unsigned n_block_run, n_grid_run;

static fiber fibers[FIBER_N_MOST];
static enum fiber_state states[FIBER_N_MOST]; /* of each thread of the block */
static late_copies late_copies_of[FIBER_N_MOST];
static fiber *of_thread[FIBER_N_MOST];
static int n_thread, n_live, n_at_barrier;
static int order_run[FIBER_N_MOST]; /* threads of this block in the order in which they run, each warp's together */
static int run_begin, run_end; /* of the warp that runs until none of its lanes can: its stacks are in the cache */
static int run_at, n_idle;     /* the lane whose turn it is; so many before it could not go on */
static unsigned live[FIBER_N_MOST / WARP]; /* lanes of each warp */

/* What each lane of a warp that is at a collective brings. */
static struct meeting {
    unsigned lanes, mask[WARP], line[WARP], what[WARP]; /* lanes: that are at one */
    int from[WARP];
    uint64_t value[WARP], result[WARP];
} meeting_of[FIBER_N_MOST / WARP];

/* Fibers that meet; no vector, whose memory ThreadSanitizer would watch. */
static struct group {
    int n;
    fiber *of[FIBER_N_MOST];
} who;

const dim3 &thread_index()
{
    return fiber_current->index;
}

int lane()
{
    return fiber_current->lane;
}

/* All of them know what any of them did before. */
static void group_join(const group *all, void *at)
{
    void *self = tsan_self();
    if (self == nullptr) {
        return;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < all->n; i++) {
            tsan_become(all->of[i]->tsan);
            (pass == 0 ? tsan_release : tsan_acquire)(at);
        }
    }
    tsan_become(self);
}

void barrier(place where)
{
    fiber_current->where = where;
    fiber_current->n_met++;
    *fiber_current->state = FIBER_AT_BARRIER;
    n_at_barrier++;
    fiber_wait();
}

/* --- collectives --- */

/* Do these lanes wait at the collective of lane l? */
static bool lanes_agree(const meeting &m, unsigned lanes, int l)
{
    const unsigned mask = m.mask[l], line = m.line[l], what = m.what[l];
    unsigned differ[WARP], any = 0;
    for (int k = 0; k < WARP; k++) { /* vectors */
        differ[k] = (m.mask[k] ^ mask) | (m.line[k] ^ line) | (m.what[k] ^ what);
        any |= differ[k];
    }
    for (unsigned left = any != 0 ? lanes : 0; left != 0; left &= left - 1) {
        if (differ[__builtin_ctz(left)] != 0) {
            return false;
        }
    }
    return true;
}

/* Operand i of a lane: in TF32 of word i, of which what it does not hold is ignored, in BF16 of a word's half. */
static double operand(const uint32_t *word, int i, bool is_bf16)
{
    return (double)__uint_as_float(is_bf16 ? word[i / 2] >> (i % 2 * 16) << 16 : word[i] & ~0x1fffU);
}

static double power_of_two(int n)
{
    const uint64_t bits = (uint64_t)(1023 + n) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* The sum of n products, four in TF32 and eight in BF16, and what was there before, as an A100's tensor cores were found
 * to add (Fasi et al., PeerJ Computer Science, 2021): beside the largest number all are cut off after its 25th bit, and
 * the sum after its 24th. */
static float products_add(float before, const double *product, int n)
{
    double all = (double)before, largest = std::fabs((double)before), sum = 0.0;
    uint64_t bits;
    for (int i = 0; i < n; i++) {
        all += product[i];
        largest = std::fabs(product[i]) > largest ? std::fabs(product[i]) : largest;
    }
    if (!std::isfinite(all) || largest == 0.0) {
        return (float)all;
    }
    memcpy(&bits, &largest, sizeof bits); /* which is not subnormal */
    const double scale = power_of_two(1047 - (int)(bits >> 52)), unit = power_of_two((int)(bits >> 52) - 1047);
    for (int i = 0; i <= n; i++) {
        sum += (double)(int64_t)((i < n ? product[i] : (double)before) * scale);
    }
    const float near = (float)(sum * unit);
    return std::fabs((double)near) > std::fabs(sum * unit) ? std::nextafterf(near, 0.0F) : near;
}

/* What all lanes of a warp multiply: 16 × 8 and 8 × 8 numbers, or 16 × 16 and 16 × 8. */
static void group_multiply(const meeting &m, unsigned lanes)
{
    const int n_k = ((const fragments *)m.value[__builtin_ctz(lanes)])->n_k, each = n_k / 8; /* of a word */
    double a[16][16], b[16][8];
    if (lanes != ~0U) {
        die("%s:%d: lanes %08x multiply, not all", fiber_current->where.file, fiber_current->where.line, lanes);
    }
    for (int l = 0; l < WARP; l++) {
        const fragments *of = (const fragments *)m.value[l];
        for (int i = 0; i < 4 * each; i++) {
            const int word = i / each, k = (l % 4 + word / 2 * 4) * each + i % each;
            a[l / 4 + word % 2 * 8][k] = operand(of->a, i, each == 2);
        }
        for (int i = 0; i < 2 * each; i++) {
            b[(l % 4 + i / each * 4) * each + i % each][l / 4] = operand(of->b, i, each == 2);
        }
    }
    for (int l = 0; l < WARP; l++) {
        float *sum = ((const fragments *)m.value[l])->sum;
        for (int i = 0; i < 4; i++) {
            double product[16];
            for (int k = 0; k < n_k; k++) {
                product[k] = a[l / 4 + i / 2 * 8][k] * b[k][l % 4 * 2 + i % 2];
            }
            sum[i] = products_add(products_add(sum[i], product, n_k / 2), product + n_k / 2, n_k / 2);
        }
    }
}

static uint64_t shuffled(const meeting &m, int warp, unsigned lanes, int l)
{
    const int from = m.from[l];
    if (from < 0 || from >= WARP || (lanes >> from & 1) == 0) {
        const place where = of_thread[warp * WARP + l]->where;
        die("%s:%d: lane %d reads lane %d, which takes no part", where.file, where.line, l, from);
    }
    return m.value[from];
}

/* If the lanes of lane l's mask that have not ended all wait at its collective, they do it, and go on. */
static bool meet_complete(int warp, int l)
{
    meeting &m = meeting_of[warp];
    const collective what = (collective)m.what[l];
    const unsigned lanes = m.mask[l] & live[warp];
    unsigned bits = 0;
    if ((lanes & ~m.lanes) != 0 || !lanes_agree(m, lanes, l)) {
        return false;
    }
    if ((lanes >> l & 1) == 0) {
        const place where = of_thread[warp * WARP + l]->where;
        die("%s:%d: lane %d is not in its own mask %08x", where.file, where.line, l, m.mask[l]);
    }
    for (unsigned left = what == collective::BALLOT ? lanes : 0; left != 0; left &= left - 1) {
        bits |= m.value[__builtin_ctz(left)] != 0 ? left & -left : 0;
    }
    for (unsigned left = lanes; left != 0; left &= left - 1) {
        const int k = __builtin_ctz(left);
        m.result[k] = what == collective::SHUFFLE ? shuffled(m, warp, lanes, k) : bits;
    }
    for (unsigned left = lanes == ~0U ? 0 : lanes; left != 0; left &= left - 1) {
        states[warp * WARP + __builtin_ctz(left)] = FIBER_READY;
    }
    memset(&states[warp * WARP], FIBER_READY, lanes == ~0U ? WARP : 0);
    m.lanes &= ~lanes;
    if (what == collective::MULTIPLY) {
        group_multiply(m, lanes);
    }
    who.n = 0;
    for (unsigned left = what == collective::SYNC ? lanes : 0; left != 0; left &= left - 1) {
        who.of[who.n++] = of_thread[warp * WARP + __builtin_ctz(left)];
    }
    if (what == collective::SYNC) {
        group_join(&who, &sync_lanes[warp * WARP + __builtin_ctz(m.mask[l])]);
    }
    return true;
}

uint64_t meet(place where, collective what, unsigned mask, uint64_t value, int from)
{
    fiber *f = fiber_current;
    const int warp = f->warp, l = f->lane;
    meeting &m = meeting_of[warp];
    f->where = where;
    f->n_met++;
    m.mask[l] = mask;
    m.line[l] = (unsigned)where.line;
    m.what[l] = (unsigned)what;
    m.from[l] = from;
    m.value[l] = value;
    m.lanes |= 1U << l;
    states[warp * WARP + l] = FIBER_AT_COLLECTIVE;
    if ((mask & live[warp] & ~m.lanes) != 0 || !meet_complete(warp, l)) {
        fiber_wait();
    }
    return m.result[l];
}

/* --- copies beside the kernel --- */

late_copies *copies()
{
    fiber *f = fiber_current;
    if (f->copies == nullptr) {
        f->copies = &late_copies_of[f - fibers];
        f->copies->n = f->copies->n_commit = 0;
    }
    return f->copies;
}

void copy_begin(place where, float *to, const float *from, int n_float, bool is_there)
{
    late_copies *late = copies();
    if (late->n == EMULATOR_COPIES_MOST) {
        die("%s:%d: more than %d copies that are not waited for", where.file, where.line, EMULATOR_COPIES_MOST);
    }
    if (((uintptr_t)to | (is_there ? (uintptr_t)from : 0)) % (4 * (unsigned)n_float) != 0) {
        die("%s:%d: a copy of %d bytes from %p to %p", where.file, where.line, 4 * n_float, (const void *)from,
            (void *)to);
    }
    late->of[late->n++] = {to, from, n_float, late->n_commit, is_there};
}

/* --- shared memory: an allocation for each array, of exactly its bytes --- */

struct shared_array {
    void *at;
    size_t n_bytes;
};
static std::map<const void *, shared_array> arrays;

size_t shared_bytes()
{
    size_t sum = 0;
    for (auto &array : arrays) {
        sum += array.second.n_bytes;
    }
    return sum;
}

long shared_place(const void *at)
{
    for (auto &array : arrays) {
        if ((size_t)((const char *)at - (const char *)array.second.at) < array.second.n_bytes) {
            return (const char *)at - (const char *)array.second.at;
        }
    }
    return -1;
}

void *shared(const void *key, size_t n_bytes)
{
    tsan_ignore_writes(true);
    shared_array &array = arrays[key];
    if (array.at == nullptr) {
        array = {malloc(n_bytes), n_bytes};
        memset(array.at, 0xff, n_bytes); /* NaNs */
        if (shared_bytes() > SHARED_BYTES_MOST) {
            die("%zu bytes of shared memory in a block, at most %d", shared_bytes(), SHARED_BYTES_MOST);
        }
    }
    tsan_ignore_writes(false);
    return array.at;
}

static void shared_release()
{
    tsan_ignore_writes(true);
    for (auto &array : arrays) {
        free(array.second.at);
    }
    arrays.clear();
    tsan_ignore_writes(false);
}

/* --- blocks --- */

/* Say where the threads are, and end. */
[[noreturn]] static void stuck(const char *kernel)
{
    std::map<std::string, int> counts;
    for (int t = 0; t < n_thread; t++) {
        const fiber *f = of_thread[t];
        char text[256] = "ended";
        if (*f->state == FIBER_AT_BARRIER) {
            snprintf(text, sizeof text, "barrier at %s:%d", f->where.file, f->where.line);
        } else if (*f->state == FIBER_AT_COLLECTIVE) {
            snprintf(text, sizeof text, "collective at %s:%d, mask %08x", f->where.file, f->where.line,
                     meeting_of[f->warp].mask[f->lane]);
        }
        counts[text]++;
    }
    for (auto &count : counts) {
        fprintf(stderr, "emulator: %d threads: %s\n", count.second, count.first.c_str());
    }
    die("%s, block %u %u: threads wait for each other", kernel, block_index.x, block_index.y);
}

static void block_begin()
{
    n_live = n_thread;
    n_at_barrier = 0;
    for (int t = 0; t < n_thread; t++) {
        fiber *f = of_thread[t];
        unsigned i = (unsigned)t;
        f->index = dim3(i % block_dim.x, i / block_dim.x % block_dim.y, i / block_dim.x / block_dim.y);
        f->lane = t % WARP;
        f->warp = t / WARP;
        f->state = &states[t];
        *f->state = FIBER_READY;
        f->n_met = 0;
        f->copies = nullptr;
        live[f->warp] = f->lane == 0 ? 1 : live[f->warp] | 1U << f->lane;
        meeting_of[f->warp].lanes = 0;
    }
}

/* Every thread that has not ended waits at a barrier: at the same one, or none can go on. */
static void barrier_pass(const char *kernel)
{
    who.n = 0;
    for (int t = 0; t < n_thread; t++) {
        fiber *f = of_thread[t];
        if (*f->state != FIBER_AT_BARRIER) {
            continue;
        }
        if (who.n > 0 && f->where.line != who.of[0]->where.line) {
            stuck(kernel);
        }
        who.of[who.n++] = f;
    }
    for (int i = 0; i < who.n; i++) {
        *who.of[i]->state = FIBER_READY;
    }
    n_at_barrier = 0;
    group_join(&who, &sync_block[n_block_run % N_SYNC]);
}

/* The warp whose places begin here runs. */
static void warp_take(int begin)
{
    run_begin = run_end = run_at = begin;
    n_idle = 0;
    while (run_end < n_thread && order_run[run_end] / WARP == order_run[begin] / WARP) {
        run_end++;
    }
}

/* The next lane of this warp that is ready, or else of the warps that have not had their turn. */
fiber *fiber_next()
{
    fiber *f = fiber_current;
    if (f != nullptr && *f->state == FIBER_ENDED) {
        live[f->warp] &= ~(1U << f->lane);
        n_live--;
    }
    for (; run_begin < n_thread; warp_take(run_end)) {
        while (n_idle < run_end - run_begin) {
            const int t = order_run[run_at];
            run_at = run_at + 1 < run_end ? run_at + 1 : run_begin;
            if (states[t] == FIBER_READY) {
                n_idle = 0;
                return of_thread[t];
            }
            n_idle++;
        }
    }
    return nullptr;
}

/* Each thread that is ready, until it waits. Did any run? */
static bool threads_run()
{
    warp_take(0);
    fiber *first = fiber_next();
    if (first != nullptr) {
        fiber_run(first);
    }
    return first != nullptr;
}

static void block_run(const char *kernel)
{
    while (n_live > 0) {
        bool moved = threads_run();
        if (n_live > 0 && n_at_barrier == n_live) {
            barrier_pass(kernel);
            continue;
        }
        for (int t = 0; t < n_thread && !moved; t++) { /* lanes that were waited for have ended */
            moved = states[t] == FIBER_AT_COLLECTIVE && meet_complete(t / WARP, t % WARP);
        }
        if (n_live > 0 && !moved) {
            stuck(kernel);
        }
    }
}

static void block_end(const void *code, bool is_last)
{
    if (block_watch != nullptr) {
        block_watch(code, is_last);
    }
    shared_release();
}

static void sizes_check(const char *kernel, dim3 grid, dim3 block)
{
    uint64_t n = (uint64_t)block.x * block.y * block.z;
    if (n < 1 || n > FIBER_N_MOST || grid.x < 1 || grid.x > 0x7fffffffU || grid.y < 1 || grid.y > 65535 ||
        grid.z != 1) {
        die("%s: launched with grid %u %u %u, block %u %u %u", kernel, grid.x, grid.y, grid.z, block.x, block.y,
            block.z);
    }
}

/* Threads know what the host did before the grid, and after it the host what they did: in no block what another did. */
static void threads_tell(void (*tell)(void *), void *at)
{
    for (int t = 0; t < n_thread; t++) {
        tsan_become(fibers[t].tsan);
        tell(at);
    }
    tsan_become(fiber_home());
}

/* The threads in this order, but those of a warp follow its first one. */
static void warps_gather(const std::vector<int> &threads)
{
    int n = 0, place[FIBER_N_MOST / WARP];
    bool is_met[FIBER_N_MOST / WARP] = {};
    for (int t : threads) {
        if (!is_met[t / WARP]) {
            is_met[t / WARP] = true;
            place[t / WARP] = n;
            n += std::min(WARP, n_thread - t / WARP * WARP);
        }
        order_run[place[t / WARP]++] = t;
    }
}

void grid_run(const char *kernel, const void *code, dim3 grid, dim3 block, const std::function<void()> &body)
{
    unsigned g = n_grid_run++;
    uint64_t *begun = &sync_begun[g % N_SYNC], *ended = &sync_ended[g % N_SYNC];
    sizes_check(kernel, grid, block);
    grid_dim = grid;
    block_dim = block;
    n_thread = (int)(block.x * block.y * block.z);
    fiber_body(&body);
    for (int t = 0; t < n_thread; t++) {
        fiber_open(&fibers[t]);
    }
    std::vector<int> blocks((size_t)grid.x * grid.y), threads((size_t)n_thread);
    for (size_t b = 0; b < blocks.size(); b++) {
        blocks[b] = (int)b;
    }
    order_arrange(blocks, 1);
    tsan_release(begun);
    threads_tell(tsan_acquire, begun);
    for (int b : blocks) {
        block_index = dim3((unsigned)b % grid.x, (unsigned)b / grid.x);
        for (int t = 0; t < n_thread; t++) {
            of_thread[t] = &fibers[(t + b + (int)(g % 997)) %
                                   n_thread]; /* not the fiber of this thread in other blocks and grids */
            threads[(size_t)t] = t;
        }
        order_arrange(threads, 2 + (unsigned)b);
        warps_gather(threads);
        n_block_run++;
        block_begin();
        block_run(kernel);
        block_end(code, b == blocks.back());
    }
    threads_tell(tsan_release, ended);
    tsan_acquire(ended);
}

} // namespace emulator
