#include "protocol/base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

void clock_boot_id(char out[CLOCK_BOOT_BYTES])
{
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, out, CLOCK_BOOT_BYTES - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, " \n")] = '\0';
    if (out[0] == '\0') {
        snprintf(out, CLOCK_BOOT_BYTES, "-");
    }
}
