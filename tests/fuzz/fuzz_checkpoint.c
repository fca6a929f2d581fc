/* Any bytes as a checkpoint: refused, or decoded to pointers inside the bytes. Tried as they are, and with valid checksums, since
 * hardly any input would pass them. */
#include "protocol/base/log.h"
#include "trainerd/coordinator/folder/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* The head, as checkpoint.c writes it: 16 bytes, 7 × (length, hash), 56 reserved, hash of the head. */
enum { HEAD_BYTES = 192, N_SECTION = 7, BORDER = 64 };

static void put(uint8_t *at, uint64_t value)
{
    memcpy(at, &value, sizeof value);
}

static void repair(uint8_t *bytes, size_t n)
{
    size_t at = HEAD_BYTES;
    if (n < HEAD_BYTES) {
        return;
    }
    for (int i = 0; i < N_SECTION; i++) {
        uint64_t n_section;
        memcpy(&n_section, bytes + 16 + 16 * i, sizeof n_section);
        if (at > n || n_section > n - at) {
            break;
        }
        put(bytes + 24 + 16 * i, XXH3_64bits(bytes + at, n_section));
        at += (n_section + BORDER - 1) / BORDER * BORDER;
    }
    put(bytes + HEAD_BYTES - 8, XXH3_64bits(bytes, HEAD_BYTES - 8));
}

static void try_one(const uint8_t *bytes, size_t n)
{
    struct checkpoint read;
    if (checkpoint_decode(bytes, n, "input", &read) != STATUS_OK) {
        return;
    }
    const uint8_t *end = bytes + n;
    ASSERT((const uint8_t *)read.job + read.n_job <= end && read.n_float[CHECKPOINT_ARRAY_WEIGHTS] > 0);
    for (int i = 0; i < CHECKPOINT_ARRAY_N; i++) {
        ASSERT(read.array[i] == NULL || (const uint8_t *)(read.array[i] + read.n_float[i]) <= end);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n > 0 ? n : 1);
    ASSERT(copy != NULL);
    memcpy(copy, bytes, n);
    try_one(copy, n);
    repair(copy, n);
    try_one(copy, n);
    free(copy);
    return 0;
}
