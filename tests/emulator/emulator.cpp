/* Knobs, the end, ThreadSanitizer. */
#include "tests/emulator/emulator.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <sstream>
#include <string>

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

/* The number of a GPU by its number or UUID, which ends in it; -1: there is none, or it is seen already. */
static int gpu_find(const std::string &name, int n_all, const std::vector<int> &seen)
{
    const bool is_uuid = name.compare(0, 4, "GPU-") == 0;
    char *end = nullptr;
    const size_t digits = is_uuid && name.size() > 12 ? name.size() - 12 : 0;
    const long number = strtol(name.c_str() + digits, &end, is_uuid ? 16 : 10);
    const bool is_there = !name.empty() && *end == 0 && number >= 0 && number < n_all;
    return is_there && std::find(seen.begin(), seen.end(), (int)number) == seen.end() ? (int)number : -1;
}

/* As CUDA, up to the first name that is wrong. */
static std::vector<int> gpus_seen()
{
    const char *all = getenv("EMULATOR_GPUS"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    const int n_all = all != nullptr ? atoi(all) : 1;
    std::vector<int> seen;
    if (visible == nullptr) {
        seen.resize((size_t)n_all);
        std::iota(seen.begin(), seen.end(), 0);
        return seen;
    }
    std::istringstream names(visible);
    int number = 0;
    for (std::string name; std::getline(names, name, ',') && (number = gpu_find(name, n_all, seen)) >= 0;) {
        seen.push_back(number);
    }
    return seen;
}

const std::vector<int> &gpus()
{
    static const std::vector<int> seen = gpus_seen();
    return seen;
}

size_t n_byte(const char *knob, size_t otherwise)
{
    const char *text = getenv(knob);
    return text != nullptr ? (size_t)atoll(text) : otherwise;
}

void *function_find(const std::vector<named> &all, const char *name, const char *knob)
{
    const char *text = getenv(knob);
    for (const named &one : all) {
        if (strcmp(one.name, name) == 0 && (text == nullptr || strcmp(text, "0") != 0)) {
            return one.function;
        }
    }
    return nullptr;
}

} // namespace emulator
