#include "protocol/clock.h"

#include <time.h>

double clock_wall_shift_s;

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_s(void)
{
    return seconds(CLOCK_MONOTONIC);
}

double clock_wall_s(void)
{
    return seconds(CLOCK_REALTIME) + clock_wall_shift_s;
}

double clock_boot_s(void)
{
    return seconds(CLOCK_BOOTTIME);
}

int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t clock_ms(void)
{
    return (uint64_t)clock_ns() / 1000000;
}
