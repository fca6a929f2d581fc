/* Any bytes as a pickled matrix, behind a .npy head: refused, or three arrays of the lengths that they claim. */
#include "partition/files/pickle_csr.h"
#include "protocol/base/log.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *bytes = malloc(10 + n_bytes);
    memcpy(bytes, "\x93NUMPY\x01\x00\x00\x00", 10);
    memcpy(bytes + 10, data, n_bytes);
    struct csr csr;
    if (pickle_csr_read("input", bytes, 10 + n_bytes, &csr) == STATUS_OK) {
        ASSERT(csr.n_row >= 0 && csr.n_column >= 0);
        if (csr.indices.n_value > 0 && npy_is_integer(&csr.indices)) {
            volatile int64_t last = npy_int(&csr.indices, csr.indices.n_value - 1);
            (void)last;
        }
        csr_release(&csr);
    }
    free(bytes);
    return 0;
}
