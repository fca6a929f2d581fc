/* Knobs, the end, ThreadSanitizer. */
#include "tests/emulator/emulator.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace emulator
{

void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("emulator: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    abort();
}

long order()
{
    static const char *text = getenv("EMULATOR_ORDER");
    return text == nullptr || strcmp(text, "up") == 0 ? 0 : strcmp(text, "down") == 0 ? -1 : atol(text) + 1;
}

void order_arrange(std::vector<int> &list, unsigned salt)
{
    if (order() < 0) {
        std::reverse(list.begin(), list.end());
    } else if (order() > 0) {
        std::shuffle(list.begin(), list.end(), std::mt19937((unsigned)order() * 7919U + salt));
    }
}

bool is_protected()
{
    static const bool is = getenv("EMULATOR_PROTECT") != nullptr;
    return is;
}

bool is_eager()
{
    static const bool is = getenv("EMULATOR_EAGER") != nullptr;
    return is;
}

bool is_unified()
{
    static const bool is = getenv("EMULATOR_UNIFIED") != nullptr;
    return is;
}

int n_gpu()
{
    static const char *text = getenv("EMULATOR_GPUS");
    return text != nullptr ? atoi(text) : 1;
}

size_t n_byte(const char *knob, size_t otherwise)
{
    const char *text = getenv(knob);
    return text != nullptr ? (size_t)atoll(text) : otherwise;
}

} // namespace emulator

#ifdef EMULATOR_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreWritesBegin(const char *file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char *file, int line);

namespace emulator
{

void *tsan_self()
{
    return __tsan_get_current_fiber();
}

void *tsan_new()
{
    return __tsan_create_fiber(0);
}

void tsan_become(void *fiber)
{
    __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
}

void tsan_release(void *at)
{
    __tsan_release(at);
}

void tsan_acquire(void *at)
{
    __tsan_acquire(at);
}

void tsan_ignore_writes(bool ignore)
{
    (ignore ? AnnotateIgnoreWritesBegin : AnnotateIgnoreWritesEnd)(__FILE__, __LINE__);
}

} // namespace emulator
#else
namespace emulator
{

void *tsan_self()
{
    return nullptr;
}

void *tsan_new()
{
    return nullptr;
}

void tsan_become(void *)
{
}

void tsan_release(void *)
{
}

void tsan_acquire(void *)
{
}

void tsan_ignore_writes(bool)
{
}

} // namespace emulator
#endif
