/* Each load and store of a kernel calls one of the functions below: g++ -fsanitize=thread puts the calls there, without
 * the sanitizer's run time. Those of device and shared memory are kept, and when a block has ended they are put together
 * to the instructions of its warps: the k-th time that lanes come to a place in the code between two of their barriers
 * or collectives is one instruction.
 *
 *   sectors      aligned 32 bytes of global memory that an instruction touches
 *   least        ceil(bytes / 32) of it, bytes that several lanes touch counted once: the same bytes side by side, from
 *                the beginning of a sector on
 *   wavefronts   rounds of shared memory: an instruction takes 4 bytes of all lanes, 8 of half or 16 of a quarter of
 *                them at a time, each in as many rounds as the busiest of 32 banks has different words of 4 bytes
 *   least        ceil(different words / 32) of it
 */
#include "tests/emulator/sectors/count.h"
#include "tests/emulator/fiber.h"

#include <algorithm>
#include <bitset>
#include <cstdio>
#include <dlfcn.h>
#include <map>
#include <string>
#include <unordered_map>

#define SECTOR 32
#define PAGE_SECTORS 128
#define STACK_BYTES_MOST (256 * 1024) /* as fiber.cpp has it */
#define LANE_BITS 5
#define WARP_BITS 5
#define PLACE_BITS 16

namespace emulator
{

struct place_in_code {
    const void *at;
    uint64_t n_bytes;
    bool is_shared, is_write, is_atomic;
    uint64_t asked, least; /* sectors or wavefronts */
};

/* One lane's; key: place, warp, barriers and collectives before it, lane. */
struct touch {
    uint64_t key, at;
};

struct kernel_count {
    unsigned n_thread;
    size_t n_shared_byte;
    uint64_t n_launch, sectors, least, n_byte, n_touched, wavefronts, wavefronts_least, n_atomic;
    std::vector<place_in_code> places;
};

static std::string name;
static std::map<const void *, kernel_count> kernels;
static std::vector<touch> touches;                                    /* of this block */
static std::vector<place_in_code> places;                             /* of this grid */
static std::unordered_map<uint64_t, uint64_t> numbers;                /* of these places */
static std::unordered_map<uint64_t, std::bitset<PAGE_SECTORS>> pages; /* sectors read, and written, in this grid */

/* A lane's load or store of n bytes. */
static void touched(const void *code, const void *at, uint64_t n_bytes, bool is_write, bool is_atomic = false)
{
    const fiber *f = fiber_current;
    const uintptr_t above = (uintptr_t)at - (uintptr_t)__builtin_frame_address(0);
    if (f == nullptr || block_watch == nullptr || above < STACK_BYTES_MOST) { /* a variable of the thread */
        return;
    }
    const long shared = shared_place(at);
    if (shared < 0 && !on_device(at)) { /* an argument, or the emulator's */
        return;
    }
    const auto found = numbers.try_emplace((uint64_t)code << 16 ^ n_bytes << 1 ^ (shared >= 0), places.size());
    if (found.second) {
        places.push_back({code, n_bytes, shared >= 0, is_write, is_atomic, 0, 0});
        if (places.size() >> PLACE_BITS != 0) {
            die("more places that touch memory than are counted");
        }
    }
    const uint64_t met = f->n_met << (PLACE_BITS + WARP_BITS + LANE_BITS) >> (PLACE_BITS + WARP_BITS);
    touches.push_back({found.first->second << (64 - PLACE_BITS) | (uint64_t)f->warp << (64 - PLACE_BITS - WARP_BITS) |
                           met | (uint64_t)f->lane,
                       shared >= 0 ? (uint64_t)shared : (uint64_t)at});
}

/* One instruction of a warp: what its lanes touch, a lane once. */
static void global_add(kernel_count *kernel, place_in_code *place, std::vector<touch> *lanes)
{
    uint64_t n_sector = 0, n_byte = 0, end = 0, next = 0;
    std::sort(lanes->begin(), lanes->end(), [](const touch &a, const touch &b) { return a.at < b.at; });
    for (const touch &lane : *lanes) {
        const uint64_t stop = lane.at + place->n_bytes;
        n_byte += stop > end ? stop - std::max(end, lane.at) : 0;
        end = std::max(end, stop);
        for (uint64_t sector = std::max(next, lane.at / SECTOR); sector <= (stop - 1) / SECTOR; sector++) {
            n_sector++;
            next = sector + 1;
            std::bitset<PAGE_SECTORS> &page = pages[sector / PAGE_SECTORS * 2 + place->is_write];
            kernel->n_touched += !page[sector % PAGE_SECTORS];
            page[sector % PAGE_SECTORS] = true;
        }
    }
    place->asked += n_sector;
    place->least += (n_byte + SECTOR - 1) / SECTOR;
    kernel->n_byte += n_byte;
    kernel->n_atomic += place->is_atomic ? lanes->size() : 0;
}

static void shared_add(place_in_code *place, const std::vector<touch> &lanes)
{
    const int n_at_once = place->n_bytes <= 4 ? 32 : place->n_bytes <= 8 ? 16 : 8;
    for (int first = 0; first < 32; first += n_at_once) {
        std::vector<uint64_t> words;
        int n_of_bank[32] = {}, busiest = 0;
        for (const touch &lane : lanes) {
            const int l = (int)(lane.key % 32);
            for (uint64_t w = lane.at / 4;
                 l / n_at_once * n_at_once == first && w <= (lane.at + place->n_bytes - 1) / 4; w++) {
                words.push_back(w);
            }
        }
        std::sort(words.begin(), words.end());
        words.erase(std::unique(words.begin(), words.end()), words.end());
        for (uint64_t w : words) {
            busiest = std::max(busiest, ++n_of_bank[w % 32]);
        }
        place->asked += (uint64_t)busiest;
        place->least += (words.size() + 31) / 32;
    }
}

/* The touches of one place by one warp between two barriers or collectives, lane by lane: the k-th of each lane. */
static void instructions_add(kernel_count *kernel, const touch *first, const touch *end)
{
    place_in_code *place = &places[first->key >> (64 - PLACE_BITS)];
    static std::vector<touch> lanes;
    const touch *of_lane[33];
    int n_lane = 0;
    for (const touch *t = first; t < end; t++) {
        if (t == first || t->key != t[-1].key) {
            of_lane[n_lane++] = t;
        }
    }
    of_lane[n_lane] = end;
    for (ptrdiff_t k = 0; k == 0 || !lanes.empty(); k++) {
        lanes.clear();
        for (int l = 0; l < n_lane; l++) {
            if (of_lane[l + 1] - of_lane[l] > k) {
                lanes.push_back(of_lane[l][k]);
            }
        }
        if (place->is_shared) {
            shared_add(place, lanes);
        } else {
            global_add(kernel, place, &lanes);
        }
    }
}

static void block_count(const void *code, bool is_last)
{
    kernel_count &kernel = kernels[code];
    std::stable_sort(touches.begin(), touches.end(), [](const touch &a, const touch &b) { return a.key < b.key; });
    const touch *end = touches.data() + touches.size();
    for (const touch *first = touches.data(), *next; first < end; first = next) {
        for (next = first; next < end && next->key >> LANE_BITS == first->key >> LANE_BITS; next++) {
        }
        instructions_add(&kernel, first, next);
    }
    touches.clear();
    kernel.n_shared_byte = std::max(kernel.n_shared_byte, shared_bytes());
    if (!is_last) {
        return;
    }
    kernel.n_thread = block_dim.x * block_dim.y * block_dim.z;
    kernel.n_launch++;
    for (const place_in_code &place : places) {
        (place.is_shared ? kernel.wavefronts : kernel.sectors) += place.asked;
        (place.is_shared ? kernel.wavefronts_least : kernel.least) += place.least;
        kernel.places.push_back(place);
    }
    places.clear();
    numbers.clear();
    pages.clear();
}

} // namespace emulator

