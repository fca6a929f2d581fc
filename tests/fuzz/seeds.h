/* Texts as a fuzzer's first inputs, in its corpus folder, which is its last argument. */
#ifndef TESTS_FUZZ_SEEDS_H
#define TESTS_FUZZ_SEEDS_H

#include <stdio.h>
#include <sys/stat.h>

static inline void seeds_write(int argc, char *const *argv, const char *const *texts, size_t n_text)
{
    const char *folder = argv[argc - 1];
    struct stat info;
    if (argc < 2 || stat(folder, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return;
    }
    for (size_t i = 0; i < n_text; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/seed-%zu", folder, i);
        FILE *file = fopen(path, "w");
        if (file != NULL) {
            fputs(texts[i], file);
            fclose(file);
        }
    }
}

#endif
