/* Readers that take a path read the fuzzer's input from a file in memory. */
#ifndef TESTS_FUZZ_INPUT_FILE_H
#define TESTS_FUZZ_INPUT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A path that names a file of these bytes until the next call. */
static inline const char *input_file(const uint8_t *data, size_t n_bytes)
{
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("input", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (ftruncate(file, 0) != 0 || pwrite(file, data, n_bytes, 0) != (ssize_t)n_bytes) {
        abort();
    }
    return path;
}

#endif