using namespace emulator;

extern "C" {

void count_begin(const char *what)
{
    name = what;
    kernels.clear();
    block_watch = block_count;
}

void count_print(int by_place)
{
    for (auto &of : kernels) {
        const kernel_count &k = of.second;
        Dl_info info;
        const bool known = dladdr(of.first, &info) != 0 && info.dli_sname != nullptr;
        printf("%s\t%s\t%u\t%zu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\n", name.c_str(),
               known ? info.dli_sname : "?", k.n_thread, k.n_shared_byte, k.n_launch, k.sectors, k.least, k.n_byte,
               k.n_touched, k.wavefronts, k.wavefronts_least, k.n_atomic);
        for (size_t i = 0; by_place && i < k.places.size(); i++) {
            const place_in_code &place = k.places[i];
            printf("\t%s\t0x%lx\t%lu\t%lu\t%lu\n", place.is_shared ? "shared" : "global",
                   (unsigned long)((const char *)place.at - (const char *)info.dli_fbase - 1), place.n_bytes,
                   place.asked, place.least);
        }
    }
}

#define HERE __builtin_return_address(0)
#define TOUCHES(n)                                                                                                   \
    void __tsan_read##n(const void *at)                                                                              \
    {                                                                                                                \
        touched(HERE, at, n, false);                                                                                 \
    }                                                                                                                \
    void __tsan_write##n(const void *at)                                                                             \
    {                                                                                                                \
        touched(HERE, at, n, true);                                                                                  \
    }
TOUCHES(1)
TOUCHES(2)
TOUCHES(4)
TOUCHES(8)
TOUCHES(16)

void __tsan_read_range(const void *at, size_t n_bytes)
{
    touched(HERE, at, n_bytes, false);
}

void __tsan_write_range(const void *at, size_t n_bytes)
{
    touched(HERE, at, n_bytes, true);
}

/* atomicAdd's */
uint64_t __tsan_atomic64_fetch_add(uint64_t *at, uint64_t by, int)
{
    touched(HERE, at, sizeof *at, true, true);
    return __atomic_fetch_add(at, by, __ATOMIC_RELAXED);
}

unsigned __tsan_atomic32_fetch_add(unsigned *at, unsigned by, int)
{
    touched(HERE, at, sizeof *at, true, true);
    return __atomic_fetch_add(at, by, __ATOMIC_RELAXED);
}

/* Of atomicMax's, where it changes anything. */
int __tsan_atomic32_compare_exchange_strong(unsigned *at, unsigned *before, unsigned to, int, int)
{
    touched(HERE, at, sizeof *at, true, true);
    return __atomic_compare_exchange_n(at, before, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void __tsan_init()
{
}

void __tsan_func_entry(void *)
{
}

void __tsan_func_exit()
{
}

void __tsan_vptr_update(void **, void *)
{
}
}
